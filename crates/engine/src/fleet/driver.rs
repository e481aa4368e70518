//! The one task that owns the machines of the fleet: it takes what arrives, and carries out what they decide.
//!
//! It never waits for the bus: what is written, asked or sent runs beside it and comes back as an event.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tidings_cluster::{
    AppendId, BusArrival, BusArrivals, BusKeys, FleetBus as _, LogHead, LoggedEntry, NatsBus, NatsSettings,
};
use tidings_hub::fleet::entry::{FleetEntry, PlacedServer};
use tidings_hub::fleet::fold::{EntryEffect, FleetFold};
use tidings_hub::fleet::frames::{ExchangeId, FleetFrame, OpenFrame};
use tidings_hub::fleet::incoming::IncomingExchanges;
use tidings_hub::fleet::index_reads::{HeadAnswer, HeadAsk, IndexCommand, IndexReads};
use tidings_hub::fleet::members::{BEAT_EVERY, FleetMembers, GONE_AFTER, MemberEvent, ReplicaBeat};
use tidings_hub::fleet::offer_commits::OfferCommits;
use tidings_hub::fleet::outgoing::OutgoingExchanges;
use tidings_hub::fleet::ownership::{FleetOwnership, OwnershipCommand};
use tidings_hub::fleet::{BlobHash, FleetServerName, LogSequence, OwnerEpoch, ReplicaId};
use tokio::sync::{mpsc, oneshot};

use super::carried::CarriedWork;
use super::desk::{FleetDesk, FleetSeat, FleetWish, LEAVE_WITHIN};
use super::driver_exchanges::{OpenOutlet, WaitingWord};
use super::driver_offers::WaitingOffer;
use super::log_reader::{LogReading, ReadEntry};
use super::offer_form::{self, OfferContent};
use super::shown::{FleetShown, ReplicaShown, ReplicaState};

const TICK: Duration = Duration::from_millis(100);
const CONNECT_AGAIN: Duration = Duration::from_secs(1);
/// The reader is made anew when the end of the log is known and not read for this long: the bus needs ten seconds to notice a lost leader.
const READ_STALLED: Duration = Duration::from_millis(500);
/// How many readers may wait for an index, and how many exchanges of others are remembered.
const READERS: usize = 65_536;
const EXCHANGES: usize = 65_536;
/// Frames that wait to be sent.
const FRAMES: usize = 8192;
/// A plan that nothing became of is written again.
const PLAN_AGAIN: Duration = Duration::from_secs(2);
/// The format of entries and frames that this version writes and reads.
const FORMAT: u32 = 1;

/// What the driver does to the rest of the engine.
pub(crate) trait FleetEffects: Send + Sync {
    /// What a server lists is what its owner says.
    fn show(&self, server: &str, offer: OfferContent);
    /// Lists of these servers, or of all, may have been answered without their last change.
    fn owe_again(&self, servers: &[FleetServerName], set: bool);
    /// Looks at everything that a server lists.
    fn list_all(&self, server: &str);
    /// Carries out a request of another replica.
    fn carry_out(&self, work: CarriedWork);
}

/// What came of something that ran beside the driver.
pub(super) enum DriverEvent {
    Head {
        ask: HeadAsk,
        answer: Option<LogHead>,
        applied: u64,
    },
    /// A request could not be sent at all.
    Unsent(u64),
}

pub(crate) struct FleetDriver {
    pub(super) desk: Arc<FleetDesk>,
    pub(super) effects: Arc<dyn FleetEffects>,
    pub(super) bus: Arc<NatsBus>,
    pub(super) me: ReplicaId,
    config: BlobHash,
    plan: Vec<PlacedServer>,
    pub(super) fold: FleetFold,
    pub(super) members: FleetMembers,
    pub(super) ownership: FleetOwnership,
    reads: IndexReads<oneshot::Sender<bool>>,
    pub(super) outgoing: OutgoingExchanges,
    pub(super) incoming: IncomingExchanges,
    pub(super) commits: OfferCommits,
    /// What this replica runs, also in doubt.
    pub(super) running: BTreeMap<FleetServerName, OwnerEpoch>,
    pub(super) offers: BTreeMap<FleetServerName, WaitingOffer>,
    pub(super) outlets: HashMap<u64, OpenOutlet>,
    pub(super) numbers: HashMap<u64, u64>,
    /// Bytes of answers that are not whole yet.
    pub(super) gathered: usize,
    pub(super) carried: HashMap<ExchangeId, tokio_util::sync::CancellationToken>,
    pub(super) words: HashMap<ExchangeId, WaitingWord>,
    pub(super) later: Vec<(ExchangeId, OpenFrame)>,
    reading: LogReading,
    behind_since: Option<Instant>,
    pub(super) events: mpsc::Sender<DriverEvent>,
    pub(super) frames: mpsc::Sender<(ReplicaId, ExchangeId, FleetFrame)>,
    beats: u64,
    next_beat: Instant,
    next_plan: Instant,
    appends: u64,
    trouble: Option<String>,
    /// Until when another process of the same name may be there.
    namesake_until: Option<Instant>,
    leaving: bool,
}

