//! One change of the set of servers, from its plan to its commit or to nothing.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{join_all, try_join_all};
use tidings_hub::ServerId;
use tidings_hub::catalogue::ServerOffer;
use tidings_hub::ledger::{CommitOccasion, Topics};
use tidings_proto::{ListKind, UriMap};
use tidings_upstream::{LinkError, ServerHello};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::{ChangeError, OfferReview, Operation, Prefix, ServerIds, Start};
use crate::client::bells::FollowerBell;
use crate::discovery::look::touched;
use crate::lifecycle::ServerLifecycle;
use crate::lifecycle::startup::Ready;
use crate::observe::journal::{self, JournalOccasion};
use crate::observe::status::{Catalogue, ServerState, ServerStatus};
use crate::plan::{Names, ServerPlan};
use crate::servers::offer_screen::ListedFor;
use crate::servers::presence::Removal;
use crate::servers::server::Server;
use crate::servers::server_set::ServerSet;

/// How much longer than its own limit a server is waited for: it knows best why it is late.
const GRACE: Duration = Duration::from_secs(5);
/// How long an undone change waits for the last process of it to end.
const UNDO: Duration = Duration::from_secs(5);

pub(super) struct Transaction<'g> {
    lifecycle: &'g Arc<ServerLifecycle>,
    pub(super) arrivals: Vec<Arrival>,
    pub(super) leaving: Vec<Arc<Server>>,
}

/// A server that is to come.
pub(super) struct Arrival {
    pub(super) server: Arc<Server>,
    /// The one whose place it takes.
    before: Option<Arc<Server>>,
    start: Start,
    pub(super) first: First,
    task: Option<Task>,
    /// Whether it comes from the log of a cluster, and nobody has started it here.
    pub(super) is_followed: bool,
}

/// What a server offered before, and offers then.
struct Difference {
    before: Option<Arc<ServerOffer>>,
    after: Option<Arc<ServerOffer>>,
    /// Lists that it could not give.
    failed: Vec<ListKind>,
}

/// What came of the first connection.
pub(super) enum First {
    /// It is still under way; it goes on after the commit.
    UnderWay,
    Ready(Box<Ready>),
    Failed(LinkError),
    /// Another replica runs it, and this is what it lists.
    Logged(Box<(ServerOffer, Arc<ServerHello>)>),
}

/// The task of a server that waits to be admitted.
struct Task {
    ready: oneshot::Receiver<Result<Box<Ready>, LinkError>>,
    admission: oneshot::Sender<()>,
    ended: JoinHandle<()>,
}

impl<'g> Transaction<'g> {
    /// Checks what can be checked before anything is started.
    pub(super) fn plan(
        lifecycle: &'g Arc<ServerLifecycle>,
        ids: &mut ServerIds,
        operations: Vec<Operation>,
    ) -> Result<Self, ChangeError> {
        let servers = lifecycle.pool.servers();
        let mut named = HashSet::new();
        let mut transaction = Self { lifecycle, arrivals: Vec::new(), leaving: Vec::new() };
        for operation in operations {
            let (name, built_in) = match &operation {
                Operation::Put { plan, .. } => (plan.name.clone(), plan.is_built_in()),
                // Only servers of the user can be removed by name: what is built in may have the same name as one of them.
                Operation::Remove { name } => (name.clone(), false),
            };
            if !named.insert((name.clone(), built_in)) {
                return Err(ChangeError::Twice { name });
            }
            let before = servers.named(&name, built_in).cloned();
            match operation {
                Operation::Remove { name } => {
                    transaction.leaving.push(before.ok_or(ChangeError::Unknown { name })?);
                }
                Operation::Put { plan, start } => {
                    // A name that was there before keeps its id, and with it its place in the lists (ADR 15).
                    let id = ids.of(&plan);
                    let server = Arc::new(Server::new(
                        id,
                        *plan,
                        lifecycle.is_bare(id, built_in),
                        lifecycle.runtime.settings.list_pace,
                    ));
                    let (first, task) = (First::UnderWay, None);
                    transaction.arrivals.push(Arrival { server, before, start, first, task, is_followed: false });
                }
            }
        }
        transaction.check(&servers)?;
        Ok(transaction)
    }

