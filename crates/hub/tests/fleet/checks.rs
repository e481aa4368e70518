//! What must always hold, seen from outside of all replicas at once.

use std::collections::{BTreeMap, HashMap, HashSet};

use tidings_hub::fleet::entry::FleetEntry;
use tidings_hub::fleet::fold::EntryEffect;
use tidings_hub::fleet::{BlobHash, FleetServerName, OwnerEpoch, ReplicaId};

use crate::bus::{Micros, SECOND, Written};
use crate::replica::LogPoint;

/// A request that waits longer than this before it runs surprises a client that was told that it was lost.
const LATE_RUN: Micros = 4 * SECOND;

/// How often the interesting things happened.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WorldCounts {
    pub(crate) steps: u64,
    pub(crate) entries: u64,
    pub(crate) void: u64,
    pub(crate) changes: u64,
    pub(crate) moves: u64,
    pub(crate) kills: u64,
    pub(crate) echoes: u64,
    pub(crate) beginnings: u64,
    pub(crate) notices: u64,
    pub(crate) lists: u64,
    pub(crate) unconfirmed: u64,
    pub(crate) stale: u64,
    pub(crate) forwarded: u64,
    pub(crate) refused: u64,
    pub(crate) perhaps: u64,
    pub(crate) registered: u64,
    pub(crate) declined: u64,
    pub(crate) unanswered: u64,
    pub(crate) failed_starts: u64,
    pub(crate) given_up: u64,
}

impl WorldCounts {
    pub(crate) fn add(&mut self, other: &Self) {
        let pairs = self.all_mut().into_iter().zip(other.all());
        for (mine, (_, theirs)) in pairs {
            *mine += theirs;
        }
    }

    fn all_mut(&mut self) -> [&mut u64; 20] {
        [
            &mut self.steps,
            &mut self.entries,
            &mut self.void,
            &mut self.changes,
            &mut self.moves,
            &mut self.kills,
            &mut self.echoes,
            &mut self.beginnings,
            &mut self.notices,
            &mut self.lists,
            &mut self.unconfirmed,
            &mut self.stale,
            &mut self.forwarded,
            &mut self.refused,
            &mut self.perhaps,
            &mut self.registered,
            &mut self.declined,
            &mut self.unanswered,
            &mut self.failed_starts,
            &mut self.given_up,
        ]
    }

    pub(crate) fn all(&self) -> [(&'static str, u64); 20] {
        [
            ("steps", self.steps),
            ("entries", self.entries),
            ("void entries", self.void),
            ("changes", self.changes),
            ("moves", self.moves),
            ("kills", self.kills),
            ("echoes", self.echoes),
            ("beginnings", self.beginnings),
            ("notices", self.notices),
            ("lists", self.lists),
            ("unconfirmed lists", self.unconfirmed),
            ("stale unconfirmed lists", self.stale),
            ("forwarded calls", self.forwarded),
            ("refused calls", self.refused),
            ("calls that may have run", self.perhaps),
            ("changes of the set", self.registered),
            ("refused changes of the set", self.declined),
            ("changes of the set without an answer", self.unanswered),
            ("failed starts", self.failed_starts),
            ("servers given up", self.given_up),
        ]
    }
}

/// What was seen, and the first thing that must not be.
#[derive(Default)]
pub(crate) struct WorldChecks {
    pub(crate) counts: WorldCounts,
    pub(crate) violation: Option<String>,
    digests: HashMap<LogPoint, BlobHash>,
    /// Up to this generation the log lost entries: replicas may differ until it begins anew.
    torn: Option<u64>,
    /// Copies of an append that held, by place: each replica sees the same one.
    held: HashMap<u64, LogPoint>,
    /// Who served in an epoch. A log that lost its end may have grown over the same numbers before it began anew: they count within a generation.
    owners: BTreeMap<(FleetServerName, OwnerEpoch, u64), ReplicaId>,
    ran: HashSet<usize>,
    /// Changes of the set that held, by who wrote them.
    registered: HashMap<(ReplicaId, u64), LogPoint>,
}

impl WorldChecks {
    pub(crate) fn fail(&mut self, what: String) {
        self.violation.get_or_insert(what);
    }

