//! What makes a server's lists be looked at again, and waiting for that. The hub's [`ListRefresh`] decides; the server's task
//! looks.

use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard};
use std::time::Instant;

use bytes::Bytes;
use futures_util::future::join_all;
use serde_json::json;
use tidings_hub::ledger::Topic;
use tidings_hub::refresh::{BegunLook, DueRefresh, ListRefresh, ListWait, RefreshReason};
use tidings_proto::{Era, ListKind, Method, names};

use crate::client::session::Viewer;
use crate::discovery::ListDiscovery;
use crate::fleet::FleetDesk;
use crate::links::live_link::promised;
use crate::notify::ListNotifier;
use crate::observe::telemetry::TelemetrySink;
use crate::plan::{Isolation, Source};
use crate::servers::server::Server;

impl Server {
    pub(crate) fn refresh(&self) -> MutexGuard<'_, ListRefresh> {
        self.lists.refresh.lock()
    }

    /// Nobody heard whether these lists have changed.
    pub(crate) fn unheard_lists(&self, kinds: &[ListKind]) {
        self.refresh().unheard(kinds, Instant::now());
        self.wake();
    }

    /// These lists are needed as they are now. Tells which look will know them.
    pub(crate) fn require_lists(&self, kinds: &[ListKind], reason: RefreshReason) -> u64 {
        let look = self.refresh().require(kinds, reason);
        self.wake();
        look
    }

    /// The server says that lists have changed. However many such words there are, one line per look says so.
    pub(crate) fn signalled(&self, topic: Topic, telemetry: Option<&dyn TelemetrySink>) {
        self.meters.signal(topic);
        if self.refresh().signal(topic.lists(), Instant::now()) {
            tracing::info!(server = %self.plan.name, notification = topic.notification(), "received");
            if let Some(sink) = telemetry {
                self.lists.signals.lock().signalled(sink, &self.plan.name, topic);
            }
        }
        // Once per link, or a chatty server would fill the log.
        if !self.announces(topic) && self.is_news(topic) {
            let notification = topic.notification();
            tracing::warn!(server = %self.plan.name, notification, "received, though not declared; it is heeded");
        }
        self.wake();
    }

    /// A call was answered that may have changed something. On the path of every call, so it only counts.
    pub(crate) fn call_answered(&self) {
        // Pairs with the `Acquire` of `ask` and `begin_look`: who sees the count also sees what the call left behind.
        self.lists.answered.fetch_add(1, Ordering::Release);
    }

    pub(crate) fn mark_due(&self, due: DueRefresh) {
        match due {
            DueRefresh::Poll(kinds) => self.refresh().mark(&kinds, RefreshReason::Poll),
            DueRefresh::Retry(kinds) => self.refresh().mark(&kinds, RefreshReason::Retry),
        }
    }

    /// Begins a look at what is marked, or over a new link at everything.
    pub(crate) fn begin_look(&self, anew: bool) -> BegunLook {
        // Counted before the look: what is answered during it is for the next one.
        let (answered, now) = (self.lists.answered.load(Ordering::Acquire), Instant::now());
        let mut refresh = self.refresh();
        if anew { refresh.begin_anew(answered, now) } else { refresh.begin(answered, now) }
    }

    /// A look is over and committed: whoever waited for it goes on, and what was held is told if its window is over.
    pub(crate) fn looked(&self, notifier: &ListNotifier, look: &BegunLook) {
        self.refresh().looked();
        // After the machine knows that the look is over: whoever wakes may ask again at once.
        self.lists.listed.send_replace(look.number);
        if !look.held {
            notifier.release_notices(self);
        }
    }

    pub(crate) fn release_notices(&self, notifier: &ListNotifier) {
        self.refresh().released();
        notifier.release_notices(self);
    }

    /// A client asks for a list: what it has to wait for, if that is not known to be current.
    fn ask(&self, kind: ListKind) -> Option<ListWait> {
        // Without a link there is nothing to wait for; what was known last is served. What another replica runs is looked at there.
        let live = self.live().filter(|_| !self.is_elsewhere())?;
        let topic = Topic::of(kind);
        // On a pipe of the old era the signal comes before the answer. Over HTTP it has a stream of its own; and in the new
        // era a server may agree to announce what it then announces only to clients of the old one.
        let in_order = match &self.plan.source {
            // What files and webhooks say changes without a word about the list.
            source if kind == ListKind::Resources && source.lists_details() => {
                // Counts as a change that nobody announces, so the list is looked at whenever somebody asks.
                self.call_answered();
                false
            }
            // In the process nothing travels apart: a server says what changed before it answers.
            Source::Local(_) | Source::Unready(_) => true,
            Source::Remote(_) => {
                self.plan.source.transport() != "http"
                    && live.hello.revision.era() == Era::Legacy
                    && promised(&live.hello).contains(topic)
            }
        };
        let answered = (!in_order).then(|| self.lists.answered.load(Ordering::Acquire));
        let wait = self.refresh().ask(kind, answered, Instant::now());
        if wait.is_some() {
            self.wake();
        }
        wait
    }

    /// Whether another replica runs it, and calls that this one sent itself may have changed a list of it.
    fn was_called_past_owner(&self, kind: ListKind) -> bool {
        self.is_elsewhere() && self.direct.is_behind(kind, self.direct.calls_answered())
    }

    /// A client names something of this server that it has not listed.
    fn missed(&self, kind: ListKind) -> Option<ListWait> {
        // Those in the process announce everything in time; without a link there is nobody to ask.
        self.live().filter(|_| matches!(self.plan.source, Source::Remote(_)) && !self.is_elsewhere())?;
        let wait = self.refresh().missed(kind, Instant::now());
        if wait.is_some() {
            self.wake();
        }
        wait
    }

    /// Waits until a look is over, and what it found can be read.
    pub(crate) async fn listed(&self, look: u64) {
        // An error means that the server was dropped, and then nobody needs to wait.
        let _ = self.lists.listed.subscribe().wait_for(|done| *done >= look).await;
    }
}

