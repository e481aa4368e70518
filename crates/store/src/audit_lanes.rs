//! Where entries of the audit log wait to be written.
//!
//! Whoever hands an entry over writes it out at once, into the lane of its own thread: so nothing is copied or counted that another
//! thread would have to give back, and the thread of the log takes whole lanes. The lock of a lane is taken by the few threads that
//! share it, for as long as an entry takes to be written out, and by the thread of the log for an exchange of two buffers.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::Thread;
use std::time::Instant;

use tidings_sync::Lock;

use crate::call_course::CallCourse;
use crate::call_subjects::{CallSubjects, SubjectParts, SubjectSheet};

/// More than there are threads that serve calls on most machines; with more of them, some share a lane.
const LANES: usize = 8;
/// What an entry takes while it waits, besides what it says.
const ENTRY: usize = size_of::<LaneEntry>();
/// A buffer that grew beyond this in a rush is given back after it.
const KEPT_BUFFER: usize = 256 << 10;

/// Something that is to be recorded.
pub trait AuditEntry {
    /// What writing one record leaves for the next of the same lane: what many of them have in common is worked out once.
    type Memo: Default + Send + 'static;

    /// When it happened.
    fn moment(&self) -> Instant;

    /// Writes its record, once: as members of JSON, or as a call.
    fn write(self, memo: &mut Self::Memo, sheet: EntrySheet<'_>);
}

/// Where an entry is written.
#[derive(Debug)]
pub struct EntrySheet<'a> {
    buffer: &'a mut LaneBuffer,
    subjects: &'a mut CallSubjects,
    /// What a call is about: the number of that, and how many bytes were written for it.
    subject: &'a mut Option<(u32, usize)>,
}

impl EntrySheet<'_> {
    /// The members of the record after number, hash and time, of which `kind` is the first: `"kind":"…"`.
    pub fn members(self, write: impl FnOnce(&mut Vec<u8>)) {
        write(&mut self.buffer.bytes);
    }

    /// A call, in the form that takes the fewest bytes. `parts` is all that `write` depends on, which writes the members from `kind` on that tell
    /// what the call is about; those that tell how it went come after them.
    pub fn call(self, parts: &SubjectParts<'_>, write: impl FnOnce(&mut Vec<u8>), course: &CallCourse<'_>) {
        *self.subject = Some(self.subjects.place(&mut self.buffer.subjects, parts, write));
        course.write(&mut self.buffer.bytes);
    }
}

/// What hands over.
#[derive(Debug)]
pub struct AuditQueue<M> {
    pub(crate) lanes: Arc<AuditLanes<M>>,
}

#[derive(Debug)]
pub(crate) struct AuditLanes<M> {
    lanes: [LaneSlot<M>; LANES],
    pub(crate) gauge: Arc<AuditGauge>,
}

/// Each has cache lines of its own (processors fetch them in pairs): a call writes its lane some forty times, and the thread beside it must not
/// have to fetch that.
#[derive(Debug, Default)]
#[repr(align(128))]
struct LaneSlot<M>(Lock<AuditLane<M>>);

#[derive(Debug, Default)]
struct AuditLane<M> {
    buffer: LaneBuffer,
    subjects: CallSubjects,
    memo: M,
    /// Nobody takes anything out of it any more.
    closed: bool,
}

/// Entries that were written out, one after the other.
#[derive(Debug, Default)]
pub(crate) struct LaneBuffer {
    bytes: Vec<u8>,
    entries: Vec<LaneEntry>,
    subjects: SubjectSheet,
    /// How many were read, and where the next begins.
    read: usize,
    begin: usize,
}

#[derive(Clone, Copy, Debug)]
struct LaneEntry {
    moment: Instant,
    /// Where it ends in `bytes`.
    end: usize,
    subject: Option<u32>,
    /// What it weighs besides its own bytes.
    brought: u32,
}

/// An entry that is taken out of its lane.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LaneRecord<'a> {
    pub(crate) moment: Instant,
    /// How a call went, or the members.
    pub(crate) bytes: &'a [u8],
    /// What it weighed while it waited.
    pub(crate) weight: usize,
}

/// How much waits, what was lost, and whom to wake.
#[derive(Debug)]
pub(crate) struct AuditGauge {
    pub(crate) max_waiting: usize,
    waiting: AtomicUsize,
    /// What did not fit since the last gap was recorded, and since the start.
    pub(crate) dropped: AtomicU64,
    pub(crate) dropped_in_all: AtomicU64,
    /// Whether the thread of the log sleeps until it is woken.
    asleep: AtomicBool,
    writer: OnceLock<Thread>,
}

