//! The change log: whoever has a change hands it over and goes on; one thread numbers and writes it.

use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, Condvar, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use tidings_sync::Lock;
use tokio::sync::watch;

use crate::draft::{RecordDraft, WaitingEntry};
use crate::lists::{Batch, ItemHash, LastLists, ListDelta, ListOwner, Listing, LogEntry};
use crate::record::ChangeRecord;
use crate::store::Store;
use crate::tables::changes::{ChangeQuery, ChangeRow, ChangeRowStorage, ChangeRows, LogLimits, QueryStart};
use crate::tables::definitions::{DefinedItem, DefinitionState, ItemPlace};

/// How long a reader waits for the store to be opened.
const OPENING: Duration = Duration::from_secs(10);
/// How long the end waits for the last write.
const CLOSING: Duration = Duration::from_secs(5);
/// What a follower reads at a time.
const BATCH: usize = 64;
const BATCH_BYTES: usize = 1 << 20;

/// Why the log can not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LogError {
    /// It is not open yet.
    #[error("the change log is still being opened")]
    Opening,
    /// The file does not give it.
    #[error("the change log can not be read: {0}")]
    Unreadable(String),
    /// Nothing can be signed.
    #[error("there is no key to sign with: the records of this process are only in its memory")]
    Unsigned,
    /// The log is closed: the process is about to end.
    #[error("the change log is closed")]
    Closed,
}

/// The log. Clones are handles to the same one; it is closed when the last is dropped.
#[derive(Clone, Debug)]
pub struct ChangeLog(Arc<LogOwner>);

#[derive(Debug)]
struct LogOwner(Arc<LogShared>);

#[derive(Debug)]
struct LogShared {
    limits: LogLimits,
    /// Bounded by `limits`. What does not fit, or can not be written, is counted; the log says so, and so does the next
    /// change that is written.
    queue: Lock<LogQueue>,
    bell: Condvar,
    shelf: OnceLock<ChangeRowStorage>,
    progress: watch::Sender<WriteProgress>,
}

#[derive(Debug, Default)]
struct LogQueue {
    waiting: VecDeque<WaitingEntry>,
    bytes: usize,
    lost: u64,
    /// Servers of which something was lost.
    overlooked: HashSet<ListOwner>,
    closed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WriteProgress {
    Opening,
    /// The newest number that can be read.
    Open(u64),
    Closed,
}

impl ChangeLog {
    /// Starts the log's thread, which begins by opening the store.
    pub fn start(open: impl FnOnce() -> Store + Send + 'static, limits: LogLimits) -> Self {
        let shared = Arc::new(LogShared {
            limits,
            queue: Lock::default(),
            bell: Condvar::new(),
            shelf: OnceLock::new(),
            progress: watch::Sender::new(WriteProgress::Opening),
        });
        let writer = LogWriter(Arc::clone(&shared));
        let spawned = std::thread::Builder::new().name("change-log".into()).spawn(move || writer.run(open));
        if let Err(error) = spawned {
            // The writer was dropped with its closure, so the log is closed and says so to whoever asks.
            tracing::error!(%error, "no thread for the change log; changes are not recorded");
        }
        Self(Arc::new(LogOwner(shared)))
    }

    /// Reads a store that no log was started for. Blocks.
    pub fn look(store: &Store, query: ChangeQuery) -> Result<ChangeRows, LogError> {
        ChangeRowStorage::new(store).read(query).map_err(|error| LogError::Unreadable(error.to_string()))
    }

    /// Hands over a change. `delta` is what it makes of the lists that the next process compares with. Does not wait.
    pub fn append(&self, record: ChangeRecord, delta: Option<ListDelta>) {
        self.hand_over(LogEntry::Changed(Box::new(record), delta));
    }

    /// The same for a record that is completed on the log's thread. Does not wait.
    pub fn append_draft(&self, draft: RecordDraft) {
        self.queue_up(WaitingEntry::Draft(draft));
    }

