//! The engine as a whole.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant, SystemTime};

use arc_swap::ArcSwap;
use serde_json::Value;
use tidings_hub::catalogue::{CatalogueSnapshot, ServerOffer};
use tidings_hub::ledger::{CommitOccasion, FollowerId};
use tidings_hub::{ClientKey, LinkKey, ServerId};
use tidings_proto::headers::ParamHeader;
use tidings_proto::{Era, ListKind, LogLevel, Method, capabilities};
use tidings_upstream::{LinkConnector, OwnIntroduction, ServerHello, SharedLink};
use tidings_wire::{Frame, RawId};
use tokio::sync::{Notify, watch};
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use crate::call::exchange::Exchange;
use crate::call::seal::Sealer;
use crate::client::principal::Principal;
use crate::client::session::{Caller, ModernCaller, Session};
use crate::coarse_timer::CoarseTimer;
use crate::lifecycle::change::Ids;
use crate::lifecycle::link_sink::LinkUser;
use crate::links::in_flight::{Cancelled, Ended, InFlight};
use crate::notify::announce::Announcements;
use crate::notify::listeners::Listens;
use crate::observe::journal::{self, Journal, JournalServer};
use crate::observe::meters::Meters;
use crate::observe::status::{Catalogue, ServerStatus};
use crate::plan::{Names, Origin, ServerPlan, Settings};
use crate::servers::own_links::OwnLinkTable;
use crate::servers::server::{LiveLink, Server};
use crate::servers::server_set::Servers;
use crate::subscriptions::Following;

/// A running engine. Clones are handles to the same one.
#[derive(Clone)]
pub struct Gateway(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) settings: Settings,
    pub(crate) connector: LinkConnector,
    pub(crate) in_flight: InFlight,
    pub(crate) sealer: Sealer,
    pub(crate) servers: ArcSwap<Servers>,
    /// One change of the set of servers is planned or committed at a time; not held while servers start.
    pub(crate) changing: tokio::sync::Mutex<Ids>,
    pub(crate) catalogue: watch::Sender<Arc<Catalogue>>,
    pub(crate) passthrough: Option<ServerId>,
    pub(crate) stop: CancellationToken,
    pub(crate) draining: CancellationToken,
    pub(crate) coarse_timer: CoarseTimer,
    pub(crate) meters: Meters,
    only_client: Option<(Value, Era)>,
    pub(crate) journal: Option<Arc<dyn Journal>>,
    links: Mutex<HashMap<LinkKey, LinkEntry>>,
    pub(crate) own_links: OwnLinkTable,
    /// Rings when a link of one owner alone is there that may become idle.
    pub(crate) own_links_idle: Notify,
    sessions: Mutex<HashMap<ClientKey, Arc<Session>>>,
    pub(crate) level: Mutex<Option<LogLevel>>,
    announcements: Mutex<Announcements>,
    pub(crate) following: Following,
    pub(crate) listens: Listens,
    pub(crate) tasks: TaskTracker,
    next_link: AtomicU64,
    next_client: AtomicU64,
    started: Instant,
    started_at: SystemTime,
}

/// A link that is up.
struct LinkEntry {
    server: Weak<Server>,
    live: LiveLink,
    user: LinkUser,
    /// Rings when the link is taken out of the table.
    gone: CancellationToken,
    _rings: DropGuard,
}

