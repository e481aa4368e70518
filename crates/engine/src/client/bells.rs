//! How a follower hears that there is something for its transport to take.

use std::collections::HashMap;
use std::sync::{Arc, MutexGuard};

use tidings_hub::ClientKey;
use tidings_hub::ledger::FollowerId;
use tidings_sync::Lock;
use tokio::sync::Notify;

use crate::client::session::Session;
use crate::client::sessions::SessionTable;

#[derive(Clone)]
pub(crate) enum FollowerBell {
    Listen(Arc<Notify>),
    Session(Arc<Session>),
}

impl FollowerBell {
    pub(crate) fn ring(&self) {
        match self {
            // `notify_one` keeps a permit: a listen that is not waiting at this moment finds the bell rung.
            Self::Listen(bell) => bell.notify_one(),
            Self::Session(session) => session.sink.wake(),
        }
    }
}

/// The bells of those who follow lists. A leaf among the locks; no bell rings under it.
#[derive(Default)]
pub(crate) struct FollowerBells(Lock<HashMap<FollowerId, FollowerBell>>);

impl FollowerBells {
    fn lock(&self) -> MutexGuard<'_, HashMap<FollowerId, FollowerBell>> {
        self.0.lock()
    }

    pub(crate) fn insert(&self, follower: FollowerId, bell: FollowerBell) {
        self.lock().insert(follower, bell);
    }

    pub(crate) fn remove(&self, follower: FollowerId) {
        self.lock().remove(&follower);
    }

    pub(crate) fn contains(&self, follower: FollowerId) -> bool {
        self.lock().contains_key(&follower)
    }

    pub(crate) fn of(&self, followers: &[FollowerId]) -> Vec<FollowerBell> {
        // Cloned out, because a bell may take locks of its own when it rings.
        let bells = self.lock();
        followers.iter().filter_map(|follower| bells.get(follower).cloned()).collect()
    }

    /// How many `subscriptions/listen` are open.
    pub(crate) fn listens(&self) -> usize {
        self.lock().values().filter(|bell| matches!(bell, FollowerBell::Listen(_))).count()
    }

    /// Wakes every listen.
    pub(crate) fn ring_listens(&self) {
        let bells: Vec<FollowerBell> = self.lock().values().cloned().collect();
        bells.iter().filter(|bell| matches!(bell, FollowerBell::Listen(_))).for_each(FollowerBell::ring);
    }

    /// Wakes one follower, if it still follows; it then asks what it is owed.
    pub(crate) fn ring(&self, follower: FollowerId, sessions: &SessionTable) {
        let bell = self.lock().get(&follower).cloned();
        // A session may follow resources before it follows lists.
        let bell = bell.or_else(|| sessions.get(ClientKey(follower.0)).map(FollowerBell::Session));
        if let Some(bell) = bell {
            bell.ring();
        }
    }
}
