//! Which message is sent next, and when. No I/O, and no clock of its own: times are milliseconds since 1970, so that they mean the same
//! in the next process.
//!
//! Messages go out one at a time and in order. A receiver that does not answer, or has no time, holds all of them: then one is
//! tried again and again with growing pauses, and not each of them. A receiver that refuses one message holds only that one. Each is
//! given up [`GIVE_UP`] after it was first due. Bounded: when [`MOST_PENDING`] wait, no more are taken; the log has them.

use serde::{Deserialize, Serialize};

use crate::answer::DeliveryAnswer;

/// After so long a message is not tried again.
pub const GIVE_UP: u64 = 3 * 24 * 60 * 60 * 1_000;
/// So many messages wait at most; the log keeps what comes after them.
pub const MOST_PENDING: usize = 256;
/// The longest pause between two tries, unless the receiver asks for a longer one.
pub const LONGEST_PAUSE: u64 = 60 * 60 * 1_000;
/// The pause after the first failure; twice as long after each.
const FIRST_PAUSE: u64 = 1_000;

/// A message that the receiver does not have yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PendingMessage {
    /// The number of its change.
    pub seq: u64,
    /// Since when it waits.
    pub since: u64,
    /// How often it was tried.
    pub attempts: u32,
    /// Not to be tried before.
    pub due: u64,
}

/// What the next process has to know.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptQueue {
    /// Every change up to this one was looked at.
    pub cursor: u64,
    /// Those of them that were not delivered, in order.
    #[serde(default)]
    pub pending: Vec<PendingMessage>,
    /// Nothing is sent before.
    #[serde(default)]
    pub pause_until: u64,
    /// How often in a row the receiver did not take anything.
    #[serde(default)]
    pub failures: u32,
    /// The receiver said that it is gone for ever.
    #[serde(default)]
    pub disabled: bool,
    /// What tells one configuration of the receiver from the next: another one is tried anew.
    #[serde(default)]
    pub fingerprint: String,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueStep {
    /// Send this message, and say what came of it.
    Send(u64),
    /// Nothing before this time.
    Wait(u64),
    /// Nothing until there is a new change.
    Idle,
}

/// The machine.
#[derive(Clone, Debug)]
pub struct DeliveryQueue {
    kept: KeptQueue,
    /// How many were delivered, refused or unanswered, given up, and no longer in the log, since the beginning of the process.
    counts: QueueCounts,
}

/// What became of messages in this process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueCounts {
    /// Taken by the receiver.
    pub delivered: u64,
    /// Tries that came to nothing.
    pub failed: u64,
    /// Messages that were given up after [`GIVE_UP`].
    pub expired: u64,
    /// Messages whose change the log no longer has.
    pub missed: u64,
}

impl DeliveryQueue {
    /// Goes on where an earlier process was. `fingerprint` is that of the receiver as it is configured now: what was learnt of another
    /// one does not count.
    pub fn resume(mut kept: KeptQueue, fingerprint: &str) -> Self {
        if kept.fingerprint != fingerprint {
            kept.disabled = false;
            kept.failures = 0;
            kept.pause_until = 0;
            // Tried anew, but `since` stays: another configuration is no reason to try for three more days.
            kept.pending.iter_mut().for_each(|message| message.due = 0);
            fingerprint.clone_into(&mut kept.fingerprint);
        }
        // What was kept by a process with a larger bound is not lost: it only takes no more until there is room.
        kept.pending.sort_unstable_by_key(|message| message.seq);
        kept.pending.dedup_by_key(|message| message.seq);
        Self { kept, counts: QueueCounts::default() }
    }

    /// What the next process has to know.
    pub fn kept(&self) -> &KeptQueue {
        &self.kept
    }

    /// What became of messages in this process.
    pub fn counts(&self) -> QueueCounts {
        self.counts
    }

    /// How many more changes may be looked at.
    pub fn room(&self) -> usize {
        MOST_PENDING.saturating_sub(self.kept.pending.len())
    }

