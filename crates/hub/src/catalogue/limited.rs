//! The catalogue in the eyes of those who may not use every server.
//!
//! Names and URIs are made once, over all servers: what two people see has the same name for both. So a part of a
//! snapshot shares its tables and renderings with the whole, and is made when somebody first looks. In a call, spellings
//! that are understood when they are unique have to be unique only among what the caller may use: it can not be told
//! that there is another.

use std::sync::Arc;

use tidings_sync::Lock;

use super::{CatalogueSnapshot, PerView};
use crate::ServerId;
use crate::scope::AccessScope;

/// How many parts of one snapshot are kept. There are as many as there are different rights; more are made each time.
const KEPT: usize = 256;

/// The parts of a snapshot that somebody wanted; nothing stands for all of it.
#[derive(Debug, Default)]
pub(super) struct SnapshotParts(Lock<Vec<(AccessScope, Option<Arc<CatalogueSnapshot>>)>>);

impl CatalogueSnapshot {
    /// What somebody sees of it.
    pub fn seen_by(self: &Arc<Self>, scope: &AccessScope) -> Arc<Self> {
        if scope.is_everything() {
            return Arc::clone(self);
        }
        // Held while a part is made, so that two callers with the same rights do not both make it.
        let mut parts = self.parts.0.lock();
        if let Some((_, part)) = parts.iter().find(|(of, _)| of.same_rights(scope)) {
            // Rights that leave nothing out share the whole snapshot, with its rendered lists.
            return Arc::clone(part.as_ref().unwrap_or(self));
        }
        let part = self.part(scope).map(Arc::new);
        let seen = Arc::clone(part.as_ref().unwrap_or(self));
        if parts.len() < KEPT {
            parts.push((scope.clone(), part));
        }
        seen
    }

    /// `None` when nothing is left out.
    fn part(&self, scope: &AccessScope) -> Option<Self> {
        let seen: Vec<bool> = self.offers.iter().map(|offer| scope.permits(offer.audience, &offer.name)).collect();
        if seen.iter().all(|seen| *seen) {
            return None;
        }
        let of = |place: &usize| seen[*place];
        let places: Vec<usize> = (0..seen.len()).filter(of).collect();
        Some(Self {
            offers: places.iter().map(|place| Arc::clone(&self.offers[*place])).collect(),
            rendered: places.iter().map(|place| Arc::clone(&self.rendered[*place])).collect(),
            // The names of hidden servers stay in the table, so that a visible item has one name for everybody (ADR
            // 13).
            tools: self.tools.clone(),
            prompts: self.prompts.clone(),
            owners: self.owners.clone(),
            view: self.view,
            listings: PerView::default(),
            digests: PerView::default(),
            limited: true,
            parts: SnapshotParts::default(),
        })
    }

    /// Whether a server is part of it. The tables of names know nobody else, unless it is limited.
    pub(super) fn has(&self, server: ServerId) -> bool {
        !self.limited || self.place(server).is_some()
    }
}
