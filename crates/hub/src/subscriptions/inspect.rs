//! What the API and `tidings subscriptions` show of the table. Nothing here changes it.

use std::time::Instant;

use tidings_wire::Digest;

use super::PlaceId;
use super::command::ResourceAddress;
use super::resource::{FollowerGate, ResourceState};
use super::{ResourceId, SubscriptionTable};
use crate::ledger::FollowerId;

/// How a resource stands with its server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResourcePhase {
    /// The server is asked, or is away.
    Subscribing,
    /// The server agreed to tell of changes.
    Active,
    /// Nobody follows; it is kept for a moment.
    Lingering,
    /// It is being released.
    Unsubscribing,
    /// It is read from time to time.
    Polled,
    /// The server refused what it once agreed to.
    Unheard,
}

impl ResourcePhase {
    /// The word for it in output.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Subscribing => "subscribing",
            Self::Active => "active",
            Self::Lingering => "lingering",
            Self::Unsubscribing => "unsubscribing",
            Self::Polled => "polled",
            Self::Unheard => "unheard",
        }
    }
}

/// A resource in the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FollowedResource<'a> {
    /// The resource, as its server knows it.
    pub address: &'a ResourceAddress,
    /// How far following it has come.
    pub phase: ResourcePhase,
    /// How many follow it, answered or not.
    pub followers: usize,
    /// How many requests wait for the server's answer.
    pub waiting: usize,
    /// Since when its server can not tell of its changes, though somebody was promised to be told.
    pub unheard_since: Option<Instant>,
    /// How often changes of it were put to its followers since it is in the table.
    pub announced: u32,
    /// When that was last.
    pub announced_at: Option<Instant>,
}

impl SubscriptionTable {
    /// Every resource in the table.
    pub fn followed(&self) -> impl Iterator<Item = FollowedResource<'_>> {
        self.resources.values().map(|resource| FollowedResource {
            address: &resource.address,
            phase: match resource.state {
                ResourceState::Subscribing(_) | ResourceState::Baseline => ResourcePhase::Subscribing,
                ResourceState::Active => ResourcePhase::Active,
                ResourceState::Lingering => ResourcePhase::Lingering,
                ResourceState::Unsubscribing(_) => ResourcePhase::Unsubscribing,
                ResourceState::Polled => ResourcePhase::Polled,
                ResourceState::Unheard => ResourcePhase::Unheard,
            },
            followers: resource.seats.len(),
            waiting: resource.waiting.len(),
            unheard_since: resource.unheard_since,
            announced: resource.announced,
            announced_at: resource.announced_at,
        })
    }

    /// What a client follows, as far as it was answered.
    pub fn followed_by(&self, follower: FollowerId) -> impl Iterator<Item = &ResourceAddress> {
        let ids = self.followers.get(&follower).map(|entry| &entry.resources);
        ids.into_iter().flatten().filter_map(move |id: &ResourceId| {
            let resource = self.resources.get(id)?;
            let seat = resource.seats.get(&follower).filter(|seat| seat.gate != FollowerGate::Waiting);
            seat.map(|_| &resource.address)
        })
    }

    /// What a client follows or has asked to.
    pub fn asked_by(&self, follower: FollowerId) -> impl Iterator<Item = &ResourceAddress> {
        let ids = self.followers.get(&follower).map(|entry| &entry.resources);
        ids.into_iter().flatten().filter_map(|id| self.resources.get(id)).map(|resource| &resource.address)
    }

    /// What a client follows, as far as it was answered, with the content that it needs no notice of; `None` where that is not
    /// known, or a notice is on its way.
    pub fn known_to(&self, follower: FollowerId) -> impl Iterator<Item = (&ResourceAddress, Option<Digest>)> {
        let ids = self.followers.get(&follower).map(|entry| &entry.resources);
        ids.into_iter().flatten().filter_map(move |id: &ResourceId| {
            let resource = self.resources.get(id)?;
            let seat = resource.seats.get(&follower).filter(|seat| seat.gate != FollowerGate::Waiting)?;
            // What is gathered or marked is not told yet, and of a parent the content does not say whether a child
            // changed.
            let is_told = seat.dirty.is_none() && resource.pending.is_none() && !resource.has_children;
            // Inside a gap the newest content was not compared yet: the one before is what the client knows.
            let content = resource.gap.map_or(resource.known, |gap| gap.before);
            Some((&resource.address, content.filter(|_| is_told)))
        })
    }

    /// Whether a client follows a resource, or has asked to.
    pub fn is_followed_by(&self, address: &ResourceAddress, follower: FollowerId) -> bool {
        let id = self.servers.get(&address.place).and_then(|server| server.by_uri.get(&address.uri));
        id.and_then(|id| self.resources.get(id)).is_some_and(|resource| resource.seats.contains_key(&follower))
    }

    /// Whether anybody follows a resource of a server.
    pub fn has_followers(&self, server: PlaceId) -> bool {
        let ids = self.servers.get(&server).into_iter().flat_map(|server| server.by_uri.values());
        ids.filter_map(|id| self.resources.get(id)).any(|resource| !resource.seats.is_empty())
    }

    /// How many followers there are, counted once for each resource.
    pub fn len(&self) -> usize {
        self.seats
    }

    /// Whether the table holds nothing but which servers are connected, and contents that were read.
    pub fn is_empty(&self) -> bool {
        self.resources.is_empty()
            && self.followers.is_empty()
            && self.requests.is_empty()
            && self.flights.is_empty()
            && self.timers.is_empty()
            && self.seats == 0
    }

    /// Content hashes of resources that nobody follows.
    pub fn remembered(&self) -> usize {
        self.contents.len()
    }
}
