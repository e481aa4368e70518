//! The one task that owns the machines of the fleet: it takes what arrives, and carries out what they decide.
//!
//! It never waits for the bus: what is written, asked or sent runs beside it and comes back as an event.

mod decisions;
mod exchanges;
mod kept_state;
mod offers;
mod old_lists;
mod said;
mod seats;
mod set_changes;
pub(crate) mod start;
mod time;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tidings_cluster::{AppendId, BusArrival, BusArrivals, FleetBus as _, LogHead, LoggedEntry, NatsBus};
use tidings_hub::fleet::entry::{FleetEntry, PlacedServer};
use tidings_hub::fleet::fold::{EntryEffect, FleetFold};
use tidings_hub::fleet::frames::{ExchangeId, FleetFrame};
use tidings_hub::fleet::index_reads::{HeadAnswer, HeadAsk, IndexCommand, IndexReads};
use tidings_hub::fleet::members::{FleetMembers, GONE_AFTER, MemberEvent};
use tidings_hub::fleet::ownership::FleetOwnership;
use tidings_hub::fleet::{BlobHash, FleetServerName, LogSequence, OwnerEpoch, ReplicaId};
use tokio::sync::{mpsc, oneshot};

use super::carried::CarriedWork;
use super::desk::{FleetDesk, FleetWish};
use super::log_reader::{LogReading, ReadEntry};
use super::offer_form::{self, OfferContent};
use super::set_change::{LoggedChange, SetGate};
use decisions::{DecisionRoom, FetchedContent};
use exchanges::{CarriedRequests, ForwardedRequests};
use kept_state::StateRoom;
use offers::OfferWrites;
use old_lists::OldLists;
use said::SaidElsewhere;
use set_changes::SetChanges;

/// How often the driver looks at the clock.
const TICK: Duration = Duration::from_millis(100);
/// The format of entries and frames that this version writes and reads.
const FORMAT: u32 = 5;

/// What the driver does to the rest of the engine.
pub(crate) trait FleetEffects: Send + Sync {
    /// What a server lists is what its owner says.
    fn show(&self, server: &FleetServerName, offer: OfferContent);
    /// Lists of these servers, or of all, may have been answered without their last change.
    fn owe_again(&self, servers: &[FleetServerName], set: bool);
    /// Looks at everything that a server lists.
    fn list_all(&self, server: &FleetServerName);
    /// Whether this replica knows how to run a server: what one refers to may be missing here.
    fn can_run(&self, server: &FleetServerName) -> bool;
    /// The set of servers changes; the gate says when that can be read.
    fn change_set(&self, change: LoggedChange, gate: SetGate);
    /// A server that runs here said something to another replica, or answered its call.
    fn said(&self, server: &str, message: Bytes);
    /// Carries out a request of another replica.
    fn carry_out(&self, work: CarriedWork);
}

/// What came of something that ran beside the driver.
enum DriverEvent {
    Head {
        ask: HeadAsk,
        answer: Option<LogHead>,
        applied: u64,
    },
    /// A request could not be sent at all.
    Unsent(u64),
    /// A change of the set was not written, for a reason that stays.
    ChangeTooLarge(u64, String),
    /// A decision was not written, for a reason that stays.
    DecisionTooLarge(u64, String),
    /// The content of a decision was asked for.
    Content(BlobHash, FetchedContent),
    /// The state up to there is kept for whoever joins, in the place of another one.
    StateKept(LogSequence, Option<BlobHash>),
}

/// All that the task owns.
struct FleetDriver {
    desk: Arc<FleetDesk>,
    effects: Arc<dyn FleetEffects>,
    outward: DriverOutward,
    local: LocalReplica,
    fold: FleetFold,
    members: FleetMembers,
    ownership: FleetOwnership,
    /// What this replica runs, also in doubt.
    running: BTreeMap<FleetServerName, OwnerEpoch>,
    reads: IndexReads<oneshot::Sender<bool>>,
    reading: LogReading,
    forwarded: ForwardedRequests,
    carried: CarriedRequests,
    offering: OfferWrites,
    set: SetChanges,
    decisions: DecisionRoom,
    states: StateRoom,
    lists: OldLists,
    said: SaidElsewhere,
}

