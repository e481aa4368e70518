//! One server in the eyes of those who asked for it alone: its own names and URIs, as if there were no other server and nothing
//! built in.
//!
//! Who may see what of it was decided before: this is made of what somebody sees of the whole. What is rendered and named anew is kept
//! with the offer that it was made of, so a commit of one server makes nothing of another anew.

use std::sync::Arc;

use tidings_proto::{ListKind, PublicName, UriMap};

use super::RenderedOffer;
use crate::catalogue::limited::SnapshotParts;
use crate::catalogue::names::{NameTable, ShownNames};
use crate::catalogue::offer::ServerOffer;
use crate::catalogue::owners::UriOwners;
use crate::catalogue::{CatalogueSnapshot, PerView};

/// How many of one snapshot are kept. There are as many as there are servers that somebody asks for alone; more are made each time.
const KEPT: usize = 1024;

/// A server's offer under its own names, with the tables of these.
#[derive(Debug)]
pub(in crate::catalogue) struct AloneOffer {
    rendered: Arc<RenderedOffer>,
    tools: NameTable,
    prompts: NameTable,
    owners: UriOwners,
}

impl AloneOffer {
    pub(in crate::catalogue) fn new(offer: &ServerOffer) -> Self {
        // Listed whatever `expose` says: what would find its tools is not there.
        let offer = ServerOffer { bare: true, uris: UriMap::Transparent, listed: true, ..offer.clone() };
        let offers = [Arc::new(offer)];
        let (tools, _) = NameTable::new(&offers, ListKind::Tools);
        let (prompts, _) = NameTable::new(&offers, ListKind::Prompts);
        let [offer] = offers;
        let own = |kind: ListKind| -> ShownNames {
            offer.list(kind).items.iter().map(|item| PublicName::unchanged(&item.key)).collect()
        };
        let (tool_names, prompt_names) = (own(ListKind::Tools), own(ListKind::Prompts));
        let mut owners = UriOwners::default();
        owners.update(None, Some(&offer));
        let rendered = Arc::new(RenderedOffer::new(offer, tool_names, prompt_names));
        Self { rendered, tools, prompts, owners }
    }
}

impl CatalogueSnapshot {
    /// What those who see this see of one server, when they ask for it alone; nothing where they do not see it.
    pub(in crate::catalogue) fn alone(self: &Arc<Self>, server: &str) -> Arc<Self> {
        // Held while it is made, so that it is made once.
        let mut known = self.parts.alone.lock();
        if let Some((_, part)) = known.iter().find(|(of, _)| **of == *server) {
            return Arc::clone(part);
        }
        let part = Arc::new(self.part_alone(server));
        if known.len() < KEPT {
            known.push((server.into(), Arc::clone(&part)));
        }
        part
    }

    fn part_alone(&self, server: &str) -> Self {
        // A configured server may have the name of a built-in one, which nobody can ask for alone.
        let place = self.offers.iter().position(|offer| *offer.name == *server && !offer.built_in);
        let of = place.map(|place| &self.rendered[place]);
        // The tables have what may be used and is not seen, too: whether it may is asked of the limits.
        let named = of.map(|of| of.source.as_ref().and_then(|source| source.whole()).unwrap_or_else(|| Arc::clone(of)));
        let (tools, prompts, owners) = match named.as_ref().map(|named| named.alone()) {
            Some(AloneOffer { tools, prompts, owners, .. }) => (tools.clone(), prompts.clone(), owners.clone()),
            None => Default::default(),
        };
        let rendered: Vec<Arc<RenderedOffer>> = of.map(|of| Arc::clone(&of.alone().rendered)).into_iter().collect();
        Self {
            offers: rendered.iter().map(|of| Arc::clone(&of.offer)).collect(),
            rendered,
            tools,
            prompts,
            owners,
            view: self.view,
            listings: PerView::default(),
            digests: PerView::default(),
            // The tables know no other server; but with limits they have what is not to be seen.
            limited: self.limits.is_some(),
            alone: true,
            parts: SnapshotParts::default(),
            policy: self.policy.clone(),
            limits: self.limits.as_ref().map(|limits| limits.of_place(place)),
            short_names: None,
        }
    }
}
