//! Who is connected, for people to see.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use tidings_hub::ledger::FollowerId;
use tidings_proto::Revision;

use crate::client::session::Session;
use crate::gateway::{Gateway, Inner};

/// A client that stays: a legacy session, or one modern `subscriptions/listen`. A modern client that only asks leaves
/// nothing behind that could be shown.
#[derive(Clone, Debug)]
pub struct Connected {
    /// Unique while the gateway runs.
    pub id: u64,
    /// The revision it speaks.
    pub revision: Revision,
    /// What it calls itself.
    pub name: Option<String>,
    /// Who it is.
    pub principal: String,
    /// Since when.
    pub since: SystemTime,
    /// How many of its requests are being worked on.
    pub requests: usize,
}

/// The open listens.
#[derive(Default)]
pub(crate) struct Listens(Mutex<HashMap<FollowerId, Listen>>);

struct Listen {
    name: Option<String>,
    principal: String,
    since: SystemTime,
}

/// An entry among the open listens, until it is dropped.
pub(crate) struct Listed {
    gateway: Arc<Inner>,
    follower: FollowerId,
}

impl Listens {
    fn lock(&self) -> MutexGuard<'_, HashMap<FollowerId, Listen>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        self.gateway.listens.lock().remove(&self.follower);
    }
}

impl Inner {
    /// Shows a listen for as long as the guard is kept.
    pub(crate) fn show_listen(self: &Arc<Self>, follower: FollowerId, name: Option<&str>, principal: &str) -> Listed {
        let listen =
            Listen { name: name.map(str::to_owned), principal: principal.to_owned(), since: SystemTime::now() };
        self.listens.lock().insert(follower, listen);
        Listed { gateway: Arc::clone(self), follower }
    }
}

impl Gateway {
    /// Every session and every open `subscriptions/listen`, the oldest first.
    pub fn connected(&self) -> Vec<Connected> {
        let sessions: Vec<Arc<Session>> = self.0.sessions().values().cloned().collect();
        let core = self.0.in_flight.lock();
        let mut all: Vec<Connected> = sessions
            .iter()
            .map(|session| Connected {
                id: session.key.0,
                revision: session.revision,
                name: session.name(),
                principal: session.principal.name.to_string(),
                since: session.since,
                requests: core.calls.count_of(session.key),
            })
            .collect();
        drop(core);
        all.extend(self.0.listens.lock().iter().map(|(follower, listen)| Connected {
            id: follower.0,
            revision: Revision::MODERN,
            name: listen.name.clone(),
            principal: listen.principal.clone(),
            since: listen.since,
            requests: 0,
        }));
        all.sort_by_key(|connected| connected.id);
        all
    }
}
