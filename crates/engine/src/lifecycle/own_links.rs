//! Making and closing the links that one session, one person, or the modern clients of one principal, have for themselves.
//!
//! The hub decides (`tidings_hub::own_links`); here links are connected in tasks of their own, so that whoever gives up
//! waiting ends nothing, and nobody waits who does not need that very link.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tidings_hub::own_links::{LinkOwner, OwnLinkAttempt};
use tidings_hub::{LinkKey, ServerId};
use tidings_proto::{Era, notifications};
use tidings_upstream::LinkError;
use tidings_wire::notification;

use super::ServerLifecycle;
use crate::client::person_view::ViewOwner;
use crate::client::session::Session;
use crate::links::live_link::LiveLink;
use crate::observe::status::ServerState;
use crate::plan::Isolation;
use crate::servers::link_maker::LinkMaker;
use crate::servers::own_link_table::{LinkNeed, OwnLinkUser};
use crate::servers::server::Server;
use crate::servers::server_links::CompanionAttempt;

/// How often links are looked at for idleness at most.
const SHORTEST_WAIT: Duration = Duration::from_millis(20);

impl LinkMaker for ServerLifecycle {
    fn make_own_link(self: Arc<Self>, user: OwnLinkUser, server: Arc<Server>, attempt: OwnLinkAttempt) {
        let lifecycle = Arc::clone(&self);
        // A task of its own: whoever waits for the link may go away, and others may wait for the same one.
        self.runtime.spawn(async move { lifecycle.connect_own(&user, &server, attempt).await });
    }

    fn make_room(self: Arc<Self>, server: ServerId) -> bool {
        let (owner, live) = {
            let mut state = self.pool.own_links.lock();
            // Under the lock of the own links, as when idle ones are closed.
            let Some((owner, key)) = state.machine.make_room(server, |key| self.is_link_busy(key)) else {
                return false;
            };
            (owner, state.live.remove(&key))
        };
        self.own_link_sleeps(&owner, server);
        if let Some(live) = live {
            tracing::debug!(server = server.0, "a connection of one person gives way to another's");
            self.retire(live);
        }
        true
    }

    fn make_companion(self: Arc<Self>, server: Arc<Server>, attempt: CompanionAttempt) {
        let lifecycle = Arc::clone(&self);
        self.runtime.spawn(async move { lifecycle.try_companion(&server, attempt).await });
    }
}

impl ServerLifecycle {
    async fn connect_own(self: &Arc<Self>, user: &OwnLinkUser, server: &Arc<Server>, attempt: OwnLinkAttempt) {
        let owner = user.owner();
        // The era of the shared link: probing it again for every session would cost a round trip each.
        let known = self.catalogue.current().server(server.id).and_then(|status| status.era());
        let connecting = self.connect(server, known, user.link_user(), None);
        let connected = tokio::select! {
            connected = connecting => connected,
            () = user.gone() => Err(LinkError::Stopped),
            // It was removed or replaced: nobody waits for a process with the old configuration.
            () = server.presence.gone.cancelled() => Err(LinkError::Stopped),
            () = self.runtime.stop.cancelled() => Err(LinkError::Stopped),
        };
        match connected {
            Ok((live, _end)) => self.own_link_made(user, attempt, server, live),
            Err(error) if error.needs_login() => {
                let words = error.for_clients();
                let is_wanted = self.pool.own_links.lock().machine.needs_login(&owner, server.id, attempt, &words);
                if is_wanted {
                    // Before those who wait are woken: the tool to log in is there when they list.
                    self.logins_moved(&owner);
                    self.show_people(server);
                    tracing::info!(server = %server.plan.name, "somebody has to log in");
                }
            }
            Err(error) => {
                let now = Instant::now();
                let retry =
                    self.pool.own_links.lock().machine.failed(&owner, server.id, attempt, &error.for_clients(), now);
                // Nobody wants it any more, so nobody needs to read of it.
                if retry.is_some() && !server.presence.gone.is_cancelled() {
                    tracing::warn!(server = %server.plan.name, %error, "no connection for a single session or person");
                }
            }
        }
        // In every case: those who wait look at the table again and find what became of it.
        self.pool.own_links.changed.send_replace(());
    }

    fn own_link_made(
        self: &Arc<Self>,
        user: &OwnLinkUser,
        attempt: OwnLinkAttempt,
        server: &Arc<Server>,
        live: LiveLink,
    ) {
        let roots_changed = {
            let mut state = self.pool.own_links.lock();
            let wanted = state.machine.connected(&user.owner(), server.id, attempt, live.key, Instant::now());
            if wanted.is_some() {
                state.live.insert(live.key, live.clone());
            }
            wanted
        };
        // The owner left while it was connected, or the server began anew.
        let Some(roots_changed) = roots_changed else { return self.retire(live) };
        if roots_changed && live.hello.revision.era() == Era::Legacy {
            live.link.send(notification(notifications::ROOTS_CHANGED, None));
        }
        let key = live.key;
        if let Some(owner) = self.view_owner(&user.owner()) {
            self.discovery.own_link_is_up(&owner, server.id);
        }
        if let OwnLinkUser::Person(name) = user {
            let person = self.discovery.people.of(name);
            self.runtime.spawn(Arc::clone(self).hear_for_person(person, Arc::clone(server), live));
        }
        if !self.links.table.has(key) {
            // It closed before it was in the table, so nothing took it out again.
            self.pool.own_links.closed(key);
        }
        self.pool.own_links.idle.notify_one();
    }

