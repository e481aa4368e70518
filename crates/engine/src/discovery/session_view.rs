//! What a session sees that has links of its own (`isolation = "session"`), and when it is told that this changed. The views of
//! people (`isolation = "principal"`), on which those of their sessions are built, are in `person_view.rs`.
//!
//! The hub decides (`tidings_hub::session_view`); here its looks are carried out, each in a task of its own. Reading the view
//! waits for nothing; only a list is waited for, and not for long.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tidings_hub::ServerId;
use tidings_hub::catalogue::CatalogueSnapshot;
use tidings_hub::ledger::FollowerId;
use tidings_hub::session_view::{OwnLinkLook, OwnLinkLooked};

use crate::client::person_view::{PersonFollower, ViewOwner};
use crate::client::session::{OwnView, Session, Viewer};
use crate::discovery::ListDiscovery;
use crate::links::live_link::LinkUser;
use crate::plan::Isolation;
use crate::servers::own_link_table::{LinkNeed, OwnLinkUser};

/// How long to wait before a link is looked at again that broke during a look.
const RETRY: Duration = Duration::from_secs(1);

impl ListDiscovery {
    /// The catalogue as this client sees it now: sessions and people with links of their own see their own lists.
    pub(crate) fn view_of(self: &Arc<Self>, viewer: Viewer<'_>) -> Arc<CatalogueSnapshot> {
        match viewer.session {
            Some(session) if self.pool.has_isolated() => self.own_view(session, false),
            None if self.pool.has_personal() => self.person_view(viewer, false),
            _ => self.catalogue.current().snapshot.seen_as(&viewer.principal.scope, viewer.shape),
        }
    }

    /// The same, after what is not known yet was waited for, but not for long.
    pub(crate) async fn settled_view_of(self: &Arc<Self>, viewer: Viewer<'_>) -> Arc<CatalogueSnapshot> {
        match viewer.session {
            Some(session) if self.pool.has_isolated() => _ = self.own_view(session, true),
            None if self.pool.has_personal() => _ = self.person_view(viewer, true),
            _ => return self.view_of(viewer),
        }
        self.own_view_settled(viewer).await;
        // Read again, because the looks that were waited for have changed it.
        self.view_of(viewer)
    }

    /// The same, to be shown: from now on the session is owed what changes in it.
    pub(crate) async fn shown_view_of(self: &Arc<Self>, viewer: Viewer<'_>) -> Arc<CatalogueSnapshot> {
        let Some(session) = viewer.session.filter(|_| self.pool.has_isolated()) else {
            return self.settled_view_of(viewer).await;
        };
        if self.pool.has_personal() {
            // Before the view is read: what changes from then on is told to those who follow.
            let follower = FollowerId::from(session.key);
            let person = self.people.of(&session.principal.name);
            person.follow(follower, PersonFollower::Session(Arc::downgrade(session)));
        }
        self.settled_view_of(viewer).await;
        let (shown, shared) = {
            let mut view = session.view();
            // Read behind the lock: an older state must not follow a newer one.
            let shared = self.beside_own_links(session);
            let shown = view.snapshot(&shared, &session.principal.scope, session.shape());
            view.show();
            self.notifier.show_own(session, shown.digests(session.revision), Instant::now());
            (shown, shared)
        };
        if !Arc::ptr_eq(&shared, &self.beside_own_links(session)) {
            // A commit in between did not know yet that this session has a view of its own.
            self.look_again_for(session);
        }
        shown
    }

    /// Whether no look is under way that could find what a client asks for.
    pub(crate) fn is_own_view_settled(&self, viewer: Viewer<'_>) -> bool {
        let person = self.pool.has_personal().then(|| self.people.known(&viewer.principal.name)).flatten();
        viewer.session.is_none_or(|session| session.view().is_settled())
            && person.is_none_or(|person| person.own.lock().is_settled())
    }

    /// Waits for looks that are under way, at most as long as for any list.
    pub(crate) async fn own_view_settled(&self, viewer: Viewer<'_>) {
        if self.pool.has_personal() {
            self.looks_settled(&self.people.of(&viewer.principal.name).own).await;
        }
        if let Some(session) = viewer.session {
            self.looks_settled(&session.own_view).await;
        }
    }