    /// A process begins with these servers: what it lists first is compared with what was known last. Does not wait.
    pub fn began(&self, servers: Vec<ListOwner>) {
        self.hand_over(LogEntry::Began(Timestamp::now(), servers));
    }

    /// Hands over the lists of a server that was not known to list anything. What differs from what was known last is recorded.
    /// Does not wait.
    pub fn listed(&self, listing: Listing) {
        self.hand_over(LogEntry::Listed(listing));
    }

    /// A server is no longer there: what it is still known to list is gone. Does not wait.
    pub fn gone(&self, time: Timestamp, owner: ListOwner) {
        self.hand_over(LogEntry::Gone(time, owner));
    }

    fn hand_over(&self, entry: LogEntry) {
        self.queue_up(WaitingEntry::Complete(entry));
    }

    fn queue_up(&self, entry: WaitingEntry) {
        let shared = &self.0.0;
        let mut queue = shared.queue();
        // The process is ending; there is nobody left to tell.
        if queue.closed {
            return;
        }
        let weight = entry.weight();
        let full = queue.waiting.len() >= shared.limits.max_waiting
            || queue.bytes.saturating_add(weight) > shared.limits.max_waiting_bytes;
        if full && let WaitingEntry::Draft(_) = entry {
            drop(queue);
            // A record is bounded, what it is made of is not: better that one commit takes longer than that its record is lost.
            return self.queue_up(WaitingEntry::Complete(entry.complete()));
        }
        // The caller is on the path of a commit and must not wait for a disk; the loss is counted, and told with the
        // next record.
        if full {
            queue.lost += 1;
            let owner = entry.owner().cloned();
            let server = owner.as_ref().map(|owner| owner.server.as_str()).unwrap_or_default();
            tracing::error!(server, "too many changes wait to be recorded; one is lost");
            // What this server lists next can not be compared any more: a part of its history is missing.
            queue.overlooked.extend(owner);
        } else {
            queue.bytes += weight;
            queue.waiting.push_back(entry);
        }
        shared.bell.notify_one();
    }

    /// The number of the newest change that followers can be told of. Reads nothing.
    pub async fn newest(&self) -> Result<u64, LogError> {
        self.opened().await
    }

    /// Reads rows on a thread where blocking is allowed.
    pub async fn read(&self, query: ChangeQuery) -> Result<ChangeRows, LogError> {
        self.ask(move |shelf| shelf.read(query)).await
    }

    /// The definition with this hash, if it is kept.
    pub async fn definition(&self, digest: ItemHash) -> Result<Option<Vec<u8>>, LogError> {
        self.ask(move |shelf| shelf.definition(&digest)).await
    }

    /// What an item said, the newest first; nothing where that is not kept.
    pub async fn history(
        &self,
        owner: ListOwner,
        kind: String,
        name: String,
    ) -> Result<Vec<DefinitionState>, LogError> {
        let place = move |shelf: &ChangeRowStorage| {
            let place = ItemPlace { server: &owner.server, built_in: owner.built_in, kind: &kind, name: &name };
            shelf.history(place)
        };
        self.ask(place).await
    }

    /// Every item of a kind that there was at a time (in milliseconds since 1970), by server and name.
    pub async fn items_at(&self, kind: String, at: u64) -> Result<Vec<DefinedItem>, LogError> {
        self.ask(move |shelf| shelf.items_at(&kind, at)).await
    }

