//! When the whole state is kept beside the log, and by whom.
//!
//! Whoever joins begins with the state that was kept last and reads the log from there. So joining takes as long for a log of a year as for one of
//! a day, and the log may forget what is before that state.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::members::FleetMembers;
use super::{BlobHash, LogSequence};

/// So many entries are read by whoever joins, at the most, unless none could be kept.
pub const KEPT_EVERY: u64 = 1_000;
/// A log in which little happens forgets by age: the state is kept long before that, when there is anything new.
const KEPT_WITHIN: Duration = Duration::from_secs(60 * 60);
/// One that did not come about is tried again.
const KEEP_AGAIN: Duration = Duration::from_secs(10);

/// Names a state that is kept beside the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptState {
    /// The format of the entries that are in it.
    pub format: u32,
    /// The position of the last of them.
    pub position: u64,
    /// The hash of that entry as it was written: a log that lost its end may have another one there by now.
    pub entry: BlobHash,
    /// Where the state is.
    pub content: BlobHash,
}

/// The state that was kept last, as far as this replica knows.
#[derive(Clone, Debug)]
pub struct StateKeeping {
    /// The format of those who keep states. Older ones are passed over.
    format: u32,
    kept: LogSequence,
    /// Since when there is something that the kept state does not have.
    newer_since: Option<Instant>,
    tried: Option<Instant>,
}

impl StateKeeping {
    /// Nothing later than `kept` is known to be kept.
    pub fn new(format: u32, kept: LogSequence) -> Self {
        Self { format, kept, newer_since: None, tried: None }
    }

    /// Whether this replica is to keep its state now, with everything up to `applied`. Of all that are there one does it; where two of them take
    /// each other for gone both do, and the state is the same.
    pub fn due(&mut self, applied: LogSequence, members: &FleetMembers, now: Instant) -> bool {
        if applied <= self.kept {
            self.newer_since = None;
            return false;
        }
        let since = *self.newer_since.get_or_insert(now);
        let is_late = applied.0 - self.kept.0 >= KEPT_EVERY || now.duration_since(since) >= KEPT_WITHIN;
        let is_tried = self.tried.is_some_and(|tried| now.duration_since(tried) < KEEP_AGAIN);
        if !is_late || is_tried || !self.is_first(members) {
            return false;
        }
        self.tried = Some(now);
        true
    }

    /// The state up to there is kept, if it is this replica that keeps it.
    pub fn kept_here(&self, members: &FleetMembers) -> Option<LogSequence> {
        self.is_first(members).then_some(self.kept)
    }

    /// The state up to there is kept.
    pub fn kept(&mut self, at: LogSequence) {
        self.kept = self.kept.max(at);
        (self.newer_since, self.tried) = (None, None);
    }

    fn is_first(&self, members: &FleetMembers) -> bool {
        let mut others = members.live().filter(|beat| beat.format >= self.format && !beat.leaving);
        others.all(|beat| members.me().name < beat.replica.name)
    }
}

#[cfg(test)]
mod tests {
    use super::super::ReplicaId;
    use super::super::members::ReplicaBeat;
    use super::*;

    const FORMAT: u32 = 4;

    fn members(me: &str, others: &[(&str, u32, bool)], now: Instant) -> FleetMembers {
        let id = |name: &str| ReplicaId { name: name.into(), incarnation: 1 };
        let mut members = FleetMembers::new(id(me));
        for &(name, format, leaving) in others {
            let beat = ReplicaBeat {
                replica: id(name),
                number: 1,
                applied: LogSequence(0),
                generation: 0,
                digest: Default::default(),
                config: Default::default(),
                labels: Vec::new(),
                unfit: Vec::new(),
                format,
                leaving,
            };
            members.heard(beat, now);
        }
        members
    }

    // cluster: the state is kept after so many entries, or an hour with anything new
    #[test]
    fn a_state_is_kept_after_many_entries_or_some_time_and_tried_again() {
        let begin = Instant::now();
        let after = |seconds| begin + Duration::from_secs(seconds);
        let alone = members("a", &[], begin);
        let mut keeping = StateKeeping::new(FORMAT, LogSequence(50));
        assert!(!keeping.due(LogSequence(50), &alone, after(9_000)), "nothing is new");
        assert!(!keeping.due(LogSequence(1_049), &alone, begin));
        assert!(keeping.due(LogSequence(1_050), &alone, begin));
        assert!(!keeping.due(LogSequence(1_060), &alone, after(9)), "it is under way");
        assert!(keeping.due(LogSequence(1_070), &alone, after(10)), "nothing became of it");
        keeping.kept(LogSequence(1_070));
        // What comes later has an hour of its own.
        assert!(!keeping.due(LogSequence(1_071), &alone, after(20)));
        assert!(!keeping.due(LogSequence(1_072), &alone, after(3_619)));
        assert!(keeping.due(LogSequence(1_072), &alone, after(3_620)));
        // A late word of an earlier one takes nothing back.
        keeping.kept(LogSequence(1_072));
        keeping.kept(LogSequence(1_070));
        assert!(!keeping.due(LogSequence(1_072), &alone, after(90_000)));
    }

    // cluster: one of the replicas keeps it
    #[test]
    fn one_of_those_who_can_keeps_the_state() {
        let now = Instant::now();
        let due = |me: &str, others: &[(&str, u32, bool)]| {
            StateKeeping::new(FORMAT, LogSequence(0)).due(LogSequence(KEPT_EVERY), &members(me, others, now), now)
        };
        assert!(due("a", &[("b", FORMAT, false), ("c", FORMAT, false)]));
        assert!(!due("b", &[("a", FORMAT, false), ("c", FORMAT, false)]));
        assert!(due("b", &[("a", FORMAT - 1, false)]), "an older one keeps nothing");
        assert!(due("b", &[("a", FORMAT, true)]), "one that leaves is not waited for");
    }
}
