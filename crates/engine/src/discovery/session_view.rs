//! What a session sees that has links of its own (`isolation = "session"`), and when it is told that this changed.
//!
//! The hub decides (`tidings_hub::session_view`); here its looks are carried out, each in a task of its own. Reading the view
//! waits for nothing; only a list is waited for, and not for long.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tidings_hub::ServerId;
use tidings_hub::catalogue::CatalogueSnapshot;
use tidings_hub::session_view::{OwnLinkLook, OwnLinkLooked};

use crate::client::session::Session;
use crate::client::session::Viewer;
use crate::discovery::ListDiscovery;
use crate::plan::Isolation;
use crate::servers::own_link_table::OwnLinkUser;

/// How long to wait before a link is looked at again that broke during a look.
const RETRY: Duration = Duration::from_secs(1);

impl ListDiscovery {
    /// The catalogue as this client sees it now: sessions with links of their own see their own lists.
    pub(crate) fn view_of(self: &Arc<Self>, viewer: Viewer<'_>) -> Arc<CatalogueSnapshot> {
        match viewer.session {
            Some(session) if self.pool.has_isolated() => self.own_view(session, false),
            _ => self.catalogue.current().snapshot.seen_by(&viewer.principal.scope),
        }
    }

    /// The same, after what is not known yet was waited for, but not for long.
    pub(crate) async fn settled_view_of(self: &Arc<Self>, viewer: Viewer<'_>) -> Arc<CatalogueSnapshot> {
        if let Some(session) = viewer.session.filter(|_| self.pool.has_isolated()) {
            self.own_view(session, true);
            self.own_view_settled(session).await;
        }
        // Read again, because the looks that were waited for have changed it.
        self.view_of(viewer)
    }

    /// The same, to be shown: from now on the session is owed what changes in it.
    pub(crate) async fn shown_view_of(self: &Arc<Self>, viewer: Viewer<'_>) -> Arc<CatalogueSnapshot> {
        let Some(session) = viewer.session.filter(|_| self.pool.has_isolated()) else { return self.view_of(viewer) };
        self.settled_view_of(viewer).await;
        let (shown, shared) = {
            let mut view = session.view();
            // Read behind the lock: an older state must not follow a newer one.
            let shared = Arc::clone(&self.catalogue.current().snapshot);
            let shown = view.snapshot(&shared, &session.principal.scope);
            view.show();
            self.notifier.show_own(session, shown.digests(session.revision), Instant::now());
            (shown, shared)
        };
        if !Arc::ptr_eq(&shared, &self.catalogue.current().snapshot) {
            // A commit in between did not know yet that this session has a view of its own.
            self.look_again_for(session);
        }
        shown
    }

    /// Whether a look is under way that could find what a session asks for.
    pub(crate) fn is_own_view_settled(&self, session: &Session) -> bool {
        session.view().is_settled()
    }

    /// Waits for looks that are under way, at most as long as for any list.
    pub(crate) async fn own_view_settled(&self, session: &Session) {
        if session.view().is_settled() {
            return;
        }
        // Before the looks are hurried: one that ends in between must not be missed.
        let mut looked = session.own_view.looked.subscribe();
        session.own_view.hurry.notify_waiters();
        let settled = looked.wait_for(|()| session.view().is_settled());
        if tokio::time::timeout(self.runtime.settings.list_pace.max_wait, settled).await.is_err() {
            // For everybody who asks after this one: a slow server costs the wait once.
            session.view().waited_enough();
        }
    }

    fn own_view(self: &Arc<Self>, session: &Arc<Session>, is_asked: bool) -> Arc<CatalogueSnapshot> {
        let servers = self.pool.servers();
        let isolated = servers.iter().filter(|server| server.plan.isolation == Isolation::Session);
        let own: BTreeSet<ServerId> =
            isolated.filter(|server| session.principal.may_use(&server.plan)).map(|server| server.id).collect();
        let (seen, looks) = {
            let mut view = session.view();
            let shared = Arc::clone(&self.catalogue.current().snapshot);
            let looks = view.attend(&shared, &own, is_asked, self.runtime.settings.list_pace.quiet, Instant::now());
            (view.snapshot(&shared, &session.principal.scope), looks)
        };
        // After the lock of the view is free: a look may take it at once.
        for look in looks {
            self.begin_look(session, look);
        }
        seen
    }

