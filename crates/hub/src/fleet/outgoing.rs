//! Requests of this replica's clients that another replica carries out.
//!
//! A request is opened once. It is sent to somebody else only if the other side said that it did not run, or if nobody was there to take
//! it; in every other case of loss its client is told that it may have run.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::frames::{
    ExchangeId, FaultReason, FleetFrame, FrameArrival, FrameInbox, FrameOutbox, NumberedItem, OpenFrame, RanState,
};
use super::{ReplicaId, members::BEAT_EVERY};

/// The most that the other side may send ahead.
const WINDOW_MOST: usize = 1 << 20;
/// What all of them together may have under way to this replica, besides one frame for each.
const WINDOW_TOTAL: usize = 32 << 20;
/// How many may be open at a time. A client's stream at another replica than that of its session is one for as long as it is open.
const OPEN_MOST: usize = 16_384;
/// The window of answers of clients to questions; they are small, and the other side takes them at once.
const REPLY_WINDOW: usize = 64 << 10;
/// A silent exchange is asked after this time whether it goes on: one missed beat.
const PROBE_AFTER: Duration = BEAT_EVERY.saturating_mul(2);

/// What came of an exchange.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ForwardedEvent {
    /// Something that precedes the answer.
    Message(Vec<u8>),
    /// A piece of the answer.
    Part(Vec<u8>),
    /// The answer, or its last piece.
    Answered(Vec<u8>),
    /// It certainly did not run, and may be opened anew.
    NotRun(FaultReason),
    /// It may have run. Its client is told so.
    PerhapsRun(FaultReason),
}

/// What to send, and what came of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OutgoingSteps {
    /// Frames, and to whom.
    pub send: Vec<(ReplicaId, ExchangeId, FleetFrame)>,
    /// Events of exchanges, by number.
    pub events: Vec<(u64, ForwardedEvent)>,
}

#[derive(Clone, Debug)]
struct OutgoingExchange {
    to: ReplicaId,
    window: usize,
    inbox: FrameInbox,
    replies: FrameOutbox,
    heard: Instant,
    probed: Instant,
}

/// The exchanges that this replica's clients wait for.
#[derive(Clone, Debug)]
pub struct OutgoingExchanges {
    me: ReplicaId,
    last: u64,
    open: BTreeMap<u64, OutgoingExchange>,
    /// What is left of the windows.
    window_left: usize,
}

impl OutgoingExchanges {
    /// None are open.
    pub fn new(me: ReplicaId) -> Self {
        Self { me, last: 0, open: BTreeMap::new(), window_left: WINDOW_TOTAL }
    }

    /// How many are open.
    pub fn len(&self) -> usize {
        self.open.len()
    }

    /// Whether none is open.
    pub fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Opens an exchange with the owner of a server. `None`: others have to end first.
    pub fn open(&mut self, to: ReplicaId, mut open: OpenFrame, now: Instant) -> Option<(u64, OutgoingSteps)> {
        if self.open.len() >= OPEN_MOST {
            return None;
        }
        // A part of what is left: few exchanges have large windows. Where nothing is left there is no window, and one frame follows the
        // other: an exchange that idles must not keep others from being opened.
        let window = (self.window_left / 8).min(WINDOW_MOST);
        self.window_left -= window;
        self.last += 1;
        let number = self.last;
        open.window = u32::try_from(window.max(1)).unwrap_or(u32::MAX);
        let id = self.id(number);
        let exchange = OutgoingExchange {
            to: to.clone(),
            window,
            inbox: FrameInbox::default(),
            replies: FrameOutbox::new(REPLY_WINDOW),
            heard: now,
            probed: now,
        };
        self.open.insert(number, exchange);
        let steps = OutgoingSteps { send: vec![(to, id, FleetFrame::Open(open))], events: Vec::new() };
        Some((number, steps))
    }

    fn id(&self, number: u64) -> ExchangeId {
        ExchangeId { caller: self.me.clone(), number }
    }

