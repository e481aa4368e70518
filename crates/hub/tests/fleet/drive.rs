//! What a replica does with what arrives: the machines decide, and the world carries it out.

use std::sync::Arc;
use std::time::Duration;

use tidings_hub::fleet::entry::{FleetEntry, IsolationRule};
use tidings_hub::fleet::fold::EntryEffect;
use tidings_hub::fleet::index_reads::{HeadAnswer, HeadAsk, IndexCommand};
use tidings_hub::fleet::members::MemberEvent;
use tidings_hub::fleet::{BlobHash, FleetServerName, LogSequence, ReplicaId};

use crate::bus::{MILLI, Micros, SECOND, Written};
use crate::defects::PlantedDefect;
use crate::registry::ChangeAnswer;
use crate::replica::{Arrival, EXCHANGES, LogPoint, ProcessState, READERS, Reading};
use crate::world::{SimulatedWorld, WorldEvent, WorldWeather};

impl SimulatedWorld {
    pub(crate) fn arrived(&mut self, replica: usize, arrival: Arrival) {
        match self.replicas[replica].state {
            ProcessState::Dead => {
                if let Arrival::Call { call } = arrival {
                    self.calls[call].ended = Some(true);
                }
                return;
            }
            ProcessState::Paused => {
                self.replicas[replica].backlog.push_back(arrival);
                return;
            }
            ProcessState::Up => {}
        }
        let local = self.replicas[replica].clock(self.now);
        match arrival {
            Arrival::Beat(beat) => {
                let known = &mut self.replicas[replica];
                let differs = known.fold.agrees(beat.generation, beat.applied, beat.digest) == Some(false);
                let events = known.members.heard(beat, local);
                if differs {
                    self.log_lost(replica);
                }
                self.members_changed(replica, events);
            }
            Arrival::Frame { from, exchange, frame } => self.frame(replica, &from, exchange, frame),
            Arrival::NoResponders { number, opening } => {
                let steps = self.replicas[replica].outgoing.no_responders(number, opening);
                self.outgoing(replica, steps);
            }
            Arrival::Head { ask, head, heard, applied } => self.head(replica, ask, head, heard, applied),
            Arrival::Read(reading) => self.reading(replica, reading),
            Arrival::Call { call } => self.call(replica, call),
            Arrival::Rehearsed { change } => self.rehearsed(replica, change),
            Arrival::Listed { server, epoch, content } => self.listed(replica, &server, epoch, content),
            Arrival::Ran { exchange, messages } => self.ran(replica, &exchange, messages),
            Arrival::StartFailed { server, process } => self.start_failed(replica, &server, process),
            Arrival::StartAgain { server, process } => self.start_again(replica, &server, process),
            Arrival::Ended { server } => self.process_ended(replica, &server),
            Arrival::Poll => self.read_log(replica),
            Arrival::Wake => self.drive_reads(replica),
        }
    }

    pub(crate) fn tick(&mut self, replica: usize) {
        let now = self.now;
        let known = &mut self.replicas[replica];
        let local = known.clock(now);
        if self.defect == PlantedDefect::BeatsAlone {
            let head = known.members.head();
            known.members.head_confirmed(local, head);
        }
        let events = known.members.tick(local);
        self.members_changed(replica, events);
        let known = &mut self.replicas[replica];
        let commands = known.ownership.tick(known.fold.state(), &known.members, local);
        self.own(replica, commands);
        let known = &mut self.replicas[replica];
        if known.next_beat <= now {
            known.next_beat = now + 500 * MILLI;
            let beat = known.beat(now);
            let everybody: Vec<ReplicaId> = self.replicas.iter().map(|other| other.id.clone()).collect();
            for to in everybody {
                self.send(replica, to, Arrival::Beat(beat.clone()));
            }
        }
        self.drive_reads(replica);
        self.drive_exchanges(replica);
        if let Some(echo) = self.replicas[replica].reads.echo_due(local)
            && self.defect != PlantedDefect::NoEcho
        {
            self.append(replica, echo);
        }
        self.write_offers_again(replica);
        self.drive_change(replica);
        self.begin_log(replica);
        // Everything may be lost at once; the file is still there.
        let unplanned = self.replicas[replica].fold.state().set_version() == 0;
        if unplanned && self.random.chance(50) {
            let plan = self.plan(1);
            self.append(replica, plan);
        }
        self.check_bounds(replica);
    }

