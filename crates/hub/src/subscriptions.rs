//! Who follows which resource, and what is asked of servers for it.
//!
//! However many follow a resource, its server is asked once. Per server and URI:
//!
//! ```text
//!            first follower            server agrees
//!   (absent) ───────────▶ Subscribing ─────────────▶ Active ◀──────────┐ somebody comes back
//!      ▲                   │    ▲  ▲                 │  │ last one left│
//!      │ refused: everybody│    │  │ link lost:      │  └─────▶ Lingering
//!      │ who waits is told │    │  └─everything anew─┘              │ the time is over
//!      ├───────────────────┘    │ somebody came meanwhile           ▼
//!      └────────────────────────┴──────────────────────────── Unsubscribing
//!
//!   refused, and the server may be polled:          Subscribing ─▶ Baseline ─▶ Polled
//!   refused after it was promised (after a reset):  Subscribing ─▶ Unheard ─▶ Subscribing, later and later
//! ```
//!
//! A server of the old era is asked for each URI ([`SubscribeMethod::PerUri`]); one of the new era is sent a new listen with the
//! whole union, and the old one is closed when the new one is acknowledged ([`SubscribeMethod::Union`]). Everything else is the
//! same for both. A listen that grew too large is replaced by a smaller one later; until then its surplus is dropped here.
//!
//! A follower of a resource passes a gate, so that nothing overtakes its acknowledgement:
//!
//! ```text
//!   Waiting ──server agrees: Reply, Acknowledge──▶ Answered ──acked()──▶ Open ──unsubscribe(), gone()──▶ (absent)
//!           changes are held                       changes are held      changes are taken by take_dirty()
//! ```
//!
//! Changes of a resource are gathered ([`NoticePace`]), then marked with each of its followers: a set that can not grow beyond
//! what the follower subscribed to, however slowly it reads.
//!
//! # How it is driven
//!
//! One owner holds the table behind one lock, calls a method for each fact, carries out the commands in their order, and
//! calls [`SubscriptionTable::on_time`] at [`SubscriptionTable::next_deadline`].
//!
//! | fact | method |
//! |---|---|
//! | a client's `resources/subscribe`, `resources/unsubscribe`, its cancellation | [`subscribe`], [`unsubscribe`], [`cancel`] |
//! | a client's `subscriptions/listen` | [`listen`] |
//! | its answer was handed to the transport | [`acked`] |
//! | its transport takes | [`take_dirty`], until it gives nothing |
//! | it is gone, or its listen was closed | [`gone`] |
//! | a server is connected, its link is lost, it is no longer configured | [`connected`], [`lost`], [`removed`] |
//! | what a server said could not be heard for a while | [`missed`] |
//! | a server's answer to a command | [`answered`], [`listening`], [`listen_ended`] |
//! | a server's `resources/updated` | [`changed`] |
//! | a content that was read | [`seen`] |
//! | a follower of an earlier process is back | [`subscribe`], [`acked`], [`resumed`] |
//!
//! When [`unsubscribe`] returns, the route and everything queued are gone and the answer may be written; what was taken
//! before must be written before.
//!
//! [`subscribe`]: SubscriptionTable::subscribe
//! [`unsubscribe`]: SubscriptionTable::unsubscribe
//! [`cancel`]: SubscriptionTable::cancel
//! [`listen`]: SubscriptionTable::listen
//! [`acked`]: SubscriptionTable::acked
//! [`take_dirty`]: SubscriptionTable::take_dirty
//! [`gone`]: SubscriptionTable::gone
//! [`connected`]: SubscriptionTable::connected
//! [`lost`]: SubscriptionTable::lost
//! [`removed`]: SubscriptionTable::removed
//! [`missed`]: SubscriptionTable::missed
//! [`answered`]: SubscriptionTable::answered
//! [`listening`]: SubscriptionTable::listening
//! [`listen_ended`]: SubscriptionTable::listen_ended
//! [`changed`]: SubscriptionTable::changed
//! [`seen`]: SubscriptionTable::seen
//! [`resumed`]: SubscriptionTable::resumed

mod account;
mod ancestors;
mod changes;
mod command;
mod contents;
mod followers;
mod inspect;
mod learning;
mod listens;
mod requests;
mod resets;
mod resource;
mod settings;
mod timers;
mod upstream;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Instant;

pub use self::account::SeatAccount;
pub use self::changes::UpdateNotice;
pub use self::command::{
    FollowRefusal, FollowTarget, PlaceId, RequestId, ResourceAddress, ServerTicket, SubscribeMethod,
    SubscriptionCommand, SubscriptionCommands, TicketAnswer, Uri,
};
use self::contents::SeenContents;
use self::followers::ResourceFollower;
pub use self::inspect::{FollowedResource, ResourcePhase};
use self::requests::FollowRequest;
use self::resource::{ResourceId, ResourceRecord, ResourceState, ServerRecord, TicketRecord};
pub use self::settings::{NoticePace, SubResources, SubscriptionSettings};
use self::timers::{SubscriptionTimer, TimerQueue};
use crate::IdMap;
use crate::ledger::FollowerId;

