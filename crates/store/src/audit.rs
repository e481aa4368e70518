//! The audit log: whoever did something hands over what is to be known of it and goes on; one thread writes.
//!
//! Handing over takes no lock and waits for nobody. The queue is bounded by the memory of what waits in it; what does not fit is
//! counted, and the log itself says how much is missing (a record of kind `gap`).

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use tokio::sync::{oneshot, watch};

use crate::audit_sinks::{AuditSinks, SinkSettings};
use crate::checkpoint::Checkpoint;
use crate::log::LogError;
use crate::store::Store;
use crate::tables::audit::{AuditBatch, AuditLimits, AuditStorage, WrittenLines};
use crate::tables::changes::{ChangeQuery, ChangeRow, ChangeRows, QueryStart};
use crate::verify::{VerifyReport, verify_audited};

/// How long records are gathered before they are written: so many calls cost one write to the disk.
const GATHER: Duration = Duration::from_millis(100);
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
const BATCH_BYTES: usize = 4 << 20;

/// Something that is to be recorded.
pub trait AuditEntry: Send + 'static {
    /// About how much memory it takes while it waits, which is never nothing: so the number of those that wait is bounded, too.
    fn weight(&self) -> usize;

    /// What writing one record leaves for the next: what many of them have in common is worked out once.
    type Memo: Default + Send;

    /// Writes the members of its record after number and hash, of which `time` is the first and `kind` the second: `"time":"…","kind":"…"`.
    /// Gives the time in milliseconds since 1970.
    fn write(self, clock: &mut AuditClock, memo: &mut Self::Memo, members: &mut Vec<u8>) -> u64;
}

/// Turns moments into times: entries hold the cheaper of the two.
#[derive(Clone, Debug)]
pub struct AuditClock {
    moment: Instant,
    millis: i64,
    /// The second that was written last, since 1970 and as text without the zone: most records share theirs with the one before.
    second: (i64, String),
}

impl AuditClock {
    fn now() -> Self {
        let millis = Timestamp::now().as_millisecond();
        Self { moment: Instant::now(), millis, second: (i64::MIN, String::new()) }
    }

    /// The time of a moment, in milliseconds since 1970.
    pub fn millis(&self, moment: Instant) -> i64 {
        let ago = self.moment.saturating_duration_since(moment).as_millis();
        self.millis - i64::try_from(ago).unwrap_or_default()
    }

    /// Writes the member `time`, as every record begins, and gives the same in milliseconds.
    pub fn write_time(&mut self, moment: Instant, members: &mut Vec<u8>) -> u64 {
        let millis = self.millis(moment);
        let (second, part) = (millis.div_euclid(1_000), millis.rem_euclid(1_000));
        if self.second.0 != second {
            let mut text = Timestamp::from_second(second).unwrap_or(Timestamp::UNIX_EPOCH).to_string();
            text.truncate(text.trim_end_matches('Z').len());
            self.second = (second, text);
        }
        members.extend_from_slice(b"\"time\":\"");
        members.extend_from_slice(self.second.1.as_bytes());
        let digit = |unit| b'0' + u8::try_from(part / unit % 10).unwrap_or_default();
        members.extend_from_slice(&[b'.', digit(100), digit(10), digit(1), b'Z', b'"']);
        u64::try_from(millis).unwrap_or_default()
    }
}

enum AuditMessage<E> {
    Entry(E),
    Checkpoint(oneshot::Sender<Result<Checkpoint, LogError>>),
    Close,
}

/// What hands over.
#[derive(Debug)]
pub struct AuditQueue<E> {
    sender: Sender<AuditMessage<E>>,
    shared: Arc<AuditShared>,
}

/// What reads. Clones are handles to the same log.
#[derive(Clone, Debug)]
pub struct AuditLog {
    shared: Arc<AuditShared>,
    control: Arc<dyn AuditControl>,
}

trait AuditControl: Send + Sync + std::fmt::Debug {
    fn checkpoint(&self, answer: oneshot::Sender<Result<Checkpoint, LogError>>);
    fn close(&self);
}

#[derive(Debug)]
struct SenderControl<E>(Sender<AuditMessage<E>>);

impl<E> AuditControl for SenderControl<E>
where
    E: AuditEntry + std::fmt::Debug,
{
    fn checkpoint(&self, answer: oneshot::Sender<Result<Checkpoint, LogError>>) {
        // If nobody takes it, the answer is dropped with it, and whoever waits hears that.
        let _ = self.0.send(AuditMessage::Checkpoint(answer));
    }

    fn close(&self) {
        let _ = self.0.send(AuditMessage::Close);
    }
}

