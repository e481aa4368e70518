//! What the table waits for, by time. Arming a timer again replaces it, so there is at most one of each.

use std::collections::{BTreeSet, HashMap};
use std::time::Instant;

use super::PlaceId;
use super::command::{RequestId, ServerTicket};
use super::resource::ResourceId;

/// What happens at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum SubscriptionTimer {
    /// The changes of a resource are announced.
    Announce(ResourceId),
    /// A resource that nobody follows is released.
    Release(ResourceId),
    /// A resource that its server refused after a reset is asked for again.
    Retry(ResourceId),
    /// The content of a resource after a gap is read once more: the server could not be reached.
    Reread(ResourceId),
    /// The content of a resource that changed is learnt.
    Learn(ResourceId),
    /// A server did not answer.
    Overdue(ServerTicket),
    /// A client has waited long enough.
    Decide(RequestId),
    /// A listen that ended is opened again.
    Reopen(PlaceId),
    /// A listen holds what nobody wants.
    Shrink(PlaceId),
}

/// At most one time for each timer. Two indexes: by timer, to move or disarm one, and by time, to find the next.
#[derive(Debug, Default)]
pub(super) struct TimerQueue {
    times: HashMap<SubscriptionTimer, Instant>,
    order: BTreeSet<(Instant, SubscriptionTimer)>,
}

impl TimerQueue {
    /// Sets a timer, or moves it.
    pub(super) fn arm(&mut self, timer: SubscriptionTimer, at: Instant) {
        self.disarm(timer);
        self.times.insert(timer, at);
        self.order.insert((at, timer));
    }

    pub(super) fn disarm(&mut self, timer: SubscriptionTimer) {
        if let Some(at) = self.times.remove(&timer) {
            self.order.remove(&(at, timer));
        }
    }

    pub(super) fn is_armed(&self, timer: SubscriptionTimer) -> bool {
        self.times.contains_key(&timer)
    }

    pub(super) fn next(&self) -> Option<Instant> {
        self.order.first().map(|(at, _)| *at)
    }

    /// Takes out one that is due.
    pub(super) fn pop(&mut self, now: Instant) -> Option<SubscriptionTimer> {
        let (at, timer) = *self.order.first()?;
        if at > now {
            return None;
        }
        self.disarm(timer);
        Some(timer)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.order.is_empty()
    }
}
