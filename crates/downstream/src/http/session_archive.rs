//! Sessions that outlive the gateway: what is kept of each, and those of an earlier process that wait for their clients.
//!
//! A session that changed is marked here, which rings a bell; when what is marked is written, and how a client goes on with a session
//! that waits is in `session_keeper`. A session waits under the hash of its id: whoever reads the archive can not use it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, MutexGuard, OnceLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::Value;
use tidings_engine::KeptSession;
use tidings_identity::sha256;
use tidings_sync::Lock;
use tidings_wire::Digest;
use tokio::sync::Notify;

/// To which the time of the last use is rounded, in seconds.
pub(super) const USED: u64 = 300;

/// The hash of a session's id.
pub type ArchiveKey = [u8; 32];

/// One step. Several are taken together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ArchiveStep {
    /// A session is there, or is another now.
    Put(ArchiveKey, Vec<u8>),
    /// A session is over.
    Remove(ArchiveKey),
}

/// Where sessions are kept. All of it may block.
pub trait SessionArchive: Send + Sync + 'static {
    /// All that is kept.
    fn read(&self) -> Vec<(ArchiveKey, Vec<u8>)>;

    /// Takes steps. What fails is reported there: a session that is not kept ends with the process, as all others did.
    fn write(&self, steps: Vec<ArchiveStep>);
}

/// Rings when there is something to write: while nothing changes, nobody looks.
pub(super) type ArchiveBell = Arc<Notify>;

/// What is kept of one session.
pub(super) struct ArchivedSession {
    pub(super) key: OnceLock<ArchiveKey>,
    bell: ArchiveBell,
    is_stale: AtomicBool,
    pub(super) follows: AtomicBool,
    /// What was written last: a session that is the same is not written again.
    pub(super) written: Lock<Option<Digest>>,
}

impl ArchivedSession {
    pub(super) fn new(bell: ArchiveBell) -> Self {
        Self {
            key: OnceLock::new(),
            bell,
            is_stale: AtomicBool::new(false),
            follows: AtomicBool::new(false),
            written: Lock::default(),
        }
    }

    /// Something changed that is to be kept.
    pub(super) fn mark(&self) {
        // One that is marked has rung, and is still to be looked at.
        if !self.is_stale.swap(true, Ordering::AcqRel) {
            self.bell.notify_one();
        }
    }

    /// Whether it was marked. What changes after this marks it again.
    pub(super) fn take_mark(&self) -> bool {
        self.is_stale.swap(false, Ordering::AcqRel)
    }

    /// The session follows resources.
    pub(super) fn mark_following(&self) {
        self.follows.store(true, Ordering::Relaxed);
        self.mark();
    }

    /// The session has an id.
    pub(super) fn name(&self, id: &str) {
        // A session that is resumed has its key already.
        let _ = self.key.set(sha256(id));
    }

    /// The session is in the table. Whoever heard its bell before looked there and did not find it, so it rings in any case.
    pub(super) fn entered(&self) {
        self.is_stale.store(true, Ordering::Release);
        self.bell.notify_one();
    }
}

/// Marks a session when it is dropped: when the request that changes it is over.
pub(super) struct MarkAfter<'a>(pub(super) &'a ArchivedSession);

impl Drop for MarkAfter<'_> {
    fn drop(&mut self) {
        self.0.mark();
    }
}

/// The sessions of an earlier process, and the way to the archive.
pub(super) struct ArchivedSessions {
    pub(super) archive: Option<Arc<dyn SessionArchive>>,
    pub(super) bell: ArchiveBell,
    sessions: Lock<HashMap<ArchiveKey, WaitingSession>>,
    removed: Lock<Vec<ArchiveKey>>,
}

pub(super) struct WaitingSession {
    pub(super) kept: KeptSession,
    /// Seconds since 1970.
    used: u64,
}

impl ArchivedSessions {
    pub(super) fn new(archive: Option<Arc<dyn SessionArchive>>, bell: ArchiveBell) -> Self {
        Self { archive, bell, sessions: Lock::default(), removed: Lock::default() }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, HashMap<ArchiveKey, WaitingSession>> {
        self.sessions.lock()
    }

    fn removed(&self) -> MutexGuard<'_, Vec<ArchiveKey>> {
        self.removed.lock()
    }

    /// Sessions that are kept no longer: they are removed from the archive when it is written next.
    pub(super) fn drop_rows(&self, keys: Vec<ArchiveKey>) {
        if !keys.is_empty() {
            self.removed().extend(keys);
            self.bell.notify_one();
        }
    }

    /// What [`Self::drop_rows`] has gathered.
    pub(super) fn take_dropped(&self) -> Vec<ArchiveKey> {
        std::mem::take(&mut *self.removed())
    }

    /// A session is over, and is kept no longer.
    pub(super) fn remove(&self, session: &ArchivedSession) {
        if let Some(key) = session.key.get().filter(|_| self.archive.is_some()) {
            self.drop_rows(vec![*key]);
        }
    }

    /// Ends the waiting of those that nobody has named for this long.
    pub(super) fn expire(&self, idle: Duration, now: u64) {
        let mut expired = Vec::new();
        self.lock().retain(|key, session| {
            // The time of last use is rounded, so it may be that much younger than it says.
            let is_young = now.saturating_sub(session.used) < idle.as_secs() + USED;
            if !is_young {
                expired.push(*key);
            }
            is_young
        });
        // Not before the other lock is let go: whoever resumes a session takes them in that order.
        self.drop_rows(expired);
    }
}

/// Seconds since 1970.
pub(super) fn unix_now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// A row of the archive; `None` when it was written by a version that says it otherwise.
pub(super) fn read(text: &[u8]) -> Option<WaitingSession> {
    let row: Value = serde_json::from_slice(text).ok()?;
    Some(WaitingSession { kept: KeptSession::from_json(&row["session"])?, used: row["used"].as_u64()? })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    // edges F19
    #[test]
    fn a_session_waits_for_its_client_no_longer_than_a_session_may_be_idle() {
        let waiting = ArchivedSessions::new(None, ArchiveBell::default());
        let hour = Duration::from_secs(3_600);
        let kept = json!({"used": 10_000, "session": {
            "revision": "2025-11-25", "principal": "local", "capabilities": {}, "initialized": true,
            "told": [null, null, null], "follows": [],
        }});
        let session = read(kept.to_string().as_bytes()).unwrap_or_else(|| panic!("it can not be read"));
        waiting.lock().insert([7; 32], session);
        waiting.expire(hour, 10_000 + 3_600);
        assert_eq!((waiting.lock().len(), waiting.take_dropped().len()), (1, 0), "the time of its last use is rounded");
        waiting.expire(hour, 10_000 + 3_600 + USED);
        assert_eq!((waiting.lock().len(), waiting.take_dropped()), (0, vec![[7; 32]]));
    }
}