    /// While the servers started, others may have been committed: what was planned must still be possible.
    pub(super) fn check_again(&self) -> Result<(), ChangeError> {
        let servers = self.lifecycle.pool.servers();
        // By identity: an equal plan that somebody else has committed meanwhile is another server all the same.
        let is_there = |plan: &ServerPlan| servers.named(&plan.name, plan.is_built_in()).map(Arc::as_ptr);
        let arrived = self.arrivals.iter().map(|arrival| (&arrival.server, arrival.before.as_ref().map(Arc::as_ptr)));
        let left = self.leaving.iter().map(|server| (server, Some(Arc::as_ptr(server))));
        for (server, planned) in arrived.chain(left) {
            if is_there(&server.plan) != planned {
                return Err(ChangeError::Overtaken { name: server.plan.name.clone() });
            }
        }
        self.check(&servers)
    }

    /// Whether the names of what comes can be told from the names of what stays.
    fn check(&self, servers: &ServerSet) -> Result<(), ChangeError> {
        let named: HashSet<(&str, bool)> = (self.arrivals.iter().map(|arrival| &arrival.server))
            .chain(&self.leaving)
            .map(|server| (server.plan.name.as_str(), server.plan.is_built_in()))
            .collect();
        let stays = |server: &&Arc<Server>| !named.contains(&(server.plan.name.as_str(), server.plan.is_built_in()));
        let staying: Vec<&Arc<Server>> = servers.iter().filter(stays).collect();
        self.check_prefixes(&staying)?;
        self.check_listed_uris(&staying)
    }

    /// A server whose URIs would all begin as some that another server lists as its own is refused: those that the other has
    /// and does not list would lead to it.
    fn check_listed_uris(&self, staying: &[&Arc<Server>]) -> Result<(), ChangeError> {
        let catalogue = self.lifecycle.catalogue.current();
        for arrival in &self.arrivals {
            let UriMap::Prefix(prefix) = &arrival.server.uris else { continue };
            // It had the same prefix before, so nothing that is reachable now stops being so.
            if arrival.before.as_ref().is_some_and(|before| before.uris == arrival.server.uris) {
                continue;
            }
            for other in staying.iter().filter(|other| other.uris.is_transparent()) {
                let offer = catalogue.snapshot.offer(other.id);
                let listed = [ListKind::Resources, ListKind::Templates].into_iter();
                let mut listed =
                    offer.into_iter().flat_map(|offer| listed.clone().flat_map(|kind| &offer.list(kind).items));
                if listed.any(|item| arrival.server.uris.inward(item.key.as_str()).is_some()) {
                    let (name, other) = (arrival.server.plan.name.clone(), other.plan.name.clone());
                    return Err(ChangeError::Clash { name, other, prefix: prefix.to_string(), kind: Prefix::Uri });
                }
            }
        }
        Ok(())
    }

    fn check_prefixes(&self, staying: &[&Arc<Server>]) -> Result<(), ChangeError> {
        let arriving: Vec<&Arc<Server>> = self.arrivals.iter().map(|arrival| &arrival.server).collect();
        // What is built in has no prefix: its names are its own.
        for (place, server) in arriving.iter().enumerate().filter(|(_, server)| !server.plan.is_built_in()) {
            let others = staying.iter().chain(&arriving[..place]).filter(|other| !other.plan.is_built_in());
            for other in others {
                if let Some((kind, prefix)) = clash(&server.plan, &other.plan) {
                    let (name, other) = (server.plan.name.clone(), other.plan.name.clone());
                    return Err(ChangeError::Clash { name, other, prefix: prefix.to_owned(), kind });
                }
            }
        }
        Ok(())
    }

