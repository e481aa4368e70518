//! What goes wrong in a world, and how it ends.

use tidings_hub::fleet::BlobHash;

use crate::bus::{MILLI, SECOND};
use crate::replica::{Arrival, ProcessState, SimulatedReplica};
use crate::world::{SimulatedWorld, WorldEvent};

impl SimulatedWorld {
    pub(crate) fn fault(&mut self) {
        if self.quiet {
            return;
        }
        let next = self.random.between(200 * MILLI, 4 * SECOND);
        self.after(next, WorldEvent::Fault);
        let replica = self.random.below(self.replicas.len());
        let lasts = match self.random.below(3) {
            0 => self.random.between(50 * MILLI, SECOND),
            1 => self.random.between(SECOND, 5 * SECOND),
            _ => self.random.between(5 * SECOND, 14 * SECOND),
        };
        match self.random.below(40) {
            0..10 => {
                self.replicas[replica].cut = true;
                self.after(lasts, WorldEvent::Join(replica));
            }
            10..18 => self.pause(replica, lasts),
            18..25 => {
                // Mostly one that is cut off already: nobody hears what it answered.
                let cut = self.replicas.iter().position(|one| one.cut && one.state == ProcessState::Up);
                self.kill(cut.unwrap_or(replica), lasts);
            }
            25..33 => {
                let server = self.random.below(3);
                let election = self.random.between(4 * SECOND, 9 * SECOND);
                self.bus.cut_server(server, election, self.now);
                self.after(lasts * 2, WorldEvent::JoinBus);
            }
            33..36 => {
                let until = self.random.between(4 * SECOND, 7 * SECOND);
                self.bus.lose_leader(self.now + until);
            }
            36..39 => {
                for replica in 0..self.replicas.len() {
                    self.replicas[replica].cut = true;
                    self.after(lasts.min(5 * SECOND), WorldEvent::Join(replica));
                }
            }
            _ => self.tear_log(),
        }
    }

    fn pause(&mut self, replica: usize, lasts: u64) {
        let paused = &mut self.replicas[replica];
        if paused.state == ProcessState::Up {
            paused.state = ProcessState::Paused;
            let incarnation = paused.id.incarnation;
            self.after(lasts, WorldEvent::Resume { replica, incarnation });
        }
    }

    fn kill(&mut self, replica: usize, lasts: u64) {
        if self.replicas[replica].state == ProcessState::Dead {
            return;
        }
        self.checks.counts.kills += 1;
        let killed = &mut self.replicas[replica];
        killed.state = ProcessState::Dead;
        // Its processes die with it, and so do the calls that its own clients wait for.
        killed.processes.clear();
        let id = killed.id.clone();
        let unread = killed.backlog.drain(..).filter_map(|arrival| match arrival {
            Arrival::Call { call } => Some(call),
            _ => None,
        });
        let calls: Vec<usize> = killed.calls.drain(..).map(|waiting| waiting.call).chain(unread).collect();
        for call in calls {
            self.calls[call].ended.get_or_insert(false);
        }
        self.after(lasts, WorldEvent::Restart(replica));
        let clients: Vec<usize> =
            (0..self.clients.len()).filter(|client| self.clients[*client].home.as_ref() == Some(&id)).collect();
        for client in clients {
            self.clients[client].connected = false;
            let delay = self.random.between(10 * MILLI, 500 * MILLI);
            self.after(delay, WorldEvent::Connect(client));
        }
    }

    /// All servers of the bus stop at once, and lose what they had not written.
    fn tear_log(&mut self) {
        let generation = self.replicas.iter().map(|replica| replica.fold.state().generation()).max();
        self.checks.log_torn(generation.unwrap_or_default().max(self.written_generation()));
        let lost = if self.random.chance(200) { self.bus.log.len() } else { self.random.below(20) };
        self.bus.lose_tail(lost);
    }

    fn written_generation(&self) -> u64 {
        let generation = |entry: &tidings_hub::fleet::entry::FleetEntry| match entry {
            tidings_hub::fleet::entry::FleetEntry::Genesis { generation, .. } => *generation,
            _ => 0,
        };
        self.bus.log.iter().map(|written| generation(&written.entry)).max().unwrap_or_default()
    }

    pub(crate) fn join(&mut self, replica: usize) {
        self.replicas[replica].cut = false;
        self.release_held(replica);
        self.poll(replica, MILLI);
    }

