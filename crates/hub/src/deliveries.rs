//! What each client was told of its lists, and whether it listed again. Only for people to see: nothing is decided by it.
//!
//! Three bounded things: a record of each client that follows ([`size_of_record`] bytes, until it leaves), a row of the last commits with
//! how many were owed and told each ([`COMMITS`]), and a row of events, 16 bytes each, for all clients together ([`EVENTS`]).
//! Nothing is allocated per notice: records come with the client, events in chunks. Which commits a notice stands for is derived:
//! all that changed the client's view since it was last told.

mod events;
mod hearing;
mod records;
mod standing;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::ledger::{FollowerId, LedgerCommit, Topic, Topics};
pub use events::{DeliveryEvent, DeliveryTrace, EVENTS};
use events::{EventKind, EventRing};
pub use hearing::HearingTally;
use records::RecordTable;
pub use standing::{ClientStanding, DEAF_AFTER, DEAF_CALLS, DeliveryRecord, OwedLists, UNREACHED_AFTER};

/// So many commits are remembered.
pub const COMMITS: usize = 16_384;
/// Steps of the histogram: less than 1, 2, 4 … 32,768 ms, and more.
pub const STEPS: usize = 17;
/// How many commits are looked at to find the one that a client is owed.
const LOOKED_AT: usize = 256;
/// A view that nobody shares.
const OWN: u8 = 64;

/// One client. Times are in hundredths of a second since the beginning, plus one: there may be thousands of clients.
#[derive(Clone, Copy, Debug, Default)]
struct CompactRecord {
    told: [u32; 3],
    listed: [u32; 3],
    /// The newest commit that a notice of the topic, or the beginning, stands for. Of a view of its own: the one before the commit
    /// that it is owed.
    covered: [u32; 3],
    notices: u32,
    follows: Topics,
    outdated: Topics,
    /// What is owed to a view of its own.
    own_owed: Topics,
    view: SeenView,
}

/// The place of the view that a client sees, and in the highest bit whether the client is told on a channel, too: a byte of its own
/// would make each record four bytes longer.
#[derive(Clone, Copy, Debug, Default)]
struct SeenView(u8);

impl SeenView {
    const ON_CHANNEL: u8 = 1 << 7;

    fn new(place: u8, on_channel: bool) -> Self {
        Self(place | if on_channel { Self::ON_CHANNEL } else { 0 })
    }

    fn place(self) -> u8 {
        self.0 & !Self::ON_CHANNEL
    }

    fn is_own(self) -> bool {
        self.place() == OWN
    }

    fn is_on_channel(self) -> bool {
        self.0 & Self::ON_CHANNEL != 0
    }
}

/// How many bytes a client costs, besides the index that finds it.
pub const fn size_of_record() -> usize {
    size_of::<CompactRecord>() + size_of::<FollowerId>()
}

/// One commit, and what became of its notices, by topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommitDeliveries {
    /// Its number: milliseconds since 1970, made strictly increasing.
    pub number: u64,
    /// When it could be read.
    pub at: Instant,
    /// Clients whose view it changed.
    pub owed: [u32; 3],
    /// Those of them that were told.
    pub told: [u32; 3],
    /// Those of them that left before they were told.
    pub left: [u32; 3],
    /// Clients whose own view it did not change.
    pub spared: [u32; 3],
    /// Clients whose revision is told of nothing.
    pub silent: u32,
    /// How many were told within each step, of all topics.
    pub within: [u32; STEPS],
    /// The views that it changed, a bit each.
    changed: [u64; 3],
}

impl CommitDeliveries {
    /// The time within which half of those were told who were told, as an upper bound in milliseconds; `None` if nobody was.
    pub fn median(&self) -> Option<u64> {
        let all: u32 = self.within.iter().sum();
        let mut sum = 0;
        let step = self.within.iter().position(|count| {
            sum += count;
            sum * 2 >= all
        })?;
        (all > 0).then_some(1 << step)
    }
}

/// The machine.
#[derive(Debug)]
pub struct Deliveries {
    begun: Instant,
    records: RecordTable,
    commits: VecDeque<CommitDeliveries>,
    /// The index of the newest commit; the first is 1.
    newest: u32,
    last_number: u64,
    ring: EventRing,
    /// Counts everything that somebody may want to see again.
    version: u64,
}

impl Deliveries {
    /// Nobody was told anything yet.
    pub fn new(begun: Instant) -> Self {
        let (records, commits) = (RecordTable::default(), VecDeque::new());
        Self { begun, records, commits, newest: 0, last_number: 0, ring: EventRing::default(), version: 0 }
    }

    /// A client follows from now on; `view` is the place of its view in the ledger. `on_channel`: it is told on a channel, too.
    pub fn came(&mut self, id: FollowerId, view: usize, follows: Topics, on_channel: bool) {
        let (covered, view) = ([self.newest; 3], SeenView::new(place(view), on_channel));
        let record = CompactRecord { covered, follows, view, ..CompactRecord::default() };
        self.records.insert(id, record);
        self.version += 1;
    }

