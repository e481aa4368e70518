//! A legacy server asks a modern client: the call waits at its server, and the client comes back with the answers.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use tidings_hub::LinkKey;
use tidings_hub::parks::{AskedInput, NewPark, ParkId, ParkRefused, RetryFault, SeatOutcome};
use tidings_proto::outcome::ClientAnswer;
use tidings_proto::question::{self, Needs};
use tidings_proto::refusal::RequestRefusal;
use tidings_proto::{Era, MessageSubject, PublicName, ServerMessage, code, meta, notifications};
use tidings_wire::{Frame, FrameLimits, Patch, RawId, encode_string, is_object, members};

use super::{CallRecords, Exchange, Reply, Stage};
use crate::call::QUESTIONS_GATHERED;
use crate::call::park::ParkSeat;
use crate::call::seal::{OpenedState, ParkTimes, Sealer, StateFault};
use crate::client::session::Caller;

/// How many may be gathered, and how many bytes of them.
const MOST: usize = 64;
const MOST_BYTES: usize = 8 << 20;

/// A call whose server has asked its modern client something.
#[derive(Default)]
pub(super) struct Parking {
    /// What it asked and the client was not shown yet.
    gathered: Vec<AskedInput>,
    /// When that is shown.
    until: Option<Instant>,
    /// Where it is asked.
    link: Option<LinkKey>,
    /// Set once the call waits for its client: then this exchange is followed by a task, and not by a transport.
    park: Option<ParkId>,
    /// The server has answered the call.
    pub(super) is_answered: bool,
}

impl Parking {
    pub(super) fn take_gathered(&mut self) -> Vec<AskedInput> {
        self.until = None;
        std::mem::take(&mut self.gathered)
    }
}

impl Exchange {
    /// Keeps a question of the server for the client of a call that can be parked.
    pub(super) fn keeps_question(&mut self, message: &ServerMessage) -> bool {
        // The usual message of a call is neither.
        match message.subject() {
            MessageSubject::Question => self.gather(message).is_some(),
            MessageSubject::Cancelled => self.withdraw_gathered(message),
            _ => false,
        }
    }

    fn gather(&mut self, message: &ServerMessage) -> Option<()> {
        if self.caller.era() == Era::Legacy || !self.method.may_require_input() {
            return None;
        }
        let Stage::Calling(calling) = &mut self.stage else { return None };
        // What a client did not declare is refused in its place.
        if let Err(unable) = self.waiter.abilities().allow(Needs::of_frame(message)) {
            let (server, id) = (&calling.routed.server, message.id()?);
            if server.may_log(&self.router.runtime, message.method().len()) {
                let (server, method, lacks) = (&server.plan.name, message.method(), unable.capability);
                tracing::warn!(%server, %method, lacks, "question refused: its client can not be asked this");
            }
            calling.begun = true;
            calling.live.link.send(question::refusal(&id, &message.method(), Some(unable)));
            return Some(());
        }
        let alone = self.router.pool.is_passthrough(self.caller.principal(), &calling.routed.server);
        let request = question::to_input_request(message, (!alone).then_some(&calling.routed.server.plan.name))?;
        // Without the room in which it was written: it may wait long.
        let request = Bytes::copy_from_slice(&request);
        let parking = self.parking.get_or_insert_default();
        let held: usize = parking.gathered.iter().map(|asked| asked.request.len()).sum();
        if parking.gathered.len() >= MOST || held + request.len() > MOST_BYTES {
            return None;
        }
        let asked = AskedInput { id: message.id()?, method: message.method().into(), request };
        // From here on the call may have had an effect, so it is never sent again.
        calling.begun = true;
        parking.link = Some(calling.live.key);
        parking.until.get_or_insert_with(|| Instant::now() + QUESTIONS_GATHERED);
        parking.gathered.push(asked);
        Some(())
    }

    fn withdraw_gathered(&mut self, message: &Frame) -> bool {
        let Some(parking) = &mut self.parking else { return false };
        let id = message.param(&["requestId"]).and_then(|at| RawId::from_raw(message.raw(at)));
        parking.gathered.retain(|asked| Some(&asked.id) != id.as_ref());
        if let Some(link) = parking.link {
            self.router.parks.withdraw(link, message);
        }
        true
    }

    /// Whether what a parked call ended with is the word of its server.
    pub(crate) fn is_answered(&self) -> bool {
        self.parking.as_ref().is_some_and(|parking| parking.is_answered)
    }

    /// Until when more questions are awaited, if there are some.
    pub(super) fn gathers_until(&self) -> Option<Instant> {
        self.parking.as_ref()?.until
    }

    /// What was asked and shown to nobody is refused: the server must not wait for it.
    pub(super) fn refuse_gathered(&mut self) {
        let Some(parking) = &mut self.parking else { return };
        let link = parking.link.and_then(|link| self.router.links.table.get(link));
        for asked in parking.take_gathered() {
            if let Some(link) = &link {
                link.send(question::refusal(&asked.id, &asked.method, None));
            }
        }
    }

