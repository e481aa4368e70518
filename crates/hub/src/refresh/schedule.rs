//! When lists are asked for again without a signal: those that nobody announces, and those that failed.
//!
//! A list that is not announced is polled every `poll_interval`. Where a modern server says how long its list is fresh
//! (`ttlMs`), it is polled when that is over instead: earlier is useless, later is late. But not more than once a second,
//! and never more rarely than `poll_interval`, which is the longest that whoever runs the gateway wants to wait.

use std::time::{Duration, Instant};

use tidings_proto::ListKind;

use super::ListMark;
use crate::catalogue::OfferList;

/// However short a list is fresh, it is not polled more often than this.
const LEAST: Duration = Duration::from_secs(1);
/// The first pause before a list that failed is asked for again, and the longest.
const FIRST_RETRY: Duration = Duration::from_secs(1);
const LONGEST_RETRY: Duration = Duration::from_secs(30);

/// The schedule of one link: its successor lists everything at once, and so begins with a new one.
#[derive(Debug)]
pub struct RefreshSchedule {
    poll: Duration,
    due: [Instant; 4],
    /// Until when each list is fresh, by the server's own word.
    fresh_until: [Option<Instant>; 4],
    failed: Vec<ListFailure>,
    retry: Instant,
    pause: Duration,
}

/// A list that could not be had.
#[derive(Debug)]
struct ListFailure {
    kind: ListKind,
    error: String,
    /// When a signal said that it changed.
    signalled: Option<Instant>,
}

/// A list that could not be had, for those who look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedList {
    /// The list that could not be had.
    pub kind: ListKind,
    /// The server's error, or that of the link.
    pub error: String,
    /// When it is tried again.
    pub retry_at: Instant,
}

/// What there is to do.
#[derive(Debug, PartialEq, Eq)]
pub enum DueRefresh {
    /// These lists are to be asked for because the server announces no changes of them.
    Poll(Vec<ListKind>),
    /// These could not be had.
    Retry(Vec<ListKind>),
}

impl RefreshSchedule {
    /// `poll` zero: lists are never polled, only retried after a failure.
    pub fn new(poll: Duration, now: Instant) -> Self {
        // Due at once, but the first listing of the link comes before that and moves it.
        Self { poll, due: [now; 4], fresh_until: [None; 4], failed: Vec::new(), retry: now, pause: FIRST_RETRY }
    }

    /// A list was had.
    pub fn listed(&mut self, kind: ListKind, list: &OfferList, now: Instant, jitter: Jitter) {
        self.failed.retain(|failed| failed.kind != kind);
        let ttl = Duration::from_millis(list.ttl_ms);
        // `ttlMs` is any number that the server likes, also one that is beyond what the clock can tell.
        self.fresh_until[kind as usize] = now.checked_add(ttl).filter(|_| !ttl.is_zero());
        self.due[kind as usize] = now
            + match ttl.max(LEAST) {
                // Never earlier than the server said: within its `ttlMs` it may answer from a cache.
                until if !ttl.is_zero() && until < self.poll => jitter.after(until),
                _ => jitter.around(self.poll),
            };
    }

    /// A list could not be had.
    pub fn failed(&mut self, kind: ListKind, error: String, mark: ListMark, now: Instant, jitter: Jitter) {
        let signalled = self.signalled(kind, mark);
        self.failed.retain(|failed| failed.kind != kind);
        self.failed.push(ListFailure { kind, error, signalled });
        self.due[kind as usize] = now + jitter.around(self.poll);
    }

    /// When the first signal came that this listing answers: one before a failure is not answered yet.
    pub fn signalled(&self, kind: ListKind, mark: ListMark) -> Option<Instant> {
        // The signal that the failed listing was for is older than any that came since, and it is what the delay to
        // clients is measured from.
        self.failed.iter().find(|failed| failed.kind == kind).and_then(|failed| failed.signalled).or(mark.first)
    }

    /// A listing is over: decides when what failed is tried again. `retried`: it was a retry, so patience grows.
    pub fn settle(&mut self, retried: bool, any_failed: bool, now: Instant) {
        if self.failed.is_empty() {
            self.pause = FIRST_RETRY;
        } else if retried {
            // Only a retry makes it longer: a signal that meets a failing list says nothing about patience.
            self.pause = (self.pause * 2).min(LONGEST_RETRY);
            self.retry = now + self.pause;
        } else if any_failed {
            self.retry = now + self.pause;
        }
    }

