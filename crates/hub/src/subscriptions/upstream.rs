//! What is asked of servers, one thing at a time for each resource and so many at a time for each server.

use std::time::Instant;

use super::PlaceId;
use super::SubscriptionTable;
use super::command::{
    FollowRefusal, ServerTicket, SubscribeMethod, SubscriptionCommand, SubscriptionCommands, TicketAnswer,
};
use super::resource::{ResourceId, ResourceState, TicketErrand, TicketRecord};
use super::timers::SubscriptionTimer;

/// So often a subscription is tried again when its server is not reached, before its followers are told that something may
/// have changed.
const TRIES_UNTOLD: u32 = 5;

impl SubscriptionTable {
    /// How a [`SubscriptionCommand::Subscribe`], [`SubscriptionCommand::Unsubscribe`] or [`SubscriptionCommand::Read`] ended. What was given up meanwhile, or
    /// asked on a link that was lost, changes nothing.
    pub fn answered(&mut self, ticket: ServerTicket, answer: &TicketAnswer, now: Instant) -> SubscriptionCommands {
        if self.flights.get(&ticket).is_some_and(|flight| !matches!(flight.errand, TicketErrand::Listen)) {
            self.land(ticket, answer, now);
        }
        self.finish(now)
    }

    /// A server did not answer in time.
    pub(super) fn overdue(&mut self, ticket: ServerTicket, now: Instant) {
        match self.flights.get(&ticket) {
            Some(TicketRecord { server, errand: TicketErrand::Listen }) => {
                let server = *server;
                // The server may still acknowledge it; by then nobody would close that stream.
                self.out.push(SubscriptionCommand::Close { ticket, place: server });
                self.listen_failed(ticket, server, &FollowRefusal::TimedOut, now);
            }
            Some(_) => self.land(ticket, &TicketAnswer::Failed(FollowRefusal::TimedOut), now),
            None => {}
        }
    }

    fn land(&mut self, ticket: ServerTicket, answer: &TicketAnswer, now: Instant) {
        let Some(flight) = self.flights.remove(&ticket) else { return };
        self.timers.disarm(SubscriptionTimer::Overdue(ticket));
        if let Some(server) = self.servers.get_mut(&flight.server) {
            // `reset` takes the tickets of a lost link out and sets the count to zero, so this never counts one twice.
            server.in_flight -= 1;
            if matches!(flight.errand, TicketErrand::Learn(_)) {
                server.learning -= 1;
            }
            self.busy.insert(flight.server);
        }
        match flight.errand {
            TicketErrand::Listen => {}
            TicketErrand::Subscribe(id) => {
                let asked = self.resources.get(&id).map(|resource| resource.state);
                // Everybody may have left meanwhile, or another link asked anew.
                if asked == Some(ResourceState::Subscribing(Some(ticket))) {
                    match answer {
                        TicketAnswer::Failed(refusal) => self.refused(id, refusal, now),
                        TicketAnswer::Done | TicketAnswer::Content(_) => self.agreed(id, now),
                    }
                }
            }
            // A server that does not let go has nobody left to tell.
            TicketErrand::Unsubscribe(id) => self.released(id, ticket),
            TicketErrand::Learn(id) => self.learnt(id, ticket, answer, now),
            TicketErrand::Read(id) if *answer == TicketAnswer::Failed(FollowRefusal::Unreachable) => {
                self.not_read(id, ticket, now)
            }
            TicketErrand::Read(id) => {
                let content = if let TicketAnswer::Content(digest) = answer { Some(*digest) } else { None };
                self.compare(id, ticket, content, now);
            }
        }
    }

    /// The server agreed to a resource.
    pub(super) fn agreed(&mut self, id: ResourceId, now: Instant) {
        let Some(resource) = self.resources.get_mut(&id) else { return };
        resource.state = ResourceState::Active;
        resource.is_agreed = true;
        resource.is_unsure = false;
        resource.tries = 0;
        resource.unheard_since = None;
        if resource.seats.is_empty() {
            // Everybody left while the server was asked.
            return self.emptied(id, now);
        }
        // Before the gap is closed: the answer must precede what the content tells (invariant 4).
        self.admit(id);
        self.after_gap(id, now);
    }

