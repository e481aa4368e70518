//! What servers inside the process may know of the gateway, and of whoever calls them.

use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use tidings_hub::calls::CallId;
use tidings_hub::catalogue::ItemRoute;
use tidings_hub::own_links::LinkOwner;
use tidings_proto::PublicName;
use tidings_proto::question::Abilities;
use tokio::sync::watch;

use crate::call::RequestRouter;
use crate::client::principal::Principal;
use crate::client::session::{Session, Viewer};
use crate::observe::status::Catalogue;
use crate::plan::surroundings::{CallerView, CallingClient, EnclosingGateway};

impl RequestRouter {
    /// Who makes a call. `None` when it is over.
    fn caller(&self, call: u64) -> Option<(Principal, Option<Arc<Session>>)> {
        let (principal, client) = self.links.in_flight.caller(CallId(call))?;
        Some((principal, self.sessions.get(client)))
    }
}

impl EnclosingGateway for RequestRouter {
    fn catalogue(&self) -> watch::Receiver<Arc<Catalogue>> {
        self.catalogue.subscribe()
    }

    fn view(self: Arc<Self>, call: u64) -> BoxFuture<'static, Option<CallerView>> {
        async move {
            if self.catalogue.starting() {
                self.catalogue.wait_settled().await;
            }
            let (principal, session) = self.caller(call)?;
            // Without isolated servers the shared view is the same for all with these rights, and is kept.
            if (session.is_some() && self.pool.has_isolated()) || self.pool.has_personal() {
                let viewer = Viewer::of_caller(&principal, session.as_ref());
                let own = self.discovery.settled_view_of(viewer).await;
                return Some(CallerView { snapshot: Arc::clone(&own), whole: own, shared: false });
            }
            let whole = Arc::clone(&self.catalogue.current().snapshot);
            Some(CallerView { snapshot: whole.seen_by(&principal.scope), whole, shared: true })
        }
        .boxed()
    }

    fn is_admin(&self, call: u64) -> bool {
        self.links.in_flight.caller(CallId(call)).is_some_and(|(who, _)| who.is_admin())
    }

    fn principal(&self, call: u64) -> Option<Arc<str>> {
        self.links.in_flight.caller(CallId(call)).map(|(principal, _)| principal.name)
    }

    fn client(&self, call: u64) -> Option<CallingClient> {
        let key = self.links.in_flight.lock().calls.get(CallId(call)).map(|call| call.client)?;
        let session = self.sessions.get(key);
        // A modern client is asked through its request, which waits for the answers.
        let abilities = match &session {
            Some(session) => Abilities::read(&session.client.capabilities, session.revision),
            None => self.links.in_flight.abilities(CallId(call)),
        };
        Some(CallingClient {
            key: key.0,
            fills_in_forms: abilities.forms,
            visits_urls: abilities.urls,
            tells_roots: abilities.roots,
            comes_back: session.is_none(),
        })
    }

    fn missing_logins(&self, person: &Arc<str>) -> Vec<String> {
        let owner = LinkOwner::Person(Arc::clone(person));
        // Let go before the set of servers is asked.
        let missing = self.pool.own_links.lock().machine.missing_logins(&owner);
        let servers = self.pool.servers();
        missing.into_iter().filter_map(|server| Some(servers.get(server)?.plan.name.clone())).collect()
    }

    fn undecided_logins(self: Arc<Self>, call: u64) -> BoxFuture<'static, Vec<String>> {
        async move {
            let Some((principal, session)) = self.caller(call) else { return Vec::new() };
            if self.catalogue.starting() {
                self.catalogue.wait_settled().await;
            }
            self.discovery.undecided_logins(Viewer::of_caller(&principal, session.as_ref())).await
        }
        .boxed()
    }

    fn find_tool(self: Arc<Self>, call: u64, name: PublicName) -> BoxFuture<'static, Option<ItemRoute>> {
        async move {
            let (principal, session) = self.caller(call)?;
            RequestRouter::find_tool(&self, Viewer::of_caller(&principal, session.as_ref()), name).await
        }
        .boxed()
    }
}
