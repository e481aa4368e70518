//! Calls that wait for their clients: the table of them, who follows each, and who waits for what comes of it.
//!
//! A parked call is followed by a task of its own, which owns the exchange that began it. A retry of the client takes a seat and
//! is told what the task finds. The rules are the hub's ([`tidings_hub::parks`]); what they say is carried out here.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use bytes::Bytes;
use tidings_hub::parks::{
    AskedInput, CallEnd, NewPark, ParkCommand, ParkId, ParkLimits, ParkRefused, ParkTable, ParkedAnswer, SeatId,
    SeatOutcome,
};
use tidings_hub::{IdMap, LinkKey};
use tidings_proto::{notifications, question};
use tidings_wire::{Frame, FrameLimits, RawId};
use tokio::sync::{mpsc, oneshot};

use crate::call::RequestRouter;
use crate::call::exchange::{Exchange, Reply};

/// How many notifications may wait for whoever sits in a seat; more are dropped, as for every slow client.
const SHOWN: usize = 32;

/// The table and the seats, behind a lock of their own under which no other is taken but that of the calls in flight.
pub(crate) struct ParkRoom(Mutex<SeatedParks>);

struct SeatedParks {
    table: ParkTable,
    seats: IdMap<SeatId, SeatSender>,
    next_seat: u64,
}

struct SeatSender {
    outcome: oneshot::Sender<SeatOutcome>,
    messages: mpsc::Sender<Bytes>,
}

/// A retry that waits for what comes of its round. Leaving it before that gives the call up, if nobody else waits.
pub(crate) struct ParkSeat {
    router: Arc<RequestRouter>,
    pub(crate) park: ParkId,
    seat: SeatId,
    pub(crate) outcome: oneshot::Receiver<SeatOutcome>,
    pub(crate) messages: mpsc::Receiver<Bytes>,
    /// Its round was to be answered before.
    pub(crate) is_late: bool,
}

impl ParkRoom {
    pub(crate) fn new(limits: ParkLimits) -> Self {
        let table = ParkTable::new(limits);
        Self(Mutex::new(SeatedParks { table, seats: IdMap::default(), next_seat: 0 }))
    }

    fn lock(&self) -> MutexGuard<'_, SeatedParks> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The server withdraws what it asked. Tells whether a call waits for that.
    pub(crate) fn withdraw(&self, link: LinkKey, message: &Frame) -> bool {
        let id = message.param(&["requestId"]).and_then(|at| RawId::from_raw(message.raw(at)));
        id.is_some_and(|id| self.lock().table.withdrawn(link, &id))
    }

    /// How many notifications about calls that wait no client saw.
    pub(crate) fn dropped(&self) -> u64 {
        self.lock().table.dropped()
    }

    fn due(&self, park: ParkId) -> Option<Instant> {
        self.lock().table.due(park)
    }
}

impl SeatedParks {
    /// Tells the seats what they are to be told. What is left is to be done without the lock.
    fn tell(&mut self, commands: Vec<ParkCommand>) -> Vec<ParkCommand> {
        let mut left = Vec::new();
        for command in commands {
            match command {
                ParkCommand::Tell { seat, outcome } => {
                    // Whoever left in this moment does not hear it, and gave its seat up before the table knew.
                    if let Some(sender) = self.seats.remove(&seat) {
                        let _ = sender.outcome.send(outcome);
                    }
                }
                ParkCommand::Show { seat, message } => {
                    if let Some(sender) = self.seats.get(&seat) {
                        let _ = sender.messages.try_send(message);
                    }
                }
                other => left.push(other),
            }
        }
        left
    }
}

impl RequestRouter {
    /// Changes the table and does what follows.
    fn change_parks(&self, change: impl FnOnce(&mut ParkTable) -> Vec<ParkCommand>) {
        let left = {
            let mut state = self.parks.lock();
            let commands = change(&mut state.table);
            self.set_clocks(state.tell(commands))
        };
        self.obey(left);
    }

    /// Stops and starts the clocks of calls, and gives what is left to be done. Under the lock of the table: of two changes the
    /// later one must not be obeyed first.
    fn set_clocks(&self, mut commands: Vec<ParkCommand>) -> Vec<ParkCommand> {
        commands.retain(|command| {
            match command {
                ParkCommand::Hold(call) => _ = self.links.in_flight.hold(*call),
                ParkCommand::Resume(call) => self.links.in_flight.resume(*call, Instant::now()),
                _ => return true,
            }
            false
        });
        commands
    }