/// The plan of a replica: the servers of its file, and their hash.
pub(crate) fn config_hash(plan: &[PlacedServer]) -> BlobHash {
    let mut whole = Vec::new();
    for server in plan {
        whole.extend_from_slice(server.name.as_str().as_bytes());
        whole.push(0);
        whole.extend_from_slice(&server.definition.0);
    }
    BlobHash::of(&whole)
}

/// Connects, and drives until the replica leaves.
pub(crate) async fn run(desk: Arc<FleetDesk>, effects: Arc<dyn FleetEffects>, plan: Vec<PlacedServer>) {
    let heard = desk.heard.lock().take();
    let Some(mut wishes) = heard else { return };
    let Some((bus, arrivals)) = connect(&desk, &mut wishes).await else { return };
    let (events, happened) = mpsc::channel(1024);
    let (frames, to_send) = mpsc::channel(FRAMES);
    let bus = Arc::new(bus);
    let sending = tokio::spawn(send_frames(Arc::clone(&bus), to_send, events.clone()));
    let config = config_hash(&plan);
    let me = desk.me.clone();
    let now = Instant::now();
    let driver = FleetDriver {
        effects,
        reading: LogReading::begin(Arc::clone(&bus), 1),
        bus,
        config,
        plan,
        fold: FleetFold::default(),
        members: FleetMembers::new(me.clone()),
        ownership: FleetOwnership::new(me.clone(), Vec::new(), config),
        reads: IndexReads::new(READERS),
        outgoing: OutgoingExchanges::new(me.clone()),
        incoming: IncomingExchanges::new(EXCHANGES),
        commits: OfferCommits::default(),
        running: BTreeMap::new(),
        offers: BTreeMap::new(),
        outlets: HashMap::new(),
        numbers: HashMap::new(),
        gathered: 0,
        carried: HashMap::new(),
        words: HashMap::new(),
        later: Vec::new(),
        behind_since: None,
        events,
        frames,
        beats: 0,
        next_beat: now,
        next_plan: now + BEAT_EVERY * 3,
        appends: 0,
        trouble: None,
        namesake_until: None,
        leaving: false,
        me,
        desk,
    };
    driver.drive(wishes, arrivals, happened).await;
    sending.abort();
}

/// Tries until the bus is there. Meanwhile nothing can be confirmed or forwarded.
async fn connect(desk: &FleetDesk, wishes: &mut mpsc::Receiver<FleetWish>) -> Option<(NatsBus, BusArrivals)> {
    let keys = match BusKeys::derive(&desk.settings.secrets) {
        Ok(keys) => keys,
        Err(error) => {
            // The configuration was checked, so this is out of reach.
            tracing::error!(%error, "no cluster");
            return None;
        }
    };
    let settings = NatsSettings {
        servers: desk.settings.nats.clone(),
        name: desk.settings.name.clone(),
        replica: desk.me.clone(),
        copies: desk.settings.copies,
        keys,
    };
    let mut is_said = false;
    loop {
        let connecting = NatsBus::connect(settings.clone());
        tokio::pin!(connecting);
        let outcome = loop {
            tokio::select! {
                outcome = &mut connecting => break outcome,
                wish = wishes.recv() => if refuse(wish?) { return None },
            }
        };
        match outcome {
            Ok(connected) => return Some(connected),
            Err(error) if !is_said => {
                is_said = true;
                tracing::warn!(%error, "the bus of the cluster is not there yet; it is tried again each second");
            }
            Err(error) => tracing::debug!(%error, "the bus of the cluster is not there yet"),
        }
        let pause = tokio::time::sleep(CONNECT_AGAIN);
        tokio::pin!(pause);
        loop {
            tokio::select! {
                () = &mut pause => break,
                wish = wishes.recv() => if refuse(wish?) { return None },
            }
        }
    }
}

