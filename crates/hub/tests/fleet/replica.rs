//! One simulated replica: the machines, and what they would have driven.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use tidings_hub::fleet::fold::FleetFold;
use tidings_hub::fleet::frames::{ExchangeId, FleetFrame, OpenFrame};
use tidings_hub::fleet::incoming::IncomingExchanges;
use tidings_hub::fleet::index_reads::{HeadAsk, IndexReads};
use tidings_hub::fleet::members::{FleetMembers, ReplicaBeat};
use tidings_hub::fleet::offer_commits::OfferCommits;
use tidings_hub::fleet::outgoing::OutgoingExchanges;
use tidings_hub::fleet::ownership::FleetOwnership;
use tidings_hub::fleet::registry_commits::RegistryCommits;
use tidings_hub::fleet::{BlobHash, FleetServerName, LogSequence, OwnerEpoch, ReplicaId};

use crate::bus::Micros;
use crate::defects::PlantedDefect;
use crate::placement::labels_of;

pub(crate) const READERS: usize = 4096;
pub(crate) const EXCHANGES: usize = 4096;

/// Why somebody reads the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reading {
    List { client: usize, request: u64, told: LogPoint },
    Listen { client: usize, connection: u64 },
}

/// A place in the history, comparable also where the log began anew.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct LogPoint {
    pub(crate) generation: u64,
    pub(crate) sequence: LogSequence,
}

/// What arrives at a replica.
#[derive(Clone, Debug)]
pub(crate) enum Arrival {
    Beat(ReplicaBeat),
    Frame { from: ReplicaId, exchange: ExchangeId, frame: FleetFrame },
    NoResponders { number: u64, opening: bool },
    Head { ask: HeadAsk, head: usize, heard: Micros, applied: u64 },
    Read(Reading),
    Call { call: usize },
    Rehearsed { change: usize },
    Listed { server: FleetServerName, epoch: OwnerEpoch, content: u64 },
    Ran { exchange: ExchangeId, messages: u64 },
    StartFailed { server: FleetServerName, process: u64 },
    StartAgain { server: FleetServerName, process: u64 },
    Ended { server: FleetServerName },
    Poll,
    Wake,
}

/// A process of a server.
#[derive(Clone, Debug)]
pub(crate) struct ServerProcess {
    pub(crate) epoch: OwnerEpoch,
    /// It said that its lists changed, and nobody looked yet.
    pub(crate) marked: bool,
    pub(crate) listing: bool,
    pub(crate) id: u64,
    /// It did not start, and is tried again.
    pub(crate) failing: bool,
    /// It was told to end.
    pub(crate) ending: bool,
    /// Once it has ended, it is started again for this epoch.
    pub(crate) starts_after: Option<OwnerEpoch>,
}

impl ServerProcess {
    pub(crate) fn new(epoch: OwnerEpoch) -> Self {
        Self { epoch, marked: true, listing: false, id: 0, failing: false, ending: false, starts_after: None }
    }
}

/// A call that waits for an owner, or for an answer.
#[derive(Clone, Debug)]
pub(crate) struct WaitingCall {
    pub(crate) call: usize,
    pub(crate) until: Micros,
    pub(crate) exchange: Option<u64>,
}

/// How it is with the process of a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProcessState {
    Up,
    Paused,
    Dead,
}

pub(crate) struct SimulatedReplica {
    pub(crate) id: ReplicaId,
    pub(crate) state: ProcessState,
    /// Cut from the bus.
    pub(crate) cut: bool,
    pub(crate) fold: FleetFold,
    pub(crate) members: FleetMembers,
    pub(crate) ownership: FleetOwnership,
    pub(crate) reads: IndexReads<Reading>,
    pub(crate) outgoing: OutgoingExchanges,
    pub(crate) incoming: IncomingExchanges,
    pub(crate) commits: OfferCommits,
    pub(crate) registry: RegistryCommits,
    /// The change of the set that somebody waits for.
    pub(crate) change: Option<usize>,
    pub(crate) processes: BTreeMap<FleetServerName, ServerProcess>,
    pub(crate) calls: Vec<WaitingCall>,
    pub(crate) followers: BTreeSet<(usize, u64)>,
    pub(crate) later: Vec<(ExchangeId, OpenFrame)>,
    /// What came while the process was stopped.
    pub(crate) backlog: VecDeque<Arrival>,
    pub(crate) beats: u64,
    pub(crate) next_beat: Micros,
    pub(crate) genesis_at: Micros,
    /// It was stopped, and does not know yet what happened meanwhile.
    pub(crate) resuming: bool,
    labels: Vec<String>,
    clock: SkewedClock,
}

/// A clock that goes up to 5 % too fast or too slow.
#[derive(Clone, Copy)]
struct SkewedClock {
    base: Instant,
    per_thousand: u64,
}

impl SimulatedReplica {
    pub(crate) fn new(
        index: usize,
        incarnation: u64,
        base: Instant,
        per_thousand: u64,
        fold: FleetFold,
        defect: PlantedDefect,
    ) -> Self {
        let labels = labels_of(index);
        // One that takes everything says so of itself alone.
        let believed = match defect {
            PlantedDefect::IgnoresLabels => vec!["even".to_owned(), "odd".to_owned(), "nowhere".to_owned()],
            _ => labels.clone(),
        };
        let id = ReplicaId { name: format!("replica-{index}").into(), incarnation };
        Self {
            id: id.clone(),
            state: ProcessState::Up,
            cut: false,
            fold,
            members: FleetMembers::new(id.clone()),
            ownership: FleetOwnership::new(id.clone(), believed, BlobHash::default()),
            reads: IndexReads::new(READERS),
            outgoing: OutgoingExchanges::new(id.clone()),
            incoming: IncomingExchanges::new(EXCHANGES),
            commits: OfferCommits::default(),
            registry: RegistryCommits::new(id),
            change: None,
            processes: BTreeMap::new(),
            calls: Vec::new(),
            followers: BTreeSet::new(),
            later: Vec::new(),
            backlog: VecDeque::new(),
            beats: 0,
            next_beat: 0,
            genesis_at: 0,
            resuming: false,
            labels,
            clock: SkewedClock { base, per_thousand },
        }
    }

    /// What the replica's own clock says.
    pub(crate) fn clock(&self, now: Micros) -> Instant {
        self.clock.base + Duration::from_micros(now * self.clock.per_thousand / 1000)
    }

    pub(crate) fn point(&self) -> LogPoint {
        LogPoint { generation: self.fold.state().generation(), sequence: self.fold.state().sequence() }
    }

    pub(crate) fn beat(&mut self, now: Micros) -> ReplicaBeat {
        self.beats += 1;
        let local = self.clock(now);
        self.members.beat_sent(self.beats, local);
        ReplicaBeat {
            replica: self.id.clone(),
            number: self.beats,
            applied: self.fold.state().sequence(),
            generation: self.fold.state().generation(),
            digest: self.fold.state().digest(),
            config: BlobHash::default(),
            labels: self.labels.clone(),
            unfit: self.ownership.unfit(local),
            format: 1,
            leaving: false,
        }
    }

    /// Whether this replica knows most of what was read, among those who are there.
    pub(crate) fn is_furthest(&self) -> bool {
        let state = self.fold.state();
        let mine = (state.generation(), state.sequence(), &self.id.name);
        self.members.live().all(|beat| (beat.generation, beat.applied, &beat.replica.name) < mine)
    }

    /// The highest sequence that anybody read.
    pub(crate) fn floor(&self) -> LogSequence {
        self.members.live().map(|beat| beat.applied).max().unwrap_or_default()
    }
}
