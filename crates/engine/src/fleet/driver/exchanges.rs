//! Requests between replicas: opened once, answered in order, and never left without an end.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::time::Instant;

use bytes::Bytes;
use tidings_hub::fleet::frames::{ExchangeId, ExchangeKind, FaultReason, FleetFrame, NumberedItem, OpenFrame};
use tidings_hub::fleet::incoming::{IncomingEvent, IncomingExchanges, IncomingSteps, OpenFacts, OpenVerdict};
use tidings_hub::fleet::members::GONE_AFTER;
use tidings_hub::fleet::outgoing::{ForwardedEvent, OutgoingExchanges, OutgoingSteps};
use tidings_hub::fleet::{FleetServerName, OwnerEpoch, ReplicaId};
use tidings_proto::ServerMessage;
use tidings_upstream::{CallEvent, LinkError, MAX_MESSAGE, in_process};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::FleetDriver;
use crate::fleet::carried::CarriedWork;
use crate::fleet::desk::{ForwardOutlet, ForwardTarget, HttpEnd, HttpPiece};

/// What answers that are not whole yet may take, all together.
const GATHERED_MOST: usize = 256 << 20;
/// How many requests may wait for the log to be applied that their sender knew.
const LATER: usize = 1024;
/// How many exchanges of other replicas are remembered.
const EXCHANGES: usize = 65_536;

/// Requests of this replica's clients that other replicas carry out.
pub(super) struct ForwardedRequests {
    pub(super) outgoing: OutgoingExchanges,
    /// Where what comes back leads, by the number of the exchange.
    pub(super) outlets: HashMap<u64, OpenOutlet>,
    /// The number of the exchange by the key of whoever asked.
    pub(super) numbers: HashMap<u64, u64>,
    /// Bytes of answers that are not whole yet.
    pub(super) gathered: usize,
}

impl ForwardedRequests {
    pub(super) fn new(me: ReplicaId) -> Self {
        Self { outgoing: OutgoingExchanges::new(me), outlets: HashMap::new(), numbers: HashMap::new(), gathered: 0 }
    }
}

/// Requests of other replicas' clients that this one carries out.
pub(super) struct CarriedRequests {
    pub(super) incoming: IncomingExchanges,
    /// What ends each of them early.
    pub(super) cancels: HashMap<ExchangeId, CancellationToken>,
    /// What is to be said of each, and did not fit yet.
    pub(super) words: HashMap<ExchangeId, WaitingWord>,
    /// Requests for servers of which this replica has not read yet that it owns them.
    pub(super) later: Vec<(ExchangeId, OpenFrame)>,
}

impl CarriedRequests {
    pub(super) fn new() -> Self {
        let (cancels, words, later) = Default::default();
        Self { incoming: IncomingExchanges::new(EXCHANGES), cancels, words, later }
    }
}

/// A request that is under way to another replica.
pub(super) struct OpenOutlet {
    key: u64,
    to: ReplicaId,
    outlet: ForwardOutlet,
}

/// Something that an exchange has to say and that has no room yet.
pub(super) struct WaitingWord {
    item: NumberedItem,
    done: oneshot::Sender<bool>,
}

impl ForwardOutlet {
    /// It certainly did not run.
    pub(crate) fn not_run(self, reason: &str) {
        self.unsent(reason, HttpEnd::Unreached);
    }

    fn unsent(self, reason: &str, end: HttpEnd) {
        match self {
            Self::Call { queue, .. } => {
                // What is not there ends the link, so that the next owner is waited for; what is busy does not.
                let error = match end {
                    HttpEnd::Gone => LinkError::Unreachable(reason.to_owned()),
                    _ => LinkError::Unusable(reason.to_owned()),
                };
                queue.finish(CallEvent::Unsent(error));
            }
            Self::Http { pieces, .. } => {
                let _ = pieces.try_send(HttpPiece::End(end));
            }
        }
    }