impl Gateway {
    /// Starts the servers. `only_client`: the capabilities and era of the one client there will ever be (stdio).
    /// `journal` is told of every change.
    pub fn start(
        settings: Settings,
        plans: Vec<ServerPlan>,
        connector: LinkConnector,
        only_client: Option<(Value, Era)>,
        journal: Option<Arc<dyn Journal>>,
    ) -> Self {
        let external = plans.iter().filter(|plan| plan.origin != Origin::BuiltIn).count();
        let alone = settings.names == Names::Auto && external == 1;
        let bare = |plan: &ServerPlan| plan.origin == Origin::BuiltIn || alone || settings.names == Names::None;
        let servers: Vec<Arc<Server>> = (0..)
            .zip(plans)
            .map(|(id, plan)| {
                let bare = bare(&plan);
                Arc::new(Server::new(ServerId(id), plan, bare, settings.refresh_pace()))
            })
            .collect();
        let external = servers.iter().find(|server| server.plan.origin != Origin::BuiltIn);
        let passthrough = external.filter(|_| alone).map(|server| server.id);
        let catalogue = Catalogue {
            snapshot: Arc::new(CatalogueSnapshot::new(Vec::new(), settings.view)),
            servers: servers.iter().map(|server| ServerStatus::first(server)).collect(),
        };
        servers.iter().for_each(|server| server.admit());
        if let Some(journal) = &journal {
            journal.began(servers.iter().map(|server| JournalServer::of(&server.plan)).collect());
        }
        let following = Following::new(settings.resource_pace);
        let ids = Ids::new(&servers);
        let own_links = settings.own_links;
        let inner = Arc::new(Inner {
            in_flight: InFlight::new(settings.limits),
            settings,
            connector,
            sealer: Sealer::new(),
            servers: ArcSwap::from_pointee(Servers::new(servers)),
            changing: tokio::sync::Mutex::new(ids),
            catalogue: watch::Sender::new(Arc::new(catalogue)),
            passthrough,
            stop: CancellationToken::new(),
            draining: CancellationToken::new(),
            coarse_timer: CoarseTimer::default(),
            meters: Meters::default(),
            only_client,
            journal,
            links: Mutex::default(),
            own_links: OwnLinkTable::new(own_links),
            own_links_idle: Notify::new(),
            sessions: Mutex::default(),
            level: Mutex::default(),
            announcements: Mutex::default(),
            following,
            listens: Listens::default(),
            tasks: TaskTracker::new(),
            next_link: AtomicU64::new(1),
            next_client: AtomicU64::new(1),
            started: Instant::now(),
            started_at: SystemTime::now(),
        });
        let coarse_timer = Arc::clone(&inner);
        inner.tasks.spawn(async move {
            tokio::select! {
                () = coarse_timer.coarse_timer.run() => {}
                () = coarse_timer.stop.cancelled() => {}
            }
        });
        inner.tasks.spawn(Arc::clone(&inner).keep_time());
        inner.tasks.spawn(Arc::clone(&inner).close_idle_links());
        for server in inner.servers().iter() {
            inner.tasks.spawn(Arc::clone(server).run(Arc::clone(&inner), None));
        }
        Self(inner)
    }

    /// What is known about the servers; changes can be awaited.
    pub fn catalogue(&self) -> watch::Receiver<Arc<Catalogue>> {
        self.0.catalogue.subscribe()
    }

    /// Waits until every server has listed or failed, or the time for it is over.
    pub async fn settled(&self) {
        self.0.wait_settled().await;
    }

    /// Whether first lists are served without waiting.
    pub fn is_ready(&self) -> bool {
        !self.0.starting()
    }

    /// Waits at least this long, without a timer of its own; for waits that nearly always end otherwise.
    pub async fn long_while(&self, length: Duration) {
        let mut until = None;
        loop {
            self.0.coarse_timer.beat().await;
            // The clock is read only when it has come to waiting.
            if Instant::now() >= *until.get_or_insert_with(|| Instant::now() + length) {
                return;
            }
        }
    }

    /// A key for a client that has no session.
    pub fn new_client(&self) -> ClientKey {
        self.0.new_client()
    }

    /// Begins a request. Dropping the exchange cancels it.
    pub fn request(&self, caller: Caller, frame: Frame, method: Method, id: RawId) -> Exchange {
        Exchange::new(Arc::clone(&self.0), caller, frame, method, id)
    }

    /// A client cancels one of its requests.
    pub fn cancel(&self, client: ClientKey, id: &RawId, reason: Option<&str>) {
        match self.0.in_flight.cancel(client, id) {
            Cancelled::Running(call, ended) => self.0.abandon(call.0, &ended, reason),
            Cancelled::Arriving => {}
            Cancelled::Unknown => tracing::warn!(%id, "cancellation of an unknown request"),
        }
    }

    /// Whether a client has a request with this id in flight.
    pub fn knows(&self, client: ClientKey, id: &RawId) -> bool {
        self.0.in_flight.knows(client, id)
    }

    /// As [`Self::cancel`], for a session.
    pub fn cancel_for(&self, session: &Session, id: &RawId, reason: Option<&str>) {
        self.cancel(session.key, id, reason);
    }

    /// When it was started.
    pub fn started(&self) -> SystemTime {
        self.0.started_at
    }

    /// What a server does wrong without failing, since it was last connected or began to be.
    pub fn remark(&self, server: ServerId) -> Option<String> {
        self.0.servers().iter().find(|known| known.id == server)?.remarks.shown()
    }

    /// How many requests are in flight.
    pub fn in_flight(&self) -> usize {
        self.0.in_flight.lock().calls.len()
    }

    /// A session is over: everything of it goes.
    pub fn end_session(&self, session: &Arc<Session>) {
        self.0.sessions().remove(&session.key);
        self.0.client_gone(session.key);
        self.0.unfollow(FollowerId(session.key.0));
        self.0.session_follows_no_more(session);
        self.0.update_level();
        session.over.cancel();
        self.0.close_own_links(session);
    }

    /// No more is begun: streams that only wait end now, running requests may finish.
    pub fn drain(&self) {
        self.0.draining.cancel();
    }

