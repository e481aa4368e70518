//! The world that replicas live in: what happens when, to whom, and what clients do.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};
use std::sync::Arc;
use std::time::Instant;

use tidings_hub::fleet::entry::{FleetEntry, IsolationRule, PlacedServer};
use tidings_hub::fleet::fold::{FleetFold, FleetState};
use tidings_hub::fleet::index_reads::HeadAsk;
use tidings_hub::fleet::{BlobHash, FleetServerName, ReplicaId};

use crate::bus::{MILLI, Micros, SECOND, SimulatedBus, Written};
use crate::calm::TellingTimes;
use crate::checks::WorldChecks;
use crate::defects::PlantedDefect;
use crate::placement::BrokenStarts;
use crate::random::SeededRandom;
use crate::registry::SimulatedChange;
use crate::replica::{Arrival, LogPoint, ProcessState, Reading, SimulatedReplica};

/// What happens in a world beside what clients do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WorldWeather {
    /// Everything goes wrong.
    Faults,
    /// Nothing does, and the bus is as quick as it was measured.
    Calm,
}

/// How large a world is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WorldSize {
    pub(crate) weather: WorldWeather,
    pub(crate) replicas: usize,
    pub(crate) servers: usize,
    pub(crate) clients: usize,
    pub(crate) steps: u64,
}

#[derive(Debug)]
pub(crate) enum WorldEvent {
    Tick { replica: usize, incarnation: u64 },
    Arrive { replica: usize, incarnation: u64, arrival: Arrival },
    Between { from: usize, to: ReplicaId, copy: bool, arrival: Arrival },
    Append { from: usize, written: Arc<Written> },
    AskHead { replica: usize, incarnation: u64, ask: HeadAsk, applied: u64 },
    Fault,
    Join(usize),
    JoinBus,
    Resume { replica: usize, incarnation: u64 },
    Restart(usize),
    Upset,
    ProcessEnded { replica: usize, incarnation: u64, server: FleetServerName, process: Option<u64> },
    Change,
    Register,
    NewCall,
    Notice { client: usize, connection: u64, point: LogPoint },
    Answered { client: usize, request: u64, point: LogPoint },
    Impatient { client: usize, request: u64, connection: u64 },
    Connect(usize),
    Connected { client: usize, connection: u64 },
}

struct QueuedEvent {
    at: Micros,
    number: u64,
    event: WorldEvent,
}

