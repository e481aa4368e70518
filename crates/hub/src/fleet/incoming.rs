//! Requests of other replicas' clients that this replica carries out.
//!
//! The bus may deliver a frame twice, and late. An exchange is taken once: its id is remembered for longer than a request may be on its
//! way, and what waited longer than that is refused.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::time::{Duration, Instant};

use super::frames::{
    ExchangeId, FaultReason, FleetFrame, FrameArrival, FrameInbox, FrameOutbox, NumberedItem, OpenFrame, RanState,
};
use super::{LogSequence, OwnerEpoch, ReplicaId};

/// A request whose sender's beat is known for longer than this waited somewhere on its way.
const OPEN_FRESH: Duration = Duration::from_secs(2);
/// How long the ids of exchanges that are over are remembered: more than [`OPEN_FRESH`], whatever clocks do.
const REMEMBERED: Duration = Duration::from_secs(10);
/// Each silent second the other side is told that the exchange goes on.
const ALIVE_EVERY: Duration = Duration::from_secs(1);

/// What this replica knows when a request arrives.
#[derive(Clone, Copy, Debug)]
pub struct OpenFacts {
    /// The epoch in which it runs the server.
    pub epoch: Option<OwnerEpoch>,
    /// How long ago the sender's beat that the request names was known here.
    pub beat_age: Option<Duration>,
    /// How far the log is applied.
    pub applied: LogSequence,
}

/// What becomes of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpenVerdict {
    /// It is in the table: say so, then carry it out.
    Run,
    /// Show it again once this sequence is applied; its sender knew more.
    Later(LogSequence),
    /// It did not run, and never will.
    Refused,
    /// It came before.
    Duplicate,
}

/// What came for an exchange.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IncomingEvent {
    /// A client's answer to a question.
    Replied(ExchangeId, Vec<u8>),
    /// Nobody waits for the answer any more.
    Cancelled(ExchangeId),
}

/// What to send, and what came.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IncomingSteps {
    /// Frames for the replicas of exchanges.
    pub send: Vec<(ExchangeId, FleetFrame)>,
    /// Events of exchanges.
    pub events: Vec<IncomingEvent>,
}

#[derive(Clone, Debug)]
struct IncomingExchange {
    outbox: FrameOutbox,
    replies: FrameInbox,
    spoke: Instant,
    ended: bool,
}

/// The exchanges that this replica carries out, and those it did lately.
#[derive(Clone, Debug)]
pub struct IncomingExchanges {
    open: BTreeMap<ExchangeId, IncomingExchange>,
    /// Ids that came before. They are not taken a second time.
    over: VecDeque<(Instant, ExchangeId)>,
    over_ids: HashSet<ExchangeId>,
    /// How many exchanges may be remembered for a further one to be taken; as many again are remembered as refused.
    bound: usize,
}

impl IncomingExchanges {
    /// None came yet.
    pub fn new(bound: usize) -> Self {
        Self { open: BTreeMap::new(), over: VecDeque::new(), over_ids: HashSet::new(), bound }
    }

    /// How many are remembered, open or over.
    pub fn remembered(&self) -> usize {
        self.open.len() + self.over.len()
    }

    /// A request arrived.
    pub fn opened(
        &mut self,
        id: &ExchangeId,
        open: &OpenFrame,
        facts: OpenFacts,
        now: Instant,
    ) -> (OpenVerdict, IncomingSteps) {
        self.forget(now);
        let mut steps = IncomingSteps::default();
        if self.open.contains_key(id) || self.over_ids.contains(id) {
            return (OpenVerdict::Duplicate, steps);
        }
        // Before anything else is judged: what waited too long is not shown again later either.
        let fresh = facts.beat_age.is_some_and(|age| age <= OPEN_FRESH);
        let reason = if !fresh {
            FaultReason::TooOld
        } else if self.remembered() >= self.bound {
            FaultReason::Busy
        } else if facts.applied < open.sequence {
            return (OpenVerdict::Later(open.sequence), steps);
        } else if facts.epoch != Some(open.epoch) {
            FaultReason::NotOwner
        } else {
            let outbox = FrameOutbox::new(open.window as usize);
            let exchange = IncomingExchange { outbox, replies: FrameInbox::default(), spoke: now, ended: false };
            self.open.insert(id.clone(), exchange);
            steps.send.push((id.clone(), FleetFrame::Taken));
            return (OpenVerdict::Run, steps);
        };
        // A second copy must not run either, even if it would be welcome by then. Where that can not be remembered, nothing is promised: whoever
        // asks after the exchange hears that it is not known.
        if self.remembered() >= self.bound.saturating_mul(2) {
            return (OpenVerdict::Refused, steps);
        }
        self.remember(id, now);
        let item = NumberedItem::Fault { ran: RanState::No, reason };
        // The first number, because nothing was sent before. There is no outbox, so it is not sent again either.
        steps.send.push((id.clone(), FleetFrame::Numbered { n: 1, item }));
        (OpenVerdict::Refused, steps)
    }

