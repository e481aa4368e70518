//! What a person sees of the servers that are connected once per principal, and telling exactly their clients when it changes.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

use serde_json::Value;
use tidings_hub::ServerId;
use tidings_hub::catalogue::CatalogueSnapshot;
use tidings_hub::ledger::{FollowerId, Topics};

use crate::client::person_view::{PersonFollower, PersonView, ViewOwner};
use crate::client::principal::ViewKey;
use crate::client::session::{Session, Viewer};
use crate::discovery::ListDiscovery;
use crate::notify::announce::Listening;
use crate::plan::{Isolation, ServerPlan};

impl ListDiscovery {
    /// The catalogue as a person sees it without a session.
    pub(super) fn person_view(self: &Arc<Self>, viewer: Viewer<'_>, is_asked: bool) -> Arc<CatalogueSnapshot> {
        let principal = viewer.principal;
        let person = self.people.of(&principal.name);
        self.attend_person(&person, |plan| principal.may_use(plan), is_asked);
        self.people.whole(&person, &self.catalogue.current().snapshot).seen_as(&principal.scope, viewer.shape)
    }

    /// A client of a person sees the servers that `permits` lets it; those that another client of theirs sees stay attended to.
    pub(super) fn attend_person(
        self: &Arc<Self>,
        person: &Arc<PersonView>,
        permits: impl Fn(&ServerPlan) -> bool,
        is_asked: bool,
    ) {
        let servers = self.pool.servers();
        let looks = {
            let mut view = person.own.lock();
            let personal = servers.iter().filter(|server| server.plan.isolation == Isolation::Principal);
            let seen = personal.filter(|server| view.attends(server.id) || permits(&server.plan));
            let own: BTreeSet<ServerId> = seen.map(|server| server.id).collect();
            let shared = Arc::clone(&self.catalogue.current().snapshot);
            view.attend(&shared, &own, is_asked, self.runtime.settings.list_pace.quiet, Instant::now())
        };
        // After the lock of the view is free: a look may take it at once.
        for look in looks {
            self.begin_look(ViewOwner::Person(Arc::clone(person)), look);
        }
    }

    /// The servers of which it is not known whether a person has to log in. They were waited for as long as for a list, and once
    /// more as long for looks that failed.
    pub(crate) async fn undecided_logins(self: &Arc<Self>, viewer: Viewer<'_>) -> Vec<String> {
        // Has everything looked at that they may see.
        self.settled_view_of(viewer).await;
        let Some(person) = self.people.known(&viewer.principal.name) else { return Vec::new() };
        let undecided = || -> Vec<String> {
            let servers = self.pool.servers();
            let view = person.own.lock();
            let open = view.undecided().filter_map(|server| servers.get(server));
            // Others have nobody log in: the gateway's own servers, and those on pipes, whatever becomes of their links.
            open.filter(|server| server.plan.source.people().is_some()).map(|server| server.plan.name.clone()).collect()
        };
        // A look that failed is made again, and whoever lists does not wait for that; whoever asks for this does.
        let mut looked = person.own.looked.subscribe();
        let decided = looked.wait_for(|()| undecided().is_empty());
        let _ = tokio::time::timeout(self.runtime.settings.list_pace.max_wait, decided).await;
        undecided()
    }

    /// What any person sees of a server may be another.
    pub(crate) fn people_view_is_old(self: &Arc<Self>, server: ServerId) {
        for person in self.people.all() {
            self.own_view_is_old(&ViewOwner::Person(person), server);
        }
    }

    /// Begins a listen: first the baseline is taken, then the acknowledgement may be written.
    pub(crate) async fn listen(
        self: &Arc<Self>,
        viewer: Viewer<'_>,
        view_key: ViewKey,
        topics: Topics,
        capabilities: &Value,
    ) -> Listening {
        if !self.pool.has_personal() {
            return self.notifier.listen(view_key, topics, capabilities, None);
        }
        self.settled_view_of(viewer).await;
        let person = self.people.of(&viewer.principal.name);
        let shared = Arc::clone(&self.catalogue.current().snapshot);
        // What a look finds from here on is told: it is told to all who follow, and this one is among them.
        let digests = view_key.digests(&self.people.whole(&person, &shared));
        let mut listening = self.notifier.listen(view_key.clone(), topics, capabilities, Some(digests));
        person.follow(listening.follower, PersonFollower::Listen(view_key));
        listening.person = Some(Arc::clone(&person));
        // Once more, for what was found or committed between the two.
        self.look_again_for_person(&person);
        listening
    }

