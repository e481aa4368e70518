//! Each server's life: started, connected, connected again, removed; and changes of the set of servers while everything runs.
//!
//! Belongs here: what makes links and processes, and ends them. Not here: what a server offers (`discovery`) and what is asked of
//! it (`call`).

pub(crate) mod change;
mod companion;
mod connecting;
mod direct;
mod link_care;
mod link_sink;
mod own_links;
mod person_signals;
mod run;
mod seat;
mod startup;

use std::sync::Arc;
use std::time::Instant;

use tidings_hub::LinkKey;
use tidings_proto::{Era, capabilities};
use tidings_upstream::{LinkConnector, OwnIntroduction, SharedLink};

use crate::call::RequestRouter;
use crate::client::sessions::SessionTable;
use crate::discovery::ListDiscovery;
use crate::links::live_link::{LinkUser, LiveLink};
use crate::links::open_links::OpenLinks;
use crate::notify::ListNotifier;
use crate::observe::catalogue_store::CatalogueStore;
use crate::runtime::EngineRuntime;
use crate::servers::server::Server;
use crate::servers::server_pool::ServerPool;
use crate::subscriptions::ResourceSubscriptions;
use change::ServerIds;

/// Makes links and ends them.
pub(crate) struct ServerLifecycle {
    pub(crate) runtime: Arc<EngineRuntime>,
    pub(crate) catalogue: Arc<CatalogueStore>,
    pub(crate) sessions: Arc<SessionTable>,
    pub(crate) links: Arc<OpenLinks>,
    pub(crate) pool: Arc<ServerPool>,
    pub(crate) subscriptions: Arc<ResourceSubscriptions>,
    pub(crate) notifier: Arc<ListNotifier>,
    pub(crate) discovery: Arc<ListDiscovery>,
    pub(crate) router: Arc<RequestRouter>,
    pub(crate) connector: LinkConnector,
    /// One change of the set of servers is planned or committed at a time; not held while servers start.
    pub(crate) changing: tokio::sync::Mutex<ServerIds>,
}

impl ServerLifecycle {
    /// How a server is told who we are, and for whom the connection is.
    fn introduction(&self, user: &LinkUser, deadline: Option<Instant>) -> OwnIntroduction {
        let own = user.capabilities().map(|declared| (declared, Era::Legacy));
        let several = self.pool.external() > 1;
        let reaches = |(declared, era)| match several {
            true => (capabilities::among_several(declared, era), era),
            false => (declared, era),
        };
        let settings = &self.runtime.settings;
        OwnIntroduction {
            client_info: serde_json::json!({ "name": "tidings", "version": settings.version }),
            only_client: own.or_else(|| self.sessions.only_client().cloned()).map(reaches),
            gateways: settings.path.ahead_of_server().into_iter().map(str::to_owned).collect(),
            deadline,
            is_legacy: false,
        }
    }

    /// Gives up every link of a server, also those of single sessions: calls on them end at once. What is left is to close
    /// them.
    fn sever(&self, server: &Server) -> Vec<SharedLink> {
        // First, so that no new call is sent over a link that is about to be given up.
        server.links.set_live(None);
        server.direct.give_up_any();
        let severed = self.links.table.of(server.instance);
        for (key, _) in &severed {
            // Before the calls are rung: whoever wakes finds the link gone and does not take it for another reason.
            self.link_closed(*key);
            self.links.in_flight.ring_calls(*key);
        }
        severed.into_iter().map(|(_, link)| link).collect()
    }

    /// Ends every link of a server and waits until they are gone.
    async fn end_links(&self, server: &Server) {
        for link in self.sever(server) {
            self.close(server, &link).await;
        }
    }

    /// Where there may be only one, the next replica counts on the end of this one's within a second: it is not asked.
    async fn close(&self, server: &Server, link: &SharedLink) {
        let stops_alone = server.plan.placement.stops_alone && self.runtime.fleet.is_some();
        match stops_alone {
            true => link.kill().await,
            false => link.close().await,
        }
    }

    /// The link broke by itself: whoever was asked something by it need not answer.
    /// Tells whether somebody had it for itself until now.
    fn link_closed(&self, key: LinkKey) -> bool {
        // First: a companion or a call that looks for the link from here on does not find it.
        self.links.table.remove(key);
        let was_own = self.pool.own_links.closed(key);
        self.subscriptions.lost_for_followers(key);
        for (shown, ask) in self.links.in_flight.link_gone(key) {
            self.links.withdraw_from_client(shown, &ask);
        }
        was_own
    }

    /// Ends a link in the background.
    pub(crate) fn retire(&self, live: LiveLink) {
        self.link_closed(live.key);
        // Closing waits for the process to end, which nobody should have to.
        self.runtime.spawn(async move { live.link.close().await });
    }
}
