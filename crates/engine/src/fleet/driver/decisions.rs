//! Decisions on their way into the log, and from there to whoever acts on them.
//!
//! The log is read on while the contents of decisions are fetched; until a decision was told, nothing after it counts as read. Contents are
//! written with a random beginning, so that each belongs to one writing alone, and whoever wrote the next value drops the one before it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tidings_cluster::{AppendId, BusError, FleetBus as _};
use tidings_hub::fleet::decision_commits::{self, DecisionCommand, DecisionCommits, DecisionFate, GIVE_UP};
use tidings_hub::fleet::entry::{DecisionKey, DecisionKind, FleetEntry};
use tidings_hub::fleet::fold::EntryEffect;
use tidings_hub::fleet::{BlobHash, LogSequence, ReplicaId};
use tokio::sync::oneshot;

use super::{DriverEvent, FleetDriver};
use crate::fleet::decisions::{
    Decided, DecisionFollower, DecisionOutcome, DecisionWish, MOST_DECISIONS, ReadDecision, WrittenDecision,
};
use crate::fleet::desk::FleetDesk;

/// The format of those who read all decisions.
const DECISION_FORMAT: u32 = 3;
/// What makes a content differ from all others.
const NONCE: usize = 16;
/// How many decisions may be under way, and how many bytes they may have.
const WISHES: usize = 1024;
const WISHED_BYTES: usize = 64 << 20;
/// Contents that are kept for whoever reads them next, together.
const CONTENT_BYTES: usize = 16 << 20;
/// How many contents are fetched at a time, also of values that have a next one by now.
const FETCHES: usize = 8;
/// When a content that was not there is asked for again, and how often: it is written before the entry that names it, so it comes within a moment.
const FETCH_AGAIN: Duration = Duration::from_millis(100);
const MOST_MISSES: u32 = 50;
/// How long a content stays after its value was replaced: somebody may be fetching it.
const DROP_AFTER: Duration = Duration::from_secs(30);
/// Contents that wait for being dropped. More than that are left where they are.
const DROPS: usize = 65_536;
/// How long somebody who reads a value waits for its content.
const READ_WITHIN: Duration = Duration::from_secs(3);

/// What is decided: on its way into the log, and from there to followers.
pub(super) struct DecisionRoom {
    commits: DecisionCommits,
    waiting: BTreeMap<u64, WaitingDecision>,
    followers: BTreeMap<DecisionKind, Arc<dyn DecisionFollower>>,
    /// What followers were not told of yet, in the order of the log; and where each key stands in it.
    owed: BTreeMap<LogSequence, OwedDecision>,
    owed_at: BTreeMap<DecisionKey, LogSequence>,
    /// Whoever is answered once followers were told up to there.
    answers: VecDeque<AppliedDecision>,
    contents: KnownContents,
    fetching: BTreeSet<BlobHash>,
    drops: VecDeque<(Instant, BlobHash)>,
}

/// A decision that somebody waits for.
struct WaitingDecision {
    key: DecisionKey,
    content: Option<Bytes>,
    done: oneshot::Sender<DecisionOutcome>,
}

/// A decision that followers were not told of yet.
struct OwedDecision {
    key: DecisionKey,
    /// How often its content was not there.
    missed: u32,
}

/// A decision that holds, and waits until followers were told of everything before it.
struct AppliedDecision {
    at: LogSequence,
    n: u64,
    /// Then nobody waits any longer: what stands before it may be something that can not be read.
    until: Instant,
    done: oneshot::Sender<DecisionOutcome>,
}

/// What an attempt to fetch a content gave.
pub(super) enum FetchedContent {
    Here(Bytes),
    /// It is not there: not yet, or not any more.
    Missing,
    /// The bus did not say.
    NoAnswer,
}

/// The contents that were read or written last.
#[derive(Default)]
struct KnownContents {
    known: BTreeMap<BlobHash, Bytes>,
    order: VecDeque<BlobHash>,
    bytes: usize,
}

