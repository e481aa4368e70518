//! What the fleet does to the engine, and what transports see of it.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Instant;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use tidings_hub::fleet::FleetServerName;
use tidings_hub::ledger::{CommitOccasion, Topics};
use tidings_proto::{ListKind, ServerMessage};
use tidings_upstream::in_process;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{Gateway, GatewayParts, carried_requests};
use crate::call::unsolicited::is_for_owner;
use crate::discovery::look::touched;
use crate::fleet::carried::CarriedWork;
use crate::fleet::desk::{ForwardEnd, ForwardOutlet, ForwardTarget};
use crate::fleet::driver::{self, FleetEffects};
use crate::fleet::offer_form::OfferContent;
use crate::fleet::set_change::{APPLY_WITHIN, SetGate};
use crate::fleet::{
    FleetDecisions, FleetSeat, FleetShown, FleetWatches, ForwardedAnswer, ForwardedHttp, KeptStep, LoggedChange,
    SeatedWatch, SetFollower,
};
use crate::lifecycle::change::AgreedChange;
use crate::lifecycle::change::in_fleet::confirm;
use crate::lifecycle::change::{ChangeError, OfferReview, Operation};
use crate::links::live_link::LinkUser;

/// Pieces of an HTTP answer that may wait for its client; one that is further behind is cut off, and resumes.
const HTTP_BEHIND: usize = 320;

/// Weak: the driver ends when the gateway leaves, and must not keep it from being dropped.
struct EngineEffects(Weak<GatewayParts>);

impl Gateway {
    /// Begins to speak to the other replicas, where there may be some.
    pub(super) fn join_fleet(&self) {
        let Some(desk) = &self.0.runtime.fleet else { return };
        let placed = |server: &&Arc<crate::servers::server::Server>| server.is_placed();
        let servers = self.0.pool.servers();
        let plan = servers.iter().filter(placed).map(|server| crate::fleet::placed(&server.plan));
        let plan = plan.chain(desk.settings.watches.iter().map(SeatedWatch::placed));
        let effects = Arc::new(EngineEffects(Arc::downgrade(&self.0)));
        let discovery = &self.0.lifecycle.discovery;
        self.0.runtime.spawn(Arc::clone(discovery).begin_agreed());
        self.0.runtime.spawn(Arc::clone(discovery).write_agreed());
        let (plan, discovery, desk_of_driver) = (plan.collect(), Arc::downgrade(discovery), Arc::clone(desk));
        desk.tasks.spawn(async move {
            // Before anything is read: what waits for decisions must not be shown without them.
            let followed = discovery.upgrade();
            if let Some(discovery) = followed {
                discovery.follow_agreed().await;
            }
            driver::start::run(desk_of_driver, effects, plan).await;
        });
    }

    pub(super) fn has_joined_fleet(&self) -> bool {
        self.0.runtime.fleet.as_ref().is_none_or(|fleet| fleet.joined.load(Ordering::Relaxed))
    }

    /// The replicas, where there may be several.
    pub fn fleet(&self) -> Option<FleetShown> {
        self.0.runtime.fleet.as_ref().map(|fleet| fleet.shown())
    }

    /// The replica that runs a server, where there may be several.
    pub fn owner_of(&self, server: &str) -> Option<String> {
        let fleet = self.0.runtime.fleet.as_ref()?;
        match fleet.seat_of(server) {
            FleetSeat::Nobody => None,
            FleetSeat::Here(_) | FleetSeat::Ending => Some(fleet.me.name.as_str().to_owned()),
            FleetSeat::Elsewhere(replica, _) => Some(replica.name.as_str().to_owned()),
        }
    }

    /// Whether another replica runs a server.
    pub fn runs_elsewhere(&self, server: &str) -> bool {
        let fleet = self.0.runtime.fleet.as_ref();
        fleet.is_some_and(|fleet| matches!(fleet.seat_of(server), FleetSeat::Elsewhere(..)))
    }

    /// What the replicas decide together, where there may be several.
    pub fn decisions(&self) -> Option<FleetDecisions> {
        self.0.runtime.fleet.clone().map(FleetDecisions::new)
    }

    /// The watches that one replica looks at for all, where there may be several.
    pub fn watch_seats(&self) -> Option<FleetWatches> {
        self.0.runtime.fleet.clone().map(FleetWatches::new)
    }

    /// Whether the set of servers is that of a cluster, and changes by its log.
    pub fn is_replica(&self) -> bool {
        self.0.runtime.fleet.is_some()
    }

    /// Who keeps what is configured: is told of what is in the log, in its order.
    pub fn follow_set(&self, follower: Arc<dyn SetFollower>) {
        if let Some(fleet) = &self.0.runtime.fleet {
            // Once: there is one registry.
            let _ = fleet.set.follower.set(follower);
        }
    }

    /// Waits until everything that is in the log of the cluster is applied here, if there is one.
    pub async fn confirm_set(&self) -> Result<(), ChangeError> {
        match &self.0.runtime.fleet {
            Some(fleet) => confirm(fleet).await,
            None => Ok(()),
        }
    }

    /// As [`Self::change_reviewed`], for all replicas; `kept` is what is configured otherwise.
    pub async fn change_in_fleet(
        &self,
        operations: Vec<Operation>,
        kept: Vec<KeptStep>,
        cancelled: &CancellationToken,
        review: impl AsyncFnOnce(Vec<OfferReview>) -> Result<(), ChangeError>,
        agreed: &dyn AgreedChange,
    ) -> Result<(), ChangeError> {
        self.0.lifecycle.change_in_fleet((operations, kept), cancelled, review, agreed).await
    }

