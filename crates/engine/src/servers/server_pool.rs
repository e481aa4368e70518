//! The servers there are, and the tables in which the links to them are found.

use std::sync::{Arc, Weak};

use arc_swap::ArcSwap;
use tidings_hub::ServerId;
use tidings_hub::policy::ServerAccess;
use tidings_hub::scope::AccessScope;
use tidings_proto::UriMap;

use crate::client::principal::Principal;
use crate::links::open_links::OpenLinks;
use crate::observe::catalogue_store::CatalogueStore;
use crate::runtime::EngineRuntime;
use crate::servers::link_maker::LinkMaker;
use crate::servers::own_link_table::OwnLinkTable;
use crate::servers::server::Server;
use crate::servers::server_set::ServerSet;

/// How the URIs of a server appear to whoever asks for it alone.
const UNCHANGED: &UriMap = &UriMap::Transparent;

/// How the URIs of a server appear to whoever has this scope.
pub(crate) fn uris_for<'s>(scope: &AccessScope, server: &'s Server) -> &'s UriMap {
    if scope.alone().is_some() { UNCHANGED } else { &server.uris }
}

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

    /// Whether some servers are connected once per session, or once per person.
    pub(crate) fn has_isolated(&self) -> bool {
        self.servers.load().has_isolated()
    }

    /// Whether some servers are connected once per person.
    pub(crate) fn has_personal(&self) -> bool {
        self.servers.load().has_personal()
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

    /// The server that speaks for itself to somebody: the one that they ask for alone, else the only one at the start.
    pub(crate) fn passthrough_for(&self, principal: &Principal) -> Option<ServerId> {
        match principal.scope.alone() {
            Some(name) => self.servers.load().named(name, false).map(|server| server.id),
            None => self.passthrough,
        }
    }

    /// Whether there is such a server.
    pub(crate) fn has_passthrough(&self, principal: &Principal) -> bool {
        self.passthrough.is_some() || principal.scope.alone().is_some()
    }

    /// Whether a server that somebody was led to is that one. Whoever asks for one alone is led to no other.
    pub(crate) fn is_passthrough(&self, principal: &Principal, server: &Server) -> bool {
        self.passthrough == Some(server.id) || principal.scope.alone().is_some()
    }

    /// Whether this server is the only one behind the gateway for somebody: then what it and its clients say to each other is theirs.
    pub(crate) fn is_alone(&self, principal: &Principal, server: &Server) -> bool {
        principal.scope.alone().is_some() || (self.passthrough == Some(server.id) && self.external() == 1)
    }
}