/// Without a bus every wish fails, by dropping what would answer it. Tells whether the replica leaves.
fn refuse(wish: FleetWish) -> bool {
    match wish {
        FleetWish::Leave(done) => {
            let _ = done.send(());
            true
        }
        FleetWish::Read(done) => {
            let _ = done.send(false);
            false
        }
        _ => false,
    }
}

/// One after the other: frames of one exchange keep their order.
async fn send_frames(
    bus: Arc<NatsBus>,
    mut frames: mpsc::Receiver<(ReplicaId, ExchangeId, FleetFrame)>,
    events: mpsc::Sender<DriverEvent>,
) {
    while let Some((to, exchange, frame)) = frames.recv().await {
        let opening = matches!(frame, FleetFrame::Open(_));
        if let Err(error) = bus.send(&to, &exchange, frame).await {
            tracing::debug!(%error, "a frame was not sent");
            if opening && events.send(DriverEvent::Unsent(exchange.number)).await.is_err() {
                return;
            }
        }
    }
}

impl FleetDriver {
    async fn drive(
        mut self,
        mut wishes: mpsc::Receiver<FleetWish>,
        mut arrivals: BusArrivals,
        mut happened: mpsc::Receiver<DriverEvent>,
    ) {
        let mut next_tick = Instant::now();
        loop {
            let wake = self.reads.deadline().map_or(next_tick, |deadline| deadline.min(next_tick));
            tokio::select! {
                arrival = arrivals.next() => match arrival {
                    Some(arrival) => self.arrived(arrival),
                    None => return,
                },
                read = self.reading.entries.recv() => match read {
                    Some(ReadEntry::Entry { logged, content }) => self.apply(&logged, content.as_deref()),
                    Some(ReadEntry::Stuck(why)) => self.stuck(why),
                    None => self.read_again(),
                },
                event = happened.recv() => match event {
                    Some(DriverEvent::Head { ask, answer, applied }) => self.head(ask, answer, applied),
                    Some(DriverEvent::Unsent(number)) => self.unsent(number),
                    None => return,
                },
                wish = wishes.recv() => match wish {
                    Some(FleetWish::Leave(done)) => {
                        self.leave().await;
                        let _ = done.send(());
                        return;
                    }
                    Some(wish) => self.wished(wish),
                    None => return,
                },
                () = tokio::time::sleep_until(wake.into()) => {
                    let commands = self.reads.drive(Instant::now());
                    self.index(commands);
                }
            }
            if Instant::now() >= next_tick {
                next_tick = Instant::now() + TICK;
                self.tick();
            }
        }
    }

    fn wished(&mut self, wish: FleetWish) {
        match wish {
            FleetWish::Read(done) => {
                let commands = self.reads.read(done, Instant::now());
                self.index(commands);
            }
            FleetWish::Offer { server, offer, done } => self.offered(&server, *offer, done),
            FleetWish::Open { key, target, bytes, outlet } => self.open(key, &target, &bytes, outlet),
            FleetWish::Cancel(key) => self.cancel(key),
            FleetWish::Say { exchange, item, done } => self.say(&exchange, item, done),
            FleetWish::Leave(_) => {}
        }
    }

    fn arrived(&mut self, arrival: BusArrival) {
        let now = Instant::now();
        match arrival {
            BusArrival::Beat(beat) => {
                if beat.replica.name == self.me.name && beat.replica != self.me {
                    self.namesake(now);
                }
                if self.fold.agrees(beat.generation, beat.applied, beat.digest) == Some(false) {
                    self.stuck("another replica read something else in the log".to_owned());
                }
                let events = self.members.heard(beat, now);
                self.members_changed(events);
            }
            BusArrival::Frame { from, exchange, frame } => self.frame(&from, exchange, frame),
            BusArrival::NoResponders { exchange, opening } => {
                let steps = self.outgoing.no_responders(exchange.number, opening);
                self.sent(steps);
            }
        }
    }

