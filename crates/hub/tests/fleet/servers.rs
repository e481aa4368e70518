//! Servers in a simulated world: who runs them, what they list, and how that is committed.

use tidings_hub::fleet::entry::{FleetEntry, OfferRecord};
use tidings_hub::fleet::offer_commits::{OfferAttempt, OfferFate, OfferStep};
use tidings_hub::fleet::ownership::OwnershipCommand;
use tidings_hub::fleet::{FleetServerName, OwnerEpoch};

use crate::bus::MILLI;
use crate::defects::PlantedDefect;
use crate::faults::content_hash;
use crate::replica::{Arrival, ProcessState};
use crate::world::SimulatedWorld;

impl SimulatedWorld {
    pub(crate) fn server_applied(&mut self, replica: usize, server: &FleetServerName) {
        let known = &mut self.replicas[replica];
        let local = known.clock(self.now);
        let commands = known.ownership.applied(server, known.fold.state(), &known.members, local);
        if let Some(state) = known.fold.state().servers().get(server)
            && known.commits.applied(server, state) == OfferFate::Overtaken
            && let Some(process) = known.processes.get_mut(server)
        {
            process.marked = true;
        }
        self.own(replica, commands);
        self.look(replica, server);
    }

    pub(crate) fn own(&mut self, replica: usize, commands: Vec<OwnershipCommand>) {
        for command in commands {
            match command {
                OwnershipCommand::Claim { server, epoch } => {
                    let me = Some(self.replicas[replica].id.clone());
                    self.append(replica, FleetEntry::Own { server, epoch, replica: me });
                }
                OwnershipCommand::Release { server, epoch } => {
                    self.append(replica, FleetEntry::Own { server, epoch, replica: None });
                }
                OwnershipCommand::Start { server, epoch } => {
                    self.start_process(replica, &server, epoch);
                }
                OwnershipCommand::ListAll { server, epoch } => {
                    match self.replicas[replica].processes.get_mut(&server) {
                        _ if self.defect == PlantedDefect::NoListAll => {}
                        Some(process) => {
                            process.epoch = epoch;
                            process.marked = true;
                            self.look(replica, &server);
                        }
                        // The one before it ended in the middle of the doubt, when nothing took its place.
                        None => self.start_process(replica, &server, epoch),
                    }
                }
                OwnershipCommand::Retire(_) => {}
                OwnershipCommand::End(server) => self.end_process(replica, &server),
            }
        }
    }

    /// A server says that its lists changed.
    pub(crate) fn signalled(&mut self, replica: usize, server: &FleetServerName) {
        if let Some(process) = self.replicas[replica].processes.get_mut(server) {
            process.marked = true;
        }
        self.look(replica, server);
    }

    pub(crate) fn look(&mut self, replica: usize, server: &FleetServerName) {
        let content = self.content_of(server);
        let up = self.replicas[replica].state == ProcessState::Up;
        let under_way = self.replicas[replica].commits.is_under_way(server);
        let Some(process) = self.replicas[replica].processes.get_mut(server) else { return };
        if !up || !process.marked || process.listing || process.failing || process.ending || under_way {
            return;
        }
        process.marked = false;
        process.listing = true;
        let epoch = process.epoch;
        let delay = self.random.between(MILLI, 80 * MILLI);
        self.arrive(replica, delay, Arrival::Listed { server: server.clone(), epoch, content });
    }

    pub(crate) fn listed(&mut self, replica: usize, server: &FleetServerName, epoch: OwnerEpoch, content: u64) {
        let known = &mut self.replicas[replica];
        let local = known.clock(self.now);
        let serves = known.ownership.serves(server) == Some(epoch);
        let Some(process) = known.processes.get_mut(server).filter(|process| process.epoch == epoch) else { return };
        process.listing = false;
        let Some(state) = known.fold.state().servers().get(server) else { return };
        // In doubt nothing is committed: when the doubt is over, everything is listed again.
        if serves && state.epoch == epoch {
            let offer = OfferRecord { content: content_hash(content), blobs: Vec::new(), record: Vec::new() };
            match known.commits.listed(server, state, offer, local) {
                OfferStep::Same => {}
                OfferStep::UnderWay => process.marked = true,
                OfferStep::Write(attempt, entry) => {
                    self.append_as(replica, entry, attempt);
                    if self.defect == PlantedDefect::TellsEarly {
                        let position = self.bus.log.len() as u64 + 1;
                        let mut point = self.replicas[replica].point();
                        point.sequence = self.replicas[replica].fold.sequence_at(position);
                        self.owe(replica, point);
                    }
                }
            }
        }
        self.look(replica, server);
    }

    /// Copies of one attempt of one process are one append.
    fn append_as(&mut self, replica: usize, entry: FleetEntry, attempt: OfferAttempt) {
        let append = (self.replicas[replica].id.incarnation << 40) | (1 << 39) | attempt.0;
        self.append_again(replica, entry, append);
    }

    /// An offer whose fate is not known is written again, as it was.
    pub(crate) fn write_offers_again(&mut self, replica: usize) {
        let known = &mut self.replicas[replica];
        let local = known.clock(self.now);
        let ownership = &known.ownership;
        let again = known.commits.due(local, |name| ownership.serves(name).is_some());
        let names: Vec<FleetServerName> = known.processes.keys().cloned().collect();
        for (attempt, entry) in again {
            self.append_as(replica, entry, attempt);
        }
        for name in names {
            self.look(replica, &name);
        }
    }
}