impl KnownContents {
    fn put(&mut self, hash: BlobHash, content: Bytes) {
        let size = content.len();
        if self.known.insert(hash, content).is_some() {
            return;
        }
        self.order.push_back(hash);
        self.bytes += size;
        // The newest stays, however large it is: somebody has just asked for it.
        while self.bytes > CONTENT_BYTES && self.order.len() > 1 {
            if let Some(dropped) = self.order.pop_front().and_then(|oldest| self.known.remove(&oldest)) {
                self.bytes -= dropped.len();
            }
        }
    }
}

/// A value as content that no other writing has.
fn written(value: &Bytes) -> Bytes {
    let mut content = vec![0; NONCE];
    // Without random numbers there would be no replica.
    getrandom::fill(&mut content).expect("the system has random numbers");
    content.extend_from_slice(value);
    content.into()
}

/// The value of a content.
fn value_of(content: &Bytes) -> Bytes {
    content.slice(NONCE.min(content.len())..)
}

impl DecisionRoom {
    pub(super) fn new(me: ReplicaId, desk: &FleetDesk) -> Self {
        Self {
            commits: DecisionCommits::new(me),
            waiting: BTreeMap::new(),
            followers: desk.followers.lock().clone(),
            owed: BTreeMap::new(),
            owed_at: BTreeMap::new(),
            answers: VecDeque::new(),
            contents: KnownContents::default(),
            fetching: BTreeSet::new(),
            drops: VecDeque::new(),
        }
    }

    /// Whether followers are behind the log.
    pub(super) fn owes(&self) -> bool {
        !self.owed.is_empty()
    }

    /// Up to where what was applied is told.
    pub(super) fn told_up_to(&self, applied: LogSequence) -> LogSequence {
        self.owed.keys().next().map_or(applied, |owed| LogSequence(owed.0.saturating_sub(1)).min(applied))
    }

    fn owe(&mut self, key: &DecisionKey, at: LogSequence) {
        if !self.followers.contains_key(&key.kind) {
            return;
        }
        if let Some(before) = self.owed_at.insert(key.clone(), at) {
            self.owed.remove(&before);
        }
        self.owed.insert(at, OwedDecision { key: key.clone(), missed: 0 });
    }

    pub(super) fn drop_later(&mut self, content: BlobHash, now: Instant) {
        if self.drops.len() < DROPS {
            self.drops.push_back((now + DROP_AFTER, content));
        }
    }
}

impl FleetDriver {
    pub(super) fn decisions_wished(&mut self, wish: DecisionWish) {
        match wish {
            DecisionWish::Write(wish) => self.decision_wished(wish),
            DecisionWish::Read(key, done) => self.read_decision(&key, done),
            DecisionWish::Subjects(kind, done) => {
                let decided = self.fold.state().decisions_of(kind);
                let _ = done.send(decided.map(|(key, decided)| (key.subject.clone(), decided.n)).collect());
            }
            DecisionWish::Follow(kind, follower) => {
                if self.decisions.followers.contains_key(&kind) {
                    return;
                }
                self.decisions.followers.insert(kind, follower);
                self.owe_all(kind);
                self.tell_decided();
            }
        }
    }

    /// Followers that are there at the start are told of everything that the state has.
    pub(super) fn decisions_begun(&mut self) {
        let kinds: Vec<DecisionKind> = self.decisions.followers.keys().copied().collect();
        for kind in kinds {
            self.owe_all(kind);
        }
        self.tell_decided();
    }

    fn owe_all(&mut self, kind: DecisionKind) {
        for (key, decided) in self.fold.state().decisions_of(kind) {
            self.decisions.owe(key, decided.at);
        }
    }

