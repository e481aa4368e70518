//! Links that one session, or the modern clients of one principal, have for themselves (`isolation = "session"`).
//!
//! The hub decides (`tidings_hub::own_links`); here links are connected in tasks of their own, so that whoever gives up
//! waiting ends nothing, and nobody waits who does not need that very link.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tidings_hub::own_links::{LinkClaim, LinkOwner, OwnLinkLimits, OwnLinks};
use tidings_hub::{LinkKey, ServerId};
use tidings_proto::Revision;
use tidings_proto::refusal::RequestRefusal;
use tidings_upstream::LinkError;
use tidings_wire::notification;
use tokio::sync::watch;

use crate::client::session::{Caller, Session};
use crate::gateway::Inner;
use crate::lifecycle::link_sink::LinkUser;
use crate::servers::server::{LiveLink, Server};

const ROOTS_CHANGED: &str = "notifications/roots/list_changed";

/// How often links are looked at for idleness at most.
const SHORTEST_WAIT: Duration = Duration::from_millis(20);

pub(crate) struct OwnLinkTable {
    state: Mutex<OwnLinkState>,
    /// Changes whenever an attempt to connect is over, or a link was given up.
    changed: watch::Sender<()>,
}

struct OwnLinkState {
    machine: OwnLinks,
    live: HashMap<LinkKey, LiveLink>,
}

/// Why there is no link of one's own now.
pub(crate) struct NoOwnLink {
    pub(crate) reason: String,
    /// When it is worth trying again.
    pub(crate) retry_at: Instant,
}

/// Whose link it is, with what is needed to make it.
#[derive(Clone)]
pub(crate) enum OwnLinkUser {
    Session(Arc<Session>),
    Principal(Arc<str>),
}

impl OwnLinkUser {
    pub(crate) fn of(caller: &Caller) -> Self {
        match caller {
            Caller::Legacy(session) => Self::Session(Arc::clone(session)),
            Caller::Modern(caller) => Self::Principal(Arc::clone(&caller.principal.name)),
        }
    }

    fn owner(&self) -> LinkOwner {
        match self {
            Self::Session(session) => LinkOwner::Session(session.key),
            Self::Principal(name) => LinkOwner::Principal(Arc::clone(name)),
        }
    }

    fn link_user(&self) -> LinkUser {
        match self {
            Self::Session(session) => LinkUser::Session(Arc::downgrade(session)),
            Self::Principal(_) => LinkUser::Principal,
        }
    }
}

impl OwnLinkTable {
    pub(crate) fn new(limits: OwnLinkLimits) -> Self {
        let state = OwnLinkState { machine: OwnLinks::new(limits), live: HashMap::new() };
        Self { state: Mutex::new(state), changed: watch::Sender::new(()) }
    }

    fn lock(&self) -> MutexGuard<'_, OwnLinkState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A link ended by itself. Tells whether it was in use here.
    pub(crate) fn closed(&self, key: LinkKey) -> bool {
        let closed = {
            let mut state = self.lock();
            state.live.remove(&key);
            state.machine.closed(key, Instant::now()).is_some()
        };
        if closed {
            self.changed.send_replace(());
        }
        closed
    }

    /// A server is gone, or another has taken its place.
    pub(crate) fn server_gone(&self, server: ServerId) {
        self.lock().machine.server_gone(server);
    }
}

impl Inner {
    /// The link that somebody has for itself, opened when it is first needed.
    pub(crate) async fn own_link(
        self: &Arc<Self>,
        user: &OwnLinkUser,
        server: &Arc<Server>,
    ) -> Result<LiveLink, NoOwnLink> {
        let owner = user.owner();
        let mut changes = self.own_links.changed.subscribe();
        loop {
            changes.mark_unchanged();
            let now = Instant::now();
            let (claim, live) = {
                let mut state = self.own_links.lock();
                let claim = state.machine.claim(&owner, server.id, now);
                let live = match claim {
                    LinkClaim::Up(key) => state.live.get(&key).cloned(),
                    _ => None,
                };
                (claim, live)
            };
            if let Some(live) = live {
                return Ok(live);
            }
            let limit = |key: &str, limit: usize| NoOwnLink {
                reason: format!("has no connection left for this session: the limit {key} = {limit} is reached"),
                retry_at: now + Duration::from_secs(1),
            };
            match claim {
                LinkClaim::Connect => {
                    let (gateway, user, server) = (Arc::clone(self), user.clone(), Arc::clone(server));
                    self.spawn(async move { gateway.connect_own(&user, &server).await });
                }
                LinkClaim::Wait | LinkClaim::Up(_) => {}
                LinkClaim::Resting { until, error } => {
                    let seconds = until.saturating_duration_since(now).as_secs_f64();
                    let reason = format!("{error} (tried again in {seconds:.1} s)");
                    return Err(NoOwnLink { reason, retry_at: until });
                }
                LinkClaim::TooManyOfOwner(most) => return Err(limit("session_links_per_client", most)),
                LinkClaim::TooMany(most) => return Err(limit("session_links", most)),
            }
            // Every attempt to connect has a deadline, so this ends.
            let _ = changes.changed().await;
        }
    }