#[derive(Debug)]
struct AuditShared {
    max_waiting: usize,
    /// The weight of what waits.
    waiting: AtomicUsize,
    /// What did not fit since the last gap was recorded, and since the start.
    dropped: AtomicU64,
    dropped_in_all: AtomicU64,
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

impl<E: AuditEntry> AuditQueue<E> {
    /// Hands an entry over. Takes no lock, and waits for nobody.
    pub fn hand_over(&self, entry: E) {
        let weight = entry.weight();
        // Added before it is compared: those who hand over at the same moment see each other, so the bound holds without a lock.
        let waiting = self.shared.waiting.fetch_add(weight, Ordering::Relaxed);
        if waiting + weight > self.shared.max_waiting || self.sender.send(AuditMessage::Entry(entry)).is_err() {
            self.shared.waiting.fetch_sub(weight, Ordering::Relaxed);
            self.shared.lose(1);
        }
    }
}

impl AuditLog {
    /// Starts the thread of the log.
    pub fn start<E: AuditEntry + std::fmt::Debug>(
        store: Store,
        limits: AuditLimits,
        sinks: SinkSettings,
    ) -> (Self, AuditQueue<E>) {
        let (sender, receiver) = mpsc::channel();
        let shared = Arc::new(AuditShared {
            max_waiting: limits.max_waiting,
            waiting: AtomicUsize::new(0),
            dropped: AtomicU64::new(0),
            dropped_in_all: AtomicU64::new(0),
            storage: OnceLock::new(),
            progress: watch::Sender::new(AuditProgress::Opening),
        });
        let writer = AuditWriter {
            shared: Arc::clone(&shared),
            receiver,
            limits,
            sinks: AuditSinks::new(sinks),
            memo: E::Memo::default(),
        };
        let spawned = std::thread::Builder::new().name("audit".into()).spawn(move || writer.run(&store));
        if let Err(error) = spawned {
            tracing::error!(%error, "no thread for the audit log; nothing is recorded");
        }
        let control = Arc::new(SenderControl(sender.clone()));
        (Self { shared: Arc::clone(&shared), control }, AuditQueue { sender, shared })
    }

    /// Reads the records of a store that no log was started for. Blocks.
    pub fn look(store: &Store, query: ChangeQuery) -> Result<ChangeRows, LogError> {
        let read = AuditStorage::new(store).and_then(|storage| storage.read(query));
        read.map_err(|error| LogError::Unreadable(error.to_string()))
    }

