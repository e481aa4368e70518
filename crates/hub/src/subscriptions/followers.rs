//! What clients do: subscribe, listen, unsubscribe, go away.

use std::collections::BTreeSet;
use std::time::Instant;

use super::SubscriptionTable;
use super::command::{FollowRefusal, FollowTarget, RequestId, SubscriptionCommand, SubscriptionCommands};
use super::requests::FollowRequestKind;
use super::resource::{FollowerGate, FollowerSeat, ResourceId, ResourceRecord, ResourceState};
use super::timers::SubscriptionTimer;
use crate::ledger::FollowerId;

/// One who follows resources: a legacy session, or one `subscriptions/listen`.
#[derive(Debug, Default)]
pub(super) struct ResourceFollower {
    pub(super) resources: BTreeSet<ResourceId>,
    /// Not answered, or not acknowledged yet.
    pub(super) requests: BTreeSet<RequestId>,
    /// Changed, and the gate is open.
    pub(super) ready: BTreeSet<ResourceId>,
    /// Where the next delivery begins, so that what changes all the time does not hold up the rest.
    pub(super) cursor: ResourceId,
}

impl SubscriptionTable {
    /// A session wants to follow a resource. Its answer is a [`SubscriptionCommand::Reply`] or a [`SubscriptionCommand::Refuse`].
    pub fn subscribe(
        &mut self,
        session: FollowerId,
        request: RequestId,
        target: &FollowTarget,
        now: Instant,
    ) -> SubscriptionCommands {
        self.open_request(request, session, FollowRequestKind::Subscribe, now);
        self.join(session, request, target);
        // At once where nothing is undecided: the resource is followed already, or was refused.
        self.answer(request);
        self.finish(now)
    }

    /// One `subscriptions/listen` wants to follow resources. Its answer is a [`SubscriptionCommand::Acknowledge`].
    pub fn listen(
        &mut self,
        listen: FollowerId,
        request: RequestId,
        targets: &[FollowTarget],
        now: Instant,
    ) -> SubscriptionCommands {
        self.open_request(request, listen, FollowRequestKind::Listen, now);
        for target in targets {
            self.join(listen, request, target);
        }
        self.answer(request);
        self.finish(now)
    }

    /// The answer was handed to the transport: the gate opens, and what was held follows.
    pub fn acked(&mut self, request: RequestId, now: Instant) -> SubscriptionCommands {
        if self.requests.get(&request).is_some_and(|entry| entry.answered)
            && let Some(closed) = self.close_request(request)
        {
            for id in closed.honoured {
                let seat = self.resources.get_mut(&id).and_then(|resource| resource.seats.get_mut(&closed.follower));
                let Some(seat) = seat.filter(|seat| seat.gate == FollowerGate::Answered) else { continue };
                seat.gate = FollowerGate::Open;
                if seat.dirty.is_some() {
                    self.ready(closed.follower, id);
                }
            }
        }
        self.finish(now)
    }

    /// A session no longer follows a resource: nothing comes of it any more. Subscriptions to it that were not answered
    /// yet are refused.
    pub fn unsubscribe(
        &mut self,
        session: FollowerId,
        address: &super::ResourceAddress,
        now: Instant,
    ) -> SubscriptionCommands {
        let place = self.servers.get(&address.place).and_then(|server| server.by_uri.get(&address.uri)).copied();
        let followed =
            place.filter(|id| self.resources.get(id).is_some_and(|place| place.seats.contains_key(&session)));
        if let Some(id) = followed {
            // A copy: answering a request takes it out of the set.
            let requests = self.followers.get(&session).map(|follower| follower.requests.clone()).unwrap_or_default();
            for request in requests {
                let Some(entry) = self.requests.get_mut(&request) else { continue };
                // The acknowledgement of an earlier subscription must not open the gate of a later one.
                entry.honoured.remove(&id);
                if entry.undecided.contains(&id) && entry.kind == FollowRequestKind::Subscribe {
                    self.withdraw(request, &FollowRefusal::Withdrawn, now);
                    self.answer(request);
                }
            }
            self.unseat(session, id);
            self.emptied(id, now);
        }
        self.finish(now)
    }

