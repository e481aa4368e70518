//! The servers there are, and the tables in which the links to them are found.

use std::sync::{Arc, Weak};

use arc_swap::ArcSwap;
use tidings_hub::ServerId;
use tidings_hub::policy::ServerAccess;

use crate::client::principal::Principal;
use crate::links::open_links::OpenLinks;
use crate::observe::catalogue_store::CatalogueStore;
use crate::runtime::EngineRuntime;
use crate::servers::link_maker::LinkMaker;
use crate::servers::own_link_table::OwnLinkTable;
use crate::servers::server::Server;
use crate::servers::server_set::ServerSet;

pub(crate) struct ServerPool {
    pub(super) runtime: Arc<EngineRuntime>,
    pub(super) catalogue: Arc<CatalogueStore>,
    pub(super) links: Arc<OpenLinks>,
    // Read by every call, so without a lock; changed only under `ServerLifecycle::changing`.
    servers: ArcSwap<ServerSet>,
    pub(crate) own_links: OwnLinkTable,
    /// The server that was the only one at the start, if there was one.
    pub(crate) passthrough: Option<ServerId>,
    /// Weak: whoever makes links holds this.
    pub(super) maker: Weak<dyn LinkMaker>,
}

impl ServerPool {
    pub(crate) fn new(
        runtime: Arc<EngineRuntime>,
        catalogue: Arc<CatalogueStore>,
        links: Arc<OpenLinks>,
        servers: ServerSet,
        passthrough: Option<ServerId>,
        maker: Weak<dyn LinkMaker>,
    ) -> Self {
        let own_links = OwnLinkTable::new(runtime.settings.own_links);
        Self { runtime, catalogue, links, servers: ArcSwap::from_pointee(servers), own_links, passthrough, maker }
    }

    /// The servers at this moment.
    pub(crate) fn servers(&self) -> Arc<ServerSet> {
        self.servers.load_full()
    }

    /// Others are there now.
    pub(crate) fn set_servers(&self, servers: ServerSet) {
        self.servers.store(Arc::new(servers));
    }

    pub(crate) fn server(&self, id: ServerId) -> Option<Arc<Server>> {
        self.servers.load().get(id).cloned()
    }

    /// How many servers are not part of the program.
    pub(crate) fn external(&self) -> usize {
        self.servers.load().external()
    }

    /// Whether some servers are connected once per session.
    pub(crate) fn has_isolated(&self) -> bool {
        self.servers.load().has_isolated()
    }

    /// Whether somebody may know of a server: by the servers of their token, and by the rules.
    pub(crate) fn shows(&self, principal: &Principal, server: &Server) -> bool {
        principal.may_use(&server.plan)
            && self.catalogue.current().snapshot.shows_server(&principal.scope, server.ruled())
    }

    /// How much of a server the rules let somebody use.
    pub(crate) fn access_by_rules(&self, principal: &Principal, server: &Server) -> ServerAccess {
        self.catalogue.current().snapshot.access_by_rules(&principal.scope, server.ruled())
    }

    /// Whether this server is the only one behind the gateway: then what it and its clients say to each other is theirs.
    pub(crate) fn is_alone(&self, server: &Server) -> bool {
        self.passthrough == Some(server.id) && self.external() == 1
    }
}
