//! Legacy sessions over HTTP: the table by id, and each session's streams and idle time.
//!
//! What a session may do and what it is owed is the engine's `Session`. What of it outlives the process is in `session_archive`.

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, MutexGuard, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use tidings_engine::{ClientSink, OverQuota, Principal, Quota, QuotaSeat, Session};
use tidings_sync::Lock;
use tidings_wire::assert_outgoing;
use tokio::time::Instant;

use super::reply_stream::ReplyStream;
use super::retention::{AnswerRetention, KeptBytes};
use super::session_archive::{ArchiveBell, ArchivedSession};

/// How many streams of requests a session keeps for resumption; how many bytes, says [`AnswerRetention`].
const STREAMS: usize = 256;

/// A session of the old era: the engine's session, the streams that carry its answers, and when it was used last.
pub(super) struct HttpSession {
    session: OnceLock<Arc<Session>>,
    streams: Lock<HashMap<u64, Arc<ReplyStream>>>,
    next_stream: AtomicU64,
    standalone: Arc<ReplyStream>,
    retention: Arc<AnswerRetention>,
    /// What of it outlives the process.
    pub(super) archived: ArchivedSession,
    /// Requests and open streams; a session in use is not idle.
    in_use: AtomicUsize,
    /// When all sessions began to count.
    epoch: Instant,
    /// Nanoseconds from then until its last request or stream ended: coarser times would make many sessions equally old.
    last_used: AtomicU64,
    /// It counts for its principal until it is gone.
    seat: OnceLock<QuotaSeat>,
}

impl HttpSession {
    fn new(retention: Arc<AnswerRetention>, bell: ArchiveBell, epoch: Instant) -> Arc<Self> {
        let session = Arc::new(Self {
            session: OnceLock::new(),
            streams: Lock::default(),
            next_stream: AtomicU64::new(1),
            standalone: ReplyStream::new(0),
            retention,
            archived: ArchivedSession::new(bell),
            in_use: AtomicUsize::new(0),
            epoch,
            last_used: AtomicU64::new(0),
            seat: OnceLock::new(),
        });
        session.touch();
        session
    }

    pub(super) fn begin(&self, session: Arc<Session>) {
        let _ = self.session.set(session);
    }

    pub(super) fn session(&self) -> Option<&Arc<Session>> {
        self.session.get()
    }

    /// The stream on which servers speak by themselves.
    pub(super) fn standalone(&self) -> &Arc<ReplyStream> {
        &self.standalone
    }

    /// Where messages go that belong to no request of the client.
    pub(super) fn sink(&self) -> Arc<dyn ClientSink> {
        Arc::new(StandaloneSink(Arc::clone(&self.standalone)))
    }

    fn streams(&self) -> MutexGuard<'_, HashMap<u64, Arc<ReplyStream>>> {
        self.streams.lock()
    }

    /// A stream for a new request.
    pub(super) fn new_stream(&self) -> Arc<ReplyStream> {
        ReplyStream::new(self.next_stream.fetch_add(1, Ordering::Relaxed))
    }

    /// Keeps a stream for resumption. What was delivered goes first, then the oldest that is over.
    pub(super) fn keep(&self, stream: &Arc<ReplyStream>) {
        let mut streams = self.streams();
        // A client that has had everything will not come back for it.
        streams.retain(|_, kept| !kept.is_done());
        while streams.len() >= STREAMS {
            let oldest = streams.values().filter(|kept| kept.is_over()).map(|kept| kept.number).min();
            // All are still running: their number is bounded by the calls that one client may have.
            let Some(oldest) = oldest else { break };
            // Its claim on the retention goes with the last handle to it.
            streams.remove(&oldest);
        }
        streams.insert(stream.number, Arc::clone(stream));
    }

    /// The stream of a request is over: what it carried is kept as far as there is room. The oldest answers of the session go
    /// first, then the oldest of all sessions.
    pub(super) fn retain(self: &Arc<Self>, stream: &Arc<ReplyStream>) {
        stream.claim(&self.retention, self);
        loop {
            let oldest = {
                let streams = self.streams();
                let over = || streams.values().filter(|kept| kept.is_over());
                let bytes: usize = over().map(|kept| kept.claimed()).sum();
                // The one that was just finished stays, whatever its size.
                let others = over().filter(|kept| kept.number != stream.number);
                others.map(|kept| kept.number).min().filter(|_| bytes > self.retention.session_limit())
            };
            match oldest {
                Some(oldest) => _ = self.forget_stream(oldest),
                None => break,
            }
        }
        // After the session's own bound, so that one session's surplus is not taken from others.
        self.retention.shrink();
    }

    /// Forgets what a stream carried; says whether it was kept. Whoever reads it right now still gets the rest.
    pub(super) fn forget_stream(&self, number: u64) -> bool {
        let forgotten = self.streams().remove(&number);
        // Without the lock of the streams: a claim takes the lock of the retention.
        forgotten.inspect(|stream| stream.release()).is_some()
    }

    pub(super) fn stream(&self, number: u64) -> Option<Arc<ReplyStream>> {
        // The standalone stream is no stream of a request, and is never forgotten.
        if number == 0 { Some(Arc::clone(&self.standalone)) } else { self.streams().get(&number).cloned() }
    }

    fn touch(&self) {
        let now = u64::try_from(self.epoch.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.last_used.store(now, Ordering::Relaxed);
    }

    /// Whether no request of it is worked on and no stream is open.
    fn is_idle(&self) -> bool {
        self.in_use.load(Ordering::SeqCst) == 0
    }

    pub(super) fn idle_for(&self) -> Duration {
        if !self.is_idle() {
            return Duration::ZERO;
        }
        self.epoch.elapsed().saturating_sub(Duration::from_nanos(self.last_used.load(Ordering::Relaxed)))
    }
}