    async fn looks_settled(&self, own: &OwnView) {
        if own.lock().is_settled() {
            return;
        }
        // Before the looks are hurried: one that ends in between must not be missed.
        let mut looked = own.looked.subscribe();
        own.hurry.notify_waiters();
        let settled = looked.wait_for(|()| own.lock().is_settled());
        if tokio::time::timeout(self.runtime.settings.list_pace.max_wait, settled).await.is_err() {
            // For everybody who asks after this one: a slow server costs the wait once.
            own.lock().waited_enough();
        }
    }

    /// What is known of a session's view, for people to see: nothing is looked at for them.
    pub(crate) fn known_view_of(&self, session: &Session) -> Arc<CatalogueSnapshot> {
        let mut view = session.view();
        view.snapshot(&self.beside_own_links(session), &session.principal.scope, session.shape())
    }

    /// What a session's own view is built on: the shared catalogue, with what its person sees in it.
    fn beside_own_links(&self, session: &Session) -> Arc<CatalogueSnapshot> {
        let shared = Arc::clone(&self.catalogue.current().snapshot);
        match self.pool.has_personal() {
            true => self.people.whole(&self.people.of(&session.principal.name), &shared),
            false => shared,
        }
    }

    fn own_view(self: &Arc<Self>, session: &Arc<Session>, is_asked: bool) -> Arc<CatalogueSnapshot> {
        let servers = self.pool.servers();
        let may_use = |server: &crate::plan::ServerPlan| session.principal.may_use(server);
        if servers.has_personal() {
            self.attend_person(&self.people.of(&session.principal.name), may_use, is_asked);
        }
        let isolated = servers.iter().filter(|server| server.plan.isolation == Isolation::Session);
        let own: BTreeSet<ServerId> = isolated.filter(|server| may_use(&server.plan)).map(|server| server.id).collect();
        let (seen, looks) = {
            let mut view = session.view();
            let shared = self.beside_own_links(session);
            let looks = view.attend(&shared, &own, is_asked, self.runtime.settings.list_pace.quiet, Instant::now());
            (view.snapshot(&shared, &session.principal.scope, session.shape()), looks)
        };
        // After the lock of the view is free: a look may take it at once.
        for look in looks {
            self.begin_look(ViewOwner::Session(Arc::clone(session)), look);
        }
        seen
    }

    /// Somebody's own link to a server said, or showed, that its lists are not what they were.
    pub(crate) fn own_view_is_old(self: &Arc<Self>, owner: &ViewOwner, server: ServerId) {
        self.own_view_is_old_at(owner, server, Instant::now() + self.runtime.settings.list_pace.quiet);
    }

    /// As [`Self::own_view_is_old`], looked at from this time on.
    pub(crate) fn own_view_is_old_at(self: &Arc<Self>, owner: &ViewOwner, server: ServerId, at: Instant) {
        let look = owner.own().lock().signalled(server, at);
        look.into_iter().for_each(|look| self.begin_look(owner.clone(), look));
    }

    /// Where one session or person has a link for itself, what they see of the server over it may be another.
    pub(crate) fn view_over_is_old(self: &Arc<Self>, user: &LinkUser, server: ServerId) {
        let session = user.session().map(ViewOwner::Session);
        let person = user.person().and_then(|name| self.people.known(name));
        if let Some(owner) = session.or(person.map(ViewOwner::Person)) {
            self.own_view_is_old(&owner, server);
        }
    }

    /// Somebody's own link to a server was made.
    pub(crate) fn own_link_is_up(self: &Arc<Self>, owner: &ViewOwner, server: ServerId) {
        let look = owner.own().lock().connected(server, Instant::now());
        look.into_iter().for_each(|look| self.begin_look(owner.clone(), look));
    }

    /// What a session sees over links of its own, or of its person, is attended to.
    pub(super) fn attend_own(self: &Arc<Self>, session: &Arc<Session>) {
        // Its snapshot is not needed; this notices what the shared catalogue has that is new for the session's own
        // links.
        self.own_view(session, false);
    }

    /// The shared catalogue changed, of which a session with a view of its own sees a part.
    pub(crate) fn look_again_for(self: &Arc<Self>, session: &Arc<Session>) {
        self.attend_own(session);
        self.show_session_again(session);
    }

