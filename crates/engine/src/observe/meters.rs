//! Counts of what happens between a server's word and a client's notice.
//!
//! Plain atomics: they are added to where lists are listed and notices are delivered, and put together when somebody asks. Calls are
//! counted by `call_meters`. Who words them is no concern of the engine.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tidings_hub::ledger::{LedgerCommit, NoticeDelivery, Topic};
use tidings_hub::refresh::RefreshReason;
use tidings_proto::{Era, ListKind};

use crate::observe::call_meters::{CallMeasures, CallMeters};
use crate::observe::status::{ServerState, ServerStatus};

/// What a listing found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Something that was not known.
    Changed,
    /// The list says what was known already.
    Same,
    /// The list could not be had; the old one stays.
    Failed,
}

impl Outcome {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Changed, Self::Same, Self::Failed];

    /// The word in output.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Changed => "changed",
            Self::Same => "same",
            Self::Failed => "failed",
        }
    }
}

/// The counts of one server.
#[derive(Debug, Default)]
pub(crate) struct ServerMeters {
    signals: [AtomicU64; 3],
    updates: AtomicU64,
    discoveries: [[[AtomicU64; 3]; RefreshReason::ALL.len()]; 4],
    pub(crate) calls: CallMeters,
}

impl ServerMeters {
    pub(crate) fn signal(&self, topic: Topic) {
        self.signals[topic as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn update(&self) {
        self.updates.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn discovery(&self, kind: ListKind, reason: RefreshReason, outcome: Outcome) {
        self.discoveries[kind as usize][reason as usize][outcome as usize].fetch_add(1, Ordering::Relaxed);
    }
}

impl ServerMeters {
    /// The counts at this moment, with what is known of the server beside them.
    pub(crate) fn read(&self, status: &ServerStatus) -> ServerMeasures {
        let mut discoveries = Vec::new();
        for kind in ListKind::ALL {
            for reason in RefreshReason::ALL {
                for outcome in Outcome::ALL {
                    let count = &self.discoveries[kind as usize][reason as usize][outcome as usize];
                    discoveries.push((kind, reason, outcome, count.load(Ordering::Relaxed)));
                }
            }
        }
        ServerMeasures {
            name: Arc::clone(&status.name),
            state: status.state,
            failed_lists: status.failed_lists.len(),
            signals: read(&self.signals),
            updates: self.updates.load(Ordering::Relaxed),
            discoveries,
            calls: self.calls.read(),
        }
    }
}

/// What is counted by those who have it, at one moment.
#[derive(Clone, Debug)]
pub struct Population {
    /// Resources that are followed.
    pub followed: usize,
    /// Followers, counted once for each resource.
    pub followers: usize,
    /// Resources whose servers could not tell of changes for a while.
    pub unheard: usize,
    /// Legacy sessions.
    pub sessions: usize,
    /// Open `subscriptions/listen` requests.
    pub listeners: usize,
    /// Requests that wait for a server.
    pub calls: usize,
    /// Notifications that no client was shown.
    pub dropped: DroppedMessages,
}

/// Notifications about calls that their clients were not shown, because no answer was open that could have brought them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DroppedMessages {
    /// While the call waited for its client: log messages, and progress that was followed by more.
    pub waiting: u64,
    /// Progress of a task.
    pub task: u64,
}

/// The counts of everybody.
#[derive(Debug, Default)]
pub(crate) struct Meters {
    sent: [[AtomicU64; 3]; 2],
    coalesced: [AtomicU64; 3],
    unchanged: [AtomicU64; 3],
    silent: [AtomicU64; 3],
    since_signal: [Histogram; 2],
    since_commit: [Histogram; 2],
    updates: [AtomicU64; 2],
    since_update: [Histogram; 2],
}

impl Meters {
    /// Everything that is counted, at this moment.
    pub(crate) fn read(&self, servers: Vec<ServerMeasures>, population: Population) -> Measures {
        Measures {
            servers,
            sent: ERAS.map(|era| (era, read(&self.sent[era as usize]))).to_vec(),
            coalesced: read(&self.coalesced),
            unchanged: read(&self.unchanged),
            silent: read(&self.silent),
            since_signal: ERAS.map(|era| (era, self.since_signal[era as usize].read())).to_vec(),
            since_commit: ERAS.map(|era| (era, self.since_commit[era as usize].read())).to_vec(),
            updates: ERAS.map(|era| (era, self.updates[era as usize].load(Ordering::Relaxed))).to_vec(),
            since_update: ERAS.map(|era| (era, self.since_update[era as usize].read())).to_vec(),
            population,
        }
    }

    pub(crate) fn committed(&self, done: &LedgerCommit) {
        let counts =
            [(&self.coalesced, &done.coalesced), (&self.unchanged, &done.unchanged), (&self.silent, &done.silent)];
        for (meter, counted) in counts {
            for topic in 0..3 {
                meter[topic].fetch_add(counted[topic], Ordering::Relaxed);
            }
        }
    }

    /// A client was told that a resource changed.
    pub(crate) fn updated(&self, era: Era, since: Instant, now: Instant) {
        self.updates[era as usize].fetch_add(1, Ordering::Relaxed);
        self.since_update[era as usize].observe(now.saturating_duration_since(since));
    }

    pub(crate) fn delivered(&self, era: Era, delivery: &NoticeDelivery, now: Instant) {
        for topic in delivery.topics.iter() {
            self.sent[era as usize][topic as usize].fetch_add(1, Ordering::Relaxed);
        }
        for since in delivery.since.into_iter().flatten() {
            self.since_commit[era as usize].observe(now.saturating_duration_since(since.commit));
            if let Some(signal) = since.signal {
                self.since_signal[era as usize].observe(now.saturating_duration_since(signal));
            }
        }
    }
}

/// The upper ends of the buckets of a histogram, in seconds.
const BOUNDS: [f64; 16] =
    [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0];

/// How often something took how long.
#[derive(Debug, Default)]
pub(super) struct Histogram {
    /// The last one is for what is longer than all bounds.
    buckets: [AtomicU64; BOUNDS.len() + 1],
    micros: AtomicU64,
}

impl Histogram {
    pub(super) fn observe(&self, took: Duration) {
        let seconds = took.as_secs_f64();
        // Bounds are inclusive, as the text format of the metrics has it.
        let bucket = BOUNDS.partition_point(|bound| *bound < seconds);
        self.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        // Microseconds in an integer, because there are no atomic floats; 2^64 of them are 584,000 years.
        self.micros.fetch_add(u64::try_from(took.as_micros()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    pub(super) fn read(&self) -> Durations {
        Durations {
            bounds: &BOUNDS,
            counts: self.buckets.iter().map(|bucket| bucket.load(Ordering::Relaxed)).collect(),
            sum: Duration::from_micros(self.micros.load(Ordering::Relaxed)),
        }
    }
}

/// How often something took how long, at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Durations {
    /// The upper ends of all buckets but the last, in seconds.
    pub bounds: &'static [f64],
    /// How many fell into each bucket, and into no lower one.
    pub counts: Vec<u64>,
    /// All of them together.
    pub sum: Duration,
}

/// One server's counts at one moment.
#[derive(Clone, Debug)]
pub struct ServerMeasures {
    /// Its configured name.
    pub name: Arc<str>,
    /// Its state, as `tidings servers` shows it.
    pub state: ServerState,
    /// Lists that can not be had at the moment.
    pub failed_lists: usize,
    /// Signals received, by topic.
    pub signals: [u64; 3],
    /// `resources/updated` received.
    pub updates: u64,
    /// Listings that were made.
    pub discoveries: Vec<(ListKind, RefreshReason, Outcome, u64)>,
    /// Calls that are over.
    pub calls: CallMeasures,
}

/// Everything that is counted, at one moment.
#[derive(Clone, Debug)]
pub struct Measures {
    /// By server, in the order of the configuration.
    pub servers: Vec<ServerMeasures>,
    /// Notices handed to transports, by era and topic.
    pub sent: Vec<(Era, [u64; 3])>,
    /// Notices that stand for one more change than they would have, by topic.
    pub coalesced: [u64; 3],
    /// Changes that did not show in the view of a client who follows the list, by topic.
    pub unchanged: [u64; 3],
    /// Changes that a client was not told of because its revision is told of nothing, by topic.
    pub silent: [u64; 3],
    /// From the first signal of a change to its notice.
    pub since_signal: Vec<(Era, Durations)>,
    /// From the moment a change could be read to its notice.
    pub since_commit: Vec<(Era, Durations)>,
    /// `resources/updated` handed to transports, by era.
    pub updates: Vec<(Era, u64)>,
    /// From the first change of a resource that one of them stands for to its being handed over.
    pub since_update: Vec<(Era, Durations)>,
    /// What is there at this moment.
    pub population: Population,
}

// In the order of the enum: the counts of an era stand at `era as usize`.
const ERAS: [Era; 2] = [Era::Legacy, Era::Modern];

fn read(counters: &[AtomicU64; 3]) -> [u64; 3] {
    std::array::from_fn(|i| counters[i].load(Ordering::Relaxed))
}

#[cfg(test)]
mod tests {
    use tidings_hub::ledger::{OwedSince, Topics};

    use super::*;

    #[test]
    fn a_duration_falls_into_the_lowest_bucket_that_holds_it() {
        let histogram = Histogram::default();
        for millis in [1, 2, 1_000, 1_001, 400_000] {
            histogram.observe(Duration::from_millis(millis));
        }
        let read = histogram.read();
        let filled: Vec<usize> = (0..read.counts.len()).filter(|i| read.counts[*i] > 0).collect();
        assert_eq!(filled, [0, 1, 9, 10, 16], "the bound itself belongs below; what is longer than all comes last");
        assert_eq!(read.counts.iter().sum::<u64>(), 5);
        assert_eq!(read.sum, Duration::from_millis(402_004));
    }

    // S3.6
    #[test]
    fn a_notice_is_timed_from_its_signal_if_there_was_one() {
        let (meters, begun) = (Meters::default(), Instant::now());
        let since = |signal| Some(OwedSince { signal, commit: begun + Duration::from_millis(30) });
        let delivery = NoticeDelivery { topics: Topics::ALL, since: [since(Some(begun)), since(None), None] };
        meters.delivered(Era::Modern, &delivery, begun + Duration::from_millis(40));
        assert_eq!(read(&meters.sent[Era::Modern as usize]), [1, 1, 1]);
        assert_eq!(read(&meters.sent[Era::Legacy as usize]), [0, 0, 0]);
        assert_eq!(meters.since_signal[Era::Modern as usize].read().sum, Duration::from_millis(40));
        assert_eq!(meters.since_commit[Era::Modern as usize].read().sum, Duration::from_millis(20), "two of 10");
        assert_eq!(meters.since_signal[Era::Legacy as usize].read().sum, Duration::ZERO);
    }
}