    fn check_bounds(&mut self, replica: usize) {
        let known = &self.replicas[replica];
        if known.reads.waiting() > READERS || known.incoming.remembered() > 2 * EXCHANGES {
            self.checks.fail(format!("{:?} keeps more than it may", known.id));
        }
        let names: Vec<FleetServerName> = known.processes.keys().cloned().collect();
        for name in names {
            self.check_processes(&name);
        }
    }

    /// Of some servers there is one process at a time, in all of the world.
    pub(crate) fn check_processes(&mut self, name: &FleetServerName) {
        if self.isolation_of(name) != IsolationRule::Stop {
            return;
        }
        // A stopped process does nothing with its server, and can not be told to end it.
        let runs = |one: &&crate::replica::SimulatedReplica| {
            one.state == ProcessState::Up && !one.resuming && one.processes.contains_key(name)
        };
        let running: Vec<ReplicaId> = self.replicas.iter().filter(runs).map(|one| one.id.clone()).collect();
        self.checks.processes(name, &running);
    }

    fn members_changed(&mut self, replica: usize, events: Vec<MemberEvent>) {
        let local = self.replicas[replica].clock(self.now);
        for event in events {
            let MemberEvent::Gone { replica: gone, applied } = event else { continue };
            let known = &mut self.replicas[replica];
            if self.defect != PlantedDefect::NoEchoForGone {
                known.reads.answered_elsewhere(applied);
            }
            known.incoming.gone(&gone, local);
            let steps = known.outgoing.gone(&gone);
            self.outgoing(replica, steps);
        }
    }

    // ---- reading after an index

    fn reading(&mut self, replica: usize, reading: Reading) {
        if self.defect == PlantedDefect::NoIndex {
            return self.answer(replica, reading, true);
        }
        let known = &mut self.replicas[replica];
        let local = known.clock(self.now);
        let commands = known.reads.read(reading, local);
        self.index(replica, commands);
        self.arrive(replica, 60 * MILLI, Arrival::Wake);
    }

    fn drive_reads(&mut self, replica: usize) {
        let known = &mut self.replicas[replica];
        let local = known.clock(self.now);
        let commands = known.reads.drive(local);
        self.index(replica, commands);
    }

    fn index(&mut self, replica: usize, commands: Vec<IndexCommand<Reading>>) {
        for command in commands {
            match command {
                IndexCommand::Ask(ask) => {
                    let incarnation = self.replicas[replica].id.incarnation;
                    let delay = self.delay();
                    let applied = self.replicas[replica].fold.applied_position();
                    if !self.replicas[replica].cut {
                        self.after(delay, WorldEvent::AskHead { replica, incarnation, ask, applied });
                    }
                }
                IndexCommand::Answer { reader, confirmed } => self.answer(replica, reader, confirmed),
            }
        }
    }

    fn answer(&mut self, replica: usize, reading: Reading, confirmed: bool) {
        let point = self.replicas[replica].point();
        let delay = self.delay();
        match reading {
            Reading::List { client, request, told } => {
                self.checks.listed(client, told, point, confirmed);
                self.after(delay, WorldEvent::Answered { client, request, point });
            }
            Reading::Listen { client, connection } => {
                self.replicas[replica].followers.insert((client, connection));
                self.after(delay, WorldEvent::Connected { client, connection });
            }
        }
    }

