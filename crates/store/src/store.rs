//! The store of a data directory, with one owner at a time; how its file is opened is in `database_file.rs`, what is in it in `tables`.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;

use crate::chain::{ChainedLog, Seal};
use crate::chain_key::ChainKey;
use crate::database_file::{RETRY, StoreError, open};
use crate::slot::DatabaseSlot;
use crate::tables::{audit, changes};

/// The file in the data directory.
const FILE: &str = "tidings.redb";

/// The logs that are sealed.
const LOGS: [&ChainedLog; 2] = [&changes::CHAIN, &audit::CHAIN];

/// An open store, or the memory that stands in for it.
#[derive(Clone, Debug)]
pub struct Store {
    slot: Option<Arc<DatabaseSlot>>,
    /// The least number that nothing of an earlier, lost store had.
    floor: u64,
    /// What signs for the records.
    key: Option<Arc<ChainKey>>,
    /// Why nothing may be written to the logs: there is no key to sign with.
    unsigned: Option<Arc<str>>,
    /// Whether it was opened to be looked at, which takes no key.
    is_look: bool,
}

impl Store {
    /// Opens or makes the store of a data directory. Whatever is wrong is reported in the log, and memory is used instead;
    /// `patience` is for another process that is about to leave.
    pub fn open(directory: &Path, patience: Duration) -> Self {
        let path = directory.join(FILE);
        let until = Instant::now() + patience;
        loop {
            match open(&path, true) {
                Ok(database) => return Self::of(DatabaseSlot::new(path, database)).sealed(directory),
                Err(StoreError::InUse(_)) if Instant::now() < until => std::thread::sleep(RETRY),
                Err(StoreError::InUse(_)) => {
                    tracing::info!(path = %path.display(), "another process keeps the store; changes are kept in memory");
                    return Self::in_memory();
                }
                // A gateway that does not start because of its own log would be worse than one that forgot it.
                Err(StoreError::Broken { reason, .. }) => {
                    // The key outlives the broken file, so the new logs are sealed as broken: `verify` tells that records are missing.
                    return Self::start_over(&path, &reason).sealed(directory);
                }
                Err(error @ StoreError::Unavailable { .. }) => {
                    tracing::error!(%error, "no store; changes are kept in memory");
                    return Self::in_memory();
                }
            }
        }
    }

    /// Nothing that outlives the process.
    pub fn in_memory() -> Self {
        Self { slot: None, floor: 0, key: None, unsigned: None, is_look: false }
    }

    pub(crate) fn of(slot: DatabaseSlot) -> Self {
        Self { slot: Some(Arc::new(slot)), floor: 0, key: None, unsigned: None, is_look: false }
    }

    /// With the key of the data directory, and both logs sealed by it. Without one the logs are kept in memory: what is not signed could
    /// not be told from what somebody else wrote, and a log that was signed must not lose its seal because its key can not be read.
    fn sealed(mut self, directory: &Path) -> Self {
        let Some(slot) = &self.slot else { return self };
        let establish = |key: &ChainKey, is_new| slot.run(|database| Seal::establish(database, &LOGS, key, is_new));
        let key = ChainKey::of(directory).and_then(|key| match key {
            Some(key) => establish(&key, false).map(|()| key).map_err(io::Error::other),
            // The database is open and locked by this process, so no other one makes a key at the same time.
            None => ChainKey::make(directory, |key| establish(key, true)),
        });
        match key {
            Ok(key) => self.key = Some(Arc::new(key)),
            Err(error) => {
                tracing::error!(%error, "no key to sign with; what is recorded is kept in memory, and is gone when this process ends");
                self.unsigned = Some(error.to_string().into());
            }
        }
        self
    }

    pub(crate) fn key(&self) -> Option<Arc<ChainKey>> {
        self.key.clone()
    }

    /// Why the key of the directory is not known, if it is there.
    pub(crate) fn unsigned(&self) -> Option<&str> {
        self.unsigned.as_deref()
    }

    /// Where the logs are kept: nowhere without a key.
    pub(crate) fn log_slot(&self) -> Option<&Arc<DatabaseSlot>> {
        // A look writes nothing, so it may read the logs of a directory whose key can not be had.
        self.slot.as_ref().filter(|_| self.unsigned.is_none() || self.is_look)
    }

    /// The store of a data directory if there is one, for a short look. Makes and moves nothing.
    pub fn existing(directory: &Path) -> Result<Option<Self>, StoreError> {
        let path = directory.join(FILE);
        if !path.exists() {
            return Ok(None);
        }
        // Not made where it is gone meanwhile: a look must leave no file behind.
        let database = open(&path, false)?;
        let mut store = Self { is_look: true, ..Self::of(DatabaseSlot::new(path, database)) };
        match ChainKey::of(directory) {
            Ok(key) => store.key = key.map(Arc::new),
            Err(error) => store.unsigned = Some(error.to_string().into()),
        }
        Ok(Some(store))
    }

    /// Whether what is written outlives the process.
    pub fn is_kept(&self) -> bool {
        self.slot.is_some()
    }

    /// Whether there is a key that signs what is written to the logs.
    pub fn is_signed(&self) -> bool {
        self.key.is_some()
    }

    pub(crate) fn slot(&self) -> Option<&Arc<DatabaseSlot>> {
        self.slot.as_ref()
    }

    pub(crate) fn floor(&self) -> u64 {
        self.floor
    }

    /// Moves a broken file aside and begins a new one.
    fn start_over(path: &Path, reason: &str) -> Self {
        let now = Timestamp::now().as_second();
        let aside = path.with_extension(format!("redb.broken-{now}"));
        if let Err(error) = std::fs::rename(path, &aside) {
            tracing::error!(path = %path.display(), %reason, %error, "the store is broken and can not be moved aside");
            return Self::in_memory();
        }
        tracing::error!(%reason, aside = %aside.display(), "the store was broken; it was moved aside and a new one begun");
        match open(path, true) {
            // How far the lost log had counted is not known; it was fewer than seconds have passed since 1970.
            Ok(database) => Self {
                floor: u64::try_from(now).unwrap_or_default(),
                ..Self::of(DatabaseSlot::new(path.to_owned(), database))
            },
            Err(error) => {
                tracing::error!(%error, "no store; changes are kept in memory");
                Self::in_memory()
            }
        }
    }
}
