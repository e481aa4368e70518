//! How the parts of a gateway are made and handed to each other. What they do when they run belongs into them.

use std::sync::{Arc, Weak};

use tidings_hub::ServerId;
use tidings_hub::catalogue::CatalogueSnapshot;
use tidings_proto::{Revision, identity};
use tidings_upstream::LinkConnector;

use super::start::GatewayStart;
use crate::call::park::ParkRoom;
use crate::call::seal::Sealer;
use crate::call::tasks::TaskRoom;
use crate::call::{DriveDesk, RequestRouter};
use crate::client::bells::FollowerBells;
use crate::client::sessions::SessionTable;
use crate::discovery::ListDiscovery;
use crate::fleet::FleetDesk;
use crate::lifecycle::ServerLifecycle;
use crate::lifecycle::change::ServerIds;
use crate::links::open_links::OpenLinks;
use crate::notify::ListNotifier;
use crate::observe::catalogue_store::CatalogueStore;
use crate::observe::journal::Journal;
use crate::observe::meters::Meters;
use crate::observe::status::Catalogue;
use crate::plan::{Names, ServerPlan};
use crate::runtime::EngineRuntime;
use crate::servers::link_maker::LinkMaker;
use crate::servers::server::Server;
use crate::servers::server_pool::ServerPool;
use crate::servers::server_set::ServerSet;
use crate::subscriptions::{ResourceSubscriptions, ServerMessages, SubscriptionSurroundings};

/// What is there before anything runs: what the parts are made of.
pub(super) struct Beginning {
    pub(super) runtime: Arc<EngineRuntime>,
    pub(super) meters: Arc<Meters>,
    pub(super) catalogue: Arc<CatalogueStore>,
    pub(super) sessions: Arc<SessionTable>,
    pub(super) bells: Arc<FollowerBells>,
    pub(super) links: Arc<OpenLinks>,
    servers: Vec<Arc<Server>>,
    passthrough: Option<ServerId>,
    journal: Option<Arc<dyn Journal>>,
}

impl Beginning {
    /// Also gives what makes links, which no part but the lifecycle has.
    pub(super) fn new(start: GatewayStart) -> (Self, LinkConnector) {
        let GatewayStart { settings, plans, connector, only_client, journal, audit, policy, limits, telemetry, fleet } =
            start;
        let external = plans.iter().filter(|plan| !plan.is_built_in()).count();
        // Decided once, at the start: a client that was shown names without prefix must not see them change when a
        // second server comes.
        let alone = settings.names == Names::Auto && external == 1;
        let bare = |plan: &ServerPlan| plan.is_built_in() || alone || settings.names == Names::None;
        let servers: Vec<Arc<Server>> = (0..)
            .zip(plans)
            .map(|(id, plan)| {
                let bare = bare(&plan);
                Arc::new(Server::new(ServerId(id), plan, bare, settings.list_pace))
            })
            .collect();
        let external = servers.iter().find(|server| !server.plan.is_built_in());
        let passthrough = external.filter(|_| alone).map(|server| server.id);
        let catalogue = Catalogue {
            snapshot: Arc::new(CatalogueSnapshot::new(Vec::new(), settings.view).under(policy)),
            servers: servers.iter().map(|server| server.plan.first_status(server.id)).collect(),
        };
        // Servers of the configuration are there from the start, connected or not; only those added later have to prove
        // themselves first.
        servers.iter().for_each(|server| server.presence.admit());
        if let Some(journal) = &journal {
            journal.began(servers.iter().map(|server| server.plan.in_journal()).collect());
        }
        let catalogue = Arc::new(CatalogueStore::new(catalogue, settings.waits.start));
        let runtime = Arc::new(EngineRuntime::new(settings, audit, limits, telemetry, fleet.map(FleetDesk::new)));
        let sessions = Arc::new(SessionTable::new(only_client));
        let links = Arc::new(OpenLinks::new(Arc::clone(&runtime), Arc::clone(&sessions)));
        let (meters, bells) = Default::default();
        let beginning = Self { runtime, meters, catalogue, sessions, bells, links, servers, passthrough, journal };
        (beginning, connector)
    }