    /// The server refused a resource.
    pub(super) fn refused(&mut self, id: ResourceId, refusal: &FollowRefusal, now: Instant) {
        let Some(resource) = self.resources.get_mut(&id) else { return };
        let Some(server) = self.servers.get_mut(&resource.address.place) else { return };
        let is_lost = *refusal == FollowRefusal::Unreachable;
        resource.is_unsure =
            // Only `resources/subscribe` leaves something behind at the server that an unsubscribe can undo; a listen
            // that was not acknowledged is closed.
            (is_lost || *refusal == FollowRefusal::TimedOut) && server.link == Some(SubscribeMethod::PerUri);
        // A message that was lost on the way is no reason to read instead of being told for the rest of the link's life.
        if server.poll && !resource.seats.is_empty() && !is_lost {
            resource.state = ResourceState::Baseline;
            resource.reading = None;
            // An error may be over the next time; that it does not honour this, or offers nothing, is its last word.
            if matches!(refusal, FollowRefusal::ByServer(_) | FollowRefusal::TimedOut) {
                self.timers.arm(SubscriptionTimer::Retry(id), now + self.settings.retry.after(resource.tries + 1));
                resource.tries += 1;
            }
            server.reads.insert(id);
            self.busy.insert(resource.address.place);
            return;
        }
        // Only those who wait for a first answer leave; those who were promised stay, and are served as well as it
        // goes.
        self.reject(id, refusal);
        if self.resources.get(&id).is_some_and(|resource| !resource.seats.is_empty()) {
            self.unheard(id, refusal, now);
        } else {
            self.abandon(id);
        }
    }

    /// Nobody wants a resource to which the server did not agree, or not so that we know.
    pub(super) fn abandon(&mut self, id: ResourceId) {
        if self.resources.get(&id).is_some_and(|resource| resource.is_unsure) {
            self.let_go(id);
        } else {
            self.forget(id);
        }
    }

    /// What was promised is refused: its followers are told that something may have changed, and it is tried again. Where the
    /// server was not reached, that may be so only for a moment, and the content decides afterwards.
    fn unheard(&mut self, id: ResourceId, refusal: &FollowRefusal, now: Instant) {
        let Some(resource) = self.resources.get_mut(&id) else { return };
        resource.begin_gap();
        resource.begin_silence(now);
        resource.state = ResourceState::Unheard;
        let tries = resource.tries;
        resource.tries += 1;
        // A server without subscriptions will not have them before its next link.
        if *refusal != FollowRefusal::NotOffered {
            let is_reached = !matches!(refusal, FollowRefusal::Unreachable | FollowRefusal::TimedOut);
            // A server that answered is left alone for longer than one that could not be reached.
            let backoff = if is_reached { self.settings.retry } else { self.settings.reach };
            self.timers.arm(SubscriptionTimer::Retry(id), now + backoff.after(tries + 1));
        }
        // A link that is lost for a moment is not worth a notice; a server that says no is, at once: followers would
        // trust a promise that nobody keeps.
        let patience = if *refusal == FollowRefusal::Unreachable { TRIES_UNTOLD } else { 0 };
        // Exactly once in a row of failures, however long it gets.
        if tries == patience {
            self.note(id, None, now);
        }
    }

    pub(super) fn retry(&mut self, id: ResourceId, now: Instant) {
        match self.resources.get(&id).map(|resource| resource.state) {
            Some(ResourceState::Unheard) => self.want(id),
            Some(ResourceState::Polled) => {
                // Nobody is answered meanwhile that it is honoured.
                self.reconsider(id);
                let Some(resource) = self.resources.get_mut(&id) else { return };
                // What changes until the server has answered is found by the content.
                resource.begin_gap();
                self.out.push(SubscriptionCommand::StopPolling(resource.address.clone()));
                self.want(id);
            }
            Some(ResourceState::Baseline) => {
                // The first content is still being read; the server is asked again when that is done.
                self.timers.arm(SubscriptionTimer::Retry(id), now + self.settings.retry.first)
            }
            _ => {}
        }
    }

    /// Nobody came back while the resource lingered: the server is told.
    pub(super) fn release(&mut self, id: ResourceId, now: Instant) {
        let Some(resource) = self.resources.get(&id).filter(|resource| resource.state == ResourceState::Lingering)
        else {
            return;
        };
        let server = resource.address.place;
        if self.servers.get(&server).is_some_and(|server| server.link == Some(SubscribeMethod::Union)) {
            self.forget(id);
            // The listen still has the URI. It is not opened anew for each that goes, but once after a while.
            self.surplus(server, now);
        } else {
            self.let_go(id);
        }
    }

    fn let_go(&mut self, id: ResourceId) {
        let Some(resource) = self.resources.get_mut(&id) else { return };
        if resource.state == ResourceState::Polled {
            self.out.push(SubscriptionCommand::StopPolling(resource.address.clone()));
        }
        // Only where each URI is asked for: a listen leaves nothing behind that could be released.
        resource.state = ResourceState::Unsubscribing(None);
        self.timers.disarm(SubscriptionTimer::Retry(id));
        if let Some(server) = self.servers.get_mut(&resource.address.place) {
            server.wanting.remove(&id);
            server.releases.insert(id);
            self.busy.insert(resource.address.place);
        }
    }