    /// Starts, connects and lists everything that is to come.
    pub(super) async fn start(&mut self) -> Result<(), ChangeError> {
        let now = Instant::now();
        let settings = &self.lifecycle.runtime.settings;
        // One moment for all: however many servers a change has, it ends in time.
        let (limit, patience) = (now + settings.waits.added, now + settings.waits.start);
        for arrival in &mut self.arrivals {
            let (tell, ready) = oneshot::channel();
            let (admission, admitted) = oneshot::channel();
            // Each in a task of its own: a start that is given up must not be dropped half-way, because its processes
            // have to be ended.
            let work = Arc::clone(self.lifecycle).enter(Arc::clone(&arrival.server), limit, tell, admitted);
            arrival.task = Some(Task { ready, admission, ended: self.lifecycle.runtime.tasks.spawn(work) });
        }
        let seconds = settings.waits.added.as_secs();
        let each = self.arrivals.iter_mut().map(|arrival| async move {
            match arrival.start {
                // The server's own time-out comes first, because its error says more than ours.
                Start::MustSucceed => arrival.must_start(limit + GRACE, seconds).await,
                Start::MayFail => {
                    arrival.may_start(patience).await;
                    Ok(())
                }
            }
        });
        try_join_all(each).await.map(drop)
    }

    /// Nothing has happened: everything that was started ends, and is waited for.
    pub(super) async fn undo(self) {
        let ended = self.arrivals.into_iter().filter_map(|arrival| {
            // All are told before any is waited for.
            arrival.server.presence.gone.cancel();
            // Dropping the rest of it says that it is not admitted.
            arrival.task.map(|task| task.ended)
        });
        if tokio::time::timeout(UNDO, join_all(ended)).await.is_err() {
            tracing::warn!("a server that was not added takes long to end");
        }
    }

    /// Makes everything visible at once. From here on nothing can fail.
    pub(super) fn commit(mut self, ids: &mut ServerIds) {
        if self.arrivals.is_empty() && self.leaving.is_empty() {
            return;
        }
        let lifecycle = self.lifecycle;
        let put: Vec<Arc<Server>> = self.arrivals.iter().map(|arrival| Arc::clone(&arrival.server)).collect();
        let without: Vec<ServerId> = self.leaving.iter().map(|server| server.id).collect();
        for arrival in &self.arrivals {
            // Only now: a change that was undone has used up no id.
            ids.keep(&arrival.server);
            lifecycle.subscriptions.keep_spellings(&arrival.server);
            if let First::Ready(ready) = &arrival.first {
                // Before the catalogue shows it: the first client that subscribes must find the server ready for it.
                lifecycle.subscriptions.can_follow(&arrival.server, &ready.live);
            }
        }
        // Whoever reads a name in the new catalogue finds its server, and in the old one, too.
        let before = lifecycle.pool.servers();
        lifecycle.pool.set_servers(before.with(&put, &[]));
        put.iter().for_each(|server| lifecycle.discovery.bring_agreed(&server.plan));
        let records: Vec<_> =
            put.iter().map(|server| server.plan.approval.as_ref().map(|plan| Arc::clone(&plan.record))).collect();
        // Until the commit: no decision comes between what is screened and what is shown.
        let mut deciding: Vec<_> = records.iter().map(|record| record.as_ref().map(|record| record.lock())).collect();
        let mut news = Vec::new();
        for (arrival, approvals) in self.arrivals.iter_mut().zip(&mut deciding) {
            let offer = match &mut arrival.first {
                First::Ready(ready) => &mut ready.offer,
                First::Logged(logged) => &mut logged.0,
                First::UnderWay | First::Failed(_) => continue,
            };
            if let (Some(plan), Some(approvals)) = (&arrival.server.plan.approval, approvals) {
                let taken = arrival.server.screen.take(plan, approvals, offer, ListedFor::Everybody);
                news.push((Arc::clone(&arrival.server), taken));
            }
        }
        let changes = self.differences(&lifecycle.catalogue.current());
        let touched =
            changes.iter().map(|difference| touched(difference.before.as_deref(), difference.after.as_deref()));
        let touched = touched.fold(Topics::default(), |all, some| {
            let mut all = all;
            some.iter().for_each(|topic| all.insert(topic));
            all
        });
        let at = std::time::Instant::now();
        let occasion = CommitOccasion { at, touched, signalled: Default::default(), held_by: None };
        let replaced = self.arrivals.iter().filter_map(|arrival| arrival.before.as_ref());
        let departing: Vec<ServerId> = self.leaving.iter().chain(replaced).map(|server| server.id).collect();
        let mut bells = lifecycle.notifier.release_leaving(&departing);
        // One commit for everything that comes and goes: no client sees a state in between.
        let commit = lifecycle.discovery.commit(&occasion, |catalogue| self.show(catalogue));
        drop(deciding);
        // Also what was held a moment before; those who come have not begun to signal.
        bells.extend(lifecycle.notifier.release_leaving(&departing));
        bells.iter().for_each(FollowerBell::ring);
        // Whoever leaves goes out of the set last: until the commit, calls by the old catalogue had to find it.
        lifecycle.pool.set_servers(before.with(&put, &without));
        if put.iter().any(|server| !server.plan.isolation.is_shared()) {
            lifecycle.discovery.own_servers_came();
        }
        if let Some(journal) = lifecycle.discovery.journal() {
            for difference in &changes {
                let (old, new) = (difference.before.as_deref(), difference.after.as_deref());
                let occasion = JournalOccasion { commit, at_start: false };
                journal::tell(journal, old, new, &difference.failed, occasion);
            }
            self.leaving.iter().for_each(|server| journal.gone(server.plan.in_journal()));
        }
        news.into_iter().for_each(|(server, news)| lifecycle.discovery.screened(&server.plan, news));
        for server in &self.leaving {
            // After the commit: a caller who is answered with the reason and lists again finds the server gone.
            lifecycle.end(server);
            lifecycle.subscriptions.removed_for_followers(server);
        }
        for arrival in self.arrivals {
            if let Some(before) = &arrival.before {
                lifecycle.end(before);
            }
            if arrival.is_followed {
                // Nothing is started for it here, unless it turns out that this replica runs it.
                lifecycle.runtime.spawn(Arc::clone(lifecycle).run(Arc::clone(&arrival.server), None));
            }
            lifecycle.discovery.unpark(&arrival.server);
            if let Some(task) = arrival.task {
                // The task may have ended with the gateway; then nobody needs to be admitted.
                let _ = task.admission.send(());
            }
        }
    }

