//! Links that come and go, and what may have been missed meanwhile.

use std::time::Instant;

use tidings_wire::Digest;

use super::PlaceId;
use super::SubscriptionTable;
use super::command::{
    FollowRefusal, ResourceAddress, ServerTicket, SubscribeMethod, SubscriptionCommand, SubscriptionCommands,
};
use super::resource::{ObservationGap, ResourceId, ResourceState};
use super::timers::SubscriptionTimer;
use crate::ledger::FollowerId;

/// So often a content is read again after a gap when its server is not reached. Then its followers are told: nobody knows.
const MOST_REREADS: u32 = 5;

impl SubscriptionTable {
    /// A server is connected: everything that is followed is subscribed. `poll` says whether what it refuses is read from
    /// time to time instead.
    pub fn connected(
        &mut self,
        server: PlaceId,
        upstream: SubscribeMethod,
        poll: bool,
        now: Instant,
    ) -> SubscriptionCommands {
        // A link that comes without the loss of the one before having been told ends it here.
        self.reset(server, now);
        let entry = self.servers.entry(server).or_default();
        entry.link = Some(upstream);
        entry.poll = poll;
        self.busy.insert(server);
        self.finish(now)
    }

    /// The link of a server is lost. Nobody is told yet: after the gap its content decides.
    pub fn lost(&mut self, server: PlaceId, now: Instant) -> SubscriptionCommands {
        self.reset(server, now);
        self.finish(now)
    }

    /// What a server said for a while could not be heard, though its link held: its subscriptions stand, and the contents
    /// decide whether something is owed.
    pub fn missed(&mut self, server: PlaceId, now: Instant) -> SubscriptionCommands {
        for id in self.resources_of(server) {
            // In every other state the server is asked anyway, or the resource is read.
            let Some(resource) = self.resources.get_mut(&id).filter(|resource| resource.state == ResourceState::Active)
            else {
                continue;
            };
            resource.begin_gap();
            self.after_gap(id, now);
        }
        self.finish(now)
    }

    /// A follower of an earlier process follows a resource again. `before` is the content it was told of, if that is known: the
    /// content now decides whether something is owed.
    pub fn resumed(
        &mut self,
        follower: FollowerId,
        address: &ResourceAddress,
        before: Option<Digest>,
        now: Instant,
    ) -> SubscriptionCommands {
        let found = self.servers.get(&address.place).and_then(|server| server.by_uri.get(&address.uri)).copied();
        if let Some((id, resource)) = found.and_then(|id| Some((id, self.resources.get_mut(&id)?)))
            && resource.seats.contains_key(&follower)
        {
            // Its content does not tell whether a child changed.
            let before = before.filter(|_| !resource.has_children);
            let is_news = match &mut resource.gap {
                // Others compare with another content: one notice too many is better than none.
                Some(gap) if gap.before != before => {
                    gap.before = None;
                    true
                }
                // The read that another follower of the same past asked for decides for this one too.
                Some(_) => false,
                None => {
                    resource.gap = Some(ObservationGap { before });
                    true
                }
            };
            // Else the gap is looked at when the server has agreed.
            if is_news && matches!(resource.state, ResourceState::Active | ResourceState::Polled) {
                self.after_gap(id, now);
            }
        }
        self.finish(now)
    }

    /// A server is no longer configured. Nobody can be unsubscribed by us, so its followers are told once that something
    /// changed, and find out by reading.
    pub fn removed(&mut self, server: PlaceId, now: Instant) -> SubscriptionCommands {
        self.reset(server, now);
        for id in self.resources_of(server) {
            // Who still waits for an answer gets a refusal; only those who were promised are told of a change.
            self.reject(id, &FollowRefusal::Removed);
            if self.resources.get(&id).is_some_and(|resource| resource.seats.is_empty()) {
                self.forget(id);
            }
            // Of what was just forgotten nothing is noted.
            self.note(id, None, now);
        }
        self.finish(now)
    }

    fn resources_of(&self, server: PlaceId) -> Vec<ResourceId> {
        self.servers.get(&server).map(|entry| entry.by_uri.values().copied().collect()).unwrap_or_default()
    }