    /// Rings when the end begins.
    pub fn draining(&self) -> CancellationToken {
        self.0.draining.clone()
    }

    /// The header annotations of a tool, by the name that a client uses.
    pub fn param_headers(&self, principal: &Principal, tool: &str) -> Vec<ParamHeader> {
        let snapshot = self.0.current().snapshot.seen_by(&principal.scope);
        let Some(route) = snapshot.tool(tool) else { return Vec::new() };
        let offer = snapshot.offer(route.server);
        offer.and_then(|o| o.list(ListKind::Tools).get(&route.local)).map(|t| t.headers.clone()).unwrap_or_default()
    }

    /// Ends every server and every task. Exchanges should be over by now.
    pub async fn shutdown(&self) {
        self.0.draining.cancel();
        self.0.stop.cancel();
        self.0.tasks.close();
        self.0.tasks.wait().await;
        self.0.connector.goodbyes().await;
    }

    /// A modern caller. `connection`: the key of the connection on which its ids are unique (stdio); without it the
    /// request stands for itself.
    pub fn modern_caller(
        &self,
        connection: Option<ClientKey>,
        principal: &Principal,
        log_level: Option<LogLevel>,
        capabilities: tidings_wire::ByteSpan,
    ) -> Arc<ModernCaller> {
        let key = connection.unwrap_or_else(|| self.new_client());
        let names_its_calls = connection.is_some();
        Arc::new(ModernCaller { key, names_its_calls, principal: principal.clone(), log_level, capabilities })
    }
}

impl Inner {
    pub(crate) fn new_client(&self) -> ClientKey {
        ClientKey(self.next_client.fetch_add(1, Ordering::Relaxed))
    }

    pub(crate) fn next_link(&self) -> LinkKey {
        LinkKey(self.next_link.fetch_add(1, Ordering::Relaxed))
    }

    pub(crate) fn current(&self) -> Arc<Catalogue> {
        Arc::clone(&self.catalogue.borrow())
    }

    /// The servers at this moment.
    pub(crate) fn servers(&self) -> Arc<Servers> {
        self.servers.load_full()
    }

    /// Others are there now.
    pub(crate) fn set_servers(&self, servers: Servers) {
        self.servers.store(Arc::new(servers));
    }

    pub(crate) fn server(&self, id: ServerId) -> Option<Arc<Server>> {
        self.servers.load().get(id).cloned()
    }

    /// How a server is told who we are; `own` is the session that the connection is made for.
    pub(crate) fn introduction(&self, own: Option<&Session>, deadline: Option<Instant>) -> OwnIntroduction {
        let own = own.map(|session| (session.capabilities.clone(), Era::Legacy));
        let several = self.servers.load().external() > 1;
        let reaches = |(declared, era)| match several {
            true => (capabilities::among_several(declared), era),
            false => (declared, era),
        };
        OwnIntroduction {
            client_info: serde_json::json!({ "name": "tidings", "version": self.settings.version }),
            only_client: own.or_else(|| self.only_client.clone()).map(reaches),
            gateways: self.settings.path.ahead_of_server().into_iter().map(str::to_owned).collect(),
            deadline,
            is_legacy: false,
        }
    }

    /// Whether this server is the only one behind the gateway: then what it and its clients say to each other is theirs.
    pub(crate) fn is_alone(&self, server: &Server) -> bool {
        self.passthrough == Some(server.id) && self.servers.load().external() == 1
    }

    pub(crate) fn has_only_client(&self) -> bool {
        self.only_client.is_some()
    }

    pub(crate) async fn wait_settled(&self) {
        let deadline = self.started + self.settings.start_wait;
        let mut catalogue = self.catalogue.subscribe();
        let settled = catalogue.wait_for(|c| c.settled());
        let _ = tokio::time::timeout_at(deadline.into(), settled).await;
    }

    /// Whether first lists may still have to wait.
    pub(crate) fn starting(&self) -> bool {
        self.started.elapsed() < self.settings.start_wait && !self.catalogue.borrow().settled()
    }

    pub(crate) fn start_deadline(&self) -> Instant {
        self.started + self.settings.start_wait
    }

    pub(crate) fn sessions(&self) -> MutexGuard<'_, HashMap<ClientKey, Arc<Session>>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn announcements(&self) -> MutexGuard<'_, Announcements> {
        self.announcements.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs something that the engine owns and waits for at its end.
    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.tasks.spawn(work);
    }

    // Links

    fn links(&self) -> MutexGuard<'_, HashMap<LinkKey, LinkEntry>> {
        self.links.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn add_link(&self, server: &Arc<Server>, live: &LiveLink, user: LinkUser) {
        self.in_flight.link_opened(live.key);
        let gone = CancellationToken::new();
        let rings = gone.clone().drop_guard();
        let entry = LinkEntry { server: Arc::downgrade(server), live: live.clone(), user, gone, _rings: rings };
        self.links().insert(live.key, entry);
    }

