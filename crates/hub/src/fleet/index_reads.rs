//! Lists that are read after an index: never older than what their client was told anywhere.
//!
//! Whoever reads waits until the end of the log, asked for after the request arrived, is applied here. One question is under way for all who
//! wait. Without an answer of a leader that has a majority, or where the log can not be read up to it, the reader gets what is known, marked
//! as unconfirmed, and [`EchoDebts`] remembers it.

use std::time::{Duration, Instant};

use super::LogSequence;
use super::echoes::EchoDebts;
use super::entry::FleetEntry;

/// How long a reader waits for the end of the log to be known.
const HEAD_WAIT: Duration = Duration::from_millis(50);
/// How long it waits for that to be applied.
const APPLY_WAIT: Duration = Duration::from_secs(2);
/// Questions are this far apart, so that many readers share one.
const ASK_APART: Duration = Duration::from_millis(2);
/// How often the end of the log is asked for when nobody reads: an owner is in doubt without it.
const ASK_IDLE: Duration = Duration::from_millis(500);
/// And while an echo may be owed.
const ASK_OWING: Duration = Duration::from_millis(100);
/// A leader that has not heard a majority for this long may have a successor: there is one after four seconds at the earliest.
const LEADER_TRUSTED: Duration = Duration::from_secs(2);

/// One question for the end of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadAsk(u64);

/// What the leader of the log says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadAnswer {
    /// The end of the log.
    pub head: LogSequence,
    /// The time within which it heard a majority of its peers, itself among them.
    pub majority_heard: Duration,
}

/// What follows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IndexCommand<R> {
    /// Ask for the end of the log.
    Ask(HeadAsk),
    /// Answer this reader with the state that is applied.
    Answer {
        /// Who waited.
        reader: R,
        /// Whether the state is new enough for whatever its client was told; otherwise nothing of it may be cached.
        confirmed: bool,
    },
}

#[derive(Clone, Debug)]
struct IndexReader<R> {
    reader: R,
    arrived: Instant,
    ask: Option<HeadAsk>,
    target: Option<LogSequence>,
}

/// The readers that wait, and the question that is under way for them.
#[derive(Clone, Debug)]
pub struct IndexReads<R> {
    readers: Vec<IndexReader<R>>,
    /// At most so many wait; those beyond are answered unconfirmed.
    bound: usize,
    asks: u64,
    under_way: Option<(HeadAsk, Instant)>,
    last_ask: Option<Instant>,
    applied: LogSequence,
    confirmed: bool,
    debts: EchoDebts,
}

impl<R> IndexReads<R> {
    /// Nobody waits, and nothing is confirmed yet.
    pub fn new(bound: usize) -> Self {
        Self {
            readers: Vec::new(),
            bound,
            asks: 0,
            under_way: None,
            last_ask: None,
            applied: LogSequence(0),
            confirmed: false,
            debts: EchoDebts::default(),
        }
    }

    /// Whether what is read here is known to be current; `unconfirmed` in the status of a replica is the contrary.
    pub fn is_confirmed(&self) -> bool {
        self.confirmed
    }

    /// How many wait.
    pub fn waiting(&self) -> usize {
        self.readers.len()
    }

    /// Whether an echo is owed, or may be.
    pub fn owes_echo(&self) -> bool {
        self.debts.owes()
    }

    /// Somebody reads.
    pub fn read(&mut self, reader: R, now: Instant) -> Vec<IndexCommand<R>> {
        self.readers.push(IndexReader { reader, arrived: now, ask: None, target: None });
        self.drive(now)
    }

    /// A replica that is gone may have answered anything since this sequence.
    pub fn answered_elsewhere(&mut self, since: LogSequence) {
        self.debts.answered(since);
    }

