//! The hub behind one lock, with what is needed to wake whoever waits for a call.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, MutexGuard};
use std::time::Instant;

use bytes::Bytes;
use tidings_hub::calls::{BeginError, CallHistory, CallId, CallLimits, CallTable, NewCall, TrackedCall};
use tidings_hub::server_requests::{ServerRequest, ServerRequests};
use tidings_hub::{ClientKey, IdMap, LinkKey};
use tidings_proto::question::Abilities;
use tidings_proto::{Revision, ServerMessage};
use tidings_sync::Lock;
use tidings_upstream::FIRST_CALL_ID;
use tidings_wire::RawId;
use tokio::sync::Notify;

use crate::client::principal::Principal;

/// How many messages may wait beside the stream of a call.
const ASIDE: usize = 256;

/// Never held across an await.
pub(crate) struct InFlight(Lock<InFlightState>);

pub(crate) struct InFlightState {
    pub(crate) calls: CallTable,
    pub(crate) server_requests: ServerRequests,
    waiting: IdMap<CallId, Arc<Waiter>>,
    /// Requests that are not sent yet: a cancellation may come while their server is still being found.
    arriving: HashMap<(ClientKey, RawId), Arc<Waiter>>,
}

/// Whoever waits for a call, and what reached it by other ways than the call's own stream.
#[derive(Default)]
pub(crate) struct Waiter {
    /// Who makes the call.
    whose: Option<Principal>,
    /// What a modern client declares in its request, raw; empty where there is a session that knows. Locked by whoever asks the
    /// client something, which is rare.
    declared: Lock<Bytes>,
    bell: Notify,
    aside: Lock<Vec<ServerMessage>>,
    sending: Lock<Sending>,
}

/// Whether the server has heard of a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Sending {
    #[default]
    NotYet,
    Done,
    /// It was given up first.
    Never,
}

impl Waiter {
    /// For a call that somebody makes.
    pub(crate) fn of(principal: &Principal, declared: Bytes) -> Arc<Self> {
        Arc::new(Self { whose: Some(principal.clone()), declared: Lock::new(declared), ..Self::default() })
    }

    /// One for the same caller, whose call is to be sent once more.
    pub(crate) fn renewed(&self) -> Arc<Self> {
        let declared = Lock::new(self.declared.lock().clone());
        Arc::new(Self { whose: self.whose.clone(), declared, ..Self::default() })
    }

    /// The same declaration in other memory: the request that it was part of is not kept.
    pub(crate) fn declare(&self, declared: Bytes) {
        *self.declared.lock() = declared;
    }

    /// What the client of a modern request can be asked.
    pub(crate) fn abilities(&self) -> Abilities {
        // Parsed only when somebody wants to ask, which is rare; what is no JSON declares nothing.
        let declared = serde_json::from_slice(&self.declared.lock()).unwrap_or_default();
        Abilities::read(&declared, Revision::MODERN)
    }

    /// Rings when the call was ended by somebody else, or when there is something aside.
    pub(crate) async fn rung(&self) {
        self.bell.notified().await;
    }

    /// Leaves a message for whoever waits. Gives it back when there are too many.
    pub(crate) fn give(&self, message: ServerMessage) -> Option<ServerMessage> {
        let mut aside = self.aside.lock();
        if aside.len() >= ASIDE {
            return Some(message);
        }
        aside.push(message);
        // Keeps a permit: whoever is not waiting at this moment finds it later.
        self.bell.notify_one();
        None
    }

    /// Sends the request, unless it was given up before.
    pub(crate) fn send<T>(&self, send: impl FnOnce() -> T) -> Option<T> {
        // Held while the bytes are handed to the link: a cancellation that comes now waits, and is written after them.
        let mut sending = self.sending.lock();
        if *sending == Sending::Never {
            return None;
        }
        *sending = Sending::Done;
        Some(send())
    }

    /// Gives the call up. Tells whether the server knows it, and so must be told.
    fn give_up(&self) -> bool {
        let mut sending = self.sending.lock();
        if *sending == Sending::NotYet {
            *sending = Sending::Never;
        }
        *sending == Sending::Done
    }