    fn decision_wished(&mut self, WrittenDecision { key, base, value, done }: WrittenDecision) {
        let now = Instant::now();
        let size: usize =
            self.decisions.waiting.values().filter_map(|waiting| waiting.content.as_ref()).map(Bytes::len).sum();
        let is_new = self.fold.state().decision(&key).is_none() && value.is_some();
        let refused = if let Some(why) = self.undecidable(now) {
            Some(DecisionOutcome::Refused(why))
        } else if self.decisions.waiting.len() >= WISHES || size > WISHED_BYTES {
            Some(DecisionOutcome::Refused("too much is being decided at the same time".to_owned()))
        } else if is_new && self.fold.state().decisions_of(key.kind).count() >= MOST_DECISIONS {
            Some(DecisionOutcome::TooLarge(format!("{MOST_DECISIONS} of its kind are there already")))
        } else {
            None
        };
        if let Some(refused) = refused {
            let _ = done.send(refused);
            return;
        }
        let content = value.as_ref().map(written);
        let value = content.as_ref().map(|content| BlobHash::of(content));
        let wish = decision_commits::DecisionWish { key: key.clone(), base, value };
        let number = self.decisions.commits.wish(wish, now);
        self.decisions.waiting.insert(number, WaitingDecision { key, content, done });
        self.drive_decisions(now);
    }

    /// Why nothing can be decided at the moment. What is not sent for sure is refused at once, and not unknown in the end.
    fn undecidable(&self, now: Instant) -> Option<String> {
        let cut = || (!self.outward.bus.is_connected()).then(|| "this replica is cut off from the others".to_owned());
        self.unwritable(DECISION_FORMAT, now).or_else(cut)
    }

    /// What is late is written again, or given up; what waited for its turn is written.
    pub(super) fn drive_decisions(&mut self, now: Instant) {
        let writes = self.undecidable(now).is_none();
        for command in self.decisions.commits.advance(self.fold.state(), now, writes) {
            self.decide(command, now);
        }
        // Also what needed no entry: nothing has to be read back for it.
        self.answer_applied(now);
        while self.decisions.drops.front().is_some_and(|(at, _)| *at <= now) && writes {
            let Some((_, content)) = self.decisions.drops.pop_front() else { return };
            let bus = Arc::clone(&self.outward.bus);
            self.desk.tasks.spawn(async move {
                if let Err(error) = bus.drop_content(content).await {
                    tracing::debug!(%error, "the content of a former decision stays");
                }
            });
        }
    }

    fn decide(&mut self, command: DecisionCommand, now: Instant) {
        match command {
            DecisionCommand::Write(number, entry) => self.write_decision(number, entry),
            DecisionCommand::Done(number, fate) => {
                let Some(waiting) = self.decisions.waiting.remove(&number) else { return };
                let hash = waiting.content.as_ref().map(|content| BlobHash::of(content));
                match fate {
                    DecisionFate::Applied(n) => {
                        if let (Some(hash), Some(content)) = (hash, waiting.content) {
                            self.decisions.contents.put(hash, content);
                        }
                        let at = self.fold.state().sequence();
                        let answer = AppliedDecision { at, n, until: now + GIVE_UP, done: waiting.done };
                        self.decisions.answers.push_back(answer);
                        return;
                    }
                    DecisionFate::Overtaken => self.overtaken(&waiting.key, waiting.done),
                    DecisionFate::Unwritten => {
                        let why = "the replicas could not agree in time; nothing was changed".to_owned();
                        let _ = waiting.done.send(DecisionOutcome::Refused(why));
                    }
                    // What was written may come to hold, and needs its content then.
                    DecisionFate::Unknown => {
                        let _ = waiting.done.send(DecisionOutcome::Unknown);
                        return;
                    }
                }
                if let Some(hash) = hash {
                    self.decisions.drop_later(hash, now);
                }
            }
        }
    }