impl PartialEq for QueuedEvent {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}
impl Eq for QueuedEvent {}
impl PartialOrd for QueuedEvent {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for QueuedEvent {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}

#[derive(Default)]
pub(crate) struct SimulatedClient {
    pub(crate) home: Option<ReplicaId>,
    pub(crate) connection: u64,
    pub(crate) connected: bool,
    pub(crate) noticed: LogPoint,
    pub(crate) told: LogPoint,
    pub(crate) last_list: LogPoint,
    pub(crate) request: u64,
    pub(crate) listing: bool,
    pub(crate) again: bool,
}

pub(crate) struct SimulatedCall {
    pub(crate) server: FleetServerName,
    pub(crate) sent: Micros,
    /// `Some(true)`: its client was told that it did not run.
    pub(crate) ended: Option<bool>,
}

pub(crate) struct SimulatedWorld {
    pub(crate) defect: PlantedDefect,
    pub(crate) random: SeededRandom,
    pub(crate) now: Micros,
    pub(crate) bus: SimulatedBus,
    pub(crate) replicas: Vec<SimulatedReplica>,
    pub(crate) clients: Vec<SimulatedClient>,
    pub(crate) calls: Vec<SimulatedCall>,
    /// What each server would list.
    pub(crate) truth: BTreeMap<FleetServerName, u64>,
    /// The same for servers that were added, or were to be.
    pub(crate) added: BTreeMap<FleetServerName, u64>,
    pub(crate) changes: Vec<SimulatedChange>,
    pub(crate) states: HashMap<BlobHash, FleetState>,
    pub(crate) checks: WorldChecks,
    pub(crate) appends: u64,
    /// Labels that servers ask for, as the last file has them.
    pub(crate) placements: BTreeMap<FleetServerName, Vec<String>>,
    pub(crate) broken: BrokenStarts,
    /// Processes of servers that were started.
    pub(crate) processes: u64,
    pub(crate) quiet: bool,
    pub(crate) weather: WorldWeather,
    pub(crate) times: TellingTimes,
    queue: BinaryHeap<Reverse<QueuedEvent>>,
    queued: u64,
    base: Instant,
    incarnations: u64,
    /// Sent while disconnected, and still to come.
    held: Vec<(usize, WorldEvent)>,
}

/// Every fourth of what the file names is a watch, called as the server before it is.
fn seat_name(place: usize) -> FleetServerName {
    match place % 4 {
        3 => FleetServerName::watch(&format!("server-{}", place - 1)),
        _ => format!("server-{place}").as_str().into(),
    }
}

impl SimulatedWorld {
    pub(crate) fn new(seed: u64, size: WorldSize, defect: PlantedDefect) -> Self {
        let mut world = Self {
            defect,
            random: SeededRandom::new(seed),
            now: 0,
            bus: SimulatedBus::new(),
            replicas: Vec::new(),
            clients: Vec::new(),
            calls: Vec::new(),
            truth: BTreeMap::new(),
            added: BTreeMap::new(),
            changes: Vec::new(),
            states: HashMap::new(),
            checks: WorldChecks::default(),
            appends: 0,
            placements: BTreeMap::new(),
            broken: BrokenStarts::new(),
            processes: 0,
            quiet: false,
            weather: size.weather,
            times: TellingTimes::default(),
            queue: BinaryHeap::new(),
            queued: 0,
            base: Instant::now(),
            incarnations: 0,
            held: Vec::new(),
        };
        world.truth = (0..size.servers).map(|place| (seat_name(place), 1)).collect();
        let entry = world.plan(1);
        let written = Written { entry, bytes: BlobHash::of(b"plan"), writer: 0, append: 0, after: None };
        world.bus.log.push(Arc::new(written));
        for index in 0..size.replicas {
            let replica = world.process(index, FleetFold::default());
            world.replicas.push(replica);
            world.start(index);
        }
        for client in 0..size.clients {
            world.clients.push(SimulatedClient::default());
            world.after(client as u64 * MILLI, WorldEvent::Connect(client));
        }
        let begins = match size.weather {
            WorldWeather::Faults => {
                use WorldEvent::{Change, Fault, NewCall, Register, Upset};
                vec![Fault, Upset, Change, NewCall, Register]
            }
            WorldWeather::Calm => vec![WorldEvent::Change],
        };
        begins.into_iter().for_each(|event| world.after(SECOND, event));
        world
    }

    pub(crate) fn plan(&self, version: u64) -> FleetEntry {
        let planned = |name: &FleetServerName| PlacedServer {
            name: name.clone(),
            definition: BlobHash::default(),
            placement: self.placement_of(name),
            on_isolation: self.isolation_of(name),
        };
        let servers = self.truth.keys().map(planned).collect();
        FleetEntry::Plan { version, config: BlobHash::default(), servers }
    }

    /// Every third server is one of which there may be only one.
    pub(crate) fn isolation_of(&self, name: &FleetServerName) -> IsolationRule {
        // Those of the file count by their place, and added ones by the number in their name.
        let number = || name.written().rsplit('-').next().and_then(|digits| digits.parse().ok()).unwrap_or_default();
        let place = self.truth.keys().position(|known| known == name).unwrap_or_else(number);
        if place % 3 == 0 { IsolationRule::Stop } else { IsolationRule::Keep }
    }

    fn process(&mut self, index: usize, fold: FleetFold) -> SimulatedReplica {
        self.incarnations += 1;
        let skew = self.random.between(950, 1051);
        SimulatedReplica::new(index, self.incarnations, self.base, skew, fold, self.defect)
    }

    fn start(&mut self, replica: usize) {
        let incarnation = self.replicas[replica].id.incarnation;
        let within = self.random.between(0, 100 * MILLI);
        self.after(within, WorldEvent::Tick { replica, incarnation });
        self.poll(replica, 0);
    }

    pub(crate) fn after(&mut self, delay: Micros, event: WorldEvent) {
        self.queued += 1;
        self.queue.push(Reverse(QueuedEvent { at: self.now + delay, number: self.queued, event }));
    }

    pub(crate) fn poll(&mut self, replica: usize, delay: Micros) {
        self.arrive(replica, delay, Arrival::Poll);
    }

    /// Something reaches a replica, from its own process or a client.
    pub(crate) fn arrive(&mut self, replica: usize, delay: Micros, arrival: Arrival) {
        let incarnation = self.replicas[replica].id.incarnation;
        self.after(delay, WorldEvent::Arrive { replica, incarnation, arrival });
    }