    /// Whether there is room for one more message of the server to this client.
    pub fn has_room(&self, id: &ExchangeId) -> bool {
        self.open.get(id).is_some_and(|exchange| exchange.outbox.has_room())
    }

    /// Sends something; an answer or a fault ends the exchange. Nothing is sent for one that is over.
    pub fn send(&mut self, id: &ExchangeId, item: NumberedItem, now: Instant) -> IncomingSteps {
        let mut steps = IncomingSteps::default();
        if let Some(exchange) = self.open.get_mut(id).filter(|exchange| !exchange.ended) {
            exchange.ended = item.is_end();
            exchange.spoke = now;
            steps.send.push((id.clone(), exchange.outbox.send(item)));
        }
        steps
    }

    /// A frame of the replica whose client asked.
    pub fn frame(&mut self, id: &ExchangeId, frame: FleetFrame, now: Instant) -> IncomingSteps {
        let mut steps = IncomingSteps::default();
        let Some(exchange) = self.open.get_mut(id) else {
            match frame {
                // Asked after something that is not here: it may have run, and been forgotten. The number is the one that is waited for.
                FleetFrame::Again { n } => {
                    let item = NumberedItem::Fault { ran: RanState::Perhaps, reason: FaultReason::Unknown };
                    steps.send.push((id.clone(), FleetFrame::Numbered { n, item }));
                }
                // It may be one that waits for the log: it must not run once that has come.
                FleetFrame::Cancel
                    if !self.over_ids.contains(id) && self.remembered() < self.bound.saturating_mul(2) =>
                {
                    self.remember(id, now);
                }
                _ => {}
            }
            return steps;
        };
        match frame {
            FleetFrame::Credit { n } => {
                exchange.outbox.credited(n);
                // Not when the end is sent: until it has arrived it may be asked for again.
                if exchange.ended && n >= exchange.outbox.last() {
                    self.close(id, now);
                }
            }
            FleetFrame::Again { n } => {
                let again = exchange.outbox.again(n);
                let alive = FleetFrame::Alive { n: exchange.outbox.last() };
                // Nothing is missing: the other side only wants to know whether the exchange goes on.
                let frames = if again.is_empty() { vec![alive] } else { again };
                exchange.spoke = now;
                steps.send.extend(frames.into_iter().map(|frame| (id.clone(), frame)));
            }
            FleetFrame::Numbered { n, item: NumberedItem::Reply { bytes } } => match exchange.replies.arrived(n) {
                FrameArrival::Next => {
                    steps.send.push((id.clone(), FleetFrame::Credit { n }));
                    steps.events.push(IncomingEvent::Replied(id.clone(), bytes));
                }
                // The credit for the first one was lost, or has not arrived yet.
                FrameArrival::Duplicate => steps.send.push((id.clone(), FleetFrame::Credit { n })),
                FrameArrival::Gap => {
                    steps.send.push((id.clone(), FleetFrame::Again { n: exchange.replies.next() }));
                }
            },
            FleetFrame::Cancel => {
                self.close(id, now);
                steps.events.push(IncomingEvent::Cancelled(id.clone()));
            }
            FleetFrame::Open(_)
            | FleetFrame::Taken
            | FleetFrame::Alive { .. }
            | FleetFrame::Numbered { .. }
            | FleetFrame::Said { .. } => {}
        }
        steps
    }

    fn close(&mut self, id: &ExchangeId, now: Instant) {
        if self.open.remove(id).is_some() {
            self.remember(id, now);
        }
    }

    fn remember(&mut self, id: &ExchangeId, now: Instant) {
        self.over.push_back((now, id.clone()));
        self.over_ids.insert(id.clone());
    }

    /// A replica is gone: nobody waits for what its clients asked.
    pub fn gone(&mut self, replica: &ReplicaId, now: Instant) -> IncomingSteps {
        let lost: Vec<ExchangeId> = self.open.keys().filter(|id| id.caller == *replica).cloned().collect();
        let mut steps = IncomingSteps::default();
        for id in lost {
            self.close(&id, now);
            steps.events.push(IncomingEvent::Cancelled(id));
        }
        steps
    }

    /// Says of silent exchanges that they go on, and forgets what is long over.
    pub fn tick(&mut self, now: Instant) -> IncomingSteps {
        self.forget(now);
        let mut steps = IncomingSteps::default();
        for (id, exchange) in &mut self.open {
            if now.duration_since(exchange.spoke) >= ALIVE_EVERY {
                exchange.spoke = now;
                steps.send.push((id.clone(), FleetFrame::Alive { n: exchange.outbox.last() }));
            }
        }
        steps
    }

    fn forget(&mut self, now: Instant) {
        while self.over.front().is_some_and(|(at, _)| now.duration_since(*at) > REMEMBERED) {
            if let Some((_, id)) = self.over.pop_front() {
                self.over_ids.remove(&id);
            }
        }
    }
}
