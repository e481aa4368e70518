//! Which lists beside the log nobody needs any more: those whose place another took some time ago, before the state that who joins begins with.
//!
//! Every replica remembers what was replaced; the one that keeps the state drops it. Not here: contents of decisions, of which whoever writes
//! the next drops the one before.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::{BlobHash, LogSequence};

/// How long a list stays after another took its place: whoever reads the log and is not further behind finds everything.
pub const LISTS_KEPT: Duration = Duration::from_secs(60 * 60);
/// What is remembered at most. Lists beyond that stay beside the log.
const REMEMBERED: usize = 65_536;
/// How many are dropped at a time.
const AT_ONCE: usize = 16;

/// Lists that were replaced, the oldest first.
#[derive(Clone, Debug)]
pub struct ReplacedLists {
    kept_for: Duration,
    replaced: VecDeque<ReplacedList>,
}

#[derive(Clone, Copy, Debug)]
struct ReplacedList {
    content: BlobHash,
    /// The entry that took its place.
    at: LogSequence,
    since: Instant,
}

impl ReplacedLists {
    /// Lists are kept for so long.
    pub fn new(kept_for: Duration) -> Self {
        Self { kept_for, replaced: VecDeque::new() }
    }

    /// Another list took the place of this one.
    pub fn replaced(&mut self, content: BlobHash, at: LogSequence, now: Instant) {
        if self.replaced.len() < REMEMBERED {
            self.replaced.push_back(ReplacedList { content, at, since: now });
        }
    }

    /// What can be dropped: who joins begins with the state at `kept`, and needs nothing that was replaced before. What is named again by now stays.
    /// Where another replica keeps the state (`kept` is `None`), it does this, and what it had the time for is forgotten here.
    pub fn due(
        &mut self,
        kept: Option<LogSequence>,
        is_named: impl Fn(&BlobHash) -> bool,
        now: Instant,
    ) -> Vec<BlobHash> {
        let mut due = Vec::new();
        while let Some(oldest) = self.replaced.front().filter(|_| due.len() < AT_ONCE) {
            let age = now.duration_since(oldest.since);
            let is_due = match kept {
                Some(kept) => age >= self.kept_for && oldest.at <= kept,
                None => age >= 2 * self.kept_for,
            };
            if !is_due {
                break;
            }
            if kept.is_some() && !is_named(&oldest.content) {
                due.push(oldest.content);
            }
            self.replaced.pop_front();
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(number: u8) -> BlobHash {
        BlobHash::of(&[number])
    }

    // cluster: a list is dropped when nobody can come upon it any more
    #[test]
    fn a_replaced_list_goes_when_it_is_old_and_the_kept_state_is_newer() {
        let begin = Instant::now();
        let after = |seconds| begin + Duration::from_secs(seconds);
        let mut lists = ReplacedLists::new(LISTS_KEPT);
        lists.replaced(list(1), LogSequence(10), begin);
        lists.replaced(list(2), LogSequence(20), after(60));
        lists.replaced(list(3), LogSequence(30), after(61));
        let mut due = |kept, seconds| lists.due(kept, |content| *content == list(2), after(seconds));
        assert_eq!(due(Some(LogSequence(99)), 3_599), [], "somebody may be as far behind");
        assert_eq!(due(Some(LogSequence(9)), 3_600), [], "who joins comes upon it");
        assert_eq!(
            due(Some(LogSequence(29)), 9_000),
            [list(1)],
            "the second is listed again, the third is after the kept state"
        );
        assert_eq!(due(Some(LogSequence(30)), 9_000), [list(3)]);
        assert_eq!(due(Some(LogSequence(99)), 99_000), []);
    }

    // cluster: of several replicas one drops it, and the others forget it
    #[test]
    fn who_does_not_keep_the_state_drops_nothing() {
        let begin = Instant::now();
        let mut lists = ReplacedLists::new(LISTS_KEPT);
        lists.replaced(list(1), LogSequence(1), begin);
        lists.replaced(list(2), LogSequence(2), begin + LISTS_KEPT);
        assert_eq!(lists.due(None, |_| false, begin + 2 * LISTS_KEPT), []);
        // From here on it keeps the state itself.
        assert_eq!(lists.due(Some(LogSequence(9)), |_| false, begin + 2 * LISTS_KEPT), [list(2)]);
    }

    // cluster: bounds
    #[test]
    fn few_are_dropped_at_a_time_and_not_all_are_remembered() {
        let begin = Instant::now();
        let mut lists = ReplacedLists::new(LISTS_KEPT);
        (0..=REMEMBERED as u64).for_each(|at| lists.replaced(list(1), LogSequence(at), begin));
        let mut dropped = 0;
        loop {
            let due = lists.due(Some(LogSequence(u64::MAX)), |_| false, begin + LISTS_KEPT);
            assert!(due.len() <= AT_ONCE);
            dropped += due.len();
            if due.is_empty() {
                break;
            }
        }
        assert_eq!(dropped, REMEMBERED);
    }
}