    pub(super) fn members_changed(&mut self, events: Vec<MemberEvent>) {
        for event in events {
            match event {
                MemberEvent::Joined(replica) => tracing::info!(replica = replica.name.as_str(), "a replica is there"),
                MemberEvent::Gone { replica, applied } => {
                    tracing::warn!(replica = replica.name.as_str(), "a replica is gone");
                    self.reads.answered_elsewhere(applied);
                    let steps = self.incoming.gone(&replica, Instant::now());
                    self.took(steps);
                    let steps = self.outgoing.gone(&replica);
                    self.sent(steps);
                }
            }
        }
    }

    // ---- reading after an index

    fn index(&mut self, commands: Vec<IndexCommand<oneshot::Sender<bool>>>) {
        for command in commands {
            match command {
                IndexCommand::Ask(ask) => {
                    let (bus, events) = (Arc::clone(&self.bus), self.events.clone());
                    let applied = self.fold.applied_position();
                    self.desk.tasks.spawn(async move {
                        let answer = bus.head().await.ok();
                        let _ = events.send(DriverEvent::Head { ask, answer, applied }).await;
                    });
                }
                IndexCommand::Answer { reader, confirmed } => {
                    let _ = reader.send(confirmed && self.trouble.is_none());
                }
            }
        }
    }

    fn head(&mut self, ask: HeadAsk, answer: Option<LogHead>, applied: u64) {
        let Some(LogHead { position, majority_heard }) = answer else {
            let commands = self.reads.drive(Instant::now());
            return self.index(commands);
        };
        let now = Instant::now();
        let sequence = self.fold.sequence_at(position);
        let answer = HeadAnswer { head: sequence, majority_heard };
        let (asked, commands) = self.reads.head(ask, answer, now + spread(), now);
        if let Some(asked) = asked {
            self.members.head_confirmed(asked, sequence);
            if self.fold.has_lost(position, applied) {
                self.stuck("the log of the bus lost entries that were read".to_owned());
            }
        }
        self.index(commands);
    }

    // ---- the log

    /// From here on nothing is committed or confirmed: what this replica knows and what the log says are two things.
    fn stuck(&mut self, why: String) {
        if self.trouble.as_ref() != Some(&why) {
            tracing::error!(
                why,
                "the log of the cluster can not be followed; this replica serves what it knows and commits nothing"
            );
            self.trouble = Some(why);
        }
    }

    /// Two with one name would take each other's servers again and again: while there are two, neither owns or commits anything.
    fn namesake(&mut self, now: Instant) {
        if self.namesake_until.is_none_or(|until| until < now) {
            tracing::error!(
                replica = self.me.name.as_str(),
                "another process has the name of this replica; `replica` of [cluster] must differ"
            );
        }
        self.namesake_until = Some(now + GONE_AFTER);
    }

    fn read_again(&mut self) {
        self.behind_since = None;
        self.reading = LogReading::begin(Arc::clone(&self.bus), self.fold.next_position());
    }

    fn apply(&mut self, logged: &LoggedEntry, content: Option<&[u8]>) {
        if logged.position != self.fold.next_position() {
            // Of a reading that was given up.
            return;
        }
        let effect = self.fold.apply(logged.position, &logged.entry, logged.bytes);
        let now = Instant::now();
        let sequence = self.fold.state().sequence();
        match &effect {
            EntryEffect::Void(reason) => {
                tracing::debug!(?reason, position = logged.position, "an entry of the log is void");
                self.desk.counts.void.fetch_add(1, Ordering::Relaxed);
            }
            EntryEffect::Offered { server, .. } => match content.map(offer_form::read) {
                Some(Some(offer)) => self.effects.show(server.as_str(), offer),
                _ => self.stuck(format!("what server \"{}\" lists can not be read from the bus", server.as_str())),
            },
            EntryEffect::Echoed { servers, set } => {
                self.desk.counts.echoes.fetch_add(1, Ordering::Relaxed);
                if let FleetEntry::Echo { from, to } = logged.entry {
                    self.reads.echo_applied(sequence, from, to);
                }
                if *set || !servers.is_empty() {
                    self.effects.owe_again(servers, *set);
                }
            }
            EntryEffect::NeedsState { .. } | EntryEffect::ReadAnew => {
                self.stuck("the log of the bus began anew, which this version does not follow".to_owned());
            }
            EntryEffect::Owned { .. } | EntryEffect::SetChanged | EntryEffect::Decided(_) | EntryEffect::Skipped => {}
        }
        match &logged.entry {
            FleetEntry::Offer { server, .. } | FleetEntry::Own { server, .. } => {
                self.offer_applied(server);
                let commands = self.ownership.applied(server, self.fold.state(), &self.members, now);
                self.own(commands);
            }
            FleetEntry::Plan { .. } | FleetEntry::Registry { .. } => {
                let commands = self.ownership.tick(self.fold.state(), &self.members, now);
                self.own(commands);
            }
            _ => {}
        }
        self.set_seats();
        let commands = self.reads.applied(sequence, now);
        self.index(commands);
        self.try_later();
    }

