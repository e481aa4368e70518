//! The engine as a whole: composes its parts, and is what transports hold.

pub(crate) mod approvals;
mod beginning;
mod carried_requests;
mod clients;
mod fleet;
mod policy;
mod resume;
mod start;

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use tidings_hub::client_profile::{ClientProfile, ClientProfiles};
use tidings_hub::ledger::FollowerId;
use tidings_hub::{ClientKey, ServerId};
use tidings_proto::outcome::ClientAnswer;
use tidings_proto::refusal::RequestRefusal;
use tidings_proto::{Era, LogLevel, Method, Revision};
use tidings_upstream::{PeopleLogins, PullProgress};
use tidings_wire::{Frame, RawId};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::call::RequestRouter;
use crate::call::exchange::Exchange;
use crate::call::routing::RoutedTool;
use crate::client::bells::FollowerBells;
use crate::client::principal::Principal;
use crate::client::session::{Caller, ClientSink, ModernCaller, Session};
use crate::client::sessions::SessionTable;
use crate::lifecycle::ServerLifecycle;
use crate::lifecycle::change::{ChangeError, OfferReview, Operation};
use crate::links::in_flight::Cancelled;
use crate::links::open_links::OpenLinks;
use crate::notify::ListNotifier;
use crate::notify::notices::OwedNotice;
use crate::observe::audit::{AuditedDecision, CallOutcome};
use crate::observe::catalogue_store::CatalogueStore;
use crate::observe::meters::{DroppedMessages, Measures, Meters, Population};
use crate::observe::request_span::{RequestSpan, SpanAsker};
use crate::observe::status::Catalogue;
use crate::plan::ServerPlan;
use crate::runtime::EngineRuntime;
use crate::servers::server_pool::ServerPool;
use crate::subscriptions::{FollowedResource, Follower, ResourceSubscriptions};
use beginning::Beginning;
pub use start::GatewayStart;

/// A running engine. Clones are handles to the same one.
#[derive(Clone)]
pub struct Gateway(Arc<GatewayParts>);

/// The parts, the lowest first: each knows only those above it in this list.
struct GatewayParts {
    runtime: Arc<EngineRuntime>,
    meters: Arc<Meters>,
    catalogue: Arc<CatalogueStore>,
    sessions: Arc<SessionTable>,
    bells: Arc<FollowerBells>,
    links: Arc<OpenLinks>,
    pool: Arc<ServerPool>,
    subscriptions: Arc<ResourceSubscriptions>,
    notifier: Arc<ListNotifier>,
    router: Arc<RequestRouter>,
    lifecycle: Arc<ServerLifecycle>,
    started_at: SystemTime,
}

impl Gateway {
    /// Starts the servers.
    pub fn start(start: GatewayStart) -> Self {
        let (beginning, connector) = Beginning::new(start);
        let lifecycle = beginning.lifecycle(connector);
        let Beginning { runtime, meters, catalogue, sessions, bells, links, .. } = beginning;
        let timed = Arc::clone(&runtime);
        runtime.spawn(async move {
            tokio::select! {
                () = timed.coarse_timer.run() => {}
                () = timed.stop.cancelled() => {}
            }
        });
        runtime.spawn(Arc::clone(&lifecycle.subscriptions).keep_time());
        runtime.spawn(Arc::clone(&lifecycle).close_idle_links());
        for server in lifecycle.pool.servers().iter() {
            runtime.spawn(Arc::clone(&lifecycle).run(Arc::clone(server), None));
        }
        let gateway = Self(Arc::new(GatewayParts {
            runtime,
            meters,
            catalogue,
            sessions,
            bells,
            links,
            pool: Arc::clone(&lifecycle.pool),
            subscriptions: Arc::clone(&lifecycle.subscriptions),
            notifier: Arc::clone(&lifecycle.notifier),
            router: Arc::clone(&lifecycle.router),
            lifecycle,
            started_at: SystemTime::now(),
        }));
        gateway.join_fleet();
        gateway
    }

    /// What is known about the servers; changes can be awaited.
    pub fn catalogue(&self) -> watch::Receiver<Arc<Catalogue>> {
        self.0.catalogue.subscribe()
    }

    /// Waits until every server has listed or failed, or the time for it is over.
    pub async fn settled(&self) {
        self.0.catalogue.wait_settled().await;
    }

    /// Whether first lists are served without waiting.
    pub fn is_ready(&self) -> bool {
        !self.0.catalogue.starting() && self.has_joined_fleet()
    }