    fn lost(self, replica: &ReplicaId) {
        match self {
            Self::Call { queue, .. } => {
                let text = format!("replica \"{}\" was lost with the call; it may have run", replica.name.as_str());
                queue.finish(CallEvent::Failed(LinkError::Broken(text)));
            }
            Self::Http { pieces, .. } => {
                let _ = pieces.try_send(HttpPiece::End(HttpEnd::Lost));
            }
        }
    }
}

impl FleetDriver {
    // ---- requests of this replica's clients

    pub(super) fn open(&mut self, key: u64, target: &ForwardTarget, bytes: &Bytes, outlet: ForwardOutlet) {
        let (to, server, epoch, kind) = match target {
            ForwardTarget::Owner(name) => {
                let known = self.fold.state().servers().get(name);
                let Some((owner, epoch)) = known.and_then(|server| Some((server.owner.clone()?, server.epoch))) else {
                    return outlet.unsent("no replica runs it", HttpEnd::Gone);
                };
                (owner, name.clone(), epoch, ExchangeKind::Call)
            }
            ForwardTarget::Process(incarnation) => {
                let beat = self.members.live().find(|beat| beat.replica.incarnation == *incarnation);
                let Some(to) = beat.map(|beat| beat.replica.clone()) else {
                    // Whoever has just come may not have heard it yet.
                    let is_gone = self.members.connected_for(Instant::now()) >= GONE_AFTER;
                    return outlet
                        .unsent("its replica is gone", if is_gone { HttpEnd::Gone } else { HttpEnd::Unreached });
                };
                (to, FleetServerName::from(""), OwnerEpoch(0), ExchangeKind::Http)
            }
        };
        if to == self.local.me {
            return outlet.unsent("it moved to this replica", HttpEnd::Gone);
        }
        if !self.outward.bus.is_connected() {
            return outlet.not_run("its replica can not be reached");
        }
        let open = OpenFrame {
            kind,
            server,
            epoch,
            sequence: self.fold.state().sequence(),
            beat: self.members.returned(),
            window: 0,
            bytes: bytes.to_vec(),
        };
        let Some((number, steps)) = self.forwarded.outgoing.open(to.clone(), open, Instant::now()) else {
            return outlet.not_run("too many requests are under way to other replicas");
        };
        self.desk.counts.forwarded.fetch_add(1, Ordering::Relaxed);
        self.forwarded.outlets.insert(number, OpenOutlet { key, to, outlet });
        self.forwarded.numbers.insert(key, number);
        self.sent(steps);
    }

    pub(super) fn cancel(&mut self, key: u64) {
        let Some(number) = self.forwarded.numbers.remove(&key) else { return };
        if let Some(open) = self.forwarded.outlets.remove(&number) {
            self.let_go(&open.outlet);
        }
        let steps = self.forwarded.outgoing.cancel(number);
        self.sent(steps);
    }

    /// What was gathered of an answer takes no room any more.
    fn let_go(&mut self, outlet: &ForwardOutlet) {
        if let ForwardOutlet::Call { gathered, .. } = outlet {
            self.forwarded.gathered -= gathered.len();
        }
    }

    /// A request could not be handed to the bus.
    pub(super) fn unsent(&mut self, number: u64) {
        let steps = self.forwarded.outgoing.unsent(number);
        self.sent(steps);
    }

    pub(super) fn send(&mut self, to: ReplicaId, exchange: ExchangeId, frame: FleetFrame) {
        let opening = matches!(frame, FleetFrame::Open(_)).then_some(exchange.number);
        // A frame that is dropped is asked for again; a request is not.
        if self.outward.frames.try_send((to, exchange, frame)).is_err()
            && let Some(number) = opening
        {
            self.unsent(number);
        }
    }

    /// What the machine of outgoing exchanges wants.
    pub(super) fn sent(&mut self, steps: OutgoingSteps) {
        for (to, exchange, frame) in steps.send {
            self.send(to, exchange, frame);
        }
        for (number, event) in steps.events {
            self.came(number, event);
        }
    }