    /// Writes an entry, as often as it takes for the bus to answer; whether it held is seen when it is read.
    pub(super) fn append(&mut self, entry: FleetEntry) {
        self.appends += 1;
        let id = AppendId(format!("{:016x}-{}", self.me.incarnation, self.appends));
        let bus = Arc::clone(&self.bus);
        self.desk.tasks.spawn(async move {
            if let Err(error) = bus.append(&id, &entry, None).await {
                // Whoever needs it writes it again.
                tracing::debug!(%error, "an entry was not written");
            }
        });
    }

    // ---- who runs what

    fn own(&mut self, commands: Vec<OwnershipCommand>) {
        for command in commands {
            match command {
                OwnershipCommand::Claim { server, epoch } => {
                    let replica = Some(self.me.clone());
                    self.append(FleetEntry::Own { server, epoch, replica });
                }
                OwnershipCommand::Release { server, epoch } => {
                    self.append(FleetEntry::Own { server, epoch, replica: None });
                }
                OwnershipCommand::Start { server, epoch } => {
                    tracing::info!(server = server.as_str(), epoch = epoch.0, "is run by this replica");
                    self.running.insert(server, epoch);
                }
                OwnershipCommand::ListAll { server, epoch } => {
                    self.running.insert(server.clone(), epoch);
                    self.effects.list_all(server.as_str());
                }
                OwnershipCommand::Retire(server) | OwnershipCommand::End(server) => {
                    if self.running.remove(&server).is_some() {
                        tracing::info!(server = server.as_str(), "is not run by this replica any more");
                    }
                    self.forget_offer(&server);
                }
            }
        }
        self.set_seats();
    }

    fn set_seats(&self) {
        let seat = |(name, server): (&FleetServerName, &tidings_hub::fleet::fold::FleetServer)| {
            let seat = match (self.running.get(name), &server.owner) {
                (Some(epoch), _) => FleetSeat::Here(*epoch),
                (None, Some(owner)) if *owner != self.me => FleetSeat::Elsewhere(owner.clone(), server.epoch),
                _ => FleetSeat::Nobody,
            };
            (name.clone(), seat)
        };
        let seats: BTreeMap<FleetServerName, FleetSeat> = self.fold.state().servers().iter().map(seat).collect();
        self.desk.seats.send_if_modified(|known| {
            let differs = *known != seats;
            if differs {
                *known = seats;
            }
            differs
        });
    }

    // ---- time

    fn tick(&mut self) {
        let now = Instant::now();
        let events = self.members.tick(now);
        self.members_changed(events);
        let head = self.members.head();
        let applied = self.fold.state().sequence();
        let is_doubled = self.namesake_until.is_some_and(|until| until >= now);
        if self.trouble.is_none() && !self.leaving && !is_doubled {
            let commands = self.ownership.tick(self.fold.state(), &self.members, now);
            self.own(commands);
            self.write_offers(now);
            self.write_plan(now);
            if let Some(echo) = self.reads.echo_due(now) {
                self.append(echo);
            }
        }
        if now >= self.next_beat {
            self.next_beat = now + BEAT_EVERY;
            self.beat(now);
        }
        let commands = self.reads.drive(now);
        self.index(commands);
        let steps = self.outgoing.tick(now);
        self.sent(steps);
        let steps = self.incoming.tick(now);
        self.took(steps);
        self.behind_since = (applied < head).then(|| self.behind_since.unwrap_or(now));
        if self.behind_since.is_some_and(|since| now.duration_since(since) > READ_STALLED) {
            self.read_again();
        }
        if !self.members.is_in_doubt(now) && applied >= head && head > LogSequence(0) {
            self.desk.joined.store(true, Ordering::Relaxed);
        }
        self.show(now);
    }

