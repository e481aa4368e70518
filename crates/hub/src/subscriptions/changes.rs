//! From a change to what a follower takes.

use std::time::Instant;

use tidings_wire::Digest;

use super::PlaceId;
use super::SubscriptionTable;
use super::ancestors::ancestors;
use super::command::{ResourceAddress, SubscriptionCommands, Uri};
use super::resource::{
    ChangedUris, FollowerGate, GatheredChanges, ResourceId, ResourceRecord, ResourceState, UntoldChanges,
};
use super::settings::SubResources;
use super::timers::SubscriptionTimer;
use crate::ledger::FollowerId;

/// One `resources/updated` for a follower.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpdateNotice {
    /// Where the resource changed.
    pub place: PlaceId,
    /// The URI to tell: the subscribed one, or a child of it.
    pub uri: Uri,
    /// The subscribed one.
    pub followed: Uri,
    /// The first change that it stands for.
    pub since: Instant,
}

impl SubscriptionTable {
    /// A server says that a resource changed. It is matched with the resource itself, else with those it lies under.
    pub fn changed(&mut self, server: PlaceId, uri: &Uri, now: Instant) -> SubscriptionCommands {
        if let Some(entry) = self.servers.get(&server) {
            let exact = entry.by_uri.get(uri).copied();
            let above: Vec<ResourceId> = ancestors(uri).filter_map(|above| entry.by_uri.get(above)).copied().collect();
            // The resource itself first: its content is known to be out of date even where nobody is told.
            match exact.and_then(|id| Some((id, self.resources.get_mut(&id)?))) {
                Some((id, resource)) => {
                    // What was read before is not what is there now.
                    resource.known = None;
                    resource.learning = None;
                    self.note(id, None, now);
                }
                // Nobody follows it, but what is remembered of it is out of date.
                None => _ = self.contents.take(&ResourceAddress { place: server, uri: Uri::clone(uri) }),
            }
            for id in above {
                let Some(resource) = self.resources.get_mut(&id) else { continue };
                // The server may mean only the one; but of a resource whose children it announced once, it may mean both.
                if exact.is_none() || resource.has_children {
                    resource.has_children = true;
                    resource.learning = None;
                    self.note(id, Some(uri), now);
                }
            }
        }
        self.finish(now)
    }

    /// A content passed: a client read it, or a poll. For a resource that is polled, another content is a change.
    pub fn seen(&mut self, address: &ResourceAddress, content: Digest, now: Instant) -> SubscriptionCommands {
        let found = self.servers.get(&address.place).and_then(|server| server.by_uri.get(&address.uri)).copied();
        match found.and_then(|id| Some((id, self.resources.get_mut(&id)?))) {
            None => self.contents.remember(address.clone(), content),
            Some((id, resource)) => {
                // What is known is replaced in every state, also where only a poll may announce.
                let differs = resource.known.replace(content) != Some(content);
                // What is being learnt may be older than what was read here.
                resource.learning = None;
                if let Some(gap) = &mut resource.gap
                    && gap.before != Some(content)
                {
                    // Somebody has read something else meanwhile: the content before says nothing about that client.
                    gap.before = None;
                }
                if differs && resource.state == ResourceState::Polled {
                    self.note(id, None, now);
                }
            }
        }
        self.finish(now)
    }

    /// The followed resources whose changes are gathered since this moment, because this one changed or was seen then. Further changes
    /// until they are announced have begun nothing.
    pub fn gathered_at(&self, server: PlaceId, uri: &str, at: Instant) -> Vec<Uri> {
        let Some(entry) = self.servers.get(&server) else { return Vec::new() };
        let ids = std::iter::once(uri).chain(ancestors(uri)).filter_map(|uri| entry.by_uri.get(uri));
        let resources = ids.filter_map(|id| self.resources.get(id));
        let is_begun = |of: &&ResourceRecord| of.pending.as_ref().is_some_and(|pending| pending.first == at);
        resources.filter(is_begun).map(|resource| Uri::clone(&resource.address.uri)).collect()
    }

    /// Takes what a follower is to be told, because its transport takes the bytes now: of at most so many resources.
    /// A follower is woken only when it had nothing to take, so this is repeated until it gives nothing.
    pub fn take_dirty(&mut self, follower: FollowerId, most: usize) -> Vec<UpdateNotice> {
        let Some(entry) = self.followers.get_mut(&follower) else { return Vec::new() };
        // From where the last call stopped: a resource that changes all the time must not keep the others from being
        // told.
        let later = entry.ready.range(entry.cursor..);
        let ids: Vec<ResourceId> = later.chain(entry.ready.range(..entry.cursor)).take(most).copied().collect();
        let mut notices = Vec::with_capacity(ids.len());
        for id in ids {
            entry.ready.remove(&id);
            entry.cursor = ResourceId(id.0 + 1);
            let Some(resource) = self.resources.get_mut(&id) else { continue };
            let Some(dirty) = resource.seats.get_mut(&follower).and_then(|seat| seat.dirty.take()) else { continue };
            let server = resource.address.place;
            let whole = dirty.changed.whole.then(|| resource.address.uri.clone());
            let uris = whole.into_iter().chain(dirty.changed.children);
            let notice = |uri| {
                let followed = Uri::clone(&resource.address.uri);
                UpdateNotice { place: server, uri, followed, since: dirty.since }
            };
            notices.extend(uris.map(notice));
        }
        notices
    }

    /// A resource changed: it is announced when it went quiet, or when the first change has waited long enough.
    pub(super) fn note(&mut self, id: ResourceId, child: Option<&Uri>, now: Instant) {
        let Some(resource) = self.resources.get_mut(&id).filter(|resource| !resource.seats.is_empty()) else { return };
        let pending =
            resource.pending.get_or_insert_with(|| GatheredChanges { first: now, changed: ChangedUris::default() });
        // Where followers are told only the subscribed URI, children need not be remembered one by one.
        pending.changed.add(child.filter(|_| self.settings.sub_resources == SubResources::Verbatim));
        // Each change puts the notice off again, but never beyond `max_wait` after the first.
        let due = (now + resource.pace.quiet).min(pending.first + resource.pace.max_wait);
        self.timers.arm(SubscriptionTimer::Announce(id), due);
    }

    /// Marks the changes of a resource with all of its followers.
    pub(super) fn announce(&mut self, id: ResourceId, now: Instant) {
        let Some(resource) = self.resources.get_mut(&id) else { return };
        let Some(pending) = resource.pending.take() else { return };
        (resource.announced, resource.announced_at) = (resource.announced.saturating_add(1), Some(now));
        let mut open = Vec::new();
        for (follower, seat) in &mut resource.seats {
            match &mut seat.dirty {
                // Not taken yet: one notice stands for both, with the time of the first.
                Some(dirty) => dirty.changed.merge(&pending.changed),
                None => {
                    seat.dirty = Some(UntoldChanges { since: pending.first, changed: pending.changed.clone() });
                    // Behind a gate that is not open it stays marked, and `acked` wakes its follower.
                    if seat.gate == FollowerGate::Open {
                        open.push(*follower);
                    }
                }
            }
        }
        // Not at once: the followers have just been told, and one of them will probably read it.
        if resource.known.is_none() && self.settings.baseline_reads > 0 {
            self.timers.arm(SubscriptionTimer::Learn(id), now + self.settings.learn_after);
        }
        for follower in open {
            self.ready(follower, id);
        }
    }
}
