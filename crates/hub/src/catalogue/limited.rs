//! The catalogue in the eyes of those who may not use every server, or not all of each.
//!
//! Names and URIs are made once, over all servers: what two people see has the same name for both. So a part of a
//! snapshot shares its tables and renderings with the whole, and is made when somebody first looks. In a call, spellings
//! that are understood when they are unique have to be unique only among what the caller may use: it can not be told
//! that there is another.

use std::sync::Arc;

use tidings_sync::Lock;

use super::rendered::RenderedOffer;
use super::rendered::screen::PartLimits;
use super::rendered::shaped::SnapshotShapes;
use super::{CatalogueSnapshot, PerView};
use crate::policy::AccessPolicy;
use crate::scope::AccessScope;

/// How many parts of one snapshot are kept. There are as many as there are different rights; more are made each time.
const KEPT: usize = 256;
/// The same where rules tell people apart.
const KEPT_CLASSES: usize = 1024;

/// The parts of a snapshot that somebody wanted; nothing stands for all of it.
#[derive(Debug, Default)]
pub(super) struct SnapshotParts {
    by_rights: Lock<Vec<(AccessScope, Option<Arc<CatalogueSnapshot>>)>>,
    /// By the number of the class; empty where no policy is in force.
    by_class: Lock<Vec<ClassPart>>,
    /// By the name of the only server that is seen.
    pub(super) alone: Lock<Vec<(Box<str>, Arc<CatalogueSnapshot>)>>,
    /// By what a client's profile makes of it.
    pub(super) shapes: SnapshotShapes,
}

/// What a class sees.
#[derive(Clone, Debug)]
enum ClassPart {
    /// Nobody of it has looked yet.
    Unknown,
    /// Nothing is left out. Said by a word: a snapshot that held itself would never go.
    Whole,
    Part(Arc<CatalogueSnapshot>),
}

impl CatalogueSnapshot {
    /// What somebody sees of it.
    pub fn seen_by(self: &Arc<Self>, scope: &AccessScope) -> Arc<Self> {
        if let Some(server) = scope.alone() {
            return self.seen_by(scope.base()).alone(server);
        }
        if let Some(policy) = &self.policy
            && policy.is_enforced()
        {
            return self.seen_by_class(policy, scope);
        }
        if scope.is_everything() {
            return Arc::clone(self);
        }
        // Held while a part is made, so that two callers with the same rights do not both make it.
        let mut parts = self.parts.by_rights.lock();
        if let Some((_, part)) = parts.iter().find(|(of, _)| of.same_rights(scope)) {
            // Rights that leave nothing out share the whole snapshot, with its rendered lists.
            return Arc::clone(part.as_ref().unwrap_or(self));
        }
        let part = self.part(scope, None).map(Arc::new);
        let seen = Arc::clone(part.as_ref().unwrap_or(self));
        if parts.len() < KEPT {
            parts.push((scope.clone(), part));
        }
        seen
    }

    /// As [`Self::seen_by`], where rules decide.
    fn seen_by_class(self: &Arc<Self>, policy: &Arc<AccessPolicy>, scope: &AccessScope) -> Arc<Self> {
        let class = policy.class(scope);
        let place = class.0 as usize;
        // Held while a part is made, as above.
        let mut parts = self.parts.by_class.lock();
        match parts.get(place) {
            Some(ClassPart::Part(part)) => return Arc::clone(part),
            Some(ClassPart::Whole) => return Arc::clone(self),
            Some(ClassPart::Unknown) | None => {}
        }
        let fitting = policy.fitting_of(class);
        let limits = (!policy.keeps_nothing(&fitting)).then(|| PartLimits::new(policy, fitting));
        let part = self.part(scope, limits).map(Arc::new);
        if place < KEPT_CLASSES {
            let wanted = parts.len().max(place + 1);
            // Classes are numbered as people come, so those before this one may not have looked yet.
            parts.resize(wanted, ClassPart::Unknown);
            parts[place] = part.clone().map_or(ClassPart::Whole, ClassPart::Part);
        }
        part.unwrap_or_else(|| Arc::clone(self))
    }

    /// `None` when nothing is left out.
    fn part(&self, scope: &AccessScope, mut limits: Option<PartLimits>) -> Option<Self> {
        // What was left out stays out: a part is of one class, and whoever has it is of that.
        if self.limits.is_some() {
            return None;
        }
        let may_use = |of: &&Arc<RenderedOffer>| scope.permits(of.offer.audience, &of.offer.name);
        // With limits it is a part even where nothing is hidden: what may be used is asked of them.
        if limits.is_none() && self.rendered.iter().all(|of| may_use(&of)) {
            return None;
        }
        let mine = self.rendered.iter().filter(may_use);
        let rendered: Vec<Arc<RenderedOffer>> = match &mut limits {
            Some(limits) => mine.filter_map(|of| limits.take(of)).collect(),
            None => mine.cloned().collect(),
        };
        Some(Self { limited: true, alone: false, limits, short_names: None, ..self.showing(rendered) })
    }

    /// The same names for other renderings of the same offers, or of some of them.
    pub(super) fn showing(&self, rendered: Vec<Arc<RenderedOffer>>) -> Self {
        Self {
            offers: rendered.iter().map(|of| Arc::clone(&of.offer)).collect(),
            rendered,
            // The names of hidden servers stay in the table, so that a visible item has one name for everybody (ADR
            // 13).
            tools: self.tools.clone(),
            prompts: self.prompts.clone(),
            owners: self.owners.clone(),
            view: self.view,
            listings: PerView::default(),
            digests: PerView::default(),
            limited: self.limited,
            alone: self.alone,
            parts: SnapshotParts::default(),
            // Rules that are only tried are asked about everybody's calls.
            policy: self.policy.clone(),
            limits: self.limits.clone(),
            short_names: None,
        }
    }
}
