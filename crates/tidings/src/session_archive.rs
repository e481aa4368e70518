//! Sessions of clients in the store of the data directory.

use std::sync::Arc;

use tidings_downstream::http::{ArchiveKey, ArchiveStep, SessionArchive};
use tidings_store::{SessionStep, SessionTable, Store};

/// The archive in a store; none where nothing outlives the process.
pub(crate) fn of(store: &Store) -> Option<Arc<dyn SessionArchive>> {
    let table = SessionTable::new(store);
    table.is_kept().then(|| Arc::new(StoredSessions(table)) as _)
}

struct StoredSessions(SessionTable);

impl SessionArchive for StoredSessions {
    fn read(&self) -> Vec<(ArchiveKey, Vec<u8>)> {
        self.0.read().unwrap_or_else(|error| {
            tracing::warn!(%error, "sessions of an earlier process can not be read; their clients begin anew");
            Vec::new()
        })
    }

    fn write(&self, steps: Vec<ArchiveStep>) {
        let steps: Vec<SessionStep> = steps
            .into_iter()
            .map(|step| match step {
                ArchiveStep::Put(key, text) => SessionStep::Put(key, text),
                ArchiveStep::Remove(key) => SessionStep::Remove(key),
            })
            .collect();
        if let Err(error) = self.0.keep(&steps) {
            tracing::warn!(%error, "sessions could not be kept; they end with this process");
        }
    }
}