    /// Whether nobody wants the call any more, of which the server has not heard yet.
    pub(crate) fn is_given_up(&self) -> bool {
        *self.sending.lock() == Sending::Never
    }

    pub(crate) fn take_aside(&self) -> Vec<ServerMessage> {
        std::mem::take(&mut *self.aside.lock())
    }
}

/// A call that was taken out of the table, with the questions that are moot now.
pub(crate) struct Ended {
    pub(crate) call: TrackedCall,
    /// Whether its server has heard of it.
    pub(crate) sent: bool,
    pub(crate) moot: Vec<(u64, ServerRequest)>,
}

/// A call that is to be sent elsewhere, with the questions that are moot now.
pub(crate) struct TakenBack {
    pub(crate) waiter: Arc<Waiter>,
    pub(crate) moot: Vec<(u64, ServerRequest)>,
    pub(crate) history: CallHistory,
}

/// What a cancellation meets.
pub(crate) enum Cancelled {
    Running(CallId, Box<Ended>),
    /// A request that is not sent yet, and now never will be.
    Arriving,
    Unknown,
}

/// What a client leaves behind.
pub(crate) struct Gone {
    pub(crate) calls: Vec<(CallId, Ended)>,
    pub(crate) unanswered: Vec<(u64, ServerRequest)>,
}

