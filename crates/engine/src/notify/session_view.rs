//! What a session sees that has connections of its own (`isolation = "session"`), and when it is told that this changed.
//!
//! Such a view is made when the session first asks, and from then on whenever one of its connections says that something
//! changed or breaks, and when the shared catalogue changes. The ledger compares its hash as it does for everybody.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use tidings_hub::catalogue::{ServerOffer, Snapshot};

use crate::client::principal::Viewer;
use crate::client::session::{OwnView, Session};
use crate::gateway::Inner;
use crate::servers::plan::Isolation;
use crate::servers::server::Server;

/// How long to wait before a connection that failed is tried again.
const RETRY: Duration = Duration::from_secs(1);

/// Says again that a view is old, unless it was made anew.
struct Unfinished<'a>(Option<&'a AtomicBool>);

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        if let Some(stale) = self.0 {
            stale.store(true, Ordering::SeqCst);
        }
    }
}

impl Inner {
    /// The catalogue as this client sees it: sessions with connections of their own see their own lists.
    pub(crate) async fn snapshot_of(self: &Arc<Self>, viewer: Viewer<'_>) -> Arc<Snapshot> {
        match viewer.session {
            Some(session) if self.has_isolated() => self.own_snapshot(session).await,
            _ => self.current().snapshot.seen_by(&viewer.principal.scope),
        }
    }

    async fn own_snapshot(self: &Arc<Self>, session: &Arc<Session>) -> Arc<Snapshot> {
        let mut view = session.own_view.lock().await;
        // Read behind the lock: an older state must not follow a newer one.
        let shared = Arc::clone(&self.current().snapshot);
        let stale = session.own_stale.swap(false, Ordering::SeqCst);
        // Whoever asked may leave in between; then the view is as old as before.
        let mut unfinished = Unfinished(Some(&session.own_stale).filter(|_| stale));
        if let Some(view) = view.as_ref().filter(|view| !stale && Arc::ptr_eq(&view.shared, &shared)) {
            return Arc::clone(&view.own);
        }
        let before = view.as_ref();
        let mut offers = before.map(|view| view.offers.clone()).unwrap_or_default();
        let servers = self.servers();
        offers.retain(|own| servers.get(own.server).is_some_and(|server| server.plan.isolation == Isolation::Session));
        let isolated = servers.iter().filter(|server| server.plan.isolation == Isolation::Session);
        for server in isolated.filter(|server| session.principal.may_use(server)) {
            // What a server says on the shared link may hold for this one, too.
            let same = before.is_some_and(|before| same_offer(server, &before.shared, &shared));
            if stale || !same {
                self.list_own(session, server, &mut offers).await;
            }
        }
        let mut merged = shared.offers().to_vec();
        merged.retain(|offer| offers.iter().all(|own| own.server != offer.server));
        merged.extend(offers.iter().cloned());
        merged.sort_by_key(|offer| offer.server);
        let own = Arc::new(Snapshot::new(merged, self.settings.view)).seen_by(&session.principal.scope);
        *view = Some(OwnView { shared, own: Arc::clone(&own), offers });
        unfinished.0 = None;
        // It can be read now, by whoever waits for the lock.
        self.show_own(session, own.digests(session.revision), Instant::now());
        own
    }

    /// Lists a server over the session's own connection. One that fails keeps its place, and is asked again.
    async fn list_own(
        self: &Arc<Self>,
        session: &Arc<Session>,
        server: &Arc<Server>,
        offers: &mut Vec<Arc<ServerOffer>>,
    ) {
        let listed = match self.own_link(session, server).await {
            Ok(live) => {
                let shared = self.current();
                let known = offers.iter().find(|offer| offer.server == server.id).or(shared.snapshot.offer(server.id));
                let lists = known.map(|offer| offer.lists.clone()).unwrap_or_default();
                server.list_for_session(self, &live, lists).await.map_err(|error| error.to_string())
            }
            Err(_) => Err("it can not be reached".to_owned()),
        };
        match listed {
            Ok((offer, complete)) => {
                session.own_stale.fetch_or(!complete, Ordering::SeqCst);
                offers.retain(|other| other.server != server.id);
                offers.push(Arc::new(offer));
            }
            Err(error) => {
                session.own_stale.store(true, Ordering::SeqCst);
                tracing::warn!(server = %server.plan.name, %error, "listing for a session failed");
            }
        }
    }

    /// One of the session's own connections said, or showed, that its lists are not what they were.
    pub(crate) fn own_view_is_old(self: &Arc<Self>, session: &Arc<Session>) {
        session.own_stale.store(true, Ordering::SeqCst);
        self.look_again_for(session);
    }

    /// The session's own view may have changed: it is made again after a quiet while, once for all that comes meanwhile.
    pub(crate) fn look_again_for(self: &Arc<Self>, session: &Arc<Session>) {
        session.own_wanted.store(true, Ordering::SeqCst);
        if session.own_looking.swap(true, Ordering::SeqCst) {
            return;
        }
        let gateway = Arc::clone(self);
        let session = Arc::clone(session);
        self.spawn(async move {
            let stop = gateway.stop.clone();
            stop.run_until_cancelled(gateway.look_for(&session)).await;
        });
    }

    async fn look_for(self: &Arc<Self>, session: &Arc<Session>) {
        let mut pause = self.settings.list_quiet;
        loop {
            tokio::time::sleep(pause).await;
            let wanted = session.own_wanted.swap(false, Ordering::SeqCst);
            // A session that has not asked yet has nothing that could change.
            let has_asked = || session.own_digests.lock().unwrap_or_else(PoisonError::into_inner).is_some();
            pause = self.settings.list_quiet;
            if wanted && has_asked() && self.sessions().contains_key(&session.key) {
                self.own_snapshot(session).await;
                if session.own_stale.load(Ordering::SeqCst) {
                    // Something failed: it is asked again, and meanwhile stays what it was.
                    pause = RETRY;
                    session.own_wanted.store(true, Ordering::SeqCst);
                }
            }
            session.own_looking.store(false, Ordering::SeqCst);
            let more = session.own_wanted.load(Ordering::SeqCst);
            if !more || session.own_looking.swap(true, Ordering::SeqCst) {
                return;
            }
        }
    }
}

fn same_offer(server: &Server, before: &Snapshot, now: &Snapshot) -> bool {
    match (before.offer(server.id), now.offer(server.id)) {
        (Some(before), Some(now)) => Arc::ptr_eq(before, now),
        (None, None) => true,
        _ => false,
    }
}
