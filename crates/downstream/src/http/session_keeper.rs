//! When sessions are written to the archive, and how a client goes on with one of an earlier process.
//!
//! Nothing here is on the path of a call. A task looks for marked sessions a few times a second, asks the engine what there is to
//! keep, and hands what differs from the last time to the archive. After a restart a session waits until its client names it. The
//! id alone opens nothing: whoever names it must be the same principal as before, by the same checks as for every other request.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use serde_json::json;
use tidings_engine::Principal;
use tidings_wire::Digest;
use tokio_util::sync::CancellationToken;

use super::endpoint::HttpEndpoint;
use super::session_archive::{ArchiveStep, USED, read, unix_now};
use super::sessions::{HttpSession, InUse};
use crate::auth::sha256;

/// How often marks are looked for: what is younger may be lost when the process is killed.
const EVERY: Duration = Duration::from_millis(200);
/// In which of these rounds sessions that follow resources are looked at unmarked: contents are read by others too.
const FOLLOWERS: u64 = 10;
/// In which of these rounds all are: only the time of their last use has changed.
const ALL: u64 = 1_500;

/// Which sessions are looked at.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ArchiveSweep {
    Marked,
    Followers,
    All,
}

impl HttpEndpoint {
    /// Reads the sessions of an earlier process.
    pub(super) async fn read_archive(&self) {
        let Some(archive) = self.waiting.archive.clone() else { return };
        // The archive is a file.
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
        // Rows that this version can not read are removed, or they would be read at every start.
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
        // An id that somebody else has learnt opens nothing, and says nothing.
        waiting.get(&key).filter(|session| *session.kept.principal == *principal.name)?;
        let kept = waiting.remove(&key)?.kept;
        let follows = !kept.follows.is_empty();
        let session = self.sessions.make();
        let sink = session.sink();
        session.begin(self.gateway.resume_session(kept, principal, sink));
        if follows {
            session.archived.mark_following();
        }
        // Under the id that its client knows.
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
            // Taken before the session is described: what changes meanwhile marks it again.
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
        // Rounded, or every request would make the session differ from what was written.
        let used = unix_now().saturating_sub(http.idle_for().as_secs()) / USED * USED;
        let kept = self.gateway.describe_session(session);
        let text = json!({ "used": used, "session": kept.to_json() }).to_string();
        let digest = Digest::of_bytes(text.as_bytes());
        let mut written = http.archived.written.lock().unwrap_or_else(PoisonError::into_inner);
        // Compared by hash: most marks lead to the same text.
        (written.replace(digest) != Some(digest)).then(|| ArchiveStep::Put(*key, text.into_bytes()))
    }
}
