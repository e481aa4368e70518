//! Reads the log in order, each entry with the content that it needs. Never ahead of the driver by more than a few entries.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tidings_cluster::{BusError, FleetBus as _, LoggedEntry, NatsBus};
use tidings_hub::fleet::BlobHash;
use tidings_hub::fleet::entry::FleetEntry;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::set_change;

/// How many entries may wait for the driver.
const AHEAD: usize = 64;
const PAUSE: Duration = Duration::from_millis(100);
/// How often content is asked for that is not there: a list that another took the place of may be gone by now.
const ATTEMPTS: usize = 3;

/// What was read.
pub(super) enum ReadEntry {
    Entry {
        logged: LoggedEntry,
        contents: BTreeMap<BlobHash, Bytes>,
    },
    /// It can not go on.
    Stuck(String),
}

/// A reading of the log from one position on. Dropped, it ends.
pub(super) struct LogReading {
    pub(super) entries: mpsc::Receiver<ReadEntry>,
    task: JoinHandle<()>,
}

impl Drop for LogReading {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl LogReading {
    pub(super) fn begin(bus: Arc<NatsBus>, from: u64) -> Self {
        let (sender, entries) = mpsc::channel(AHEAD);
        let task = tokio::spawn(read(bus, from, sender));
        Self { entries, task }
    }
}

async fn read(bus: Arc<NatsBus>, mut from: u64, sender: mpsc::Sender<ReadEntry>) {
    loop {
        if let Err(error) = read_on(&bus, &mut from, &sender).await {
            match error {
                BusError::NotConnected | BusError::NoAnswer | BusError::NoLeader | BusError::Refused(_) => {
                    tracing::debug!(%error, "the log is read again");
                }
                error => {
                    if sender.send(ReadEntry::Stuck(error.to_string())).await.is_err() {
                        return;
                    }
                    tokio::time::sleep(PAUSE * 50).await;
                }
            }
        }
        if sender.is_closed() {
            return;
        }
        tokio::time::sleep(PAUSE).await;
    }
}

async fn read_on(bus: &NatsBus, from: &mut u64, sender: &mpsc::Sender<ReadEntry>) -> Result<(), BusError> {
    let mut entries = bus.entries(*from).await?;
    loop {
        let logged = entries.next().await?;
        let named = match &logged.entry {
            FleetEntry::Offer { offer, .. } => offer.blobs.clone(),
            FleetEntry::Registry { steps, .. } => set_change::contents_of(steps),
            _ => Vec::new(),
        };
        let mut contents = BTreeMap::new();
        for hash in named {
            if let Some(content) = fetch(bus, hash).await {
                contents.insert(hash, content);
            }
        }
        *from = logged.position + 1;
        if sender.send(ReadEntry::Entry { logged, contents }).await.is_err() {
            return Ok(());
        }
    }
}

/// The content is written before the entry that names it, so it is there, unless it was dropped since, or the bus lost it.
async fn fetch(bus: &NatsBus, hash: BlobHash) -> Option<Bytes> {
    let mut missed = 0;
    while missed < ATTEMPTS {
        match bus.get(hash).await {
            Ok(Some(content)) => return Some(content),
            Ok(None) => missed += 1,
            Err(error) => tracing::debug!(%error, "content beside the log is asked for again"),
        }
        tokio::time::sleep(PAUSE).await;
    }
    None
}
