//! The audit log: whoever did something writes down what is to be known of it and goes on; one thread puts it into the chain.
//!
//! What waits is bounded by its bytes ([`crate::audit_lanes`]); what does not fit is counted, and the log itself says how much is
//! missing (a record of kind `gap`).

use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use tidings_sync::Lock;
use tokio::sync::{oneshot, watch};

use crate::audit_batch::AuditBatch;
use crate::audit_clock::AuditClock;
use crate::audit_lanes::{AuditGauge, AuditLanes, AuditQueue, LaneBuffer};
use crate::audit_sinks::{AuditSinks, SinkSettings};
use crate::checkpoint::Checkpoint;
use crate::log::LogError;
use crate::store::Store;
use crate::tables::audit::{AuditLimits, AuditStorage};
use crate::tables::changes::{ChangeQuery, ChangeRow, ChangeRows, QueryStart};
use crate::verify::{VerifyReport, verify_audited};

/// How long records are gathered before they are written: so many calls cost one write to the disk.
const GATHER: Duration = Duration::from_millis(100);
/// How long where so many come in the first [`GATHER`] that writing them slows calls down, unless [`BATCH_BYTES`] are reached before: a
/// transaction of many records costs half as much for each.
const GATHER_MANY: Duration = Duration::from_secs(1);
/// How often it looks meanwhile, and how often where many come: each look takes the processor from those who call.
const LOOK: Duration = Duration::from_millis(25);
const LOOK_MANY: Duration = Duration::from_millis(125);
const MANY: usize = 1_000;
/// How often a checkpoint is signed while there is something to sign.
const CHECKPOINT: Duration = Duration::from_secs(60 * 60);
/// How long the end waits for the last write.
const CLOSING: Duration = Duration::from_secs(5);
/// How long a reader waits for the log to be opened.
const OPENING: Duration = Duration::from_secs(10);
/// What a follower reads at a time.
const FOLLOW: usize = 256;
const FOLLOW_BYTES: usize = 1 << 20;
/// What is written in one transaction at most.
const BATCH_BYTES: usize = 8 << 20;

/// What reads. Clones are handles to the same log.
#[derive(Clone, Debug)]
pub struct AuditLog {
    shared: Arc<AuditShared>,
}

#[derive(Debug)]
struct AuditShared {
    gauge: Arc<AuditGauge>,
    requests: Lock<WriterRequests>,
    storage: OnceLock<AuditStorage>,
    progress: watch::Sender<AuditProgress>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AuditProgress {
    Opening,
    /// The newest number that can be read.
    Open(u64),
    Closed,
}

impl AuditLog {
    /// Starts the thread of the log.
    pub fn start<M>(store: Store, limits: AuditLimits, sinks: SinkSettings) -> (Self, AuditQueue<M>)
    where
        M: Default + Send + 'static,
    {
        let gauge = Arc::new(AuditGauge::new(limits.max_waiting));
        let lanes = Arc::new(AuditLanes::new(Arc::clone(&gauge)));
        let shared = Arc::new(AuditShared {
            gauge,
            requests: Lock::default(),
            storage: OnceLock::new(),
            progress: watch::Sender::new(AuditProgress::Opening),
        });
        let writer = AuditWriter {
            shared: Arc::clone(&shared),
            lanes: Arc::clone(&lanes),
            taken: Vec::new(),
            batch: AuditBatch::new(sinks.are_some()),
            numbers: Default::default(),
            written: Vec::new(),
            limits,
            sinks: AuditSinks::new(sinks),
        };
        let spawned = std::thread::Builder::new().name("audit".into()).spawn(move || writer.run(&store));
        if let Err(error) = spawned {
            tracing::error!(%error, "no thread for the audit log; nothing is recorded");
        }
        (Self { shared }, AuditQueue { lanes })
    }

    /// Reads the records of a store that no log was started for. Blocks.
    pub fn look(store: &Store, query: ChangeQuery) -> Result<ChangeRows, LogError> {
        let read = AuditStorage::new(store).and_then(|storage| storage.read(query));
        read.map_err(|error| LogError::Unreadable(error.to_string()))
    }

    /// How many entries were dropped since the start, because they came faster than they could be written.
    pub fn dropped(&self) -> u64 {
        self.shared.gauge.dropped_in_all.load(Ordering::Relaxed)
    }

    #[cfg(test)]
    pub(crate) fn shared_storage(&self) -> Option<&AuditStorage> {
        self.shared.storage.get()
    }

