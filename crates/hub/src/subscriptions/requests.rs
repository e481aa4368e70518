//! What clients asked for and were not answered yet, or whose answer the transport does not have yet.

use std::collections::BTreeSet;
use std::time::Instant;

use super::SubscriptionTable;
use super::command::{FollowRefusal, RequestId, ResourceAddress, SubscriptionCommand};
use super::resource::{FollowerGate, ResourceId};
use super::timers::SubscriptionTimer;
use crate::ledger::FollowerId;

/// Whether a request is for one resource or for many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FollowRequestKind {
    Subscribe,
    Listen,
}

#[derive(Debug)]
pub(super) struct FollowRequest {
    pub(super) follower: FollowerId,
    pub(super) kind: FollowRequestKind,
    pub(super) undecided: BTreeSet<ResourceId>,
    pub(super) honoured: BTreeSet<ResourceId>,
    pub(super) left_out: Vec<(ResourceAddress, FollowRefusal)>,
    /// The answer is on its way.
    pub(super) answered: bool,
}

impl SubscriptionTable {
    pub(super) fn open_request(&mut self, id: RequestId, follower: FollowerId, kind: FollowRequestKind, now: Instant) {
        let patience = match kind {
            FollowRequestKind::Subscribe => self.settings.reply_within,
            FollowRequestKind::Listen => self.settings.acknowledge_within,
        };
        // Armed for every request: no server, however slow, leaves a client without an answer.
        self.timers.arm(SubscriptionTimer::Decide(id), now + patience);
        self.followers.entry(follower).or_default().requests.insert(id);
        let (undecided, honoured) = (BTreeSet::new(), BTreeSet::new());
        let request = FollowRequest { follower, kind, undecided, honoured, left_out: Vec::new(), answered: false };
        self.requests.insert(id, request);
    }

    /// The server agreed to a resource: everybody who waits for it is answered.
    pub(super) fn admit(&mut self, id: ResourceId) {
        let Some(resource) = self.resources.get_mut(&id) else { return };
        // Taken out first: `answer` may close requests that would be walked here.
        let waiting = std::mem::take(&mut resource.waiting);
        for (follower, _) in &waiting {
            if let Some(seat) = resource.seats.get_mut(follower)
                && seat.gate == FollowerGate::Waiting
            {
                seat.gate = FollowerGate::Answered;
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
            let Some(entry) = self.followers.get(follower).filter(|_| seat.gate == FollowerGate::Answered) else {
                continue;
            };
            // An answer that was handed out stays true: this client is told by the content if it missed something.
            let honours = |request: &FollowRequest| request.answered && request.honoured.contains(&id);
            if entry.requests.iter().filter_map(|number| self.requests.get(number)).any(honours) {
                continue;
            }
            // Its answer was not handed out yet: it waits for the new decision instead.
            seat.gate = FollowerGate::Waiting;
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
    pub(super) fn reject(&mut self, id: ResourceId, refusal: &FollowRefusal) {
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
        // Answered once, when the last of its resources is decided.
        if !request.undecided.is_empty() || std::mem::replace(&mut request.answered, true) {
            return;
        }
        self.timers.disarm(SubscriptionTimer::Decide(id));
        let left_out = std::mem::take(&mut request.left_out);
        match request.kind {
            // Also where nothing is honoured: a listen is acknowledged with what is left, and never refused.
            FollowRequestKind::Listen => {
                let honoured = request.honoured.iter().filter_map(|id| Some(self.resources.get(id)?.address.clone()));
                let honoured = honoured.collect();
                self.out.push(SubscriptionCommand::Acknowledge { request: id, honoured, left_out });
            }
            // It names one resource, so there is at most one refusal.
            FollowRequestKind::Subscribe => match left_out.into_iter().next() {
                None => self.out.push(SubscriptionCommand::Reply(id)),
                Some((_, refusal)) => {
                    self.close_request(id);
                    self.out.push(SubscriptionCommand::Refuse { request: id, refusal });
                }
            },
        }
    }

    /// Forgets a request, and its follower if that has nothing else.
    pub(super) fn close_request(&mut self, id: RequestId) -> Option<FollowRequest> {
        let request = self.requests.remove(&id)?;
        self.timers.disarm(SubscriptionTimer::Decide(id));
        if let Some(follower) = self.followers.get_mut(&request.follower) {
            follower.requests.remove(&id);
            self.dismiss(request.follower);
        }
        Some(request)
    }

    /// A client has waited long enough: what is not decided is left out, and what comes later is not for this request.
    pub(super) fn decide(&mut self, id: RequestId, now: Instant) {
        self.withdraw(id, &FollowRefusal::TimedOut, now);
        self.answer(id);
    }

    /// Takes a request out of everything it waits for.
    pub(super) fn withdraw(&mut self, id: RequestId, refusal: &FollowRefusal, now: Instant) {
        let Some(request) = self.requests.get_mut(&id) else { return };
        let follower = request.follower;
        for place in std::mem::take(&mut request.undecided) {
            let Some(resource) = self.resources.get_mut(&place) else { continue };
            resource.waiting.remove(&(follower, id));
            let left_out = (resource.address.clone(), refusal.clone());
            // The same client may have asked for the resource twice; the other request keeps the seat.
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
