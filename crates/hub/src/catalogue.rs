//! What every server offers, as immutable snapshots.
//!
//! A [`ServerOffer`] is one server's lists as it gave them. A [`CatalogueSnapshot`] merges the offers of all servers, knows both
//! directions of every name, and renders each list once per revision. A change of one server makes a new snapshot that
//! shares with the one before everything that server has no part in: the work of a commit is that of its own list.

mod difference;
mod limited;
mod listing;
mod names;
mod offer;
mod owners;
mod rendered;
mod reserved;

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use tidings_proto::{FieldView, ListKind, LocalName, PublicName, Revision};
use tidings_wire::Digest;

pub use difference::{ItemDifference, ListChange, ListDifference};
pub use listing::{ListPage, PageKey, RenderedList};
pub use names::{ItemRoute, NameTable, RenamedItem, ShownNames, UpdatedNames};
pub use offer::{ItemFault, OfferExposure, OfferItem, OfferList, ScreenedItem, ServerOffer};
pub use rendered::LIST_END;
pub use rendered::screen::RuledServer;

use crate::ServerId;
use crate::ledger::ViewDigests;
use crate::policy::AccessPolicy;
use limited::SnapshotParts;
use owners::UriOwners;
use rendered::RenderedOffer;
use rendered::screen::PartLimits;
use rendered::shaped::ShortNames;

/// A merged catalogue. Never changes; a change makes a new one.
#[derive(Debug)]
pub struct CatalogueSnapshot {
    offers: Vec<Arc<ServerOffer>>,
    rendered: Vec<Arc<RenderedOffer>>,
    tools: NameTable,
    prompts: NameTable,
    owners: UriOwners,
    view: FieldView,
    listings: PerView<Arc<RenderedList>>,
    digests: PerView<Digest>,
    /// Whether some servers are left out. Then the tables of names still have theirs.
    limited: bool,
    /// Whether one server is seen as if it were the only one. Then the tables of names have its own names.
    alone: bool,
    /// What is seen by those who may not use every server.
    parts: SnapshotParts,
    /// The rules that decide who sees which items, where there are some.
    policy: Option<Arc<AccessPolicy>>,
    /// What these keep from whoever sees this part.
    limits: Option<PartLimits>,
    /// The names that are shown in the place of longer ones, where a client's profile asks for it.
    short_names: Option<ShortNames>,
}

/// A tool that may not have the name that its server gave it.
#[derive(Clone, Copy, Debug)]
pub struct DisplacedTool<'a> {
    /// The tool, as its server lists it.
    pub item: &'a OfferItem,
    /// The name that it has instead.
    pub shown_as: &'a PublicName,
    /// The built-in server whose name it would have.
    pub by: ServerId,
}

/// Something for each list and revision, made when it is first wanted.
type PerView<T> = [[OnceLock<T>; Revision::COUNT]; 4];

impl CatalogueSnapshot {
    /// Merges offers, which come in the order of the configuration.
    pub fn new(offers: Vec<Arc<ServerOffer>>, view: FieldView) -> Self {
        Self::named(offers, view, &[])
    }

    /// Names everything anew. What is shown as it was before keeps its rendering.
    fn named(offers: Vec<Arc<ServerOffer>>, view: FieldView, before: &[Arc<RenderedOffer>]) -> Self {
        let (tools, tool_names) = NameTable::new(&offers, ListKind::Tools);
        let (prompts, prompt_names) = NameTable::new(&offers, ListKind::Prompts);
        let mut owners = UriOwners::default();
        let mut rendered = Vec::with_capacity(offers.len());
        for ((offer, tools), prompts) in offers.iter().zip(tool_names).zip(prompt_names) {
            owners.update(None, Some(offer));
            // Found again by pointer and names: naming everything anew must not also render everything anew.
            let known = before.iter().find(|known| known.shows(offer, &tools, &prompts)).cloned();
            rendered.push(known.unwrap_or_else(|| Arc::new(RenderedOffer::new(Arc::clone(offer), tools, prompts))));
        }
        Self {
            offers,
            rendered,
            tools,
            prompts,
            owners,
            view,
            listings: PerView::default(),
            digests: PerView::default(),
            limited: false,
            alone: false,
            parts: SnapshotParts::default(),
            policy: None,
            limits: None,
            short_names: None,
        }
    }