    /// The shared catalogue changed, on which the view of a person is built; its sessions are looked for by themselves.
    pub(super) fn look_again_for_person(self: &Arc<Self>, person: &Arc<PersonView>) {
        self.attend_listens(person);
        self.show_listens_again(person);
    }

    /// What the listens of a person see of servers that are connected for them is attended to.
    fn attend_listens(self: &Arc<Self>, person: &Arc<PersonView>) {
        let followers = person.followers();
        let permits = |plan: &ServerPlan| {
            followers.iter().any(|(_, follower)| match follower {
                PersonFollower::Listen(key) => key.scope.permits(plan.audience(), &plan.name),
                PersonFollower::Session(_) => false,
            })
        };
        self.attend_person(person, permits, false);
    }

    /// A listen that began when its person had no server for themselves sees from now on what they see.
    pub(crate) fn join_person(self: &Arc<Self>, listening: &mut Listening, viewer: Viewer<'_>, view_key: ViewKey) {
        let person = self.people.of(&viewer.principal.name);
        self.notifier.begin_own(listening.follower);
        person.follow(listening.follower, PersonFollower::Listen(view_key));
        listening.person = Some(Arc::clone(&person));
        self.attend_listens(&person);
        // Not before: of what it saw until now a part would be gone, and come back with the looks.
        self.show_person_when_settled(&person);
    }

    /// Servers came that are connected once per session or person. Whoever follows already is told what they see of them over links of their
    /// own, without having asked.
    pub(crate) fn own_servers_came(self: &Arc<Self>) {
        for session in self.sessions.all() {
            self.join_session(&session);
        }
        for person in self.people.all() {
            self.attend_listens(&person);
            self.show_person_when_settled(&person);
        }
        // Each joins its person by itself.
        self.notifier.wake_listens();
    }

    fn join_session(self: &Arc<Self>, session: &Arc<Session>) {
        let follower = FollowerId::from(session.key);
        // One that does not follow yet begins with what it sees then.
        if !self.notifier.is_followed_by(follower) {
            return;
        }
        self.notifier.begin_own(follower);
        if self.pool.has_personal() {
            let person = self.people.of(&session.principal.name);
            person.follow(follower, PersonFollower::Session(Arc::downgrade(session)));
        }
        session.view().show();
        self.attend_own(session);
    }

    /// What several looks find at once is one notice: it is told when the last of them is over, or after the longest wait for a list.
    pub(super) fn show_person_when_settled(self: &Arc<Self>, person: &Arc<PersonView>) {
        if person.own.lock().is_settled() {
            return self.show_person_again(person);
        }
        let (discovery, person) = (Arc::clone(self), Arc::clone(person));
        self.runtime.spawn(async move {
            let late = tokio::time::sleep(discovery.runtime.settings.list_pace.max_wait);
            if discovery.runtime.stop.run_until_cancelled(late).await.is_some() {
                // Tells nothing that was told meanwhile.
                discovery.show_person_again(&person);
            }
        });
    }

    /// What a person sees is another: their clients are owed what differs.
    pub(super) fn show_person_again(&self, person: &Arc<PersonView>) {
        self.show_listens_again(person);
        for (_, follower) in person.followers() {
            if let PersonFollower::Session(session) = follower
                && let Some(session) = session.upgrade()
            {
                self.show_session_again(&session);
            }
        }
    }

    fn show_listens_again(&self, person: &PersonView) {
        // Held until the ledger is told: of two that come here at once the older state must not be told last.
        let _telling = person.telling();
        let whole = self.people.whole(person, &self.catalogue.current().snapshot);
        for (follower, what) in person.followers() {
            if let PersonFollower::Listen(view_key) = what {
                self.notifier.show_own_listen(follower, view_key.digests(&whole), Instant::now());
            }
        }
    }
}