    /// A request that is not answered yet was cancelled, and is not answered any more.
    pub fn cancel(&mut self, request: RequestId, now: Instant) -> SubscriptionCommands {
        if self.requests.get(&request).is_some_and(|entry| !entry.answered) {
            self.withdraw(request, &FollowRefusal::Withdrawn, now);
            self.close_request(request);
        }
        self.finish(now)
    }

    /// A client is gone, and everything it has goes with it.
    pub fn gone(&mut self, follower: FollowerId, now: Instant) -> SubscriptionCommands {
        if let Some(gone) = self.followers.remove(&follower) {
            for request in gone.requests {
                self.timers.disarm(SubscriptionTimer::Decide(request));
                self.requests.remove(&request);
            }
            for id in gone.resources {
                // Its waiting requests go first: unseating may release the resource, and nobody of this client is to be
                // answered.
                if let Some(resource) = self.resources.get_mut(&id) {
                    for request in resource.waiting_of(follower) {
                        resource.waiting.remove(&(follower, request));
                    }
                }
                self.unseat(follower, id);
                self.emptied(id, now);
            }
        }
        // After the seats, which were given back to it.
        self.accounts.remove(&follower);
        self.finish(now)
    }

    fn join(&mut self, follower: FollowerId, request: RequestId, target: &FollowTarget) {
        let id = match self.find_or_add(follower, target) {
            Ok(id) => id,
            Err(refusal) => {
                if let Some(entry) = self.requests.get_mut(&request) {
                    entry.left_out.push((target.address.clone(), refusal));
                }
                return;
            }
        };
        // Before the seat is made: a resource that lingers is active again from here, and needs no question to its
        // server.
        let agreed = self.revive(id);
        // It is sent at the end of the event: by then the seat without which it is not wanted is there.
        self.learn(id);
        let (Some(resource), Some(entry)) = (self.resources.get_mut(&id), self.requests.get_mut(&request)) else {
            return;
        };
        resource.pace = target.pace.unwrap_or(self.settings.pace);
        // A second subscription of the same client is answered at once, though the server may be asked anew just now.
        let followed = resource.seats.get(&follower).is_some_and(|seat| seat.gate != FollowerGate::Waiting);
        let gate = if agreed { FollowerGate::Answered } else { FollowerGate::Waiting };
        // A client that already follows keeps its gate: an acknowledgement that was handed out is not taken back.
        let mut is_new = false;
        resource.seats.entry(follower).or_insert_with(|| {
            is_new = true;
            FollowerSeat { gate, dirty: None }
        });
        self.followers.entry(follower).or_default().resources.insert(id);
        if agreed || followed {
            entry.honoured.insert(id);
        } else {
            entry.undecided.insert(id);
            resource.waiting.insert((follower, request));
        }
        if is_new {
            self.seat_taken(follower);
        }
    }

    /// Somebody comes to a resource: whether the server has agreed to it.
    fn revive(&mut self, id: ResourceId) -> bool {
        let Some(resource) = self.resources.get_mut(&id) else { return false };
        match resource.state {
            // A resource that is polled counts as agreed: its followers are told, only by other means.
            ResourceState::Active | ResourceState::Polled => return true,
            ResourceState::Lingering => {
                self.timers.disarm(SubscriptionTimer::Release(id));
                resource.state = ResourceState::Active;
                return true;
            }
            // The server was not told yet.
            ResourceState::Unsubscribing(None) => {
                if let Some(server) = self.servers.get_mut(&resource.address.place) {
                    server.releases.remove(&id);
                }
                if resource.is_agreed {
                    resource.state = ResourceState::Active;
                    return true;
                }
                self.want(id);
            }
            ResourceState::Unheard => {
                self.timers.disarm(SubscriptionTimer::Retry(id));
                self.want(id);
            }
            // The answer of the server, or the first content, is on its way and decides.
            ResourceState::Subscribing(_) | ResourceState::Unsubscribing(Some(_)) | ResourceState::Baseline => {}
        }
        false
    }

