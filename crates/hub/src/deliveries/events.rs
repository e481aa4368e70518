//! The row of what happened: 16 bytes an event, in chunks, the oldest forgotten first.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::ledger::{FollowerId, Topic, Topics};

/// So many events are remembered at most, of all clients together: 8 MiB.
pub const EVENTS: usize = 524_288;
/// How many a chunk has: 64 KiB.
const CHUNK: usize = 4_096;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EventKind {
    Told,
    Listed,
}

#[derive(Clone, Copy, Debug)]
struct CompactEvent {
    client: u32,
    /// In hundredths of a second since the beginning, plus one.
    stamp: u32,
    /// The first commit that it stands for.
    first: u32,
    /// How many commits more.
    span: u16,
    topics: u8,
    told: bool,
}

/// The events. Full chunks are shared with whoever reads them.
#[derive(Debug, Default)]
pub(super) struct EventRing {
    full: VecDeque<Arc<Vec<CompactEvent>>>,
    open: Vec<CompactEvent>,
    forgotten: u64,
}

impl EventRing {
    pub(super) fn push(&mut self, kind: EventKind, id: FollowerId, topics: Topics, first: u32, last: u32, stamp: u32) {
        if self.open.len() == CHUNK {
            let full = std::mem::replace(&mut self.open, Vec::with_capacity(CHUNK));
            self.full.push_back(Arc::new(full));
            // With the open one, which has its whole room from the beginning.
            if (self.full.len() + 1) * CHUNK > EVENTS {
                self.full.pop_front();
                self.forgotten += CHUNK as u64;
            }
        }
        let bits = topics.iter().fold(0, |bits, topic| bits | 1 << topic as u8);
        self.open.push(CompactEvent {
            client: u32::try_from(id.0).unwrap_or(u32::MAX),
            stamp,
            first,
            span: u16::try_from(last.saturating_sub(first)).unwrap_or(u16::MAX),
            topics: bits,
            told: kind == EventKind::Told,
        });
    }

    pub(super) fn trace(&self, begun: Instant, newest: u32, numbers: Vec<u64>) -> DeliveryTrace {
        let mut chunks: Vec<Arc<Vec<CompactEvent>>> = self.full.iter().cloned().collect();
        // The one that is still written to is copied: at most 64 KiB.
        chunks.push(Arc::new(self.open.clone()));
        DeliveryTrace { begun, newest, numbers, chunks, forgotten: self.forgotten }
    }
}

/// One thing that happened to a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeliveryEvent {
    /// Whose it is.
    pub client: u64,
    /// When.
    pub at: Instant,
    /// The lists that it is about.
    pub topics: Topics,
    /// Whether it was told; otherwise it listed.
    pub told: bool,
    /// The numbers of the first and of the last commit that a notice stands for; of a list: the newest commit. `None` if forgotten.
    pub commits: Option<(u64, u64)>,
    /// How many commits that are, at most.
    pub span: u32,
}

/// The events as they were at one moment, the newest first.
#[derive(Clone, Debug)]
pub struct DeliveryTrace {
    begun: Instant,
    newest: u32,
    numbers: Vec<u64>,
    chunks: Vec<Arc<Vec<CompactEvent>>>,
    /// How many older events were forgotten.
    pub forgotten: u64,
}

impl DeliveryTrace {
    /// What happened to a client, the newest first.
    pub fn of_client(&self, id: FollowerId) -> impl Iterator<Item = DeliveryEvent> + '_ {
        self.compact().filter(move |event| u64::from(event.client) == id.0).map(|event| self.event(event))
    }

    /// The notices that may stand for a commit, by its index, and are of a topic; the newest first. Commits that did not change what
    /// a client sees lie in the span of its notices too.
    pub fn of_commit(&self, index: u32, topic: Topic) -> impl Iterator<Item = DeliveryEvent> + '_ {
        let bit = 1 << topic as u8;
        let covers = move |event: &&CompactEvent| {
            event.told
                && event.topics & bit != 0
                && (event.first..=event.first + u32::from(event.span)).contains(&index)
        };
        self.compact().filter(covers).map(|event| self.event(event))
    }

    fn compact(&self) -> impl Iterator<Item = &CompactEvent> {
        self.chunks.iter().rev().flat_map(|chunk| chunk.iter().rev())
    }

    fn event(&self, event: &CompactEvent) -> DeliveryEvent {
        let mut topics = Topics::default();
        Topic::ALL
            .into_iter()
            .filter(|topic| event.topics & (1 << *topic as u8) != 0)
            .for_each(|topic| topics.insert(topic));
        let last = event.first + u32::from(event.span);
        let commits = self.number(event.first).zip(self.number(last));
        DeliveryEvent {
            client: u64::from(event.client),
            at: self.begun + Duration::from_millis(u64::from(event.stamp.saturating_sub(1)) * 10),
            topics,
            told: event.told,
            commits,
            span: u32::from(event.span) + 1,
        }
    }

    fn number(&self, index: u32) -> Option<u64> {
        let behind = self.newest.checked_sub(index)? as usize;
        self.numbers.len().checked_sub(behind + 1).map(|place| self.numbers[place])
    }
}
