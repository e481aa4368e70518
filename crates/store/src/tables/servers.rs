//! Servers that were added while the gateway ran, and which servers were switched on or off by hand.

use std::collections::BTreeMap;
use std::sync::Arc;

use redb::{Database, ReadableDatabase as _, ReadableTable as _, TableDefinition, TableError};
use serde_json::Value;
use tidings_sync::Lock;

use crate::slot::DatabaseSlot;
use crate::store::Store;

/// Name to the keys of `[servers.X]`, as they were given: references to variables and files are not expanded.
const SERVERS: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("servers");
/// Name to whether it is on, where that was decided by hand.
const SWITCHES: TableDefinition<'_, &str, bool> = TableDefinition::new("servers_switched");

/// Everything that is kept.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KeptServers {
    /// The servers, by name.
    pub servers: BTreeMap<String, Value>,
    /// Servers that were switched on or off, wherever they come from.
    pub switched: BTreeMap<String, bool>,
}

/// One step. Several are kept together or not at all.
#[derive(Clone, Debug, PartialEq)]
pub enum KeepStep {
    /// A server is to be kept.
    Put(String, Value),
    /// The server of this name is kept no longer.
    Remove(String),
    /// A server was switched; `None`: as it is configured.
    Switch(String, Option<bool>),
}

impl KeepStep {
    /// Which server it is about.
    pub fn name(&self) -> &str {
        match self {
            Self::Put(name, _) | Self::Remove(name) | Self::Switch(name, _) => name,
        }
    }
}

/// Why something was not kept or can not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the store can not be used: {0}")]
pub struct KeepError(pub String);

/// The table. Clones are handles to the same one. All of it blocks.
#[derive(Clone, Debug)]
pub struct ServerTable(ServerStorage);

#[derive(Clone, Debug)]
enum ServerStorage {
    File(Arc<DatabaseSlot>),
    Memory(Arc<Lock<KeptServers>>),
}

impl ServerTable {
    /// The table of a store.
    pub fn new(store: &Store) -> Self {
        Self(match store.slot() {
            Some(slot) => ServerStorage::File(Arc::clone(slot)),
            None => ServerStorage::Memory(Arc::default()),
        })
    }

    /// A table that does not outlive the process and begins with this.
    pub fn in_memory(kept: KeptServers) -> Self {
        Self(ServerStorage::Memory(Arc::new(Lock::new(kept))))
    }

    /// Whether what is written outlives the process.
    pub fn is_kept(&self) -> bool {
        matches!(self.0, ServerStorage::File(_))
    }

    /// Everything. A row that can not be read is reported and left out.
    pub fn read(&self) -> Result<KeptServers, KeepError> {
        match &self.0 {
            ServerStorage::Memory(kept) => Ok(kept.lock().clone()),
            ServerStorage::File(slot) => slot.run(read).map_err(|error| KeepError(error.to_string())),
        }
    }

    /// Takes steps, all or none. They are on disk when this returns.
    pub fn keep(&self, steps: &[KeepStep]) -> Result<(), KeepError> {
        match &self.0 {
            ServerStorage::Memory(kept) => {
                let mut kept = kept.lock();
                steps.iter().for_each(|step| kept.take(step));
                Ok(())
            }
            ServerStorage::File(slot) => {
                slot.run(|database| keep(database, steps)).map_err(|error| KeepError(error.to_string()))
            }
        }
    }
}

impl KeptServers {
    /// Changes the set as the step says; the file is not touched.
    pub fn take(&mut self, step: &KeepStep) {
        match step {
            KeepStep::Put(name, server) => {
                self.servers.insert(name.clone(), server.clone());
            }
            KeepStep::Remove(name) => {
                self.servers.remove(name);
            }
            KeepStep::Switch(name, Some(on)) => {
                self.switched.insert(name.clone(), *on);
            }
            KeepStep::Switch(name, None) => {
                self.switched.remove(name);
            }
        }
    }
}

fn read(database: &Database) -> Result<KeptServers, redb::Error> {
    let mut kept = KeptServers::default();
    let read = database.begin_read()?;
    match read.open_table(SERVERS) {
        Ok(table) => {
            for row in table.iter()? {
                let (name, json) = row?;
                match serde_json::from_slice(json.value()) {
                    Ok(server) => {
                        kept.servers.insert(name.value().to_owned(), server);
                    }
                    // The others are not to blame for it.
                    Err(error) => tracing::error!(server = name.value(), %error, "a kept server can not be read"),
                }
            }
        }
        // Nothing was ever kept: a table is made by its first write.
        Err(TableError::TableDoesNotExist(_)) => {}
        Err(error) => return Err(error.into()),
    }
    match read.open_table(SWITCHES) {
        Ok(table) => {
            for row in table.iter()? {
                let (name, on) = row?;
                kept.switched.insert(name.value().to_owned(), on.value());
            }
        }
        Err(TableError::TableDoesNotExist(_)) => {}
        Err(error) => return Err(error.into()),
    }
    Ok(kept)
}

fn keep(database: &Database, steps: &[KeepStep]) -> Result<(), redb::Error> {
    let write = database.begin_write()?;
    {
        let mut servers = write.open_table(SERVERS)?;
        let mut switches = write.open_table(SWITCHES)?;
        for step in steps {
            match step {
                KeepStep::Put(name, server) => {
                    // As it was given, references unexpanded: a secret must not end up in the file.
                    servers.insert(name.as_str(), server.to_string().as_bytes())?;
                }
                KeepStep::Remove(name) => {
                    servers.remove(name.as_str())?;
                }
                KeepStep::Switch(name, Some(on)) => {
                    switches.insert(name.as_str(), *on)?;
                }
                KeepStep::Switch(name, None) => {
                    switches.remove(name.as_str())?;
                }
            }
        }
    }
    write.commit()?;
    Ok(())
}