    fn obey(&self, commands: Vec<ParkCommand>) {
        let send = |link: LinkKey, bytes: Bytes| {
            // A link that is gone has nobody who waits for it.
            if let Some(link) = self.links.table.get(link) {
                link.send(bytes);
            }
        };
        for command in commands {
            match command {
                ParkCommand::Answer { link, id, method, response } => {
                    send(link, question::answer_to_server(&id, &response, &method));
                }
                ParkCommand::Refuse { link, id, method } => send(link, question::refusal(&id, &method, None)),
                ParkCommand::CancelUpstream { call, reason } => {
                    // Whoever follows the call finds it gone, and ends.
                    if let Some(ended) = self.links.in_flight.give_up(call) {
                        self.links.abandon(call.0, &ended, Some(reason));
                    }
                }
                ParkCommand::Hold(_) | ParkCommand::Resume(_) | ParkCommand::Tell { .. } | ParkCommand::Show { .. } => {
                }
            }
        }
    }

    /// A call begins to wait for its client; gives what the client is to be told.
    pub(crate) fn open_park(&self, new: NewPark, asked: Vec<AskedInput>) -> Result<(ParkId, SeatOutcome), ParkRefused> {
        let (park, outcome, left) = {
            let mut state = self.parks.lock();
            let (park, outcome, commands) = state.table.open(new, asked, Instant::now())?;
            (park, outcome, self.set_clocks(state.tell(commands)))
        };
        self.obey(left);
        Ok((park, outcome))
    }

    /// The server of a parked call asks more.
    pub(crate) fn park_asked(&self, park: ParkId, link: LinkKey, asked: Vec<AskedInput>) {
        self.change_parks(|table| table.asked(park, link, asked, Instant::now()));
    }

    /// A client comes back with its answers.
    pub(crate) fn take_seat(
        self: &Arc<Self>,
        park: ParkId,
        principal: &str,
        round: u32,
        is_late: bool,
        responses: &[(Box<str>, Bytes)],
    ) -> ParkSeat {
        let (outcome, told) = oneshot::channel();
        let (messages, shown) = mpsc::channel(SHOWN);
        let (seat, left) = {
            let mut state = self.parks.lock();
            state.next_seat += 1;
            let seat = SeatId(state.next_seat);
            state.seats.insert(seat, SeatSender { outcome, messages });
            let commands = state.table.retry(park, principal, round, responses, seat, Instant::now());
            (seat, self.set_clocks(state.tell(commands)))
        };
        self.obey(left);
        ParkSeat { router: Arc::clone(self), park, seat, outcome: told, messages: shown, is_late }
    }

    /// Follows a call that waits for its client, until what the client gets need not be kept any more.
    pub(crate) async fn follow_park(self: Arc<Self>, mut exchange: Box<Exchange>, park: ParkId) {
        let stop = self.runtime.stop.clone();
        loop {
            let reply = tokio::select! {
                biased;
                () = stop.cancelled() => Reply::Cancelled,
                reply = exchange.next() => reply,
                () = until(self.parks.due(park)) => {
                    // If the time is over the call is given up, and the exchange says so.
                    self.change_parks(|table| table.expire(park, Instant::now()));
                    continue;
                }
            };
            match reply {
                // A question may have begun a time of waiting: it is looked at again above.
                Reply::Opened | Reply::Interrupted(_) => {}
                Reply::Message(message) => {
                    let is_progress = Frame::parse(message.clone(), &FrameLimits::default())
                        .is_ok_and(|frame| frame.has_method(notifications::PROGRESS));
                    self.change_parks(|table| table.message(park, message, is_progress));
                }
                Reply::Answer(answer) | Reply::Forbidden { answer, .. } => {
                    let kept = ParkedAnswer { response: answer.payload.to_bytes(), error: answer.error };
                    let end = if exchange.is_answered() { CallEnd::Answered } else { CallEnd::GivenUp };
                    self.change_parks(|table| table.finished(park, kept, end, Instant::now()));
                    break;
                }
                Reply::Cancelled => {
                    self.change_parks(|table| table.vanished(park));
                    break;
                }
            }
        }
        // Its memory is not needed while the answer is kept.
        drop(exchange);
        while let Some(due) = self.parks.due(park) {
            tokio::select! {
                () = stop.cancelled() => return,
                () = until(Some(due)) => self.change_parks(|table| table.expire(park, Instant::now())),
            }
        }
    }
}

async fn until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due.into()).await,
        None => std::future::pending().await,
    }
}

impl Drop for ParkSeat {
    fn drop(&mut self) {
        let (park, seat) = (self.park, self.seat);
        self.router.parks.lock().seats.remove(&seat);
        self.router.change_parks(|table| table.seat_gone(park, seat));
    }
}
