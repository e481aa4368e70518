//! Links that one session, or the modern clients of one principal that declare the same, have for themselves (`isolation = "session"`),
//! and those of one person with all their clients (`isolation = "principal"`).
//!
//! The hub decides (`tidings_hub::own_links`); `lifecycle/own_links.rs` makes and closes them.

use std::collections::HashMap;
use std::sync::{Arc, MutexGuard};
use std::time::Instant;

use bytes::Bytes;
use serde_json::Value;
use tidings_hub::own_links::{LinkClaim, LinkOwner, OwnLinkLimits, OwnLinks};
use tidings_hub::{ClientKey, LinkKey, ServerId};
use tidings_proto::{Era, Revision, capabilities};
use tidings_sync::Lock;
use tidings_wire::Frame;
use tokio::sync::{Notify, watch};

use crate::client::person_view::ViewOwner;
use crate::client::session::{Caller, Session};
use crate::links::live_link::{LinkUser, LiveLink};
use crate::plan::Isolation;

pub(crate) struct OwnLinkTable {
    state: Lock<OwnLinkState>,
    /// Changes whenever an attempt to connect is over, or a link was given up.
    pub(crate) changed: watch::Sender<()>,
    /// Rings when a link is there that may become idle.
    pub(crate) idle: Notify,
}

pub(crate) struct OwnLinkState {
    pub(crate) machine: OwnLinks,
    pub(crate) live: HashMap<LinkKey, LiveLink>,
}

/// Why there is no link of one's own now.
pub(crate) struct NoOwnLink {
    pub(crate) reason: String,
    /// When it is worth trying again; `None` where somebody has to log in first.
    pub(crate) retry_at: Option<Instant>,
}

/// What a link is needed for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LinkNeed {
    /// Something of a client goes over it.
    Use,
    /// The gateway looks at the lists by itself, which keeps no link from being idle.
    Look,
}

/// Whose link it is, with what is needed to make it.
#[derive(Clone)]
pub(crate) enum OwnLinkUser {
    Session(Arc<Session>),
    Person(Arc<str>),
    Principal {
        name: Arc<str>,
        /// What its clients declare, in the words of a legacy client.
        declared: Arc<Value>,
    },
}

impl From<&ViewOwner> for OwnLinkUser {
    fn from(owner: &ViewOwner) -> Self {
        match owner {
            ViewOwner::Session(session) => Self::Session(Arc::clone(session)),
            ViewOwner::Person(person) => Self::Person(Arc::clone(&person.name)),
        }
    }
}

impl OwnLinkUser {
    pub(crate) fn of(caller: &Caller, request: &Frame, isolation: Isolation) -> Self {
        match caller {
            _ if isolation == Isolation::Principal => Self::Person(Arc::clone(&caller.principal().name)),
            Caller::Legacy(session) => Self::Session(Arc::clone(session)),
            Caller::Modern(modern) => {
                // Without what is meant for one server alone: the rest has few variants, so that the same link serves most requests.
                let declared = capabilities::among_several(caller.capabilities(request), Era::Modern);
                let declared = capabilities::of_client(&declared, Era::Modern, Revision::LATEST_LEGACY);
                Self::Principal { name: Arc::clone(&modern.principal.name), declared: Arc::new(declared) }
            }
        }
    }

    pub(crate) fn owner(&self) -> LinkOwner {
        match self {
            Self::Session(session) => LinkOwner::Session(session.key),
            Self::Person(name) => LinkOwner::Person(Arc::clone(name)),
            Self::Principal { name, declared } => {
                LinkOwner::Principal { name: Arc::clone(name), declares: declared.to_string().into() }
            }
        }
    }

    pub(crate) fn link_user(&self) -> LinkUser {
        match self {
            Self::Session(session) => LinkUser::Session(Arc::downgrade(session)),
            Self::Person(name) => LinkUser::Person(Arc::clone(name)),
            Self::Principal { declared, .. } => LinkUser::Principal(Arc::clone(declared)),
        }
    }
}

impl OwnLinkTable {
    pub(crate) fn new(limits: OwnLinkLimits) -> Self {
        let state = OwnLinkState { machine: OwnLinks::new(limits), live: HashMap::new() };
        Self { state: Lock::new(state), changed: watch::Sender::new(()), idle: Notify::new() }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, OwnLinkState> {
        self.state.lock()
    }

    /// The link that an owner has to a server, if it is up; else what is to be done about it.
    pub(crate) fn claim(
        &self,
        owner: &LinkOwner,
        server: ServerId,
        need: LinkNeed,
        now: Instant,
    ) -> (LinkClaim, Option<LiveLink>) {
        let mut state = self.lock();
        let claim = match need {
            LinkNeed::Use => state.machine.claim(owner, server, now),
            LinkNeed::Look => state.machine.claim_to_look(owner, server, now),
        };
        let live = match claim {
            LinkClaim::Up(key) => state.live.get(&key).cloned(),
            _ => None,
        };
        (claim, live)
    }

    /// A session's roots changed: its servers are told, also those whose link is still being made.
    pub(crate) fn roots_changed(&self, session: ClientKey, message: &Bytes) {
        let links: Vec<LiveLink> = {
            let mut state = self.lock();
            let keys = state.machine.roots_changed(&LinkOwner::Session(session));
            keys.iter().filter_map(|key| state.live.get(key).cloned()).collect()
        };
        // A modern server asks for roots within a request, and is told of no change.
        for live in links.iter().filter(|live| live.hello.revision.era() == Era::Legacy) {
            live.link.send(message.clone());
        }
    }

    /// Whether somebody has to log in to a server, as far as anybody has found out.
    pub(crate) fn needs_login(&self, owner: &LinkOwner, server: ServerId) -> bool {
        self.lock().machine.missing_logins(owner).contains(&server)
    }

    /// A link ended by itself. Tells whether it was in use here.
    pub(crate) fn closed(&self, key: LinkKey) -> bool {
        let closed = {
            let mut state = self.lock();
            // Both under one lock, or a claim could find the key in the machine and no link for it.
            state.live.remove(&key);
            state.machine.closed(key, Instant::now()).is_some()
        };
        if closed {
            self.changed.send_replace(());
        }
        closed
    }

    /// A server is gone, or another has taken its place, or it begins anew. Whoever waits for a link to it asks again.
    pub(crate) fn server_gone(&self, server: ServerId) {
        self.lock().machine.server_gone(server);
        self.changed.send_replace(());
    }
}

impl OwnLinkUser {
    /// Waits until nobody can use the link any more.
    pub(crate) async fn gone(&self) {
        match self {
            Self::Session(session) => session.over.cancelled().await,
            // A principal never ends: links of principals are closed when they are idle.
            Self::Person(_) | Self::Principal { .. } => std::future::pending().await,
        }
    }
}
