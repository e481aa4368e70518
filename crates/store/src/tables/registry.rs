//! Copies of registries of servers, and what was last said of the releases of installed ones.
//!
//! What an item says is the text of its registry: whoever reads it knows the form.

use std::collections::BTreeMap;
use std::sync::Arc;

use redb::{Database, ReadableDatabase as _, ReadableTable as _, TableDefinition, TableError};
use serde::{Deserialize, Serialize};
use tidings_sync::Lock;

use super::servers::KeepError;
use crate::slot::DatabaseSlot;
use crate::store::Store;

/// The registry and the name of a server, to its item.
const ITEMS: TableDefinition<'_, (&str, &str), &str> = TableDefinition::new("registry_items");
/// The registry to its [`CopyState`], as JSON.
const STATES: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("registry_states");
/// The name of an installed server to what was last said of its release.
const RELEASES: TableDefinition<'_, &str, &str> = TableDefinition::new("registry_releases");

/// How far a copy reaches.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CopyState {
    /// Where it was copied from: of another place nothing of it is true.
    pub url: String,
    /// The newest `updatedAt` that was seen, in milliseconds since 1970.
    pub newest: Option<i64>,
    /// When the registry was last asked with success, in seconds since 1970.
    pub refreshed: u64,
}

/// The copy of one registry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RegistryCopy {
    /// How far it reaches; `None` when there is none yet.
    pub state: Option<CopyState>,
    /// Its items, by the names of their servers.
    pub items: BTreeMap<String, String>,
}

/// What one reading of a registry brought.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CopyStep {
    /// How far the copy reaches with it.
    pub state: CopyState,
    /// Whether it is all there is, so that what is not among `items` is gone.
    pub is_whole: bool,
    /// Items that are new, or say something else.
    pub items: BTreeMap<String, String>,
}

/// The tables. Clones are handles to the same ones. All of it blocks.
#[derive(Clone, Debug)]
pub struct RegistryTable(RegistryStorage);

#[derive(Clone, Debug)]
enum RegistryStorage {
    File(Arc<DatabaseSlot>),
    Memory(Arc<Lock<RegistryMemory>>),
}

#[derive(Debug, Default)]
struct RegistryMemory {
    copies: BTreeMap<String, RegistryCopy>,
    releases: BTreeMap<String, String>,
}

impl Default for RegistryTable {
    /// Tables that do not outlive the process.
    fn default() -> Self {
        Self(RegistryStorage::Memory(Arc::default()))
    }
}

impl RegistryTable {
    /// The tables of a store.
    pub fn new(store: &Store) -> Self {
        Self(match store.slot() {
            Some(slot) => RegistryStorage::File(Arc::clone(slot)),
            None => RegistryStorage::Memory(Arc::default()),
        })
    }

    /// The copy of a registry.
    pub fn read(&self, registry: &str) -> Result<RegistryCopy, KeepError> {
        match &self.0 {
            RegistryStorage::Memory(memory) => Ok(memory.lock().copies.get(registry).cloned().unwrap_or_default()),
            RegistryStorage::File(slot) => {
                slot.run(|database| read(database, registry)).map_err(|error| KeepError(error.to_string()))
            }
        }
    }

    /// Keeps what a reading brought: all of it or nothing.
    pub fn keep(&self, registry: &str, step: &CopyStep) -> Result<(), KeepError> {
        match &self.0 {
            RegistryStorage::Memory(memory) => {
                let mut memory = memory.lock();
                let copy = memory.copies.entry(registry.to_owned()).or_default();
                if step.is_whole {
                    copy.items.clear();
                }
                copy.items.extend(step.items.clone());
                copy.state = Some(step.state.clone());
                Ok(())
            }
            RegistryStorage::File(slot) => {
                slot.run(|database| keep(database, registry, step)).map_err(|error| KeepError(error.to_string()))
            }
        }
    }

    /// What was last said of the releases of installed servers, by their names.
    pub fn releases(&self) -> Result<BTreeMap<String, String>, KeepError> {
        match &self.0 {
            RegistryStorage::Memory(memory) => Ok(memory.lock().releases.clone()),
            RegistryStorage::File(slot) => slot.run(releases).map_err(|error| KeepError(error.to_string())),
        }
    }

    /// Keeps what was said of releases, and forgets the servers without a text.
    pub fn keep_releases(&self, said: &BTreeMap<String, Option<String>>) -> Result<(), KeepError> {
        match &self.0 {
            RegistryStorage::Memory(memory) => {
                let mut memory = memory.lock();
                for (server, text) in said {
                    match text {
                        Some(text) => drop(memory.releases.insert(server.clone(), text.clone())),
                        None => drop(memory.releases.remove(server)),
                    }
                }
                Ok(())
            }
            RegistryStorage::File(slot) => {
                slot.run(|database| keep_releases(database, said)).map_err(|error| KeepError(error.to_string()))
            }
        }
    }
}

