//! What is asked of servers, one thing at a time for each resource and so many at a time for each server.

use std::time::Instant;

use super::Subscriptions;
use super::command::{Answer, Command, Commands, Refusal, Ticket, Upstream};
use super::resource::{Errand, Flight, ResourceId, State};
use super::timers::Timer;
use crate::ServerId;

/// So often a subscription is tried again when its server is not reached, before its followers are told that something may
/// have changed.
const TRIES_UNTOLD: u32 = 5;

impl Subscriptions {
    /// How a [`Command::Subscribe`], [`Command::Unsubscribe`] or [`Command::Read`] ended. What was given up meanwhile, or
    /// asked on a link that was lost, changes nothing.
    pub fn answered(&mut self, ticket: Ticket, answer: &Answer, now: Instant) -> Commands {
        if self.flights.get(&ticket).is_some_and(|flight| !matches!(flight.errand, Errand::Listen)) {
            self.land(ticket, answer, now);
        }
        self.finish(now)
    }

    /// A server did not answer in time.
    pub(super) fn overdue(&mut self, ticket: Ticket, now: Instant) {
        match self.flights.get(&ticket) {
            Some(Flight { server, errand: Errand::Listen }) => {
                let server = *server;
                self.out.push(Command::Close { ticket, server });
                self.listen_failed(ticket, server, &Refusal::TimedOut, now);
            }
            Some(_) => self.land(ticket, &Answer::Failed(Refusal::TimedOut), now),
            None => {}
        }
    }

    fn land(&mut self, ticket: Ticket, answer: &Answer, now: Instant) {
        let Some(flight) = self.flights.remove(&ticket) else { return };
        self.timers.disarm(Timer::Overdue(ticket));
        if let Some(server) = self.servers.get_mut(&flight.server) {
            server.in_flight -= 1;
            if matches!(flight.errand, Errand::Learn(_)) {
                server.learning -= 1;
            }
            self.busy.insert(flight.server);
        }
        match flight.errand {
            Errand::Listen => {}
            Errand::Subscribe(id) => {
                let asked = self.resources.get(&id).map(|resource| resource.state);
                if asked == Some(State::Subscribing(Some(ticket))) {
                    match answer {
                        Answer::Failed(refusal) => self.refused(id, refusal, now),
                        Answer::Done | Answer::Content(_) => self.agreed(id, now),
                    }
                }
            }
            // A server that does not let go has nobody left to tell.
            Errand::Unsubscribe(id) => self.released(id, ticket),
            Errand::Learn(id) => self.learnt(id, ticket, answer, now),
            Errand::Read(id) if *answer == Answer::Failed(Refusal::Unreachable) => self.not_read(id, ticket, now),
            Errand::Read(id) => {
                let content = if let Answer::Content(digest) = answer { Some(*digest) } else { None };
                self.compare(id, ticket, content, now);
            }
        }
    }

    /// The server agreed to a resource.
    pub(super) fn agreed(&mut self, id: ResourceId, now: Instant) {
        let Some(resource) = self.resources.get_mut(&id) else { return };
        resource.state = State::Active;
        resource.is_agreed = true;
        resource.is_unsure = false;
        resource.tries = 0;
        resource.unheard_since = None;
        if resource.seats.is_empty() {
            return self.emptied(id, now);
        }
        self.admit(id);
        self.after_gap(id, now);
    }