    /// How many entries were dropped since the start, because they came faster than they could be written.
    pub fn dropped(&self) -> u64 {
        self.shared.dropped_in_all.load(Ordering::Relaxed)
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
        self.control.checkpoint(answer);
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
        self.control.close();
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
    fn lose(&self, count: u64) {
        self.dropped.fetch_add(count, Ordering::Relaxed);
        self.dropped_in_all.fetch_add(count, Ordering::Relaxed);
    }
}

struct AuditWriter<E: AuditEntry> {
    shared: Arc<AuditShared>,
    receiver: Receiver<AuditMessage<E>>,
    limits: AuditLimits,
    sinks: AuditSinks,
    memo: E::Memo,
}

/// What the writer was asked for besides writing.
#[derive(Default)]
struct WriterRequests {
    checkpoints: Vec<oneshot::Sender<Result<Checkpoint, LogError>>>,
    close: bool,
}

impl<E: AuditEntry> AuditWriter<E> {
    fn run(mut self, store: &Store) {
        let opened = AuditStorage::new(store).and_then(|storage| Ok((storage.last()?, storage)));
        let storage = match opened {
            Ok((last, storage)) => {
                let storage = self.shared.storage.get_or_init(|| storage).clone();
                self.shared.progress.send_replace(AuditProgress::Open(last));
                storage
            }
            Err(error) => return tracing::error!(%error, "the audit log can not be opened; nothing is recorded"),
        };
        let mut due = Instant::now() + CHECKPOINT;
        loop {
            let mut batch = AuditBatch::default();
            let mut asked = WriterRequests::default();
            // Nobody wakes up while nothing happens, but for the checkpoint of the hour.
            match self.receiver.recv_timeout(due.saturating_duration_since(Instant::now())) {
                Ok(message) => {
                    // From here on whoever hands over finds nobody to wake, which would cost more than the rest of it.
                    let waits = matches!(message, AuditMessage::Entry(_));
                    self.take(message, &mut AuditClock::now(), &mut batch, &mut asked);
                    if waits {
                        self.gather(&mut asked, &mut batch);
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => asked.close = true,
            }
            // In pieces: neither the memory of this thread nor a transaction grows with what waits.
            loop {
                let more = self.drain(&mut batch, &mut asked);
                // Also at the end: many a gateway lives for less than an hour.
                let is_due = Instant::now() >= due || (asked.close && !more);
                // Nothing is signed where there is no key: its numbers are its own, and in a sink they would contradict those of the store.
                batch.checkpoint = storage.is_signed()
                    && (!asked.checkpoints.is_empty() || (is_due && storage.has_news().unwrap_or(true)));
                if is_due {
                    due = Instant::now() + CHECKPOINT;
                }
                self.write(&storage, std::mem::take(&mut batch), &mut asked);
                // They were answered, or can not be.
                for answer in asked.checkpoints.drain(..) {
                    let _ = answer.send(Err(LogError::Unsigned));
                }
                if !more {
                    break;
                }
            }
            if asked.close {
                return;
            }
        }
    }

    /// Waits for more to come, but not once somebody waits for this thread.
    fn gather(&mut self, asked: &mut WriterRequests, batch: &mut AuditBatch) {
        let until = Instant::now() + GATHER;
        // Slept and not waited for messages, so that whoever sends has nobody to wake; in steps, so that the end does not wait long.
        while Instant::now() < until && asked.checkpoints.is_empty() && !asked.close {
            std::thread::sleep(GATHER / 4);
            self.drain(batch, asked);
        }
    }

    /// Takes what waits; tells whether there may be more.
    fn drain(&mut self, batch: &mut AuditBatch, asked: &mut WriterRequests) -> bool {
        let mut clock = AuditClock::now();
        while batch.members.len() < BATCH_BYTES {
            match self.receiver.try_recv() {
                Ok(message) => self.take(message, &mut clock, batch, asked),
                Err(_) => return false,
            }
        }
        true
    }

    fn take(
        &mut self,
        message: AuditMessage<E>,
        clock: &mut AuditClock,
        batch: &mut AuditBatch,
        asked: &mut WriterRequests,
    ) {
        match message {
            AuditMessage::Entry(entry) => {
                self.shared.waiting.fetch_sub(entry.weight(), Ordering::Relaxed);
                let time = entry.write(clock, &mut self.memo, &mut batch.members);
                batch.records.push((batch.members.len(), time));
            }
            AuditMessage::Checkpoint(answer) => asked.checkpoints.push(answer),
            AuditMessage::Close => asked.close = true,
        }
    }

    /// Writes a batch. What could not be written is counted as lost.
    fn write(&mut self, storage: &AuditStorage, mut batch: AuditBatch, asked: &mut WriterRequests) {
        let lost = self.shared.dropped.swap(0, Ordering::Relaxed);
        let mut clock = AuditClock::now();
        let now = clock.millis;
        if lost > 0 {
            tracing::error!(lost, "calls came faster than they could be recorded; the audit log has a gap");
            let time = clock.write_time(clock.moment, &mut batch.members);
            batch.members.extend_from_slice(format!(",\"kind\":\"gap\",\"lost\":{lost}").as_bytes());
            batch.records.push((batch.members.len(), time));
        }
        if batch.records.is_empty() && !batch.checkpoint {
            return;
        }
        match storage.append(&batch, &self.limits, u64::try_from(now).unwrap_or_default()) {
            Ok(WrittenLines { lines, last }) => {
                self.sinks.write(&lines);
                self.shared.progress.send_replace(AuditProgress::Open(last));
                if batch.checkpoint {
                    let line = lines.strip_suffix(b"\n").unwrap_or(&lines).rsplit(|byte| *byte == b'\n').next();
                    let made = line.and_then(Checkpoint::read);
                    for answer in asked.checkpoints.drain(..) {
                        let _ = answer.send(made.clone().ok_or(LogError::Closed));
                    }
                }
            }
            Err(error) => {
                let count = batch.records.len() as u64;
                tracing::error!(%error, count, "audit records could not be written");
                // The gap itself is in `lost`; of the rest each is one.
                self.shared.dropped.fetch_add(lost, Ordering::Relaxed);
                self.shared.lose(count - u64::from(lost > 0));
                for answer in asked.checkpoints.drain(..) {
                    let _ = answer.send(Err(LogError::Unreadable(error.to_string())));
                }
            }
        }
    }
}

impl<E: AuditEntry> Drop for AuditWriter<E> {
    fn drop(&mut self) {
        // Also when the thread panicked or was never started.
        self.shared.progress.send_replace(AuditProgress::Closed);
    }
}