    /// What comes beside what is there, for whoever decides whether it may.
    pub(super) fn reviewed(&self) -> Vec<OfferReview> {
        let differences = self.differences(&self.lifecycle.catalogue.current()).into_iter();
        differences.map(|Difference { before, after, .. }| OfferReview { before, after }).collect()
    }

    /// What each server offered before, and offers then.
    fn differences(&self, catalogue: &Catalogue) -> Vec<Difference> {
        let before = |id: ServerId| catalogue.snapshot.offer(id).cloned();
        let left =
            self.leaving.iter().map(|server| Difference { before: before(server.id), after: None, failed: Vec::new() });
        let came = self.arrivals.iter().map(|arrival| {
            let before = before(arrival.server.id);
            match &arrival.first {
                First::Ready(ready) => {
                    let failed = ready.failed.iter().map(|list| list.kind).collect();
                    Difference { before, after: Some(Arc::new(ready.offer.clone())), failed }
                }
                First::Logged(logged) => {
                    Difference { before, after: Some(Arc::new(logged.0.clone())), failed: Vec::new() }
                }
                First::UnderWay | First::Failed(_) => Difference { before, after: None, failed: Vec::new() },
            }
        });
        left.chain(came).collect()
    }

    /// The catalogue afterwards. Whoever leaves can not write to it any more.
    fn show(&self, catalogue: &mut Catalogue) {
        for server in &self.leaving {
            // Under the lock of the catalogue, so that a listing of the old server which is just ending can not write
            // into the new state.
            server.presence.leave(Removal::Removed);
            catalogue.snapshot = Arc::new(catalogue.snapshot.without(server.id));
            catalogue.servers.retain(|status| status.id != server.id);
        }
        for arrival in &self.arrivals {
            let server = &arrival.server;
            if let Some(before) = &arrival.before {
                before.presence.leave(Removal::Replaced);
            }
            server.presence.admit();
            let snapshot = match &arrival.first {
                First::Ready(ready) => catalogue.snapshot.with(ready.offer.clone()),
                First::Logged(logged) => catalogue.snapshot.with(logged.0.clone()),
                // Not the lists of the one it replaces: they were another server's.
                First::UnderWay | First::Failed(_) => catalogue.snapshot.without(server.id),
            };
            catalogue.snapshot = Arc::new(snapshot);
            let place = catalogue.servers.iter().position(|status| status.id == server.id);
            // The count of connections goes on, because users see one server under one name.
            let status = arrival.status(place.map_or(0, |place| catalogue.servers[place].connects));
            match place {
                Some(place) => catalogue.servers[place] = status,
                None => catalogue.servers.push(status),
            }
        }
    }
}

