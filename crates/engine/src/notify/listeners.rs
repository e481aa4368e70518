//! Who is connected, for people to see.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, MutexGuard};
use std::time::SystemTime;

use tidings_hub::ClientKey;
use tidings_hub::client_profile::ViewShape;
use tidings_hub::deliveries::HearingTally;
use tidings_hub::ledger::{FollowerId, Topic};
use tidings_hub::scope::AccessScope;
use tidings_proto::{Era, Revision, meta};
use tidings_sync::Lock;
use tidings_wire::Frame;

use crate::client::session::{Caller, Session};
use crate::notify::ListNotifier;
use crate::notify::hearing::{WatchedListen, WatchedListens};

/// Among more open listens than this it is not looked whose a list or a call is.
pub(super) const MOST_LISTENS: usize = 256;

/// A client that calls itself something longer is known by the beginning of it: what is kept of clients is bounded in bytes.
const NAME_BYTES: usize = 256;

/// What the client of a modern request calls itself.
pub(crate) fn spoken_name(frame: &Frame) -> Option<Cow<'_, str>> {
    let name = frame.param_str(&["_meta", meta::CLIENT_INFO, "name"])?;
    match name.len() > NAME_BYTES {
        false => Some(name),
        true => Some(Cow::Owned(name[..name.floor_char_boundary(NAME_BYTES)].to_owned())),
    }
}

/// What is known of a client by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectedBy {
    /// A legacy session.
    Session,
    /// A modern `subscriptions/listen`.
    Listen,
    /// The lists that a modern client asked for lately, which does not listen.
    Requests,
}

impl ConnectedBy {
    /// The word in output.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Session => "session",
            Self::Listen => "listen",
            Self::Requests => "requests",
        }
    }
}

/// A client that stays: a legacy session, or one modern `subscriptions/listen`. Of a modern client that only asks there are the lists that
/// it asked for.
#[derive(Clone, Debug)]
pub struct Connected {
    /// What it is known by.
    pub by: ConnectedBy,
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
pub(crate) struct OpenListens {
    all: Lock<HashMap<FollowerId, Listen>>,
    /// Those of them whose clients' calls have to be noticed.
    pub(super) watched: WatchedListens,
}

struct Listen {
    hearing: Arc<HearingTally>,
    /// Whether results of its client's calls say that its list is old.
    is_hinted: bool,
    revision: Revision,
    name: Option<String>,
    principal: String,
    scope: AccessScope,
    shape: Option<Arc<ViewShape>>,
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
    pub(super) fn ambiguous(&self, most: usize) -> AmbiguousListens {
        let listens = self.lock();
        if listens.len() > most {
            return AmbiguousListens::All;
        }
        let mut owners: HashMap<(Option<&str>, &str), usize> = HashMap::new();
        for listen in listens.values() {
            *owners.entry((listen.name.as_deref(), &listen.principal)).or_default() += 1;
        }
        let is_shared =
            |listen: &Listen| owners.get(&(listen.name.as_deref(), &*listen.principal)).is_some_and(|count| *count > 1);
        let shared = listens.iter().filter(|(_, listen)| is_shared(listen));
        AmbiguousListens::Some(shared.map(|(follower, _)| *follower).collect())
    }

    /// Whether somebody with this name and principal listens.
    pub(super) fn has(&self, name: Option<&str>, principal: &str) -> bool {
        self.lock().values().any(|listen| listen.name.as_deref() == name && listen.principal == principal)
    }

    /// What is counted of the client of a listen.
    pub(super) fn hearing(&self, follower: FollowerId) -> Option<Arc<HearingTally>> {
        self.lock().get(&follower).map(|listen| Arc::clone(&listen.hearing))
    }

    /// The same, where results of its calls say that its list is old.
    pub(super) fn hinted(&self, follower: FollowerId) -> Option<Arc<HearingTally>> {
        self.lock().get(&follower).filter(|listen| listen.is_hinted).map(|listen| Arc::clone(&listen.hearing))
    }

    /// Finds those anew whose clients' calls have to be noticed. Not on the path of a call but for the last one that is counted.
    pub(super) fn watch(&self) {
        let listens = self.lock();
        let mut watched = Vec::new();
        if listens.len() <= MOST_LISTENS {
            let is_of = |one: &Listen, other: &Listen| (&one.name, &one.principal) == (&other.name, &other.principal);
            // Of two with one name nobody can say which one calls.
            let is_only = |one: &&Listen| listens.values().filter(|other| is_of(one, other)).nth(1).is_none();
            let due = listens.values().filter(|listen| listen.hearing.is_watched()).filter(is_only);
            watched.extend(due.map(|listen| WatchedListen {
                name: listen.name.clone(),
                principal: listen.principal.clone(),
                hearing: Arc::clone(&listen.hearing),
            }));
        }
        // Under the lock, so that the table is never older than what it is made of.
        self.watched.set(watched);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<FollowerId, Listen>> {
        self.all.lock()
    }
}

/// Listens of which it can not be known which lists their client asks for.
pub(super) enum AmbiguousListens {
    All,
    Some(HashSet<FollowerId>),
}

impl AmbiguousListens {
    pub(super) fn contains(&self, follower: FollowerId) -> bool {
        match self {
            Self::All => true,
            Self::Some(shared) => shared.contains(&follower),
        }
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        self.listens.lock().remove(&self.follower);
        self.listens.watch();
    }
}

impl ListNotifier {
    /// Shows a listen for as long as the guard is kept.
    pub(crate) fn show_listen(&self, follower: FollowerId, name: Option<&str>, caller: &Caller) -> Listed {
        let listen = Listen {
            hearing: Arc::default(),
            is_hinted: self.runtime.settings.announcements.hints_to(caller.profile().map(AsRef::as_ref)),
            revision: caller.revision(),
            name: name.map(str::to_owned),
            principal: caller.principal().name.to_string(),
            scope: caller.principal().scope.clone(),
            shape: caller.shape().cloned(),
            since: SystemTime::now(),
        };
        let asked = self.asked_before(name, &listen.principal);
        self.listens.lock().insert(follower, listen);
        {
            let mut announcements = self.announcements();
            for (topic, at) in Topic::ALL.into_iter().zip(asked) {
                // What it asked for before it listened is what it holds.
                at.into_iter().for_each(|at| announcements.deliveries.listed(follower, topic, at));
            }
        }
        // Another of the same name may be watched: from now on nobody can say which of the two calls.
        self.listens.watch();
        Listed { listens: Arc::clone(&self.listens), follower }
    }