    /// The leader answered. Returns when it had been asked, if its answer counts.
    pub fn head(
        &mut self,
        ask: HeadAsk,
        answer: HeadAnswer,
        echo_at: Instant,
        now: Instant,
    ) -> (Option<Instant>, Vec<IndexCommand<R>>) {
        let Some((under_way, asked)) = self.under_way.filter(|(under_way, _)| *under_way == ask) else {
            return (None, self.drive(now));
        };
        self.under_way = None;
        // As if nobody had answered: a successor may have written since.
        if answer.majority_heard > LEADER_TRUSTED {
            return (None, self.drive(now));
        }
        for reader in self.readers.iter_mut().filter(|reader| reader.ask == Some(under_way)) {
            reader.target = Some(answer.head);
        }
        self.debts.head_known(answer.head, echo_at);
        self.confirmed = true;
        (Some(asked), self.drive(now))
    }

    /// The state moved on.
    pub fn applied(&mut self, sequence: LogSequence, now: Instant) -> Vec<IndexCommand<R>> {
        self.applied = sequence;
        self.drive(now)
    }

    /// The log began anew; sequences that readers wait for mean nothing any more.
    pub fn begun_anew(&mut self, base: LogSequence, now: Instant) -> Vec<IndexCommand<R>> {
        self.debts.begun_anew(base);
        for reader in &mut self.readers {
            reader.ask = None;
            reader.target = None;
        }
        self.under_way = None;
        self.applied(base, now)
    }

    /// An echo was applied.
    pub fn echo_applied(&mut self, sequence: LogSequence, from: LogSequence, to: LogSequence) {
        self.debts.applied(sequence, from, to);
    }

    /// The echo to write now.
    pub fn echo_due(&mut self, now: Instant) -> Option<FleetEntry> {
        self.debts.take_due(now)
    }

    /// When [`IndexReads::drive`] has to be called at the latest.
    pub fn deadline(&self) -> Option<Instant> {
        let waits = self.readers.iter().map(|reader| reader.arrived + Self::patience(reader));
        let asks = self.last_ask.map(|last| last + self.ask_apart());
        waits.chain(asks).min()
    }

    fn patience(reader: &IndexReader<R>) -> Duration {
        if reader.target.is_some() { APPLY_WAIT } else { HEAD_WAIT }
    }

    fn ask_apart(&self) -> Duration {
        if self.readers.iter().any(|reader| reader.ask.is_none()) {
            ASK_APART
        } else if self.debts.wants_head() {
            ASK_OWING
        } else {
            ASK_IDLE
        }
    }

    /// Answers whom it can, and asks if somebody needs it.
    pub fn drive(&mut self, now: Instant) -> Vec<IndexCommand<R>> {
        let mut commands = Vec::new();
        let surplus = self.readers.len().saturating_sub(self.bound);
        let waiting = std::mem::take(&mut self.readers);
        let last = waiting.len();
        for (place, reader) in waiting.into_iter().enumerate() {
            let known = reader.target.is_some_and(|target| target <= self.applied);
            // Of too many the latest give way: those before them have waited longer.
            let late = now.duration_since(reader.arrived) >= Self::patience(&reader) || place >= last - surplus;
            if known {
                commands.push(IndexCommand::Answer { reader: reader.reader, confirmed: true });
            } else if late {
                self.confirmed = false;
                self.debts.answered(self.applied);
                commands.push(IndexCommand::Answer { reader: reader.reader, confirmed: false });
            } else {
                self.readers.push(reader);
            }
        }
        // An answer that takes longer than anybody waits for it is given up.
        if self.under_way.is_some_and(|(_, asked)| now.duration_since(asked) >= HEAD_WAIT) {
            self.under_way = None;
        }
        let apart = self.last_ask.is_none_or(|last| now.duration_since(last) >= self.ask_apart());
        if self.under_way.is_none() && apart {
            commands.push(IndexCommand::Ask(self.ask(now)));
        }
        commands
    }

    fn ask(&mut self, now: Instant) -> HeadAsk {
        self.asks += 1;
        let ask = HeadAsk(self.asks);
        self.under_way = Some((ask, now));
        self.last_ask = Some(now);
        // Also those of a question before this one, which was given up.
        for reader in self.readers.iter_mut().filter(|reader| reader.target.is_none()) {
            reader.ask = Some(ask);
        }
        self.debts.head_asked();
        ask
    }
}
