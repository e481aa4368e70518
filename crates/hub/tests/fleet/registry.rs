//! Changes of the set of servers in a simulated world: somebody starts what comes, writes the batch, and is told what became of it.

use tidings_hub::fleet::entry::{FleetEntry, IsolationRule, OfferRecord, PlacedServer, RegistryStep};
use tidings_hub::fleet::registry_commits::{RegistryDue, RegistryFate, RegistryWriting};
use tidings_hub::fleet::{BlobHash, FleetServerName, ReplicaId};

use crate::bus::{MILLI, SECOND};
use crate::defects::PlantedDefect;
use crate::faults::content_hash;
use crate::replica::{Arrival, LogPoint, ProcessState};
use crate::world::{SimulatedWorld, WorldEvent};

/// What was asked for.
#[derive(Clone, Debug)]
pub(crate) enum ChangeWish {
    Add(FleetServerName),
    Remove(FleetServerName),
    Replace(FleetServerName),
    /// The second takes the place of the first, in one batch.
    Swap(FleetServerName, FleetServerName),
}

/// What the caller of a change was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChangeAnswer {
    Committed,
    Refused,
    Unknown,
}

#[derive(Debug)]
pub(crate) struct SimulatedChange {
    pub(crate) wish: ChangeWish,
    at: ReplicaId,
    /// The version of the set that was looked at.
    looked: u64,
    /// Numbers under which it was written.
    numbers: Vec<u64>,
    pub(crate) answer: Option<ChangeAnswer>,
}

/// The names of an entry that come or go.
fn touched(entry: &FleetEntry) -> Vec<FleetServerName> {
    let FleetEntry::Registry { steps, .. } = entry else { return Vec::new() };
    let name = |step: &RegistryStep| match step {
        RegistryStep::Put { server, .. } => Some(server.name.clone()),
        RegistryStep::Remove { server } => Some(server.clone()),
        _ => None,
    };
    steps.iter().filter_map(name).collect()
}

impl SimulatedWorld {
    /// What a server would list.
    pub(crate) fn content_of(&self, server: &FleetServerName) -> u64 {
        self.truth.get(server).or_else(|| self.added.get(server)).copied().unwrap_or_default()
    }

    fn fresh_name(&mut self) -> FleetServerName {
        let name: FleetServerName = format!("added-{}", self.added.len()).as_str().into();
        self.added.insert(name.clone(), 1);
        name
    }

    /// Somebody asks a replica for a change.
    pub(crate) fn register(&mut self) {
        if self.quiet {
            return;
        }
        let next = self.random.between(100 * MILLI, 2 * SECOND);
        self.after(next, WorldEvent::Register);
        let replica = self.random.below(self.replicas.len());
        let known = &self.replicas[replica];
        if known.state != ProcessState::Up || known.change.is_some() {
            return;
        }
        let state = known.fold.state();
        let there: Vec<FleetServerName> = state.kept().keys().cloned().collect();
        let (at, looked) = (known.id.clone(), state.set_version());
        let any = |world: &mut Self| there.get(world.random.below(there.len().max(1))).cloned();
        let wish = match (self.random.below(6), any(self)) {
            (0..2, Some(name)) => ChangeWish::Remove(name),
            (2, Some(name)) => ChangeWish::Replace(name),
            (3, Some(name)) => ChangeWish::Swap(name, self.fresh_name()),
            _ => ChangeWish::Add(self.fresh_name()),
        };
        let change = self.changes.len();
        self.changes.push(SimulatedChange { wish, at, looked, numbers: Vec::new(), answer: None });
        self.replicas[replica].change = Some(change);
        // A server may take long to start; others change the set meanwhile.
        let delay = self.random.between(MILLI, 800 * MILLI);
        self.arrive(replica, delay, Arrival::Rehearsed { change });
    }

    fn placed(&self, name: &FleetServerName) -> PlacedServer {
        let on_isolation = self.isolation_of(name);
        PlacedServer { name: name.clone(), definition: BlobHash::default(), placement: Vec::new(), on_isolation }
    }