    pub(crate) fn log_torn(&mut self, generation: u64) {
        self.torn = self.torn.max(Some(generation));
    }

    fn is_torn(&self, generation: u64) -> bool {
        self.torn.is_some_and(|torn| generation <= torn)
    }

    /// A replica applied an entry. `owner` owned the server of an offer before.
    pub(crate) fn applied(
        &mut self,
        replica: &ReplicaId,
        point: LogPoint,
        digest: BlobHash,
        written: &Written,
        effect: &EntryEffect,
        owner: Option<(usize, bool)>,
    ) {
        if self.is_torn(point.generation) {
            return;
        }
        let known = *self.digests.entry(point).or_insert(digest);
        if known != digest {
            self.fail(format!("{replica:?} differs at {point:?}, by append {} and {effect:?}", written.append));
        }
        if matches!(effect, EntryEffect::Void(_)) {
            self.counts.void += 1;
            return;
        }
        let torn = self.torn;
        let first = held_before(torn, self.held.entry(written.append).or_insert(point), point);
        if let Some(first) = first.filter(|_| !matches!(written.entry, FleetEntry::Echo { .. })) {
            self.fail(format!("append {} held at {first:?} and at {point:?}: {:?}", written.append, written.entry));
        }
        if let Some((_, false)) = owner {
            self.fail(format!("an offer of replica {} held at {point:?}, which was not the owner", written.writer));
        }
    }

    /// A change of the set held at this place.
    pub(crate) fn registered(&mut self, by: &ReplicaId, number: u64, point: LogPoint) {
        if self.is_torn(point.generation) {
            return;
        }
        let torn = self.torn;
        let first = held_before(torn, self.registered.entry((by.clone(), number)).or_insert(point), point);
        if let Some(first) = first {
            self.fail(format!("change {number} of {by:?} held at {first:?} and at {point:?}"));
        }
    }

    pub(crate) fn is_registered(&self, by: &ReplicaId, number: u64) -> bool {
        self.registered.contains_key(&(by.clone(), number))
    }

    /// Whether the log ever lost entries.
    pub(crate) fn was_torn(&self) -> bool {
        self.torn.is_some()
    }

    pub(crate) fn serves(&mut self, replica: &ReplicaId, server: &FleetServerName, epoch: OwnerEpoch, generation: u64) {
        if self.is_torn(generation) {
            return;
        }
        let key = (server.clone(), epoch, generation);
        let first = self.owners.entry(key).or_insert_with(|| replica.clone());
        if first != replica {
            let first = first.clone();
            self.fail(format!("{first:?} and {replica:?} both serve {server:?} in {epoch:?}"));
        }
    }

    pub(crate) fn processes(&mut self, server: &FleetServerName, running: &[ReplicaId]) {
        // After a log lost its end nobody knows who owned what.
        if running.len() > 1 && self.torn.is_none() {
            self.fail(format!("{server:?} runs at {running:?} at the same time"));
        }
    }

    pub(crate) fn listed(&mut self, client: usize, told: LogPoint, answered: LogPoint, confirmed: bool) {
        self.counts.lists += 1;
        self.counts.unconfirmed += u64::from(!confirmed);
        if answered >= told {
            return;
        }
        if !confirmed {
            self.counts.stale += 1;
        } else if !self.is_torn(answered.generation) {
            self.fail(format!("client {client} was told of {told:?} and then answered with {answered:?}"));
        }
    }

    pub(crate) fn ran(&mut self, call: usize, sent: Micros, now: Micros) {
        if !self.ran.insert(call) {
            self.fail(format!("call {call} ran twice"));
        }
        if now - sent > LATE_RUN {
            self.fail(format!("call {call} ran {} ms after it was sent", (now - sent) / 1000));
        }
    }

    pub(crate) fn has_run(&self, call: usize) -> bool {
        self.ran.contains(&call)
    }
}

/// Where something held that holds now at `point`, if that was another place. What a log lost that began anew may be written once more, where
/// nobody who is left had read it.
fn held_before(torn: Option<u64>, first: &mut LogPoint, point: LogPoint) -> Option<LogPoint> {
    if first.generation < point.generation && torn.is_some_and(|torn| first.generation <= torn) {
        *first = point;
    }
    (*first != point).then_some(*first)
}