    fn came(&mut self, number: u64, event: ForwardedEvent) {
        match event {
            ForwardedEvent::Message(bytes) => {
                let Some(open) = self.forwarded.outlets.get_mut(&number) else { return };
                let is_read = match &mut open.outlet {
                    ForwardOutlet::Call { queue, .. } => match in_process::frame(bytes.into()) {
                        // A notification that finds no room is dropped, as on every link.
                        Ok(frame) => {
                            queue.push(ServerMessage::from(frame));
                            true
                        }
                        Err(_) => true,
                    },
                    ForwardOutlet::Http { pieces, is_begun } => {
                        let piece =
                            if *is_begun { HttpPiece::Body(bytes.into()) } else { HttpPiece::Head(bytes.into()) };
                        *is_begun = true;
                        pieces.try_send(piece).is_ok()
                    }
                };
                if !is_read {
                    let key = open.key;
                    self.cancel(key);
                }
            }
            ForwardedEvent::Part(bytes) => {
                let Some(open) = self.forwarded.outlets.get_mut(&number) else { return };
                let ForwardOutlet::Call { gathered, .. } = &mut open.outlet else { return };
                gathered.extend_from_slice(&bytes);
                self.forwarded.gathered += bytes.len();
                if gathered.len() > MAX_MESSAGE || self.forwarded.gathered > GATHERED_MOST {
                    let (key, error) =
                        (open.key, "answers of other replicas take more memory than is set aside for them");
                    if let Some(open) = self.closed(number)
                        && let ForwardOutlet::Call { queue, .. } = open.outlet
                    {
                        queue.finish(CallEvent::Failed(LinkError::Unusable(error.to_owned())));
                    }
                    self.forwarded.numbers.insert(key, number);
                    self.cancel(key);
                }
            }
            ForwardedEvent::Answered(bytes) => {
                let Some(open) = self.closed(number) else { return };
                match open.outlet {
                    ForwardOutlet::Call { queue, mut gathered } => {
                        gathered.extend_from_slice(&bytes);
                        let end =
                            in_process::frame(gathered.into()).map_or_else(CallEvent::Failed, CallEvent::Response);
                        queue.finish(end);
                    }
                    ForwardOutlet::Http { pieces, .. } => {
                        let _ = pieces.try_send(HttpPiece::End(HttpEnd::Whole));
                    }
                }
            }
            ForwardedEvent::NotRun(reason) => {
                self.desk.counts.not_run.fetch_add(1, Ordering::Relaxed);
                if let Some(open) = self.closed(number) {
                    let is_gone = match (reason, &open.outlet) {
                        (FaultReason::NoReplica, _) => self.outward.bus.is_connected(),
                        // It runs elsewhere by now.
                        (FaultReason::NotOwner, ForwardOutlet::Call { .. }) => true,
                        _ => false,
                    };
                    open.outlet.unsent(words(reason), if is_gone { HttpEnd::Gone } else { HttpEnd::Unreached });
                }
            }
            ForwardedEvent::PerhapsRun(_) => {
                self.desk.counts.lost.fetch_add(1, Ordering::Relaxed);
                if let Some(open) = self.closed(number) {
                    open.outlet.lost(&open.to);
                }
            }
        }
    }

    fn closed(&mut self, number: u64) -> Option<OpenOutlet> {
        let open = self.forwarded.outlets.remove(&number)?;
        self.forwarded.numbers.remove(&open.key);
        self.let_go(&open.outlet);
        Some(open)
    }

    // ---- requests of other replicas' clients

    pub(super) fn frame(&mut self, from: &ReplicaId, exchange: ExchangeId, frame: FleetFrame) {
        let now = Instant::now();
        if exchange.caller == self.local.me {
            let steps = self.forwarded.outgoing.frame(from, exchange.number, frame, now);
            return self.sent(steps);
        }
        match frame {
            FleetFrame::Open(open) => self.opened(exchange, open),
            FleetFrame::Said { server, bytes } => self.said_elsewhere(&server, bytes.into()),
            frame => {
                let steps = self.carried.incoming.frame(&exchange, frame, now);
                self.took(steps);
                self.say_waiting(&exchange);
            }
        }
    }

