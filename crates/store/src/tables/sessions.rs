//! Sessions of clients, so that they go on when the gateway is started again.
//!
//! The key is a hash of the session's id: who reads the file learns no id. What the text says is no matter of this table.

use std::sync::Arc;

use redb::{
    Database, ReadableDatabase as _, ReadableTable as _, ReadableTableMetadata as _, TableDefinition, TableError,
};

use super::servers::KeepError;
use crate::slot::DatabaseSlot;
use crate::store::Store;

/// The hash of an id to what is kept of the session.
const SESSIONS: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("sessions");
/// How many rows there may be: more than sessions, since those that ended are removed a moment later.
const ROWS: u64 = 20_000;
/// How large a row may be. A session that needs more does not outlive the process.
const ROW: usize = 64 << 10;

/// Under which a session is kept.
pub type SessionKey = [u8; 32];

/// One step. Several are kept together or not at all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionStep {
    /// A session is there, or is another now.
    Put(SessionKey, Vec<u8>),
    /// A session is over.
    Remove(SessionKey),
}

/// The table. Clones are handles to the same one. All of it blocks.
#[derive(Clone, Debug)]
pub struct SessionTable(Option<Arc<DatabaseSlot>>);

impl SessionTable {
    /// The table of a store. In memory nothing is kept.
    pub fn new(store: &Store) -> Self {
        Self(store.slot().cloned())
    }

    /// Whether what is written outlives the process.
    pub fn is_kept(&self) -> bool {
        self.0.is_some()
    }

    /// All sessions that are kept, with the hashes of their ids.
    pub fn read(&self) -> Result<Vec<(SessionKey, Vec<u8>)>, KeepError> {
        let Some(slot) = &self.0 else { return Ok(Vec::new()) };
        slot.run(read).map_err(|error| KeepError(error.to_string()))
    }

    /// Takes steps, all or none. They are on disk when this returns.
    pub fn keep(&self, steps: &[SessionStep]) -> Result<(), KeepError> {
        let Some(slot) = &self.0 else { return Ok(()) };
        slot.run(|database| keep(database, steps)).map_err(|error| KeepError(error.to_string()))
    }
}

fn read(database: &Database) -> Result<Vec<(SessionKey, Vec<u8>)>, redb::Error> {
    let read = database.begin_read()?;
    let table = match read.open_table(SESSIONS) {
        Ok(table) => table,
        Err(TableError::TableDoesNotExist(_)) => return Ok(Vec::new()),
        Err(error) => return Err(error.into()),
    };
    let mut all = Vec::new();
    for row in table.iter()? {
        let (key, text) = row?;
        // A key of another length is no hash of ours; its session begins anew.
        if let Ok(key) = SessionKey::try_from(key.value()) {
            all.push((key, text.value().to_vec()));
        }
    }
    Ok(all)
}

fn keep(database: &Database, steps: &[SessionStep]) -> Result<(), redb::Error> {
    let write = database.begin_write()?;
    {
        let mut table = write.open_table(SESSIONS)?;
        for step in steps {
            match step {
                SessionStep::Put(key, text) if text.len() <= ROW && table.len()? < ROWS => {
                    table.insert(key.as_slice(), text.as_slice())?;
                }
                // Too large or too many: an older row of the same session would be wrong, so it goes too.
                SessionStep::Put(key, _) | SessionStep::Remove(key) => {
                    table.remove(key.as_slice())?;
                }
            }
        }
    }
    write.commit()?;
    Ok(())
}