    /// Mostly below a millisecond, sometimes much more.
    pub(crate) fn delay(&mut self) -> Micros {
        if self.weather == WorldWeather::Calm {
            return self.random.between(100, 3 * MILLI);
        }
        match self.random.below(100) {
            0 => self.random.between(100 * MILLI, 1200 * MILLI),
            1..5 => self.random.between(5 * MILLI, 100 * MILLI),
            _ => self.random.between(100, 3 * MILLI),
        }
    }

    /// A message to a replica. Some come twice, some never; one that is sent while disconnected may come later.
    pub(crate) fn send(&mut self, from: usize, to: ReplicaId, arrival: Arrival) {
        if self.random.chance(5) {
            return;
        }
        let delay = self.delay();
        // Of a message that is delivered twice, the bus says of neither that nobody was there.
        let copy = self.random.chance(20);
        if copy {
            let delay = self.delay();
            self.after(delay, WorldEvent::Between { from, to: to.clone(), copy, arrival: arrival.clone() });
        }
        let event = WorldEvent::Between { from, to, copy, arrival };
        self.leave(from, delay, event);
    }

    pub(crate) fn leave(&mut self, from: usize, delay: Micros, event: WorldEvent) {
        if !self.replicas[from].cut {
            self.after(delay, event);
        } else if self.random.chance(200) {
            self.held.push((from, event));
        }
    }

    pub(crate) fn append(&mut self, from: usize, entry: FleetEntry) -> u64 {
        self.appends += 1;
        self.append_again(from, entry, self.appends);
        self.appends
    }

    pub(crate) fn append_again(&mut self, from: usize, entry: FleetEntry, append: u64) {
        let bytes = BlobHash::of(&append.to_le_bytes());
        let delay = self.delay();
        let after = None;
        let written = Arc::new(Written { entry, bytes, writer: from, append, after });
        self.leave(from, delay, WorldEvent::Append { from, written });
    }

    fn step(&mut self) -> bool {
        let Some(Reverse(QueuedEvent { at, event, .. })) = self.queue.pop() else { return false };
        self.now = at;
        self.checks.counts.steps += 1;
        self.happen(event);
        true
    }

    /// Lives for so many steps, heals, and sees that everything comes to rest. The error says what did not hold.
    pub(crate) fn live(&mut self, steps: u64) -> Result<(), String> {
        for _ in 0..steps {
            self.step();
            if let Some(violation) = self.checks.violation.take() {
                return Err(violation);
            }
        }
        self.heal();
        // Where a server did not start is forgotten after a minute: only then it is surely where it can.
        let rest = self.now + 75 * SECOND;
        while self.now < rest && self.step() {
            if let Some(violation) = self.checks.violation.take() {
                return Err(violation);
            }
        }
        self.at_rest()
    }

    fn happen(&mut self, event: WorldEvent) {
        match event {
            WorldEvent::Tick { replica, incarnation } => self.ticked(replica, incarnation),
            WorldEvent::Arrive { replica, incarnation, arrival } => {
                if self.replicas[replica].id.incarnation == incarnation {
                    self.arrived(replica, arrival);
                } else if let Arrival::Call { call } = arrival {
                    self.calls[call].ended = Some(true);
                }
            }
            WorldEvent::Between { from, to, copy, arrival } => self.delivered(from, &to, copy, arrival),
            WorldEvent::Append { from, written } => self.appended(from, &written),
            WorldEvent::AskHead { replica, incarnation, ask, applied } => {
                self.asked(replica, incarnation, ask, applied);
            }
            WorldEvent::Fault => self.fault(),
            WorldEvent::Join(replica) => self.join(replica),
            WorldEvent::JoinBus => {
                self.bus.heal(self.now);
                self.poll_all();
            }
            WorldEvent::Resume { replica, incarnation } => self.resume(replica, incarnation),
            WorldEvent::Restart(replica) => self.restart(replica),
            WorldEvent::Upset => self.upset(),
            WorldEvent::ProcessEnded { replica, incarnation, server, process } => {
                self.process_gone(replica, incarnation, &server, process);
            }
            WorldEvent::Change => self.change(),
            WorldEvent::Register => self.register(),
            WorldEvent::NewCall => self.new_call(),
            WorldEvent::Notice { client, connection, point } => self.noticed(client, connection, point),
            WorldEvent::Answered { client, request, point } => self.answered(client, request, point),
            WorldEvent::Impatient { client, request, connection } => self.impatient(client, request, connection),
            WorldEvent::Connect(client) => self.connect(client),
            WorldEvent::Connected { client, connection } => self.connected(client, connection),
        }
    }

