//! What clients asked for and were not answered yet, or whose answer the transport does not have yet.

use std::collections::BTreeSet;
use std::time::Instant;

use super::Subscriptions;
use super::command::{Address, Command, Refusal, RequestId};
use super::resource::{Gate, ResourceId};
use super::timers::Timer;
use crate::ledger::FollowerId;

/// Whether a request is for one resource or for many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Subscribe,
    Listen,
}

#[derive(Debug)]
pub(super) struct Request {
    pub(super) follower: FollowerId,
    pub(super) kind: Kind,
    pub(super) undecided: BTreeSet<ResourceId>,
    pub(super) honoured: BTreeSet<ResourceId>,
    pub(super) left_out: Vec<(Address, Refusal)>,
    /// The answer is on its way.
    pub(super) answered: bool,
}

impl Subscriptions {
    pub(super) fn open_request(&mut self, id: RequestId, follower: FollowerId, kind: Kind, now: Instant) {
        let patience = match kind {
            Kind::Subscribe => self.settings.reply_within,
            Kind::Listen => self.settings.acknowledge_within,
        };
        self.timers.arm(Timer::Decide(id), now + patience);
        self.followers.entry(follower).or_default().requests.insert(id);
        let (undecided, honoured) = (BTreeSet::new(), BTreeSet::new());
        let request = Request { follower, kind, undecided, honoured, left_out: Vec::new(), answered: false };
        self.requests.insert(id, request);
    }

    /// The server agreed to a resource: everybody who waits for it is answered.
    pub(super) fn admit(&mut self, id: ResourceId) {
        let Some(resource) = self.resources.get_mut(&id) else { return };
        let waiting = std::mem::take(&mut resource.waiting);
        for (follower, _) in &waiting {
            if let Some(seat) = resource.seats.get_mut(follower)
                && seat.gate == Gate::Waiting
            {
                seat.gate = Gate::Answered;
            }
        }
        for (_, request) in waiting {
            if let Some(entry) = self.requests.get_mut(&request) {
                entry.undecided.remove(&id);
                entry.honoured.insert(id);
            }
            self.answer(request);
        }
    }

    /// What a server agreed to is open again: a listen that still waits for other resources waits for this one too.
    pub(super) fn reconsider(&mut self, id: ResourceId) {
        let Some(resource) = self.resources.get_mut(&id) else { return };
        for (follower, seat) in &mut resource.seats {
            let Some(entry) = self.followers.get(follower).filter(|_| seat.gate == Gate::Answered) else { continue };
            let honours = |request: &Request| request.answered && request.honoured.contains(&id);
            if entry.requests.iter().filter_map(|number| self.requests.get(number)).any(honours) {
                continue;
            }
            seat.gate = Gate::Waiting;
            for number in &entry.requests {
                if let Some(request) = self.requests.get_mut(number)
                    && request.honoured.remove(&id)
                {
                    request.undecided.insert(id);
                    resource.waiting.insert((*follower, *number));
                }
            }
        }
    }

    /// The server does not agree: everybody who waits for it is told, and leaves.
    pub(super) fn reject(&mut self, id: ResourceId, refusal: &Refusal) {
        let Some(resource) = self.resources.get_mut(&id) else { return };
        let address = resource.address.clone();
        for (follower, request) in std::mem::take(&mut resource.waiting) {
            self.unseat(follower, id);
            if let Some(entry) = self.requests.get_mut(&request) {
                entry.undecided.remove(&id);
                entry.left_out.push((address.clone(), refusal.clone()));
            }
            self.answer(request);
        }
    }

    /// Answers a request of which everything is decided.
    pub(super) fn answer(&mut self, id: RequestId) {
        let Some(request) = self.requests.get_mut(&id) else { return };
        if !request.undecided.is_empty() || std::mem::replace(&mut request.answered, true) {
            return;
        }
        self.timers.disarm(Timer::Decide(id));
        let left_out = std::mem::take(&mut request.left_out);
        match request.kind {
            Kind::Listen => {
                let honoured = request.honoured.iter().filter_map(|id| Some(self.resources.get(id)?.address.clone()));
                let honoured = honoured.collect();
                self.out.push(Command::Acknowledge { request: id, honoured, left_out });
            }
            Kind::Subscribe => match left_out.into_iter().next() {
                None => self.out.push(Command::Reply(id)),
                Some((_, refusal)) => {
                    self.close_request(id);
                    self.out.push(Command::Refuse { request: id, refusal });
                }
            },
        }
    }

    /// Forgets a request.
    pub(super) fn close_request(&mut self, id: RequestId) -> Option<Request> {
        let request = self.requests.remove(&id)?;
        self.timers.disarm(Timer::Decide(id));
        if let Some(follower) = self.followers.get_mut(&request.follower) {
            follower.requests.remove(&id);
            self.dismiss(request.follower);
        }
        Some(request)
    }

    /// A client has waited long enough: what is not decided is left out, and what comes later is not for this request.
    pub(super) fn decide(&mut self, id: RequestId, now: Instant) {
        self.withdraw(id, &Refusal::TimedOut, now);
        self.answer(id);
    }

    /// Takes a request out of everything it waits for.
    pub(super) fn withdraw(&mut self, id: RequestId, refusal: &Refusal, now: Instant) {
        let Some(request) = self.requests.get_mut(&id) else { return };
        let follower = request.follower;
        for place in std::mem::take(&mut request.undecided) {
            let Some(resource) = self.resources.get_mut(&place) else { continue };
            resource.waiting.remove(&(follower, id));
            let left_out = (resource.address.clone(), refusal.clone());
            let others = !resource.waiting_of(follower).is_empty();
            if let Some(request) = self.requests.get_mut(&id) {
                request.left_out.push(left_out);
            }
            if !others {
                self.unseat(follower, place);
                self.emptied(place, now);
            }
        }
    }
}