    /// The server refused a resource.
    pub(super) fn refused(&mut self, id: ResourceId, refusal: &Refusal, now: Instant) {
        let Some(resource) = self.resources.get_mut(&id) else { return };
        let Some(server) = self.servers.get_mut(&resource.address.server) else { return };
        let is_lost = *refusal == Refusal::Unreachable;
        resource.is_unsure = (is_lost || *refusal == Refusal::TimedOut) && server.link == Some(Upstream::PerUri);
        // A message that was lost on the way is no reason to read instead of being told for the rest of the link's life.
        if server.poll && !resource.seats.is_empty() && !is_lost {
            resource.state = State::Baseline;
            resource.reading = None;
            // An error may be over the next time; that it does not honour this, or offers nothing, is its last word.
            if matches!(refusal, Refusal::ByServer(_) | Refusal::TimedOut) {
                self.timers.arm(Timer::Retry(id), now + self.settings.retry.pause(resource.tries));
                resource.tries += 1;
            }
            server.reads.insert(id);
            self.busy.insert(resource.address.server);
            return;
        }
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
    fn unheard(&mut self, id: ResourceId, refusal: &Refusal, now: Instant) {
        let Some(resource) = self.resources.get_mut(&id) else { return };
        resource.begin_gap();
        resource.begin_silence(now);
        resource.state = State::Unheard;
        let tries = resource.tries;
        resource.tries += 1;
        if *refusal != Refusal::NotOffered {
            let is_reached = !matches!(refusal, Refusal::Unreachable | Refusal::TimedOut);
            let backoff = if is_reached { self.settings.retry } else { self.settings.reach };
            self.timers.arm(Timer::Retry(id), now + backoff.pause(tries));
        }
        let patience = if *refusal == Refusal::Unreachable { TRIES_UNTOLD } else { 0 };
        if tries == patience {
            self.note(id, None, now);
        }
    }

    pub(super) fn retry(&mut self, id: ResourceId, now: Instant) {
        match self.resources.get(&id).map(|resource| resource.state) {
            Some(State::Unheard) => self.want(id),
            Some(State::Polled) => {
                // Nobody is answered meanwhile that it is honoured.
                self.reconsider(id);
                let Some(resource) = self.resources.get_mut(&id) else { return };
                // What changes until the server has answered is found by the content.
                resource.begin_gap();
                self.out.push(Command::StopPolling(resource.address.clone()));
                self.want(id);
            }
            Some(State::Baseline) => self.timers.arm(Timer::Retry(id), now + self.settings.retry.first),
            _ => {}
        }
    }

    /// Nobody came back.
    pub(super) fn release(&mut self, id: ResourceId, now: Instant) {
        let Some(resource) = self.resources.get(&id).filter(|resource| resource.state == State::Lingering) else {
            return;
        };
        let server = resource.address.server;
        if self.servers.get(&server).is_some_and(|server| server.link == Some(Upstream::Union)) {
            self.forget(id);
            self.surplus(server, now);
        } else {
            self.let_go(id);
        }
    }

    fn let_go(&mut self, id: ResourceId) {
        let Some(resource) = self.resources.get_mut(&id) else { return };
        if resource.state == State::Polled {
            self.out.push(Command::StopPolling(resource.address.clone()));
        }
        resource.state = State::Unsubscribing(None);
        self.timers.disarm(Timer::Retry(id));
        if let Some(server) = self.servers.get_mut(&resource.address.server) {
            server.wanting.remove(&id);
            server.releases.insert(id);
            self.busy.insert(resource.address.server);
        }
    }

    fn released(&mut self, id: ResourceId, ticket: Ticket) {
        let Some(resource) = self.resources.get_mut(&id) else { return };
        if resource.state != State::Unsubscribing(Some(ticket)) {
            return;
        }
        resource.is_unsure = false;
        if resource.seats.is_empty() {
            return self.forget(id);
        }
        self.want(id);
    }

    /// Sends what waits for a server, as far as it may.
    pub(super) fn send(&mut self, server: ServerId, now: Instant) {
        let Some(link) = self.servers.get(&server).and_then(|entry| entry.link) else { return };
        match link {
            Upstream::PerUri => {
                while let Some(id) = self.next_errand(server, |entry| &mut entry.wanting) {
                    let ticket = self.depart(server, Errand::Subscribe(id), now);
                    self.ask(id, State::Subscribing(Some(ticket)), |address| Command::Subscribe { ticket, address });
                }
                while let Some(id) = self.next_errand(server, |entry| &mut entry.releases) {
                    let ticket = self.depart(server, Errand::Unsubscribe(id), now);
                    self.ask(id, State::Unsubscribing(Some(ticket)), |address| Command::Unsubscribe {
                        ticket,
                        address,
                    });
                }
            }
            Upstream::Union => self.extend_listen(server, now),
            Upstream::Unable => {
                while let Some(id) = self.servers.get_mut(&server).and_then(|entry| entry.wanting.pop_first()) {
                    self.refused(id, &Refusal::NotOffered, now);
                }
            }
        }
        while let Some(id) = self.next_errand(server, |entry| &mut entry.reads) {
            let ticket = self.depart(server, Errand::Read(id), now);
            let Some(resource) = self.resources.get_mut(&id) else { continue };
            resource.reading = Some(ticket);
            let address = resource.address.clone();
            self.out.push(Command::Read { ticket, address, is_baseline: false });
        }
        self.send_learns(server, now);
    }

    pub(super) fn next_errand(
        &mut self,
        server: ServerId,
        queue: impl Fn(&mut super::Server) -> &mut std::collections::BTreeSet<ResourceId>,
    ) -> Option<ResourceId> {
        let most = self.settings.in_flight;
        let entry = self.servers.get_mut(&server).filter(|entry| entry.in_flight < most)?;
        queue(entry).pop_first()
    }

    pub(super) fn depart(&mut self, server: ServerId, errand: Errand, now: Instant) -> Ticket {
        if let Some(entry) = self.servers.get_mut(&server) {
            entry.in_flight += 1;
        }
        self.issue(server, errand, now)
    }

    /// A ticket, with the time by which it must be answered.
    pub(super) fn issue(&mut self, server: ServerId, errand: Errand, now: Instant) -> Ticket {
        let ticket = Ticket(self.mint());
        self.flights.insert(ticket, Flight { server, errand });
        self.timers.arm(Timer::Overdue(ticket), now + self.settings.answer_within);
        ticket
    }

    /// A resource is to be asked for.
    pub(super) fn want(&mut self, id: ResourceId) {
        let Some(resource) = self.resources.get_mut(&id) else { return };
        resource.state = State::Subscribing(None);
        resource.is_agreed = false;
        if let Some(server) = self.servers.get_mut(&resource.address.server) {
            server.wanting.insert(id);
            self.busy.insert(resource.address.server);
        }
    }

    fn ask(&mut self, id: ResourceId, state: State, command: impl FnOnce(super::Address) -> Command) {
        if let Some(resource) = self.resources.get_mut(&id) {
            resource.state = state;
            self.out.push(command(resource.address.clone()));
        }
    }
}
