//! What every item said, and since when: definitions by their hash, and for each item when it said which. What is said now stays, what was
//! said before goes when it is too old or too much.

use redb::{Database, ReadableDatabase as _, ReadableTable as _, TableDefinition, TableError, WriteTransaction};

use crate::lists::{ItemHash, ListOwner, ListStep};

/// How long what is no longer said is kept, in milliseconds, and how large all definitions may be together.
pub(crate) const MAX_AGE: u64 = 30 * 24 * 60 * 60 * 1_000;
pub(crate) const MAX_BYTES: u64 = 64 << 20;
/// How many states are kept that ended: an item that goes to and fro between two definitions takes no bytes for more of them.
const MAX_ENDED: u64 = 200_000;
/// Longer ones are not kept: the time since which they are said is.
const LONGEST: usize = 256 << 10;
/// How many states of one item are given.
const MOST_STATES: usize = 200;

/// The server, whether it is built in, the kind, the name, and since when, in milliseconds.
type StateKey<'a> = (&'a str, bool, &'a str, &'a str, u64);

/// A hash to how many states have it, and the definition.
const DEFINITIONS: TableDefinition<'_, &ItemHash, (u32, &[u8])> = TableDefinition::new("definitions");
/// To the hash of what is said since then; empty where the item went.
const STATES: TableDefinition<'_, StateKey<'static>, &[u8]> = TableDefinition::new("definition_states");
/// When a state ended and a number, to its key.
const ENDED: TableDefinition<'_, (u64, u64), StateKey<'static>> = TableDefinition::new("definition_states_ended");
const FACTS: TableDefinition<'_, &str, u64> = TableDefinition::new("definition_facts");
const BYTES: &str = "bytes";
const NUMBER: &str = "number";
const COUNT: &str = "ended";

/// What an item said since a time, until the next such; `None`: it was gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DefinitionState {
    /// Since when, in milliseconds since 1970.
    pub since: u64,
    /// The hash of what it said.
    pub digest: Option<ItemHash>,
}

/// An item at a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DefinedItem {
    /// Its server.
    pub owner: ListOwner,
    /// What the server calls it.
    pub name: String,
    /// Since when it said that, in milliseconds since 1970.
    pub since: u64,
    /// The hash of what it said.
    pub digest: ItemHash,
}

/// Which item is meant.
#[derive(Clone, Copy, Debug)]
pub struct ItemPlace<'a> {
    /// Its server.
    pub server: &'a str,
    /// Whether that is part of the program.
    pub built_in: bool,
    /// The list.
    pub kind: &'a str,
    /// What the server calls it.
    pub name: &'a str,
}

impl<'a> ItemPlace<'a> {
    fn of(owner: &'a ListOwner, kind: &'a str, name: &'a str) -> Self {
        Self { server: &owner.server, built_in: owner.built_in, kind, name }
    }

    fn at(self, time: u64) -> StateKey<'a> {
        (self.server, self.built_in, self.kind, self.name, time)
    }
}

/// Takes what is said now. It does not matter if it was taken already.
pub(super) fn keep(write: &WriteTransaction, steps: &[ListStep], now: u64) -> Result<(), redb::Error> {
    if !steps.iter().any(|step| matches!(step, ListStep::Say { .. } | ListStep::Forget(_))) {
        return Ok(());
    }
    let mut shelf = DefinitionShelf {
        definitions: write.open_table(DEFINITIONS)?,
        states: write.open_table(STATES)?,
        ended: write.open_table(ENDED)?,
        facts: write.open_table(FACTS)?,
    };
    for step in steps {
        match step {
            ListStep::Say { time, owner, kind, name, said } => {
                let said = said.as_ref().map(|(hash, definition)| (hash, &definition[..]));
                shelf.say(ItemPlace::of(owner, kind, name), *time, said)?;
            }
            ListStep::Forget(owner) => {
                for (kind, name) in shelf.items(owner)? {
                    shelf.say(ItemPlace::of(owner, &kind, &name), now, None)?;
                }
            }
            _ => {}
        }
    }
    shelf.compact(now.saturating_sub(MAX_AGE), MAX_BYTES, MAX_ENDED)
}

struct DefinitionShelf<'a> {
    definitions: redb::Table<'a, &'static ItemHash, (u32, &'static [u8])>,
    states: redb::Table<'a, StateKey<'static>, &'static [u8]>,
    ended: redb::Table<'a, (u64, u64), StateKey<'static>>,
    facts: redb::Table<'a, &'static str, u64>,
}