    /// Reads records on a thread where blocking is allowed.
    pub async fn read(&self, query: ChangeQuery) -> Result<ChangeRows, LogError> {
        self.on_storage(move |storage| storage.read(query)).await
    }

    /// Verifies both logs.
    pub async fn verify(&self, given: Vec<Checkpoint>, key: Option<String>) -> Result<VerifyReport, LogError> {
        self.on_storage(move |storage| verify_audited(storage, &given, key.as_deref())).await
    }

    async fn on_storage<T: Send + 'static>(
        &self,
        work: impl FnOnce(&AuditStorage) -> Result<T, redb::Error> + Send + 'static,
    ) -> Result<T, LogError> {
        self.opened().await?;
        let shared = Arc::clone(&self.shared);
        let done = tokio::task::spawn_blocking(move || match shared.storage.get() {
            Some(storage) => work(storage).map_err(|error| LogError::Unreadable(error.to_string())),
            None => Err(LogError::Closed),
        });
        done.await.unwrap_or_else(|error| Err(LogError::Unreadable(error.to_string())))
    }

    /// Signs how far both logs have come, after everything that was handed over.
    pub async fn checkpoint(&self) -> Result<Checkpoint, LogError> {
        let (answer, made) = oneshot::channel();
        self.shared.ask(|requests| requests.checkpoints.push(answer));
        made.await.unwrap_or(Err(LogError::Closed))
    }

    /// Reads on from a number, or from now on.
    pub async fn follow(&self, after: Option<u64>) -> Result<AuditTail, LogError> {
        let newest = self.opened().await?;
        // A number of another log, or of one that was lost, would be waited for in silence.
        let cursor = after.map_or(newest, |after| after.min(newest));
        Ok(AuditTail { log: self.clone(), cursor, progress: self.shared.progress.subscribe() })
    }

    /// Waits until everything handed over is written, and takes no more.
    pub async fn close(&self) {
        self.shared.ask(|requests| requests.close = true);
        let mut progress = self.shared.progress.subscribe();
        let closed = progress.wait_for(|progress| *progress == AuditProgress::Closed);
        if tokio::time::timeout(CLOSING, closed).await.is_err() {
            tracing::error!("the last audit records could not be written in time");
        }
    }

    async fn opened(&self) -> Result<u64, LogError> {
        let mut progress = self.shared.progress.subscribe();
        let opened = progress.wait_for(|progress| *progress != AuditProgress::Opening);
        match tokio::time::timeout(OPENING, opened).await {
            Ok(Ok(state)) => match *state {
                AuditProgress::Open(last) => Ok(last),
                AuditProgress::Opening | AuditProgress::Closed => Err(LogError::Closed),
            },
            Ok(Err(_)) => Err(LogError::Closed),
            Err(_) => Err(LogError::Opening),
        }
    }
}

/// One reader that follows. Between two reads it holds nothing but its place, so a slow one costs only itself.
#[derive(Debug)]
pub struct AuditTail {
    log: AuditLog,
    cursor: u64,
    progress: watch::Receiver<AuditProgress>,
}

impl AuditTail {
    /// The next records, at least one. Can be dropped and called again without loss.
    pub async fn next(&mut self) -> Result<Vec<ChangeRow>, LogError> {
        loop {
            // Marked before the read: what is written meanwhile rings again.
            if *self.progress.borrow_and_update() == AuditProgress::Closed {
                return Err(LogError::Closed);
            }
            let query = ChangeQuery { from: QueryStart::After(self.cursor), limit: FOLLOW, max_bytes: FOLLOW_BYTES };
            let rows = self.log.read(query).await?.rows;
            if let Some(row) = rows.last() {
                self.cursor = row.seq;
                return Ok(rows);
            }
            self.progress.changed().await.map_err(|_| LogError::Closed)?;
        }
    }
}

impl AuditShared {
    /// Asks the thread of the log for something. If it is gone, what is asked is dropped, and whoever waits for an answer hears that.
    fn ask(&self, add: impl FnOnce(&mut WriterRequests)) {
        let mut requests = self.requests.lock();
        if !requests.refused {
            add(&mut requests);
        }
        drop(requests);
        self.gauge.wake();
        self.gauge.rouse();
    }
}

struct AuditWriter<M> {
    shared: Arc<AuditShared>,
    lanes: Arc<AuditLanes<M>>,
    /// What was taken out of the lanes, and not all of it read.
    taken: Vec<LaneBuffer>,
    /// What is written next, and what was written last: kept, because under load the next is as long.
    batch: AuditBatch,
    written: Vec<u8>,
    /// By lane, and the number of a subject in what was taken out of it: its number in the batch.
    numbers: Vec<Vec<Option<u32>>>,
    limits: AuditLimits,
    sinks: AuditSinks,
}

