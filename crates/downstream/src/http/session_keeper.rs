//! When sessions are written to the archive, and how a client goes on with one of an earlier process.
//!
//! Nothing here is on the path of a call. A task waits until a session is marked, lets others be marked for a moment, asks the engine
//! what there is to keep, and hands what differs from the last time to the archive. While nothing changes it sleeps. After a restart a session waits until its client names it. The
//! id alone opens nothing: whoever names it must be the same principal as before, by the same checks as for every other request.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::json;
use tidings_engine::Principal;
use tidings_identity::sha256;
use tidings_wire::Digest;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::endpoint::HttpEndpoint;
use super::session_archive::{ArchiveStep, USED, WaitingSession, read, unix_now};
use super::sessions::{HttpSession, InUse};

/// How long after the first mark marked sessions are written: what is younger may be lost when the process is killed.
const MARKED: Duration = Duration::from_millis(200);
/// How long after something happened to what is followed those who follow are looked at unmarked: contents are read by others too.
const FOLLOWERS: Duration = Duration::from_secs(2);
/// How often all are: only the time of their last use has changed.
const ALL: Duration = Duration::from_secs(300);

/// Which sessions are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ArchiveSweep {
    Marked,
    Followers,
    All,
}

/// When which sessions are looked at next. Where nothing has happened there is no time.
struct SweepTimes {
    marked: Option<Instant>,
    followers: Option<Instant>,
    all: Instant,
}

impl SweepTimes {
    fn new(now: Instant) -> Self {
        Self { marked: None, followers: None, all: now + ALL }
    }

    fn next(&self) -> Instant {
        [self.marked, self.followers].into_iter().flatten().fold(self.all, Instant::min)
    }

    /// What is due. A sweep of more sessions is one of fewer, too.
    fn take(&mut self, now: Instant) -> ArchiveSweep {
        // Every sweep writes those that are marked.
        self.marked = None;
        if self.all <= now {
            *self = Self::new(now);
            return ArchiveSweep::All;
        }
        match self.followers.take_if(|at| *at <= now) {
            Some(_) => ArchiveSweep::Followers,
            None => ArchiveSweep::Marked,
        }
    }
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
        self.waiting.drop_rows(removed);
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
        let is_theirs = |session: &&WaitingSession| {
            *session.kept.principal == *principal.name && session.kept.alone.as_deref() == principal.scope.alone()
        };
        waiting.get(&key).filter(is_theirs)?;
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
            Ok(displaced) => displaced.iter().for_each(|displaced| self.end(displaced)),
            Err(no_room) => {
                tracing::debug!(%no_room, "a session of an earlier process does not go on");
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
        let mut times = SweepTimes::new(Instant::now());
        loop {
            tokio::select! {
                // Each is heard once until its sweep: what rings meanwhile is written with it, and after it rings anew.
                () = self.waiting.bell.notified(), if times.marked.is_none() => {
                    times.marked = Some(Instant::now() + MARKED);
                }
                () = self.gateway.follows_moved(), if times.followers.is_none() => {
                    times.followers = Some(Instant::now() + FOLLOWERS);
                }
                () = tokio::time::sleep_until(times.next()) => {
                    self.write_archive(times.take(Instant::now())).await;
                }
                () = closing.cancelled() => return,
            }
        }
    }

    /// Writes what has changed since it was last written.
    pub(super) async fn write_archive(&self, sweep: ArchiveSweep) {
        let Some(archive) = self.waiting.archive.clone() else { return };
        let looked_at = self.sessions.select(|session| {
            let archived = &session.archived;
            // Taken before the session is described: what changes meanwhile marks it again.
            let is_marked = archived.take_mark();
            is_marked
                || sweep == ArchiveSweep::All
                || (sweep == ArchiveSweep::Followers && archived.follows.load(Ordering::Relaxed))
        });
        let mut steps: Vec<ArchiveStep> = looked_at.iter().filter_map(|session| self.step(session)).collect();
        // Those that ended meanwhile were described perhaps: their end comes last.
        steps.extend(self.waiting.take_dropped().into_iter().map(ArchiveStep::Remove));
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
        let mut written = http.archived.written.lock();
        // Compared by hash: most marks lead to the same text.
        (written.replace(digest) != Some(digest)).then(|| ArchiveStep::Put(*key, text.into_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_looked_at_where_nothing_has_happened() {
        let start = Instant::now();
        let mut times = SweepTimes::new(start);
        assert_eq!(times.next(), start + ALL, "only the time of last use is written unasked");
        times.marked = Some(start + MARKED);
        times.followers = Some(start + FOLLOWERS);
        assert_eq!((times.next(), times.take(start + MARKED)), (start + MARKED, ArchiveSweep::Marked));
        assert_eq!((times.next(), times.take(start + FOLLOWERS)), (start + FOLLOWERS, ArchiveSweep::Followers));
        assert_eq!((times.next(), times.take(start + ALL)), (start + ALL, ArchiveSweep::All));
        assert_eq!(times.next(), start + ALL + ALL);
    }
}
