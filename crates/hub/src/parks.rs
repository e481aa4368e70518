//! Calls that wait for their client in the middle: a legacy server asked something, and a modern client answers by sending its
//! request again.
//!
//! The call stays open at its server. The client gets what was asked, and a state that names the park and the round; its retry
//! brings the answers. Rounds are numbered from one. A round is *taken* once: whoever sends the same retry again is told the
//! same outcome and changes nothing. Whoever waits for the outcome of a round sits in a seat; when the last one leaves before it
//! was told, nobody wants the call any more and it is cancelled. A park that nobody comes back to ends with its time.
//!
//! Not here: how a state is sealed, and who may open it (`engine/call/seal.rs`); the call itself ([`crate::calls`]).

mod park;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tidings_wire::RawId;

use crate::LinkKey;
use crate::calls::CallId;
use park::Park;

/// A call that waits for its client. Never used twice in a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ParkId(pub u64);

/// A request of the client that waits for the outcome of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SeatId(pub u64);

/// Bounds on calls that wait for their clients.
#[derive(Clone, Copy, Debug)]
pub struct ParkLimits {
    /// Calls of one principal that may wait, or whose answers are kept.
    pub per_principal: usize,
    /// Calls of all principals together.
    pub total: usize,
    /// How long a client may take to come back with its answers.
    pub ttl: Duration,
    /// How long an answer that was given is kept for a client that sends its request again.
    pub done_ttl: Duration,
    /// Bytes of requests, questions and answers that are kept for clients, altogether. One principal may take half of them.
    pub kept_bytes: usize,
    /// How often the server of one call may ask.
    pub rounds: u32,
    /// How many questions of one call may be open at a time.
    pub questions: usize,
    /// How many requests may wait for the outcome of one round.
    pub seats: usize,
}

impl Default for ParkLimits {
    fn default() -> Self {
        Self {
            per_principal: 1_024,
            total: 16_384,
            ttl: Duration::from_secs(10 * 60),
            done_ttl: Duration::from_secs(2 * 60),
            kept_bytes: 64 << 20,
            rounds: 64,
            questions: 64,
            seats: 16,
        }
    }
}

/// A call that begins to wait.
#[derive(Clone, Debug)]
pub struct NewPark {
    /// Whose call it is: nobody else may come back to it.
    pub principal: Arc<str>,
    /// The call at its server.
    pub call: CallId,
    /// The link that the server asks over.
    pub link: LinkKey,
    /// When the call ends in any case.
    pub until: Instant,
    /// Bytes of the request, which is kept while the call is open.
    pub request: usize,
}

/// What a server wants to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AskedInput {
    /// The id as the server wrote it; the answer goes back under it.
    pub id: RawId,
    /// The method of the server's request.
    pub method: Box<str>,
    /// The entry of `inputRequests` that the client gets.
    pub request: Bytes,
}

/// What the client gets in the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParkedAnswer {
    /// The whole message, as it goes to the client.
    pub response: Bytes,
    /// The error code, if it is an error.
    pub error: Option<i64>,
}

/// What comes of a round.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SeatOutcome {
    /// The server wants to know more.
    Input {
        /// The round that the next retry answers.
        round: u32,
        /// What is asked, by the keys under which answers are expected.
        requests: Vec<(Box<str>, Bytes)>,
        /// Until when the client is to answer.
        due: Instant,
        /// Until when the call, or its answer, may be here for whoever answered in time.
        kept: Instant,
    },
    /// The answer of the call.
    Answer(Arc<ParkedAnswer>),
    /// The retry can not be taken.
    Refused(RetryFault),
}

/// How a call came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallEnd {
    /// Its server answered: what it had asked is moot.
    Answered,
    /// It was given up, and its server may wait for answers still.
    GivenUp,
}

