//! What a server inside the process may know of the gateway around it: snapshots, and who a call comes from.

use std::sync::{Arc, Weak};

use tidings_hub::ServerId;
use tidings_hub::calls::CallId;
use tidings_hub::catalogue::{CatalogueSnapshot, ItemRoute};
use tidings_proto::{Revision, capabilities};
use tokio::sync::watch;

use crate::client::principal::{Principal, Viewer};
use crate::client::session::Session;
use crate::gateway::Inner;
use crate::observe::status::Catalogue;

/// The gateway as one server inside it sees it. Does not keep the gateway alive.
#[derive(Clone)]
pub struct Surroundings {
    gateway: Weak<Inner>,
    server: ServerId,
}

/// The catalogue of one caller.
#[derive(Clone)]
pub struct CallerView {
    /// What it sees.
    pub snapshot: Arc<CatalogueSnapshot>,
    /// The catalogue that this is a part of, or all of.
    pub whole: Arc<CatalogueSnapshot>,
    /// Whether the whole is that of all who have no connections of their own.
    pub shared: bool,
}

/// A client, as far as one of its calls tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallingClient {
    /// Tells it from others.
    pub key: u64,
    /// Whether it can be asked to fill in a form.
    pub fills_in_forms: bool,
    /// Whether it can be asked to visit a URL.
    pub visits_urls: bool,
    /// Whether it can be asked for its roots.
    pub tells_roots: bool,
}

impl Surroundings {
    pub(crate) fn new(gateway: &Arc<Inner>, server: ServerId) -> Self {
        Self { gateway: Arc::downgrade(gateway), server }
    }

    /// Which server this is.
    pub fn server(&self) -> ServerId {
        self.server
    }

    /// The catalogue that all clients share; changes can be awaited. `None` when the gateway is gone.
    pub fn catalogue(&self) -> Option<watch::Receiver<Arc<Catalogue>>> {
        self.gateway.upgrade().map(|gateway| gateway.catalogue.subscribe())
    }

    /// The catalogue as whoever makes this call sees it, once the servers have settled. `None` when either is gone.
    pub async fn view(&self, call: u64) -> Option<CallerView> {
        let gateway = self.gateway.upgrade()?;
        if gateway.starting() {
            gateway.wait_settled().await;
        }
        let (principal, session) = caller(&gateway, call)?;
        if session.is_some() && gateway.has_isolated() {
            let own = gateway.settled_view_of(Viewer { principal: &principal, session: session.as_ref() }).await;
            return Some(CallerView { snapshot: Arc::clone(&own), whole: own, shared: false });
        }
        let whole = Arc::clone(&gateway.current().snapshot);
        Some(CallerView { snapshot: whole.seen_by(&principal.scope), whole, shared: true })
    }

    /// Whether whoever makes this call may change the gateway. Nobody may whose call is over.
    pub fn is_admin(&self, call: u64) -> bool {
        let gateway = self.gateway.upgrade();
        gateway.and_then(|gateway| gateway.in_flight.caller(CallId(call))).is_some_and(|(who, _)| who.is_admin())
    }

    /// Who makes a call, and what it can be asked while the call runs. `None` when the call is over.
    pub fn client(&self, call: u64) -> Option<CallingClient> {
        let gateway = self.gateway.upgrade()?;
        let key = gateway.in_flight.lock().calls.get(CallId(call)).map(|call| call.client)?;
        let session = gateway.sessions().get(&key).cloned();
        // Only sessions can be asked.
        let can = |method: &str, by_url: bool, since: Revision| {
            session.as_ref().is_some_and(|session| {
                session.revision >= since && capabilities::client_can(&session.capabilities, method, by_url)
            })
        };
        Some(CallingClient {
            key: key.0,
            fills_in_forms: can("elicitation/create", false, Revision::V2025_06_18),
            visits_urls: can("elicitation/create", true, Revision::V2025_11_25),
            tells_roots: can("roots/list", false, Revision::V2024_11_05),
        })
    }

    /// Where a tool leads for whoever makes this call, in any spelling that the router understands.
    pub async fn find_tool(&self, call: u64, name: &str) -> Option<ItemRoute> {
        let gateway = self.gateway.upgrade()?;
        let (principal, session) = caller(&gateway, call)?;
        gateway.find_tool(Viewer { principal: &principal, session: session.as_ref() }, name).await
    }
}

/// Who makes a call. `None` when it is over.
fn caller(gateway: &Inner, call: u64) -> Option<(Principal, Option<Arc<Session>>)> {
    let (principal, client) = gateway.in_flight.caller(CallId(call))?;
    Some((principal, gateway.sessions().get(&client).cloned()))
}