impl DefinitionShelf<'_> {
    fn say(&mut self, place: ItemPlace<'_>, time: u64, said: Option<(&ItemHash, &[u8])>) -> Result<(), redb::Error> {
        let said = said.filter(|(_, definition)| definition.len() <= LONGEST);
        let digest: &[u8] = said.map_or(&[], |(hash, _)| hash);
        let last = {
            let newest = self.states.range(place.at(0)..=place.at(u64::MAX))?.next_back().transpose()?;
            newest.map(|(key, known)| (key.value().4, known.value() == digest))
        };
        // Clocks can be set back; the order in which things were said stays.
        let time = last.map_or(time, |(before, _)| time.max(before + 1));
        match last {
            Some((_, true)) => return Ok(()),
            None if said.is_none() => return Ok(()),
            Some((before, false)) => self.end(place.at(before), time)?,
            None => {}
        }
        self.states.insert(place.at(time), digest)?;
        match said {
            Some((hash, definition)) => {
                let known = self.definitions.get(hash)?.map(|known| known.value().0);
                if known.is_none() {
                    self.add(BYTES, definition.len() as u64)?;
                }
                self.definitions.insert(hash, (known.unwrap_or_default() + 1, definition))?;
            }
            // That it went need not be known longer than what it was.
            None => self.end(place.at(time), time)?,
        }
        Ok(())
    }

    fn end(&mut self, state: StateKey<'_>, time: u64) -> Result<(), redb::Error> {
        let number = self.add(NUMBER, 1)?;
        self.ended.insert((time, number), state)?;
        self.add(COUNT, 1)?;
        Ok(())
    }

    fn add(&mut self, fact: &str, more: u64) -> Result<u64, redb::Error> {
        let now = self.facts.get(fact)?.map_or(0, |known| known.value()) + more;
        self.facts.insert(fact, now)?;
        Ok(now)
    }

    /// Every item of a server of which something is known.
    fn items(&self, owner: &ListOwner) -> Result<Vec<(String, String)>, redb::Error> {
        let mut items: Vec<(String, String)> = Vec::new();
        for row in self.states.range((owner.server.as_str(), owner.built_in, "", "", 0)..)? {
            let key = row?.0;
            let (server, built_in, kind, name, _) = key.value();
            if server != owner.server || built_in != owner.built_in {
                break;
            }
            // The states of one item stand in a row.
            if items.last().is_none_or(|(of, last)| of != kind || last != name) {
                items.push((kind.to_owned(), name.to_owned()));
            }
        }
        Ok(items)
    }

    /// Takes away what ended before `expired`, and the oldest of what ended as long as there are more bytes or states than these.
    fn compact(&mut self, expired: u64, most_bytes: u64, most: u64) -> Result<(), redb::Error> {
        loop {
            let bytes = self.facts.get(BYTES)?.map_or(0, |bytes| bytes.value());
            let count = self.facts.get(COUNT)?.map_or(0, |count| count.value());
            let oldest = self.ended.first()?.map(|(at, state)| {
                let (server, built_in, kind, name, since) = state.value();
                (at.value(), (server.to_owned(), built_in, kind.to_owned(), name.to_owned(), since))
            });
            let Some((at, (server, built_in, kind, name, since))) = oldest else { return Ok(()) };
            if at.0 >= expired && bytes <= most_bytes && count <= most {
                return Ok(());
            }
            self.ended.remove(at)?;
            self.facts.insert(COUNT, count.saturating_sub(1))?;
            let digest = self.states.remove((server.as_str(), built_in, kind.as_str(), name.as_str(), since))?;
            let digest: Option<ItemHash> = digest.and_then(|digest| digest.value().try_into().ok());
            if let Some(digest) = digest {
                self.release(&digest, bytes)?;
            }
        }
    }

    fn release(&mut self, digest: &ItemHash, bytes: u64) -> Result<(), redb::Error> {
        let known = self.definitions.get(digest)?.map(|known| (known.value().0, known.value().1.to_vec()));
        match known {
            Some((count, definition)) if count > 1 => {
                self.definitions.insert(digest, (count - 1, &definition[..]))?;
            }
            Some((_, definition)) => {
                self.definitions.remove(digest)?;
                self.facts.insert(BYTES, bytes.saturating_sub(definition.len() as u64))?;
            }
            None => {}
        }
        Ok(())
    }
}

/// Nothing was kept yet.
fn absent<T>(error: TableError, none: T) -> Result<T, redb::Error> {
    match error {
        TableError::TableDoesNotExist(_) => Ok(none),
        error => Err(error.into()),
    }
}

/// The definition with this hash.
pub(super) fn definition(database: &Database, digest: &ItemHash) -> Result<Option<Vec<u8>>, redb::Error> {
    let read = database.begin_read()?;
    match read.open_table(DEFINITIONS) {
        Ok(table) => Ok(table.get(digest)?.map(|known| known.value().1.to_vec())),
        Err(error) => absent(error, None),
    }
}

/// What an item said, the newest first.
pub(super) fn history(database: &Database, place: ItemPlace<'_>) -> Result<Vec<DefinitionState>, redb::Error> {
    let read = database.begin_read()?;
    let states = match read.open_table(STATES) {
        Ok(states) => states,
        Err(error) => return absent(error, Vec::new()),
    };
    let mut found = Vec::new();
    for row in states.range(place.at(0)..=place.at(u64::MAX))?.rev().take(MOST_STATES) {
        let (key, digest) = row?;
        // An empty text is no hash, and stands for an item that was gone.
        found.push(DefinitionState { since: key.value().4, digest: digest.value().try_into().ok() });
    }
    Ok(found)
}