    /// A session is over: its links are closed.
    pub(crate) fn close_own_links(self: &Arc<Self>, session: &Session) {
        let owner = LinkOwner::Session(session.key);
        let links: Vec<LiveLink> = {
            let mut state = self.pool.own_links.lock();
            let keys = state.machine.owner_gone(&owner);
            keys.iter().filter_map(|key| state.live.remove(key)).collect()
        };
        links.into_iter().for_each(|live| self.retire(live));
        // Whoever still waits for one of them looks again.
        self.pool.own_links.changed.send_replace(());
    }

    /// Closes links that nobody uses, for as long as the gateway runs.
    pub(crate) async fn close_idle_links(self: Arc<Self>) {
        loop {
            let next = self.pool.own_links.lock().machine.next_idle();
            let due = async {
                match next {
                    Some(at) => {
                        // A link that is busy is asked again at once otherwise, in a loop without a pause.
                        let earliest = Instant::now() + SHORTEST_WAIT;
                        tokio::time::sleep_until(at.max(earliest).into()).await;
                    }
                    None => self.pool.own_links.idle.notified().await,
                }
            };
            tokio::select! {
                () = due => self.close_idle_now(),
                () = self.runtime.stop.cancelled() => return,
            }
        }
    }

    fn close_idle_now(self: &Arc<Self>) {
        let idle: Vec<(LinkOwner, ServerId, LiveLink)> = {
            let mut state = self.pool.own_links.lock();
            // Under the lock of the own links, as the order of locks allows: a call that begins now would find the
            // link, and must keep it.
            let idle = state.machine.idle(Instant::now(), |key| self.is_link_busy(key));
            idle.into_iter()
                .filter_map(|(owner, server, key)| Some((owner, server, state.live.remove(&key)?)))
                .collect()
        };
        for (owner, server, live) in idle {
            self.own_link_sleeps(&owner, server);
            tracing::debug!(server = server.0, "a connection of a single session or person was idle, and is closed");
            self.retire(live);
        }
    }

    /// Before a link is closed that nobody uses: its end must not be taken for a failure that is looked at again.
    fn own_link_sleeps(&self, owner: &LinkOwner, server: ServerId) {
        if let Some(owner) = self.view_owner(owner) {
            owner.own().lock().slept(server);
        }
    }

    /// Whose view is made of what a link gives.
    fn view_owner(&self, owner: &LinkOwner) -> Option<ViewOwner> {
        match owner {
            LinkOwner::Session(key) => self.sessions.get(*key).map(ViewOwner::Session),
            LinkOwner::Person(name) => self.discovery.people.known(name).map(ViewOwner::Person),
            // They see what everybody does.
            LinkOwner::Principal { .. } => None,
        }
    }

    /// Somebody has logged in to a server, or out of it: the link is made anew, and what they see is looked at again.
    pub(crate) fn person_login_changed(self: &Arc<Self>, server: &Server, name: &Arc<str>) {
        let owner = LinkOwner::Person(Arc::clone(name));
        let live = {
            let mut state = self.pool.own_links.lock();
            let key = state.machine.login_changed(&owner, server.id);
            key.and_then(|key| state.live.remove(&key))
        };
        if let Some(live) = live {
            self.retire(live);
        }
        if let Some(owner) = self.view_owner(&owner) {
            self.discovery.own_view_is_old_at(&owner, server.id, Instant::now());
        }
        self.logins_moved(&owner);
        // Whoever waits for the login looks again.
        self.pool.own_links.changed.send_replace(());
        self.show_people(server);
    }

    /// Whether a server to which each person logs in is ready depends on whether anybody has.
    fn show_people(&self, server: &Server) {
        if server.is_elsewhere() && server.live().is_some() {
            return self.show_login_elsewhere(server);
        }
        let Some(people) = server.plan.source.people().filter(|_| server.live().is_none()) else { return };
        let state = self.catalogue.current().server(server.id).map(|status| status.state);
        match (state, people.logged_in) {
            (Some(ServerState::NeedsLogin), 1..) => server.set_state(&self.catalogue, ServerState::Ready, None),
            (Some(ServerState::Ready), 0) => {
                let error = LinkError::NeedsLogin(format!(" of each person: tidings login {}", server.plan.name));
                server.set_state(&self.catalogue, ServerState::NeedsLogin, Some(&error));
            }
            _ => {}
        }
    }

    /// Connects a server for a person who has logged in to it; says why it can not be.
    pub(crate) async fn connect_person(self: &Arc<Self>, name: &str, person: &str) -> Result<(), String> {
        let Some(server) = self.pool.servers().named(name, false).cloned() else { return Ok(()) };
        let person: Arc<str> = person.into();
        self.person_login_changed(&server, &person);
        let link = self.pool.own_link(&OwnLinkUser::Person(person), &server, LinkNeed::Use).await;
        link.map(drop).map_err(|none| none.reason)
    }

    /// A person has logged out of a server, or has to log in again.
    pub(crate) fn disconnect_person(self: &Arc<Self>, name: &str, person: &str) {
        if let Some(server) = self.pool.servers().named(name, false).cloned() {
            self.person_login_changed(&server, &person.into());
        }
    }

    /// Which logins of somebody are missing may be another: the gateway's own servers for people say so.
    fn logins_moved(self: &Arc<Self>, owner: &LinkOwner) {
        let Some(owner) = self.view_owner(owner) else { return };
        let servers = self.pool.servers();
        let own = servers.iter().filter(|server| server.plan.is_built_in());
        for server in own.filter(|server| server.plan.isolation == Isolation::Principal) {
            self.discovery.own_view_is_old_at(&owner, server.id, Instant::now());
        }
    }

    /// Whether something is still expected of a link.
    fn is_link_busy(&self, key: LinkKey) -> bool {
        self.links.in_flight.lock().calls.on(key).next().is_some() || self.subscriptions.is_followed_over(key)
    }
}