    /// The client gets what was gathered. From now on the call is followed by a task.
    pub(super) fn park_call(&mut self) -> Result<Option<Reply>, RequestRefusal> {
        let Some(parking) = &mut self.parking else { return Ok(None) };
        let asked = parking.take_gathered();
        if let (Some(park), Some(link)) = (parking.park, parking.link) {
            self.router.park_asked(park, link, asked);
            // Not for anybody: whoever follows the call looks at the time of its park again.
            return Ok(Some(Reply::Opened));
        }
        let Stage::Calling(calling) = &self.stage else { return Ok(None) };
        let (call, link) = (calling.call, calling.live.key);
        // Everything was withdrawn: the server goes on, and its silence counts.
        if asked.is_empty() {
            return Ok(None);
        }
        // Or the call was taken out, which is noticed next.
        let Some(until) = self.router.links.in_flight.hold(call) else { return Ok(None) };
        let request = self.frame.bytes().len();
        let new = NewPark { principal: Arc::clone(&self.caller.principal().name), call, link, until, request };
        let (park, outcome) = match self.router.open_park(new, asked.clone()) {
            Ok(opened) => opened,
            Err(refused) => {
                parking.gathered = asked;
                self.refuse_gathered();
                return Err(self.give_up_unparked(refused));
            }
        };
        self.router.links.in_flight.lock().calls.release_id(call);
        let answer = self.told(outcome, park)?;
        let mut frame = self.frame.clone();
        // The request is kept once, in memory of its own: that of its connection is another's by then.
        frame.compact();
        if let Caller::Modern(caller) = &self.caller {
            self.waiter.declare(frame.slice(caller.capabilities));
        }
        let follower = Box::new(Self {
            router: Arc::clone(&self.router),
            caller: self.caller.clone(),
            frame,
            method: self.method,
            id: self.id.clone(),
            waiter: Arc::clone(&self.waiter),
            is_arriving: false,
            stage: std::mem::replace(&mut self.stage, Stage::Over),
            receipt: None,
            detour: self.detour.take(),
            driven: None,
            followed: self.followed.take(),
            // Each request of the client is recorded with its own answer, and so are its spans: this one with its questions, a later
            // one with the result.
            records: CallRecords::default(),
            // It goes on to count: its server still works on it.
            allowance: std::mem::take(&mut self.allowance),
            parking: Some(Box::new(Parking { park: Some(park), link: Some(link), ..Parking::default() })),
        });
        self.router.runtime.spawn(Arc::clone(&self.router).follow_park(follower, park));
        Ok(Some(Reply::Answer(answer)))
    }

    /// There is no room for the call to wait.
    fn give_up_unparked(&mut self, refused: ParkRefused) -> RequestRefusal {
        let mut server = String::new();
        if let Stage::Calling(calling) = &self.stage {
            server = calling.routed.server.plan.name.clone();
            if let Some(ended) = self.router.links.in_flight.give_up(calling.call) {
                self.router.links.abandon(calling.call.0, &ended, Some("too many calls wait for input"));
            }
        }
        self.leave_ghost();
        match refused {
            ParkRefused::TooMany { limit } => RequestRefusal::TooManyParked { server, limit },
            ParkRefused::TooMuch => RequestRefusal::NoRoomToPark { server },
        }
    }

    /// What the client named, to which a state of a parked call is bound: its retry names it again.
    fn asked_name(&self) -> PublicName {
        let name = self.method.name_param().and_then(|name| self.frame.param_str(&[name]));
        PublicName::new(&*name.unwrap_or_default())
    }

    /// What the state of a park is bound to. In a cluster the client may come back by another replica, for which the server is alone: then
    /// it is the server and its own name that both know.
    fn park_name(&self) -> PublicName {
        let routed = self
            .router
            .runtime
            .fleet
            .as_ref()
            .and_then(|_| self.router.route_now(&self.caller, &self.frame, self.method));
        match routed {
            Some(routed) => PublicName::new(format!("{}\n{}", routed.server.plan.name, routed.target.local.as_str())),
            None => self.asked_name(),
        }
    }

    /// Asked before the call is begun at once, on the path of every call.
    pub(super) fn may_be_retry_of_park(&self) -> bool {
        self.caller.era() == Era::Modern
            && self.frame.param(&["requestState"]).is_some_and(|at| Sealer::looks_like_state(self.frame.raw(at)))
    }

    /// The place of a retry whose call waits here. Every other state is the routing's to judge.
    pub(super) fn seat_of_retry(&self) -> Option<ParkSeat> {
        if self.detour.is_some() || !self.method.may_require_input() || !self.may_be_retry_of_park() {
            return None;
        }
        let state = self.frame.param_str(&["requestState"])?;
        let open = |state: &str, name: PublicName| self.router.sealer.open_state(state, &self.binding(&name)).ok();
        let opened = match &self.router.runtime.fleet {
            None => open(&state, self.asked_name()),
            // What another replica put around the state of this one.
            Some(_) => open(&state, self.park_name()).or_else(|| match open(&state, self.asked_name())? {
                OpenedState::Wrap { inner, .. } => open(&inner, self.park_name()),
                OpenedState::Park { .. } => None,
            }),
        };
        let Some(OpenedState::Park { park, round, is_late }) = opened else { return None };
        let responses = self.input_responses();
        Some(self.router.take_seat(park, &self.caller.principal().name, round, is_late, &responses))
    }