    fn head(&mut self, replica: usize, ask: HeadAsk, head: usize, heard: Micros, applied: u64) {
        let spread = self.random.between(0, 200 * MILLI);
        let known = &mut self.replicas[replica];
        let local = known.clock(self.now);
        let sequence = known.fold.sequence_at(head as u64);
        let answer = HeadAnswer { head: sequence, majority_heard: Duration::from_micros(heard) };
        let lost = known.fold.has_lost(head as u64, applied);
        let (asked, commands) = known.reads.head(ask, answer, local + Duration::from_micros(spread), local);
        if let Some(asked) = asked {
            known.members.head_confirmed(asked, sequence);
            if lost {
                self.log_lost(replica);
            }
            // The end of the log is further than was read: the reader is asked to hurry.
            self.poll(replica, 0);
        }
        self.index(replica, commands);
        if self.weather == WorldWeather::Calm && self.replicas[replica].reads.waiting() > 0 {
            // A driver that goes by the deadline of its reads would ask now; elsewhere being late shows more.
            self.arrive(replica, 2 * MILLI, Arrival::Wake);
        }
    }

    // ---- the log

    /// The log is not the one that was read.
    fn log_lost(&mut self, replica: usize) {
        let known = &mut self.replicas[replica];
        if !known.fold.is_seeking() {
            known.fold.seek_genesis();
            known.genesis_at = self.now + 5 * SECOND;
            self.poll(replica, 0);
        }
    }

    /// Whoever read most begins the log anew; if nobody does, anybody.
    fn begin_log(&mut self, replica: usize) {
        let known = &mut self.replicas[replica];
        if !known.fold.is_seeking() || self.defect == PlantedDefect::NoGenesis {
            return;
        }
        if self.random.chance(50) {
            known.fold.seek_genesis();
            return self.poll(replica, 0);
        }
        if known.genesis_at > self.now && !known.is_furthest() {
            return;
        }
        let state = known.fold.state().clone();
        self.appends += 1;
        let append = self.appends;
        let bytes = BlobHash::of(&append.to_le_bytes());
        let (entry, after) = known.fold.genesis(bytes, known.floor());
        self.states.insert(bytes, state);
        let written = Written { entry, bytes, writer: replica, append, after: Some(after) };
        let delay = self.delay();
        self.leave(replica, delay, WorldEvent::Append { from: replica, written: Arc::new(written) });
    }

    fn read_log(&mut self, replica: usize) {
        if self.replicas[replica].cut {
            return;
        }
        for _ in 0..8 {
            let position = self.replicas[replica].fold.next_position();
            if position > self.bus.visible(replica) as u64 {
                return;
            }
            let written = Arc::clone(&self.bus.log[usize::try_from(position).unwrap() - 1]);
            self.apply(replica, position, &written);
        }
        self.poll(replica, 200);
    }

    /// What the defects of the void rules make of an entry.
    fn misjudged(&self, replica: usize, entry: &FleetEntry) -> Option<FleetEntry> {
        let state = self.replicas[replica].fold.state();
        let mut entry = entry.clone();
        match (self.defect, &mut entry) {
            (PlantedDefect::NoFencing, FleetEntry::Offer { server, epoch, n, .. }) => {
                let known = state.servers().get(server)?;
                (*epoch, *n) = (known.epoch, if known.epoch == *epoch { *n } else { known.offers + 1 });
            }
            (PlantedDefect::CopiesHold, FleetEntry::Offer { server, n, .. }) => {
                *n = state.servers().get(server)?.offers + 1;
            }
            (PlantedDefect::OwnJudgement, FleetEntry::Own { server, epoch, .. }) if replica == 0 => {
                *epoch = state.servers().get(server)?.epoch;
            }
            (PlantedDefect::AnyVersion, FleetEntry::Registry { version, .. }) => *version = state.set_version() + 1,
            (PlantedDefect::HalfBatch, FleetEntry::Registry { steps, .. }) => steps.truncate(2),
            _ => return None,
        }
        Some(entry)
    }