    /// The same offers under other rules, or under none.
    #[must_use]
    pub fn under(&self, policy: Option<Arc<AccessPolicy>>) -> Self {
        Self {
            offers: self.offers.clone(),
            rendered: self.rendered.clone(),
            tools: self.tools.clone(),
            prompts: self.prompts.clone(),
            owners: self.owners.clone(),
            view: self.view,
            // What everybody sees is the same as before.
            listings: self.listings.clone(),
            digests: self.digests.clone(),
            limited: self.limited,
            alone: self.alone,
            // Who sees what is decided anew: nothing that was made under the other rules may be found here.
            parts: SnapshotParts::default(),
            policy,
            limits: self.limits.clone(),
            short_names: None,
        }
    }

    /// The rules that hold, or are tried.
    pub fn policy(&self) -> Option<&Arc<AccessPolicy>> {
        self.policy.as_ref()
    }

    /// The catalogue after one server has listed.
    pub fn with(&self, offer: ServerOffer) -> Self {
        let server = offer.server;
        self.replaced(server, Some(Arc::new(offer)))
    }

    /// The catalogue with an offer that somebody keeps.
    pub fn with_kept(&self, offer: &Arc<ServerOffer>) -> Self {
        self.replaced(offer.server, Some(Arc::clone(offer)))
    }

    /// The catalogue without a server.
    pub fn without(&self, server: ServerId) -> Self {
        self.replaced(server, None)
    }

    fn replaced(&self, server: ServerId, after: Option<Arc<ServerOffer>>) -> Self {
        // Ids rise in the order of the configuration, so the offers are sorted by id.
        let place = self.offers.partition_point(|offer| offer.server < server);
        let before = self.offers.get(place).filter(|offer| offer.server == server);
        let range = place..place + usize::from(before.is_some());
        let mut offers = self.offers.clone();
        offers.splice(range.clone(), after.clone());
        let named = |table: &NameTable, kind| table.update(before.map(AsRef::as_ref), after.as_deref(), &offers, kind);
        // `None`: an item had to take a name with a hash in it, and what else that reaches can not be told.
        let (Some(tools), Some(prompts)) =
            (named(&self.tools, ListKind::Tools), named(&self.prompts, ListKind::Prompts))
        else {
            return Self { policy: self.policy.clone(), ..Self::named(offers, self.view, &self.rendered) };
        };
        let mut owners = self.owners.clone();
        owners.update(before.map(AsRef::as_ref), after.as_deref());
        let new = after.map(|offer| Arc::new(RenderedOffer::new(offer, tools.shown, prompts.shown)));
        let mut rendered = self.rendered.clone();
        let mut old: Vec<Arc<RenderedOffer>> = rendered.splice(range, new.clone()).collect();
        let mut new: Vec<Arc<RenderedOffer>> = new.into_iter().collect();
        // Another server's item may have got or lost its short name by this change: its part of the list is rendered
        // again.
        let renamed = tools.renamed.iter().chain(&prompts.renamed).map(|(server, ..)| *server);
        for server in renamed.collect::<BTreeSet<_>>() {
            let Ok(place) = offers.binary_search_by_key(&server, |offer| offer.server) else { continue };
            let other = Arc::new(rendered[place].renamed(&tools.renamed, &prompts.renamed));
            new.push(Arc::clone(&other));
            old.push(std::mem::replace(&mut rendered[place], other));
        }
        Self {
            offers,
            rendered,
            tools: tools.table,
            prompts: prompts.table,
            owners,
            view: self.view,
            // Rendered lists are made when the first client asks; most commits are never listed in every revision.
            listings: PerView::default(),
            // Digests are carried over: the ledger compares them at every commit, and hashing all lists would cost what
            // this function saves.
            digests: self.digests_after(&old, &new),
            limited: self.limited,
            alone: self.alone,
            parts: SnapshotParts::default(),
            policy: self.policy.clone(),
            limits: None,
            short_names: None,
        }
    }

