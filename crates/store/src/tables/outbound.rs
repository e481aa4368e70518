//! How far each URL that is told of changes came, so that it goes on there after a restart.

use std::sync::Arc;

use redb::{Database, ReadableDatabase as _, ReadableTable as _, TableDefinition, TableError};

use super::servers::KeepError;
use crate::slot::DatabaseSlot;
use crate::store::Store;

/// By what tells it apart from others: what is known, as JSON.
const PLACES: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("outbound_places");
/// The row that holds who sends. No hook has this key: theirs are hashes.
const SENDER: &str = "sender";

/// The table. Clones are handles to the same one. All of it blocks. Without a file nothing is kept.
#[derive(Clone, Debug, Default)]
pub struct OutboundTable(Option<Arc<DatabaseSlot>>);

impl OutboundTable {
    /// The table of a store.
    pub fn new(store: &Store) -> Self {
        Self(store.slot().cloned())
    }

    /// Who sends: `fresh` where nobody is known yet, which is kept from then on.
    pub fn sender(&self, fresh: &str) -> Result<String, KeepError> {
        self.run(fresh.to_owned(), |database| {
            let known = get(database, SENDER)?.and_then(|bytes| String::from_utf8(bytes).ok());
            match known {
                Some(known) => Ok(known),
                None => put(database, SENDER, fresh.as_bytes()).map(|()| fresh.to_owned()),
            }
        })
    }

    /// What is kept under a key.
    pub fn read(&self, key: &str) -> Result<Option<Vec<u8>>, KeepError> {
        self.run(None, |database| get(database, key))
    }

    /// Keeps it. On disk when this returns.
    pub fn keep(&self, key: &str, place: &[u8]) -> Result<(), KeepError> {
        self.run((), |database| put(database, key, place))
    }

    /// Drops everything that is kept under other keys.
    pub fn retain(&self, keys: &[String]) -> Result<(), KeepError> {
        self.run((), |database| retain(database, keys))
    }

    fn run<T>(&self, nothing: T, work: impl Fn(&Database) -> Result<T, redb::Error>) -> Result<T, KeepError> {
        match &self.0 {
            Some(slot) => slot.run(work).map_err(|error| KeepError(error.to_string())),
            None => Ok(nothing),
        }
    }
}

fn get(database: &Database, key: &str) -> Result<Option<Vec<u8>>, redb::Error> {
    let read = database.begin_read()?;
    match read.open_table(PLACES) {
        Ok(table) => Ok(table.get(key)?.map(|value| value.value().to_vec())),
        Err(TableError::TableDoesNotExist(_)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn put(database: &Database, key: &str, value: &[u8]) -> Result<(), redb::Error> {
    let write = database.begin_write()?;
    write.open_table(PLACES)?.insert(key, value)?;
    write.commit()?;
    Ok(())
}

fn retain(database: &Database, keys: &[String]) -> Result<(), redb::Error> {
    // Most often nothing is to be dropped, and then nothing is written.
    let read = database.begin_read()?;
    let table = match read.open_table(PLACES) {
        Ok(table) => table,
        Err(TableError::TableDoesNotExist(_)) => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    let known = table.iter()?.map(|row| row.map(|(key, _)| key.value().to_owned())).collect::<Result<Vec<_>, _>>()?;
    let gone: Vec<String> = known.into_iter().filter(|key| key != SENDER && !keys.contains(key)).collect();
    drop((table, read));
    if gone.is_empty() {
        return Ok(());
    }
    let write = database.begin_write()?;
    {
        let mut table = write.open_table(PLACES)?;
        for key in &gone {
            table.remove(key.as_str())?;
        }
    }
    write.commit()?;
    Ok(())
}
