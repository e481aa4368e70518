//! What is written down of a commit: which items of one server came, went or changed, and how.
//!
//! What a server offers that offered nothing yet in this process is handed over as a whole: whoever keeps the journal may know from an
//! earlier process what it offered last.

use std::time::SystemTime;

use bytes::Bytes;
use tidings_hub::approvals::HeldItem;
use tidings_hub::catalogue::{ListDifference, OfferItem, OfferList, ServerOffer};
use tidings_proto::{ListKind, LocalName};
use tidings_wire::{ByteSpan, Digest, members};

/// Keeps changes. It is told after the new state can be read and everybody who follows was called; it must not block.
pub trait Journal: Send + Sync + 'static {
    /// The gateway begins with these servers.
    fn began(&self, servers: Vec<JournalServer>);

    /// A server offers something (be it nothing) of which this process knew no offer.
    fn listed(&self, listing: FirstListing);

    /// Takes one change of what a server offers.
    fn record(&self, change: Change);

    /// A server was removed; the changes that this made were recorded before.
    fn gone(&self, server: JournalServer);
}

/// Which server is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalServer {
    /// Its configured name.
    pub name: Box<str>,
    /// Whether it is part of the program: another one may have the same name.
    pub built_in: bool,
}

/// What a server calls an item, the hash of what it says, and the definition as raw JSON.
pub type ItemDigest = (LocalName, Digest, Bytes);

/// What one server offers, as a whole.
#[derive(Clone, Debug)]
pub struct FirstListing {
    /// When it could be read.
    pub time: SystemTime,
    /// The number of the commit since which that is so.
    pub commit: Option<u64>,
    /// The server that listed.
    pub server: JournalServer,
    /// Whether the gateway still waited for its first servers.
    pub at_start: bool,
    /// Its lists. One that could not be had is left out.
    pub lists: Vec<(ListKind, Vec<ItemDigest>)>,
}

/// What one commit changed in one list of one server. Names are the server's own.
#[derive(Clone, Debug)]
pub struct Change {
    /// When the new state could be read.
    pub time: SystemTime,
    /// The number of the commit since which that is so; `None` of what nobody sees yet.
    pub commit: Option<u64>,
    /// The server whose list changed.
    pub server: JournalServer,
    /// The list that changed.
    pub kind: ListKind,
    /// Items that are in the list now and were not before.
    pub added: Vec<LocalName>,
    /// Items that were in the list before and are not now.
    pub removed: Vec<LocalName>,
    /// What says something else now.
    pub changed: Vec<ChangedDefinition>,
    /// The hash of what each item says that came or changed.
    pub digests: Vec<ItemDigest>,
    /// What each item of `added` says, as raw JSON, in the same order.
    pub definitions: Vec<Bytes>,
    /// Whether nobody sees it yet: the server offers it, and it waits for approval.
    pub held: bool,
}

/// One item that is there before and after.
#[derive(Clone, Debug)]
pub struct ChangedDefinition {
    /// What the server calls it.
    pub key: LocalName,
    /// The members that differ, sorted.
    pub fields: Vec<ChangedField>,
}

/// One member of a definition, as raw JSON; `None` where it is absent.
#[derive(Clone, Debug)]
pub struct ChangedField {
    /// The name of the member, such as `description`.
    pub name: String,
    /// Its value before the commit.
    pub before: Option<Bytes>,
    /// Its value since the commit.
    pub after: Option<Bytes>,
}

/// When it came to what the journal is told.
#[derive(Clone, Copy, Debug)]
pub(crate) struct JournalOccasion {
    /// The number of the commit, if it changed what somebody may see.
    pub(crate) commit: Option<u64>,
    /// Whether the gateway still waited for its first servers.
    pub(crate) at_start: bool,
}

/// What a server offered before, and offers now, to whoever keeps the journal. `failed`: lists that it could not give now.
pub(crate) fn tell(
    journal: &dyn Journal,
    before: Option<&ServerOffer>,
    after: Option<&ServerOffer>,
    failed: &[ListKind],
    occasion: JournalOccasion,
) {
    match (before, after) {
        (None, None) => {}
        (None, Some(after)) => journal.listed(first_listing(after, failed, occasion)),
        // Also when nothing is left: a server that went has removed everything.
        (Some(before), after) => {
            changes(before, after, occasion.commit).into_iter().for_each(|change| journal.record(change));
        }
    }
}

fn server_of(offer: &ServerOffer) -> JournalServer {
    JournalServer { name: offer.name.clone(), built_in: offer.built_in }
}