    /// The next thing to do, and when; nothing if there is none. `unheard`: the lists that nobody announces.
    pub fn next(&self, unheard: &[ListKind]) -> Option<(Instant, DueRefresh)> {
        let polled = if self.poll.is_zero() { &[] } else { unheard };
        let poll = polled.iter().map(|kind| self.due[*kind as usize]).min();
        let retry = (!self.failed.is_empty()).then_some(self.retry);
        let when = poll.into_iter().chain(retry).min()?;
        // Where both are due, the failed lists come first; the others are due at once after it.
        let due = match retry == Some(when) {
            true => DueRefresh::Retry(self.failed.iter().map(|failed| failed.kind).collect()),
            false => DueRefresh::Poll(polled.iter().copied().filter(|kind| self.due[*kind as usize] <= when).collect()),
        };
        Some((when, due))
    }

    /// Until when each list is fresh.
    pub fn fresh_until(&self) -> [Option<Instant>; 4] {
        self.fresh_until
    }

    /// The lists that could not be had, for those who look.
    pub fn failures(&self) -> Vec<FailedList> {
        let one =
            |failed: &ListFailure| FailedList { kind: failed.kind, error: failed.error.clone(), retry_at: self.retry };
        self.failed.iter().map(one).collect()
    }
}

/// A fraction between 0 and 1 by which moments are spread, so that many servers are not asked at once. The hub draws no
/// random numbers, so whoever drives it brings one.
#[derive(Clone, Copy, Debug)]
pub struct Jitter(f64);

impl Jitter {
    /// From anything that differs from time to time, such as the nanoseconds of a clock.
    pub fn of(nanos: u32) -> Self {
        Self(f64::from(nanos % 1_000) / 1_000.0)
    }

    /// A tenth more or less.
    fn around(self, length: Duration) -> Duration {
        length.mul_f64(0.9 + self.0 / 5.0)
    }

    /// Up to a tenth more.
    fn after(self, length: Duration) -> Duration {
        length.mul_f64(1.0 + self.0 / 10.0)
    }
}

#[cfg(test)]
mod tests {
    use super::super::RefreshReason;
    use super::*;

    const MINUTES: Duration = Duration::from_secs(300);
    const ALL: [ListKind; 4] = ListKind::ALL;

    fn list(ttl_ms: u64) -> OfferList {
        OfferList::new(Vec::new(), ttl_ms, false)
    }

    /// How long after a moment something is to be done, and what.
    fn next(schedule: &RefreshSchedule, unheard: &[ListKind], now: Instant) -> (Duration, DueRefresh) {
        let (when, due) = schedule.next(unheard).expect("there is something to do");
        (when.saturating_duration_since(now), due)
    }

    // S3.3
    #[test]
    fn without_a_ttl_the_interval_decides_spread_around_it() {
        let now = Instant::now();
        for (fraction, seconds) in [(0.0, 270), (0.5, 300), (1.0, 330)] {
            let mut schedule = RefreshSchedule::new(MINUTES, now);
            for kind in ALL {
                schedule.listed(kind, &list(0), now, Jitter(fraction));
            }
            let (waited, due) = next(&schedule, &[ListKind::Tools, ListKind::Prompts], now);
            assert_eq!(waited.as_secs_f64().round(), f64::from(seconds));
            assert_eq!(due, DueRefresh::Poll(vec![ListKind::Tools, ListKind::Prompts]));
        }
    }

    // S3.3
    #[test]
    fn a_ttl_is_waited_for_but_within_bounds() {
        let now = Instant::now();
        // Never before it is over, nor more than once a second, nor more rarely than the interval.
        for (ttl_ms, fraction, millis) in [
            (20_000, 0.0, 20_000),
            (20_000, 1.0, 22_000),
            (1, 0.0, 1_000),
            (299_999, 0.0, 299_999),
            (3_600_000, 0.5, 300_000),
            (u64::MAX, 0.5, 300_000),
        ] {
            let mut schedule = RefreshSchedule::new(MINUTES, now);
            schedule.listed(ListKind::Tools, &list(ttl_ms), now, Jitter(fraction));
            let (waited, due) = next(&schedule, &[ListKind::Tools], now);
            assert!(waited.abs_diff(Duration::from_millis(millis)) < Duration::from_millis(5), "{ttl_ms}: {waited:?}");
            assert_eq!(due, DueRefresh::Poll(vec![ListKind::Tools]));
        }
        let mut quick = RefreshSchedule::new(Duration::from_millis(50), now);
        quick.listed(ListKind::Tools, &list(10), now, Jitter(0.5));
        assert!(next(&quick, &[ListKind::Tools], now).0 <= Duration::from_millis(60), "an interval that was asked for");
    }

