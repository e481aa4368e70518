//! What every server was last known to list, so that the first listing of the next process can be compared with it.
//!
//! [`LastLists`] decides; it reads what is known through [`KnownLists`] and gives back records and steps, which the log writes in one
//! transaction. Reading and writing the table is the matter of `tables/lists.rs`.

use std::collections::{BTreeMap, HashSet};

use bytes::Bytes;
use jiff::Timestamp;

use crate::record::{ChangeRecord, ChangedItem, KINDS, MOST_NAMES};

/// The hash of what an item says.
pub type ItemHash = [u8; 32];

/// What a server calls an item, the hash of what it says, and the definition itself.
pub type ListedItem = (Box<str>, ItemHash, Bytes);

/// Whose lists they are.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ListOwner {
    /// The configured name of the server.
    pub server: String,
    /// Whether it is a part of the program: a configured server may have the same name.
    pub built_in: bool,
}

/// A server that was not known to list anything has listed.
#[derive(Clone, Debug)]
pub struct Listing {
    /// When that could be read.
    pub time: Timestamp,
    /// The number of the commit since which that is so.
    pub commit: Option<u64>,
    /// The server that listed.
    pub owner: ListOwner,
    /// Whether the gateway still waited for its first servers.
    pub at_start: bool,
    /// Its lists by kind. One that could not be had is left out.
    pub lists: Vec<(String, Vec<ListedItem>)>,
}

/// What a record makes of the lists that are known.
#[derive(Clone, Debug)]
pub struct ListDelta {
    /// The server whose lists change.
    pub owner: ListOwner,
    /// All that came or says something else now.
    pub put: Vec<ListedItem>,
    /// The names of items that are no longer listed.
    pub removed: Vec<Box<str>>,
}

/// What the log is handed.
#[derive(Debug)]
pub(crate) enum LogEntry {
    /// A process begins with these servers.
    Began(Timestamp, Vec<ListOwner>),
    /// A server has listed that was not known to list anything.
    Listed(Listing),
    /// A list has changed: what the feed shows, and what is now known of the list.
    Changed(Box<ChangeRecord>, Option<ListDelta>),
    /// A server is no longer there.
    Gone(Timestamp, ListOwner),
}

impl LogEntry {
    /// About how much memory it takes while it waits.
    pub(crate) fn weight(&self) -> usize {
        // The hash, and about what a boxed name takes beside its text. Definitions are those of the catalogue, which holds them anyway.
        let items = |items: &[ListedItem]| items.iter().map(|(name, ..)| name.len() + 88).sum::<usize>();
        128 + match self {
            Self::Began(_, servers) => servers.iter().map(|owner| owner.server.len() + 40).sum(),
            Self::Listed(listing) => listing.lists.iter().map(|(_, list)| items(list) + 48).sum(),
            Self::Changed(record, delta) => {
                let removed = |delta: &ListDelta| delta.removed.iter().map(|name| name.len() + 24).sum::<usize>();
                record.weight() + delta.as_ref().map_or(0, |delta| items(&delta.put) + removed(delta))
            }
            Self::Gone(_, owner) => owner.server.len(),
        }
    }

    /// Whose lists it is about, if it is about one server's.
    pub(crate) fn owner(&self) -> Option<&ListOwner> {
        match self {
            Self::Began(..) => None,
            Self::Listed(listing) => Some(&listing.owner),
            Self::Changed(_, delta) => delta.as_ref().map(|delta| &delta.owner),
            Self::Gone(_, owner) => Some(owner),
        }
    }
}

/// One step of what is known. Several are kept together with the records that they belong to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ListStep {
    /// A server has listed at least once, and be it nothing.
    Know(ListOwner),
    /// An item says this.
    Put(ListOwner, String, Box<str>, ItemHash),
    /// An item is gone.
    Remove(ListOwner, String, Box<str>),
    /// A server and everything of it is gone.
    Forget(ListOwner),
    /// What an item says since a time (in milliseconds since 1970); `None`: it is gone.
    Say { time: u64, owner: ListOwner, kind: String, name: Box<str>, said: Option<(ItemHash, Bytes)> },
}

/// One list of one server: the key of each item with the hash of its definition.
pub(crate) type KnownList = BTreeMap<Box<str>, ItemHash>;

/// What was last known of servers' lists: the table in a process, a model in tests.
pub(crate) trait KnownLists {
    /// Why it can not be read.
    type Error;
    /// Every server of which lists are known.
    fn owners(&self) -> Result<Vec<ListOwner>, Self::Error>;
    /// One list of one server.
    fn list(&self, owner: &ListOwner, kind: &str) -> Result<KnownList, Self::Error>;
}

/// What is to be written together.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    pub(crate) records: Vec<ChangeRecord>,
    pub(crate) steps: Vec<ListStep>,
    owners: HashSet<ListOwner>,
}

impl Batch {
    pub(crate) fn is_empty(&self) -> bool {
        self.records.is_empty() && self.steps.is_empty()
    }