    async fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&ChangeRowStorage) -> Result<T, redb::Error> + Send + 'static,
    ) -> Result<T, LogError> {
        self.opened().await?;
        let shared = Arc::clone(&self.0.0);
        let asked = tokio::task::spawn_blocking(move || match shared.shelf.get() {
            Some(shelf) => question(shelf).map_err(|error| LogError::Unreadable(error.to_string())),
            None => Err(LogError::Closed),
        });
        asked.await.unwrap_or_else(|error| Err(LogError::Unreadable(error.to_string())))
    }

    /// Reads on from a number, or from now on.
    pub async fn follow(&self, after: Option<u64>) -> Result<LogTail, LogError> {
        let told = self.opened().await?;
        let cursor = match after {
            None => told,
            Some(after) if after <= told => after,
            // A number from another log, or from the future, means now. But what is written can be read a moment before it
            // is told of: the store itself knows.
            Some(after) => {
                let newest = ChangeQuery { from: QueryStart::Newest, limit: 1, max_bytes: BATCH_BYTES };
                after.min(self.read(newest).await?.last)
            }
        };
        Ok(LogTail { log: self.clone(), cursor, progress: self.0.0.progress.subscribe() })
    }

    /// Waits until everything handed over is written, and takes no more.
    pub async fn close(&self) {
        self.0.0.close();
        let mut progress = self.0.0.progress.subscribe();
        // Nobody need wait for a store that nothing is written to.
        // A store on a slow disk may still be opening.
        if *progress.borrow() == WriteProgress::Opening && self.0.0.queue().waiting.is_empty() {
            return;
        }
        let closed = progress.wait_for(|progress| *progress == WriteProgress::Closed);
        if tokio::time::timeout(CLOSING, closed).await.is_err() {
            tracing::error!("the last changes could not be written in time");
        }
    }

    /// The newest number, once the store is open.
    async fn opened(&self) -> Result<u64, LogError> {
        let mut progress = self.0.0.progress.subscribe();
        let opened = progress.wait_for(|progress| *progress != WriteProgress::Opening);
        match tokio::time::timeout(OPENING, opened).await {
            Ok(Ok(state)) => match *state {
                WriteProgress::Open(last) => Ok(last),
                WriteProgress::Opening | WriteProgress::Closed => Err(LogError::Closed),
            },
            Ok(Err(_)) => Err(LogError::Closed),
            Err(_) => Err(LogError::Opening),
        }
    }
}

/// One reader that follows. Between two reads it holds nothing but its place, so a slow one costs only itself.
#[derive(Debug)]
pub struct LogTail {
    log: ChangeLog,
    cursor: u64,
    progress: watch::Receiver<WriteProgress>,
}

impl LogTail {
    /// The number of the last change that was given, or that it began after.
    pub fn cursor(&self) -> u64 {
        self.cursor
    }

    /// The next changes, at least one. Can be dropped and called again without loss.
    pub async fn next(&mut self) -> Result<Vec<ChangeRow>, LogError> {
        loop {
            // Marked before the read: what is written meanwhile rings again.
            if *self.progress.borrow_and_update() == WriteProgress::Closed {
                // The last rows are not given any more: the process ends, and the reader goes on from its cursor in the next one.
                return Err(LogError::Closed);
            }
            let query = ChangeQuery { from: QueryStart::After(self.cursor), limit: BATCH, max_bytes: BATCH_BYTES };
            let rows = self.log.read(query).await?.rows;
            if let Some(row) = rows.last() {
                // Moved only with what is given back, so that dropping this future loses nothing.
                self.cursor = row.seq;
                return Ok(rows);
            }
            self.progress.changed().await.map_err(|_| LogError::Closed)?;
        }
    }
}