    fn apply(&mut self, replica: usize, position: u64, written: &Written) {
        self.drive_change(replica);
        let misjudged = self.misjudged(replica, &written.entry);
        let entry = misjudged.as_ref().unwrap_or(&written.entry);
        let owner = self.owner_wrote(replica, written);
        let effect = self.replicas[replica].fold.apply(position, entry, written.bytes);
        let local = self.replicas[replica].clock(self.now);
        match &effect {
            EntryEffect::Skipped | EntryEffect::ReadAnew => return,
            EntryEffect::NeedsState { state, generation, base } => {
                self.begin_anew(replica, position, *state, *generation, *base, written.bytes);
            }
            _ => {}
        }
        let point = self.replicas[replica].point();
        let digest = self.replicas[replica].fold.state().digest();
        let id = self.replicas[replica].id.clone();
        self.checks.applied(&id, point, digest, written, &effect, owner);
        let held = !matches!(effect, EntryEffect::Void(_));
        self.set_applied(replica, &written.entry, held, point);
        self.took_effect(replica, entry, &effect, point);
        let commands = self.replicas[replica].reads.applied(point.sequence, local);
        self.index(replica, commands);
    }

    fn owner_wrote(&self, replica: usize, written: &Written) -> Option<(usize, bool)> {
        let FleetEntry::Offer { server, epoch, .. } = &written.entry else { return None };
        let known = self.replicas[replica].fold.state().servers().get(server)?;
        Some((written.writer, known.epoch == *epoch))
    }

    fn begin_anew(
        &mut self,
        replica: usize,
        position: u64,
        state: BlobHash,
        generation: u64,
        base: LogSequence,
        bytes: BlobHash,
    ) {
        self.checks.counts.beginnings += 1;
        let state = self.states[&state].clone();
        let known = &mut self.replicas[replica];
        let local = known.clock(self.now);
        known.fold.begin_anew(position, generation, base, state, bytes);
        known.members.begun_anew(base);
        let under_way = known.registry.forget();
        let commands = known.reads.begun_anew(base, local);
        for (name, process) in &mut known.processes {
            known.commits.forget(name);
            process.marked = true;
        }
        self.index(replica, commands);
        if under_way {
            self.answer_change(replica, ChangeAnswer::Unknown);
        }
        let point = self.replicas[replica].point();
        self.owe(replica, point);
    }

    fn took_effect(&mut self, replica: usize, entry: &FleetEntry, effect: &EntryEffect, point: LogPoint) {
        if replica == 0 && matches!(effect, EntryEffect::Owned { former: Some(_), .. }) {
            self.checks.counts.moves += 1;
        }
        match effect {
            EntryEffect::SetChanged => self.owe(replica, point),
            EntryEffect::Offered { server, changed } => {
                self.checks.counts.changes += u64::from(replica == 0 && *changed);
                if *changed {
                    self.owe(replica, point);
                }
                self.server_applied(replica, server);
            }
            EntryEffect::Owned { server, .. } => self.server_applied(replica, server),
            EntryEffect::Void(_) => {
                if let FleetEntry::Offer { server, .. } | FleetEntry::Own { server, .. } = entry {
                    self.server_applied(replica, server);
                }
            }
            EntryEffect::Echoed { servers, set } => {
                self.checks.counts.echoes += u64::from(replica == 0);
                if let FleetEntry::Echo { from, to } = entry {
                    self.replicas[replica].reads.echo_applied(point.sequence, *from, *to);
                }
                if *set || !servers.is_empty() {
                    self.owe(replica, point);
                }
            }
            EntryEffect::Decided(_) | EntryEffect::NeedsState { .. } | EntryEffect::ReadAnew | EntryEffect::Skipped => {
            }
        }
    }

    pub(crate) fn owe(&mut self, replica: usize, point: LogPoint) {
        let followers: Vec<(usize, u64)> = self.replicas[replica].followers.iter().copied().collect();
        // The stream of a client keeps its order, so all notices take the same time.
        let delay = MILLI;
        for (client, connection) in followers {
            if self.clients[client].connection == connection {
                self.after(delay, WorldEvent::Notice { client, connection, point });
            } else {
                self.replicas[replica].followers.remove(&(client, connection));
            }
        }
    }
}