    /// A commit: `changed` are the places of the views that it changed, by topic. Gives its number; `now` is the wall clock, in
    /// milliseconds since 1970.
    pub fn committed(&mut self, at: Instant, now: u64, done: &LedgerCommit, changed: [u64; 3]) -> u64 {
        // Several commits may fall into one millisecond, and clocks can be set back.
        self.last_number = now.max(self.last_number + 1);
        if self.commits.len() == COMMITS {
            self.commits.pop_front();
        }
        let few = |counts: [u64; 3]| counts.map(|count| u32::try_from(count).unwrap_or(u32::MAX));
        self.commits.push_back(CommitDeliveries {
            number: self.last_number,
            at,
            owed: few(done.owing),
            told: [0; 3],
            left: [0; 3],
            spared: few(done.unchanged),
            silent: few(done.silent).into_iter().max().unwrap_or_default(),
            within: [0; STEPS],
            changed,
        });
        self.newest = self.newest.saturating_add(1);
        self.version += 1;
        self.last_number
    }

    /// A client has a view of its own, and owes it to the newest commit that it is owed these.
    pub fn owes_own(&mut self, id: FollowerId, topics: Topics) {
        let (newest, commit) = (self.newest, self.commits.back_mut());
        let Some(record) = self.records.get_mut(id) else { return };
        // Also before the first commit: the bit of the view that it shared must not count for it from here on.
        record.view = SeenView::new(OWN, record.view.is_on_channel());
        let Some(commit) = commit else { return };
        for topic in topics.iter().map(|topic| topic as usize) {
            record.covered[topic] = newest - 1;
            commit.owed[topic] += 1;
        }
        topics.iter().for_each(|topic| record.own_owed.insert(topic));
    }

    /// A transport took notices of `topics`. `changes` are those of them that stand for a change, as far as the ledger knows. Gives the
    /// lists that are outdated by it and were not before.
    pub fn told(&mut self, id: FollowerId, topics: Topics, changes: Topics, at: Instant) -> Topics {
        let stamp = self.stamp(at);
        // A copy, written back below: `settle` changes the commits of the same machine.
        let Some(mut record) = self.records.get(id).copied() else { return Topics::default() };
        let mut fresh = Topics::default();
        let mut first = u32::MAX;
        let mut changed = changes;
        for topic in topics.iter() {
            let settled = self.settle(&record, topic, at, Settled::Told);
            // Also what it was owed from its beginning stands for what changed before it was told.
            if settled.is_some() {
                changed.insert(topic);
            }
            record.covered[topic as usize] = self.newest;
            record.own_owed.remove(topic);
            if changed.contains(topic) {
                first = first.min(settled.unwrap_or(self.newest));
                // The first that it did not follow counts: who is told again and again is no more patient.
                if !record.outdated.contains(topic) {
                    record.told[topic as usize] = stamp;
                    // Of a list that it never asked for it holds nothing that could be old.
                    if record.listed[topic as usize] != 0 {
                        record.outdated.insert(topic);
                        fresh.insert(topic);
                    }
                }
                record.notices = record.notices.saturating_add(1);
            }
        }
        self.records.insert(id, record);
        if !changed.is_empty() {
            self.ring.push(EventKind::Told, id, changed, first, self.newest, stamp);
            self.version += 1;
        }
        fresh
    }

    /// A client asks for a list.
    pub fn listed(&mut self, id: FollowerId, topic: Topic, at: Instant) {
        let stamp = self.stamp(at);
        let Some(record) = self.records.get_mut(id) else { return };
        record.listed[topic as usize] = stamp;
        record.outdated.remove(topic);
        let mut topics = Topics::default();
        topics.insert(topic);
        self.ring.push(EventKind::Listed, id, topics, self.newest, self.newest, stamp);
        self.version += 1;
    }

    /// A client is gone. What it was owed it is not told any more.
    pub fn left(&mut self, id: FollowerId, at: Instant) {
        let Some(record) = self.records.remove(id) else { return };
        for topic in record.follows.iter() {
            self.settle(&record, topic, at, Settled::Left);
        }
        self.version += 1;
    }

    /// Counts a client in every commit that changed its view and that it was not told of yet. Gives the first of them.
    fn settle(&mut self, record: &CompactRecord, topic: Topic, at: Instant, how: Settled) -> Option<u32> {
        let is_own = record.view.is_own();
        if is_own && !record.own_owed.contains(topic) {
            return None;
        }
        let topic = topic as usize;
        let from = record.covered[topic] + 1;
        let to = if is_own { from.min(self.newest) } else { self.newest };
        let oldest = self.newest + 1 - u32::try_from(self.commits.len()).unwrap_or(u32::MAX).min(self.newest);
        let mut first = None;
        for index in from.max(oldest)..=to {
            let Some(commit) = self.commits.get_mut((index - oldest) as usize) else { break };
            // A view of its own has no bit, and a shift by its number would be one too far.
            if !is_own && commit.changed[topic] & (1 << record.view.place()) == 0 {
                continue;
            }
            first = first.or(Some(index));
            match how {
                Settled::Left => commit.left[topic] += 1,
                Settled::Told => {
                    commit.told[topic] += 1;
                    commit.within[step(at.saturating_duration_since(commit.at))] += 1;
                }
            }
        }
        first
    }

