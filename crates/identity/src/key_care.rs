//! When the keys of a provider are read: a machine without I/O and without a clock of its own.
//!
//! Whoever can send a request can name keys that do not exist, so what a stranger sends may lead to one reading in a while and no more. A
//! provider that is away does not lock out those whose keys are known.

use std::time::{Duration, Instant};

/// How long keys are used without another look.
const FRESH: Duration = Duration::from_secs(10 * 60);
/// How long they are used where the provider does not answer.
const STALE: Duration = Duration::from_secs(24 * 60 * 60);
/// How often at most keys are read because a token names one that is not there.
const SEARCH: Duration = Duration::from_secs(30);
/// How long after a reading that failed the next one may begin.
const RETRY: Duration = Duration::from_secs(5);

/// What is to be done for a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyStep {
    /// Its key is there.
    Use,
    /// Its key is there, and old enough for another look; nobody waits for that.
    UseAndRead,
    /// The keys have to be read first.
    Read,
    /// There is no such key.
    Unknown,
    /// It is not known whether there is, because the provider did not answer.
    Silent,
}

/// What is known of the keys of one provider.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct KeyCare {
    read: Option<Instant>,
    /// When the last reading began.
    begun: Option<Instant>,
    /// When the last one began that a missing key was the reason for.
    searched: Option<Instant>,
    failed: Option<Instant>,
}

impl KeyCare {
    /// What to do for a token whose key is there, or is not.
    pub(crate) fn decide(&self, found: bool, now: Instant) -> KeyStep {
        let older = |at: Option<Instant>, than: Duration| at.is_none_or(|at| now.duration_since(at) >= than);
        let may_read = older(self.failed, RETRY);
        match self.read {
            None if may_read => KeyStep::Read,
            None => KeyStep::Silent,
            // Not used any longer, and not refused either: whether the key is still good is not known.
            Some(_) if found && older(self.read, STALE) => {
                if may_read {
                    KeyStep::Read
                } else {
                    KeyStep::Silent
                }
            }
            // A reading that is under way counts by its beginning.
            Some(_) if found && older(self.read, FRESH) && older(self.begun, SEARCH) => KeyStep::UseAndRead,
            Some(_) if found => KeyStep::Use,
            // A reading in the regular way is no search: a provider may change its keys right after it.
            Some(_) if older(self.searched, SEARCH) && may_read => KeyStep::Read,
            // A provider whose last reading failed may have the key since; its absence proves nothing.
            Some(_) if self.failed.is_some() => KeyStep::Silent,
            Some(_) => KeyStep::Unknown,
        }
    }

    /// The keys are being read.
    pub(crate) fn begin(&mut self, found: bool, now: Instant) {
        self.begun = Some(now);
        // Not for the first reading, which would be made in any case: a new provider can be searched right after it.
        if !found && self.read.is_some() {
            self.searched = Some(now);
        }
    }

    /// They were read.
    pub(crate) fn done(&mut self, now: Instant) {
        (self.read, self.failed) = (Some(now), None);
    }

    /// They could not be read.
    pub(crate) fn fail(&mut self, now: Instant) {
        self.failed = Some(now);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A provider with these keys at a time, and whoever asks.
    struct Story {
        care: KeyCare,
        start: Instant,
        readings: Vec<Duration>,
    }

    impl Story {
        fn new() -> Self {
            Self { care: KeyCare::default(), start: Instant::now(), readings: Vec::new() }
        }

        /// A token at a time; `answers`: whether the provider does.
        fn token(&mut self, at: Duration, found_before: bool, found_after: bool, answers: bool) -> KeyStep {
            let now = self.start + at;
            match self.care.decide(found_before, now) {
                step @ (KeyStep::Read | KeyStep::UseAndRead) => {
                    self.care.begin(found_before, now);
                    self.readings.push(at);
                    if answers {
                        self.care.done(now)
                    } else {
                        self.care.fail(now)
                    }
                    if step == KeyStep::UseAndRead { KeyStep::Use } else { self.care.decide(found_after, now) }
                }
                step => step,
            }
        }
    }

    const fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    // identity 8.4
    #[test]
    fn ten_thousand_unknown_keys_are_one_reading() {
        let mut story = Story::new();
        assert_eq!(story.token(seconds(0), false, true, true), KeyStep::Use);
        for _ in 0..10_000 {
            assert_eq!(story.token(seconds(1), false, false, true), KeyStep::Unknown);
        }
        assert_eq!(
            story.readings,
            [seconds(0), seconds(1)],
            "one for the start, one for all who name keys that are not there"
        );
    }

    // identity 8.4
    #[test]
    fn a_key_that_is_new_is_found_at_once_also_right_after_a_regular_reading() {
        let mut story = Story::new();
        assert_eq!(story.token(seconds(0), false, true, true), KeyStep::Use);
        assert_eq!(story.token(seconds(1), false, true, true), KeyStep::Use);
        assert_eq!(story.token(seconds(601), true, true, true), KeyStep::Use, "old keys are read again, beside");
        assert_eq!(story.readings.len(), 3);
    }

    // identity 7
    #[test]
    fn a_provider_that_is_away_locks_out_only_those_whose_keys_are_unknown() {
        let mut story = Story::new();
        assert_eq!(story.token(seconds(0), false, true, true), KeyStep::Use);
        assert_eq!(story.token(seconds(700), true, true, false), KeyStep::Use);
        assert_eq!(story.token(seconds(800), false, false, false), KeyStep::Silent);
        assert_eq!(story.token(seconds(801), true, true, false), KeyStep::Use);
        assert_eq!(story.token(seconds(25 * 3600), true, true, false), KeyStep::Silent, "a day is the end");
        assert_eq!(story.token(seconds(25 * 3600 + 5), true, true, true), KeyStep::Use);
        let mut never = Story::new();
        assert_eq!(never.token(seconds(0), false, false, false), KeyStep::Silent);
        assert_eq!(never.token(seconds(1), false, false, true), KeyStep::Silent);
        assert_eq!(never.token(seconds(5), false, true, true), KeyStep::Use);
    }

    proptest! {
        /// Whatever is sent and whether or not the provider answers: strangers cause one reading in 30 s, all together one in 5.
        #[test]
        fn no_traffic_makes_a_provider_be_asked_often(
            tokens in proptest::collection::vec((0_u64..3, any::<bool>(), any::<bool>()), 1..400)
        ) {
            let mut story = Story::new();
            let (mut at, mut searches) = (0, Vec::new());
            for (pause, found, answers) in tokens {
                at += pause;
                let (before, had) = (story.readings.len(), story.care.read.is_some());
                story.token(seconds(at), found, found, answers);
                if story.readings.len() > before && had && !found {
                    searches.push(at);
                }
            }
            for pair in searches.windows(2) {
                prop_assert!(pair[1] - pair[0] >= 30, "{:?}", searches);
            }
        }
    }
}