fn first_listing(offer: &ServerOffer, failed: &[ListKind], occasion: JournalOccasion) -> FirstListing {
    let list = |kind| {
        (kind, offer.list(kind).items.iter().map(|item| (item.key.clone(), item.digest, item.raw.clone())).collect())
    };
    let lists = ListKind::ALL.into_iter().filter(|kind| !failed.contains(kind)).map(list).collect();
    let JournalOccasion { commit, at_start } = occasion;
    FirstListing { time: SystemTime::now(), commit, server: server_of(offer), at_start, lists }
}

/// The changes between two states of one server. One that is gone has removed everything.
fn changes(before: &ServerOffer, after: Option<&ServerOffer>, commit: Option<u64>) -> Vec<Change> {
    let server = server_of(before);
    let time = SystemTime::now();
    let empty = Default::default();
    let before = Some(before);
    let of = |kind| {
        let [old, new] = [before, after].map(|offer| offer.map_or(&empty, |offer| offer.list(kind)));
        let difference = ListDifference::between(old, new);
        let definition = |key: &LocalName, fields: &[String]| definition(old, new, key, fields);
        let keys = difference.added.iter().chain(difference.changed.iter().map(|item| &item.key));
        let digests =
            keys.filter_map(|key| new.get(key).map(|item| (key.clone(), item.digest, item.raw.clone()))).collect();
        (!difference.is_empty()).then(|| Change {
            time,
            commit,
            server: server.clone(),
            kind,
            digests,
            definitions: definitions(new, &difference.added),
            held: false,
            changed: difference.changed.iter().map(|item| definition(&item.key, &item.fields)).collect(),
            added: difference.added,
            removed: difference.removed,
        })
    };
    ListKind::ALL.into_iter().filter_map(of).collect()
}

/// One item in two states of its list.
fn definition(old: &OfferList, new: &OfferList, key: &LocalName, fields: &[String]) -> ChangedDefinition {
    let (old, new) = (old.get(key), new.get(key));
    let field = |name: &String| ChangedField {
        name: name.clone(),
        before: old.and_then(|item| member(item, name)),
        after: new.and_then(|item| member(item, name)),
    };
    ChangedDefinition { key: key.clone(), fields: fields.iter().map(field).collect() }
}

/// What items of a list say.
fn definitions(list: &OfferList, keys: &[LocalName]) -> Vec<Bytes> {
    keys.iter().map(|key| list.get(key).map(|item| item.raw.clone()).unwrap_or_default()).collect()
}

/// What a server offers since now and nobody sees, to whoever keeps the journal.
pub(crate) fn tell_held(journal: &dyn Journal, server: &JournalServer, held: &[HeldItem]) {
    let time = SystemTime::now();
    for kind in ListKind::ALL {
        let held: Vec<&HeldItem> = held.iter().filter(|held| held.kind == kind).collect();
        if held.is_empty() {
            continue;
        }
        let new = OfferList::new(held.iter().map(|held| held.item.clone()).collect(), 0, false);
        let known = |held: &&HeldItem| {
            let definition = held.approved.as_ref()?.definition.clone()?;
            OfferItem::read(kind, definition, false).ok()
        };
        let old = OfferList::new(held.iter().filter_map(known).collect(), 0, false);
        let difference = ListDifference::between(&old, &new);
        let mut changed: Vec<ChangedDefinition> =
            difference.changed.iter().map(|item| definition(&old, &new, &item.key, &item.fields)).collect();
        // Of what was approved by an earlier process only the hash may be known.
        let (unknown, added): (Vec<_>, Vec<_>) = difference
            .added
            .into_iter()
            .partition(|key| held.iter().any(|held| held.item.key == *key && held.approved.is_some()));
        changed.extend(unknown.into_iter().map(|key| ChangedDefinition { key, fields: Vec::new() }));
        let definitions = definitions(&new, &added);
        let (removed, digests, server) = (Vec::new(), Vec::new(), server.clone());
        let commit = None;
        journal.record(Change {
            time,
            commit,
            server,
            kind,
            added,
            removed,
            changed,
            digests,
            definitions,
            held: true,
        });
    }
}

/// A member's value. Of a repeated key the last one counts, as everywhere.
fn member(item: &OfferItem, name: &str) -> Option<Bytes> {
    let raw = &item.raw;
    let found = members(raw, ByteSpan::new(0, raw.len())).filter(|member| member.key.is(raw, name)).last()?;
    Some(Bytes::copy_from_slice(found.value.of(raw)))
}