    fn ticked(&mut self, replica: usize, incarnation: u64) {
        let known = &self.replicas[replica];
        if known.id.incarnation != incarnation || known.state == ProcessState::Dead {
            return;
        }
        if known.state == ProcessState::Up {
            self.tick(replica);
        }
        let next = self.random.between(80 * MILLI, 120 * MILLI);
        self.after(next, WorldEvent::Tick { replica, incarnation });
    }

    fn delivered(&mut self, from: usize, to: &ReplicaId, copy: bool, arrival: Arrival) {
        let Some(target) = self.replicas.iter().position(|replica| replica.id.name == to.name) else { return };
        if self.replicas[from].cut || !self.bus.joins(from, target) {
            return;
        }
        let there = &self.replicas[target];
        if there.id != *to || there.state == ProcessState::Dead {
            // Whoever is not subscribed is refused; right after a kill a message may vanish.
            if let Arrival::Frame { exchange, frame, .. } = arrival
                && !copy
                && exchange.caller == self.replicas[from].id
                && self.random.chance(800)
            {
                let opening = matches!(frame, tidings_hub::fleet::frames::FleetFrame::Open(_));
                let delay = self.delay();
                self.arrive(from, delay, Arrival::NoResponders { number: exchange.number, opening });
            }
            return;
        }
        if !there.cut {
            self.arrived(target, arrival);
        }
    }

    fn appended(&mut self, from: usize, written: &Arc<Written>) {
        if self.replicas[from].cut {
            return;
        }
        if !self.bus.commits(from, self.now) {
            // A leader that is not one yet may take it later.
            if self.random.chance(500) {
                let delay = self.random.between(SECOND, 6 * SECOND);
                self.after(delay, WorldEvent::Append { from, written: Arc::clone(written) });
            }
            return;
        }
        if written.after.is_some_and(|after| after != self.bus.log.len() as u64) {
            return;
        }
        self.bus.log.push(Arc::clone(written));
        self.times.written(self.bus.log.len(), self.now);
        self.checks.counts.entries += 1;
        if self.random.chance(20) {
            let delay = self.delay();
            self.after(delay, WorldEvent::Append { from, written: Arc::clone(written) });
        }
        self.poll_all();
    }

    pub(crate) fn poll_all(&mut self) {
        for replica in 0..self.replicas.len() {
            let delay = self.delay();
            self.poll(replica, delay);
        }
    }

    fn asked(&mut self, replica: usize, incarnation: u64, ask: HeadAsk, applied: u64) {
        if self.replicas[replica].cut {
            return;
        }
        let jitter = self.random.between(0, 500 * MILLI);
        if let Some((head, heard)) = self.bus.head(replica, self.now, jitter) {
            let heard = if self.defect == PlantedDefect::AnyLeader { 0 } else { heard };
            let delay = self.delay();
            let arrival = Arrival::Head { ask, head, heard, applied };
            self.after(delay, WorldEvent::Arrive { replica, incarnation, arrival });
        }
    }

    pub(crate) fn release_held(&mut self, replica: usize) {
        let held = std::mem::take(&mut self.held);
        for (from, event) in held {
            if from == replica {
                let delay = self.delay();
                self.after(delay, event);
            } else {
                self.held.push((from, event));
            }
        }
    }

    pub(crate) fn new_process(&mut self, replica: usize) {
        let kept = &self.replicas[replica].fold;
        // Half of them kept their state.
        let fold = if self.random.chance(500) {
            FleetFold::resume(kept.state().clone(), kept.applied_position())
        } else {
            FleetFold::default()
        };
        self.replicas[replica] = self.process(replica, fold);
        self.start(replica);
    }

    pub(crate) fn read(&mut self, replica: usize, reading: Reading) {
        let delay = match self.weather {
            WorldWeather::Faults => self.delay(),
            // Of thousands that are told at one moment not all ask at the next.
            WorldWeather::Calm => self.random.between(100, 500 * MILLI),
        };
        self.arrive(replica, delay, Arrival::Read(reading));
    }
}