    fn beat(&mut self, now: Instant) {
        self.beats += 1;
        self.members.beat_sent(self.beats, now);
        let state = self.fold.state();
        let beat = ReplicaBeat {
            replica: self.me.clone(),
            number: self.beats,
            applied: state.sequence(),
            generation: state.generation(),
            digest: state.digest(),
            config: self.config,
            labels: Vec::new(),
            format: FORMAT,
            leaving: self.leaving,
        };
        let bus = Arc::clone(&self.bus);
        self.desk.tasks.spawn(async move {
            if let Err(error) = bus.beat(&beat).await {
                tracing::debug!(%error, "a beat was not sent");
            }
        });
    }

    /// The file of most replicas is in force: one of them writes so.
    fn write_plan(&mut self, now: Instant) {
        let state = self.fold.state();
        let is_behind = state.sequence() < self.members.head();
        if now < self.next_plan
            || state.config() == Some(self.config)
            || is_behind
            || self.members.is_in_doubt(now)
            || !self.members.most_have(self.config, self.config)
        {
            return;
        }
        self.next_plan = now + PLAN_AGAIN;
        let (version, config, servers) = (state.set_version() + 1, self.config, self.plan.clone());
        self.append(FleetEntry::Plan { version, config, servers });
    }

    async fn leave(&mut self) {
        self.leaving = true;
        let owned: Vec<_> = self.running.iter().map(|(name, epoch)| (name.clone(), *epoch)).collect();
        let _ = self.ownership.leave();
        self.running.clear();
        let released = owned.into_iter().map(|(server, epoch)| {
            self.appends += 1;
            let id = AppendId(format!("{:016x}-{}", self.me.incarnation, self.appends));
            let bus = Arc::clone(&self.bus);
            async move { bus.append(&id, &FleetEntry::Own { server, epoch, replica: None }, None).await.is_ok() }
        });
        let _ = tokio::time::timeout(LEAVE_WITHIN, futures_util::future::join_all(released)).await;
        self.beat(Instant::now());
        // The beat leaves beside this.
        tokio::task::yield_now().await;
        tokio::time::sleep(TICK).await;
        self.bus.close().await;
    }

    fn show(&self, now: Instant) {
        let state = self.fold.state();
        let owned = |replica: &ReplicaId| -> Vec<String> {
            let owned = state.servers().iter().filter(|(_, server)| server.owner.as_ref() == Some(replica));
            owned.map(|(name, _)| name.as_str().to_owned()).collect()
        };
        let mine = if self.members.connected_for(now).is_zero() || !self.bus.is_connected() {
            ReplicaState::Isolated
        } else if !self.desk.joined.load(Ordering::Relaxed) {
            ReplicaState::Joining
        } else if self.trouble.is_some() || !self.reads.is_confirmed() || self.members.is_in_doubt(now) {
            ReplicaState::Unconfirmed
        } else {
            ReplicaState::Connected
        };
        let force = state.config();
        let mut replicas = vec![ReplicaShown {
            name: self.me.name.as_str().to_owned(),
            incarnation: self.me.incarnation,
            state: mine,
            applied: state.sequence().0,
            has_config: force.is_none_or(|force| force == self.config),
            servers: owned(&self.me),
            is_this: true,
        }];
        replicas.extend(self.members.live().map(|beat| ReplicaShown {
            name: beat.replica.name.as_str().to_owned(),
            incarnation: beat.replica.incarnation,
            state: if beat.leaving { ReplicaState::Leaving } else { ReplicaState::Connected },
            applied: beat.applied.0,
            has_config: force.is_none_or(|force| force == beat.config),
            servers: owned(&beat.replica),
            is_this: false,
        }));
        replicas.sort_by(|one, other| one.name.cmp(&other.name));
        self.desk.confirmed.store(mine == ReplicaState::Connected, Ordering::Relaxed);
        *self.desk.shown.lock() = Some(FleetShown {
            name: self.desk.settings.name.clone(),
            head: self.members.head().0,
            trouble: self.trouble.clone().or_else(|| {
                let is_doubled = self.namesake_until.is_some_and(|until| until >= now);
                is_doubled.then(|| format!("another process is replica \"{}\" too", self.me.name.as_str()))
            }),
            replicas,
            counts: Default::default(),
        });
    }
}

/// Replicas that owe an echo write it at different moments: mostly one covers all.
fn spread() -> Duration {
    let mut random = [0; 1];
    // What is not random is only less spread.
    let _ = getrandom::fill(&mut random);
    Duration::from_millis(u64::from(random[0]) * 200 / 255)
}