    fn stamp(&self, at: Instant) -> u32 {
        // Enough for 497 days; what happens later has the last time that there is. 0 is left for what never happened.
        let hundredths = at.saturating_duration_since(self.begun).as_millis() / 10;
        u32::try_from(hundredths).unwrap_or(u32::MAX - 1).saturating_add(1)
    }

    fn instant(&self, stamp: u32) -> Option<Instant> {
        Some(self.begun + Duration::from_millis(u64::from(stamp.checked_sub(1)?) * 10))
    }

    /// What is known of a client: nothing happened yet where there is no record.
    pub fn of(&self, id: FollowerId) -> DeliveryRecord {
        let Some(record) = self.records.get(id) else { return DeliveryRecord::default() };
        let number = |topic: Topic| {
            let behind = self.newest.checked_sub(record.covered[topic as usize])? as usize;
            let place = self.commits.len().checked_sub(behind + 1)?;
            (record.told[topic as usize] != 0).then(|| self.commits[place].number)
        };
        DeliveryRecord {
            told: record.told.map(|stamp| self.instant(stamp)),
            commit: Topic::ALL.map(number),
            listed: record.listed.map(|stamp| self.instant(stamp)),
            outdated: record.outdated,
            follows: record.follows,
            notices: record.notices,
            on_channel: record.view.is_on_channel(),
        }
    }

    /// The newest commit that changed a list which a client has asked for, if it was not told of it yet. Among the last few hundred: who
    /// is further behind is told with the next one.
    pub fn newest_owed(&self, id: FollowerId, topic: Topic) -> Option<u64> {
        let record = self.records.get(id).filter(|record| record.listed[topic as usize] != 0)?;
        if record.view.is_own() {
            return record.own_owed.contains(topic).then_some(self.last_number);
        }
        let untold = (self.newest - record.covered[topic as usize]) as usize;
        let mut commits = self.commits.iter().rev().take(untold.min(LOOKED_AT));
        commits
            .find(|commit| commit.changed[topic as usize] & (1 << record.view.place()) != 0)
            .map(|commit| commit.number)
    }

    /// When the first commit was that changed a list for a client and that it was not told of yet. Among the first few hundred of them.
    pub fn owed_since(&self, id: FollowerId, topic: Topic) -> Option<Instant> {
        let (record, topic) = (self.records.get(id)?, topic as usize);
        let is_own = record.view.is_own();
        if is_own && !record.own_owed.contains(Topic::ALL[topic]) {
            return None;
        }
        let oldest = self.newest + 1 - u32::try_from(self.commits.len()).unwrap_or(u32::MAX).min(self.newest);
        let from = (record.covered[topic] + 1).max(oldest);
        let mut untold = self.commits.iter().skip((from - oldest) as usize).take(LOOKED_AT);
        untold.find(|commit| is_own || commit.changed[topic] & (1 << record.view.place()) != 0).map(|commit| commit.at)
    }

    /// The number of the newest commit; 0 before the first.
    pub fn newest_number(&self) -> u64 {
        self.last_number
    }

    /// The newest commits that are remembered, the newest first.
    pub fn newest(&self) -> impl Iterator<Item = &CommitDeliveries> {
        self.commits.iter().rev()
    }

    /// A commit by its number, with its index; `None` if it is forgotten or was never here.
    pub fn commit(&self, number: u64) -> Option<(u32, CommitDeliveries)> {
        let place = self.commits.binary_search_by_key(&number, |commit| commit.number).ok()?;
        let behind = u32::try_from(self.commits.len() - 1 - place).unwrap_or(u32::MAX);
        Some((self.newest.saturating_sub(behind), self.commits[place]))
    }

    /// Everything that is needed to read the events without the machine. Chunks are shared: little is copied.
    pub fn trace(&self) -> DeliveryTrace {
        let numbers = self.commits.iter().map(|commit| commit.number).collect();
        self.ring.trace(self.begun, self.newest, numbers)
    }

    /// Rises with everything that somebody may want to see again.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// How many clients are known.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.records.len() == 0
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Settled {
    Told,
    Left,
}

/// The bit of a view. There are few views; those beyond share the last bit.
fn place(view: usize) -> u8 {
    u8::try_from(view.min(63)).unwrap_or(63)
}

fn step(late: Duration) -> usize {
    let millis = late.as_millis().min(1 << 20);
    // 0 ms is the first step, 1 ms the second, 2 and 3 ms the third.
    (millis.checked_ilog2().map_or(0, |log| log + 1) as usize).min(STEPS - 1)
}