    fn puts(&self, name: &FleetServerName, owner: &ReplicaId) -> [RegistryStep; 2] {
        let server = self.placed(name);
        let content = content_hash(self.content_of(name));
        let offer = Some(OfferRecord { content, blobs: Vec::new(), record: Vec::new() });
        let put = RegistryStep::Put { server: server.clone(), from_file: false, owner: owner.clone(), offer };
        [RegistryStep::Keep { server, on: true }, put]
    }

    fn removes(name: &FleetServerName) -> [RegistryStep; 2] {
        [RegistryStep::Forget { server: name.clone() }, RegistryStep::Remove { server: name.clone() }]
    }

    /// What a wish comes to in the set as it is now; `None`: it can not be done any more.
    fn steps_of(&self, replica: usize, wish: &ChangeWish) -> Option<Vec<RegistryStep>> {
        let known = &self.replicas[replica];
        let is_kept = |name: &FleetServerName| known.fold.state().kept().contains_key(name);
        match wish {
            ChangeWish::Add(name) => (!is_kept(name)).then(|| self.puts(name, &known.id).into()),
            ChangeWish::Remove(name) => is_kept(name).then(|| Self::removes(name).into()),
            // Of one of which there may be one, the old and the new would run side by side.
            ChangeWish::Replace(name) => {
                let keeps = self.placed(name).on_isolation == IsolationRule::Keep;
                (is_kept(name) && keeps).then(|| self.puts(name, &known.id).into())
            }
            ChangeWish::Swap(old, new) => (is_kept(old) && !is_kept(new))
                .then(|| self.puts(new, &known.id).into_iter().chain(Self::removes(old)).collect()),
        }
    }

    pub(crate) fn answer_change(&mut self, replica: usize, answer: ChangeAnswer) {
        if let Some(change) = self.replicas[replica].change.take() {
            self.changes[change].answer = Some(answer);
            match answer {
                ChangeAnswer::Committed => self.checks.counts.registered += 1,
                ChangeAnswer::Refused => self.checks.counts.declined += 1,
                ChangeAnswer::Unknown => self.checks.counts.unanswered += 1,
            }
        }
    }

    /// What comes is started: all of it is written, if it still can be.
    pub(crate) fn rehearsed(&mut self, replica: usize, change: usize) {
        let known = &self.replicas[replica];
        if known.change != Some(change) || self.changes[change].at != known.id {
            return;
        }
        let local = known.clock(self.now);
        let state = known.fold.state();
        let cut_off = known.members.is_in_doubt(local) || known.fold.is_seeking();
        let steps = self.steps_of(replica, &self.changes[change].wish);
        let (Some(steps), false) = (steps, cut_off || state.sequence() < known.members.head()) else {
            return self.answer_change(replica, ChangeAnswer::Refused);
        };
        let looked = self.changes[change].looked;
        let known = &mut self.replicas[replica];
        match known.registry.begin(known.fold.state(), looked, steps, local) {
            RegistryWriting::Overtaken => self.look_again(replica, change),
            RegistryWriting::Write(entry) => {
                self.changes[change].numbers.extend(self.replicas[replica].registry.under_way());
                self.write_change(replica, entry);
                if self.defect == PlantedDefect::AnsweredEarly {
                    self.answer_change(replica, ChangeAnswer::Committed);
                }
            }
        }
    }

    fn look_again(&mut self, replica: usize, change: usize) {
        self.changes[change].looked = self.replicas[replica].fold.state().set_version();
        self.arrive(replica, MILLI, Arrival::Rehearsed { change });
    }

    fn write_change(&mut self, replica: usize, entry: FleetEntry) {
        let FleetEntry::Registry { number, .. } = &entry else { return };
        let append = (self.replicas[replica].id.incarnation << 40) | (1 << 38) | *number;
        self.append_again(replica, entry, append);
    }