    /// The digests that were known before, with some servers' parts exchanged.
    fn digests_after(&self, old: &[Arc<RenderedOffer>], new: &[Arc<RenderedOffer>]) -> PerView<Digest> {
        let digests = PerView::default();
        for kind in ListKind::ALL {
            for revision in Revision::ALL {
                let cell = |cells: &PerView<Digest>| cells[kind as usize][revision as usize].get().copied();
                if let Some(mut digest) = cell(&self.digests) {
                    for of in old.iter().chain(new) {
                        digest = mark(digest, of, kind, revision, self.view);
                    }
                    // The cell is new and ours alone, so setting it can not fail.
                    let _ = digests[kind as usize][revision as usize].set(digest);
                }
            }
        }
        digests
    }

    /// The offers it was made of.
    pub fn offers(&self) -> &[Arc<ServerOffer>] {
        &self.offers
    }

    /// The lists of one server as it gave them, before renaming.
    pub fn offer(&self, server: ServerId) -> Option<&Arc<ServerOffer>> {
        self.place(server).map(|place| &self.offers[place])
    }

    fn place(&self, server: ServerId) -> Option<usize> {
        self.offers.binary_search_by_key(&server, |offer| offer.server).ok()
    }

    /// Where a tool call goes.
    pub fn tool(&self, name: &str) -> Option<&ItemRoute> {
        // Before other spellings of whole names: these are what the client was shown.
        if let Some(short) = &self.short_names
            && let Some(route) = short.route(name)
        {
            return Some(route);
        }
        self.tools.route_among(name, |route| self.has_item(ListKind::Tools, route.server, route.local.as_str()))
    }

    /// Where a prompt comes from.
    pub fn prompt(&self, name: &str) -> Option<&ItemRoute> {
        self.prompts.route_among(name, |route| self.has_item(ListKind::Prompts, route.server, route.local.as_str()))
    }

    /// The public name of a server's tool or prompt.
    pub fn public_name(&self, kind: ListKind, server: ServerId, local: &LocalName) -> Option<&PublicName> {
        let place = self.place(server)?;
        let item = self.offers[place].list(kind).place(local)?;
        self.rendered[place].names(kind)?.get(item)
    }

    /// Whether it is in a form that a client's profile asks for.
    pub fn is_shaped(&self) -> bool {
        self.short_names.is_some()
    }

    /// An item just as clients of a revision read it; `None` where it is not listed.
    pub fn shown_item(&self, kind: ListKind, server: ServerId, key: &LocalName, revision: Revision) -> Option<Bytes> {
        let of = &self.rendered[self.place(server)?];
        of.segment(kind, revision, self.view).item(of.offer.list(kind).place(key)?)
    }

    /// The tools of a server whose names read like those of a built-in one, which keeps them. They are shown with the prefix.
    pub fn displaced_tools<'a>(&'a self, offer: &'a ServerOffer) -> impl Iterator<Item = DisplacedTool<'a>> {
        let items = offer.list(ListKind::Tools).items.iter().filter(|_| offer.bare && !offer.built_in);
        items.filter_map(|item| {
            let by = self.tools.reserved.owner(item.key.as_str())?;
            Some(DisplacedTool { item, shown_as: self.public_name(ListKind::Tools, offer.server, &item.key)?, by })
        })
    }

    /// Whether only a built-in tool may answer to this name.
    pub fn reserves_tool(&self, name: &str) -> bool {
        self.tools.reserved.owner(name).is_some()
    }

    /// The resources of a server that would be taken for the gateway's own. They are shown with the prefix.
    pub fn displaced_resources<'a>(&'a self, offer: &'a ServerOffer) -> impl Iterator<Item = &'a OfferItem> {
        let lists = [ListKind::Resources, ListKind::Templates].into_iter();
        let items = lists.flat_map(|kind| &offer.list(kind).items);
        items.filter(|item| offer.uris.is_transparent() && !offer.uris.leaves(item.key.as_str()))
    }

    /// The server with transparent URIs that lists this one, unless a server that is configured before it shows one of its own
    /// resources by the same URI. A list says more than what a URI begins with: a scheme like `git+https` is no prefix.
    pub fn listed_owner(&self, uri: &str) -> Option<ServerId> {
        let owner = self.owners.of(uri, |server| self.has_item(ListKind::Resources, server, uri))?;
        let is_before = |offer: &&Arc<ServerOffer>| offer.server < owner && !offer.uris.is_transparent();
        let lists_it = |offer: &Arc<ServerOffer>| {
            offer.uris.inward(uri).is_some_and(|local| offer.list(ListKind::Resources).has_uri(&local))
        };
        (!self.offers.iter().filter(is_before).any(lists_it)).then_some(owner)
    }