impl ListDiscovery {
    /// Makes a list current for whoever asks for it: the servers whose list is marked are looked at now, all at once, and
    /// waited for, but not for ever. Tells whether there was any to wait for.
    pub(crate) async fn refresh_list(&self, viewer: Viewer<'_>, kind: ListKind) -> bool {
        let servers = self.pool.servers();
        // Own lists of sessions and people are looked at over their own links.
        let shared = |server: &&Arc<Server>| is_seen_over_shared_link(viewer, server);
        let asked = servers.iter().filter(|server| viewer.principal.may_use(&server.plan)).filter(shared);
        let waits: Vec<(&Arc<Server>, ListWait)> =
            asked.filter_map(|server| Some((server, server.ask(kind)?))).collect();
        // One after the other costs no time: all looks run already, and each has its own deadline.
        for (server, wait) in &waits {
            let _ = tokio::time::timeout_at(wait.until.into(), server.listed(wait.look)).await;
        }
        let Some(fleet) = &self.runtime.fleet else { return !waits.is_empty() };
        let asked = servers.iter().filter(|server| viewer.principal.may_use(&server.plan)).filter(shared);
        let behind: Vec<&Arc<Server>> = asked.filter(|server| server.was_called_past_owner(kind)).collect();
        let asking = join_all(behind.iter().map(|server| self.ask_owner(server, kind, fleet)));
        // Late or not, what is known then is the answer.
        let _ = tokio::time::timeout(self.runtime.settings.list_pace.max_wait, asking).await;
        !waits.is_empty() || !behind.is_empty()
    }

    /// Has the replica that runs a server look at it: what is known of it here is not what it has.
    pub(crate) async fn list_at_owner(&self, server: &Server, kind: ListKind) {
        let Some(fleet) = &self.runtime.fleet else { return };
        // As if it had changed by this call, which its owner knows nothing of.
        server.direct.call_answered();
        self.ask_owner(server, kind, fleet).await;
    }

    /// Has the replica that runs a server look at it, and waits until what it found is here: calls that left from here may have changed its
    /// lists, and who made them may ask for these now.
    async fn ask_owner(&self, server: &Server, kind: ListKind, fleet: &FleetDesk) {
        let _one_at_a_time = server.direct.asking.lock().await;
        let answered = server.direct.calls_answered();
        let Some(live) = server.live().filter(|_| server.direct.is_behind(kind, answered)) else { return };
        // Before the request, which comes after it: the owner then lists for it what it would list for a client of its own.
        fleet.tell_owner(&server.plan.name, Bytes::new());
        let request = self.links.own_request(&live.hello, Method::List(kind), json!({}));
        if live.link.call(request).answer().await.is_ok() && fleet.read().await {
            server.direct.caught_up(kind, answered);
        }
    }

    /// Looks at the server whose prefix an unknown name has: not every server says that it has changed.
    pub(crate) async fn look_for_unlisted(&self, viewer: Viewer<'_>, kind: ListKind, name: &str) {
        let servers = self.pool.servers();
        let has_its_prefix = |server: &&Arc<Server>| {
            let rest = name.strip_prefix(server.plan.name_prefix.as_str());
            // The separator too: the prefix `a` must not be found in a name of the server `ab`.
            rest.is_some_and(|rest| rest.starts_with(names::SEPARATOR))
        };
        let shared = |server: &&Arc<Server>| is_seen_over_shared_link(viewer, server);
        let asked = servers.iter().filter(|server| viewer.principal.may_use(&server.plan)).filter(shared);
        for server in asked.filter(has_its_prefix) {
            if let Some(wait) = server.missed(kind) {
                let _ = tokio::time::timeout_at(wait.until.into(), server.listed(wait.look)).await;
            }
        }
    }
}

/// Whether what somebody sees of a server is listed over its shared link.
fn is_seen_over_shared_link(viewer: Viewer<'_>, server: &Server) -> bool {
    match server.plan.isolation {
        Isolation::Auto => true,
        Isolation::Session => viewer.session.is_none(),
        Isolation::Principal => false,
    }
}
