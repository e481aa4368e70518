//! The hub behind one lock, with what is needed to wake whoever waits for a call.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tidings_hub::asks::{Ask, Asks};
use tidings_hub::calls::{BeginError, Call, CallId, Calls, Limits, NewCall};
use tidings_hub::{ClientKey, LinkKey};
use tidings_upstream::FIRST_CALL_ID;
use tidings_wire::{Frame, RawId};
use tokio::sync::Notify;

/// How many messages may wait beside the stream of a call.
const ASIDE: usize = 256;

/// Never held across an await.
pub(crate) struct Core(Mutex<State>);

pub(crate) struct State {
    pub(crate) calls: Calls,
    pub(crate) asks: Asks,
    waiting: HashMap<CallId, Arc<Waiter>>,
}

/// Whoever waits for a call, and what reached it by other ways than the call's own stream.
#[derive(Default)]
pub(crate) struct Waiter {
    bell: Notify,
    aside: Mutex<Vec<Frame>>,
}

impl Waiter {
    /// Rings when the call was ended by somebody else, or when there is something aside.
    pub(crate) async fn rung(&self) {
        self.bell.notified().await;
    }

    pub(crate) fn take_aside(&self) -> Vec<Frame> {
        std::mem::take(&mut *self.aside.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A call that was taken out of the table, with the questions that are moot now.
pub(crate) struct Ended {
    pub(crate) call: Call,
    pub(crate) moot: Vec<(u64, Ask)>,
}

/// What a client leaves behind.
pub(crate) struct Gone {
    pub(crate) calls: Vec<(CallId, Ended)>,
    pub(crate) unanswered: Vec<(u64, Ask)>,
}

impl Core {
    pub(crate) fn new(limits: Limits) -> Self {
        Self(Mutex::new(State {
            calls: Calls::new(limits, FIRST_CALL_ID),
            asks: Asks::default(),
            waiting: HashMap::new(),
        }))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn mint(&self) -> u64 {
        self.lock().calls.mint().0
    }

    /// Registers a call; the notifier rings when somebody else ends it.
    pub(crate) fn begin(&self, call: NewCall, now: Instant) -> Result<(CallId, Arc<Waiter>, Instant), BeginError> {
        let mut state = self.lock();
        let id = state.calls.begin(call, now)?;
        let waiter = Arc::new(Waiter::default());
        state.waiting.insert(id, Arc::clone(&waiter));
        let deadline = state.calls.get(id).map_or(now, |call| call.deadline);
        Ok((id, waiter, deadline))
    }

    /// Takes a call out; `None` when somebody else was first.
    pub(crate) fn finish(&self, id: CallId) -> Option<Ended> {
        let mut state = self.lock();
        let call = state.calls.finish(id)?;
        state.waiting.remove(&id);
        let moot = state.asks.call_over(id);
        Some(Ended { call, moot })
    }

    /// Gives a message that came beside all streams to the only call on its link. Gives it back when there is none.
    pub(crate) fn give_to_sole(&self, link: LinkKey, frame: Frame) -> Option<Frame> {
        let state = self.lock();
        let Some(waiter) = state.calls.sole_on(link).and_then(|id| state.waiting.get(&id)) else { return Some(frame) };
        let mut aside = waiter.aside.lock().unwrap_or_else(PoisonError::into_inner);
        if aside.len() >= ASIDE {
            return Some(frame);
        }
        aside.push(frame);
        waiter.bell.notify_one();
        None
    }

    /// A client cancels one of its calls.
    pub(crate) fn cancel(&self, client: ClientKey, id: &RawId) -> Option<(CallId, Ended)> {
        let mut state = self.lock();
        let (call_id, call) = state.calls.cancel(client, id)?;
        Some((call_id, state.ended(call_id, call)))
    }

    /// A client is gone: everything it had in flight, and every question it will not answer.
    pub(crate) fn client_gone(&self, client: ClientKey) -> Gone {
        let mut state = self.lock();
        let calls = state.calls.client_gone(client);
        let ended = calls.into_iter().map(|(id, call)| (id, state.ended(id, call))).collect();
        Gone { calls: ended, unanswered: state.asks.client_gone(client) }
    }

    pub(crate) fn link_gone(&self, link: LinkKey) -> Vec<(u64, Ask)> {
        self.lock().asks.link_gone(link)
    }
}

impl State {
    fn ended(&mut self, id: CallId, call: Call) -> Ended {
        if let Some(waiter) = self.waiting.remove(&id) {
            waiter.bell.notify_one();
        }
        Ended { call, moot: self.asks.call_over(id) }
    }
}
