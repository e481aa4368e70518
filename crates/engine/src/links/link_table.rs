//! The links that are up, by their keys.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, MutexGuard};

use tidings_hub::LinkKey;
use tidings_sync::Lock;
use tidings_upstream::SharedLink;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::links::link_watch::LinkWatch;
use crate::links::live_link::{LinkUser, LiveLink};

/// Tells a server from the one whose place and id it took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ServerInstance(u64);

impl ServerInstance {
    pub(crate) fn next() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// A link that is up.
struct LinkEntry {
    server: ServerInstance,
    live: LiveLink,
    user: LinkUser,
    /// Rings when the link is taken out of the table.
    gone: CancellationToken,
    _rings: DropGuard,
}

pub(crate) struct LinkTable {
    by_key: Lock<HashMap<LinkKey, LinkEntry>>,
    next_link: AtomicU64,
}

impl LinkTable {
    pub(crate) fn new() -> Self {
        Self { by_key: Lock::default(), next_link: AtomicU64::new(1) }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<LinkKey, LinkEntry>> {
        self.by_key.lock()
    }

    /// A key for a link that is about to be made.
    pub(crate) fn next_key(&self) -> LinkKey {
        LinkKey(self.next_link.fetch_add(1, Ordering::Relaxed))
    }

    pub(crate) fn insert(&self, server: ServerInstance, live: &LiveLink, user: LinkUser) {
        let gone = CancellationToken::new();
        let rings = gone.clone().drop_guard();
        let entry = LinkEntry { server, live: live.clone(), user, gone, _rings: rings };
        self.lock().insert(live.key, entry);
    }

    pub(crate) fn remove(&self, key: LinkKey) {
        // Dropped after the lock is let go: its guard rings.
        let removed = self.lock().remove(&key);
        drop(removed);
    }

    pub(crate) fn has(&self, key: LinkKey) -> bool {
        self.lock().contains_key(&key)
    }

    pub(crate) fn get(&self, key: LinkKey) -> Option<SharedLink> {
        self.lock().get(&key).map(|entry| Arc::clone(&entry.live.link))
    }

    /// The health of a link; `None` when it is gone.
    pub(crate) fn watch(&self, key: LinkKey) -> Option<Arc<LinkWatch>> {
        self.lock().get(&key).map(|entry| Arc::clone(&entry.live.watch))
    }

    /// Who uses a link; `None` when it is gone.
    pub(crate) fn user(&self, key: LinkKey) -> Option<LinkUser> {
        self.lock().get(&key).map(|entry| entry.user.clone())
    }

    /// Every link, with who uses it.
    pub(crate) fn all(&self) -> Vec<(LiveLink, LinkUser)> {
        self.lock().values().map(|entry| (entry.live.clone(), entry.user.clone())).collect()
    }

    /// Every link of a server, also those of single sessions.
    /// By instance and not by id: the server that took the place of another has the same id.
    pub(crate) fn of(&self, server: ServerInstance) -> Vec<(LinkKey, SharedLink)> {
        let links = self.lock();
        let found = links.iter().filter(|(_, entry)| entry.server == server);
        found.map(|(key, entry)| (*key, Arc::clone(&entry.live.link))).collect()
    }

    /// Waits until a link is given up.
    pub(crate) async fn gone(&self, key: LinkKey) {
        // One that is not there was given up before, so there is nothing to wait for.
        let gone = self.lock().get(&key).map(|entry| entry.gone.clone());
        if let Some(gone) = gone {
            gone.cancelled().await;
        }
    }
}
