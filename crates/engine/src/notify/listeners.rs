//! Who is connected, for people to see.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, MutexGuard};
use std::time::SystemTime;

use tidings_hub::ClientKey;
use tidings_hub::ledger::FollowerId;
use tidings_hub::scope::AccessScope;
use tidings_proto::Revision;
use tidings_sync::Lock;

use crate::client::session::Caller;
use crate::notify::ListNotifier;

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
    /// The name of the principal behind it.
    pub principal: String,
    /// When its session or listen began.
    pub since: SystemTime,
    /// How many of its requests are being worked on.
    pub requests: usize,
}

/// The open `subscriptions/listen` requests, only for people to see; nothing is decided by it.
#[derive(Default)]
pub(crate) struct OpenListens(Lock<HashMap<FollowerId, Listen>>);

struct Listen {
    revision: Revision,
    name: Option<String>,
    principal: String,
    scope: AccessScope,
    since: SystemTime,
}

/// An entry among the open listens, until it is dropped.
pub(crate) struct Listed {
    listens: Arc<OpenListens>,
    follower: FollowerId,
}

impl OpenListens {
    pub(super) fn len(&self) -> usize {
        self.lock().len()
    }

    /// The listen of a client with this name and principal, if there is exactly one.
    pub(super) fn only(&self, name: Option<&str>, principal: &str) -> Option<FollowerId> {
        let listens = self.lock();
        let mut fitting = listens
            .iter()
            .filter(|(_, listen)| listen.name.as_deref() == name && listen.principal == principal)
            .map(|(follower, _)| *follower);
        fitting.next().filter(|_| fitting.next().is_none())
    }

    /// Listens of which it can not be known which lists their client asks for: they share name and principal with another, or there
    /// are more than `most`.
    pub(super) fn ambiguous(&self, most: usize) -> HashSet<FollowerId> {
        let listens = self.lock();
        let mut owners: HashMap<(Option<&str>, &str), usize> = HashMap::new();
        for listen in listens.values() {
            *owners.entry((listen.name.as_deref(), &listen.principal)).or_default() += 1;
        }
        let is_shared =
            |listen: &Listen| owners.get(&(listen.name.as_deref(), &*listen.principal)).is_some_and(|count| *count > 1);
        let all = listens.iter().filter(|(_, listen)| listens.len() > most || is_shared(listen));
        all.map(|(follower, _)| *follower).collect()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<FollowerId, Listen>> {
        self.0.lock()
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        self.listens.lock().remove(&self.follower);
    }
}

impl ListNotifier {
    /// Shows a listen for as long as the guard is kept.
    pub(crate) fn show_listen(&self, follower: FollowerId, name: Option<&str>, caller: &Caller) -> Listed {
        let listen = Listen {
            revision: caller.revision(),
            name: name.map(str::to_owned),
            principal: caller.principal().name.to_string(),
            scope: caller.principal().scope.clone(),
            since: SystemTime::now(),
        };
        self.listens.lock().insert(follower, listen);
        Listed { listens: Arc::clone(&self.listens), follower }
    }

    /// What the client of an open listen may see.
    pub(crate) fn scope_of_listen(&self, follower: FollowerId) -> Option<AccessScope> {
        self.listens.lock().get(&follower).map(|listen| listen.scope.clone())
    }

    /// Every session and every open `subscriptions/listen`, the oldest first. `requests`: how many a session has in flight.
    pub(crate) fn connected(&self, requests: impl Fn(ClientKey) -> usize) -> Vec<Connected> {
        let sessions = self.sessions.all();
        let mut all: Vec<Connected> = sessions
            .iter()
            .map(|session| Connected {
                id: session.key.0,
                revision: session.revision,
                name: session.name(),
                principal: session.principal.name.to_string(),
                since: session.since,
                requests: requests(session.key),
            })
            .collect();
        all.extend(self.listens.lock().iter().map(|(follower, listen)| Connected {
            id: follower.0,
            revision: listen.revision,
            name: listen.name.clone(),
            principal: listen.principal.clone(),
            since: listen.since,
            requests: 0,
        }));
        // Ids rise with time, so this is the order in which they came.
        all.sort_by_key(|connected| connected.id);
        all
    }
}