    // S3.3
    #[test]
    fn each_list_has_a_time_of_its_own_and_one_that_is_announced_has_none() {
        let now = Instant::now();
        let mut schedule = RefreshSchedule::new(MINUTES, now);
        for (kind, ttl_ms) in [(ListKind::Tools, 5_000), (ListKind::Prompts, 0), (ListKind::Resources, 2_000)] {
            schedule.listed(kind, &list(ttl_ms), now, Jitter(0.0));
        }
        let unheard = [ListKind::Tools, ListKind::Prompts];
        assert_eq!(next(&schedule, &unheard, now).1, DueRefresh::Poll(vec![ListKind::Tools]));
        assert_eq!(schedule.next(&[]), None);
    }

    // S3.3
    #[test]
    fn an_interval_of_zero_turns_polling_off_also_with_a_ttl() {
        let now = Instant::now();
        let mut schedule = RefreshSchedule::new(Duration::ZERO, now);
        schedule.listed(ListKind::Tools, &list(5_000), now, Jitter(0.0));
        assert_eq!(schedule.next(&ALL), None);
        assert!(schedule.fresh_until()[ListKind::Tools as usize].is_some(), "its word counts towards clients");
    }

    // bridging 12
    #[test]
    fn what_failed_is_retried_with_growing_patience_and_forgotten_when_it_succeeds() {
        let mut now = Instant::now();
        let mut schedule = RefreshSchedule::new(Duration::ZERO, now);
        schedule.failed(ListKind::Tools, "no".into(), ListMark::new(RefreshReason::Poll), now, Jitter(0.5));
        schedule.settle(false, true, now);
        for seconds in [1, 2, 4, 8, 16, 30, 30] {
            let shown = schedule.failures();
            assert_eq!((shown.len(), shown[0].kind, &*shown[0].error), (1, ListKind::Tools, "no"));
            let left = shown[0].retry_at.saturating_duration_since(now);
            assert_eq!(left.as_secs(), seconds);
            let (waited, due) = next(&schedule, &[], now);
            assert_eq!((waited.as_secs(), due), (seconds, DueRefresh::Retry(vec![ListKind::Tools])));
            now += waited;
            schedule.failed(ListKind::Tools, "no".into(), ListMark::new(RefreshReason::Poll), now, Jitter(0.5));
            schedule.settle(true, true, now);
        }
        schedule.listed(ListKind::Tools, &list(0), now, Jitter(0.5));
        schedule.settle(true, false, now);
        assert!(schedule.failures().is_empty());
        assert_eq!(schedule.next(&[]), None);
        schedule.failed(ListKind::Prompts, "no".into(), ListMark::new(RefreshReason::Poll), now, Jitter(0.5));
        schedule.settle(false, true, now);
        assert_eq!(next(&schedule, &[], now).0.as_secs(), 1, "and patience begins anew");
    }

    // S3.6
    #[test]
    fn a_signal_is_remembered_until_a_listing_succeeds() {
        let now = Instant::now();
        let mut schedule = RefreshSchedule::new(Duration::ZERO, now);
        let first = now;
        let signal = |first| ListMark { reason: RefreshReason::Signal, signals: 1, first: Some(first) };
        schedule.failed(ListKind::Tools, "no".into(), signal(first), now, Jitter(0.5));
        assert_eq!(schedule.signalled(ListKind::Tools, ListMark::new(RefreshReason::Retry)), Some(first));
        let later = signal(first + Duration::from_secs(1));
        schedule.failed(ListKind::Tools, "no".into(), later, now, Jitter(0.5));
        assert_eq!(schedule.signalled(ListKind::Tools, later), Some(first), "the client waits since the first");
        assert_eq!(schedule.signalled(ListKind::Prompts, later), later.first);
        schedule.listed(ListKind::Tools, &list(0), now, Jitter(0.5));
        assert_eq!(schedule.signalled(ListKind::Tools, later), later.first);
    }

    // bridging 12
    #[test]
    fn listings_of_other_lists_do_not_put_a_retry_off() {
        let now = Instant::now();
        let mut schedule = RefreshSchedule::new(Duration::ZERO, now);
        schedule.failed(ListKind::Tools, "no".into(), ListMark::new(RefreshReason::Poll), now, Jitter(0.5));
        schedule.settle(false, true, now);
        for tenths in 1..10 {
            let later = now + Duration::from_millis(100 * tenths);
            schedule.listed(ListKind::Prompts, &list(0), later, Jitter(0.5));
            schedule.settle(false, false, later);
        }
        assert_eq!(next(&schedule, &[], now).0.as_secs(), 1);
    }
}