fn read(database: &Database, registry: &str) -> Result<RegistryCopy, redb::Error> {
    let read = database.begin_read()?;
    let state = match read.open_table(STATES) {
        Ok(table) => table.get(registry)?.and_then(|row| serde_json::from_slice(row.value()).ok()),
        Err(TableError::TableDoesNotExist(_)) => return Ok(RegistryCopy::default()),
        Err(error) => return Err(error.into()),
    };
    // It is there: one transaction makes both tables.
    let table = read.open_table(ITEMS)?;
    let mut items = BTreeMap::new();
    for row in table.range((registry, "")..)? {
        let (key, item) = row?;
        let (of, name) = key.value();
        // Rows are in the order of registries: the next one begins here.
        if of != registry {
            break;
        }
        items.insert(name.to_owned(), item.value().to_owned());
    }
    Ok(RegistryCopy { state, items })
}

fn keep(database: &Database, registry: &str, step: &CopyStep) -> Result<(), redb::Error> {
    let write = database.begin_write()?;
    {
        let mut table = write.open_table(ITEMS)?;
        if step.is_whole {
            // There is no last name to end the range with, so what belongs to other registries is walked and kept.
            table.retain_in((registry, "").., |(of, name), _| of != registry || step.items.contains_key(name))?;
        }
        for (name, item) in &step.items {
            table.insert((registry, name.as_str()), item.as_str())?;
        }
        let state = serde_json::to_vec(&step.state).unwrap_or_default();
        write.open_table(STATES)?.insert(registry, state.as_slice())?;
    }
    write.commit()?;
    Ok(())
}

fn releases(database: &Database) -> Result<BTreeMap<String, String>, redb::Error> {
    let read = database.begin_read()?;
    let table = match read.open_table(RELEASES) {
        Ok(table) => table,
        Err(TableError::TableDoesNotExist(_)) => return Ok(BTreeMap::new()),
        Err(error) => return Err(error.into()),
    };
    let mut said = BTreeMap::new();
    for row in table.iter()? {
        let (server, text) = row?;
        said.insert(server.value().to_owned(), text.value().to_owned());
    }
    Ok(said)
}

fn keep_releases(database: &Database, said: &BTreeMap<String, Option<String>>) -> Result<(), redb::Error> {
    let write = database.begin_write()?;
    {
        let mut table = write.open_table(RELEASES)?;
        for (server, text) in said {
            match text {
                Some(text) => drop(table.insert(server.as_str(), text.as_str())?),
                None => drop(table.remove(server.as_str())?),
            }
        }
    }
    write.commit()?;
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use std::time::Duration;

    use super::*;

    fn step(is_whole: bool, items: &[(&str, &str)]) -> CopyStep {
        let items = items.iter().map(|(name, item)| ((*name).to_owned(), (*item).to_owned())).collect();
        CopyStep { state: CopyState { url: "u".into(), newest: Some(7), refreshed: 9 }, is_whole, items }
    }

    // reach 5
    #[test]
    fn copies_of_registries_do_not_mix_and_outlive_the_process() {
        let folder = tidings_testkit::TempDir::new();
        {
            let table = RegistryTable::new(&Store::open(folder.path(), Duration::ZERO));
            assert_eq!(table.read("a").unwrap(), RegistryCopy::default());
            table.keep("a", &step(true, &[("x/1", "one"), ("x/2", "two")])).unwrap();
            table.keep("b", &step(true, &[("x/1", "other")])).unwrap();
            table.keep("a", &step(false, &[("x/3", "three")])).unwrap();
            table.keep("a", &step(true, &[("x/2", "2"), ("x/3", "three")])).unwrap();
            table.keep_releases(&BTreeMap::from([("s".into(), Some("1".into())), ("t".into(), None)])).unwrap();
        }
        let table = RegistryTable::new(&Store::open(folder.path(), Duration::from_secs(2)));
        let copy = table.read("a").unwrap();
        assert_eq!(
            copy.items.into_iter().collect::<Vec<_>>(),
            [("x/2".to_owned(), "2".to_owned()), ("x/3".to_owned(), "three".to_owned())]
        );
        assert_eq!(copy.state.map(|state| state.newest), Some(Some(7)));
        assert_eq!(table.read("b").unwrap().items["x/1"], "other");
        assert_eq!(table.releases().unwrap(), BTreeMap::from([("s".to_owned(), "1".to_owned())]));
    }
}