    /// Whether what is known of a server is another when this is written.
    pub(crate) fn touches(&self, owner: &ListOwner) -> bool {
        self.owners.contains(owner)
    }

    /// The servers of which something else is known when this is written.
    pub(crate) fn take_owners(&mut self) -> HashSet<ListOwner> {
        std::mem::take(&mut self.owners)
    }

    fn say(&mut self, time: u64, owner: &ListOwner, kind: &str, name: &str, said: Option<(ItemHash, Bytes)>) {
        self.step(ListStep::Say { time, owner: owner.clone(), kind: kind.to_owned(), name: name.into(), said });
    }

    fn step(&mut self, step: ListStep) {
        let (ListStep::Know(owner)
        | ListStep::Put(owner, ..)
        | ListStep::Remove(owner, ..)
        | ListStep::Forget(owner)
        | ListStep::Say { owner, .. }) = &step;
        self.owners.insert(owner.clone());
        self.steps.push(step);
    }
}

/// What this process has not yet seen of the servers that it began with.
#[derive(Debug, Default)]
pub(crate) struct LastLists {
    /// Lists that are compared with what an earlier process knew when they come. Bounded by the servers of the start.
    awaited: HashSet<(ListOwner, String)>,
    /// Whether there was an earlier process that kept lists.
    has_past: bool,
    /// Whose lists are known by now.
    owners: HashSet<ListOwner>,
}

impl LastLists {
    /// Takes one entry. What it needs to know of its server must be written: nothing of that is in the batch.
    pub(crate) fn take<K: KnownLists>(
        &mut self,
        entry: LogEntry,
        known: &K,
        batch: &mut Batch,
    ) -> Result<(), K::Error> {
        let owner = entry.owner().cloned();
        let taken = self.take_entry(entry, known, batch);
        if let (Err(_), Some(owner)) = (&taken, owner) {
            // It could not be compared. What comes next is what changed since, and not the first list.
            self.overlook(&owner);
        }
        taken
    }

    /// A batch could not be written: whose lists are known stands perhaps nowhere, and is said again.
    pub(crate) fn not_written(&mut self, owners: &HashSet<ListOwner>) {
        self.owners.retain(|owner| !owners.contains(owner));
    }

    fn take_entry<K: KnownLists>(&mut self, entry: LogEntry, known: &K, batch: &mut Batch) -> Result<(), K::Error> {
        match entry {
            LogEntry::Began(time, servers) => self.begin(time, &servers, known, batch),
            LogEntry::Listed(listing) => {
                let Listing { time, commit, owner, at_start, lists } = listing;
                // Before the lists: a server that lists nothing at all is known from now on, too.
                self.know(&owner, batch);
                let before = batch.records.len();
                lists
                    .into_iter()
                    .try_for_each(|(kind, list)| self.compare(time, &owner, &kind, list, at_start, known, batch))?;
                // What happened while no gateway looked was no commit of this one.
                for record in batch.records.iter_mut().skip(before).filter(|record| !record.while_down) {
                    record.commit = commit;
                }
                Ok(())
            }
            LogEntry::Changed(record, Some(delta)) => self.change(*record, delta, known, batch),
            LogEntry::Changed(record, None) => {
                batch.records.push(*record);
                Ok(())
            }
            LogEntry::Gone(time, owner) => {
                // First: nothing of this server is awaited any more.
                self.overlook(&owner);
                self.owners.remove(&owner);
                forget(time, owner, false, known, batch)
            }
        }
    }

    /// Something of a server did not get here, so nothing that comes can be taken for its first list.
    pub(crate) fn overlook(&mut self, owner: &ListOwner) {
        self.awaited.retain(|(awaited, _)| awaited != owner);
    }

    fn know(&mut self, owner: &ListOwner, batch: &mut Batch) {
        // Written once per server, also where it lists nothing: an empty list is a fact that the next process compares
        // with.
        if self.owners.insert(owner.clone()) {
            batch.step(ListStep::Know(owner.clone()));
        }
    }

    /// Whether an entry is compared with what is known of its server, so that this must be written.
    pub(crate) fn compares(&self, entry: &LogEntry) -> bool {
        match entry {
            LogEntry::Began(..) | LogEntry::Listed(_) | LogEntry::Gone(..) => true,
            LogEntry::Changed(record, Some(delta)) => {
                // Soon after the start nothing is awaited any more, and the key need not be made for each change.
                !self.awaited.is_empty() && self.awaited.contains(&(delta.owner.clone(), record.kind.clone()))
            }
            LogEntry::Changed(_, None) => false,
        }
    }

    /// Servers that are not among those of this process went while no gateway ran.
    fn begin<K: KnownLists>(
        &mut self,
        time: Timestamp,
        servers: &[ListOwner],
        known: &K,
        batch: &mut Batch,
    ) -> Result<(), K::Error> {
        let before = known.owners()?;
        self.has_past = !before.is_empty();
        let each = |owner: &ListOwner| KINDS.map(|kind| (owner.clone(), kind.to_owned()));
        self.awaited = servers.iter().flat_map(each).collect();
        let servers: HashSet<&ListOwner> = servers.iter().collect();
        let (stay, gone): (Vec<_>, Vec<_>) = before.into_iter().partition(|owner| servers.contains(owner));
        // They stand in the store already, so `know` need not write them again.
        self.owners = stay.into_iter().collect();
        gone.into_iter().try_for_each(|owner| forget(time, owner, true, known, batch))
    }

