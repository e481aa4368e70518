//! What a server inside the process may know of the gateway around it: snapshots, and who a call comes from.

use std::sync::{Arc, Weak};

use futures_util::future::BoxFuture;
use tidings_hub::ServerId;
use tidings_hub::catalogue::{CatalogueSnapshot, ItemRoute};
use tidings_proto::PublicName;
use tokio::sync::watch;

use crate::observe::status::Catalogue;

/// The gateway as one server inside it sees it. Does not keep the gateway alive.
#[derive(Clone)]
pub struct Surroundings {
    gateway: Weak<dyn EnclosingGateway>,
    server: ServerId,
    /// Who has the link for themselves, with all their clients.
    person: Option<Arc<str>>,
}

/// The catalogue of one caller.
#[derive(Clone)]
pub struct CallerView {
    /// What the caller may see, under the names that it uses.
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
    /// Whether it answers by sending its request again, which takes as long as whoever sits before it, and whether each of its
    /// requests has a key of its own.
    pub comes_back: bool,
}

/// What a server inside the process may ask of the gateway around it. The gateway's side of [`Surroundings`].
pub(crate) trait EnclosingGateway: Send + Sync {
    fn catalogue(&self) -> watch::Receiver<Arc<Catalogue>>;

    fn view(self: Arc<Self>, call: u64) -> BoxFuture<'static, Option<CallerView>>;

    fn is_admin(&self, call: u64) -> bool;

    fn principal(&self, call: u64) -> Option<Arc<str>>;

    fn client(&self, call: u64) -> Option<CallingClient>;

    fn missing_logins(&self, person: &Arc<str>) -> Vec<String>;

    fn undecided_logins(self: Arc<Self>, call: u64) -> BoxFuture<'static, Vec<String>>;

    fn find_tool(self: Arc<Self>, call: u64, name: PublicName) -> BoxFuture<'static, Option<ItemRoute>>;
}

impl Surroundings {
    pub(crate) fn new(gateway: Weak<dyn EnclosingGateway>, server: ServerId, person: Option<Arc<str>>) -> Self {
        Self { gateway, server, person }
    }

    /// Whether one person has this link, with all their clients.
    pub fn is_of_person(&self) -> bool {
        self.person.is_some()
    }

    /// The servers that the person who has this link has to log in to; nothing on a link that is for everybody.
    pub fn missing_logins(&self) -> Vec<String> {
        let missing = self.person.as_ref().zip(self.gateway.upgrade());
        missing.map(|(person, gateway)| gateway.missing_logins(person)).unwrap_or_default()
    }

    /// The servers of which it is not known whether whoever makes this call has to log in. They were waited for as long as for a
    /// list, and once more as long for looks that failed.
    pub async fn undecided_logins(&self, call: u64) -> Vec<String> {
        match self.gateway.upgrade() {
            Some(gateway) => gateway.undecided_logins(call).await,
            None => Vec::new(),
        }
    }

    /// The id under which the gateway runs this server, to tell its own tools from others'.
    pub fn server(&self) -> ServerId {
        self.server
    }

    /// The catalogue that all clients share; changes can be awaited. `None` when the gateway is gone.
    pub fn catalogue(&self) -> Option<watch::Receiver<Arc<Catalogue>>> {
        self.gateway.upgrade().map(|gateway| gateway.catalogue())
    }

    /// The catalogue as whoever makes this call sees it, once the servers have settled. `None` when either is gone.
    pub async fn view(&self, call: u64) -> Option<CallerView> {
        self.gateway.upgrade()?.view(call).await
    }

    /// Whether whoever makes this call may change the gateway. Nobody may whose call is over.
    pub fn is_admin(&self, call: u64) -> bool {
        self.gateway.upgrade().is_some_and(|gateway| gateway.is_admin(call))
    }

    /// The name of whoever makes a call. `None` when the call is over.
    pub fn principal(&self, call: u64) -> Option<Arc<str>> {
        self.gateway.upgrade()?.principal(call)
    }

    /// Who makes a call, and what it can be asked while the call runs. `None` when the call is over.
    pub fn client(&self, call: u64) -> Option<CallingClient> {
        self.gateway.upgrade()?.client(call)
    }

    /// Where a tool leads for whoever makes this call, in any spelling that the router understands.
    pub async fn find_tool(&self, call: u64, name: PublicName) -> Option<ItemRoute> {
        self.gateway.upgrade()?.find_tool(call, name).await
    }
}