    /// Gives up every link of a server, also those of single sessions: calls on them end at once. What is left is to close
    /// them.
    pub(crate) fn sever(self: &Arc<Self>, server: &Arc<Server>) -> Vec<SharedLink> {
        server.set_live(None);
        self.own_links.server_gone(server.id);
        let of_it = |entry: &LinkEntry| std::ptr::eq(entry.server.as_ptr(), Arc::as_ptr(server));
        let severed: Vec<(LinkKey, SharedLink)> = {
            let links = self.links();
            let found = links.iter().filter(|(_, link)| of_it(link));
            found.map(|(key, entry)| (*key, Arc::clone(&entry.live.link))).collect()
        };
        for (key, _) in &severed {
            self.link_closed(*key);
            self.in_flight.ring_calls(*key);
        }
        severed.into_iter().map(|(_, link)| link).collect()
    }

    /// Every link, with who uses it.
    pub(crate) fn all_links(&self) -> Vec<(LiveLink, LinkUser)> {
        self.links().values().map(|entry| (entry.live.clone(), entry.user.clone())).collect()
    }

    pub(crate) fn has_link(&self, key: LinkKey) -> bool {
        self.links().contains_key(&key)
    }

    pub(crate) fn link(&self, key: LinkKey) -> Option<SharedLink> {
        self.links().get(&key).map(|entry| Arc::clone(&entry.live.link))
    }

    /// Waits until a link is given up.
    pub(crate) async fn link_gone(&self, key: LinkKey) {
        let gone = self.links().get(&key).map(|entry| entry.gone.clone());
        if let Some(gone) = gone {
            gone.cancelled().await;
        }
    }

    /// The link broke by itself: whoever was asked something by it need not answer.
    /// Tells whether somebody had it for itself until now.
    pub(crate) fn link_closed(self: &Arc<Self>, key: LinkKey) -> bool {
        self.links().remove(&key);
        let was_own = self.own_links.closed(key);
        self.lost_for_followers(key);
        for (shown, ask) in self.in_flight.link_gone(key) {
            self.withdraw_from_client(shown, &ask);
        }
        was_own
    }

    /// Ends a link in the background.
    pub(crate) fn retire(self: &Arc<Self>, live: LiveLink) {
        self.link_closed(live.key);
        self.tasks.spawn(async move { live.link.close().await });
    }

    // Calls that end before their answer

    /// Tells the server that a call is no longer wanted.
    pub(crate) fn abandon(&self, call: u64, ended: &Ended, reason: Option<&str>) {
        if let Some(link) = self.link(ended.call.link).filter(|_| ended.sent) {
            link.cancel(call, reason);
        }
        for (shown, ask) in &ended.moot {
            self.withdraw_from_client(*shown, ask);
            // Whoever asked may wait for this before it heeds the cancellation.
            self.refuse_server_request(ask);
        }
    }

    fn client_gone(&self, client: ClientKey) {
        let gone = self.in_flight.client_gone(client);
        for (call, ended) in &gone.calls {
            self.abandon(call.0, ended, Some("the client is gone"));
        }
        for (_, ask) in &gone.unanswered {
            self.refuse_server_request(ask);
        }
    }

    // The catalogue

    pub(crate) fn update(&self, change: impl FnOnce(&mut Catalogue)) {
        self.catalogue.send_modify(|current| change(Arc::make_mut(current)));
    }

    /// A server has listed: first the new state can be read, then it counts as ready.
    pub(crate) fn publish(
        self: &Arc<Self>,
        server: &Server,
        offer: ServerOffer,
        hello: Arc<ServerHello>,
        occasion: &CommitOccasion,
    ) {
        let id = offer.server;
        let before = self.current().snapshot.offer(id).cloned();
        // Before the commit, with which the start may be over.
        let at_start = self.starting();
        let mut is_shown = false;
        self.commit(occasion, |catalogue| {
            // Behind the lock of the catalogue: another may have taken its place.
            is_shown = server.is_current();
            if !is_shown {
                return;
            }
            catalogue.snapshot = Arc::new(catalogue.snapshot.with(offer));
            if let Some(status) = catalogue.servers.iter_mut().find(|status| status.id == id) {
                status.connected(hello, server.health().listed());
            }
        });
        if let Some(journal) = self.journal.as_ref().filter(|_| is_shown) {
            let now = self.current();
            let failed = now.server(id).map(ServerStatus::failed_kinds).unwrap_or_default();
            let after = now.snapshot.offer(id);
            journal::tell(&**journal, before.as_deref(), after.map(|offer| &**offer), &failed, at_start);
        }
    }
}