    /// The content first: whoever reads the entry finds it.
    fn write_decision(&self, number: u64, entry: FleetEntry) {
        let (FleetEntry::Decide { writing: Some(writing), .. } | FleetEntry::Withdraw { writing, .. }) = &entry else {
            return;
        };
        let Some(waiting) = self.decisions.waiting.get(&number) else { return };
        let id = AppendId(format!("{:016x}-decision-{}", self.local.me.incarnation, writing.number));
        let (bus, events) = (Arc::clone(&self.outward.bus), self.outward.events.clone());
        let content = waiting.content.clone();
        self.desk.tasks.spawn(async move {
            let written = async {
                if let Some(content) = content {
                    bus.put(content).await?;
                }
                bus.append(&id, &entry, None).await
            };
            match written.await {
                Ok(_) => {}
                Err(error @ BusError::TooLarge { .. }) => {
                    let _ = events.send(DriverEvent::DecisionTooLarge(number, error.to_string())).await;
                }
                Err(error) => tracing::warn!(%error, "a decision was not written; it is tried again"),
            }
        });
    }

    /// It was not sent at all, and never will be.
    pub(super) fn decision_too_large(&mut self, number: u64, why: String) {
        if self.decisions.commits.give_up(number)
            && let Some(waiting) = self.decisions.waiting.remove(&number)
        {
            let _ = waiting.done.send(DecisionOutcome::TooLarge(why));
        }
    }

    /// The content that an entry of this replica takes the place of, if it will hold.
    pub(super) fn replaced_by(&self, entry: &FleetEntry) -> Option<BlobHash> {
        let (FleetEntry::Decide { key, writing: Some(writing), .. } | FleetEntry::Withdraw { key, writing, .. }) =
            entry
        else {
            return None;
        };
        // Whoever writes the next one cleans up, so nobody does it twice.
        let known = self.fold.state().decision(key).filter(|_| writing.by == self.local.me)?;
        Some(known.value)
    }

    /// An entry was taken into the state.
    pub(super) fn decision_read(
        &mut self,
        entry: &FleetEntry,
        effect: &EntryEffect,
        replaced: Option<BlobHash>,
        now: Instant,
    ) {
        if !matches!(entry, FleetEntry::Decide { .. } | FleetEntry::Withdraw { .. }) {
            return;
        }
        if let EntryEffect::Decided(key) = effect {
            let at = self.fold.state().sequence();
            self.decisions.owe(key, at);
            if let Some(replaced) = replaced {
                self.decisions.drop_later(replaced, now);
            }
        }
        let held = matches!(effect, EntryEffect::Decided(_));
        if let Some(command) = self.decisions.commits.applied(entry, held) {
            self.decide(command, now);
        }
        self.drive_decisions(now);
        self.tell_decided();
    }

    /// Tells followers what can be told, fetches what they are told next, and answers those who decided it.
    fn tell_decided(&mut self) {
        let mut told = false;
        while let Some((at, OwedDecision { key, .. })) = self.decisions.owed.first_key_value() {
            let decided = match self.fold.state().decision(key) {
                None => None,
                Some(known) => match self.decisions.contents.known.get(&known.value) {
                    Some(content) => Some(Decided { n: known.n, value: value_of(content) }),
                    None => break,
                },
            };
            if let Some(follower) = self.decisions.followers.get(&key.kind) {
                follower.decided(&key.subject, decided.as_ref());
            }
            let (at, key) = (*at, key.clone());
            self.decisions.owed.remove(&at);
            self.decisions.owed_at.remove(&key);
            told = true;
        }
        self.fetch_owed();
        let now = Instant::now();
        self.answer_applied(now);
        // While a change of the set is applied, whoever reads waits for that too.
        if told && self.set.applying.is_none() {
            let reached = self.decisions.told_up_to(self.fold.state().sequence());
            let commands = self.reads.applied(reached, now);
            self.index(commands);
        }
    }

    /// Answers whoever decided what followers were told of, and whoever has waited for long enough.
    fn answer_applied(&mut self, now: Instant) {
        let reached = self.decisions.told_up_to(self.fold.state().sequence());
        let is_stuck = self.local.trouble.is_some();
        while let Some(first) = self.decisions.answers.front() {
            let outcome = match first.at <= reached {
                true => DecisionOutcome::Applied(first.n),
                // It holds, and can not be seen here.
                false if is_stuck || first.until <= now => DecisionOutcome::Unknown,
                false => return,
            };
            if let Some(answered) = self.decisions.answers.pop_front() {
                let _ = answered.done.send(outcome);
            }
        }
    }