    /// The same, as a client is told.
    pub(crate) async fn own_link_of(
        self: &Arc<Self>,
        user: &OwnLinkUser,
        server: &Arc<Server>,
    ) -> Result<LiveLink, RequestRefusal> {
        let link = self.own_link(user, server).await;
        link.map_err(|none| RequestRefusal::ServerDown { server: server.plan.name.clone(), reason: none.reason })
    }

    async fn connect_own(self: &Arc<Self>, user: &OwnLinkUser, server: &Arc<Server>) {
        let owner = user.owner();
        let known = self.current().server(server.id).and_then(|status| status.era());
        let connecting = server.connect(self, known, user.link_user(), None);
        let connected = tokio::select! {
            connected = connecting => connected,
            () = user.gone() => Err(LinkError::Stopped),
            () = self.stop.cancelled() => Err(LinkError::Stopped),
        };
        match connected {
            Ok((live, _end)) => self.own_link_made(user, &owner, server, live),
            Err(error) => {
                let retry = self.own_links.lock().machine.failed(&owner, server.id, &error.to_string(), Instant::now());
                if retry.is_some() {
                    tracing::warn!(server = %server.plan.name, %error, "no connection for a single session");
                }
            }
        }
        self.own_links.changed.send_replace(());
    }

    fn own_link_made(self: &Arc<Self>, user: &OwnLinkUser, owner: &LinkOwner, server: &Arc<Server>, live: LiveLink) {
        let roots_changed = {
            let mut state = self.own_links.lock();
            let wanted = state.machine.connected(owner, server.id, live.key, Instant::now());
            if wanted.is_some() {
                state.live.insert(live.key, live.clone());
            }
            wanted
        };
        let Some(roots_changed) = roots_changed else { return self.retire(live) };
        if roots_changed && live.hello.revision < Revision::MODERN {
            live.link.send(notification(ROOTS_CHANGED, None));
        }
        let key = live.key;
        if let OwnLinkUser::Session(session) = user {
            self.own_link_is_up(session, server.id);
        }
        if !self.has_link(key) {
            // It closed before it was in the table, so nothing took it out again.
            self.own_links.closed(key);
        }
        self.own_links_idle.notify_one();
    }

    /// A session's roots changed: its servers are told, also those whose link is still being made.
    pub(crate) fn roots_changed(&self, session: &Session, message: &Bytes) {
        let links: Vec<LiveLink> = {
            let mut state = self.own_links.lock();
            let keys = state.machine.roots_changed(&LinkOwner::Session(session.key));
            keys.iter().filter_map(|key| state.live.get(key).cloned()).collect()
        };
        for live in links.iter().filter(|live| live.hello.revision < Revision::MODERN) {
            live.link.send(message.clone());
        }
    }

    /// A session is over: its links are closed.
    pub(crate) fn close_own_links(self: &Arc<Self>, session: &Session) {
        let owner = LinkOwner::Session(session.key);
        let links: Vec<LiveLink> = {
            let mut state = self.own_links.lock();
            let keys = state.machine.owner_gone(&owner);
            keys.iter().filter_map(|key| state.live.remove(key)).collect()
        };
        links.into_iter().for_each(|live| self.retire(live));
        self.own_links.changed.send_replace(());
    }

    /// Closes links that nobody uses, for as long as the gateway runs.
    pub(crate) async fn close_idle_links(self: Arc<Self>) {
        loop {
            let next = self.own_links.lock().machine.next_idle();
            let due = async {
                match next {
                    Some(at) => {
                        let earliest = Instant::now() + SHORTEST_WAIT;
                        tokio::time::sleep_until(at.max(earliest).into()).await;
                    }
                    None => self.own_links_idle.notified().await,
                }
            };
            tokio::select! {
                () = due => self.close_idle_now(),
                () = self.stop.cancelled() => return,
            }
        }
    }

    fn close_idle_now(self: &Arc<Self>) {
        let idle: Vec<(LinkOwner, ServerId, LiveLink)> = {
            let mut state = self.own_links.lock();
            let idle = state.machine.idle(Instant::now(), |key| self.is_link_busy(key));
            idle.into_iter()
                .filter_map(|(owner, server, key)| Some((owner, server, state.live.remove(&key)?)))
                .collect()
        };
        for (owner, server, live) in idle {
            if let LinkOwner::Session(key) = owner
                && let Some(session) = self.sessions().get(&key).cloned()
            {
                session.view().slept(server);
            }
            tracing::debug!(server = server.0, "a connection of a single session was idle, and is closed");
            self.retire(live);
        }
    }

    /// Whether something is still expected of a link.
    fn is_link_busy(&self, key: LinkKey) -> bool {
        self.in_flight.lock().calls.on(key).next().is_some() || self.is_followed_over(key)
    }
}

impl OwnLinkUser {
    async fn gone(&self) {
        match self {
            Self::Session(session) => session.over.cancelled().await,
            Self::Principal(_) => std::future::pending().await,
        }
    }
}