    /// The router with everything below it.
    /// `maker` is weak, because the lifecycle owns the router: a strong handle would keep both alive for ever.
    fn router(&self, maker: Weak<dyn LinkMaker>) -> Arc<RequestRouter> {
        let (runtime, catalogue) = (|| Arc::clone(&self.runtime), || Arc::clone(&self.catalogue));
        let (sessions, links) = (|| Arc::clone(&self.sessions), || Arc::clone(&self.links));
        let (bells, meters) = (|| Arc::clone(&self.bells), || Arc::clone(&self.meters));
        let servers = ServerSet::new(self.servers.clone());
        let pool = Arc::new(ServerPool::new(runtime(), catalogue(), links(), servers, self.passthrough, maker));
        let identity = identity::gateway_info(self.runtime.settings.version, Revision::MODERN).to_string().into_bytes();
        Arc::new_cyclic(|router: &Weak<RequestRouter>| {
            // The subscriptions hand what they hear to the router, which owns them; weak for the same reason.
            let messages: Weak<dyn ServerMessages> = router.clone();
            let subscriptions = Arc::new(ResourceSubscriptions::new(SubscriptionSurroundings {
                runtime: runtime(),
                catalogue: catalogue(),
                sessions: sessions(),
                bells: bells(),
                links: links(),
                pool: Arc::clone(&pool),
                meters: meters(),
                messages,
            }));
            let notifier = Arc::new(ListNotifier::new(
                runtime(),
                catalogue(),
                sessions(),
                bells(),
                Arc::clone(&pool),
                meters(),
                Arc::clone(&subscriptions),
            ));
            let discovery = Arc::new(ListDiscovery::new(
                runtime(),
                catalogue(),
                sessions(),
                links(),
                Arc::clone(&pool),
                Arc::clone(&notifier),
                self.journal.clone(),
            ));
            RequestRouter {
                runtime: runtime(),
                catalogue: catalogue(),
                sessions: sessions(),
                links: links(),
                pool,
                subscriptions,
                notifier,
                discovery,
                sealer: self.sealer(),
                parks: ParkRoom::new(self.runtime.settings.parks),
                identity,
                abandoned: Arc::default(),
                drives: Arc::new(DriveDesk::new(sessions())),
                tasks: TaskRoom::new(&self.runtime.settings.seal_key),
            }
        })
    }

    /// In a cluster a cursor of one replica is good at the others that have the same servers.
    fn sealer(&self) -> Sealer {
        let key = &self.runtime.settings.seal_key;
        match &self.runtime.fleet {
            None => Sealer::new(key),
            Some(_) => {
                let names: Vec<&str> = self.servers.iter().map(|server| server.plan.name.as_str()).collect();
                Sealer::of_replica(key, &names.join("\0"))
            }
        }
    }

    /// The lifecycle with everything below it.
    pub(super) fn lifecycle(&self, connector: LinkConnector) -> Arc<ServerLifecycle> {
        Arc::new_cyclic(|lifecycle: &Weak<ServerLifecycle>| {
            let router = self.router(lifecycle.clone());
            ServerLifecycle {
                runtime: Arc::clone(&self.runtime),
                catalogue: Arc::clone(&self.catalogue),
                sessions: Arc::clone(&self.sessions),
                links: Arc::clone(&self.links),
                pool: Arc::clone(&router.pool),
                subscriptions: Arc::clone(&router.subscriptions),
                notifier: Arc::clone(&router.notifier),
                discovery: Arc::clone(&router.discovery),
                router,
                connector,
                changing: tokio::sync::Mutex::new(ServerIds::new(&self.servers)),
            }
        })
    }
}