impl InFlight {
    pub(crate) fn new(limits: CallLimits) -> Self {
        Self(Lock::new(InFlightState {
            // Lower ids are used by the handshake, which is over before the table has calls.
            calls: CallTable::new(limits, FIRST_CALL_ID),
            server_requests: ServerRequests::default(),
            waiting: IdMap::default(),
            arriving: HashMap::new(),
        }))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, InFlightState> {
        self.0.lock()
    }

    pub(crate) fn mint(&self) -> u64 {
        self.lock().calls.mint().0
    }

    /// A request has come in; from now on it can be cancelled.
    pub(crate) fn arrive(&self, client: ClientKey, id: &RawId, waiter: &Arc<Waiter>) {
        self.lock().arriving.insert((client, id.clone()), Arc::clone(waiter));
    }

    /// Who makes a call: their name and rights, and the client. `None` when it is over, or no client's.
    pub(crate) fn caller(&self, id: CallId) -> Option<(Principal, ClientKey)> {
        let state = self.lock();
        let client = state.calls.get(id)?.client;
        Some((state.waiting.get(&id)?.whose.clone()?, client))
    }

    /// What the client of a modern call can be asked; nothing when it is over.
    pub(crate) fn abilities(&self, id: CallId) -> Abilities {
        // Cloned out, so that the JSON is not read under the lock that every call takes.
        let waiter = self.lock().waiting.get(&id).cloned();
        waiter.map(|waiter| waiter.abilities()).unwrap_or_default()
    }

    /// The server of a call waits for the client, and its silence does not count. Tells when the call ends in any case.
    pub(crate) fn hold(&self, id: CallId) -> Option<Instant> {
        self.lock().calls.hold(id)
    }

    /// The server has what it waited for: whoever follows the call looks at its new deadline.
    pub(crate) fn resume(&self, id: CallId, now: Instant) {
        let mut state = self.lock();
        state.calls.resume(id, now);
        if let Some(waiter) = state.waiting.get(&id) {
            waiter.bell.notify_one();
        }
    }

    /// A question of a server is put to a client. From then on the server waits for the client, and its silence does not count.
    /// `false` when it can not be put: the client answers nothing any more, or has too many.
    pub(crate) fn ask(&self, shown: u64, question: ServerRequest, is_silent: &AtomicBool) -> bool {
        let call = question.call;
        let mut state = self.lock();
        // Under the lock: a client that falls silent beside this either is seen here or has the question taken back.
        if is_silent.load(Ordering::Relaxed) || !state.server_requests.open(shown, question) {
            return false;
        }
        if let Some(call) = call {
            state.calls.hold(call);
        }
        true
    }

    /// A client answers a question; `None` when it was not asked, or not any more.
    pub(crate) fn question_answered(&self, client: ClientKey, id: &RawId) -> Option<ServerRequest> {
        let mut state = self.lock();
        let question = state.server_requests.answer(client, id)?;
        state.waits_no_more(question.call);
        Some(question)
    }

    /// A server withdraws a question: the id that its client knows it by.
    pub(crate) fn question_withdrawn(&self, link: LinkKey, id: &RawId) -> Option<(u64, ServerRequest)> {
        let mut state = self.lock();
        let (shown, question) = state.server_requests.withdraw(link, id)?;
        state.waits_no_more(question.call);
        Some((shown, question))
    }

    /// A client answers nothing any more: what it was asked.
    pub(crate) fn client_silent(&self, client: ClientKey, is_silent: &AtomicBool) -> Vec<(u64, ServerRequest)> {
        let mut state = self.lock();
        // Under the same lock as the questions, as in `ask`.
        is_silent.store(true, Ordering::Relaxed);
        let unanswered = state.server_requests.client_gone(client);
        for (_, question) in &unanswered {
            state.waits_no_more(question.call);
        }
        unanswered
    }

    /// Whether a client has a request with this id under way.
    pub(crate) fn knows(&self, client: ClientKey, id: &RawId) -> bool {
        let state = self.lock();
        state.calls.find(client, id).is_some() || state.arriving.contains_key(&(client, id.clone()))
    }

    /// The request was sent, or ended before that.
    pub(crate) fn arrived(&self, client: ClientKey, id: &RawId, waiter: &Arc<Waiter>) {
        self.lock().arrived(client, id, waiter);
    }

    /// Registers a call; the waiter's bell rings when somebody else ends it.
    pub(crate) fn begin(
        &self,
        call: NewCall,
        waiter: &Arc<Waiter>,
        was_arriving: bool,
        now: Instant,
    ) -> Result<(CallId, Instant), BeginError> {
        let mut state = self.lock();
        // Under one lock with `begin`: at no moment is the request in neither table, where a cancellation would not
        // find it.
        if let Some(id) = call.id.as_ref().filter(|_| was_arriving) {
            state.arrived(call.client, id, waiter);
        }
        let id = state.calls.begin(call, now)?;
        state.waiting.insert(id, Arc::clone(waiter));
        let deadline = state.calls.get(id).map_or(now, |call| call.deadline);
        Ok((id, deadline))
    }

    /// Takes a call out; `None` when somebody else was first.
    pub(crate) fn finish(&self, id: CallId) -> Option<Ended> {
        let mut state = self.lock();
        let call = state.calls.finish(id)?;
        // A call without a waiter is no client's, and was sent when it was registered.
        let sent = state.waiting.remove(&id).is_none_or(|waiter| waiter.give_up());
        let moot = state.server_requests.call_over(id);
        Some(Ended { call, sent, moot })
    }

    /// Takes a call out that nobody waits for any more while its server may still work on it; `None` when somebody else
    /// was first.
    pub(crate) fn give_up(&self, id: CallId) -> Option<Ended> {
        let mut state = self.lock();
        let call = state.calls.finish(id)?;
        Some(state.given_up(id, call))
    }

    /// The server has answered a call that was given up.
    pub(crate) fn ghost_answered(&self, link: LinkKey, id: CallId) {
        self.lock().calls.ghost_answered(link, id);
    }

    /// Takes a call out so that its request can be sent elsewhere. From this moment until it is sent again it can be
    /// cancelled like one that has just arrived. `None` when somebody else took it out first.
    pub(crate) fn take_back(&self, id: CallId) -> Option<TakenBack> {
        let mut state = self.lock();
        let call = state.calls.finish(id)?;
        let waiter = state.waiting.remove(&id).map(|waiter| waiter.renewed()).unwrap_or_default();
        let history = call.history();
        if let Some(theirs) = call.id {
            // Under the same lock as `finish`: a cancellation in between would find the request in neither table.
            state.arriving.insert((call.client, theirs), Arc::clone(&waiter));
        }
        Some(TakenBack { waiter, moot: state.server_requests.call_over(id), history })
    }

    /// Gives a message that came beside all streams to the only call on its link. Gives it back when there is none.
    pub(crate) fn give_to_sole(&self, link: LinkKey, message: ServerMessage) -> Option<ServerMessage> {
        let state = self.lock();
        let Some(waiter) = state.calls.sole_on(link).and_then(|id| state.waiting.get(&id)) else {
            return Some(message);
        };
        waiter.give(message)
    }

    /// Gives progress that came beside all streams to the call that its token names. Gives it back when that is over.
    pub(crate) fn give_progress(&self, link: LinkKey, message: ServerMessage) -> Option<ServerMessage> {
        let token = message.param(&["progressToken"]).and_then(|at| RawId::from_raw(message.raw(at))?.as_u64());
        let state = self.lock();
        // A token is a small number: a server must not reach calls on another link by guessing.
        let call = token.map(CallId).filter(|id| state.calls.get(*id).is_some_and(|call| call.link == link));
        match call.and_then(|id| state.waiting.get(&id)) {
            // What is too much for it is dropped.
            Some(waiter) => waiter.give(message).and(None),
            None => Some(message),
        }
    }

    /// A client cancels one of its calls.
    pub(crate) fn cancel(&self, client: ClientKey, id: &RawId) -> Cancelled {
        let mut state = self.lock();
        // Sent calls first: an id stands in one of the two tables at a time.
        if let Some((call_id, call)) = state.calls.cancel(client, id) {
            return Cancelled::Running(call_id, Box::new(state.given_up(call_id, call)));
        }
        match state.arriving.get(&(client, id.clone())) {
            Some(waiter) => {
                waiter.give_up();
                waiter.bell.notify_one();
                Cancelled::Arriving
            }
            None => Cancelled::Unknown,
        }
    }

    /// A client is gone: everything it had in flight, and every question it will not answer.
    pub(crate) fn client_gone(&self, client: ClientKey) -> Gone {
        let mut state = self.lock();
        // They stay in the table: each is taken out by its own exchange, which is woken here.
        for (_, waiter) in state.arriving.iter().filter(|((owner, _), _)| *owner == client) {
            waiter.give_up();
            waiter.bell.notify_one();
        }
        let calls = state.calls.client_gone(client);
        let ended = calls.into_iter().map(|(id, call)| (id, state.given_up(id, call))).collect();
        Gone { calls: ended, unanswered: state.server_requests.client_gone(client) }
    }

    /// Wakes whoever waits for a call on a link: it is over.
    pub(crate) fn ring_calls(&self, link: LinkKey) {
        let state = self.lock();
        for waiter in state.calls.on(link).filter_map(|id| state.waiting.get(&id)) {
            waiter.bell.notify_one();
        }
    }

    pub(crate) fn link_opened(&self, link: LinkKey) {
        self.lock().calls.link_opened(link);
    }

    pub(crate) fn link_gone(&self, link: LinkKey) -> Vec<(u64, ServerRequest)> {
        let mut state = self.lock();
        state.calls.link_gone(link);
        state.server_requests.link_gone(link)
    }
}

impl InFlightState {
    /// A question of a call is settled. With the last one its server has its usual time again.
    fn waits_no_more(&mut self, call: Option<CallId>) {
        let Some(call) = call.filter(|call| !self.server_requests.is_asked(*call)) else { return };
        self.calls.resume(call, Instant::now());
        if let Some(waiter) = self.waiting.get(&call) {
            waiter.bell.notify_one();
        }
    }

    fn given_up(&mut self, id: CallId, call: TrackedCall) -> Ended {
        let sent = self.waiting.remove(&id).is_none_or(|waiter| {
            // Whoever waits finds its call gone from the table, and takes that for the cancellation it is.
            waiter.bell.notify_one();
            waiter.give_up()
        });
        if sent {
            // Only what was sent can still be at work.
            self.calls.leave_ghost(id, &call);
        }
        Ended { call, sent, moot: self.server_requests.call_over(id) }
    }

    fn arrived(&mut self, client: ClientKey, id: &RawId, waiter: &Arc<Waiter>) {
        let key = (client, id.clone());
        // A client that uses an id twice at a time has only the later one here.
        if self.arriving.get(&key).is_some_and(|other| Arc::ptr_eq(other, waiter)) {
            self.arriving.remove(&key);
        }
    }
}