    /// Waits at least this long, without a timer of its own; for waits that nearly always end otherwise.
    pub async fn long_while(&self, length: Duration) {
        let mut until = None;
        loop {
            self.0.runtime.coarse_timer.beat().await;
            // The clock is read only when it has come to waiting.
            if Instant::now() >= *until.get_or_insert_with(|| Instant::now() + length) {
                return;
            }
        }
    }

    /// Tells the audit log, if there is one, of something that a transport or the API decided.
    pub fn record_decision(&self, decision: AuditedDecision) {
        if let Some(audit) = &self.0.runtime.audit {
            audit.decision(decision);
        }
    }

    /// A key for a client that has no session.
    pub fn new_client(&self) -> ClientKey {
        self.0.sessions.new_client()
    }

    /// Begins a request. Dropping the exchange cancels it.
    pub fn request(&self, caller: Caller, frame: Frame, method: Method, id: RawId) -> Exchange {
        Exchange::new(Arc::clone(&self.0.router), caller, frame, method, id)
    }

    /// As [`Self::request`], for a tool that was looked up already.
    pub fn request_found(
        &self,
        caller: Caller,
        frame: Frame,
        method: Method,
        id: RawId,
        found: Option<RoutedTool>,
    ) -> Exchange {
        Exchange::of_found(Arc::clone(&self.0.router), caller, frame, method, id, found)
    }

    /// A client cancels one of its requests.
    pub fn cancel(&self, client: ClientKey, id: &RawId, reason: Option<&str>) {
        match self.0.links.in_flight.cancel(client, id) {
            Cancelled::Running(call, ended) => self.0.links.abandon(call.0, &ended, reason),
            Cancelled::Arriving => {}
            Cancelled::Unknown => tracing::warn!(%id, "cancellation of an unknown request"),
        }
    }

    /// Whether a client has a request with this id in flight.
    pub fn knows(&self, client: ClientKey, id: &RawId) -> bool {
        self.0.links.in_flight.knows(client, id)
    }

    /// As [`Self::cancel`], for a transport that holds the session and not its key.
    pub fn cancel_for(&self, session: &Session, id: &RawId, reason: Option<&str>) {
        self.cancel(session.key, id, reason);
    }

    /// When it was started.
    pub fn started(&self) -> SystemTime {
        self.0.started_at
    }

    /// What a server does wrong without failing, since it was last connected or began to be, and what is wrong with the login to it.
    pub fn remark(&self, server: ServerId) -> Option<String> {
        let server = self.0.pool.server(server)?;
        let said = server.remarks.shown().into_iter().chain(server.plan.source.warning());
        said.reduce(|all, next| format!("{all}; {next}"))
    }

    /// How many requests are in flight.
    pub fn in_flight(&self) -> usize {
        self.0.links.in_flight.lock().calls.len()
    }

    /// A session is over: everything of it goes.
    pub fn end_session(&self, session: &Arc<Session>) {
        // First: from here on nobody finds the session any more, and what follows only has to clear away.
        self.0.sessions.remove(session.key);
        self.0.links.client_gone(session.key);
        self.0.notifier.unfollow(FollowerId::from(session.key));
        self.0.subscriptions.session_follows_no_more(session);
        // Servers may be asked for fewer log messages now.
        self.0.links.update_level();
        // Looks over its own links end by themselves before the links are closed.
        session.over.cancel();
        if let Some(person) = self.0.lifecycle.discovery.people.known(&session.principal.name) {
            person.left(FollowerId::from(session.key));
        }
        self.0.lifecycle.close_own_links(session);
    }

    /// A person has logged in to a server for themselves: it is connected for them. Says why it can not be.
    pub async fn connect_person(&self, server: &str, person: &str) -> Result<(), String> {
        self.0.lifecycle.connect_person(server, person).await
    }

    /// A person has logged out of a server that they had logged in to for themselves.
    pub fn disconnect_person(&self, server: &str, person: &str) {
        self.0.lifecycle.disconnect_person(server, person);
    }

    /// How many people are logged in to a server, where each logs in for themselves.
    pub fn people_logins(&self, server: ServerId) -> Option<PeopleLogins> {
        self.0.pool.server(server)?.plan.source.people()
    }

    /// No more is begun: streams that only wait end now, running requests may finish.
    pub fn drain(&self) {
        self.0.runtime.draining.cancel();
    }

    /// Runs work that belongs to the gateway, and has to end when [`Self::draining`] rings: the end waits for it.
    pub fn accompany(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.0.runtime.spawn(work);
    }

    /// Rings when the end begins.
    pub fn draining(&self) -> CancellationToken {
        self.0.runtime.draining.clone()
    }

