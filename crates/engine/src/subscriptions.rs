//! Who follows which resource: drives [`tidings_hub::subscriptions`].
//!
//! One lock holds the machine and what is needed to carry out its commands. They are carried out before the lock is let go,
//! so servers are asked in the order that the machine decided; only bells ring afterwards, since whoever hears one takes
//! what it is owed at once, and needs the lock.
//!
//! A server of the machine is a *place*: the link that everybody shares, or the link that one session or person has to a
//! server for itself (`subscription_links.rs`).

mod clients;
mod listens;
mod show;
mod spellings;
mod subscription_links;
mod upstream_requests;

use std::collections::HashMap;
use std::sync::{Arc, MutexGuard, Weak};
use std::time::Instant;

use tidings_hub::ledger::FollowerId;
use tidings_hub::own_links::LinkOwner;
use tidings_hub::subscriptions::{
    NoticePace, PlaceId, RequestId, ResourceAddress, ServerTicket, SubscriptionCommand, SubscriptionCommands,
    SubscriptionSettings, SubscriptionTable, Uri,
};
use tidings_hub::{LinkKey, ServerId};
use tidings_proto::ServerMessage;
use tidings_sync::Lock;
use tokio::sync::{Notify, oneshot};
use tokio_util::sync::CancellationToken;

use crate::client::bells::FollowerBells;
use crate::client::sessions::SessionTable;
use crate::links::live_link::LiveLink;
use crate::links::open_links::OpenLinks;
use crate::observe::catalogue_store::CatalogueStore;
use crate::observe::meters::Meters;
use crate::observe::update_spans::{UpdateCause, UpdateSpans};
use crate::runtime::EngineRuntime;
use crate::servers::server::Server;
use crate::servers::server_pool::ServerPool;
pub use clients::Receipt;
use clients::Who;
pub(crate) use clients::{Decision, Named};
use listens::OpenListen;
pub use show::{FollowedResource, Follower};
use subscription_links::FollowedLink;

/// Takes what a server says on a stream of ours that is no answer to it.
pub(crate) trait ServerMessages: Send + Sync {
    fn heard(&self, server: &Arc<Server>, live: &LiveLink, message: ServerMessage);
}

/// Who follows which resource.
pub(crate) struct ResourceSubscriptions {
    runtime: Arc<EngineRuntime>,
    catalogue: Arc<CatalogueStore>,
    sessions: Arc<SessionTable>,
    bells: Arc<FollowerBells>,
    links: Arc<OpenLinks>,
    pool: Arc<ServerPool>,
    meters: Arc<Meters>,
    /// Weak: whoever takes them holds this.
    messages: Weak<dyn ServerMessages>,
    table: Lock<FollowTable>,
    /// Rings when the next deadline is another one.
    rearmed: Notify,
    /// Rings with every event, for whoever keeps what clients follow.
    moved: Notify,
}

/// What the subscriptions are made of: everything they ask something of.
pub(crate) struct SubscriptionSurroundings {
    pub(crate) runtime: Arc<EngineRuntime>,
    pub(crate) catalogue: Arc<CatalogueStore>,
    pub(crate) sessions: Arc<SessionTable>,
    pub(crate) bells: Arc<FollowerBells>,
    pub(crate) links: Arc<OpenLinks>,
    pub(crate) pool: Arc<ServerPool>,
    pub(crate) meters: Arc<Meters>,
    pub(crate) messages: Weak<dyn ServerMessages>,
}

pub(crate) struct FollowTable {
    pub(crate) machine: SubscriptionTable,
    /// The deadline that the clock waits for.
    armed: Option<Instant>,
    requests: u64,
    /// Clients that wait for an answer. Bounded by their requests.
    waiting: HashMap<RequestId, oneshot::Sender<Decision>>,
    /// The links that are up.
    places: HashMap<PlaceId, FollowedLink>,
    by_link: HashMap<LinkKey, PlaceId>,
    /// Sessions and people with links of their own, as far as they follow something over them.
    own: HashMap<(LinkOwner, ServerId), PlaceId>,
    next_own: u32,
    /// Servers that were removed while somebody followed their resources: it is told in its own words, and may go on when
    /// one of the same name is added.
    departed: HashMap<ServerId, Arc<Server>>,
    listens: HashMap<ServerTicket, OpenListen>,
    polls: HashMap<ResourceAddress, CancellationToken>,
    /// Who follows, and where their spelling of a URI is not the usual one.
    who: HashMap<FollowerId, Who>,
    /// What began the changes that somebody may be owed; empty without telemetry.
    causes: UpdateSpans,
}

impl FollowTable {
    fn new(pace: NoticePace) -> Self {
        Self {
            machine: SubscriptionTable::new(SubscriptionSettings { pace, ..SubscriptionSettings::default() }),
            armed: None,
            requests: 0,
            waiting: HashMap::new(),
            places: HashMap::new(),
            by_link: HashMap::new(),
            own: HashMap::new(),
            next_own: 0,
            departed: HashMap::new(),
            listens: HashMap::new(),
            polls: HashMap::new(),
            who: HashMap::new(),
            causes: UpdateSpans::default(),
        }
    }
}