/// Every item of a kind that there was at a time, by server and name.
pub(super) fn items_at(database: &Database, kind: &str, at: u64) -> Result<Vec<DefinedItem>, redb::Error> {
    let read = database.begin_read()?;
    let states = match read.open_table(STATES) {
        Ok(states) => states,
        Err(error) => return absent(error, Vec::new()),
    };
    let mut found: Vec<DefinedItem> = Vec::new();
    // A walk over all of them: the time comes last in the key.
    for row in states.iter()? {
        let (key, digest) = row?;
        let (server, built_in, of, name, since) = key.value();
        if of != kind || since > at {
            continue;
        }
        // The states of an item stand in a row, the newest last.
        let is_same =
            |item: &DefinedItem| item.owner.server == server && item.owner.built_in == built_in && item.name == name;
        if found.last().is_some_and(is_same) {
            found.pop();
        }
        if let Ok(digest) = <ItemHash>::try_from(digest.value()) {
            let owner = ListOwner { server: server.to_owned(), built_in };
            found.push(DefinedItem { owner, name: name.to_owned(), since, digest });
        }
    }
    Ok(found)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn database() -> Database {
        redb::Builder::new().create_with_backend(redb::backends::InMemoryBackend::new()).unwrap()
    }

    fn owner() -> ListOwner {
        ListOwner { server: "notes".to_owned(), built_in: false }
    }

    fn say(database: &Database, time: u64, name: &str, text: Option<&str>) {
        let said = text.map(|text| ([text.len() as u8; 32], Bytes::copy_from_slice(text.as_bytes())));
        let step = ListStep::Say { time, owner: owner(), kind: "tools".to_owned(), name: name.into(), said };
        let write = database.begin_write().unwrap();
        keep(&write, &[step], time).unwrap();
        write.commit().unwrap();
    }

    fn place(name: &str) -> ItemPlace<'_> {
        ItemPlace { server: "notes", built_in: false, kind: "tools", name }
    }

    fn texts(database: &Database, name: &str) -> Vec<(u64, Option<usize>)> {
        let all = history(database, place(name)).unwrap();
        all.into_iter().map(|state| (state.since, state.digest.map(|digest| usize::from(digest[0])))).collect()
    }

    #[test]
    fn what_was_said_is_known_for_every_time() {
        let database = database();
        say(&database, 10, "search", Some("a"));
        say(&database, 20, "search", Some("a"));
        say(&database, 30, "search", Some("bb"));
        say(&database, 40, "search", None);
        say(&database, 50, "search", Some("a"));
        // Clocks can be set back.
        say(&database, 45, "search", Some("bb"));
        assert_eq!(
            texts(&database, "search"),
            [(51, Some(2)), (50, Some(1)), (40, None), (30, Some(2)), (10, Some(1))]
        );
        let at = |time| {
            items_at(&database, "tools", time).unwrap().into_iter().map(|item| item.digest[0]).collect::<Vec<_>>()
        };
        assert_eq!(
            [at(5), at(10), at(29), at(30), at(45), at(99)],
            [vec![], vec![1], vec![1], vec![2], vec![], vec![2]]
        );
        assert_eq!(definition(&database, &[2; 32]).unwrap().unwrap(), b"bb");
    }

    #[test]
    fn what_is_too_old_or_too_much_goes_and_what_is_said_now_stays() {
        let database = database();
        for time in 1..=9u64 {
            say(&database, time, "search", Some(&"x".repeat(time as usize)));
        }
        say(&database, 9, "other", Some("y".repeat(50).as_str()));
        let compact = |expired, most_bytes, most| {
            let write = database.begin_write().unwrap();
            let mut shelf = DefinitionShelf {
                definitions: write.open_table(DEFINITIONS).unwrap(),
                states: write.open_table(STATES).unwrap(),
                ended: write.open_table(ENDED).unwrap(),
                facts: write.open_table(FACTS).unwrap(),
            };
            shelf.compact(expired, most_bytes, most).unwrap();
            let bytes = shelf.facts.get(BYTES).unwrap().unwrap().value();
            drop(shelf);
            write.commit().unwrap();
            bytes
        };
        // What ended before 4 is what was said until 2 and 3.
        assert_eq!(compact(4, u64::MAX, u64::MAX), 95 - 1 - 2);
        assert!(compact(0, 80, u64::MAX) <= 80);
        compact(0, u64::MAX, 2);
        assert_eq!(texts(&database, "search").len(), 3);
        // What is said now stays, however large.
        assert_eq!(compact(u64::MAX, 0, 0), 59);
        assert_eq!(texts(&database, "search"), [(9, Some(9))]);
        assert_eq!(definition(&database, &[3; 32]).unwrap(), None);
    }

    #[test]
    fn a_server_that_goes_says_nothing_any_more() {
        let database = database();
        say(&database, 10, "search", Some("a"));
        let write = database.begin_write().unwrap();
        keep(&write, &[ListStep::Forget(owner())], 20).unwrap();
        write.commit().unwrap();
        assert_eq!(texts(&database, "search"), [(20, None), (10, Some(1))]);
        assert!(items_at(&database, "tools", 30).unwrap().is_empty());
    }
}