/// What the writer was asked for besides writing.
#[derive(Debug, Default)]
struct WriterRequests {
    checkpoints: Vec<oneshot::Sender<Result<Checkpoint, LogError>>>,
    close: bool,
    /// Nobody answers any more.
    refused: bool,
}

impl WriterRequests {
    fn is_empty(&self) -> bool {
        self.checkpoints.is_empty() && !self.close
    }

    /// Takes over what was asked since.
    fn add(&mut self, more: &mut Self) {
        self.checkpoints.append(&mut more.checkpoints);
        self.close |= more.close;
    }
}

impl<M: Default> AuditWriter<M> {
    fn run(mut self, store: &Store) {
        let opened = AuditStorage::new(store).and_then(|storage| Ok((storage.last()?, storage)));
        let storage = match opened {
            Ok((last, storage)) => {
                // Before it is told that the log is open: whoever hears that looks for the storage.
                let storage = self.shared.storage.get_or_init(|| storage).clone();
                self.shared.progress.send_replace(AuditProgress::Open(last));
                storage
            }
            // Dropping `self` closes the log, so that readers are told and do not wait.
            Err(error) => return tracing::error!(%error, "the audit log can not be opened; nothing is recorded"),
        };
        self.shared.gauge.is_written_here();
        let mut due = Instant::now() + CHECKPOINT;
        loop {
            if self.lanes.is_empty() && self.has_read_all() {
                self.shrink();
            }
            // Nobody wakes up while nothing happens, but for the checkpoint of the hour.
            self.shared.gauge.sleep_until(due, || {
                self.shared.requests.lock().is_empty() && self.lanes.is_empty() && self.has_read_all()
            });
            let mut asked = WriterRequests::default();
            self.gather(&mut asked);
            let is_asked = !asked.is_empty();
            // In pieces: neither the memory of this thread nor a transaction grows with what waits.
            loop {
                let more = self.drain();
                // Also at the end: many a gateway lives for less than an hour.
                let is_due = Instant::now() >= due || (asked.close && !more);
                // Nothing is signed where there is no key: its numbers are its own, and in a sink they would contradict those of the store.
                self.batch.checkpoint = storage.is_signed()
                    && (!asked.checkpoints.is_empty() || (is_due && storage.has_news().unwrap_or(true)));
                if is_due {
                    due = Instant::now() + CHECKPOINT;
                }
                self.write(&storage, &mut asked);
                // They were answered, or can not be.
                for answer in asked.checkpoints.drain(..) {
                    let _ = answer.send(Err(LogError::Unsigned));
                }
                // What is left becomes part of the next transaction, unless somebody waits for all of it.
                if !more || !is_asked {
                    break;
                }
            }
            if asked.close {
                return;
            }
        }
    }

    /// Gives back the memory that a rush needed.
    fn shrink(&mut self) {
        self.lanes.shrink(&mut self.taken);
        self.batch = AuditBatch::new(self.sinks.settings.are_some());
        self.numbers = Vec::new();
        self.written = Vec::new();
    }

    /// Waits for more to come, but not once somebody waits for this thread.
    fn gather(&mut self, asked: &mut WriterRequests) {
        let begun = Instant::now();
        loop {
            // Before the lanes: what was handed over before something was asked for is written before it is answered.
            asked.add(&mut self.shared.requests.lock());
            let is_full = self.drain();
            let (gather, look) = if self.batch.len() < MANY { (GATHER, LOOK) } else { (GATHER_MANY, LOOK_MANY) };
            if is_full || self.batch.is_empty() || !asked.is_empty() || begun.elapsed() >= gather {
                return;
            }
            // Not until there are entries, so that whoever hands over has nobody to wake. Whoever asks for something wakes it.
            std::thread::park_timeout(look);
        }
    }

    fn has_read_all(&self) -> bool {
        self.taken.iter().all(|lane| lane.moment().is_none())
    }