    /// Whose resource a URI is, and what that server calls it: by the lists of transparent servers, else by its prefix, else by
    /// the templates of transparent servers.
    pub fn resource(&self, uri: &str) -> Option<ItemRoute> {
        if let Some(server) = self.listed_owner(uri) {
            return Some(ItemRoute { server, local: LocalName::new(uri) });
        }
        for offer in &self.offers {
            if let Some(local) = offer.uris.by_prefix(uri) {
                return Some(ItemRoute { server: offer.server, local: LocalName::new(local) });
            }
        }
        // Last of all: a template may cover nearly any URI, so it must not win over a list or a prefix.
        let mut open = self.offers.iter().filter(|offer| offer.uris.leaves(uri));
        open.find(|offer| offer.list(ListKind::Templates).items.iter().any(|t| template_covers(t.key.as_str(), uri)))
            .map(|offer| ItemRoute { server: offer.server, local: LocalName::new(uri) })
    }

    /// Whose resource it can only be although nobody lists it: that of the only server there is. To be asked when every server has
    /// listed or failed: until then, the one that is first to list is not the only one.
    pub fn only_owner(&self, uri: &str) -> Option<ItemRoute> {
        // Where the view is limited, another server may be meant that this caller can not see; but whoever asks for one alone means it.
        if self.limited && !self.alone {
            return None;
        }
        // What is part of the program lists all that it has.
        let mut external = self.offers.iter().filter(|offer| !offer.built_in);
        let only = external.next().filter(|_| external.next().is_none())?;
        only.uris.leaves(uri).then(|| ItemRoute { server: only.server, local: LocalName::new(uri) })
    }

    /// The hash of everything that clients of a revision see, by topic.
    pub fn digests(&self, revision: Revision) -> ViewDigests {
        let of = |kind| self.digest(kind, revision);
        // The protocol has one notification for resources and templates.
        let resources = Digest::of_all([&of(ListKind::Resources), &of(ListKind::Templates)]);
        [of(ListKind::Tools), of(ListKind::Prompts), resources]
    }

    fn digest(&self, kind: ListKind, revision: Revision) -> Digest {
        *self.digests[kind as usize][revision as usize].get_or_init(|| {
            self.rendered.iter().fold(Digest::NONE, |digest, of| mark(digest, of, kind, revision, self.view))
        })
    }

    /// A list as clients of a revision see it.
    pub fn listing(&self, kind: ListKind, revision: Revision) -> &Arc<RenderedList> {
        self.listings[kind as usize][revision as usize]
            .get_or_init(|| Arc::new(RenderedList::assemble(self, kind, revision)))
    }
}

/// Puts a server's part into a digest, or takes it out. The parts are hashes that name their servers, so no two are
/// equal, and a part that changes changes the whole.
fn mark(digest: Digest, of: &RenderedOffer, kind: ListKind, revision: Revision, view: FieldView) -> Digest {
    match of.segment(kind, revision, view).mark {
        Some(mark) => digest.toggled(mark),
        None => digest,
    }
}

/// Whether a URI can come from a template, judged by the literal text around its expressions.
fn template_covers(template: &str, uri: &str) -> bool {
    let mut rest = uri;
    // Expressions are not evaluated: `{+path}` and its like match across slashes, so only the text between them is a
    // firm criterion.
    let mut literals = template.split('{').map(|part| part.rsplit_once('}').map_or(part, |(_, after)| after));
    let Some(tail) = literals.next().and_then(|first| rest.strip_prefix(first)) else { return false };
    rest = tail;
    let mut last = "";
    for literal in literals {
        let Some(at) = rest.find(literal) else { return false };
        rest = &rest[at + literal.len()..];
        last = literal;
    }
    // `find` stops at the first place, and the last literal may stand again at the end: `{x}.txt` covers `a.txt.txt`.
    template.ends_with('}') || rest.is_empty() || (!last.is_empty() && uri.ends_with(last))
}