    /// The tool that a modern request names, as whoever asks sees it.
    pub fn found_tool(
        &self,
        principal: &Principal,
        profile: Option<&Arc<ClientProfile>>,
        frame: &Frame,
    ) -> Option<RoutedTool> {
        self.0.router.found_tool(principal, profile.and_then(|profile| profile.shape.as_ref()), frame)
    }

    /// What is known of a client, by the object in which it says what it is.
    pub fn profile_of(&self, info: &[u8]) -> Option<Arc<ClientProfile>> {
        self.0.runtime.profile_of(info)
    }

    /// What is known of all clients.
    pub fn profiles(&self) -> &ClientProfiles {
        &self.0.runtime.settings.clients
    }

    /// Ends every server and every task. Exchanges should be over by now.
    pub async fn shutdown(&self) {
        // Streams that wait without end are told first, so that their clients get an answer and not a reset.
        self.0.runtime.draining.cancel();
        self.0.runtime.stop.cancel();
        // Without it `wait` would not return, though every task has ended.
        self.0.runtime.tasks.close();
        self.0.runtime.tasks.wait().await;
        // Sessions at remote servers are ended last, in requests of their own that no task waits for.
        self.0.lifecycle.connector.goodbyes().await;
        // Last: whoever claims a server then can be sure that it has ended here.
        if let Some(fleet) = &self.0.runtime.fleet {
            fleet.leave().await;
        }
    }

    /// A modern caller. `connection`: the key of the connection on which its ids are unique (stdio); without it the
    /// request stands for itself. `profile`: what is known of its client.
    pub fn modern_caller(
        &self,
        connection: Option<ClientKey>,
        revision: Revision,
        principal: &Principal,
        log_level: Option<LogLevel>,
        capabilities: tidings_wire::ByteSpan,
        profile: Option<Arc<ClientProfile>>,
    ) -> Arc<ModernCaller> {
        let key = connection.unwrap_or_else(|| self.new_client());
        let (names_its_calls, principal) = (connection.is_some(), principal.clone());
        Arc::new(ModernCaller { key, revision, names_its_calls, principal, log_level, capabilities, profile })
    }

    // Of one server alone

    /// Somebody who asks for one server alone; `None` where there is no such server for them, because it is not there or not theirs.
    pub fn alone_with(&self, principal: &Principal, server: &str) -> Option<Principal> {
        let servers = self.0.pool.servers();
        let server = servers.named(server, false).filter(|server| self.0.pool.shows(principal, server))?;
        Some(principal.alone_with(&server.plan.name))
    }

    /// The servers that somebody may ask for alone.
    pub fn servers_for(&self, principal: &Principal) -> Vec<String> {
        let servers = self.0.pool.servers();
        let theirs = servers.iter().filter(|server| !server.plan.is_built_in() && self.0.pool.shows(principal, server));
        theirs.map(|server| server.plan.name.clone()).collect()
    }

    // Of sessions

    /// Answers `initialize`: opens a session of the revision that the client asks for, or of the latest.
    pub async fn initialize(
        &self,
        frame: &Frame,
        id: &RawId,
        principal: &Principal,
        sink: Arc<dyn ClientSink>,
    ) -> Result<(Arc<Session>, ClientAnswer), RequestRefusal> {
        let telemetry = self.0.runtime.telemetry.as_ref();
        let span = telemetry.map(|telemetry| RequestSpan::begin(telemetry, frame, Method::Initialize, id));
        let made = self.0.router.initialize(frame, id, principal, sink).await;
        if let Some(span) = span {
            let (asker, outcome) = match &made {
                Ok((session, answer)) => {
                    let asker = SpanAsker { revision: session.revision, session: Some(session.key.0) };
                    (asker, CallOutcome::Answered(answer.payload.len()))
                }
                Err(refusal) => {
                    let asker = SpanAsker { revision: Revision::LATEST_LEGACY, session: None };
                    (asker, CallOutcome::Refused(refusal.code(Era::Legacy)))
                }
            };
            span.end(&asker, outcome, None);
        }
        made
    }

    /// A client's answer to a question of a server.
    pub fn answer(&self, session: &Session, frame: &Frame) {
        self.0.router.answer(session, frame);
    }

    /// The session's client can be reached but says nothing any more: what it was asked is refused in its place.
    pub fn no_more_answers(&self, session: &Session) {
        self.0.router.no_more_answers(session);
    }

    /// A notification of a legacy client that is neither a cancellation nor an answer.
    pub fn notify(&self, session: &Arc<Session>, frame: &Frame) {
        self.0.router.notify(session, frame);
    }