impl<M: Default> AuditQueue<M> {
    /// Writes an entry out. Waits for nobody, but for whoever does the same in the same lane.
    pub fn hand_over<E: AuditEntry<Memo = M>>(&self, entry: E) {
        let gauge = &self.lanes.gauge;
        if self.lanes.own().lock().write(entry, gauge) {
            gauge.wake();
        } else {
            gauge.lose(1);
        }
    }
}

impl<M: Default> AuditLanes<M> {
    pub(crate) fn new(gauge: Arc<AuditGauge>) -> Self {
        Self { lanes: Default::default(), gauge }
    }

    /// The lane of this thread.
    fn own(&self) -> &Lock<AuditLane<M>> {
        // One row for all logs of the process: it only spreads threads over lanes.
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        thread_local!(static OWN: Cell<usize> = Cell::new(NEXT.fetch_add(1, Ordering::Relaxed) % LANES));
        &self.lanes[OWN.get()].0
    }

    /// Exchanges what waits for empty buffers, in the order of the lanes.
    pub(crate) fn exchange(&self, taken: &mut Vec<LaneBuffer>) {
        taken.resize_with(LANES, LaneBuffer::default);
        for (lane, taken) in self.lanes.iter().zip(taken) {
            taken.clear();
            let mut lane = lane.0.lock();
            // What the lane remembers of the other buffer does not hold for this one.
            taken.subjects.generation = lane.buffer.subjects.generation + 1;
            std::mem::swap(&mut lane.buffer, taken);
        }
    }

    /// Gives back what a rush needed. To be called when nothing waits: while it lasts, the same memory is used again and again.
    pub(crate) fn shrink(&self, taken: &mut [LaneBuffer]) {
        for (lane, taken) in self.lanes.iter().zip(taken) {
            taken.clear();
            taken.shrink();
            let mut lane = lane.0.lock();
            if lane.buffer.entries.is_empty() {
                lane.buffer.shrink();
            }
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.lanes.iter().all(|lane| lane.0.lock().buffer.entries.is_empty())
    }
}

impl<M> AuditLanes<M> {
    /// What is handed over from now on is lost, and counted; so is what came after the log looked for the last time, and what it had
    /// taken and not read.
    pub(crate) fn close(&self, taken: &[LaneBuffer]) {
        let mut lost: usize = taken.iter().map(LaneBuffer::unread).sum();
        for lane in &self.lanes {
            let mut lane = lane.0.lock();
            lane.closed = true;
            lost += std::mem::take(&mut lane.buffer).unread();
        }
        if lost > 0 {
            self.gauge.lose(lost as u64);
            tracing::error!(lost, "came after the audit log was closed, and are not recorded");
        }
    }
}

impl<M: Default> AuditLane<M> {
    /// Says whether there was room.
    fn write<E: AuditEntry<Memo = M>>(&mut self, entry: E, gauge: &AuditGauge) -> bool {
        if self.closed {
            return false;
        }
        let (begin, moment) = (self.buffer.bytes.len(), entry.moment());
        // Written before it is known whether there is room: only then it is known how long it is.
        let mut subject = None;
        let (buffer, subjects) = (&mut self.buffer, &mut self.subjects);
        entry.write(&mut self.memo, EntrySheet { buffer, subjects, subject: &mut subject });
        let end = self.buffer.bytes.len();
        let brought = subject.map_or(0, |(_, length)| length);
        let weight = end - begin + brought + ENTRY;
        // Added before it is compared: those who hand over at the same moment see each other, so the bound holds without a lock.
        let waiting = gauge.waiting.fetch_add(weight, Ordering::Relaxed);
        if waiting + weight > gauge.max_waiting {
            gauge.waiting.fetch_sub(weight, Ordering::Relaxed);
            self.buffer.bytes.truncate(begin);
            if let Some(placed) = subject {
                self.subjects.take_back(&mut self.buffer.subjects, placed);
            }
            return false;
        }
        // What is as long as this does not fit.
        let brought = u32::try_from(brought).unwrap_or(u32::MAX);
        self.buffer.entries.push(LaneEntry { moment, end, subject: subject.map(|(number, _)| number), brought });
        true
    }
}

impl LaneBuffer {
    /// When the next entry happened; `None` when all were read.
    pub(crate) fn moment(&self) -> Option<Instant> {
        self.entries.get(self.read).map(|entry| entry.moment)
    }

    /// The next entry. What it weighs is to be given back to the gauge.
    pub(crate) fn next(&mut self) -> Option<LaneRecord<'_>> {
        let LaneEntry { moment, end, brought, .. } = *self.entries.get(self.read)?;
        let bytes = &self.bytes[self.begin..end];
        (self.read, self.begin) = (self.read + 1, end);
        Some(LaneRecord { moment, bytes, weight: bytes.len() + brought as usize + ENTRY })
    }

