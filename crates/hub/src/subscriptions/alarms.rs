//! What is waited for, by time.

use std::collections::{BTreeSet, HashMap};
use std::time::Instant;

use super::command::{RequestId, Ticket};
use super::resource::ResourceId;
use crate::ServerId;

/// What happens at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Alarm {
    /// The changes of a resource are announced.
    Announce(ResourceId),
    /// A resource that nobody follows is released.
    Release(ResourceId),
    /// A resource that its server refused after a reset is asked for again.
    Retry(ResourceId),
    /// A server did not answer.
    Overdue(Ticket),
    /// A client has waited long enough.
    Decide(RequestId),
    /// A listen that ended is opened again.
    Reopen(ServerId),
    /// A listen holds what nobody wants.
    Shrink(ServerId),
}

/// At most one time for each alarm.
#[derive(Debug, Default)]
pub(super) struct Alarms {
    times: HashMap<Alarm, Instant>,
    order: BTreeSet<(Instant, Alarm)>,
}

impl Alarms {
    /// Sets an alarm, or moves it.
    pub(super) fn arm(&mut self, alarm: Alarm, at: Instant) {
        self.disarm(alarm);
        self.times.insert(alarm, at);
        self.order.insert((at, alarm));
    }

    pub(super) fn disarm(&mut self, alarm: Alarm) {
        if let Some(at) = self.times.remove(&alarm) {
            self.order.remove(&(at, alarm));
        }
    }

    pub(super) fn is_armed(&self, alarm: Alarm) -> bool {
        self.times.contains_key(&alarm)
    }

    pub(super) fn next(&self) -> Option<Instant> {
        self.order.first().map(|(at, _)| *at)
    }

    /// Takes out one that is due.
    pub(super) fn pop(&mut self, now: Instant) -> Option<Alarm> {
        let (at, alarm) = *self.order.first()?;
        if at > now {
            return None;
        }
        self.disarm(alarm);
        Some(alarm)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.order.is_empty()
    }
}
