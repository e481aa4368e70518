//! When lists are asked for again without a signal: those that nobody announces, and those that failed.
//!
//! A list that is not announced is polled every `poll_interval`. Where a modern server says how long its list is fresh
//! (`ttlMs`), it is polled when that is over instead: earlier is useless, later is late. But not more than once a second,
//! and never more rarely than `poll_interval`, which is the longest that whoever runs the gateway wants to wait.

use std::time::{Duration, SystemTime};

use tidings_hub::catalogue::OfferList;
use tidings_proto::ListKind;
use tokio::time::Instant;

use crate::discovery::dirty::Mark;
use crate::observe::status::FailedList;

/// However short a list is fresh, it is not polled more often than this.
const LEAST: Duration = Duration::from_secs(1);
/// The first pause before a list that failed is asked for again, and the longest.
const FIRST_RETRY: Duration = Duration::from_secs(1);
const LONGEST_RETRY: Duration = Duration::from_secs(30);

/// The schedule of one link.
pub(crate) struct Schedule {
    poll: Duration,
    due: [Instant; 4],
    /// Until when each list is fresh, by the server's own word.
    fresh_until: [Option<Instant>; 4],
    failed: Vec<Failure>,
    retry: Instant,
    pause: Duration,
}

/// A list that could not be had.
struct Failure {
    kind: ListKind,
    error: String,
    /// When a signal said that it changed.
    signalled: Option<std::time::Instant>,
}

/// What there is to do.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Due {
    Poll(Vec<ListKind>),
    Retry(Vec<ListKind>),
}

impl Schedule {
    /// `poll` zero: never polled.
    pub(crate) fn new(poll: Duration, now: Instant) -> Self {
        Self { poll, due: [now; 4], fresh_until: [None; 4], failed: Vec::new(), retry: now, pause: FIRST_RETRY }
    }

    /// A list was had.
    pub(crate) fn listed(&mut self, kind: ListKind, list: &OfferList, now: Instant, jitter: Jitter) {
        self.failed.retain(|failed| failed.kind != kind);
        let ttl = Duration::from_millis(list.ttl_ms);
        self.fresh_until[kind as usize] = now.checked_add(ttl).filter(|_| !ttl.is_zero());
        self.due[kind as usize] = now
            + match ttl.max(LEAST) {
                until if !ttl.is_zero() && until < self.poll => jitter.after(until),
                _ => jitter.around(self.poll),
            };
    }

    /// A list could not be had.
    pub(crate) fn failed(&mut self, kind: ListKind, error: String, mark: Mark, now: Instant, jitter: Jitter) {
        let signalled = self.signalled(kind, mark);
        self.failed.retain(|failed| failed.kind != kind);
        self.failed.push(Failure { kind, error, signalled });
        self.due[kind as usize] = now + jitter.around(self.poll);
    }

    /// When the first signal came that this listing answers: one before a failure is not answered yet.
    pub(crate) fn signalled(&self, kind: ListKind, mark: Mark) -> Option<std::time::Instant> {
        self.failed.iter().find(|failed| failed.kind == kind).and_then(|failed| failed.signalled).or(mark.first)
    }

    /// A listing is over: decides when what failed is tried again. `retried`: it was a retry, so patience grows.
    pub(crate) fn settle(&mut self, retried: bool, any_failed: bool, now: Instant) {
        if self.failed.is_empty() {
            self.pause = FIRST_RETRY;
        } else if retried {
            self.pause = (self.pause * 2).min(LONGEST_RETRY);
            self.retry = now + self.pause;
        } else if any_failed {
            self.retry = now + self.pause;
        }
    }

    /// Waits for the next thing to do; for ever if there is none. `unheard`: the lists that nobody announces.
    pub(crate) async fn next(&self, unheard: &[ListKind]) -> Due {
        let polled = if self.poll.is_zero() { &[] } else { unheard };
        let poll = polled.iter().map(|kind| self.due[*kind as usize]).min();
        let retry = (!self.failed.is_empty()).then_some(self.retry);
        let Some(when) = poll.into_iter().chain(retry).min() else { return std::future::pending().await };
        tokio::time::sleep_until(when).await;
        if retry == Some(when) {
            return Due::Retry(self.failed.iter().map(|failed| failed.kind).collect());
        }
        Due::Poll(polled.iter().copied().filter(|kind| self.due[*kind as usize] <= when).collect())
    }