    fn released(&mut self, id: ResourceId, ticket: ServerTicket) {
        let Some(resource) = self.resources.get_mut(&id) else { return };
        // Somebody came back meanwhile, and the resource was asked for anew.
        if resource.state != ResourceState::Unsubscribing(Some(ticket)) {
            return;
        }
        resource.is_unsure = false;
        if resource.seats.is_empty() {
            return self.forget(id);
        }
        self.want(id);
    }

    /// Sends what waits for a server, as far as it may.
    pub(super) fn send(&mut self, server: PlaceId, now: Instant) {
        let Some(link) = self.servers.get(&server).and_then(|entry| entry.link) else { return };
        match link {
            SubscribeMethod::PerUri => {
                // Subscriptions before releases: a client waits for the one and nobody for the other.
                while let Some(id) = self.next_errand(server, |entry| &mut entry.wanting) {
                    let ticket = self.depart(server, TicketErrand::Subscribe(id), now);
                    self.ask(id, ResourceState::Subscribing(Some(ticket)), |address| SubscriptionCommand::Subscribe {
                        ticket,
                        address,
                    });
                }
                while let Some(id) = self.next_errand(server, |entry| &mut entry.releases) {
                    let ticket = self.depart(server, TicketErrand::Unsubscribe(id), now);
                    self.ask(id, ResourceState::Unsubscribing(Some(ticket)), |address| {
                        SubscriptionCommand::Unsubscribe { ticket, address }
                    });
                }
            }
            SubscribeMethod::Union => self.extend_listen(server, now),
            SubscribeMethod::Unable => {
                // No bound on what is in flight: nothing is sent.
                while let Some(id) = self.servers.get_mut(&server).and_then(|entry| entry.wanting.pop_first()) {
                    self.refused(id, &FollowRefusal::NotOffered, now);
                }
            }
        }
        // Subscriptions before reads: a read is only worth its cost for a resource that is followed.
        while let Some(id) = self.next_errand(server, |entry| &mut entry.reads) {
            let ticket = self.depart(server, TicketErrand::Read(id), now);
            let Some(resource) = self.resources.get_mut(&id) else { continue };
            resource.reading = Some(ticket);
            let address = resource.address.clone();
            self.out.push(SubscriptionCommand::Read { ticket, address, is_baseline: false });
        }
        self.send_learns(server, now);
    }

    pub(super) fn next_errand(
        &mut self,
        server: PlaceId,
        queue: impl Fn(&mut super::ServerRecord) -> &mut std::collections::BTreeSet<ResourceId>,
    ) -> Option<ResourceId> {
        let most = self.settings.in_flight;
        let entry = self.servers.get_mut(&server).filter(|entry| entry.in_flight < most)?;
        queue(entry).pop_first()
    }

    pub(super) fn depart(&mut self, server: PlaceId, errand: TicketErrand, now: Instant) -> ServerTicket {
        if let Some(entry) = self.servers.get_mut(&server) {
            entry.in_flight += 1;
        }
        self.issue(server, errand, now)
    }

    /// A ticket, with the time by which it must be answered.
    pub(super) fn issue(&mut self, server: PlaceId, errand: TicketErrand, now: Instant) -> ServerTicket {
        // From the same sequence as everything else here, so no ticket is ever reused and a late answer finds nothing.
        let ticket = ServerTicket(self.mint());
        self.flights.insert(ticket, TicketRecord { server, errand });
        self.timers.arm(SubscriptionTimer::Overdue(ticket), now + self.settings.answer_within);
        ticket
    }

    /// A resource is to be asked for.
    pub(super) fn want(&mut self, id: ResourceId) {
        let Some(resource) = self.resources.get_mut(&id) else { return };
        resource.state = ResourceState::Subscribing(None);
        // Until the server has answered again; what it agreed to on another link does not count.
        resource.is_agreed = false;
        if let Some(server) = self.servers.get_mut(&resource.address.place) {
            server.wanting.insert(id);
            self.busy.insert(resource.address.place);
        }
    }

    fn ask(
        &mut self,
        id: ResourceId,
        state: ResourceState,
        command: impl FnOnce(super::ResourceAddress) -> SubscriptionCommand,
    ) {
        if let Some(resource) = self.resources.get_mut(&id) {
            resource.state = state;
            self.out.push(command(resource.address.clone()));
        }
    }
}
