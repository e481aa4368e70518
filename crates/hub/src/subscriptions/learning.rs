//! What followed resources say, learnt in the background: whoever follows a resource and never read it is still not told of a
//! reset that changed nothing.
//!
//! A read for this is the least important thing that is asked of a server: few at a time, after everything else, and given up
//! as soon as a change or a client's own read makes it worthless.

use std::time::Instant;

use super::PlaceId;
use super::SubscriptionTable;
use super::command::{FollowRefusal, ServerTicket, SubscriptionCommand, TicketAnswer};
use super::resource::{ResourceId, ResourceState, TicketErrand};
use super::timers::SubscriptionTimer;

impl SubscriptionTable {
    /// What a resource says is learnt, unless it is known or of no use.
    pub(super) fn learn(&mut self, id: ResourceId) {
        let Some(resource) = self.resources.get(&id).filter(|_| self.settings.baseline_reads > 0) else { return };
        let is_unknown = resource.known.is_none() && resource.learning.is_none();
        // The content of a parent does not speak for its children, and within a gap the content before is what counts.
        let is_useful = resource.is_learnable && !resource.has_children && resource.gap.is_none();
        if is_unknown
            && is_useful
            && resource.state == ResourceState::Active
            && let Some(server) = self.servers.get_mut(&resource.address.place)
        {
            server.learns.insert(id);
            self.busy.insert(resource.address.place);
        }
    }

    /// Sends the reads that learn, as far as they may be in flight.
    pub(super) fn send_learns(&mut self, server: PlaceId, now: Instant) {
        let most = self.settings.baseline_reads;
        while self.servers.get(&server).is_some_and(|entry| entry.learning < most)
            && let Some(id) = self.next_errand(server, |entry| &mut entry.learns)
        {
            // Somebody may have read it since, or left.
            let is_wanted = |resource: &&mut super::ResourceRecord| {
                resource.known.is_none() && resource.learning.is_none() && !resource.seats.is_empty()
            };
            let Some(resource) = self.resources.get_mut(&id).filter(is_wanted) else { continue };
            let address = resource.address.clone();
            let ticket = self.depart(server, TicketErrand::Learn(id), now);
            if let Some(entry) = self.servers.get_mut(&server) {
                entry.learning += 1;
            }
            if let Some(resource) = self.resources.get_mut(&id) {
                resource.learning = Some(ticket);
            }
            self.out.push(SubscriptionCommand::Read { ticket, address, is_baseline: true });
        }
    }

    /// A read that learns has ended. If anything happened to the resource meanwhile, it says nothing.
    pub(super) fn learnt(&mut self, id: ResourceId, ticket: ServerTicket, answer: &TicketAnswer, now: Instant) {
        let Some(resource) = self.resources.get_mut(&id).filter(|resource| resource.learning == Some(ticket)) else {
            return;
        };
        resource.learning = None;
        match answer {
            TicketAnswer::Content(content) if resource.gap.is_none() && resource.known.is_none() => {
                resource.known = Some(*content);
            }
            // Lost on the way: that says nothing about the resource, so it is tried once more, later.
            TicketAnswer::Failed(FollowRefusal::Unreachable) => {
                self.timers.arm(SubscriptionTimer::Learn(id), now + self.settings.learn_after);
            }
            // Refused or too large; asking again would only bother the server.
            TicketAnswer::Failed(_) => resource.is_learnable = false,
            TicketAnswer::Content(_) | TicketAnswer::Done => {}
        }
    }
}
