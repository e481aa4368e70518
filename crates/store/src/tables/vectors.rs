//! Vectors that an embeddings endpoint gave, so that no text is sent there twice.
//!
//! The key is a hash of the endpoint, the model and the text: who reads the file learns no text.

use std::sync::Arc;

use redb::{
    Database, ReadableDatabase as _, ReadableTable as _, ReadableTableMetadata as _, TableDefinition, TableError,
};

use super::servers::KeepError;
use crate::slot::DatabaseSlot;
use crate::store::Store;

/// The hash to when it came, in seconds since 1970, and the numbers.
const VECTORS: TableDefinition<'_, &[u8], (u64, &[u8])> = TableDefinition::new("search_vectors");
/// How many there may be. With more, the oldest quarter goes.
const ROWS: u64 = 40_000;
/// How many numbers one may have.
const NUMBERS: usize = 8_192;

/// Under which a vector is kept.
pub type VectorKey = [u8; 32];

/// The table. Clones are handles to the same one. All of it blocks. Without a file nothing is kept.
#[derive(Clone, Debug, Default)]
pub struct VectorTable(Option<Arc<DatabaseSlot>>);

impl VectorTable {
    /// The table of a store.
    pub fn new(store: &Store) -> Self {
        Self(store.slot().cloned())
    }

    /// The vectors of these keys, where there is one.
    pub fn read(&self, keys: &[VectorKey]) -> Result<Vec<Option<Vec<f32>>>, KeepError> {
        let Some(slot) = &self.0 else { return Ok(vec![None; keys.len()]) };
        slot.run(|database| read(database, keys)).map_err(|error| KeepError(error.to_string()))
    }

    /// Keeps vectors, all or none, with the time in seconds since 1970.
    pub fn keep(&self, vectors: &[(VectorKey, Vec<f32>)], now: u64) -> Result<(), KeepError> {
        let Some(slot) = &self.0 else { return Ok(()) };
        slot.run(|database| keep(database, vectors, now)).map_err(|error| KeepError(error.to_string()))
    }
}

fn read(database: &Database, keys: &[VectorKey]) -> Result<Vec<Option<Vec<f32>>>, redb::Error> {
    let read = database.begin_read()?;
    let table = match read.open_table(VECTORS) {
        Ok(table) => table,
        Err(TableError::TableDoesNotExist(_)) => return Ok(vec![None; keys.len()]),
        Err(error) => return Err(error.into()),
    };
    let mut found = Vec::with_capacity(keys.len());
    for key in keys {
        let row = table.get(key.as_slice())?;
        found.push(row.map(|row| {
            let numbers = row.value().1.chunks_exact(4);
            numbers.map(|bytes| f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])).collect()
        }));
    }
    Ok(found)
}

fn keep(database: &Database, vectors: &[(VectorKey, Vec<f32>)], now: u64) -> Result<(), redb::Error> {
    let write = database.begin_write()?;
    {
        let mut table = write.open_table(VECTORS)?;
        // One that is too long is asked for again after the next start, which costs a request and nothing else.
        for (key, numbers) in vectors.iter().filter(|(_, numbers)| numbers.len() <= NUMBERS) {
            let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
            table.insert(key.as_slice(), (now, bytes.as_slice()))?;
        }
        if table.len()? > ROWS {
            let mut times = Vec::new();
            for row in table.iter()? {
                let (key, value) = row?;
                times.push((value.value().0, key.value().to_vec()));
            }
            times.sort_unstable();
            // A quarter at once, so that this walk is rare.
            for (_, key) in times.iter().take(ROWS as usize / 4) {
                table.remove(key.as_slice())?;
            }
        }
    }
    write.commit()?;
    Ok(())
}