    fn reset(&mut self, server: PlaceId, now: Instant) {
        let Some(entry) = self.servers.get_mut(&server) else { return };
        entry.link = None;
        entry.open = None;
        entry.opening = None;
        // Answers of the old link will not come, and count for nothing if they do: their tickets are gone.
        entry.in_flight = 0;
        // The count is about listens of one link; the health of links is judged elsewhere.
        entry.tries = 0;
        // Nothing is released or read over a link that is gone; the next one begins without subscriptions.
        entry.reads.clear();
        entry.releases.clear();
        entry.learns.clear();
        entry.learning = 0;
        self.busy.insert(server);
        self.timers.disarm(SubscriptionTimer::Reopen(server));
        self.timers.disarm(SubscriptionTimer::Shrink(server));
        let timers = &mut self.timers;
        self.flights.retain(|ticket, flight| {
            let is_other = flight.server != server;
            if !is_other {
                timers.disarm(SubscriptionTimer::Overdue(*ticket));
            }
            is_other
        });
        for id in self.resources_of(server) {
            // Nobody follows it: a server that is gone needs no unsubscribe.
            if self.resources.get(&id).is_some_and(|resource| resource.seats.is_empty()) {
                self.forget(id);
            } else {
                self.start_again(id, now);
            }
        }
    }

    /// A resource is to be subscribed anew, and what was promised of it may be missed until then.
    pub(super) fn start_again(&mut self, id: ResourceId, now: Instant) {
        // First: a listen that is not acknowledged yet waits for the new decision and does not promise what is
        // uncertain now.
        self.reconsider(id);
        let Some(resource) = self.resources.get_mut(&id) else { return };
        resource.begin_gap();
        resource.begin_silence(now);
        if resource.state == ResourceState::Polled {
            self.out.push(SubscriptionCommand::StopPolling(resource.address.clone()));
        }
        resource.reading = None;
        resource.learning = None;
        // The next link may lead to a server that does not refuse the read.
        resource.is_learnable = true;
        resource.tries = 0;
        resource.is_unsure = false;
        self.timers.disarm(SubscriptionTimer::Retry(id));
        self.timers.disarm(SubscriptionTimer::Reread(id));
        if let Some(server) = self.servers.get_mut(&resource.address.place) {
            server.reads.remove(&id);
            server.learns.remove(&id);
        }
        self.want(id);
    }

    /// A resource is active again: its content decides whether something is owed. It is read only now, so that nothing
    /// can slip in between.
    pub(super) fn after_gap(&mut self, id: ResourceId, now: Instant) {
        let Some(resource) = self.resources.get_mut(&id) else { return };
        let Some(gap) = resource.gap else { return self.learn(id) };
        // The content before is known: a read decides whether anybody is told.
        if gap.before.is_some() {
            if let Some(server) = self.servers.get_mut(&resource.address.place) {
                server.reads.insert(id);
                self.busy.insert(resource.address.place);
            }
        } else {
            resource.gap = None;
            self.note(id, None, now);
        }
    }

    /// The content after a gap could not be read because the server was not reached: that says nothing about the content. It is
    /// read again, a few times; a link that is really lost ends this, and its successor begins anew.
    pub(super) fn not_read(&mut self, id: ResourceId, ticket: ServerTicket, now: Instant) {
        let Some(resource) = self.resources.get_mut(&id).filter(|resource| resource.reading == Some(ticket)) else {
            return;
        };
        // Comparing with nothing means that followers are told: one notice too many is better than none.
        if resource.state == ResourceState::Baseline || resource.unread >= MOST_REREADS {
            return self.compare(id, ticket, None, now);
        }
        resource.reading = None;
        let pause = self.settings.reach.after(resource.unread + 1);
        resource.unread += 1;
        self.timers.arm(SubscriptionTimer::Reread(id), now + pause);
    }

    pub(super) fn reread(&mut self, id: ResourceId) {
        let Some(resource) = self.resources.get(&id).filter(|resource| resource.gap.is_some()) else { return };
        if resource.state == ResourceState::Active
            && let Some(server) = self.servers.get_mut(&resource.address.place)
        {
            server.reads.insert(id);
            self.busy.insert(resource.address.place);
        }
    }

    /// What a resource has to read after a gap, or to begin with.
    pub(super) fn compare(&mut self, id: ResourceId, ticket: ServerTicket, content: Option<Digest>, now: Instant) {
        let Some(resource) = self.resources.get_mut(&id) else { return };
        // Another read was sent since, after a second gap; this answer is older than that.
        if resource.reading != Some(ticket) {
            return;
        }
        resource.reading = None;
        let gap = resource.gap.take();
        let owed = gap.is_some_and(|gap| gap.before.is_none() || gap.before != content);
        let is_baseline = resource.state == ResourceState::Baseline;
        // A read that failed says nothing: what was known stays known.
        if is_baseline || content.is_some() {
            resource.known = content;
        }
        if is_baseline {
            resource.state = ResourceState::Polled;
            resource.unheard_since = None;
            let address = resource.address.clone();
            self.admit(id);
            self.out.push(SubscriptionCommand::Poll(address));
        }
        if owed {
            self.note(id, None, now);
        }
    }
}