impl LogShared {
    fn queue(&self) -> MutexGuard<'_, LogQueue> {
        self.queue.lock()
    }

    fn close(&self) {
        self.queue().closed = true;
        self.bell.notify_one();
    }

    /// Waits for something to write; `None` at the end.
    fn take(&self) -> Option<Taken> {
        let mut queue = self.queue();
        loop {
            if !queue.waiting.is_empty() {
                // All of it at once: many changes of one moment are one transaction, so one sync of the disk.
                queue.bytes = 0;
                return Some(Taken {
                    entries: std::mem::take(&mut queue.waiting).into(),
                    overlooked: std::mem::take(&mut queue.overlooked),
                    lost: std::mem::take(&mut queue.lost),
                });
            }
            // Only when nothing waits: what was handed over before the end is still written.
            if queue.closed {
                return None;
            }
            queue = self.bell.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Drop for LogOwner {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// What waited to be written.
struct Taken {
    entries: Vec<WaitingEntry>,
    overlooked: HashSet<ListOwner>,
    lost: u64,
}

struct LogWriter(Arc<LogShared>);

impl LogWriter {
    fn run(self, open: impl FnOnce() -> Store) {
        // Set here and not at the start: opening the file may take seconds, and nobody waits for that.
        let shelf = self.0.shelf.get_or_init(|| ChangeRowStorage::new(&open()));
        let mut last = match shelf.last() {
            Ok(last) => last,
            Err(error) => {
                tracing::error!(%error, "the change log can not be read; changes are not recorded");
                // Dropping `self` closes the log, so that readers are told and do not wait.
                return;
            }
        };
        self.0.progress.send_replace(WriteProgress::Open(last));
        let mut lists = LastLists::default();
        while let Some(Taken { entries, overlooked, mut lost }) = self.0.take() {
            overlooked.iter().for_each(|owner| lists.overlook(owner));
            let mut batch = Batch::default();
            for entry in entries.into_iter().map(WaitingEntry::complete) {
                // What the entry is compared with must be in the store, so everything before it is written first.
                if lists.compares(&entry) && entry.owner().is_none_or(|owner| batch.touches(owner)) {
                    self.flush(shelf, &mut last, std::mem::take(&mut batch), &mut lost, &mut lists);
                }
                if let Err(error) = lists.take(entry, shelf, &mut batch) {
                    tracing::error!(%error, "lists could not be compared with what was known of them");
                }
            }
            self.flush(shelf, &mut last, batch, &mut lost, &mut lists);
            // Nothing was written that could say so.
            self.0.queue().lost += lost;
        }
    }

    /// Writes. What could not be written is lost, and the next record says so.
    fn flush(&self, shelf: &ChangeRowStorage, last: &mut u64, mut batch: Batch, lost: &mut u64, lists: &mut LastLists) {
        if batch.is_empty() {
            return;
        }
        let count = batch.records.len() as u64;
        // A batch without records has nothing that could tell of a loss.
        let before = if count == 0 { 0 } else { std::mem::take(lost) };
        let owners = batch.take_owners();
        match self.write(shelf, *last, batch, before) {
            Ok(newest) => {
                *last = newest;
                self.0.progress.send_replace(WriteProgress::Open(newest));
            }
            Err(error) => {
                tracing::error!(%error, count, "changes could not be recorded");
                // Whether they are on disk after all is not known, so their numbers are not used again.
                *last += count;
                *lost += before + count;
                lists.not_written(&owners);
            }
        }
    }

    fn write(&self, shelf: &ChangeRowStorage, last: u64, batch: Batch, mut lost: u64) -> Result<u64, redb::Error> {
        let mut seq = last;
        let mut rows = Vec::with_capacity(batch.records.len());
        for mut record in batch.records {
            seq += 1;
            record.seq = seq;
            // The first record after a loss tells of it, so that readers know of the gap.
            record.lost = std::mem::take(&mut lost);
            let time = u64::try_from(record.time.as_millisecond()).unwrap_or_default();
            match serde_json::to_vec(&record) {
                Ok(json) => rows.push(ChangeRow { seq, time, json: json.into() }),
                Err(error) => tracing::error!(%error, "a change could not be written down"),
            }
        }
        let now = u64::try_from(Timestamp::now().as_millisecond()).unwrap_or_default();
        shelf.append(rows, &batch.steps, &self.0.limits, now)?;
        Ok(seq)
    }
}

impl Drop for LogWriter {
    fn drop(&mut self) {
        // Also when the thread panicked or was never started.
        // Whoever hands something over from now on is not told that it waits.
        self.0.queue().closed = true;
        self.0.progress.send_replace(WriteProgress::Closed);
    }
}
