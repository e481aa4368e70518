//! What this replica answered without knowing the end of the log, and what has to be owed again for it.
//!
//! A client may have been told of a change by another replica, and asked this one, which did not have it. Once the end of the log is known
//! again, an [`Echo`](FleetEntry::Echo) makes everybody owe what lies between. The same is done for a replica that is gone: nobody knows what it
//! answered after it was last heard.

use std::time::{Duration, Instant};

use super::LogSequence;
use super::entry::FleetEntry;

/// An echo that nothing became of is written again.
const WRITE_AGAIN: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug)]
struct DueEcho {
    from: LogSequence,
    to: LogSequence,
    at: Instant,
}

/// The lowest sequences that were answered with, and the echoes that follow from them.
#[derive(Clone, Debug, Default)]
pub struct EchoDebts {
    /// Answered after the last question for the end of the log was sent: its answer may be older than what clients were told.
    fresh: Option<LogSequence>,
    /// Answered before it.
    asked: Option<LogSequence>,
    due: Option<DueEcho>,
}

fn lower(one: Option<LogSequence>, other: Option<LogSequence>) -> Option<LogSequence> {
    one.into_iter().chain(other).min()
}

impl EchoDebts {
    /// Something was answered at this sequence, without knowing the end of the log.
    pub fn answered(&mut self, at: LogSequence) {
        self.fresh = lower(self.fresh, Some(at));
    }

    /// Whether the end of the log has to be asked for.
    pub fn wants_head(&self) -> bool {
        self.fresh.is_some() || self.asked.is_some()
    }

    /// The end of the log is asked for.
    pub fn head_asked(&mut self) {
        self.asked = lower(self.asked, self.fresh.take());
    }

    /// The end of the log is known, as of the last question. An echo is written at `at`, a random moment: mostly one replica's covers all.
    pub fn head_known(&mut self, head: LogSequence, at: Instant) {
        // Where both are equal the end of the log was answered with, so nothing is owed.
        let Some(from) = self.asked.take().filter(|from| *from < head) else { return };
        self.due = Some(match self.due {
            Some(due) => DueEcho { from: due.from.min(from), to: due.to.max(head), at: due.at.min(at) },
            None => DueEcho { from, to: head, at },
        });
    }

    /// An echo was applied. It stands for an own one if it covers it and comes after the end of the log that the own one was made for.
    pub fn applied(&mut self, sequence: LogSequence, from: LogSequence, to: LogSequence) {
        if self.due.is_some_and(|due| sequence > due.to && from <= due.from && to >= due.to) {
            self.due = None;
        }
    }

    /// The log began anew with an entry that touches everything: what was answered before it is owed from there.
    pub fn begun_anew(&mut self, base: LogSequence) {
        // An echo is about what comes after its beginning, and the entry at `base` has to be in it.
        let before = LogSequence(base.0.saturating_sub(1));
        self.fresh = self.fresh.map(|_| before);
        self.asked = self.asked.map(|_| before);
        self.due = self.due.map(|due| DueEcho { from: before, to: base, at: due.at });
    }

    /// The echo to write now.
    pub fn take_due(&mut self, now: Instant) -> Option<FleetEntry> {
        let due = self.due.as_mut().filter(|due| due.at <= now)?;
        // Not taken out: only an echo that is read back settles it.
        due.at = now + WRITE_AGAIN;
        Some(FleetEntry::Echo { from: due.from, to: due.to })
    }

    /// Whether something was answered for which no echo was applied yet.
    pub fn owes(&self) -> bool {
        self.wants_head() || self.due.is_some()
    }
}
