//! Where servers may run in a simulated world, where they do not start, and how long their processes take to end.

use std::collections::BTreeSet;

use tidings_hub::fleet::{FleetServerName, OwnerEpoch};

use crate::bus::{MILLI, SECOND};
use crate::defects::PlantedDefect;
use crate::replica::{Arrival, ProcessState, ServerProcess};
use crate::world::{SimulatedWorld, WorldEvent};

/// The labels of a replica: with two replicas or more each of them is somewhere, and "nowhere" is not.
pub(crate) fn labels_of(replica: usize) -> Vec<String> {
    vec![if replica.is_multiple_of(2) { "even" } else { "odd" }.to_owned()]
}

/// Pairs of a replica and a server that does not start there.
pub(crate) type BrokenStarts = BTreeSet<(usize, FleetServerName)>;

impl SimulatedWorld {
    /// Something changes about where a server can run: it starts somewhere or does not, or the file names other labels.
    pub(crate) fn upset(&mut self) {
        if self.quiet {
            return;
        }
        let next = self.random.between(200 * MILLI, 6 * SECOND);
        self.after(next, WorldEvent::Upset);
        let replica = self.random.below(self.replicas.len());
        let place = self.random.below(self.truth.len());
        let Some(server) = self.truth.keys().nth(place).cloned() else { return };
        // Seldom: a new file is told to everybody, and would hide what was told to nobody.
        if self.random.chance(930) {
            let pair = (replica, server);
            if !self.broken.remove(&pair) {
                self.broken.insert(pair);
            }
            return;
        }
        let labels = match self.random.below(8) {
            0 => vec!["nowhere".to_owned()],
            1..3 => vec!["even".to_owned()],
            3..5 => vec!["odd".to_owned()],
            _ => Vec::new(),
        };
        self.placements.insert(server, labels);
        if self.replicas[replica].state == ProcessState::Up {
            let version = self.replicas[replica].fold.state().set_version() + 1;
            let plan = self.plan(version);
            self.append(replica, plan);
        }
    }

    /// From here on every server starts at some replica where it may run, and perhaps not at all of them.
    pub(crate) fn heal_starts(&mut self) {
        let broken = std::mem::take(&mut self.broken);
        // Whatever labels the last file asks for, another replica with the same ones starts it.
        let starts_elsewhere = |(replica, server): &(usize, FleetServerName)| {
            let mut others = (0..self.replicas.len()).filter(|other| other != replica);
            let is_well = |other: &usize| !broken.contains(&(*other, server.clone()));
            others.clone().all(|other| is_well(&other)) && others.any(|other| labels_of(other) == labels_of(*replica))
        };
        self.broken = broken.iter().filter(|pair| starts_elsewhere(pair)).cloned().collect();
    }

    pub(crate) fn start_process(&mut self, replica: usize, server: &FleetServerName, epoch: OwnerEpoch) {
        if let Some(process) = self.replicas[replica].processes.get_mut(server)
            && process.ending
        {
            // One after the other.
            process.starts_after = Some(epoch);
            return;
        }
        self.processes += 1;
        let process = ServerProcess { id: self.processes, ..ServerProcess::new(epoch) };
        let known = &mut self.replicas[replica];
        known.processes.insert(server.clone(), process);
        let (id, generation) = (known.id.clone(), known.fold.state().generation());
        if let Some(planned) = known.fold.state().servers().get(server).map(|server| &server.planned)
            && !planned.placement.iter().all(|label| labels_of(replica).contains(label))
        {
            let asks = planned.placement.clone();
            self.checks.fail(format!("{server:?} asks for {asks:?} and is started at {id:?}"));
        }
        self.checks.serves(&id, server, epoch, generation);
        self.check_processes(server);
        self.try_start(replica, server);
    }

    /// A server that does not start fails after a while, and is tried again.
    pub(crate) fn try_start(&mut self, replica: usize, server: &FleetServerName) {
        let is_broken = self.broken.contains(&(replica, server.clone()));
        let Some(process) = self.replicas[replica].processes.get_mut(server) else { return };
        process.failing = is_broken;
        if is_broken {
            let id = process.id;
            let delay = self.random.between(MILLI, 80 * MILLI);
            return self.arrive(replica, delay, Arrival::StartFailed { server: server.clone(), process: id });
        }
        self.look(replica, server);
    }

    pub(crate) fn start_failed(&mut self, replica: usize, server: &FleetServerName, process: u64) {
        let known = &mut self.replicas[replica];
        let is_this = |running: &ServerProcess| running.id == process && !running.ending;
        if !known.processes.get(server).is_some_and(is_this) {
            return;
        }
        self.checks.counts.failed_starts += 1;
        if self.defect != PlantedDefect::StaysWhereItFails {
            let local = known.clock(self.now);
            let commands = known.ownership.start_failed(server, known.fold.state(), &known.members, local);
            self.own(replica, commands);
        }
        let again = self.random.between(500 * MILLI, 3 * SECOND);
        self.arrive(replica, again, Arrival::StartAgain { server: server.clone(), process });
    }

    pub(crate) fn start_again(&mut self, replica: usize, server: &FleetServerName, process: u64) {
        let is_this = |running: &ServerProcess| running.id == process && !running.ending;
        if self.replicas[replica].processes.get(server).is_some_and(is_this) {
            self.try_start(replica, server);
        }
    }

    pub(crate) fn end_process(&mut self, replica: usize, server: &FleetServerName) {
        if self.defect == PlantedDefect::GoesOn {
            return;
        }
        self.replicas[replica].commits.forget(server);
        if self.defect == PlantedDefect::GivesUpEarly {
            self.process_ended(replica, server);
        }
        let incarnation = self.replicas[replica].id.incarnation;
        let known = &mut self.replicas[replica];
        if known.resuming {
            // It was not to be told while its gateway was stopped, and does not count until then.
            known.processes.remove(server);
        }
        let id = known.processes.get_mut(server).map(|process| {
            process.ending = true;
            process.starts_after = None;
            process.id
        });
        let delay = self.random.between(MILLI, 80 * MILLI);
        self.after(delay, WorldEvent::ProcessEnded { replica, incarnation, server: server.clone(), process: id });
    }

    /// The process is gone, whether or not its gateway can see it at the moment.
    pub(crate) fn process_gone(
        &mut self,
        replica: usize,
        incarnation: u64,
        server: &FleetServerName,
        process: Option<u64>,
    ) {
        let known = &mut self.replicas[replica];
        if known.id.incarnation != incarnation || known.state == ProcessState::Dead {
            return;
        }
        let is_this = |running: &ServerProcess| Some(running.id) == process && running.ending;
        if known.processes.get(server).is_some_and(is_this)
            && let Some(gone) = known.processes.remove(server)
            && let Some(epoch) = gone.starts_after
            && known.ownership.serves(server) == Some(epoch)
        {
            return self.start_process(replica, server, epoch);
        }
        self.arrive(replica, 0, Arrival::Ended { server: server.clone() });
    }

    pub(crate) fn process_ended(&mut self, replica: usize, server: &FleetServerName) {
        let known = &mut self.replicas[replica];
        if known.processes.contains_key(server) && self.defect != PlantedDefect::GivesUpEarly {
            return;
        }
        let local = known.clock(self.now);
        let commands = known.ownership.ended(server, local);
        self.checks.counts.given_up += commands.len() as u64;
        self.own(replica, commands);
    }

    /// The file with the labels of now.
    pub(crate) fn placement_of(&self, server: &FleetServerName) -> Vec<String> {
        self.placements.get(server).cloned().unwrap_or_default()
    }
}
