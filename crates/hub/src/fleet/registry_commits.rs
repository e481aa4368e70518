//! A change of the set of servers that this replica has written and not read back yet: one at a time.
//!
//! It names the version that it makes, so it holds only if nothing else changed the set since it was checked; whoever is overtaken checks
//! again and writes anew. While its fate is not known it is written again as it was. After [`GIVE_UP`] its caller is told that nobody knows: it may
//! still hold, and is applied then like one of another replica.

use std::time::{Duration, Instant};

use super::ReplicaId;
use super::entry::{FleetEntry, IsolationRule, RegistryStep};
use super::fold::FleetState;

/// A change that was not read back after this time is written again.
const WRITE_AGAIN: Duration = Duration::from_secs(1);
/// How long its caller waits: longer than the bus needs to elect a leader (4 to 9 s).
pub const GIVE_UP: Duration = Duration::from_secs(15);

/// What follows from the wish to change the set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RegistryWriting {
    /// The set is not the one that was looked at, or another change of this replica is under way: look again.
    Overtaken,
    /// Write this.
    Write(FleetEntry),
}

/// What became of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegistryFate {
    /// None is under way, or it is still not known.
    Open,
    /// It is in force.
    Committed,
    /// Something else came first, so it can never hold: look again.
    Overtaken,
}

/// What has to be done about a change whose fate is not known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RegistryDue {
    /// Write it again.
    Write(FleetEntry),
    /// Tell its caller that it is not known, and wait for it no longer.
    GiveUp,
}

#[derive(Clone, Debug)]
struct PendingChange {
    number: u64,
    version: u64,
    steps: Vec<RegistryStep>,
    again: Instant,
    until: Instant,
}

/// The change that is under way.
#[derive(Clone, Debug)]
pub struct RegistryCommits {
    me: ReplicaId,
    pending: Option<PendingChange>,
    numbers: u64,
}

impl RegistryCommits {
    /// Nothing is under way.
    pub fn new(me: ReplicaId) -> Self {
        Self { me, pending: None, numbers: 0 }
    }

    /// Somebody wants these steps, having looked at the set of this version.
    pub fn begin(
        &mut self,
        state: &FleetState,
        version: u64,
        steps: Vec<RegistryStep>,
        now: Instant,
    ) -> RegistryWriting {
        if self.pending.is_some() || state.set_version() != version {
            return RegistryWriting::Overtaken;
        }
        self.numbers += 1;
        let pending = PendingChange {
            number: self.numbers,
            version: version + 1,
            steps,
            again: now + WRITE_AGAIN,
            until: now + GIVE_UP,
        };
        let entry = self.entry(&pending);
        self.pending = Some(pending);
        RegistryWriting::Write(entry)
    }

    fn entry(&self, pending: &PendingChange) -> FleetEntry {
        let PendingChange { number, version, steps, .. } = pending;
        FleetEntry::Registry { version: *version, by: self.me.clone(), number: *number, steps: steps.clone() }
    }

    /// An entry was applied; this is the state with it. `held`: it was not void.
    pub fn applied(&mut self, entry: &FleetEntry, held: bool, state: &FleetState) -> RegistryFate {
        let Some(pending) = &self.pending else { return RegistryFate::Open };
        let is_mine =
            matches!(entry, FleetEntry::Registry { by, number, .. } if *by == self.me && *number == pending.number);
        let fate = match (is_mine, held) {
            (true, true) => RegistryFate::Committed,
            (true, false) => RegistryFate::Overtaken,
            // Versions only rise: what names this one is void from here on.
            (false, _) if state.set_version() >= pending.version => RegistryFate::Overtaken,
            (false, _) => return RegistryFate::Open,
        };
        self.pending = None;
        fate
    }

    /// What is due. Asked before each entry is applied, too: a process that was stopped must not find out late that it was in doubt.
    ///
    /// In doubt nothing is written; and others may have claimed what is being started, so a server of which there may be only one is given up.
    pub fn due(&mut self, now: Instant, in_doubt: bool) -> Option<RegistryDue> {
        let pending = self.pending.as_mut()?;
        let stops = |step: &RegistryStep| matches!(step, RegistryStep::Put { server, .. } if server.on_isolation == IsolationRule::Stop);
        if pending.until <= now || (in_doubt && pending.steps.iter().any(stops)) {
            self.pending = None;
            return Some(RegistryDue::GiveUp);
        }
        if pending.again > now || in_doubt {
            return None;
        }
        pending.again = now + WRITE_AGAIN;
        let pending = pending.clone();
        Some(RegistryDue::Write(self.entry(&pending)))
    }

    /// It is waited for no longer: the log began anew, and nobody knows what became of it; or it can not be written. Whether one was under way.
    pub fn forget(&mut self) -> bool {
        self.pending.take().is_some()
    }

    /// The number of the change that is under way.
    pub fn under_way(&self) -> Option<u64> {
        self.pending.as_ref().map(|pending| pending.number)
    }
}