impl Arrival {
    async fn must_start(&mut self, limit: Instant, seconds: u64) -> Result<(), ChangeError> {
        let name = || self.server.plan.name.clone();
        let Some(task) = &mut self.task else { return Err(ChangeError::Stopping) };
        let ready = match tokio::time::timeout_at(limit, &mut task.ready).await {
            Ok(Ok(Ok(ready))) => ready,
            // The limit of the change was handed to the handshake, so its time-out is ours, and is worded like ours.
            Ok(Ok(Err(error))) if matches!(error.cause(), LinkError::HandshakeTimeout(_)) => {
                let last_words = error.last_words().map(str::to_owned);
                return Err(ChangeError::Late { name: name(), seconds, last_words });
            }
            // Nobody can log in to a server that is not there: it comes, and says what it needs.
            Ok(Ok(Err(error))) if error.needs_login() => {
                self.first = First::Failed(error);
                return Ok(());
            }
            Ok(Ok(Err(error))) => return Err(ChangeError::Failed { name: name(), error }),
            // The task ended without a word, which it does only when the gateway stops.
            Ok(Err(_)) => return Err(ChangeError::Stopping),
            Err(_) => {
                let last_words = self.server.live().and_then(|live| live.link.last_words());
                return Err(ChangeError::Late { name: name(), seconds, last_words });
            }
        };
        // A server that is added while everything runs must be whole, or nothing has happened.
        if let Some(failed) = ready.failed.first() {
            let error = LinkError::Protocol(failed.error.clone()).with_words(ready.live.link.last_words());
            return Err(ChangeError::Failed { name: name(), error });
        }
        self.first = First::Ready(ready);
        Ok(())
    }

    async fn may_start(&mut self, patience: Instant) {
        let Some(task) = &mut self.task else { return };
        let said = match tokio::time::timeout_at(patience, &mut task.ready).await {
            Ok(said) => said.ok(),
            Err(_) => {
                // From here on it speaks for itself, unless it just has.
                // Closed first and read then: what the task sends from here on fails, and it publishes by itself.
                task.ready.close();
                task.ready.try_recv().ok()
            }
        };
        self.first = match said {
            Some(Ok(ready)) => First::Ready(ready),
            Some(Err(error)) => First::Failed(error),
            None => First::UnderWay,
        };
    }

    fn status(&self, connects: u64) -> ServerStatus {
        let mut status = ServerStatus { connects, ..self.server.plan.first_status(self.server.id) };
        match &self.first {
            First::UnderWay => {}
            // Ready when the link to its owner is.
            First::Logged(logged) => status.connected(Arc::clone(&logged.1), false),
            First::Ready(ready) => {
                status.transport = self.server.transport();
                status.ready(Arc::clone(&ready.hello));
                status.failed_lists = ready.failed.clone();
            }
            First::Failed(error) => {
                status.state = ServerState::after(Some(error));
                (status.error, status.error_for_clients) = (Some(error.to_string()), Some(error.for_clients()));
                status.settled = true;
            }
        }
        status
    }
}

impl ServerLifecycle {
    /// Whether a server's names are shown without its prefix.
    fn is_bare(&self, id: ServerId, built_in: bool) -> bool {
        built_in || self.runtime.settings.names == Names::None || self.pool.passthrough == Some(id)
    }

    /// Ends everything of a server that has left: its calls are answered now, its processes end in the background.
    fn end(&self, server: &Server) {
        let links = self.sever(server);
        // After its links are closed, which leaves a word about each that ended soon: of whoever has its id next, that says nothing.
        self.pool.own_links.server_gone(server.id);
        self.runtime.spawn(async move {
            for link in links {
                link.close().await;
            }
        });
    }
}

fn clash<'p>(one: &'p ServerPlan, other: &ServerPlan) -> Option<(Prefix, &'p str)> {
    if one.name_prefix == other.name_prefix {
        return Some((Prefix::Name, &one.name_prefix));
    }
    let both_prefixed = !one.transparent_uris && !other.transparent_uris;
    (both_prefixed && one.uri_prefix == other.uri_prefix).then_some((Prefix::Uri, &one.uri_prefix))
}
