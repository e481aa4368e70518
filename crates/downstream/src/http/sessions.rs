//! Legacy sessions over HTTP.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tidings_engine::{ClientSink, Principal, Session};

use super::reply_stream::ReplyStream;

/// How many streams of requests a session keeps for resumption.
const STREAMS: usize = 256;

/// One session.
pub(super) struct HttpSession {
    session: OnceLock<Arc<Session>>,
    streams: Mutex<HashMap<u64, Arc<ReplyStream>>>,
    next_stream: AtomicU64,
    standalone: Arc<ReplyStream>,
    /// Requests and open streams; a session in use is not idle.
    pub(super) in_use: AtomicUsize,
    last_used: Mutex<Instant>,
}

impl HttpSession {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            session: OnceLock::new(),
            streams: Mutex::default(),
            next_stream: AtomicU64::new(1),
            standalone: ReplyStream::new(0),
            in_use: AtomicUsize::new(0),
            last_used: Mutex::new(Instant::now()),
        })
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

    fn streams(&self) -> MutexGuard<'_, HashMap<u64, Arc<ReplyStream>>> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A stream for a new request.
    pub(super) fn new_stream(&self) -> Arc<ReplyStream> {
        ReplyStream::new(self.next_stream.fetch_add(1, Ordering::Relaxed))
    }

    /// Keeps a stream for resumption. What was delivered goes first, then the oldest that is over.
    pub(super) fn keep(&self, stream: &Arc<ReplyStream>) {
        let mut streams = self.streams();
        streams.retain(|_, kept| !kept.is_done());
        while streams.len() >= STREAMS {
            let oldest = streams.values().filter(|kept| kept.is_over()).map(|kept| kept.number).min();
            let Some(oldest) = oldest else { break };
            streams.remove(&oldest);
        }
        streams.insert(stream.number, Arc::clone(stream));
    }

    pub(super) fn stream(&self, number: u64) -> Option<Arc<ReplyStream>> {
        if number == 0 { Some(Arc::clone(&self.standalone)) } else { self.streams().get(&number).cloned() }
    }

    pub(super) fn touch(&self) {
        *self.last_used.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    fn idle_for(&self) -> Duration {
        if self.in_use.load(Ordering::SeqCst) > 0 {
            return Duration::ZERO;
        }
        self.last_used.lock().unwrap_or_else(PoisonError::into_inner).elapsed()
    }
}

impl ClientSink for HttpSession {
    fn push(&self, message: Bytes) {
        self.standalone.push(message);
    }

    fn wake(&self) {
        self.standalone.wake();
    }
}

/// A request or stream that uses a session.
pub(super) struct InUse(Arc<HttpSession>);

impl InUse {
    pub(super) fn new(session: &Arc<HttpSession>) -> Self {
        session.in_use.fetch_add(1, Ordering::SeqCst);
        Self(Arc::clone(session))
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        self.0.touch();
        self.0.in_use.fetch_sub(1, Ordering::SeqCst);
    }
}

/// All sessions, by the id that their clients know.
#[derive(Default)]
pub(super) struct Sessions(Mutex<HashMap<String, Arc<HttpSession>>>);

impl Sessions {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Arc<HttpSession>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a session under a new id; `None` when there are too many.
    pub(super) fn add(&self, session: &Arc<HttpSession>, limit: usize) -> Option<String> {
        let id = random_id()?;
        let mut sessions = self.lock();
        if sessions.len() >= limit {
            return None;
        }
        sessions.insert(id.clone(), Arc::clone(session));
        Some(id)
    }

    /// The session of this person with this id.
    pub(super) fn get(&self, id: &str, principal: &Principal) -> Option<Arc<HttpSession>> {
        let found = self.lock().get(id).cloned()?;
        // Somebody else's session is no session at all: the id is not proof of anything.
        found.session().is_some_and(|session| session.principal() == principal).then_some(found)
    }

    pub(super) fn remove(&self, id: &str) -> Option<Arc<HttpSession>> {
        self.lock().remove(id)
    }

    /// Takes out sessions that nobody has used for this long.
    pub(super) fn expire(&self, idle: Duration) -> Vec<Arc<HttpSession>> {
        let mut expired = Vec::new();
        self.lock().retain(|_, session| {
            let keep = session.idle_for() < idle;
            if !keep {
                expired.push(Arc::clone(session));
            }
            keep
        });
        expired
    }
}

fn random_id() -> Option<String> {
    let mut random = [0; 16];
    getrandom::fill(&mut random).ok()?;
    Some(random.iter().map(|byte| format!("{byte:02x}")).collect())
}