    pub(crate) fn resume(&mut self, replica: usize, incarnation: u64) {
        let resumed = &mut self.replicas[replica];
        if resumed.id.incarnation != incarnation || resumed.state != ProcessState::Paused {
            return;
        }
        resumed.state = ProcessState::Up;
        // A process that was stopped is in doubt before it reads its queue.
        resumed.resuming = true;
        self.tick(replica);
        self.replicas[replica].resuming = false;
        while let Some(arrival) = self.replicas[replica].backlog.pop_front() {
            self.arrived(replica, arrival);
        }
    }

    pub(crate) fn restart(&mut self, replica: usize) {
        if self.replicas[replica].state == ProcessState::Dead {
            self.new_process(replica);
        }
    }

    /// Nothing goes wrong any more, and nothing changes.
    pub(crate) fn heal(&mut self) {
        self.quiet = true;
        self.heal_starts();
        self.bus.heal(self.now);
        self.bus.lose_leader(self.now);
        for replica in 0..self.replicas.len() {
            let incarnation = self.replicas[replica].id.incarnation;
            self.resume(replica, incarnation);
            self.restart(replica);
            self.join(replica);
        }
    }

    /// What must hold once everything came to rest.
    pub(crate) fn at_rest(&mut self) -> Result<(), String> {
        let first = self.replicas[0].fold.state().clone();
        for replica in &self.replicas {
            let state = replica.fold.state();
            if *state != first {
                return Err(format!(
                    "{:?} has {:?} of generation {}, {:?} has {:?} of generation {} (seeking: {}, {})",
                    replica.id,
                    state.sequence(),
                    state.generation(),
                    self.replicas[0].id,
                    first.sequence(),
                    first.generation(),
                    replica.fold.is_seeking(),
                    self.replicas[0].fold.is_seeking(),
                ));
            }
        }
        let added = first.kept().keys().map(|name| (name, self.content_of(name)));
        for (name, content) in self.truth.iter().map(|(name, content)| (name, *content)).chain(added) {
            let server = first.servers().get(name).ok_or_else(|| format!("{name:?} is not in the set"))?;
            if server.planned.placement.iter().any(|label| label == "nowhere") {
                // An owner that is gone stays in the log: nobody may take its place.
                let runs = |replica: &SimulatedReplica| replica.processes.contains_key(name);
                if self.replicas.iter().any(runs) {
                    return Err(format!("{name:?} may run nowhere, and runs: {server:?}"));
                }
                continue;
            }
            let listed = server.offer.as_ref().map(|offer| offer.content);
            if listed != Some(content_hash(content)) {
                let processes: Vec<_> =
                    self.replicas.iter().filter_map(|replica| replica.processes.get(name)).collect();
                return Err(format!("what {name:?} lists is not what the fleet has: {server:?}, run by {processes:?}"));
            }
            let serves = |replica: &&SimulatedReplica| replica.ownership.serves(name).is_some();
            let owners: Vec<_> = self.replicas.iter().filter(serves).map(|replica| replica.id.clone()).collect();
            if owners.len() != 1 || Some(&owners[0]) != server.owner.as_ref() {
                return Err(format!("{name:?} is served by {owners:?}, and owned by {:?}", server.owner));
            }
        }
        self.changes_at_rest()?;
        self.clients_at_rest(first.generation(), first.last_touched())
    }

    fn clients_at_rest(&self, generation: u64, touched: tidings_hub::fleet::LogSequence) -> Result<(), String> {
        for (place, client) in self.clients.iter().enumerate() {
            let current = (client.last_list.generation, client.last_list.sequence) >= (generation, touched);
            if !client.connected || !current {
                return Err(format!(
                    "client {place} (connected: {}) has a list of {:?}, was told of {:?}, and the last change is {touched:?} of generation {generation}",
                    client.connected, client.last_list, client.told,
                ));
            }
        }
        for (place, call) in self.calls.iter().enumerate() {
            match call.ended {
                None => return Err(format!("call {place} never ended")),
                Some(true) if self.checks.has_run(place) => {
                    return Err(format!("call {place} ran, and its client was told that it did not"));
                }
                Some(_) => {}
            }
        }
        for replica in &self.replicas {
            if replica.reads.waiting() > 0 || !replica.outgoing.is_empty() {
                return Err(format!("{:?} still waits for something", replica.id));
            }
        }
        Ok(())
    }
}

/// What a server lists, as a hash.
pub(crate) fn content_hash(content: u64) -> BlobHash {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&content.to_le_bytes());
    BlobHash(bytes)
}
