//! The legacy sessions there are, by the keys that clients have in the engine.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, MutexGuard};

use bytes::Bytes;
use serde_json::Value;
use tidings_hub::ClientKey;
use tidings_hub::scope::AccessScope;
use tidings_proto::{Era, LogLevel};
use tidings_sync::Lock;

use crate::client::session::Session;

/// One lock, held for moments. It may be taken under the lock of the announcements or of the subscriptions; under it only the
/// level of a session is, which is a leaf.
pub(crate) struct SessionTable {
    by_key: Lock<HashMap<ClientKey, Arc<Session>>>,
    next_client: AtomicU64,
    /// The capabilities and era of the one client there will ever be (stdio).
    only_client: Option<(Value, Era)>,
}

impl SessionTable {
    pub(crate) fn new(only_client: Option<(Value, Era)>) -> Self {
        Self { by_key: Lock::default(), next_client: AtomicU64::new(1), only_client }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ClientKey, Arc<Session>>> {
        self.by_key.lock()
    }

    /// A key for a client, with or without a session.
    pub(crate) fn new_client(&self) -> ClientKey {
        ClientKey(self.next_client.fetch_add(1, Ordering::Relaxed))
    }

    pub(crate) fn insert(&self, session: &Arc<Session>) {
        self.lock().insert(session.key, Arc::clone(session));
    }

    pub(crate) fn remove(&self, client: ClientKey) {
        self.lock().remove(&client);
    }

    pub(crate) fn get(&self, client: ClientKey) -> Option<Arc<Session>> {
        self.lock().get(&client).cloned()
    }

    pub(crate) fn contains(&self, client: ClientKey) -> bool {
        self.lock().contains_key(&client)
    }

    pub(crate) fn len(&self) -> usize {
        self.lock().len()
    }

    pub(crate) fn all(&self) -> Vec<Arc<Session>> {
        self.lock().values().cloned().collect()
    }

    pub(crate) fn keys(&self) -> Vec<ClientKey> {
        self.lock().keys().copied().collect()
    }

    /// The least level of log messages that sessions asked for, for each of the different rights that they have.
    pub(crate) fn wanted_levels(&self) -> Vec<(AccessScope, LogLevel)> {
        let mut wanted: Vec<(AccessScope, LogLevel)> = Vec::new();
        for session in self.lock().values() {
            let Some(level) = session.level() else { continue };
            match wanted.iter_mut().find(|(scope, _)| *scope == session.principal.scope) {
                Some((_, least)) => *least = level.min(*least),
                None => wanted.push((session.principal.scope.clone(), level)),
            }
        }
        wanted
    }

    /// The sessions of one person.
    pub(crate) fn of_principal(&self, name: &str) -> Vec<Arc<Session>> {
        self.lock().values().filter(|session| &*session.principal.name == name).cloned().collect()
    }

    /// The least level of log messages that the sessions of one person asked for.
    pub(crate) fn level_of_principal(&self, name: &str) -> Option<LogLevel> {
        let sessions = self.lock();
        sessions.values().filter(|session| &*session.principal.name == name).filter_map(|session| session.level()).min()
    }

    /// What the only client there will ever be declares, if there will be only one.
    pub(crate) fn only_client(&self) -> Option<&(Value, Era)> {
        self.only_client.as_ref()
    }

    /// The session of the only client there will ever be.
    pub(crate) fn only_session(&self) -> Option<Arc<Session>> {
        self.only_client.as_ref()?;
        // On stdio there is one session at a time, so any is the one.
        self.lock().values().next().cloned()
    }

    /// Sends outside of any call.
    pub(crate) fn push_to(&self, client: ClientKey, message: Bytes) {
        if let Some(session) = self.get(client) {
            session.sink.push(message);
        }
    }
}