    /// A change was looked at; `wanted` if the receiver is to be told.
    pub fn took(&mut self, seq: u64, wanted: bool, now: u64) {
        // A row that comes again, as where the log is followed anew, is not sent twice.
        if seq <= self.kept.cursor {
            return;
        }
        self.kept.cursor = seq;
        if wanted && !self.kept.disabled {
            self.kept.pending.push(PendingMessage { seq, since: now, attempts: 0, due: now });
        }
    }

    /// What is to be done now.
    pub fn next(&mut self, now: u64) -> QueueStep {
        self.follow_clock(now);
        self.give_up(now);
        if self.kept.pending.is_empty() {
            return QueueStep::Idle;
        }
        if self.kept.pause_until > now {
            return QueueStep::Wait(self.kept.pause_until);
        }
        // In order, but for those that were refused: they wait by themselves and hold up nobody.
        match self.kept.pending.iter().find(|message| message.due <= now) {
            Some(message) => QueueStep::Send(message.seq),
            None => self.kept.pending.iter().map(|message| message.due).min().map_or(QueueStep::Idle, QueueStep::Wait),
        }
    }

    /// A message that waits since a time that is to come says that the clock was set back: pauses by the clock before mean nothing, and
    /// would be waited for until it is that late again.
    fn follow_clock(&mut self, now: u64) {
        if self.kept.pending.iter().all(|message| message.since <= now) {
            return;
        }
        self.kept.pause_until = 0;
        for message in &mut self.kept.pending {
            message.since = message.since.min(now);
            message.due = message.due.min(now);
        }
    }

    /// What came of a message that was sent.
    pub fn answered(&mut self, seq: u64, answer: DeliveryAnswer, now: u64) {
        let Ok(place) = self.kept.pending.binary_search_by_key(&seq, |message| message.seq) else { return };
        match answer {
            DeliveryAnswer::Taken => {
                self.kept.pending.remove(place);
                self.kept.failures = 0;
                self.kept.pause_until = 0;
                self.counts.delivered += 1;
            }
            DeliveryAnswer::Gone => {
                self.kept.disabled = true;
                self.kept.pending.clear();
                self.counts.failed += 1;
            }
            DeliveryAnswer::Refused { after } => {
                // It answered, so it is there for others.
                self.kept.failures = 0;
                self.kept.pause_until = 0;
                self.counts.failed += 1;
                let message = &mut self.kept.pending[place];
                message.attempts = message.attempts.saturating_add(1);
                message.due = now + pause(message.attempts, seq).max(after.unwrap_or_default());
            }
            DeliveryAnswer::Unavailable { after } => {
                self.counts.failed += 1;
                self.kept.failures = self.kept.failures.saturating_add(1);
                // The longer of the two: who asks for less than it needs gets what failures have taught.
                self.kept.pause_until = now + pause(self.kept.failures, seq).max(after.unwrap_or_default());
                let message = &mut self.kept.pending[place];
                message.attempts = message.attempts.saturating_add(1);
            }
        }
    }

    /// The log no longer has this change.
    pub fn missing(&mut self, seq: u64) {
        let before = self.kept.pending.len();
        self.unwanted(seq);
        self.counts.missed += (before - self.kept.pending.len()) as u64;
    }

    /// The receiver is not to be told of this change any more: it is configured otherwise now.
    pub fn unwanted(&mut self, seq: u64) {
        self.kept.pending.retain(|message| message.seq != seq);
    }

    /// Each message is tried once, however long the process was not there.
    fn give_up(&mut self, now: u64) {
        let before = self.kept.pending.len();
        // `attempts == 0`: after days without a process everything is old, and nothing was tried yet.
        self.kept.pending.retain(|message| message.attempts == 0 || now.saturating_sub(message.since) < GIVE_UP);
        self.counts.expired += (before - self.kept.pending.len()) as u64;
    }
}

/// The pause after so many failures, a fifth longer at most: many receivers that went away together do not come back together.
fn pause(failures: u32, seq: u64) -> u64 {
    // Bounded before the shift: 2^20 seconds are far beyond the longest pause.
    let doubled = FIRST_PAUSE.saturating_mul(1 << failures.saturating_sub(1).min(20)).min(LONGEST_PAUSE);
    // No randomness is needed: numbers of changes differ enough.
    let spread = seq.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(u64::from(failures)) % 200;
    doubled + doubled * spread / 1_000
}