/// Why a retry is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryFault {
    /// Its round is over: a later one was answered already.
    OlderRound,
    /// The call is not here (any more).
    Lost,
    /// The server asked too often.
    TooManyRounds,
    /// Too many wait for the same outcome.
    TooManyWaiting,
}

/// Why a call can not begin to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParkRefused {
    /// The principal, or all together, have as many as they may.
    TooMany {
        /// The bound that was reached.
        limit: usize,
    },
    /// There is no room for what is asked.
    TooMuch,
}

/// What is to be done, in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ParkCommand {
    /// A question of the server is answered.
    Answer {
        /// The link over which the server asked.
        link: LinkKey,
        /// The id of the server's request.
        id: RawId,
        /// The method of the server's request: answers and refusals differ by it.
        method: Box<str>,
        /// As the client gave it.
        response: Bytes,
    },
    /// A question of the server will not be answered.
    Refuse {
        /// The link over which the server asked.
        link: LinkKey,
        /// The id of the server's request.
        id: RawId,
        /// The method of the server's request: answers and refusals differ by it.
        method: Box<str>,
    },
    /// The server waits for the client: its silence does not count.
    Hold(CallId),
    /// The server has its answers: its silence counts again.
    Resume(CallId),
    /// Whoever waits in a seat is told, and leaves it.
    Tell {
        /// The seat of a retry.
        seat: SeatId,
        /// What came of its round.
        outcome: SeatOutcome,
    },
    /// Whoever waits in a seat is shown a notification about the call.
    Show {
        /// The seat of a retry.
        seat: SeatId,
        /// The notification, in the client's terms.
        message: Bytes,
    },
    /// Nobody wants the call any more.
    CancelUpstream {
        /// The call at its server.
        call: CallId,
        /// What its server is told.
        reason: &'static str,
    },
}

/// All calls that wait for their clients. It has one owner, behind one lock.
#[derive(Debug, Default)]
pub struct ParkTable {
    limits: ParkLimits,
    next: u64,
    // Boxed: a node of the map has room for eleven, half of them unused where ids only grow.
    parks: BTreeMap<ParkId, Box<Park>>,
    per_principal: HashMap<Arc<str>, PrincipalShare>,
    kept: usize,
    dropped: u64,
}

/// What one principal takes.
#[derive(Clone, Copy, Debug, Default)]
struct PrincipalShare {
    parks: usize,
    bytes: usize,
}

impl ParkTable {
    /// An empty table.
    pub fn new(limits: ParkLimits) -> Self {
        Self { limits, ..Self::default() }
    }

    /// A call begins to wait for its client, who gets the first round.
    pub fn open(
        &mut self,
        new: NewPark,
        asked: Vec<AskedInput>,
        now: Instant,
    ) -> Result<(ParkId, SeatOutcome, Vec<ParkCommand>), ParkRefused> {
        let theirs = self.per_principal.get(&new.principal).map_or(0, |share| share.parks);
        // An answer that its client has had is kept for a repeated retry only: it gives way to a call that waits.
        if theirs >= self.limits.per_principal && !self.forget_told(|park| park.principal == new.principal) {
            return Err(ParkRefused::TooMany { limit: self.limits.per_principal });
        }
        if self.parks.len() >= self.limits.total && !self.forget_told(|_| true) {
            return Err(ParkRefused::TooMany { limit: self.limits.total });
        }
        let bytes: usize = new.request + asked.iter().map(|asked| asked.request.len()).sum::<usize>();
        if !self.make_room(&new.principal, bytes) {
            return Err(ParkRefused::TooMuch);
        }
        self.next += 1;
        let id = ParkId(self.next);
        let share = self.per_principal.entry(Arc::clone(&new.principal)).or_default();
        share.parks += 1;
        let mut park = Box::new(Park::new(new));
        let mut commands = vec![ParkCommand::Hold(park.call)];
        commands.extend(park.add(asked, self.limits.questions));
        let outcome = park.hand_out(&self.limits, now);
        self.kept += park.bytes();
        share.bytes += park.bytes();
        self.parks.insert(id, park);
        Ok((id, outcome, commands))
    }