    /// A frame of the replica that carries it out.
    pub fn frame(&mut self, from: &ReplicaId, number: u64, frame: FleetFrame, now: Instant) -> OutgoingSteps {
        let id = self.id(number);
        let mut steps = OutgoingSteps::default();
        let Some(exchange) = self.open.get_mut(&number).filter(|exchange| exchange.to == *from) else {
            // It ended here. What was said of that may have been lost: the other side goes on, or keeps its answer, until it hears it.
            let said = match frame {
                FleetFrame::Numbered { n, item } if item.is_end() => Some(FleetFrame::Credit { n }),
                FleetFrame::Numbered { .. } | FleetFrame::Alive { .. } => Some(FleetFrame::Cancel),
                _ => None,
            };
            steps.send.extend(said.map(|frame| (from.clone(), id, frame)));
            return steps;
        };
        exchange.heard = now;
        match frame {
            FleetFrame::Numbered { n, item } => match exchange.inbox.arrived(n) {
                FrameArrival::Next => {
                    steps.send.push((from.clone(), id, FleetFrame::Credit { n }));
                    self.take(number, item, &mut steps);
                }
                FrameArrival::Duplicate => steps.send.push((from.clone(), id, FleetFrame::Credit { n })),
                FrameArrival::Gap => {
                    steps.send.push((from.clone(), id, FleetFrame::Again { n: exchange.inbox.next() }));
                }
            },
            FleetFrame::Alive { n } if n >= exchange.inbox.next() => {
                steps.send.push((from.clone(), id, FleetFrame::Again { n: exchange.inbox.next() }));
            }
            FleetFrame::Credit { n } => exchange.replies.credited(n),
            FleetFrame::Again { n } => {
                let again = exchange.replies.again(n);
                steps.send.extend(again.into_iter().map(|frame| (from.clone(), id.clone(), frame)));
            }
            // `Taken` only shows that the other side is there.
            FleetFrame::Taken
            | FleetFrame::Alive { .. }
            | FleetFrame::Open(_)
            | FleetFrame::Cancel
            | FleetFrame::Said { .. } => {}
        }
        steps
    }

    fn take(&mut self, number: u64, item: NumberedItem, steps: &mut OutgoingSteps) {
        if item.is_end() {
            self.end(number);
        }
        let event = match item {
            NumberedItem::Message { bytes } => ForwardedEvent::Message(bytes),
            NumberedItem::Part { bytes } => ForwardedEvent::Part(bytes),
            NumberedItem::Answer { bytes } => ForwardedEvent::Answered(bytes),
            NumberedItem::Fault { ran: RanState::No, reason } => ForwardedEvent::NotRun(reason),
            NumberedItem::Fault { ran: RanState::Perhaps, reason } => ForwardedEvent::PerhapsRun(reason),
            // Only this side sends these.
            NumberedItem::Reply { .. } => return,
        };
        steps.events.push((number, event));
    }

    fn end(&mut self, number: u64) -> Option<OutgoingExchange> {
        let ended = self.open.remove(&number)?;
        self.window_left += ended.window;
        Some(ended)
    }

    /// The client answers a question. `None`: the exchange is over, or so many answers are under way that the other side seems not to read.
    pub fn reply(&mut self, number: u64, bytes: Vec<u8>) -> Option<OutgoingSteps> {
        let id = self.id(number);
        let exchange = self.open.get_mut(&number).filter(|exchange| exchange.replies.has_room())?;
        let frame = exchange.replies.send(NumberedItem::Reply { bytes });
        Some(OutgoingSteps { send: vec![(exchange.to.clone(), id, frame)], events: Vec::new() })
    }

    /// The client went away.
    pub fn cancel(&mut self, number: u64) -> OutgoingSteps {
        let id = self.id(number);
        let send = self.end(number).map(|exchange| (exchange.to, id, FleetFrame::Cancel));
        OutgoingSteps { send: send.into_iter().collect(), events: Vec::new() }
    }

    /// The request could not be handed to the bus.
    pub fn unsent(&mut self, number: u64) -> OutgoingSteps {
        let event = self.end(number).map(|_| (number, ForwardedEvent::NotRun(FaultReason::Busy)));
        OutgoingSteps { send: Vec::new(), events: event.into_iter().collect() }
    }

    /// The bus says that nobody takes frames under that name. `opening`: of the frame that opens the exchange, which nobody got then.
    pub fn no_responders(&mut self, number: u64, opening: bool) -> OutgoingSteps {
        let mut steps = OutgoingSteps::default();
        if self.end(number).is_some() {
            let event = if opening {
                ForwardedEvent::NotRun(FaultReason::NoReplica)
            } else {
                ForwardedEvent::PerhapsRun(FaultReason::ReplicaLost)
            };
            steps.events.push((number, event));
        }
        steps
    }

    /// A replica is gone, with everything that it carried out.
    pub fn gone(&mut self, replica: &ReplicaId) -> OutgoingSteps {
        let lost = self.open.iter().filter(|(_, exchange)| exchange.to == *replica).map(|(number, _)| *number);
        let lost: Vec<u64> = lost.collect();
        let mut steps = OutgoingSteps::default();
        for number in lost {
            self.end(number);
            steps.events.push((number, ForwardedEvent::PerhapsRun(FaultReason::ReplicaLost)));
        }
        steps
    }

    /// Asks after exchanges that are silent: the bus refuses a frame to a replica that is gone, or the other side says how far it is.
    pub fn tick(&mut self, now: Instant) -> OutgoingSteps {
        let me = &self.me;
        let mut steps = OutgoingSteps::default();
        for (number, exchange) in &mut self.open {
            let silent = now.duration_since(exchange.heard.max(exchange.probed));
            if silent >= PROBE_AFTER {
                exchange.probed = now;
                let id = ExchangeId { caller: me.clone(), number: *number };
                steps.send.push((exchange.to.clone(), id, FleetFrame::Again { n: exchange.inbox.next() }));
            }
        }
        steps
    }
}