    /// Carries out what a change in the log means here; `settle` is done just before the commit.
    pub async fn apply_logged(&self, operations: Vec<Operation>, change: LoggedChange, settle: BoxFuture<'_, ()>) {
        self.0.lifecycle.follow_set(operations, change, settle).await;
    }

    /// Why no replica runs a server, where there may be several.
    pub fn unplaced(&self, server: &str) -> Option<String> {
        self.0.runtime.fleet.as_ref()?.unplaced(server)
    }

    /// The process that sessions which begin here live in, where there may be several.
    pub fn session_home(&self) -> Option<u64> {
        self.0.runtime.fleet.as_ref().map(|fleet| fleet.me.incarnation)
    }

    /// Who carries out HTTP requests of other replicas.
    pub fn serve_forwarded(&self, http: Arc<dyn ForwardedHttp>) {
        if let Some(fleet) = &self.0.runtime.fleet {
            *fleet.http.lock() = Some(http);
        }
    }

    /// Sends an HTTP request to the process where its session lives. One that ends broken before its
    /// head was not carried out: the process is gone. `None` without a cluster.
    pub fn forward_http(&self, home: u64, request: Bytes) -> Option<ForwardedAnswer> {
        let fleet = self.0.runtime.fleet.as_ref()?;
        let (pieces, heard) = mpsc::channel(HTTP_BEHIND);
        let outlet = ForwardOutlet::Http { pieces, is_begun: false };
        let key = fleet.new_key();
        fleet.open(key, ForwardTarget::Process(home), request, outlet);
        Some(ForwardedAnswer { pieces: heard, _end: ForwardEnd { desk: Arc::clone(fleet), key } })
    }
}

impl FleetEffects for EngineEffects {
    fn show(&self, server: &FleetServerName, offer: OfferContent) {
        let (Some(parts), Some(server)) = (self.0.upgrade(), server.server()) else { return };
        let servers = parts.pool.servers();
        // One that is not in this replica's file is none of its matter.
        let Some(server) = servers.named(server, false).filter(|server| server.is_placed()) else { return };
        let OfferContent { hello, lists } = offer;
        let known = parts.catalogue.current();
        let before = known.snapshot.offer(server.id).cloned();
        // Every connection has a hello of its own; the same words are the same connection here.
        let hello = match known.server(server.id).and_then(|status| status.hello.clone()) {
            Some(known) if known.capabilities == hello.capabilities && known.info == hello.info => known,
            _ => Arc::new(hello),
        };
        let offer = server.offer_of(&hello, lists);
        let touched = touched(before.as_deref(), Some(&offer));
        let at = Instant::now();
        let occasion = CommitOccasion { at, touched, signalled: Default::default(), held_by: None };
        parts.lifecycle.discovery.publish(server, offer, hello, &occasion, None);
    }

    fn owe_again(&self, servers: &[FleetServerName], set: bool) {
        let Some(parts) = self.0.upgrade() else { return };
        let mut topics = Topics::default();
        let known = parts.catalogue.current();
        for offer in known.snapshot.offers().iter() {
            if set || servers.iter().any(|server| server.server() == Some(&*offer.name)) {
                touched(None, Some(offer)).iter().for_each(|topic| topics.insert(topic));
            }
        }
        parts.notifier.owe_again(if topics.is_empty() { Topics::ALL } else { topics });
    }

    fn list_all(&self, server: &FleetServerName) {
        // What is watched is compared by content when it is looked at again.
        let (Some(parts), Some(server)) = (self.0.upgrade(), server.server()) else { return };
        if let Some(server) = parts.pool.servers().named(server, false) {
            server.unheard_lists(&ListKind::ALL);
        }
    }

    fn can_run(&self, server: &FleetServerName) -> bool {
        let Some(parts) = self.0.upgrade() else { return false };
        match server {
            FleetServerName::Server(name) => parts.pool.servers().named(name, false).is_some(),
            FleetServerName::Watch(id) => {
                let fleet = parts.runtime.fleet.as_ref();
                fleet.is_some_and(|fleet| fleet.settings.watches.iter().any(|watch| *watch.id == **id))
            }
        }
    }

    fn change_set(&self, change: LoggedChange, gate: SetGate) {
        let Some(parts) = self.0.upgrade() else { return };
        let Some(fleet) = parts.runtime.fleet.clone() else { return };
        parts.runtime.spawn(async move {
            // The log may be read before whoever knows the configuration is there.
            let follower = tokio::time::timeout(APPLY_WITHIN, fleet.set.follower.wait()).await;
            if let Ok(follower) = follower {
                follower.follow(change).await;
                gate.applied();
            }
        });
    }

    fn said(&self, server: &str, message: Bytes) {
        let Some(parts) = self.0.upgrade() else { return };
        let servers = parts.pool.servers();
        let Some(server) = servers.named(server, false) else { return };
        if message.is_empty() {
            return server.call_answered();
        }
        // Without a link there is nothing to compare with: over the next one everything is listed.
        let (Some(live), Ok(frame)) = (server.live(), in_process::frame(message)) else { return };
        let message = ServerMessage::from(frame);
        if is_for_owner(&message) {
            parts.lifecycle.router.unowned(server, live.key, &live.link, &LinkUser::Everybody, message);
        }
    }

    fn carry_out(&self, work: CarriedWork) {
        let Some(parts) = self.0.upgrade() else { return };
        let runtime = Arc::clone(&parts.runtime);
        runtime.spawn(carried_requests::carry_out(Gateway(parts), work));
    }
}