    fn change<K: KnownLists>(
        &mut self,
        record: ChangeRecord,
        delta: ListDelta,
        known: &K,
        batch: &mut Batch,
    ) -> Result<(), K::Error> {
        let ListDelta { owner, put, removed } = delta;
        let is_first = self.awaited.contains(&(owner.clone(), record.kind.clone()));
        // Only additions can be a whole list; anything else is a difference to one that was seen.
        if is_first && removed.is_empty() && record.changed.is_empty() {
            // This list failed when the others came: now it is all there.
            return self.compare(record.time, &owner, &record.kind, put, false, known, batch);
        }
        self.awaited.remove(&(owner.clone(), record.kind.clone()));
        self.know(&owner, batch);
        let time = millis(record.time);
        for (name, hash, definition) in put {
            batch.say(time, &owner, &record.kind, &name, Some((hash, definition)));
            batch.step(ListStep::Put(owner.clone(), record.kind.clone(), name, hash));
        }
        for name in removed {
            batch.say(time, &owner, &record.kind, &name, None);
            batch.step(ListStep::Remove(owner.clone(), record.kind.clone(), name));
        }
        batch.records.push(record);
        Ok(())
    }

    /// A whole list in the place of what is known.
    #[allow(clippy::too_many_arguments, reason = "each is a fact about one list")]
    fn compare<K: KnownLists>(
        &mut self,
        time: Timestamp,
        owner: &ListOwner,
        kind: &str,
        list: Vec<ListedItem>,
        at_start: bool,
        known: &K,
        batch: &mut Batch,
    ) -> Result<(), K::Error> {
        let mut before = known.list(owner, kind)?;
        let is_first = self.awaited.remove(&(owner.clone(), kind.to_owned()));
        let mut difference = Names::default();
        for (name, hash, definition) in list {
            // Also what is known: an earlier version did not keep what it says.
            batch.say(millis(time), owner, kind, &name, Some((hash, definition)));
            match before.remove(&name) {
                Some(known) if known == hash => continue,
                Some(_) => difference.changed.push(name.to_string()),
                None => difference.added.push(name.to_string()),
            }
            batch.step(ListStep::Put(owner.clone(), kind.to_owned(), name, hash));
        }
        for name in before.into_keys() {
            difference.removed.push(name.to_string());
            batch.say(millis(time), owner, kind, &name, None);
            batch.step(ListStep::Remove(owner.clone(), kind.to_owned(), name));
        }
        // What is there when a gateway is started for the first time is no change.
        // What comes later, clients saw come, so it is recorded also in the first process.
        let is_silent = is_first && !self.has_past && at_start;
        if !is_silent {
            batch.records.extend(difference.record(time, owner, kind, is_first && self.has_past));
        }
        Ok(())
    }
}

fn millis(time: Timestamp) -> u64 {
    u64::try_from(time.as_millisecond()).unwrap_or_default()
}

/// A server is gone, and with it all that it is still known to list.
fn forget<K: KnownLists>(
    time: Timestamp,
    owner: ListOwner,
    while_down: bool,
    known: &K,
    batch: &mut Batch,
) -> Result<(), K::Error> {
    for kind in KINDS {
        let removed = known.list(&owner, kind)?.into_keys().map(String::from).collect();
        let names = Names { removed, ..Names::default() };
        batch.records.extend(names.record(time, &owner, kind, while_down));
    }
    // No step for what each item said: `definitions.rs` ends all of it by this one.
    batch.step(ListStep::Forget(owner));
    Ok(())
}

/// The names of a record.
#[derive(Default)]
struct Names {
    added: Vec<String>,
    removed: Vec<String>,
    changed: Vec<String>,
}

impl Names {
    fn record(mut self, time: Timestamp, owner: &ListOwner, kind: &str, while_down: bool) -> Option<ChangeRecord> {
        let all = [&mut self.added, &mut self.removed, &mut self.changed];
        if all.iter().all(|names| names.is_empty()) {
            return None;
        }
        let mut omitted = 0;
        for names in all {
            omitted += names.len().saturating_sub(MOST_NAMES) as u64;
            // A record is read as a whole, so it must stay of a size that can be.
            names.truncate(MOST_NAMES);
        }
        // Hashes tell that an item says something else, and not what it said.
        let changed = |name| ChangedItem { name, fields: Vec::new(), diff: Vec::new() };
        Some(ChangeRecord {
            seq: 0,
            time,
            commit: None,
            server: owner.server.clone(),
            kind: kind.to_owned(),
            added: self.added,
            removed: self.removed,
            changed: self.changed.into_iter().map(changed).collect(),
            while_down,
            held: false,
            severity: None,
            remarks: Vec::new(),
            omitted,
            lost: 0,
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests;