/// Where what the driver does leads: to the bus, and back to the driver when something that ran beside it is done.
struct DriverOutward {
    bus: Arc<NatsBus>,
    events: mpsc::Sender<DriverEvent>,
    frames: mpsc::Sender<(ReplicaId, ExchangeId, FleetFrame)>,
}

/// This replica, and what keeps it from agreeing with the others.
struct LocalReplica {
    me: ReplicaId,
    /// The hash of its file's servers.
    config: BlobHash,
    /// The servers of its file.
    plan: Vec<PlacedServer>,
    /// Why the log can not be followed any further.
    trouble: Option<String>,
    /// Until when another process of the same name may be there.
    namesake_until: Option<Instant>,
    leaving: bool,
    pace: DriverPace,
}

/// What is due when, and how often it was done.
struct DriverPace {
    beats: u64,
    next_beat: Instant,
    next_plan: Instant,
    appends: u64,
    /// Since when the end of the log is known and not read.
    behind_since: Option<Instant>,
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
                is_applied = set_changes::applied(&mut self.set.applying) => self.set_applied(is_applied),
                read = self.reading.entries.recv(), if self.set.applying.is_none() => match read {
                    Some(ReadEntry::Entry { logged, contents }) => self.apply(&logged, &contents),
                    Some(ReadEntry::Stuck(why)) => self.stuck(why),
                    None => self.read_again(),
                },
                event = happened.recv() => match event {
                    Some(DriverEvent::Head { ask, answer, applied }) => self.head(ask, answer, applied),
                    Some(DriverEvent::Unsent(number)) => self.unsent(number),
                    Some(DriverEvent::ChangeTooLarge(number, why)) => self.change_too_large(number, why),
                    Some(DriverEvent::DecisionTooLarge(number, why)) => self.decision_too_large(number, why),
                    Some(DriverEvent::Content(hash, fetched)) => self.content_came(hash, fetched),
                    Some(DriverEvent::StateKept(at, replaced)) => self.state_kept(at, replaced),
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
            FleetWish::Offer { server, epoch, offer, done } => self.offered(&server, epoch, *offer, done),
            FleetWish::Change { change, done } => self.change_wished(change, done),
            FleetWish::Decisions(wish) => self.decisions_wished(wish),
            FleetWish::Open { key, target, bytes, outlet } => self.open(key, &target, &bytes, outlet),
            FleetWish::Cancel(key) => self.cancel(key),
            FleetWish::Say { exchange, item, done } => self.say(&exchange, item, done),
            FleetWish::Said(server, message) => self.pass_on(server, message),
            FleetWish::Failed(server) => {
                let commands = self.ownership.start_failed(&server, self.fold.state(), &self.members, Instant::now());
                if !commands.is_empty() {
                    tracing::info!(%server, "did not start here; another replica may try");
                }
                self.own(commands);
            }
            FleetWish::Ended(server) => {
                let commands = self.ownership.ended(&server, Instant::now());
                self.own(commands);
            }
            FleetWish::Leave(_) => {}
        }
    }

    fn arrived(&mut self, arrival: BusArrival) {
        let now = Instant::now();
        match arrival {
            BusArrival::Beat(beat) => {
                if beat.replica.name == self.local.me.name && beat.replica != self.local.me {
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
                let steps = self.forwarded.outgoing.no_responders(exchange.number, opening);
                self.sent(steps);
            }
        }
    }

    fn members_changed(&mut self, events: Vec<MemberEvent>) {
        for event in events {
            match event {
                MemberEvent::Joined(replica) => tracing::info!(replica = replica.name.as_str(), "a replica is there"),
                MemberEvent::Gone { replica, applied } => {
                    tracing::warn!(replica = replica.name.as_str(), "a replica is gone");
                    self.reads.answered_elsewhere(applied);
                    let steps = self.carried.incoming.gone(&replica, Instant::now());
                    self.took(steps);
                    let steps = self.forwarded.outgoing.gone(&replica);
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
                    let (bus, events) = (Arc::clone(&self.outward.bus), self.outward.events.clone());
                    let applied = self.fold.applied_position();
                    self.desk.tasks.spawn(async move {
                        let answer = bus.head().await.ok();
                        let _ = events.send(DriverEvent::Head { ask, answer, applied }).await;
                    });
                }
                IndexCommand::Answer { reader, confirmed } => {
                    let _ = reader.send(confirmed && self.local.trouble.is_none() && self.lists.is_whole());
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
        if self.local.trouble.as_ref() != Some(&why) {
            tracing::error!(
                why,
                "the log of the cluster can not be followed; this replica serves what it knows and commits nothing"
            );
            self.local.trouble = Some(why);
        }
    }

    /// Two with one name would take each other's servers again and again: while there are two, neither owns or commits anything.
    fn namesake(&mut self, now: Instant) {
        if self.local.namesake_until.is_none_or(|until| until < now) {
            tracing::error!(
                replica = self.local.me.name.as_str(),
                "another process has the name of this replica; `replica` of [cluster] must differ"
            );
        }
        self.local.namesake_until = Some(now + GONE_AFTER);
    }

    fn read_again(&mut self) {
        self.local.pace.behind_since = None;
        self.reading = LogReading::begin(Arc::clone(&self.outward.bus), self.fold.next_position());
    }

    fn apply(&mut self, logged: &LoggedEntry, contents: &BTreeMap<BlobHash, Bytes>) {
        if logged.position != self.fold.next_position() {
            // Of a reading that was given up.
            return;
        }
        let now = Instant::now();
        self.drive_change(now);
        let replaced = self.replaced_by(&logged.entry);
        let lists = self.lists_before(&logged.entry);
        let effect = self.fold.apply(logged.position, &logged.entry, logged.bytes);
        let sequence = self.fold.state().sequence();
        self.states.entry_read(logged.bytes);
        self.lists_after(&lists, now);
        match &effect {
            EntryEffect::Void(reason) => {
                tracing::debug!(?reason, position = logged.position, "an entry of the log is void");
                self.desk.counts.void.fetch_add(1, Ordering::Relaxed);
            }
            EntryEffect::Offered { server, .. } => {
                let offer = contents.values().next().and_then(|content| offer_form::read(content));
                self.list_read(server, offer.is_some());
                if let Some(offer) = offer {
                    self.effects.show(server, offer);
                }
            }
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
        self.decision_read(&logged.entry, &effect, replaced, now);
        if !self.takes_set(logged, !matches!(effect, EntryEffect::Void(_)), contents) {
            self.took_effect(&logged.entry);
        }
    }

    /// What an entry changed can be read: who runs what, and who waited for it.
    fn took_effect(&mut self, entry: &FleetEntry) {
        let now = Instant::now();
        match entry {
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
        let state = self.fold.state();
        let (sequence, version) = (state.sequence(), state.set_version());
        self.desk.set.applied.send_if_modified(|known| std::mem::replace(known, version) != version);
        let commands = self.reads.applied(self.decisions.told_up_to(sequence), now);
        self.index(commands);
        self.try_later();
    }

    /// Writes an entry, as often as it takes for the bus to answer; whether it held is seen when it is read.
    fn append(&mut self, entry: FleetEntry) {
        self.local.pace.appends += 1;
        let id = AppendId(format!("{:016x}-{}", self.local.me.incarnation, self.local.pace.appends));
        let bus = Arc::clone(&self.outward.bus);
        self.desk.tasks.spawn(async move {
            if let Err(error) = bus.append(&id, &entry, None).await {
                // Whoever needs it writes it again.
                tracing::debug!(%error, "an entry was not written");
            }
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