    /// Until when each list is fresh.
    pub(crate) fn fresh_until(&self) -> [Option<Instant>; 4] {
        self.fresh_until
    }

    /// The lists that could not be had, for those who look.
    pub(crate) fn failures(&self) -> Vec<FailedList> {
        let one = |failed: &Failure| FailedList {
            kind: failed.kind,
            error: failed.error.clone(),
            retry_at: self.retry.into_std(),
        };
        self.failed.iter().map(one).collect()
    }
}

/// A fraction by which moments are spread, so that many servers are not asked at once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Jitter(f64);

impl Jitter {
    /// Any.
    pub(crate) fn any() -> Self {
        let nanos = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |d| d.subsec_nanos());
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
    use super::*;
    use crate::discovery::dirty::Reason;

    const MINUTES: Duration = Duration::from_secs(300);
    const ALL: [ListKind; 4] = ListKind::ALL;

    fn list(ttl_ms: u64) -> OfferList {
        OfferList::new(Vec::new(), ttl_ms, false)
    }

    /// How long it takes until something is to be done, and what.
    async fn next(schedule: &Schedule, unheard: &[ListKind]) -> (Duration, Due) {
        let before = Instant::now();
        let due = schedule.next(unheard).await;
        (before.elapsed(), due)
    }

    /// Whether nothing at all is to be done.
    async fn idle(schedule: &Schedule, unheard: &[ListKind]) -> bool {
        tokio::time::timeout(Duration::from_secs(1_000_000), schedule.next(unheard)).await.is_err()
    }

    // S3.3
    #[tokio::test(start_paused = true)]
    async fn without_a_ttl_the_interval_decides_spread_around_it() {
        for (fraction, seconds) in [(0.0, 270), (0.5, 300), (1.0, 330)] {
            let mut schedule = Schedule::new(MINUTES, Instant::now());
            for kind in ALL {
                schedule.listed(kind, &list(0), Instant::now(), Jitter(fraction));
            }
            let (waited, due) = next(&schedule, &[ListKind::Tools, ListKind::Prompts]).await;
            assert_eq!(waited.as_secs_f64().round(), f64::from(seconds));
            assert_eq!(due, Due::Poll(vec![ListKind::Tools, ListKind::Prompts]));
        }
    }

    // S3.3
    #[tokio::test(start_paused = true)]
    async fn a_ttl_is_waited_for_but_within_bounds() {
        // Never before it is over, nor more than once a second, nor more rarely than the interval.
        for (ttl_ms, fraction, millis) in [
            (20_000, 0.0, 20_000),
            (20_000, 1.0, 22_000),
            (1, 0.0, 1_000),
            (299_999, 0.0, 299_999),
            (3_600_000, 0.5, 300_000),
            (u64::MAX, 0.5, 300_000),
        ] {
            let mut schedule = Schedule::new(MINUTES, Instant::now());
            schedule.listed(ListKind::Tools, &list(ttl_ms), Instant::now(), Jitter(fraction));
            let (waited, due) = next(&schedule, &[ListKind::Tools]).await;
            assert!(waited.abs_diff(Duration::from_millis(millis)) < Duration::from_millis(5), "{ttl_ms}: {waited:?}");
            assert_eq!(due, Due::Poll(vec![ListKind::Tools]));
        }
        let mut quick = Schedule::new(Duration::from_millis(50), Instant::now());
        quick.listed(ListKind::Tools, &list(10), Instant::now(), Jitter(0.5));
        assert!(
            next(&quick, &[ListKind::Tools]).await.0 <= Duration::from_millis(60),
            "an interval that was asked for"
        );
    }

    // S3.3
    #[tokio::test(start_paused = true)]
    async fn each_list_has_a_time_of_its_own_and_one_that_is_announced_has_none() {
        let mut schedule = Schedule::new(MINUTES, Instant::now());
        for (kind, ttl_ms) in [(ListKind::Tools, 5_000), (ListKind::Prompts, 0), (ListKind::Resources, 2_000)] {
            schedule.listed(kind, &list(ttl_ms), Instant::now(), Jitter(0.0));
        }
        let unheard = [ListKind::Tools, ListKind::Prompts];
        assert_eq!(next(&schedule, &unheard).await.1, Due::Poll(vec![ListKind::Tools]));
        assert!(idle(&schedule, &[]).await);
    }