    /// The session's own link to a server said, or showed, that its lists are not what they were.
    pub(crate) fn own_view_is_old(self: &Arc<Self>, session: &Arc<Session>, server: ServerId) {
        let look = session.view().signalled(server, Instant::now() + self.runtime.settings.list_pace.quiet);
        look.into_iter().for_each(|look| self.begin_look(session, look));
    }

    /// The session's own link to a server was made.
    pub(crate) fn own_link_is_up(self: &Arc<Self>, session: &Arc<Session>, server: ServerId) {
        let look = session.view().connected(server, Instant::now());
        look.into_iter().for_each(|look| self.begin_look(session, look));
    }

    /// The shared catalogue changed, of which a session with a view of its own sees a part.
    pub(crate) fn look_again_for(self: &Arc<Self>, session: &Arc<Session>) {
        // Its snapshot is not needed; this notices what the shared catalogue has that is new for the session's own
        // links.
        self.own_view(session, false);
        self.show_again(session);
    }

    /// Somebody who was shown the view is owed what differs now.
    fn show_again(self: &Arc<Self>, session: &Arc<Session>) {
        // Held until the ledger is told, as in `shown_view_of`: an older state must not follow a newer one.
        let mut view = session.view();
        if view.is_shown() {
            let shared = Arc::clone(&self.catalogue.current().snapshot);
            let now = view.snapshot(&shared, &session.principal.scope);
            self.notifier.show_own(session, now.digests(session.revision), Instant::now());
        }
    }

    fn begin_look(self: &Arc<Self>, session: &Arc<Session>, look: OwnLinkLook) {
        let (discovery, session) = (Arc::clone(self), Arc::clone(session));
        self.runtime.spawn(async move {
            tokio::select! {
                () = discovery.look_for(&session, look) => {}
                () = session.over.cancelled() => {}
                () = discovery.runtime.stop.cancelled() => {}
            }
        });
    }

    async fn look_for(self: &Arc<Self>, session: &Arc<Session>, first: OwnLinkLook) {
        let mut next = Some(first);
        while let Some(look) = next {
            tokio::select! {
                () = tokio::time::sleep_until(look.at.into()) => {}
                () = session.own_view.hurry.notified(), if look.may_hurry => {}
            }
            let Some(looked) = self.look_at(session, look.server).await else {
                // The server left: there is nothing to look at again.
                return session.view().forget(look.server);
            };
            next = session.view().looked(look.server, looked, self.runtime.settings.list_pace.quiet, Instant::now());
            // Before those who wait are woken: what they list next was owed first.
            self.show_again(session);
            session.own_view.looked.send_replace(());
        }
    }

    /// Lists a server over the session's own link. `None` when the server is gone.
    async fn look_at(self: &Arc<Self>, session: &Arc<Session>, server: ServerId) -> Option<OwnLinkLooked> {
        let server = self.pool.server(server).filter(|server| server.plan.isolation == Isolation::Session)?;
        let live = match self.pool.own_link(&OwnLinkUser::Session(Arc::clone(session)), &server).await {
            Ok(live) => live,
            Err(none) => return Some(OwnLinkLooked::Failed { retry_at: none.retry_at }),
        };
        let known = session.view().offer(server.id).cloned();
        // The first time, what the shared link gave stands in for a list that can not be had.
        let known = known.or_else(|| self.catalogue.current().snapshot.offer(server.id).cloned());
        let lists = known.map(|offer| offer.lists.clone()).unwrap_or_default();
        Some(match server.list_for_session(self, &live, lists).await {
            Ok((offer, complete)) => OwnLinkLooked::Offer(Arc::new(offer), complete),
            Err(error) => {
                tracing::warn!(server = %server.plan.name, %error, "listing for a session failed");
                OwnLinkLooked::Failed { retry_at: Instant::now() + RETRY }
            }
        })
    }
}
