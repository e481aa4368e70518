//! Sessions that outlive the gateway: when they are written, and how a client goes on with one of an earlier process.
//!
//! Nothing here is on the path of a call. A session that changed is marked; a task looks for marks a few times a second, asks the
//! engine what there is to keep, and hands what differs from the last time to the [`SessionArchive`]. After a restart a
//! session waits under the hash of its id until its client names it. The id alone opens nothing: whoever names it must be the
//! same principal as before, by the same checks as for every other request.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use tidings_engine::{KeptSession, Principal};
use tidings_wire::Digest;
use tokio_util::sync::CancellationToken;

use super::endpoint::HttpEndpoint;
use super::sessions::{HttpSession, InUse};
use crate::auth::sha256;

/// How often marks are looked for: what is younger may be lost when the process is killed.
const EVERY: Duration = Duration::from_millis(200);
/// In which of these rounds sessions that follow resources are looked at unmarked: contents are read by others too.
const FOLLOWERS: u64 = 10;
/// In which of these rounds all are: only the time of their last use has changed.
const ALL: u64 = 1_500;
/// To which the time of the last use is rounded, in seconds.
const USED: u64 = 300;

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

/// What is kept of one session.
#[derive(Default)]
pub(super) struct ArchivedSession {
    key: OnceLock<ArchiveKey>,
    is_stale: AtomicBool,
    follows: AtomicBool,
    written: Mutex<Option<Digest>>,
}

impl ArchivedSession {
    /// Something changed that is to be kept.
    pub(super) fn mark(&self) {
        self.is_stale.store(true, Ordering::Relaxed);
    }

    /// The session follows resources.
    pub(super) fn mark_following(&self) {
        self.follows.store(true, Ordering::Relaxed);
        self.mark();
    }

    /// The session has an id.
    pub(super) fn enter(&self, id: &str) {
        let _ = self.key.set(sha256(id));
        self.mark();
    }
}

/// Marks a session when it is dropped: when the request that changes it is over.
pub(super) struct MarkAfter<'a>(pub(super) &'a ArchivedSession);

impl Drop for MarkAfter<'_> {
    fn drop(&mut self) {
        self.0.mark();
    }
}

/// Which sessions are looked at.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ArchiveSweep {
    Marked,
    Followers,
    All,
}

/// The sessions of an earlier process, and the way to the archive.
pub(super) struct ArchivedSessions {
    archive: Option<Arc<dyn SessionArchive>>,
    sessions: Mutex<HashMap<ArchiveKey, WaitingSession>>,
    removed: Mutex<Vec<ArchiveKey>>,
}

struct WaitingSession {
    kept: KeptSession,
    /// Seconds since 1970.
    used: u64,
}