    /// Takes what waits, in the order in which it happened; tells whether there may be more.
    fn drain(&mut self) -> bool {
        let batch = &mut self.batch;
        let clock = AuditClock::now();
        let mut weight = 0;
        let mut is_exchanged = false;
        let more = loop {
            if batch.weight() >= BATCH_BYTES {
                break true;
            }
            let Some((at, until)) = next_lane(&self.taken) else {
                // Once, so that those who hand over all the time do not keep this thread here; and whenever all were read, so that nothing
                // is left behind that was handed over before this began.
                if is_exchanged {
                    break false;
                }
                self.lanes.exchange(&mut self.taken);
                self.numbers.resize_with(self.taken.len(), Vec::new);
                self.numbers.iter_mut().for_each(Vec::clear);
                is_exchanged = true;
                continue;
            };
            let (lane, numbers) = (&mut self.taken[at], &mut self.numbers[at]);
            while lane.moment().is_some_and(|moment| until.is_none_or(|until| moment <= until))
                && batch.weight() < BATCH_BYTES
            {
                weight += take_next(lane, numbers, batch, &clock);
            }
        };
        // Here and not after the write: they are in a batch, which has a bound of its own.
        self.shared.gauge.give_back(weight);
        more
    }

    /// Writes the batch, and empties it. What could not be written is counted as lost.
    fn write(&mut self, storage: &AuditStorage, asked: &mut WriterRequests) {
        let batch = &mut self.batch;
        // Taken out at once, so that what is lost during the write belongs to the next gap. It is given back if the
        // write fails.
        let lost = self.shared.gauge.dropped.swap(0, Ordering::Relaxed);
        let now = AuditClock::now().read_at();
        if lost > 0 {
            tracing::error!(lost, "calls came faster than they could be recorded; the audit log has a gap");
            batch.push_text(now, format!("\"kind\":\"gap\",\"lost\":{lost}").as_bytes());
        }
        if batch.is_empty() && !batch.checkpoint {
            return;
        }
        // Whoever reads the lines of a sink can go along the chain with them alone.
        match storage.append(batch, &mut self.written, self.sinks.settings.are_some(), &self.limits, now) {
            Ok(appended) => {
                self.sinks.write(&self.written);
                self.shared.progress.send_replace(AuditProgress::Open(appended.last));
                if batch.checkpoint {
                    for answer in asked.checkpoints.drain(..) {
                        let _ = answer.send(appended.checkpoint.clone().ok_or(LogError::Closed));
                    }
                }
            }
            Err(error) => {
                let count = batch.len() as u64;
                tracing::error!(%error, count, "audit records could not be written");
                // The gap itself is in `lost`; of the rest each is one.
                self.shared.gauge.dropped.fetch_add(lost, Ordering::Relaxed);
                self.shared.gauge.lose(count - u64::from(lost > 0));
                for answer in asked.checkpoints.drain(..) {
                    let _ = answer.send(Err(LogError::Unreadable(error.to_string())));
                }
            }
        }
        batch.clear();
        // What was taken and not read is written with the next batch, which numbers anew.
        self.numbers.iter_mut().for_each(Vec::clear);
    }
}

/// The lane whose next entry is the oldest, and when the oldest of the others was: up to then it has no rival.
fn next_lane(taken: &[LaneBuffer]) -> Option<(usize, Option<Instant>)> {
    let waiting = taken.iter().enumerate().filter_map(|(at, lane)| Some((lane.moment()?, at)));
    let (first, second) = waiting.fold((None, None), |(first, second), next| match first {
        Some(oldest) if next < oldest => (Some(next), Some(oldest)),
        Some(_) => (first, Some(second.map_or(next, |second| next.min(second)))),
        None => (Some(next), None),
    });
    first.map(|(_, at)| (at, second.map(|(moment, _)| moment)))
}

/// Moves the next entry of a lane into a batch. Gives what it weighed.
fn take_next(
    lane: &mut LaneBuffer,
    numbers: &mut Vec<Option<u32>>,
    batch: &mut AuditBatch,
    clock: &AuditClock,
) -> usize {
    let subject = lane.next_subject().map(|subject| {
        let at = subject as usize;
        if numbers.len() <= at {
            numbers.resize(at + 1, None);
        }
        *numbers[at].get_or_insert_with(|| batch.number(lane.subject(subject)))
    });
    let Some(record) = lane.next() else { return 0 };
    batch.push(clock.millis(record.moment), subject, record.bytes);
    record.weight
}

impl<M> Drop for AuditWriter<M> {
    fn drop(&mut self) {
        // Also when the thread panicked or was never started.
        self.lanes.close(&self.taken);
        let mut requests = self.shared.requests.lock();
        *requests = WriterRequests { refused: true, ..WriterRequests::default() };
        drop(requests);
        self.shared.progress.send_replace(AuditProgress::Closed);
    }
}
