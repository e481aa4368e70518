//! What every server offers, as immutable snapshots.
//!
//! A [`ServerOffer`] is one server's lists as it gave them. A [`Snapshot`] merges the offers of all servers, knows both
//! directions of every name, and renders each list once per revision.

mod difference;
mod listing;
mod names;
mod offer;

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use tidings_proto::{ListKind, Revision, View};
use tidings_wire::Digest;

pub use difference::{ChangedItem, Difference, ListChange};
pub use listing::{Listing, Page, PageKey};
pub use names::{NameTable, Route};
pub use offer::{Item, ItemFault, OfferList, ServerOffer};

use crate::ServerId;
use crate::ledger::ViewDigests;

/// A merged catalogue. Never changes; a change makes a new one.
#[derive(Debug)]
pub struct Snapshot {
    offers: Vec<Arc<ServerOffer>>,
    tools: NameTable,
    prompts: NameTable,
    resources: HashMap<Box<str>, ServerId>,
    view: View,
    listings: [[OnceLock<Arc<Listing>>; 5]; 4],
}

impl Snapshot {
    /// Merges offers, which come in the order of the configuration.
    pub fn new(offers: Vec<Arc<ServerOffer>>, view: View) -> Self {
        let tools = NameTable::new(&offers, ListKind::Tools);
        let prompts = NameTable::new(&offers, ListKind::Prompts);
        let mut resources = HashMap::new();
        for offer in &offers {
            for item in &offer.list(ListKind::Resources).items {
                resources.entry(offer.uris.outward(&item.key).into()).or_insert(offer.server);
            }
        }
        Self { offers, tools, prompts, resources, view, listings: Default::default() }
    }

    /// The offers it was made of.
    pub fn offers(&self) -> &[Arc<ServerOffer>] {
        &self.offers
    }

    /// One server's offer.
    pub fn offer(&self, server: ServerId) -> Option<&Arc<ServerOffer>> {
        self.offers.iter().find(|offer| offer.server == server)
    }

    /// Where a tool call goes.
    pub fn tool(&self, name: &str) -> Option<Route> {
        self.tools.route(name)
    }

    /// Where a prompt comes from.
    pub fn prompt(&self, name: &str) -> Option<Route> {
        self.prompts.route(name)
    }

    /// The public name of a server's tool or prompt.
    pub fn public_name(&self, kind: ListKind, server: ServerId, local: &str) -> Option<&str> {
        match kind {
            ListKind::Tools => self.tools.public(server, local),
            ListKind::Prompts => self.prompts.public(server, local),
            _ => None,
        }
    }

    /// Whose resource a URI is, and what that server calls it: by its prefix, else by the lists of transparent servers,
    /// else by their templates.
    pub fn resource(&self, uri: &str) -> Option<(ServerId, String)> {
        for offer in &self.offers {
            if !offer.uris.is_transparent()
                && let Some(local) = offer.uris.inward(uri)
            {
                return Some((offer.server, local.to_owned()));
            }
        }
        if let Some(server) = self.resources.get(uri) {
            return Some((*server, uri.to_owned()));
        }
        let open = || self.offers.iter().filter(|offer| offer.uris.is_transparent());
        open()
            .find(|offer| offer.list(ListKind::Templates).items.iter().any(|t| template_covers(&t.key, uri)))
            .or_else(|| open().next().filter(|_| self.offers.len() == 1))
            .map(|offer| (offer.server, uri.to_owned()))
    }

    /// The hash of everything that clients of a revision see, by topic.
    pub fn digests(&self, revision: Revision) -> ViewDigests {
        let of = |kind| self.listing(kind, revision).digest;
        let resources = Digest::of_all([&of(ListKind::Resources), &of(ListKind::Templates)]);
        [of(ListKind::Tools), of(ListKind::Prompts), resources]
    }

    /// A list as clients of a revision see it.
    pub fn listing(&self, kind: ListKind, revision: Revision) -> &Arc<Listing> {
        self.listings[kind as usize][revision as usize]
            .get_or_init(|| Arc::new(Listing::render(self, kind, revision, self.view)))
    }

    fn public_key(&self, offer: &ServerOffer, kind: ListKind, item: &Item) -> String {
        match self.public_name(kind, offer.server, &item.key) {
            Some(name) => name.to_owned(),
            None => offer.uris.outward(&item.key),
        }
    }
}

/// Whether a URI can come from a template, judged by the literal text around its expressions.
fn template_covers(template: &str, uri: &str) -> bool {
    let mut rest = uri;
    let mut literals = template.split('{').map(|part| part.rsplit_once('}').map_or(part, |(_, after)| after));
    let Some(tail) = literals.next().and_then(|first| rest.strip_prefix(first)) else { return false };
    rest = tail;
    let mut last = "";
    for literal in literals {
        let Some(at) = rest.find(literal) else { return false };
        rest = &rest[at + literal.len()..];
        last = literal;
    }
    template.ends_with('}') || rest.is_empty() || (!last.is_empty() && uri.ends_with(last))
}
