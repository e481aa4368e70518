//! Cancellations that never overtake their calls.
//!
//! Over HTTP a call and its cancellation travel on two connections. A legacy server that reads the cancellation first knows no
//! such call, and then runs the call to its end. So it is told only when it has provably begun to answer the call. One that
//! shows no sign until its answer is told after a moment, and again when it gives a sign, or after another moment.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use bytes::Bytes;
use tidings_sync::Lock;
use tokio::sync::Notify;

use super::{HttpLinkShared, post};
use crate::call::GatheredBytes;
use crate::shared_pipe::cancellation;

/// How long a sign of the server is waited for.
const MOMENT: Duration = Duration::from_millis(100);
/// After which time a server that gave no sign is told again.
const AGAIN: Duration = Duration::from_secs(1);
/// How many calls are remembered that nobody reads and that were not cancelled yet.
const REMEMBERED: usize = 1_024;

/// How far the calls of one link are.
#[derive(Default)]
pub(super) struct LinkCallProgress(Lock<ProgressTable>);

#[derive(Default)]
struct ProgressTable {
    /// By our ids, which rise: a hash would cost more than the few comparisons.
    calls: BTreeMap<u64, Arc<CallProgress>>,
    /// Those whose streams were dropped before the answer, oldest first.
    left: VecDeque<u64>,
}

pub(super) struct CallProgress {
    state: Lock<ProgressState>,
    changed: Notify,
    /// What it takes of the memory for messages, for one that is not whole yet.
    gathered: AtomicUsize,
}

impl GatheredBytes for CallProgress {
    fn gathered(&self) -> usize {
        self.gathered.load(Ordering::Relaxed)
    }
}

#[derive(Clone, Copy)]
struct ProgressState {
    position: CallPosition,
    /// It was cancelled before the server gave a sign.
    tell_again: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CallPosition {
    /// Nothing of the request was written yet, so there is nothing to cancel.
    Waiting,
    /// It is on its way, or has arrived.
    Sent,
    /// The server has begun to answer.
    Begun,
    /// Answered or failed: a cancellation comes too late.
    Over,
    /// Cancelled before it was sent: it never will be.
    Withdrawn,
}

/// A call on a legacy link, from its making to its end.
pub(super) struct CallTicket {
    id: u64,
    shared: Arc<HttpLinkShared>,
    call: Arc<CallProgress>,
}

impl CallProgress {
    fn lock(&self) -> MutexGuard<'_, ProgressState> {
        self.state.lock()
    }

    fn advance(&self, position: CallPosition) -> ProgressState {
        let mut state = self.lock();
        state.position = position;
        let now = *state;
        drop(state);
        self.changed.notify_waiters();
        now
    }

    /// Waits until the server has given a sign, or nothing more can come of it.
    async fn begun(&self) {
        loop {
            // Made before the look: `notify_waiters` keeps no permit.
            let changed = self.changed.notified();
            if self.lock().position != CallPosition::Sent {
                return;
            }
            changed.await;
        }
    }
}

impl LinkCallProgress {
    fn lock(&self) -> MutexGuard<'_, ProgressTable> {
        self.0.lock()
    }
}

impl CallTicket {
    pub(super) fn new(shared: &Arc<HttpLinkShared>, id: u64) -> Self {
        let state = Lock::new(ProgressState { position: CallPosition::Waiting, tell_again: false });
        let call = Arc::new(CallProgress { state, changed: Notify::new(), gathered: AtomicUsize::new(0) });
        shared.progress.lock().calls.insert(id, Arc::clone(&call));
        Self { id, shared: Arc::clone(shared), call }
    }

    /// The call is about to be sent. False when it was cancelled before.
    pub(super) fn send(&self) -> bool {
        let mut state = self.call.lock();
        // Checked and set under one lock: a cancellation finds the call either unsent or sent.
        let may = state.position == CallPosition::Waiting;
        if may {
            state.position = CallPosition::Sent;
        }
        may
    }

    /// The server has begun to answer.
    pub(super) fn begun(&self) {
        if self.call.advance(CallPosition::Begun).tell_again {
            let message = cancellation(self.id, None);
            self.shared.tasks.spawn(post(Arc::clone(&self.shared), message));
        }
    }

    /// So much of the memory for messages is taken for one that is not whole yet.
    pub(super) fn gathers(&self, taken: usize) {
        self.call.gathered.store(taken, Ordering::Relaxed);
    }

    /// How far the call is, for whoever has its stream.
    pub(super) fn progress(&self) -> Arc<CallProgress> {
        Arc::clone(&self.call)
    }

    /// The answer is here, or there will be none.
    pub(super) fn over(&self) {
        self.call.advance(CallPosition::Over);
    }
}

impl Drop for CallTicket {
    fn drop(&mut self) {
        let is_open = matches!(self.call.lock().position, CallPosition::Sent | CallPosition::Begun);
        let mut table = self.shared.progress.lock();
        // Answered, failed or never sent: nobody can want to cancel it.
        if !is_open {
            table.calls.remove(&self.id);
            return;
        }
        // Whoever dropped it may cancel it next.
        table.left.push_back(self.id);
        if table.left.len() > REMEMBERED
            && let Some(oldest) = table.left.pop_front()
        {
            table.calls.remove(&oldest);
        }
    }
}

/// Tells a legacy server that a call is no longer wanted, when it can understand it.
pub(super) fn cancel(shared: &Arc<HttpLinkShared>, id: u64, reason: Option<&str>) {
    let message = cancellation(id, reason);
    let known = shared.progress.lock().calls.get(&id).cloned();
    // Too old to be remembered, so it was sent long ago.
    let Some(call) = known else {
        shared.tasks.spawn(post(Arc::clone(shared), message));
        return;
    };
    {
        let mut state = call.lock();
        if state.position == CallPosition::Waiting {
            // Nothing was sent: the call ends here, and the server never hears of it.
            state.position = CallPosition::Withdrawn;
            return;
        }
    }
    shared.tasks.spawn(tell(Arc::clone(shared), call, message));
}

async fn tell(shared: Arc<HttpLinkShared>, call: Arc<CallProgress>, message: Bytes) {
    // With or without a sign, it is told now.
    let _ = tokio::time::timeout(MOMENT, call.begun()).await;
    let position = {
        let mut state = call.lock();
        // Under the same lock as the position, so that `begun` either sees the wish or is seen by us.
        state.tell_again = state.position == CallPosition::Sent;
        state.position
    };
    // The answer won: there is nothing left to cancel.
    if position == CallPosition::Over {
        return;
    }
    post(Arc::clone(&shared), message.clone()).await;
    if position == CallPosition::Begun {
        return;
    }
    tokio::select! {
        () = tokio::time::sleep(AGAIN) => {}
        () = shared.stop.cancelled() => return,
    }
    // Otherwise it was told when it gave a sign.
    if call.lock().position == CallPosition::Sent {
        post(shared, message).await;
    }
}