/// Who follows which resource, and how each stands with its server. Events go in, commands come out; no I/O.
#[derive(Debug)]
pub struct SubscriptionTable {
    settings: SubscriptionSettings,
    /// For resources and tickets.
    next: u64,
    servers: HashMap<PlaceId, ServerRecord>,
    resources: IdMap<ResourceId, ResourceRecord>,
    followers: IdMap<FollowerId, ResourceFollower>,
    requests: IdMap<RequestId, FollowRequest>,
    flights: IdMap<ServerTicket, TicketRecord>,
    timers: TimerQueue,
    contents: SeenContents,
    seats: usize,
    /// On whose account a follower's seats count, where they do.
    accounts: HashMap<FollowerId, Arc<SeatAccount>>,
    /// Servers with something to send, until the end of the event.
    busy: BTreeSet<PlaceId>,
    out: SubscriptionCommands,
}

impl Default for SubscriptionTable {
    fn default() -> Self {
        Self::new(SubscriptionSettings::default())
    }
}

impl SubscriptionTable {
    /// Nobody follows anything, and no server is known.
    pub fn new(settings: SubscriptionSettings) -> Self {
        Self {
            settings,
            next: 1,
            servers: HashMap::new(),
            resources: IdMap::default(),
            followers: IdMap::default(),
            requests: IdMap::default(),
            flights: IdMap::default(),
            timers: TimerQueue::default(),
            contents: SeenContents::new(settings.remembered),
            seats: 0,
            accounts: HashMap::new(),
            busy: BTreeSet::new(),
            out: Vec::new(),
        }
    }

    /// When [`Self::on_time`] is to be called.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.timers.next()
    }

    /// The time has come.
    pub fn on_time(&mut self, now: Instant) -> SubscriptionCommands {
        // What is armed meanwhile is not due yet, unless it was set to take no time: that is for the next call.
        let mut due = Vec::new();
        while let Some(timer) = self.timers.pop(now) {
            due.push(timer);
        }
        for timer in due {
            match timer {
                SubscriptionTimer::Announce(id) => self.announce(id, now),
                SubscriptionTimer::Release(id) => self.release(id, now),
                SubscriptionTimer::Retry(id) => self.retry(id, now),
                SubscriptionTimer::Reread(id) => self.reread(id),
                SubscriptionTimer::Learn(id) => self.learn(id),
                SubscriptionTimer::Overdue(ticket) => self.overdue(ticket, now),
                SubscriptionTimer::Decide(request) => self.decide(request, now),
                // `finish` sends for every busy server, and a listen that is missing is opened there.
                SubscriptionTimer::Reopen(server) => _ = self.busy.insert(server),
                SubscriptionTimer::Shrink(server) => self.shrink(server, now),
            }
        }
        self.finish(now)
    }

    fn mint(&mut self) -> u64 {
        let number = self.next;
        self.next += 1;
        number
    }

    /// The end of every event: what servers are to be sent, then everything that is to be done.
    fn finish(&mut self, now: Instant) -> SubscriptionCommands {
        // Once per fact, at its end: a fact that concerns hundreds of resources of a server causes one listen, not
        // hundreds.
        while let Some(server) = self.busy.pop_first() {
            // What is refused at once may make the server busy again, and then its reads are sent in one more round.
            self.send(server, now);
            self.tidy(server);
        }
        std::mem::take(&mut self.out)
    }

    /// Forgets a server that is away and of which nothing is followed.
    fn tidy(&mut self, id: PlaceId) {
        // While it is connected its record is needed: how it is subscribed to is known only from the handshake.
        let idle = self.servers.get(&id).is_some_and(|server| server.link.is_none() && server.by_uri.is_empty());
        if idle {
            self.servers.remove(&id);
        }
    }

    /// Takes a resource out of the table.
    fn forget(&mut self, id: ResourceId) {
        let Some(resource) = self.resources.remove(&id) else { return };
        let timers = [
            SubscriptionTimer::Announce,
            SubscriptionTimer::Release,
            SubscriptionTimer::Retry,
            SubscriptionTimer::Reread,
            SubscriptionTimer::Learn,
        ];
        // Tickets in flight and their `Overdue` stay: their answers find no resource, but still free a place in flight.
        for timer in timers.map(|timer| timer(id)) {
            self.timers.disarm(timer);
        }
        if resource.state == ResourceState::Polled {
            self.out.push(SubscriptionCommand::StopPolling(resource.address.clone()));
        }
        let address = resource.address;
        if let Some(server) = self.servers.get_mut(&address.place) {
            server.by_uri.remove(&address.uri);
            server.wanting.remove(&id);
            server.reads.remove(&id);
            server.releases.remove(&id);
            server.learns.remove(&id);
            self.busy.insert(address.place);
        }
        if let Some(known) = resource.known {
            // Whoever follows it next may begin with what was known, and is told only if it differs.
            self.contents.remember(address, known);
        }
    }
}