    /// The server of a call that waits, or runs again, asks more over this link. Where nobody can answer any more it is refused.
    pub fn asked(&mut self, id: ParkId, link: LinkKey, asked: Vec<AskedInput>, now: Instant) -> Vec<ParkCommand> {
        if self.parks.get(&id).is_none_or(|park| park.is_over()) {
            let refuse = |asked: AskedInput| ParkCommand::Refuse { link, id: asked.id, method: asked.method };
            return asked.into_iter().map(refuse).collect();
        }
        let bytes: usize = asked.iter().map(|asked| asked.request.len()).sum();
        let fits = self.has_room(id, bytes);
        self.with(id, |park, limits, commands| {
            if !fits {
                commands.extend(asked.into_iter().map(|asked| park.refusal(asked.id, asked.method)));
                return Fate::Stays;
            }
            commands.extend(park.add(asked, limits.questions));
            // While a round is out nobody waits to be told: these are part of the next one.
            if park.is_running() && park.has_questions() { park.next_round(limits, now, commands) } else { Fate::Stays }
        })
    }

    /// The server withdraws a question. Tells whether a call waits for it.
    pub fn withdrawn(&mut self, link: LinkKey, question: &RawId) -> bool {
        let Some((id, _)) = self.parks.iter().find(|(_, park)| park.link == link && park.has_asked(question)) else {
            return false;
        };
        let id = *id;
        self.with(id, |park, _, _| {
            park.withdraw(question);
            Fate::Stays
        });
        true
    }

    /// The client comes back. What becomes of it is told to its seat, now or later.
    pub fn retry(
        &mut self,
        id: ParkId,
        principal: &str,
        round: u32,
        responses: &[(Box<str>, Bytes)],
        seat: SeatId,
        now: Instant,
    ) -> Vec<ParkCommand> {
        let refused = |fault| vec![ParkCommand::Tell { seat, outcome: SeatOutcome::Refused(fault) }];
        // The state is bound to its principal; asked again here, because nobody else may ever see an answer.
        match self.parks.get(&id) {
            None => return refused(RetryFault::Lost),
            Some(park) if *park.principal != *principal => return refused(RetryFault::Lost),
            Some(_) => {}
        }
        self.with(id, |park, limits, commands| park.retry(round, responses, seat, limits, now, commands))
    }

    /// Whoever waited in a seat is gone.
    pub fn seat_gone(&mut self, id: ParkId, seat: SeatId) -> Vec<ParkCommand> {
        self.with(id, |park, _, commands| {
            park.leave(seat, commands);
            Fate::Stays
        })
    }

    /// A notification about the call. Without a seat only the newest progress is kept.
    pub fn message(&mut self, id: ParkId, message: Bytes, is_progress: bool) -> Vec<ParkCommand> {
        // Asked first: nothing of others is to be forgotten for what is not kept.
        let is_kept = is_progress && self.parks.get(&id).is_some_and(|park| park.keeps_progress());
        let is_kept = is_kept && self.has_room(id, message.len());
        let mut is_dropped = false;
        let commands = self.with(id, |park, _, commands| {
            is_dropped = park.show(message, is_kept, commands);
            Fate::Stays
        });
        self.dropped += u64::from(is_dropped);
        commands
    }

    /// How many notifications no client saw, because none was there.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// The call is over. What the client gets is kept until it has come, and a while longer.
    pub fn finished(&mut self, id: ParkId, answer: ParkedAnswer, end: CallEnd, now: Instant) -> Vec<ParkCommand> {
        // The request and the questions are not kept any more: the answer takes their place.
        let freed = self.parks.get(&id).map_or(0, |park| park.bytes());
        let fits = self.has_room(id, answer.response.len().saturating_sub(freed));
        self.with(id, |park, limits, commands| {
            if end == CallEnd::GivenUp {
                park.refuse_all(commands);
            }
            park.finish(Arc::new(answer), fits, limits, now, commands)
        })
    }