impl ArchivedSessions {
    pub(super) fn new(archive: Option<Arc<dyn SessionArchive>>) -> Self {
        Self { archive, sessions: Mutex::default(), removed: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ArchiveKey, WaitingSession>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn removed(&self) -> MutexGuard<'_, Vec<ArchiveKey>> {
        self.removed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A session is over, and is kept no longer.
    pub(super) fn remove(&self, session: &ArchivedSession) {
        if let Some(key) = session.key.get().filter(|_| self.archive.is_some()) {
            self.removed().push(*key);
        }
    }

    /// Ends the waiting of those that nobody has named for this long.
    pub(super) fn expire(&self, idle: Duration, now: u64) {
        let mut expired = Vec::new();
        self.lock().retain(|key, session| {
            let is_young = now.saturating_sub(session.used) < idle.as_secs() + USED;
            if !is_young {
                expired.push(*key);
            }
            is_young
        });
        // Not before the other lock is let go: whoever resumes a session takes them in that order.
        self.removed().append(&mut expired);
    }
}

/// Seconds since 1970.
pub(super) fn unix_now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

impl HttpEndpoint {
    /// Reads the sessions of an earlier process.
    pub(super) async fn read_archive(&self) {
        let Some(archive) = self.waiting.archive.clone() else { return };
        let rows = tokio::task::spawn_blocking(move || archive.read()).await.unwrap_or_default();
        let mut removed = Vec::new();
        {
            let mut waiting = self.waiting.lock();
            for (key, text) in rows {
                match read(&text) {
                    Some(session) => _ = waiting.insert(key, session),
                    // Of another version of the gateway, most likely.
                    None => removed.push(key),
                }
            }
        }
        self.waiting.removed().append(&mut removed);
        self.waiting.expire(self.options.session_idle, unix_now());
    }

    /// The session of an earlier process with this id, if it was this person's.
    pub(super) fn resume(&self, id: &str, principal: &Principal) -> Option<InUse> {
        self.waiting.archive.as_ref()?;
        let key = sha256(id);
        let mut waiting = self.waiting.lock();
        // Behind the lock: another request of the same client may have been first.
        if let Some(session) = self.sessions.get(id, principal) {
            return Some(session);
        }
        waiting.get(&key).filter(|session| *session.kept.principal == *principal.name)?;
        let kept = waiting.remove(&key)?.kept;
        let follows = !kept.follows.is_empty();
        let session = self.sessions.make();
        let sink = session.sink();
        session.begin(self.gateway.resume_session(kept, principal, sink));
        if follows {
            session.archived.mark_following();
        }
        match self.sessions.enter(id.to_owned(), &session) {
            Some(displaced) => displaced.iter().for_each(|displaced| self.end(displaced)),
            None => {
                self.end(&session);
                return None;
            }
        }
        tracing::debug!(principal = &*principal.name, "a session of an earlier process goes on");
        self.sessions.get(id, principal)
    }

    /// Writes what changes, until the end.
    pub(super) async fn keep_sessions(self: Arc<Self>, closing: CancellationToken) {
        if self.waiting.archive.is_none() {
            return;
        }
        for round in 1_u64.. {
            tokio::select! {
                () = tokio::time::sleep(EVERY) => {}
                () = closing.cancelled() => return,
            }
            self.write_archive(match round {
                _ if round.is_multiple_of(ALL) => ArchiveSweep::All,
                _ if round.is_multiple_of(FOLLOWERS) => ArchiveSweep::Followers,
                _ => ArchiveSweep::Marked,
            })
            .await;
        }
    }

    /// Writes what has changed since it was last written.
    pub(super) async fn write_archive(&self, sweep: ArchiveSweep) {
        let Some(archive) = self.waiting.archive.clone() else { return };
        let looked_at = self.sessions.select(|session| {
            let archived = &session.archived;
            let is_marked = archived.is_stale.swap(false, Ordering::Relaxed);
            is_marked
                || sweep == ArchiveSweep::All
                || (sweep == ArchiveSweep::Followers && archived.follows.load(Ordering::Relaxed))
        });
        let mut steps: Vec<ArchiveStep> = looked_at.iter().filter_map(|session| self.step(session)).collect();
        // Those that ended meanwhile were described perhaps: their end comes last.
        steps.extend(self.waiting.removed().drain(..).map(ArchiveStep::Remove));
        if !steps.is_empty() {
            let _ = tokio::task::spawn_blocking(move || archive.write(steps)).await;
        }
    }

    fn step(&self, http: &HttpSession) -> Option<ArchiveStep> {
        let (session, key) = (http.session()?, http.archived.key.get()?);
        let used = unix_now().saturating_sub(http.idle_for().as_secs()) / USED * USED;
        let kept = self.gateway.describe_session(session);
        let text = json!({ "used": used, "session": kept.to_json() }).to_string();
        let digest = Digest::of_bytes(text.as_bytes());
        let mut written = http.archived.written.lock().unwrap_or_else(PoisonError::into_inner);
        (written.replace(digest) != Some(digest)).then(|| ArchiveStep::Put(*key, text.into_bytes()))
    }
}

fn read(text: &[u8]) -> Option<WaitingSession> {
    let row: Value = serde_json::from_slice(text).ok()?;
    Some(WaitingSession { kept: KeptSession::from_json(&row["session"])?, used: row["used"].as_u64()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    // edges F19
    #[test]
    fn a_session_waits_for_its_client_no_longer_than_a_session_may_be_idle() {
        let waiting = ArchivedSessions::new(None);
        let hour = Duration::from_secs(3_600);
        let kept = json!({"used": 10_000, "session": {
            "revision": "2025-11-25", "principal": "local", "capabilities": {}, "initialized": true,
            "told": [null, null, null], "follows": [],
        }});
        let session = read(kept.to_string().as_bytes()).unwrap_or_else(|| panic!("it can not be read"));
        waiting.lock().insert([7; 32], session);
        waiting.expire(hour, 10_000 + 3_600);
        assert_eq!((waiting.lock().len(), waiting.removed().len()), (1, 0), "the time of its last use is rounded");
        waiting.expire(hour, 10_000 + 3_600 + USED);
        assert_eq!((waiting.lock().len(), waiting.removed().clone()), (0, vec![[7; 32]]));
    }
}
