//! What replicas say to each other about one request: numbered frames, each way with a window.
//!
//! Numbered frames arrive in order or not at all: a receiver that misses one asks for it again, and the sender keeps what was not credited
//! yet. `Open` is the exception. It is sent once, whatever becomes of it.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::{FleetServerName, LogSequence, OwnerEpoch, ReplicaId};

/// Names one exchange in the whole fleet.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ExchangeId {
    /// Whose client asked.
    pub caller: ReplicaId,
    /// Counts within that process.
    pub number: u64,
}

/// What is exchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExchangeKind {
    /// A request for a server.
    Call,
    /// A request for a session or a parked call that lives elsewhere.
    Http,
    /// A listen on the resources of one server.
    Follow,
}

/// The first frame.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenFrame {
    /// What it is.
    pub kind: ExchangeKind,
    /// For which server.
    pub server: FleetServerName,
    /// The epoch in which the receiver is thought to own it.
    pub epoch: OwnerEpoch,
    /// What the sender had applied when it chose the receiver.
    pub sequence: LogSequence,
    /// The sender's last beat that came back to it: tells how old this frame is.
    pub beat: u64,
    /// How many bytes the receiver may send before it is given credit.
    pub window: u32,
    /// The request, with what is known of the client.
    pub bytes: Vec<u8>,
}

/// One frame.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "frame", rename_all = "snake_case")]
pub enum FleetFrame {
    /// A request.
    Open(OpenFrame),
    /// It is in the table of the receiver, and was not sent to the server yet.
    Taken,
    /// Something in order.
    Numbered {
        /// One more than that of the one before it in this direction.
        n: u64,
        /// What.
        item: NumberedItem,
    },
    /// The client does not want the answer any more.
    Cancel,
    /// Everything up to this number arrived and may be forgotten.
    Credit {
        /// The number.
        n: u64,
    },
    /// The exchange goes on, and this was the last number sent.
    Alive {
        /// The number.
        n: u64,
    },
    /// Send everything from this number again.
    Again {
        /// The number.
        n: u64,
    },
    /// Of no exchange: the sender has called a server itself that the receiver runs, and passes on what only the caller hears.
    Said {
        /// The server.
        server: FleetServerName,
        /// What it said about its lists or resources; nothing where it has answered, which may have changed them.
        bytes: Vec<u8>,
    },
}

/// What has a place in the order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "item", rename_all = "snake_case")]
pub enum NumberedItem {
    /// Progress, a log message, a question of the server.
    Message {
        /// The JSON-RPC message.
        bytes: Vec<u8>,
    },
    /// A piece of an answer that is too long for one frame.
    Part {
        /// The piece.
        bytes: Vec<u8>,
    },
    /// The answer, or the last piece of it. Ends the exchange.
    Answer {
        /// The JSON-RPC message.
        bytes: Vec<u8>,
    },
    /// There will be no answer. Ends the exchange.
    Fault {
        /// Whether the server may have got the request.
        ran: RanState,
        /// Why.
        reason: FaultReason,
    },
    /// A client's answer to a question of the server.
    Reply {
        /// The JSON-RPC message.
        bytes: Vec<u8>,
    },
}

impl NumberedItem {
    /// Whether nothing comes after it.
    pub fn is_end(&self) -> bool {
        matches!(self, Self::Answer { .. } | Self::Fault { .. })
    }

    fn size(&self) -> usize {
        match self {
            Self::Message { bytes } | Self::Part { bytes } | Self::Answer { bytes } | Self::Reply { bytes } => {
                bytes.len()
            }
            Self::Fault { .. } => 1,
        }
    }
}

/// Whether a request reached its server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RanState {
    /// Certainly not: it may be sent to somebody else.
    No,
    /// Nobody knows: it is never sent again.
    Perhaps,
}

/// Why an exchange ends without an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultReason {
    /// The receiver does not own the server in that epoch, or does not know whether it still does.
    NotOwner,
    /// The request waited too long on its way.
    TooOld,
    /// The receiver has as many exchanges as it can remember.
    Busy,
    /// Nobody is there.
    NoReplica,
    /// The receiver was lost with the request.
    ReplicaLost,
    /// The receiver does not know the exchange.
    Unknown,
}

/// What is sent in one direction and was not credited yet.
#[derive(Clone, Debug)]
pub struct FrameOutbox {
    window: usize,
    kept: VecDeque<(u64, NumberedItem)>,
    bytes: usize,
    last: u64,
}

impl FrameOutbox {
    /// Nothing was sent. The window is what the other side allows.
    pub fn new(window: usize) -> Self {
        Self { window, kept: VecDeque::new(), bytes: 0, last: 0 }
    }

    /// Whether something more may be sent. What is checked is what is under way before: one frame may exceed the window, which is why
    /// frames have a bound of their own.
    pub fn has_room(&self) -> bool {
        self.bytes < self.window
    }

    /// Sends something. Whoever sends asks for room first, except for what ends an exchange.
    pub fn send(&mut self, item: NumberedItem) -> FleetFrame {
        self.last += 1;
        self.bytes += item.size();
        // Until it is credited: the bus may lose the frame that leaves now.
        self.kept.push_back((self.last, item.clone()));
        FleetFrame::Numbered { n: self.last, item }
    }

    /// The number of the last that was sent.
    pub fn last(&self) -> u64 {
        self.last
    }

    /// Bytes that were sent and not credited.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The other side has everything up to `n`.
    pub fn credited(&mut self, n: u64) {
        while self.kept.front().is_some_and(|(kept, _)| *kept <= n) {
            self.bytes -= self.kept.pop_front().map_or(0, |(_, item)| item.size());
        }
    }

    /// Everything from `n` on, once more.
    pub fn again(&self, n: u64) -> Vec<FleetFrame> {
        let from = self.kept.iter().filter(|(kept, _)| *kept >= n);
        from.map(|(n, item)| FleetFrame::Numbered { n: *n, item: item.clone() }).collect()
    }
}

/// What came in one direction.
#[derive(Clone, Debug)]
pub struct FrameInbox {
    next: u64,
}

impl Default for FrameInbox {
    fn default() -> Self {
        Self { next: 1 }
    }
}

/// What to do with a numbered frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameArrival {
    /// It is the next: take it.
    Next,
    /// It came before.
    Duplicate,
    /// Others are missing before it: ask for them.
    Gap,
}

impl FrameInbox {
    /// A frame of this number arrived.
    pub fn arrived(&mut self, n: u64) -> FrameArrival {
        match n.cmp(&self.next) {
            std::cmp::Ordering::Less => FrameArrival::Duplicate,
            std::cmp::Ordering::Greater => FrameArrival::Gap,
            std::cmp::Ordering::Equal => {
                self.next += 1;
                FrameArrival::Next
            }
        }
    }

    /// The number that is missing.
    pub fn next(&self) -> u64 {
        self.next
    }
}
