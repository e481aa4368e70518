//! Which tool was used after which question, so that search remembers it after a restart.

use std::sync::Arc;

use redb::{Database, ReadableDatabase as _, ReadableTable as _, TableDefinition, TableError};

use super::servers::KeepError;
use crate::slot::DatabaseSlot;
use crate::store::Store;

/// Whose it is, the words of the question, the server and the tool.
type Key = (&'static str, &'static str, &'static str, &'static str);
/// How often, and when last in seconds since 1970.
const USES: TableDefinition<'_, Key, (u32, u64)> = TableDefinition::new("search_uses");

/// One tool that was used after a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptUse {
    /// Whose it is. Never shown to anybody else.
    pub principal: String,
    /// The words of the question.
    pub question: String,
    /// The server of the tool.
    pub server: String,
    /// What that server calls it.
    pub tool: String,
    /// How often it was used after this question.
    pub count: u32,
    /// When last, in seconds since 1970.
    pub last: u64,
}

/// The table. Clones are handles to the same one. All of it blocks. Without a file nothing is kept.
#[derive(Clone, Debug, Default)]
pub struct UseTable(Option<Arc<DatabaseSlot>>);

impl UseTable {
    /// The table of a store.
    pub fn new(store: &Store) -> Self {
        Self(store.slot().cloned())
    }

    /// Every use of every principal, for search to begin with.
    pub fn read(&self) -> Result<Vec<KeptUse>, KeepError> {
        let Some(slot) = &self.0 else { return Ok(Vec::new()) };
        slot.run(read).map_err(|error| KeepError(error.to_string()))
    }

    /// Keeps one and drops others, all or nothing.
    pub fn keep(&self, put: &KeptUse, dropped: &[KeptUse]) -> Result<(), KeepError> {
        let Some(slot) = &self.0 else { return Ok(()) };
        slot.run(|database| keep(database, put, dropped)).map_err(|error| KeepError(error.to_string()))
    }

    /// Drops every use of every principal, as the user asks for it.
    pub fn forget(&self) -> Result<(), KeepError> {
        let Some(slot) = &self.0 else { return Ok(()) };
        slot.run(forget).map_err(|error| KeepError(error.to_string()))
    }
}

fn key(kept: &KeptUse) -> (&str, &str, &str, &str) {
    (&kept.principal, &kept.question, &kept.server, &kept.tool)
}

fn read(database: &Database) -> Result<Vec<KeptUse>, redb::Error> {
    let read = database.begin_read()?;
    let table = match read.open_table(USES) {
        Ok(table) => table,
        Err(TableError::TableDoesNotExist(_)) => return Ok(Vec::new()),
        Err(error) => return Err(error.into()),
    };
    let mut kept = Vec::new();
    for row in table.iter()? {
        let (key, value) = row?;
        let ((principal, question, server, tool), (count, last)) = (key.value(), value.value());
        let [principal, question, server, tool] = [principal, question, server, tool].map(str::to_owned);
        kept.push(KeptUse { principal, question, server, tool, count, last });
    }
    Ok(kept)
}

fn keep(database: &Database, put: &KeptUse, dropped: &[KeptUse]) -> Result<(), redb::Error> {
    let write = database.begin_write()?;
    {
        let mut table = write.open_table(USES)?;
        // Removed before the insert, so that the table never holds more than it may.
        for gone in dropped {
            table.remove(key(gone))?;
        }
        table.insert(key(put), (put.count, put.last))?;
    }
    write.commit()?;
    Ok(())
}

fn forget(database: &Database) -> Result<(), redb::Error> {
    let write = database.begin_write()?;
    write.delete_table(USES)?;
    write.commit()?;
    Ok(())
}