    /// Somebody who was shown the view is owed what differs now.
    pub(super) fn show_session_again(&self, session: &Arc<Session>) {
        // Held until the ledger is told, as in `shown_view_of`: an older state must not follow a newer one.
        let mut view = session.view();
        if view.is_shown() {
            let shared = self.beside_own_links(session);
            let now = view.snapshot(&shared, &session.principal.scope, session.shape());
            self.notifier.show_own(session, now.digests(session.revision), Instant::now());
        }
    }

    pub(super) fn begin_look(self: &Arc<Self>, owner: ViewOwner, look: OwnLinkLook) {
        let discovery = Arc::clone(self);
        self.runtime.spawn(async move {
            tokio::select! {
                () = discovery.look_for(&owner, look) => {}
                () = owner.gone() => {}
                () = discovery.runtime.stop.cancelled() => {}
            }
        });
    }

    async fn look_for(self: &Arc<Self>, owner: &ViewOwner, first: OwnLinkLook) {
        let mut next = Some(first);
        while let Some(look) = next {
            tokio::select! {
                () = tokio::time::sleep_until(look.at.into()) => {}
                () = owner.own().hurry.notified(), if look.may_hurry => {}
            }
            let Some(looked) = self.look_at(owner, look.server).await else {
                // The server left: there is nothing to look at again.
                return owner.own().lock().forget(look.server);
            };
            let quiet = self.runtime.settings.list_pace.quiet;
            next = owner.own().lock().looked(look.server, looked, quiet, Instant::now());
            // Before those who wait are woken: what they list next was owed first.
            match owner {
                ViewOwner::Session(session) => self.show_session_again(session),
                ViewOwner::Person(person) => self.show_person_when_settled(person),
            }
            owner.own().looked.send_replace(());
            // A session ends with its looks; a person who is not there any more would be looked for without end.
            if let (Some(again), ViewOwner::Person(person)) = (next, owner)
                && !again.may_hurry
                && person.followers().is_empty()
            {
                return owner.own().lock().sleeps(again.server);
            }
        }
    }

    /// Lists a server over somebody's own link. `None` when the server is gone.
    async fn look_at(self: &Arc<Self>, owner: &ViewOwner, server: ServerId) -> Option<OwnLinkLooked> {
        let isolation = match owner {
            ViewOwner::Session(_) => Isolation::Session,
            ViewOwner::Person(_) => Isolation::Principal,
        };
        let server = self.pool.server(server).filter(|server| server.plan.isolation == isolation)?;
        let live = match self.pool.own_link(&OwnLinkUser::from(owner), &server, LinkNeed::Look).await {
            Ok(live) => live,
            Err(none) => {
                return Some(match none.retry_at {
                    Some(retry_at) => OwnLinkLooked::Failed { retry_at },
                    None => OwnLinkLooked::NeedsLogin,
                });
            }
        };
        let known = owner.own().lock().offer(server.id).cloned();
        // The first time, what the shared link gave stands in for a list that can not be had.
        let shared = self.catalogue.current().snapshot.offer(server.id).cloned();
        let known = known.or_else(|| shared.clone());
        let lists = known.map(|offer| offer.lists.clone()).unwrap_or_default();
        Some(match server.list_for_session(self, &live, lists).await {
            Ok((mut offer, complete)) => {
                if server.plan.is_for_people() {
                    // Whoever was sent to a page by the tool comes back to it when they have logged in: it can be called, but is not listed.
                    let owner = OwnLinkUser::from(owner).owner();
                    offer.listed = !self.pool.own_links.lock().machine.missing_logins(&owner).is_empty();
                }
                let offer = match owner {
                    ViewOwner::Session(_) => Arc::new(offer),
                    ViewOwner::Person(_) => self.people.same_offer(offer, shared.as_ref()),
                };
                OwnLinkLooked::Offer(offer, complete)
            }
            Err(error) => {
                tracing::warn!(server = %server.plan.name, %error, "listing over a link of their own failed");
                OwnLinkLooked::Failed { retry_at: Instant::now() + RETRY }
            }
        })
    }
}
