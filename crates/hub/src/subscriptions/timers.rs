//! What is waited for, by time.

use std::collections::{BTreeSet, HashMap};
use std::time::Instant;

use super::command::{RequestId, Ticket};
use super::resource::ResourceId;
use crate::ServerId;

/// What happens at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Timer {
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
    Overdue(Ticket),
    /// A client has waited long enough.
    Decide(RequestId),
    /// A listen that ended is opened again.
    Reopen(ServerId),
    /// A listen holds what nobody wants.
    Shrink(ServerId),
}

/// At most one time for each timer.
#[derive(Debug, Default)]
pub(super) struct Timers {
    times: HashMap<Timer, Instant>,
    order: BTreeSet<(Instant, Timer)>,
}

impl Timers {
    /// Sets an timer, or moves it.
    pub(super) fn arm(&mut self, timer: Timer, at: Instant) {
        self.disarm(timer);
        self.times.insert(timer, at);
        self.order.insert((at, timer));
    }

    pub(super) fn disarm(&mut self, timer: Timer) {
        if let Some(at) = self.times.remove(&timer) {
            self.order.remove(&(at, timer));
        }
    }

    pub(super) fn is_armed(&self, timer: Timer) -> bool {
        self.times.contains_key(&timer)
    }

    pub(super) fn next(&self) -> Option<Instant> {
        self.order.first().map(|(at, _)| *at)
    }

    /// Takes out one that is due.
    pub(super) fn pop(&mut self, now: Instant) -> Option<Timer> {
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