/// Where the engine's session delivers. It holds the stream alone: a sink that held the HTTP session, which holds the engine's,
/// would keep both for ever.
struct StandaloneSink(Arc<ReplyStream>);

impl ClientSink for StandaloneSink {
    fn push(&self, message: Bytes) {
        assert_outgoing(&message);
        self.0.push(message);
    }

    fn wake(&self) {
        self.0.wake();
    }

    fn forget_resource(&self, uri: &str) {
        self.0.forget_resource(uri);
    }
}

/// A request or stream that uses a session: as long as there is one, the session neither expires nor gives way to another.
pub(super) struct InUse(Arc<HttpSession>);

impl Deref for InUse {
    type Target = Arc<HttpSession>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl InUse {
    pub(super) fn new(session: &Arc<HttpSession>) -> Self {
        session.in_use.fetch_add(1, Ordering::SeqCst);
        Self(Arc::clone(session))
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        // Before the count goes down: in between, the session must not look idle since long ago.
        self.0.touch();
        self.0.in_use.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Whether whoever has this token may use what was begun with another: the same person with the same rights, and perhaps more scopes.
pub(super) fn is_theirs(owner: &Principal, asking: &Principal) -> bool {
    owner == asking || owner.is_widened_by(asking)
}

/// All sessions, by the id that their clients know.
///
/// At most so many: when there are more, the one goes that was idle longest. Clients that never say goodbye are the rule, so a
/// full table must not keep out who comes next; but a session with a request in flight or an open stream never gives way.
pub(super) struct HttpSessions {
    limit: usize,
    by_id: Lock<HashMap<String, Arc<HttpSession>>>,
    /// Seats of clients of another transport, which count as sessions in use. Changed under the lock of the table.
    seats: AtomicUsize,
    retention: Arc<AnswerRetention>,
    /// Of all sessions: rings when there is something to write.
    bell: ArchiveBell,
    epoch: Instant,
    /// The process of a cluster that they live in: it stands in their ids.
    pub(super) home: Option<u64>,
}

/// Why there is no room for a session.
#[derive(Debug, thiserror::Error)]
pub(super) enum NoRoom {
    /// There are as many as there may be, and all are in use.
    #[error("too many sessions ({0} in all), and none of them is idle; try again later")]
    Full(usize),
    /// Its principal has as many as it may, and all are in use.
    #[error("{0}, and none of them is idle; end one")]
    OfPrincipal(OverQuota),
    /// There are no random numbers for an id.
    #[error("no session can be made; try again later")]
    NoId,
}

/// A session that was let in.
pub(super) struct EnteredSession {
    /// What its client knows it by.
    pub(super) id: String,
    /// The session that gave way to it, which is to be ended.
    pub(super) displaced: Option<Arc<HttpSession>>,
}

impl HttpSessions {
    pub(super) fn new(limit: usize, kept: KeptBytes) -> Self {
        Self {
            limit,
            by_id: Lock::default(),
            seats: AtomicUsize::new(0),
            retention: AnswerRetention::new(kept),
            bell: ArchiveBell::default(),
            epoch: Instant::now(),
            home: None,
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Arc<HttpSession>>> {
        self.by_id.lock()
    }

    /// A session that nobody knows yet.
    pub(super) fn make(&self) -> Arc<HttpSession> {
        HttpSession::new(Arc::clone(&self.retention), self.bell(), self.epoch)
    }

    /// Rings when there is something of a session to write.
    pub(super) fn bell(&self) -> ArchiveBell {
        Arc::clone(&self.bell)
    }

    /// Adds a session under a new id, unless there are too many and all are in use.
    pub(super) fn add(&self, session: &Arc<HttpSession>) -> Result<EnteredSession, NoRoom> {
        let mut id = random_id().ok_or(NoRoom::NoId)?;
        if let Some(home) = self.home {
            id.push_str(&format!("{home:016x}"));
        }
        let displaced = self.enter(id.clone(), session)?;
        Ok(EnteredSession { id, displaced })
    }

    /// Adds a session under its id; gives the one that gave way to it, if one had to.
    pub(super) fn enter(&self, id: String, session: &Arc<HttpSession>) -> Result<Option<Arc<HttpSession>>, NoRoom> {
        session.archived.name(&id);
        let mut sessions = self.lock();
        let displaced = match seat_of(session, &mut sessions)? {
            // Whoever gave way to its own principal has made room for all.
            Some(own) => Some(own),
            None => self.make_room(&mut sessions)?,
        };
        sessions.insert(id, Arc::clone(session));
        drop(sessions);
        session.archived.entered();
        Ok(displaced)
    }

    /// Room for one more: gives the session that has to give way, if one has to.
    fn make_room(&self, sessions: &mut HashMap<String, Arc<HttpSession>>) -> Result<Option<Arc<HttpSession>>, NoRoom> {
        if sessions.len() + self.seats.load(Ordering::Relaxed) < self.limit {
            return Ok(None);
        }
        remove_oldest(sessions, |_| true).map(Some).ok_or(NoRoom::Full(self.limit))
    }

    /// A seat for a client of another transport, which is in use for as long as it has it. Gives the session that gave way.
    pub(super) fn take_seat(&self) -> Result<Option<Arc<HttpSession>>, NoRoom> {
        let mut sessions = self.lock();
        let displaced = self.make_room(&mut sessions)?;
        self.seats.fetch_add(1, Ordering::Relaxed);
        Ok(displaced)
    }

    /// The client with the seat is gone.
    pub(super) fn leave_seat(&self) {
        // `make_room` counts sessions and seats together, under this lock.
        let _sessions = self.lock();
        self.seats.fetch_sub(1, Ordering::Relaxed);
    }

    /// The session of this person with this id, in use from now on.
    pub(super) fn get(&self, id: &str, principal: &Principal) -> Option<InUse> {
        let sessions = self.lock();
        let found = sessions.get(id)?;
        // Somebody else's session is no session at all: the id is not proof of anything.
        let is_own = found.session().is_some_and(|session| is_theirs(session.principal(), principal));
        // Before the lock is let go, so that it can not give way to another in between.
        is_own.then(|| InUse::new(found))
    }

    /// The sessions that fit now; handles, so that the table is not locked while they are used.
    pub(super) fn select(&self, fits: impl Fn(&HttpSession) -> bool) -> Vec<Arc<HttpSession>> {
        self.lock().values().filter(|session| fits(session)).cloned().collect()
    }

    pub(super) fn remove(&self, id: &str) -> Option<Arc<HttpSession>> {
        self.lock().remove(id)
    }

    /// Takes out sessions that nobody has used for this long.
    pub(super) fn expire(&self, idle: Duration) -> Vec<Arc<HttpSession>> {
        self.take_out_those(|session| session.idle_for() >= idle)
    }

    /// Takes out the sessions of these people.
    pub(super) fn take_out(&self, whose: impl Fn(&Principal) -> bool) -> Vec<Arc<HttpSession>> {
        self.take_out_those(|session| session.session().is_some_and(|session| whose(session.principal())))
    }

    fn take_out_those(&self, fits: impl Fn(&HttpSession) -> bool) -> Vec<Arc<HttpSession>> {
        let mut taken = Vec::new();
        self.lock().retain(|_, session| {
            let keep = !fits(session);
            if !keep {
                taken.push(Arc::clone(session));
            }
            keep
        });
        taken
    }

    #[cfg(test)]
    pub(super) fn retention(&self) -> &Arc<AnswerRetention> {
        &self.retention
    }
}

/// Counts a session for its principal. One that has as many as it may gives up the one that was idle longest.
fn seat_of(
    session: &HttpSession,
    sessions: &mut HashMap<String, Arc<HttpSession>>,
) -> Result<Option<Arc<HttpSession>>, NoRoom> {
    let Some(principal) = session.session().map(|session| session.principal()) else { return Ok(None) };
    let (seat, displaced) = match principal.take_seat(Quota::Sessions) {
        Ok(seat) => (seat, None),
        Err(over) => {
            let is_theirs = |other: &HttpSession| other.session().is_some_and(|other| other.principal() == principal);
            let displaced = remove_oldest(sessions, is_theirs).ok_or(NoRoom::OfPrincipal(over))?;
            (principal.take_over_seat(Quota::Sessions), Some(displaced))
        }
    };
    if let Some(seat) = seat {
        let _ = session.seat.set(seat);
    }
    Ok(displaced)
}

/// Takes out the session that was idle longest, of those that fit. A walk over all sessions, but only when there are too many.
fn remove_oldest(
    sessions: &mut HashMap<String, Arc<HttpSession>>,
    fits: impl Fn(&HttpSession) -> bool,
) -> Option<Arc<HttpSession>> {
    let idle = sessions.iter().filter(|(_, session)| session.is_idle() && fits(session));
    let oldest = idle.min_by_key(|(_, session)| session.last_used.load(Ordering::Relaxed))?.0.clone();
    sessions.remove(&oldest)
}

pub(super) fn random_id() -> Option<String> {
    let mut random = [0; 16];
    // Without random numbers there is no session, rather than one whose id can be guessed.
    getrandom::fill(&mut random).ok()?;
    Some(tidings_wire::hex(&random))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(60 * 60);

    fn sessions(limit: usize) -> HttpSessions {
        HttpSessions::new(limit, KeptBytes::default())
    }

    fn add(sessions: &HttpSessions) -> (Arc<HttpSession>, EnteredSession) {
        let session = sessions.make();
        let entered = sessions.add(&session).unwrap_or_else(|none| panic!("{none}"));
        (session, entered)
    }

    #[tokio::test(start_paused = true)]
    async fn a_session_expires_when_it_was_not_used_for_long_enough() {
        let sessions = sessions(10);
        let (forgotten, _) = add(&sessions);
        let (used, _) = add(&sessions);
        let (reading, _) = add(&sessions);
        let stream = InUse::new(&reading);
        tokio::time::advance(HOUR / 2).await;
        drop(InUse::new(&used));
        assert!(sessions.expire(HOUR).is_empty());
        tokio::time::advance(HOUR / 2).await;
        let expired = sessions.expire(HOUR);
        assert_eq!(expired.len(), 1);
        assert!(Arc::ptr_eq(&expired[0], &forgotten));
        tokio::time::advance(HOUR / 2).await;
        assert!(Arc::ptr_eq(&sessions.expire(HOUR)[0], &used), "an hour after its last request");
        tokio::time::advance(10 * HOUR).await;
        assert!(sessions.expire(HOUR).is_empty(), "an open stream is use, however long it is quiet");
        drop(stream);
        assert!(sessions.expire(HOUR).is_empty(), "the hour begins when the stream ends");
        tokio::time::advance(HOUR).await;
        assert_eq!(sessions.expire(HOUR).len(), 1);
    }

    // edges G8
    #[tokio::test(start_paused = true)]
    async fn the_session_that_was_idle_longest_gives_way_and_never_one_in_use() {
        let sessions = sessions(3);
        let mut all = Vec::new();
        for _ in 0..3 {
            all.push(add(&sessions).0);
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        let running = InUse::new(&all[0]);
        drop(InUse::new(&all[1]));
        let (newest, entered) = add(&sessions);
        assert!(
            entered.displaced.is_some_and(|gone| Arc::ptr_eq(&gone, &all[2])),
            "the first is in use, the second was lately"
        );
        let held: Vec<InUse> = [&all[1], &newest].map(InUse::new).into_iter().collect();
        assert!(sessions.add(&sessions.make()).is_err(), "all are in use");
        drop((running, held));
        assert!(sessions.add(&sessions.make()).is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn clients_with_a_seat_count_as_sessions_in_use() {
        let sessions = sessions(2);
        let (idle, _) = add(&sessions);
        assert!(sessions.take_seat().is_ok_and(|displaced| displaced.is_none()));
        assert!(
            sessions.take_seat().ok().flatten().is_some_and(|gone| Arc::ptr_eq(&gone, &idle)),
            "who is idle gives way"
        );
        assert!(sessions.take_seat().is_err() && sessions.add(&sessions.make()).is_err(), "all are in use");
        sessions.leave_seat();
        assert!(sessions.add(&sessions.make()).is_ok());
    }

    #[tokio::test]
    async fn what_the_engine_delivers_to_does_not_keep_the_session() {
        let session = sessions(1).make();
        let (sink, kept) = (session.sink(), Arc::downgrade(&session));
        drop(session);
        assert!(
            kept.upgrade().is_none(),
            "the engine's session holds its sink, and the HTTP session holds the engine's"
        );
        sink.wake();
    }
}