    /// The call is gone without an answer: somebody cancelled it, or everything ends.
    pub fn vanished(&mut self, id: ParkId) -> Vec<ParkCommand> {
        self.with(id, |park, _, commands| {
            park.refuse_all(commands);
            park.tell_all(&SeatOutcome::Refused(RetryFault::Lost), commands);
            Fate::Goes
        })
    }

    /// Looks whether the time of a park is over.
    pub fn expire(&mut self, id: ParkId, now: Instant) -> Vec<ParkCommand> {
        self.with(id, |park, _, commands| park.expire(now, commands))
    }

    /// When the time of a park is over; `None` when it has none, because its call runs or it is gone.
    pub fn due(&self, id: ParkId) -> Option<Instant> {
        self.parks.get(&id)?.due()
    }

    /// Whether a park is here.
    pub fn has(&self, id: ParkId) -> bool {
        self.parks.contains_key(&id)
    }

    /// How many there are, those included whose answer is kept.
    pub fn len(&self) -> usize {
        self.parks.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.parks.is_empty()
    }

    /// Bytes of requests, questions and answers that are kept.
    pub fn kept_bytes(&self) -> usize {
        self.kept
    }

    fn with(
        &mut self,
        id: ParkId,
        change: impl FnOnce(&mut Park, &ParkLimits, &mut Vec<ParkCommand>) -> Fate,
    ) -> Vec<ParkCommand> {
        let mut commands = Vec::new();
        let Some(park) = self.parks.get_mut(&id) else { return commands };
        let before = park.bytes();
        let fate = change(park, &self.limits, &mut commands);
        // Counted at one place, whatever was changed.
        self.kept = self.kept + park.bytes() - before;
        if let Some(share) = self.per_principal.get_mut(&park.principal) {
            share.bytes = share.bytes + park.bytes() - before;
        }
        if fate == Fate::Goes {
            self.forget(id);
        }
        commands
    }

    fn forget(&mut self, id: ParkId) {
        let Some(park) = self.parks.remove(&id) else { return };
        self.kept -= park.bytes();
        if let Some(share) = self.per_principal.get_mut(&park.principal) {
            share.parks -= 1;
            share.bytes -= park.bytes();
            if share.parks == 0 {
                self.per_principal.remove(&park.principal);
            }
        }
    }

    /// As [`Self::make_room`], for a call that waits here.
    fn has_room(&mut self, id: ParkId, bytes: usize) -> bool {
        let Some(principal) = self.parks.get(&id).map(|park| Arc::clone(&park.principal)) else { return false };
        self.make_room(&principal, bytes)
    }

    /// Makes room for what a principal wants to have kept; `false` when there is none. Answers that their client has got already go
    /// first: they are kept only for one that asks again. What others have not got yet never goes, so nobody may take it all.
    fn make_room(&mut self, principal: &str, bytes: usize) -> bool {
        let theirs = |table: &Self| table.per_principal.get(principal).map_or(0, |share| share.bytes);
        while theirs(self) + bytes > self.limits.kept_bytes / 2 {
            if !self.forget_told(|park| *park.principal == *principal) {
                return false;
            }
        }
        while self.kept + bytes > self.limits.kept_bytes {
            if !self.forget_told(|_| true) {
                return false;
            }
        }
        true
    }

    /// Forgets the oldest of these whose client has had its answer; `false` when there is none.
    fn forget_told(&mut self, of: impl Fn(&Park) -> bool) -> bool {
        let told = self.parks.iter().find(|(_, park)| park.was_told() && of(park)).map(|(id, _)| *id);
        told.map(|id| self.forget(id)).is_some()
    }
}

/// Whether a park stays in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Stays,
    Goes,
}