    fn fetch_owed(&mut self) {
        let room = &mut self.decisions;
        let state = self.fold.state();
        let values = room.owed.values().take(FETCHES).filter_map(|owed| state.decision(&owed.key));
        for hash in values.map(|known| known.value) {
            if room.fetching.len() >= FETCHES {
                return;
            }
            if room.contents.known.contains_key(&hash) || !room.fetching.insert(hash) {
                continue;
            }
            let (bus, events) = (Arc::clone(&self.outward.bus), self.outward.events.clone());
            self.desk.tasks.spawn(async move {
                // Once: a value that has a next one by now was dropped, and must not hold up that one.
                let fetched = match bus.get(hash).await {
                    Ok(Some(content)) => FetchedContent::Here(content),
                    Ok(None) => FetchedContent::Missing,
                    Err(error) => {
                        tracing::debug!(%error, "the content of a decision is asked for again");
                        FetchedContent::NoAnswer
                    }
                };
                if !matches!(fetched, FetchedContent::Here(_)) {
                    tokio::time::sleep(FETCH_AGAIN).await;
                }
                let _ = events.send(DriverEvent::Content(hash, fetched)).await;
            });
        }
    }

    pub(super) fn content_came(&mut self, hash: BlobHash, fetched: FetchedContent) {
        self.decisions.fetching.remove(&hash);
        match fetched {
            FetchedContent::Here(content) => self.decisions.contents.put(hash, content),
            FetchedContent::Missing if self.has_missed(hash) => {
                self.stuck("what was decided can not be read from the bus".to_owned());
                return self.answer_applied(Instant::now());
            }
            FetchedContent::Missing | FetchedContent::NoAnswer => {}
        }
        self.tell_decided();
    }

    /// Counts that a content was not there. Tells whether it is needed, and was missing for too long.
    fn has_missed(&mut self, hash: BlobHash) -> bool {
        let state = self.fold.state();
        let mut needed = self.decisions.owed.values_mut();
        let needed = needed.find(|owed| state.decision(&owed.key).is_some_and(|known| known.value == hash));
        let Some(owed) = needed else { return false };
        owed.missed += 1;
        // Where the log is read further than this, it may have a next value, whose writer dropped this one.
        owed.missed >= MOST_MISSES && state.sequence() >= self.members.head()
    }

    // ---- for whoever reads

    fn read_decision(&self, key: &DecisionKey, done: oneshot::Sender<ReadDecision>) {
        let Some(known) = self.fold.state().decision(key) else {
            let _ = done.send(ReadDecision::Found(None));
            return;
        };
        let found = move |content: &Bytes| Decided { n: known.n, value: value_of(content) };
        if let Some(content) = self.decisions.contents.known.get(&known.value) {
            let _ = done.send(ReadDecision::Found(Some(found(content))));
            return;
        }
        let bus = Arc::clone(&self.outward.bus);
        self.desk.tasks.spawn(async move {
            let content = tokio::time::timeout(READ_WITHIN, bus.get(known.value)).await;
            let _ = match content {
                Ok(Ok(Some(content))) => done.send(ReadDecision::Found(Some(found(&content)))),
                Ok(Ok(None)) => done.send(ReadDecision::Moved),
                // Dropped: it is not known what is there.
                Ok(Err(_)) | Err(_) => return,
            };
        });
    }

    fn overtaken(&self, key: &DecisionKey, done: oneshot::Sender<DecisionOutcome>) {
        let (read, found) = oneshot::channel();
        self.read_decision(key, read);
        self.desk.tasks.spawn(async move {
            let outcome = match found.await {
                Ok(ReadDecision::Found(found)) => DecisionOutcome::Overtaken(found),
                // Nothing of this was written, and what stands in its way can not be said.
                Ok(ReadDecision::Moved) | Err(_) => {
                    DecisionOutcome::Refused("something else was decided, and can not be read at the moment".to_owned())
                }
            };
            let _ = done.send(outcome);
        });
    }
}