    /// The answers that the client gives to questions, by the key of each.
    pub(super) fn input_responses(&self) -> Vec<(Box<str>, Bytes)> {
        let bytes = self.frame.bytes();
        let given = self.frame.param(&["inputResponses"]).filter(|at| is_object(bytes, *at));
        given
            .into_iter()
            .flat_map(|at| members(bytes, at))
            .filter_map(|member| Some((member.key.text(bytes)?.into(), self.frame.slice(member.value))))
            .collect()
    }

    /// Waits for what comes of the round.
    pub(super) async fn attend(&mut self) -> Result<Option<Reply>, RequestRefusal> {
        let Stage::Attending(seat) = &mut self.stage else { return Ok(None) };
        tokio::select! {
            biased;
            // For a request that was not sent the bell has one meaning: the client has cancelled it, or is gone.
            () = self.waiter.rung() => Ok(Some(Reply::Cancelled)),
            // What was said before the answer comes before it.
            Some(message) = seat.messages.recv() => Ok(self.own_progress(message).map(Reply::Message)),
            outcome = &mut seat.outcome => {
                let (park, is_late) = (seat.park, seat.is_late);
                match outcome.unwrap_or(SeatOutcome::Refused(RetryFault::Lost)) {
                    SeatOutcome::Refused(RetryFault::Lost) if is_late => {
                        Err(RequestRefusal::InvalidState(StateFault::EXPIRED))
                    }
                    outcome => self.told(outcome, park).map(|answer| Some(Reply::Answer(answer))),
                }
            }
        }
    }

    /// The outcome of a round as the answer to this request.
    fn told(&self, outcome: SeatOutcome, park: ParkId) -> Result<ClientAnswer, RequestRefusal> {
        match outcome {
            SeatOutcome::Input { round, requests, due, kept } => {
                let now = Instant::now();
                let times =
                    ParkTimes { due: due.saturating_duration_since(now), kept: kept.saturating_duration_since(now) };
                let name = self.park_name();
                let state = self.router.sealer.seal_park(park, round, times, &self.binding(&name));
                let requests: Vec<String> = requests
                    .iter()
                    .filter_map(|(key, raw)| Some(format!("{}:{}", encode_string(key), std::str::from_utf8(raw).ok()?)))
                    .collect();
                let result = format!(
                    r#"{{"resultType":"input_required","inputRequests":{{{}}},"requestState":{}}}"#,
                    requests.join(","),
                    encode_string(&state)
                );
                Ok(ClientAnswer::result(&self.id, result.as_bytes()))
            }
            SeatOutcome::Answer(kept) => {
                let limits = FrameLimits { max_bytes: kept.response.len(), max_depth: 1_024, ..FrameLimits::default() };
                let Ok(frame) = Frame::parse(kept.response.clone(), &limits) else {
                    return Ok(ClientAnswer::error(&self.id, code::INTERNAL_ERROR, "the kept answer can not be read"));
                };
                // It was given to the request that began the call; here it answers this one.
                let mut patch = Patch::new();
                frame.set_id(&mut patch, &self.id);
                Ok(ClientAnswer { payload: patch.apply(frame.bytes()).into(), error: kept.error })
            }
            SeatOutcome::Refused(RetryFault::Lost) => Err(RequestRefusal::ParkLost),
            SeatOutcome::Refused(RetryFault::OlderRound) => {
                Err(RequestRefusal::InvalidState("a later round was answered already; answer the newest one"))
            }
            SeatOutcome::Refused(RetryFault::TooManyRounds) => {
                Err(RequestRefusal::TooManyRounds { limit: self.router.runtime.settings.parks.rounds })
            }
            SeatOutcome::Refused(RetryFault::TooManyWaiting) => {
                Err(RequestRefusal::TooMany { limit: self.router.runtime.settings.parks.seats })
            }
        }
    }

    /// A notification about the call, for this request: progress has its token, or is not wanted.
    fn own_progress(&self, message: Bytes) -> Option<Bytes> {
        let frame = Frame::parse(message.clone(), &FrameLimits::default()).ok()?;
        if !frame.has_method(notifications::PROGRESS) {
            return Some(message);
        }
        let token = meta::progress_token(&self.frame)?;
        let mut patch = Patch::new();
        let mut edit = frame.edit(frame.params()?);
        edit.set("progressToken", token.as_str().to_owned());
        edit.finish(&mut patch);
        Some(patch.apply(frame.bytes()))
    }
}
