//! The one listen of a server of the new era: opened with the whole union, replaced when it is too small, and later when
//! it is too large.

use std::collections::BTreeSet;
use std::time::Instant;

use super::PlaceId;
use super::SubscriptionTable;
use super::command::{FollowRefusal, ServerTicket, SubscriptionCommand, SubscriptionCommands, Uri};
use super::resource::{OpenListen, OpeningListen, ResourceId, ResourceState, ServerRecord, TicketErrand};
use super::timers::SubscriptionTimer;

impl SubscriptionTable {
    /// A server acknowledged a listen with these URIs: it takes the place of the one before.
    pub fn listening(
        &mut self,
        ticket: ServerTicket,
        honoured: impl IntoIterator<Item = Uri>,
        now: Instant,
    ) -> SubscriptionCommands {
        if let Some(server) = self.opening(ticket) {
            self.opened(ticket, server, &honoured.into_iter().collect(), now);
        }
        self.finish(now)
    }

    /// A listen ended, or could not be opened: then why.
    pub fn listen_ended(
        &mut self,
        ticket: ServerTicket,
        refusal: &FollowRefusal,
        now: Instant,
    ) -> SubscriptionCommands {
        if let Some(server) = self.opening(ticket) {
            self.listen_failed(ticket, server, refusal, now);
        } else {
            let is_open = |entry: &ServerRecord| entry.open.as_ref().is_some_and(|open| open.ticket == ticket);
            // A walk over the servers: listens end rarely, and tickets of open ones are not indexed.
            let found = self.servers.iter().find(|(_, entry)| is_open(entry)).map(|(id, _)| *id);
            if let Some(server) = found {
                self.listen_lost(server, now);
            }
        }
        self.finish(now)
    }

    fn opening(&self, ticket: ServerTicket) -> Option<PlaceId> {
        let flight = self.flights.get(&ticket)?;
        matches!(flight.errand, TicketErrand::Listen).then_some(flight.server)
    }

    fn opened(&mut self, ticket: ServerTicket, server: PlaceId, honoured: &BTreeSet<Uri>, now: Instant) {
        self.flights.remove(&ticket);
        self.timers.disarm(SubscriptionTimer::Overdue(ticket));
        let Some(entry) = self.servers.get_mut(&server) else { return };
        // What was not asked for is not believed.
        let asked = entry.opening.take().map(|opening| opening.asked).unwrap_or_default();
        // A server that acknowledges more than it was asked for must not make us count on it.
        let honoured = asked.intersection(honoured).cloned().collect();
        let before = entry.open.replace(OpenListen { ticket, honoured, since: now });
        let covered = |(uri, id): (&Uri, &ResourceId)| (*id, entry.is_covered(uri));
        let ids: Vec<(ResourceId, bool)> = entry.by_uri.iter().map(covered).collect();
        if let Some(before) = before {
            // Only now: between two listens there would be a gap in which changes are missed.
            self.out.push(SubscriptionCommand::Close { ticket: before.ticket, place: server });
        }
        self.busy.insert(server);
        // First what the listen before had: nobody is answered meanwhile that it is honoured.
        for (id, is_covered) in &ids {
            if !is_covered && self.state(*id) == Some(ResourceState::Active) {
                self.reconsider(*id);
            }
        }
        for (id, is_covered) in ids {
            match (self.state(id), is_covered) {
                (Some(ResourceState::Subscribing(Some(asked))), true) if asked == ticket => self.agreed(id, now),
                (Some(ResourceState::Subscribing(Some(asked))), false) if asked == ticket => {
                    self.refused(id, &FollowRefusal::NotHonoured, now);
                }
                (Some(ResourceState::Active), false) => self.dropped_out(id, now),
                (Some(ResourceState::Lingering), false) => self.forget(id),
                // It came while the listen was being opened, and is in it by chance.
                (Some(ResourceState::Subscribing(None)), true) => {
                    if let Some(entry) = self.servers.get_mut(&server) {
                        entry.wanting.remove(&id);
                    }
                    self.agreed(id, now);
                }
                _ => {}
            }
        }
        self.check_surplus(server, now);
    }

    fn state(&self, id: ResourceId) -> Option<ResourceState> {
        self.resources.get(&id).map(|resource| resource.state)
    }

    fn dropped_out(&mut self, id: ResourceId, now: Instant) {
        if let Some(resource) = self.resources.get_mut(&id) {
            // The old listen heard of it until now; from here on its content must tell.
            resource.begin_gap();
        }
        self.refused(id, &FollowRefusal::NotHonoured, now);
    }

    /// A listen was not acknowledged. The one before stays open.
    pub(super) fn listen_failed(
        &mut self,
        ticket: ServerTicket,
        server: PlaceId,
        refusal: &FollowRefusal,
        now: Instant,
    ) {
        // Not counted in `in_flight`: a server has one listen being opened at a time.
        self.flights.remove(&ticket);
        self.timers.disarm(SubscriptionTimer::Overdue(ticket));
        let Some(entry) = self.servers.get_mut(&server) else { return };
        entry.opening = None;
        let ids: Vec<ResourceId> = entry.by_uri.values().copied().collect();
        self.busy.insert(server);
        for id in ids {
            if self.state(id) == Some(ResourceState::Subscribing(Some(ticket))) {
                self.refused(id, refusal, now);
            }
        }
        self.check_surplus(server, now);
    }

