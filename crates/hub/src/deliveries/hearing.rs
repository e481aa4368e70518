//! What is counted of one connection on the path of its calls: how often it used what a list names since it was told that the list
//! changed, and which change its next answer could carry a hint of.
//!
//! Nothing here takes a lock. A connection that is not behind costs each of its calls one relaxed load, of a word that nobody writes; one
//! that is behind costs three of them a write more.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::standing::DEAF_CALLS;
use crate::ledger::{Topic, Topics};

/// Set in the byte of a topic while its calls are counted.
const COUNTING: u32 = 0x80;
/// The same of all topics.
const ANY_COUNTING: u32 = 0x0080_8080;
/// The count in the byte of a topic.
const COUNT: u32 = 0x7f;

/// The counts of one connection.
#[derive(Debug, Default)]
pub struct HearingTally {
    /// A byte for each topic.
    calls: AtomicU32,
    /// The newest commit that its next answer could tell of; 0: none.
    hint: AtomicU64,
    /// The newest commit of which it asked for the list, or was given a hint.
    settled: AtomicU64,
}

impl HearingTally {
    /// It was told of lists that it had asked for: what it calls from now on is counted.
    pub fn told(&self, topics: Topics) {
        // The count begins at zero: what was called before the notice proves nothing.
        self.change(|calls| topics.iter().fold(calls, |calls, topic| with_byte(calls, topic, COUNTING)));
    }

    /// It asks for a list, as of the newest commit.
    pub fn listed(&self, topic: Topic, newest: u64) {
        self.change(|calls| with_byte(calls, topic, 0));
        if topic == Topic::Tools {
            self.settled.fetch_max(newest, Ordering::Relaxed);
            // A commit since then is not in what it was given.
            let old = |hint: u64| (hint <= newest).then_some(0);
            let _ = self.hint.fetch_update(Ordering::Relaxed, Ordering::Relaxed, old);
        }
    }

    /// It uses what a list names. Tells whether nothing of it is counted any more from now on.
    pub fn called(&self, topic: Topic) -> bool {
        // The usual case: it is not behind, and nobody writes.
        if byte(self.calls.load(Ordering::Relaxed), topic) & COUNTING == 0 {
            return false;
        }
        let before = self.change(|calls| with_byte(calls, topic, counted(byte(calls, topic))));
        let after = counted(byte(before, topic));
        byte(before, topic) != after && after & COUNTING == 0
    }

    /// How often it used what each list names since it was told of it, at most [`DEAF_CALLS`].
    pub fn calls(&self) -> [u8; 3] {
        let calls = self.calls.load(Ordering::Relaxed);
        Topic::ALL.map(|topic| u8::try_from(byte(calls, topic) & COUNT).unwrap_or(u8::MAX))
    }

    /// A commit changed the tools that it sees and has asked for.
    pub fn changed(&self, commit: u64) {
        // Two steps are enough: commits are reported one at a time, under the lock under which the number for `listed`
        // is read, and that one leaves a newer hint alone.
        if commit > self.settled.load(Ordering::Relaxed) {
            self.hint.store(commit, Ordering::Relaxed);
        }
    }

    /// The commit that its next answer could tell of.
    pub fn hint(&self) -> Option<u64> {
        Some(self.hint.load(Ordering::Relaxed)).filter(|commit| *commit != 0)
    }

    /// An answer can tell of this commit: whether it is the one that does. It is told of it once.
    pub fn take_hint(&self, commit: u64) -> bool {
        let taken = self.hint.compare_exchange(commit, 0, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        if taken {
            self.settled.fetch_max(commit, Ordering::Relaxed);
        }
        taken
    }

    /// Whether a call of it has to be noticed.
    pub fn is_watched(&self) -> bool {
        self.calls.load(Ordering::Relaxed) & ANY_COUNTING != 0 || self.hint().is_some()
    }

    fn change(&self, change: impl Fn(u32) -> u32) -> u32 {
        let before = self.calls.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |calls| Some(change(calls)));
        // Never an error, because the closure always gives a value.
        before.unwrap_or_default()
    }
}

fn byte(calls: u32, topic: Topic) -> u32 {
    (calls >> (8 * topic as u32)) & 0xff
}

fn with_byte(calls: u32, topic: Topic, byte: u32) -> u32 {
    let shift = 8 * topic as u32;
    calls & !(0xff << shift) | byte << shift
}

/// One more, until there are enough.
fn counted(byte: u32) -> u32 {
    if byte & COUNTING == 0 {
        return byte;
    }
    match (byte & COUNT) + 1 {
        // Without the mark: from here on its calls cost one load again.
        count if count >= u32::from(DEAF_CALLS) => u32::from(DEAF_CALLS),
        count => COUNTING | count,
    }
}