    fn find_or_add(&mut self, follower: FollowerId, target: &FollowTarget) -> Result<ResourceId, FollowRefusal> {
        let found = self.servers.get(&target.address.place).and_then(|server| server.by_uri.get(&target.address.uri));
        let followed = self.followers.get(&follower).map(|follower| &follower.resources);
        if let Some(id) = found.filter(|id| followed.is_some_and(|resources| resources.contains(id))) {
            return Ok(*id);
        }
        // Before anything is added: a refused request must leave no trace.
        let limits =
            [(followed.map_or(0, BTreeSet::len), self.settings.per_follower), (self.seats, self.settings.total)];
        if let Some((_, limit)) = limits.into_iter().find(|(count, limit)| count >= limit) {
            return Err(FollowRefusal::TooMany { limit });
        }
        if let Some(limit) = self.reached_by(follower) {
            return Err(FollowRefusal::OverQuota { limit });
        }
        if let Some(id) = found {
            return Ok(*id);
        }
        let id = ResourceId(self.mint());
        let known = self.contents.take(&target.address);
        let pace = target.pace.unwrap_or(self.settings.pace);
        let mut resource = ResourceRecord::new(target.address.clone(), pace, known);
        // A server that is away gets a record too: it is asked when it is connected.
        let server = self.servers.entry(target.address.place).or_default();
        server.by_uri.insert(target.address.uri.clone(), id);
        // The open listen has it still, from somebody who left.
        if server.is_covered(&target.address.uri) {
            resource.state = ResourceState::Active;
            resource.is_agreed = true;
        } else {
            server.wanting.insert(id);
            self.busy.insert(target.address.place);
        }
        self.resources.insert(id, resource);
        Ok(id)
    }

    /// Takes a follower off a resource, with everything it was to be told of it.
    pub(super) fn unseat(&mut self, follower: FollowerId, id: ResourceId) {
        if let Some(resource) = self.resources.get_mut(&id)
            && resource.seats.remove(&follower).is_some()
        {
            self.seat_left(follower);
        }
        if let Some(entry) = self.followers.get_mut(&follower) {
            entry.resources.remove(&id);
            entry.ready.remove(&id);
            self.dismiss(follower);
        }
    }

    /// Forgets a follower who follows nothing and waits for nothing.
    pub(super) fn dismiss(&mut self, follower: FollowerId) {
        let idle = |entry: &ResourceFollower| entry.resources.is_empty() && entry.requests.is_empty();
        if self.followers.get(&follower).is_some_and(idle) {
            self.followers.remove(&follower);
            self.accounts.remove(&follower);
        }
    }

    /// A resource may have lost its last follower.
    pub(super) fn emptied(&mut self, id: ResourceId, now: Instant) {
        let Some(resource) = self.resources.get_mut(&id).filter(|resource| resource.seats.is_empty()) else { return };
        // Nobody is left to be told, and the next follower begins with what it reads itself.
        resource.pending = None;
        resource.gap = None;
        resource.reading = None;
        self.timers.disarm(SubscriptionTimer::Announce(id));
        self.timers.disarm(SubscriptionTimer::Reread(id));
        if let Some(server) = self.servers.get_mut(&resource.address.place) {
            server.reads.remove(&id);
        }
        match resource.state {
            ResourceState::Active => {
                // Clients subscribe and unsubscribe in quick succession; the server is not bothered each time.
                resource.state = ResourceState::Lingering;
                self.timers.arm(SubscriptionTimer::Release(id), now + self.settings.linger);
            }
            ResourceState::Subscribing(None)
            | ResourceState::Baseline
            | ResourceState::Polled
            | ResourceState::Unheard => self.abandon(id),
            // It ends when the server has answered, or the time is over.
            ResourceState::Subscribing(Some(_)) | ResourceState::Unsubscribing(_) | ResourceState::Lingering => {}
        }
    }

    /// A follower has something to take.
    pub(super) fn ready(&mut self, follower: FollowerId, id: ResourceId) {
        let Some(entry) = self.followers.get_mut(&follower) else { return };
        // Woken once: it takes until there is nothing left.
        if entry.ready.is_empty() {
            self.out.push(SubscriptionCommand::Wake(follower));
        }
        entry.ready.insert(id);
    }
}