    /// What the client of an open listen may see.
    pub(crate) fn scope_of_listen(&self, follower: FollowerId) -> Option<AccessScope> {
        self.listens.lock().get(&follower).map(|listen| listen.scope.clone())
    }

    /// What the profile of its client makes of that.
    pub(crate) fn shape_of_listen(&self, follower: FollowerId) -> Option<Arc<ViewShape>> {
        self.listens.lock().get(&follower)?.shape.clone()
    }

    /// Every session and every open `subscriptions/listen`, the oldest first. `requests`: how many a session has in flight.
    pub(crate) fn connected(&self, requests: impl Fn(ClientKey) -> usize) -> Vec<Connected> {
        let sessions = self.sessions.all();
        let mut all: Vec<Connected> = sessions.iter().map(|session| of_session(session, &requests)).collect();
        all.extend(self.listens.lock().iter().map(|(follower, listen)| of_listen(*follower, listen)));
        // Ids rise with time, so this is the order in which they came.
        all.sort_unstable_by_key(|connected| connected.id);
        all
    }

    /// The same of the oldest ones only: who thousands of others are is not copied.
    pub(crate) fn connected_first(&self, most: usize, requests: impl Fn(ClientKey) -> usize) -> Vec<Connected> {
        let mut ids = self.connected_ids();
        ids.sort_unstable_by_key(|(follower, _)| follower.0);
        ids.iter().take(most).filter_map(|(follower, _)| self.connected_as(*follower, &requests)).collect()
    }

    /// How many there are.
    pub(crate) fn connected_count(&self) -> usize {
        self.sessions.len() + self.listens.len()
    }

    /// The one with this name and principal, if there is exactly one.
    pub(crate) fn only_connected(&self, name: &str, principal: &str) -> Option<u64> {
        let sessions = self.sessions.all();
        let own = sessions.iter().filter(|session| *session.principal.name == *principal);
        let mut found: Vec<u64> =
            own.filter(|session| session.name().as_deref() == Some(name)).map(|session| session.key.0).collect();
        let listens = self.listens.lock();
        let own = listens.iter().filter(|(_, listen)| listen.principal == principal);
        found.extend(own.filter(|(_, listen)| listen.name.as_deref() == Some(name)).map(|(follower, _)| follower.0));
        found.pop().filter(|_| found.is_empty())
    }

    /// Every one of them by its number alone, in no order.
    pub(super) fn connected_ids(&self) -> Vec<(FollowerId, Era)> {
        let mut ids: Vec<(FollowerId, Era)> =
            self.sessions.keys().into_iter().map(|key| (FollowerId::from(key), Era::Legacy)).collect();
        ids.extend(self.listens.lock().keys().map(|follower| (*follower, Era::Modern)));
        ids
    }

    /// One of them; `None` if it left.
    pub(super) fn connected_as(&self, id: FollowerId, requests: &impl Fn(ClientKey) -> usize) -> Option<Connected> {
        match self.sessions.get(ClientKey(id.0)) {
            Some(session) => Some(of_session(&session, requests)),
            None => self.listens.lock().get(&id).map(|listen| of_listen(id, listen)),
        }
    }
}

fn of_session(session: &Session, requests: &impl Fn(ClientKey) -> usize) -> Connected {
    Connected {
        by: ConnectedBy::Session,
        id: session.key.0,
        revision: session.revision,
        name: session.name(),
        principal: session.principal.name.to_string(),
        since: session.since,
        requests: requests(session.key),
    }
}

fn of_listen(follower: FollowerId, listen: &Listen) -> Connected {
    Connected {
        by: ConnectedBy::Listen,
        id: follower.0,
        revision: listen.revision,
        name: listen.name.clone(),
        principal: listen.principal.clone(),
        since: listen.since,
        requests: 0,
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use tidings_wire::FrameLimits;

    use super::*;

    #[test]
    fn a_client_with_an_endless_name_is_known_by_its_beginning() {
        // Two bytes for each character, and one before them: the bound falls into the middle of one.
        let long = format!("x{}", "ä".repeat(500_000));
        for (said, kept) in [("claude-code", "claude-code".to_owned()), (&long, format!("x{}", "ä".repeat(127)))] {
            let message = format!(
                r#"{{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{{"_meta":{{"{}":{{"name":"{said}"}}}}}}}}"#,
                meta::CLIENT_INFO
            );
            let frame = Frame::parse(Bytes::from(message), &FrameLimits::default()).expect("a request");
            assert_eq!(spoken_name(&frame).as_deref(), Some(kept.as_str()));
        }
    }
}