    /// The listen of a server that is still connected ended: it is opened again, at once unless it keeps ending early. The
    /// server acknowledged it, so there is no reason to wait long.
    fn listen_lost(&mut self, server: PlaceId, now: Instant) {
        let Some(entry) = self.servers.get_mut(&server) else { return };
        let Some(open) = entry.open.take() else { return };
        let lasted = now.saturating_duration_since(open.since);
        // A proxy that ends every stream after a while is no failing server; one that ends them at once is.
        entry.tries = if lasted >= self.settings.steady { 0 } else { entry.tries + 1 };
        // Without a timer the listen is opened at the end of this very event.
        if entry.tries > 0 {
            self.timers.arm(SubscriptionTimer::Reopen(server), now + self.settings.reopen.after(entry.tries));
        }
        self.timers.disarm(SubscriptionTimer::Shrink(server));
        self.busy.insert(server);
        let ids: Vec<ResourceId> = entry.by_uri.values().copied().collect();
        for id in ids {
            match self.state(id) {
                Some(ResourceState::Active) => self.start_again(id, now),
                // Nobody follows it, so the new listen need not have it.
                Some(ResourceState::Lingering) => self.forget(id),
                _ => {}
            }
        }
    }

    /// Opens a listen if the one that is open lacks something.
    pub(super) fn extend_listen(&mut self, server: PlaceId, now: Instant) {
        let Some(entry) = self.servers.get(&server) else { return };
        if !entry.wanting.is_empty()
            && entry.opening.is_none()
            // A server that ends listens at once is not asked again before its pause is over.
            && !self.timers.is_armed(SubscriptionTimer::Reopen(server))
        {
            self.open_listen(server, now);
        }
    }

    fn open_listen(&mut self, server: PlaceId, now: Instant) {
        let ticket = self.issue(server, TicketErrand::Listen, now);
        self.timers.disarm(SubscriptionTimer::Shrink(server));
        let Some(entry) = self.servers.get_mut(&server) else { return };
        let mut asked = BTreeSet::new();
        for id in entry.by_uri.values() {
            let Some(resource) = self.resources.get_mut(id) else { continue };
            match resource.state {
                ResourceState::Subscribing(None) => resource.state = ResourceState::Subscribing(Some(ticket)),
                ResourceState::Active | ResourceState::Lingering => {}
                // What was refused has a timer of its own, if it is asked for again at all.
                _ => continue,
            }
            asked.insert(resource.address.uri.clone());
        }
        // The union holds everything, so nothing is left over for a later request.
        entry.wanting.clear();
        let uris = asked.iter().cloned().collect();
        entry.opening = Some(OpeningListen { asked });
        self.out.push(SubscriptionCommand::Listen { ticket, place: server, uris });
    }

    /// The listen of a server holds what nobody wants: it is closed at once if that is everything, else replaced later.
    pub(super) fn surplus(&mut self, server: PlaceId, now: Instant) {
        let Some(entry) = self.servers.get(&server) else { return };
        if entry.by_uri.is_empty() {
            self.shrink(server, now);
        } else if !self.timers.is_armed(SubscriptionTimer::Shrink(server)) {
            self.timers.arm(SubscriptionTimer::Shrink(server), now + self.settings.shrink_after);
        }
    }

    /// Replaces a listen that is too large.
    pub(super) fn shrink(&mut self, server: PlaceId, now: Instant) {
        let Some(entry) = self.servers.get(&server) else { return };
        // A listen that is being opened is looked at when it is acknowledged.
        let Some(open) = entry.open.as_ref().filter(|_| entry.opening.is_none()) else { return };
        let wanted = self.wanted(entry, open);
        // Somebody came back for what was surplus.
        if wanted == open.honoured.len() && wanted > 0 {
            return;
        }
        if wanted > 0 {
            return self.open_listen(server, now);
        }
        let ticket = open.ticket;
        if let Some(entry) = self.servers.get_mut(&server) {
            entry.open = None;
        }
        self.out.push(SubscriptionCommand::Close { ticket, place: server });
    }

    /// How much of a listen is wanted.
    fn wanted(&self, entry: &ServerRecord, open: &OpenListen) -> usize {
        let is_wanted = |uri: &&Uri| {
            let state = entry.by_uri.get(*uri).and_then(|id| self.resources.get(id)).map(|resource| resource.state);
            matches!(state, Some(ResourceState::Active | ResourceState::Lingering))
        };
        open.honoured.iter().filter(is_wanted).count()
    }

    fn check_surplus(&mut self, server: PlaceId, now: Instant) {
        let Some(entry) = self.servers.get(&server) else { return };
        let Some(open) = &entry.open else { return };
        // A listen that honours nothing is an open stream for nothing.
        if self.wanted(entry, open) < open.honoured.len() || open.honoured.is_empty() {
            self.surplus(server, now);
        }
    }
}