    // S3.3
    #[tokio::test(start_paused = true)]
    async fn an_interval_of_zero_turns_polling_off_also_with_a_ttl() {
        let mut schedule = Schedule::new(Duration::ZERO, Instant::now());
        schedule.listed(ListKind::Tools, &list(5_000), Instant::now(), Jitter(0.0));
        assert!(idle(&schedule, &ALL).await);
        assert!(schedule.fresh_until()[ListKind::Tools as usize].is_some(), "its word counts towards clients");
    }

    // bridging 12
    #[tokio::test(start_paused = true)]
    async fn what_failed_is_retried_with_growing_patience_and_forgotten_when_it_succeeds() {
        let mut schedule = Schedule::new(Duration::ZERO, Instant::now());
        schedule.failed(ListKind::Tools, "no".into(), Mark::new(Reason::Poll), Instant::now(), Jitter(0.5));
        schedule.settle(false, true, Instant::now());
        for seconds in [1, 2, 4, 8, 16, 30, 30] {
            let shown = schedule.failures();
            assert_eq!((shown.len(), shown[0].kind, &*shown[0].error), (1, ListKind::Tools, "no"));
            let left = shown[0].retry_at.saturating_duration_since(Instant::now().into_std());
            assert_eq!(left.as_secs(), seconds);
            let (waited, due) = next(&schedule, &[]).await;
            assert_eq!((waited.as_secs(), due), (seconds, Due::Retry(vec![ListKind::Tools])));
            schedule.failed(ListKind::Tools, "no".into(), Mark::new(Reason::Poll), Instant::now(), Jitter(0.5));
            schedule.settle(true, true, Instant::now());
        }
        schedule.listed(ListKind::Tools, &list(0), Instant::now(), Jitter(0.5));
        schedule.settle(true, false, Instant::now());
        assert!(schedule.failures().is_empty());
        assert!(idle(&schedule, &[]).await);
        schedule.failed(ListKind::Prompts, "no".into(), Mark::new(Reason::Poll), Instant::now(), Jitter(0.5));
        schedule.settle(false, true, Instant::now());
        assert_eq!(next(&schedule, &[]).await.0.as_secs(), 1, "and patience begins anew");
    }

    // S3.6
    #[tokio::test(start_paused = true)]
    async fn a_signal_is_remembered_until_a_listing_succeeds() {
        let mut schedule = Schedule::new(Duration::ZERO, Instant::now());
        let (first, now) = (Instant::now().into_std(), Instant::now());
        let signal = |first| Mark { reason: Reason::Signal, signals: 1, first: Some(first) };
        schedule.failed(ListKind::Tools, "no".into(), signal(first), now, Jitter(0.5));
        assert_eq!(schedule.signalled(ListKind::Tools, Mark::new(Reason::Retry)), Some(first));
        let later = signal(first + Duration::from_secs(1));
        schedule.failed(ListKind::Tools, "no".into(), later, now, Jitter(0.5));
        assert_eq!(schedule.signalled(ListKind::Tools, later), Some(first), "the client waits since the first");
        assert_eq!(schedule.signalled(ListKind::Prompts, later), later.first);
        schedule.listed(ListKind::Tools, &list(0), now, Jitter(0.5));
        assert_eq!(schedule.signalled(ListKind::Tools, later), later.first);
    }

    // bridging 12
    #[tokio::test(start_paused = true)]
    async fn listings_of_other_lists_do_not_put_a_retry_off() {
        let mut schedule = Schedule::new(Duration::ZERO, Instant::now());
        schedule.failed(ListKind::Tools, "no".into(), Mark::new(Reason::Poll), Instant::now(), Jitter(0.5));
        schedule.settle(false, true, Instant::now());
        let begun = Instant::now();
        for _ in 0..9 {
            tokio::time::advance(Duration::from_millis(100)).await;
            schedule.listed(ListKind::Prompts, &list(0), Instant::now(), Jitter(0.5));
            schedule.settle(false, false, Instant::now());
        }
        next(&schedule, &[]).await;
        assert_eq!(begun.elapsed().as_secs(), 1);
    }
}