    /// Hands over the announcements a session is owed, a limited number at a time. They count as delivered: the transport has each
    /// when `pass` returns, and whatever the client is answered later comes after them. Tells whether there was any: the
    /// transport comes again until there is none.
    pub fn pass_owed(&self, session: &Session, pass: impl FnMut(OwedNotice)) -> bool {
        self.0.notifier.pass_owed(session, pass)
    }

    /// The announcements a session is owed, also those that wait for the servers to settle (at the end of its input).
    pub async fn take_last_owed(&self, session: &Arc<Session>) -> Vec<Bytes> {
        self.0.notifier.take_last_owed(session).await
    }

    // For people to see

    /// Those of the resources that are followed that `wanted` wants, by the name of their server and as that server spells them; and how
    /// many are followed.
    pub fn followed_where(&self, wanted: impl Fn(&str, &str) -> bool) -> (Vec<FollowedResource>, usize) {
        self.0.subscriptions.followed_where(wanted)
    }

    /// Every resource that is followed, and every client that follows one.
    pub fn followed(&self) -> (Vec<FollowedResource>, Vec<Follower>) {
        self.0.subscriptions.followed()
    }

    /// Everything that is counted.
    pub fn measures(&self) -> Measures {
        let catalogue = self.0.catalogue.current();
        // What is there for single people has no state that would be everybody's.
        let general = catalogue.servers.iter().filter(|status| !status.is_for_people);
        let servers = general.filter_map(|status| {
            let server = self.0.pool.server(status.id)?;
            Some(server.meters.read(status))
        });
        // One after the other: the fields of a literal would hold one lock while they wait for the next.
        let followed = self.0.subscriptions.count_followed();
        let sessions = self.0.sessions.len();
        let listeners = self.0.bells.listens();
        let calls = self.in_flight();
        let waiting = self.0.router.parks.dropped();
        let task = self.0.router.tasks.lock().dropped_progress;
        let population = Population {
            followed: followed.resources,
            followers: followed.followers,
            unheard: followed.unheard,
            sessions,
            listeners,
            calls,
            dropped: DroppedMessages { waiting, task },
        };
        self.0.meters.read(servers.collect(), population)
    }

    // The set of servers

    /// Changes the set of servers: all of it or nothing. New servers are started, connected and listed, side by side and
    /// within a limit; then one commit makes everything visible and owes it to every client; then this returns. Calls
    /// that run on a removed server are answered with an error, and its process is ended.
    pub async fn change(&self, operations: Vec<Operation>) -> Result<(), ChangeError> {
        self.change_if(operations, &CancellationToken::new(), async || Ok(())).await
    }

    /// As [`Self::change`]. `keep` is asked when nothing else can fail any more, just before the commit, and one at a time; when it
    /// objects, nothing has happened. Until then whoever rings `cancelled` undoes everything, and what was started is gone when
    /// this returns.
    pub async fn change_if(
        &self,
        operations: Vec<Operation>,
        cancelled: &CancellationToken,
        keep: impl AsyncFnOnce() -> Result<(), ChangeError>,
    ) -> Result<(), ChangeError> {
        self.0.lifecycle.change_if(operations, cancelled, async |_| Ok(()), keep).await
    }

    /// The same; before `keep`, when everything new is started and listed, `review` sees it beside what is there and may object. It may
    /// take its time: others go on.
    pub async fn change_reviewed(
        &self,
        operations: Vec<Operation>,
        cancelled: &CancellationToken,
        review: impl AsyncFnOnce(Vec<OfferReview>) -> Result<(), ChangeError>,
        keep: impl AsyncFnOnce() -> Result<(), ChangeError>,
    ) -> Result<(), ChangeError> {
        self.0.lifecycle.change_if(operations, cancelled, review, keep).await
    }

    /// Gets what a server needs before it can be started, such as the image of a container. This may take minutes, for which
    /// a change has no patience: ask before it.
    pub async fn prepare(&self, plan: &ServerPlan) -> Result<(), ChangeError> {
        self.0.lifecycle.prepare(plan).await
    }

    /// Reports of images that are being got, from now on.
    pub fn pulls(&self) -> tokio::sync::broadcast::Receiver<PullProgress> {
        self.0.lifecycle.pulls()
    }

    /// Ends a server and starts it again. Returns when it is ready, or with the reason why it is not; then it is tried
    /// again by itself, as ever.
    pub async fn restart(&self, name: &str) -> Result<(), ChangeError> {
        self.0.lifecycle.restart(name).await
    }
}
