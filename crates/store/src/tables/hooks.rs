//! What webhooks received last, so that it is there after a restart.

use std::sync::Arc;

use redb::{Database, ReadableDatabase as _, TableDefinition, TableError};

use super::servers::KeepError;
use crate::slot::DatabaseSlot;
use crate::store::Store;

/// The name of the watch and the URI.
type Key = (&'static str, &'static str);
/// The time in milliseconds since 1970, the number of the delivery, its type (empty: none) and its body.
type Delivery = (u64, u64, &'static str, &'static [u8]);
const DELIVERIES: TableDefinition<'_, Key, Delivery> = TableDefinition::new("hook_deliveries");

/// One delivery, as the content of one resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptDelivery {
    /// The URI of the resource that the delivery is the content of.
    pub uri: String,
    /// When it came, in milliseconds since 1970.
    pub time: u64,
    /// Which delivery of its webhook it was.
    pub number: u64,
    /// Its type; empty where it has none.
    pub mime_type: String,
    /// The body as it was posted.
    pub body: Vec<u8>,
}

/// The table. Clones are handles to the same one. All of it blocks. Without a file nothing is kept.
#[derive(Clone, Debug, Default)]
pub struct HookTable(Option<Arc<DatabaseSlot>>);

impl HookTable {
    /// The table of a store.
    pub fn new(store: &Store) -> Self {
        Self(store.slot().cloned())
    }

    /// Whether what is written outlives the process.
    pub fn is_kept(&self) -> bool {
        self.0.is_some()
    }

    /// Everything of one watch.
    pub fn read(&self, watch: &str) -> Result<Vec<KeptDelivery>, KeepError> {
        self.run(Vec::new(), |database| read(database, watch))
    }

    /// Keeps deliveries of one watch and drops the contents of other resources of it, all or nothing. On disk when this returns.
    pub fn keep(&self, watch: &str, put: &[KeptDelivery], remove: &[String]) -> Result<(), KeepError> {
        self.run((), |database| keep(database, watch, put, remove))
    }

    /// Drops everything of one watch.
    pub fn forget(&self, watch: &str) -> Result<(), KeepError> {
        let kept = self.read(watch)?;
        let uris: Vec<String> = kept.into_iter().map(|delivery| delivery.uri).collect();
        if uris.is_empty() { Ok(()) } else { self.keep(watch, &[], &uris) }
    }

    fn run<T>(&self, nothing: T, work: impl Fn(&Database) -> Result<T, redb::Error>) -> Result<T, KeepError> {
        match &self.0 {
            Some(slot) => slot.run(work).map_err(|error| KeepError(error.to_string())),
            None => Ok(nothing),
        }
    }
}

fn read(database: &Database, watch: &str) -> Result<Vec<KeptDelivery>, redb::Error> {
    let read = database.begin_read()?;
    let table = match read.open_table(DELIVERIES) {
        Ok(table) => table,
        Err(TableError::TableDoesNotExist(_)) => return Ok(Vec::new()),
        Err(error) => return Err(error.into()),
    };
    let mut kept = Vec::new();
    // An empty URI sorts before all others, so this is the first row of the watch.
    for row in table.range((watch, "")..)? {
        let (key, value) = row?;
        let (of, uri) = key.value();
        if of != watch {
            break;
        }
        let (time, number, mime_type, body) = value.value();
        let (uri, mime_type, body) = (uri.to_owned(), mime_type.to_owned(), body.to_owned());
        kept.push(KeptDelivery { uri, time, number, mime_type, body });
    }
    Ok(kept)
}

fn keep(database: &Database, watch: &str, put: &[KeptDelivery], remove: &[String]) -> Result<(), redb::Error> {
    let write = database.begin_write()?;
    {
        let mut table = write.open_table(DELIVERIES)?;
        for one in put {
            let value = (one.time, one.number, one.mime_type.as_str(), one.body.as_slice());
            table.insert((watch, one.uri.as_str()), value)?;
        }
        for uri in remove {
            table.remove((watch, uri.as_str()))?;
        }
    }
    write.commit()?;
    Ok(())
}