    fn opened(&mut self, exchange: ExchangeId, open: OpenFrame) {
        let now = Instant::now();
        let facts = OpenFacts {
            // A session is no server, and has no owner but its home.
            epoch: if open.kind == ExchangeKind::Http { Some(open.epoch) } else { self.ownership.serves(&open.server) },
            beat_age: self.members.beat_age(&exchange.caller, open.beat, now),
            applied: self.fold.state().sequence(),
        };
        let (verdict, steps) = self.carried.incoming.opened(&exchange, &open, facts, now);
        self.took(steps);
        match verdict {
            OpenVerdict::Run => {
                let cancelled = CancellationToken::new();
                self.carried.cancels.insert(exchange.clone(), cancelled.clone());
                self.desk.counts.carried.fetch_add(1, Ordering::Relaxed);
                let (desk, kind, server) = (self.desk.clone(), open.kind, open.server);
                let bytes = open.bytes.into();
                self.effects.carry_out(CarriedWork { exchange, kind, server, bytes, desk, cancelled });
            }
            OpenVerdict::Later(_) if self.carried.later.len() < LATER => self.carried.later.push((exchange, open)),
            // Its sender asks after it, and hears that it is not known.
            OpenVerdict::Later(_) | OpenVerdict::Refused | OpenVerdict::Duplicate => {}
        }
    }

    /// The log moved on: requests whose senders knew more may be judged now.
    pub(super) fn try_later(&mut self) {
        let applied = self.fold.state().sequence();
        let (ready, waiting) =
            std::mem::take(&mut self.carried.later).into_iter().partition(|(_, open)| open.sequence <= applied);
        self.carried.later = waiting;
        let ready: Vec<(ExchangeId, OpenFrame)> = ready;
        for (exchange, open) in ready {
            self.opened(exchange, open);
        }
    }

    /// What the machine of incoming exchanges wants.
    pub(super) fn took(&mut self, steps: IncomingSteps) {
        for (exchange, frame) in steps.send {
            self.send(exchange.caller.clone(), exchange, frame);
        }
        for event in steps.events {
            match event {
                IncomingEvent::Cancelled(exchange) => {
                    if let Some(cancelled) = self.carried.cancels.remove(&exchange) {
                        cancelled.cancel();
                    }
                    if let Some(waiting) = self.carried.words.remove(&exchange) {
                        let _ = waiting.done.send(false);
                    }
                }
                // Modern clients answer by asking again.
                IncomingEvent::Replied(..) => {}
            }
        }
    }

    pub(super) fn say(&mut self, exchange: &ExchangeId, item: NumberedItem, done: oneshot::Sender<bool>) {
        if !self.carried.cancels.contains_key(exchange) {
            let _ = done.send(false);
            return;
        }
        // Whoever says something waits for it, so there is one at a time.
        self.carried.words.insert(exchange.clone(), WaitingWord { item, done });
        self.say_waiting(exchange);
    }

    fn say_waiting(&mut self, exchange: &ExchangeId) {
        if !self.carried.incoming.has_room(exchange) {
            return;
        }
        let Some(WaitingWord { item, done }) = self.carried.words.remove(exchange) else { return };
        if item.is_end() {
            self.carried.cancels.remove(exchange);
        }
        let steps = self.carried.incoming.send(exchange, item, Instant::now());
        self.took(steps);
        let _ = done.send(true);
    }
}

fn words(reason: FaultReason) -> &'static str {
    match reason {
        FaultReason::NotOwner => "its replica does not run it any more",
        FaultReason::TooOld => "the request waited too long on its way",
        FaultReason::Busy => "its replica, or the way to it, has too much to do",
        FaultReason::NoReplica | FaultReason::ReplicaLost | FaultReason::Unknown => "its replica is gone",
    }
}