impl ResourceSubscriptions {
    pub(crate) fn new(around: SubscriptionSurroundings) -> Self {
        let SubscriptionSurroundings { runtime, catalogue, sessions, bells, links, pool, meters, messages } = around;
        let table = Lock::new(FollowTable::new(runtime.settings.resource_pace));
        let (rearmed, moved) = (Notify::new(), Notify::new());
        Self { runtime, catalogue, sessions, bells, links, pool, meters, messages, table, rearmed, moved }
    }

    fn lock(&self) -> MutexGuard<'_, FollowTable> {
        self.table.lock()
    }

    /// Something happened: the machine is told, and what it wants is done.
    pub(crate) fn drive(self: &Arc<Self>, event: impl FnOnce(&mut FollowTable, Instant) -> SubscriptionCommands) {
        self.drive_with(|table, now| (event(table, now), ()));
    }

    /// As [`Self::drive`], with something to give back.
    fn drive_with<T>(
        self: &Arc<Self>,
        event: impl FnOnce(&mut FollowTable, Instant) -> (SubscriptionCommands, T),
    ) -> T {
        let (awake, given): (Vec<FollowerId>, T) = {
            let mut table = self.lock();
            let (commands, given) = event(&mut table, Instant::now());
            // Under the lock, so that servers are asked in the order that the machine decided.
            let awake = commands.into_iter().filter_map(|command| self.carry_out(&mut table, command)).collect();
            let next = table.machine.next_deadline();
            // The clock is woken only if its deadline moved: most events leave it as it is.
            if std::mem::replace(&mut table.armed, next) != next {
                self.rearmed.notify_one();
            }
            (awake, given)
        };
        self.moved.notify_one();
        for follower in awake {
            self.bells.ring(follower, &self.sessions);
        }
        given
    }

    /// Waits until something has happened to what is followed since this was last waited for. For one who waits.
    pub(crate) async fn moved(&self) {
        self.moved.notified().await;
    }

    /// Keeps the machine's time until the gateway ends.
    pub(crate) async fn keep_time(self: Arc<Self>) {
        loop {
            // Read anew after every wake; `rearmed` keeps a permit, so a deadline that moves between the two is not
            // missed.
            let armed = self.lock().armed;
            let due = async {
                match armed {
                    Some(at) => tokio::time::sleep_until(at.into()).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = due => self.drive(|table, now| table.machine.on_time(now)),
                () = self.rearmed.notified() => {}
                () = self.runtime.stop.cancelled() => return,
            }
        }
    }

    /// Gives back who is to be woken.
    fn carry_out(self: &Arc<Self>, table: &mut FollowTable, command: SubscriptionCommand) -> Option<FollowerId> {
        match command {
            SubscriptionCommand::Subscribe { ticket, address } => self.send_subscribe(table, ticket, &address),
            SubscriptionCommand::Unsubscribe { ticket, address } => self.send_unsubscribe(table, ticket, &address),
            SubscriptionCommand::Read { ticket, address, is_baseline } => {
                self.send_read(table, ticket, &address, is_baseline)
            }
            SubscriptionCommand::Listen { ticket, place, uris } => self.open_listen(table, ticket, place, &uris),
            SubscriptionCommand::Close { ticket, .. } => self.close_listen(table, ticket),
            SubscriptionCommand::Poll(address) => self.begin_poll(table, address),
            SubscriptionCommand::StopPolling(address) => {
                if let Some(poll) = table.polls.remove(&address) {
                    poll.cancel();
                }
            }
            SubscriptionCommand::Reply(request) => table.decide(request, Decision::Agreed),
            SubscriptionCommand::Refuse { request, refusal } => table.decide(request, Decision::Refused(refusal)),
            SubscriptionCommand::Acknowledge { request, honoured, .. } => {
                table.decide(request, Decision::Honoured(honoured))
            }
            SubscriptionCommand::Wake(follower) => return Some(follower),
        }
        None
    }

    /// A server says over a link that a resource changed.
    pub(crate) fn resource_changed(self: &Arc<Self>, link: LinkKey, uri: &str) {
        let uri = Uri::from(uri);
        self.drive(|table, now| match table.by_link.get(&link) {
            Some(&place) => {
                let commands = table.machine.changed(place, &uri, now);
                self.trace_cause(table, place, &uri, now, UpdateCause::Signal);
                commands
            }
            // Nothing is followed over this link.
            None => SubscriptionCommands::new(),
        });
    }

    /// For whoever exports traces: something happened at this moment to a resource. Traced if followers of it, or of what it lies under,
    /// will be told because of it.
    fn trace_cause(&self, table: &mut FollowTable, place: PlaceId, uri: &str, now: Instant, cause: UpdateCause) {
        let Some(sink) = self.runtime.telemetry.as_deref() else { return };
        let followed = table.machine.gathered_at(place, uri, now);
        let Some(server) = self.server_at(table, place).filter(|_| !followed.is_empty()) else { return };
        let followed = followed.into_iter().map(|uri| ResourceAddress { place, uri });
        table.causes.caused(sink, (cause, &server.plan.name), uri, followed, now);
    }
}
