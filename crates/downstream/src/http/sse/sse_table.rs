//! The clients of HTTP+SSE, by the id that their streams named.

use std::collections::HashMap;
use std::sync::{Arc, MutexGuard};

use tidings_engine::Principal;
use tidings_sync::Lock;

use super::SseClient;
use crate::http::sessions::{is_theirs, random_id};

/// All open streams. Each has a seat among the sessions (`HttpSessions::take_seat`), which bounds them.
#[derive(Default)]
pub(in crate::http) struct SseSessions(Lock<HashMap<String, Arc<SseClient>>>);

impl SseSessions {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Arc<SseClient>>> {
        self.0.lock()
    }

    /// Adds a client under a new id.
    pub(super) fn add(&self, client: &Arc<SseClient>) -> Option<String> {
        let id = random_id()?;
        self.lock().insert(id.clone(), Arc::clone(client));
        Some(id)
    }

    /// The client of this person with this id. Somebody else's is none: the id is not proof of anything.
    pub(super) fn get(&self, id: &str, principal: &Principal) -> Option<Arc<SseClient>> {
        self.lock().get(id).filter(|client| is_theirs(&client.principal, principal)).cloned()
    }

    pub(super) fn remove(&self, id: &str) {
        self.lock().remove(id);
    }
}