    /// What the next entry is about, if it is a call, by its number in this buffer.
    pub(crate) fn next_subject(&self) -> Option<u32> {
        self.entries.get(self.read)?.subject
    }

    /// What calls of this buffer are about.
    pub(crate) fn subject(&self, number: u32) -> &[u8] {
        self.subjects.get(number)
    }

    /// How many were not read.
    fn unread(&self) -> usize {
        self.entries.len() - self.read
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.entries.clear();
        self.subjects.clear();
        (self.read, self.begin) = (0, 0);
    }

    fn shrink(&mut self) {
        self.bytes.shrink_to(KEPT_BUFFER);
        self.entries.shrink_to(KEPT_BUFFER / size_of::<LaneEntry>());
        self.subjects.shrink_to(KEPT_BUFFER);
    }
}

impl AuditGauge {
    pub(crate) fn new(max_waiting: usize) -> Self {
        Self {
            max_waiting,
            waiting: AtomicUsize::new(0),
            dropped: AtomicU64::new(0),
            dropped_in_all: AtomicU64::new(0),
            asleep: AtomicBool::new(false),
            writer: OnceLock::new(),
        }
    }

    pub(crate) fn lose(&self, count: u64) {
        self.dropped.fetch_add(count, Ordering::Relaxed);
        self.dropped_in_all.fetch_add(count, Ordering::Relaxed);
    }

    /// Entries of this weight in all were taken into a batch, which has a bound of its own. Once for many of them, because all who hand over
    /// write the same number.
    pub(crate) fn give_back(&self, weight: usize) {
        self.waiting.fetch_sub(weight, Ordering::Relaxed);
    }

    /// The thread that is woken from now on is this one.
    pub(crate) fn is_written_here(&self) {
        let _ = self.writer.set(std::thread::current());
    }

    /// Sleeps until it is woken, or that moment, unless there is something to do.
    ///
    /// `is_idle` looks under the locks of what can wait. It is asked after the mark is set: whoever put something there before was
    /// seen, and whoever does so later has taken a lock after it was let go here, and thus sees the mark.
    pub(crate) fn sleep_until(&self, until: Instant, is_idle: impl FnOnce() -> bool) {
        self.asleep.store(true, Ordering::Relaxed);
        if is_idle() {
            std::thread::park_timeout(until.saturating_duration_since(Instant::now()));
        }
        self.asleep.store(false, Ordering::Relaxed);
    }

    /// Wakes the thread of the log if it sleeps. To be called after the lock of what it waits for was let go.
    pub(crate) fn wake(&self) {
        // Looked at first: a mark that nobody writes to costs nothing to read, and while the log gathers nobody has to be woken.
        if self.asleep.load(Ordering::Relaxed)
            && self.asleep.swap(false, Ordering::Relaxed)
            && let Some(writer) = self.writer.get()
        {
            writer.unpark();
        }
    }