    /// Before an entry is applied, and with every tick.
    pub(crate) fn drive_change(&mut self, replica: usize) {
        let known = &mut self.replicas[replica];
        let local = known.clock(self.now);
        let in_doubt = known.members.is_in_doubt(local) || known.fold.is_seeking();
        match known.registry.due(local, in_doubt) {
            Some(RegistryDue::Write(entry)) => self.write_change(replica, entry),
            Some(RegistryDue::GiveUp) => self.answer_change(replica, ChangeAnswer::Unknown),
            None => {}
        }
    }

    /// An entry was applied: what it means for a change that is under way, and for the servers that come and go.
    pub(crate) fn set_applied(&mut self, replica: usize, entry: &FleetEntry, held: bool, point: LogPoint) {
        let known = &mut self.replicas[replica];
        let fate = known.registry.applied(entry, held, known.fold.state());
        let local = known.clock(self.now);
        if held && let FleetEntry::Registry { by, number, .. } = entry {
            self.checks.registered(by, *number, point);
        }
        if fate == RegistryFate::Committed {
            let known = &mut self.replicas[replica];
            let mut began = Vec::new();
            for name in touched(entry) {
                let mine =
                    known.fold.state().servers().get(&name).filter(|server| server.owner.as_ref() == Some(&known.id));
                if let Some(server) = mine {
                    began.push(known.ownership.began(&name, server.epoch));
                }
            }
            self.own(replica, began);
            self.answer_change(replica, ChangeAnswer::Committed);
        } else if fate == RegistryFate::Overtaken
            && let Some(change) = self.replicas[replica].change
        {
            self.look_again(replica, change);
        }
        if !held || !matches!(entry, FleetEntry::Registry { .. } | FleetEntry::Plan { .. }) {
            return;
        }
        let known = &mut self.replicas[replica];
        touched(entry).iter().for_each(|name| known.commits.forget(name));
        let commands = known.ownership.tick(known.fold.state(), &known.members, local);
        if self.defect != PlantedDefect::RemovedRuns {
            self.own(replica, commands);
        }
        self.check_swaps(replica);
    }

    /// A batch is in force as a whole: no state has both of two that take each other's place.
    fn check_swaps(&mut self, replica: usize) {
        let servers = self.replicas[replica].fold.state().servers();
        let both = self.changes.iter().find_map(|change| match &change.wish {
            ChangeWish::Swap(old, new) if servers.contains_key(old) && servers.contains_key(new) => Some((old, new)),
            _ => None,
        });
        if let Some((old, new)) = both {
            let id = &self.replicas[replica].id;
            self.checks.fail(format!("{id:?} has {old:?} and {new:?}, of which one took the place of the other"));
        }
    }

    /// What callers were told is what happened.
    pub(crate) fn changes_at_rest(&self) -> Result<(), String> {
        for change in &self.changes {
            let held = change.numbers.iter().filter(|number| self.checks.is_registered(&change.at, **number)).count();
            let is_true = match change.answer {
                Some(ChangeAnswer::Committed) => held == 1,
                Some(ChangeAnswer::Refused) => held == 0,
                // Its replica died with it, or lost sight of the others.
                Some(ChangeAnswer::Unknown) | None => held <= 1,
            };
            if !is_true && !self.checks.was_torn() {
                return Err(format!("{change:?} is in force {held} times"));
            }
        }
        let state = self.replicas[0].fold.state();
        if let Some(name) = state.kept().keys().find(|name| !state.servers().contains_key(*name)) {
            return Err(format!("{name:?} is kept and not in the set"));
        }
        for replica in &self.replicas {
            if let Some(name) = replica.processes.keys().find(|name| !state.servers().contains_key(*name)) {
                return Err(format!("{:?} still runs {name:?}, which was removed", replica.id));
            }
            if replica.change.is_some() {
                return Err(format!("{:?} has not answered a change", replica.id));
            }
        }
        Ok(())
    }
}
