//! Decisions that this replica writes and has not read back yet: the next value under a key, or that there is none any more.
//!
//! An entry names the number that it makes, so of two that were written after the same value one holds. Whoever does not care what was there
//! is written once more with the next number; whoever does is overtaken as soon as something else is there. Numbers of a key only rise, so an
//! entry whose number was passed never holds later. One that was not read back is written again as it was; after [`GIVE_UP`] nobody knows what
//! became of it, unless it is known that nothing of it can hold.
//!
//! Not here: the values. They are contents beside the log, written before the entry that names them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use super::entry::{DecisionKey, DecisionWriting, FleetEntry};
use super::fold::FleetState;
use super::{BlobHash, ReplicaId};

/// A decision that was not read back after this time is written again.
const WRITE_AGAIN: Duration = Duration::from_secs(1);
/// How long its caller waits: longer than the bus needs to elect a leader (4 to 9 s).
pub const GIVE_UP: Duration = Duration::from_secs(15);

/// What has to be there for a decision to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecisionBase {
    /// Whatever there is.
    Any,
    /// The value of this number, which somebody has looked at; zero: none.
    Exactly(u64),
}

/// What is to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecisionWish {
    /// Under which key.
    pub key: DecisionKey,
    /// After what.
    pub base: DecisionBase,
    /// The value; `None`: the key is to have none any more.
    pub value: Option<BlobHash>,
}

/// What became of a wish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecisionFate {
    /// It is the value of this number, and applied here; zero: there was nothing to withdraw.
    Applied(u64),
    /// Something else is there than it was to come after.
    Overtaken,
    /// Nothing was written, or nothing that can ever hold.
    Unwritten,
    /// It may be in the log, or come to be.
    Unknown,
}

/// What has to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DecisionCommand {
    /// Write the content of this wish, then this. Copies have the number of the writing that stands in it.
    Write(u64, FleetEntry),
    /// Tell whoever wished.
    Done(u64, DecisionFate),
}

#[derive(Clone, Debug)]
struct PendingDecision {
    wish: DecisionWish,
    /// What was written last, and may still hold.
    written: Option<WrittenDecision>,
    until: Instant,
}

#[derive(Clone, Copy, Debug)]
struct WrittenDecision {
    /// Which writing it is.
    number: u64,
    n: u64,
    again: Instant,
}

/// The decisions that are under way.
#[derive(Clone, Debug)]
pub struct DecisionCommits {
    me: ReplicaId,
    /// By the number of the wish: in the order in which they came.
    pending: BTreeMap<u64, PendingDecision>,
    wishes: u64,
    writings: u64,
}

impl DecisionCommits {
    /// Nothing is under way.
    pub fn new(me: ReplicaId) -> Self {
        Self { me, pending: BTreeMap::new(), wishes: 0, writings: 0 }
    }

    /// Somebody wants this. Nothing is written before [`Self::advance`] says so.
    pub fn wish(&mut self, wish: DecisionWish, now: Instant) -> u64 {
        self.wishes += 1;
        self.pending.insert(self.wishes, PendingDecision { wish, written: None, until: now + GIVE_UP });
        self.wishes
    }

    /// An entry was applied; `held`: it was not void.
    pub fn applied(&mut self, entry: &FleetEntry, held: bool) -> Option<DecisionCommand> {
        let (FleetEntry::Decide { n, writing: Some(writing), .. } | FleetEntry::Withdraw { n, writing, .. }) = entry
        else {
            return None;
        };
        if !held || writing.by != self.me {
            return None;
        }
        let is_it = |pending: &PendingDecision| pending.written.is_some_and(|written| written.number == writing.number);
        let number = self.pending.iter().find(|(_, pending)| is_it(pending)).map(|(number, _)| *number)?;
        self.pending.remove(&number);
        Some(DecisionCommand::Done(number, DecisionFate::Applied(*n)))
    }

    /// What follows from the state as it is, with all that was [applied](Self::applied), and from the time. `writes`: this replica may write.
    pub fn advance(&mut self, state: &FleetState, now: Instant, writes: bool) -> Vec<DecisionCommand> {
        let Self { me, pending, writings, .. } = self;
        let mut commands = Vec::new();
        // Of those for one key the first alone is written: the others would only overtake it, and each other.
        let mut busy: BTreeSet<DecisionKey> = BTreeSet::new();
        pending.retain(|number, pending| {
            let key = &pending.wish.key;
            pending.written = pending.written.filter(|written| written.n >= state.next_decision(key));
            if pending.written.is_none() {
                let there = state.decision(key).map_or(0, |known| known.n);
                let fate = match (pending.wish.base, pending.wish.value) {
                    (DecisionBase::Exactly(n), _) if n != there => Some(DecisionFate::Overtaken),
                    (_, None) if there == 0 => Some(DecisionFate::Applied(0)),
                    _ => None,
                };
                if let Some(fate) = fate {
                    commands.push(DecisionCommand::Done(*number, fate));
                    return false;
                }
            }
            if pending.until <= now {
                let fate = if pending.written.is_some() { DecisionFate::Unknown } else { DecisionFate::Unwritten };
                commands.push(DecisionCommand::Done(*number, fate));
                return false;
            }
            let is_first = busy.insert(key.clone());
            if writes && is_first && pending.written.is_none_or(|written| written.again <= now) {
                let mut next = || {
                    *writings += 1;
                    WrittenDecision { number: *writings, n: state.next_decision(key), again: now }
                };
                let written = pending.written.get_or_insert_with(&mut next);
                written.again = now + WRITE_AGAIN;
                let writing = DecisionWriting { by: me.clone(), number: written.number };
                let (key, n) = (key.clone(), written.n);
                let entry = match pending.wish.value {
                    Some(value) => FleetEntry::Decide { key, n, value, writing: Some(writing) },
                    None => FleetEntry::Withdraw { key, n, writing },
                };
                commands.push(DecisionCommand::Write(*number, entry));
            }
            true
        });
        commands
    }

    /// A wish can not be written at all, for a reason that stays. Whether it was under way.
    pub fn give_up(&mut self, number: u64) -> bool {
        self.pending.remove(&number).is_some()
    }

    /// The log began anew: nobody knows what became of what was written.
    pub fn forget(&mut self) -> Vec<DecisionCommand> {
        let unknown = |(number, pending): (u64, PendingDecision)| {
            let fate = if pending.written.is_some() { DecisionFate::Unknown } else { DecisionFate::Unwritten };
            DecisionCommand::Done(number, fate)
        };
        std::mem::take(&mut self.pending).into_iter().map(unknown).collect()
    }

    /// How many wishes are under way.
    pub fn under_way(&self) -> usize {
        self.pending.len()
    }
}