    /// Wakes the thread of the log also while it gathers.
    pub(crate) fn rouse(&self) {
        if let Some(writer) = self.writer.get() {
            writer.unpark();
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::audit::AuditLog;
    use crate::audit_sinks::SinkSettings;
    use crate::store::Store;
    use crate::tables::audit::AuditLimits;
    use crate::tables::changes::{ChangeQuery, QueryStart};

    struct Deed(Instant, String);

    impl AuditEntry for Deed {
        type Memo = ();

        fn moment(&self) -> Instant {
            self.0
        }

        fn write(self, (): &mut (), sheet: EntrySheet<'_>) {
            sheet.members(|members| {
                members.extend_from_slice(format!("\"kind\":\"call\",\"deed\":\"{}\"", self.1).as_bytes());
            });
        }
    }

    fn limits(max_waiting: usize) -> AuditLimits {
        AuditLimits { max_age: Duration::from_secs(3_600), max_records: 100_000, max_bytes: 1 << 30, max_waiting }
    }

    fn deeds(buffers: &mut [LaneBuffer], gauge: &AuditGauge) -> Vec<String> {
        let mut found = Vec::new();
        for buffer in buffers {
            while let Some(record) = buffer.next() {
                gauge.give_back(record.weight);
                found.push(String::from_utf8(record.bytes.to_vec()).unwrap());
            }
        }
        found
    }

    #[test]
    fn what_does_not_fit_is_lost_and_what_was_taken_makes_room() {
        let gauge = Arc::new(AuditGauge::new(200));
        let queue = AuditQueue { lanes: Arc::new(AuditLanes::<()>::new(Arc::clone(&gauge))) };
        (0..5).for_each(|number| queue.hand_over(Deed(Instant::now(), format!("{number}"))));
        assert_eq!(gauge.dropped.load(Ordering::Relaxed), 2, "three fit");
        let mut taken = Vec::new();
        queue.lanes.exchange(&mut taken);
        assert_eq!(deeds(&mut taken, &gauge).len(), 3);
        queue.hand_over(Deed(Instant::now(), "later".into()));
        queue.lanes.exchange(&mut taken);
        assert_eq!(deeds(&mut taken, &gauge), [r#""kind":"call","deed":"later""#]);
        queue.lanes.close(&taken);
        queue.hand_over(Deed(Instant::now(), "too late".into()));
        assert_eq!((gauge.dropped.load(Ordering::Relaxed), queue.lanes.is_empty()), (3, true));
    }

    // reach 3
    #[test]
    fn what_came_after_the_last_look_is_counted_at_the_end() {
        let gauge = Arc::new(AuditGauge::new(1 << 20));
        let queue = AuditQueue { lanes: Arc::new(AuditLanes::<()>::new(Arc::clone(&gauge))) };
        (0..3).for_each(|number| queue.hand_over(Deed(Instant::now(), format!("{number}"))));
        let mut taken = Vec::new();
        queue.lanes.exchange(&mut taken);
        let read = taken.iter_mut().find_map(|lane| lane.next().map(|record| record.bytes.to_vec()));
        assert!(read.is_some(), "one of three was read when the thread of the log ended");
        (0..4).for_each(|number| queue.hand_over(Deed(Instant::now(), format!("late {number}"))));
        queue.lanes.close(&taken);
        assert_eq!(gauge.dropped_in_all.load(Ordering::Relaxed), 2 + 4);
    }

    // reach 3
    #[tokio::test]
    async fn every_entry_is_recorded_or_counted_when_the_log_is_closed_meanwhile() {
        let (log, queue) = AuditLog::start::<()>(Store::in_memory(), limits(64 << 20), SinkSettings::default());
        let queue = Arc::new(queue);
        let threads = (0..4).map(|thread| {
            let queue = Arc::clone(&queue);
            std::thread::spawn(move || {
                (0..2_000).for_each(|number| queue.hand_over(Deed(Instant::now(), format!("{thread}-{number}"))));
            })
        });
        let threads: Vec<_> = threads.collect();
        // It writes already; its memory has 10,000 records.
        log.follow(Some(0)).await.unwrap().next().await.unwrap();
        log.close().await;
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        let (mut recorded, mut after) = (0, 0);
        loop {
            let next = ChangeQuery { from: QueryStart::After(after), limit: 1_000, max_bytes: 1 << 20 };
            let rows = log.shared_storage().unwrap().read(next).unwrap().rows;
            let Some(last) = rows.last() else { break };
            after = last.seq;
            recorded += rows.iter().filter(|row| row.json.windows(6).any(|part| part == b"\"deed\"")).count();
        }
        assert_eq!(recorded as u64 + log.dropped(), 4 * 2_000);
    }

    // trust: what came before the end is recorded, also behind what was taken out of the lanes and not read yet
    #[tokio::test]
    async fn what_was_handed_over_before_the_end_is_recorded_however_much_waits() {
        let (log, queue) = AuditLog::start::<()>(Store::in_memory(), limits(64 << 20), SinkSettings::default());
        // Several transactions.
        (0..3_000).for_each(|number| queue.hand_over(Deed(Instant::now(), format!("{number:8192}"))));
        log.follow(Some(0)).await.unwrap().next().await.unwrap();
        (0..10).for_each(|number| queue.hand_over(Deed(Instant::now(), format!("late-{number}"))));
        log.close().await;
        assert_eq!(log.dropped(), 0);
        let newest = ChangeQuery { from: QueryStart::Newest, limit: 1, max_bytes: 1 << 20 };
        // The last record is the checkpoint of the end, where there is a key to sign it.
        let rows = log.shared_storage().unwrap().read(newest).unwrap().rows;
        let last = String::from_utf8_lossy(&rows[0].json).into_owned();
        assert!(last.contains("late-9"), "{last}");
    }

    #[tokio::test]
    async fn a_log_that_sleeps_wakes_up_for_a_single_entry_and_for_its_end() {
        let (log, queue) = AuditLog::start::<()>(Store::in_memory(), limits(1 << 20), SinkSettings::default());
        for round in 0..20 {
            let mut tail = log.follow(None).await.unwrap();
            queue.hand_over(Deed(Instant::now(), format!("{round}")));
            let woken = tokio::time::timeout(Duration::from_secs(20), tail.next()).await;
            assert_eq!(woken.expect("it sleeps on").map(|rows| rows.len()).ok(), Some(1));
        }
        tokio::time::timeout(Duration::from_secs(20), log.close()).await.expect("it does not end");
    }
}
