//! What a legacy server-to-client stream has carried, so that a client whose connection broke can go on where it was.

mod kept;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures_util::{Stream, stream};
use tidings_wire::{Payload, one_line, sse};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use kept::Kept;

use super::body::{Handed, KEEP_ALIVE, QUIET};
use super::retention::{Claim, Retention};
use super::sessions::HttpSession;

/// How long a client should wait before it comes back, in milliseconds.
const RETRY: u64 = 1_000;

/// One stream of a session: that of a request, or the standalone one.
pub(super) struct ReplyStream {
    /// Its number in the session, which begins its event ids.
    pub(super) number: u64,
    state: Mutex<State>,
    changed: Notify,
    readers: AtomicU64,
}

#[derive(Default)]
struct State {
    kept: Kept,
    /// The server closed its stream for a while; the client is let go and comes back.
    interrupted: Option<Duration>,
    over: bool,
    delivered: bool,
    /// What waits for the answer to be written.
    handed: Handed,
    /// Its place among the answers that are kept, once it is over.
    claim: Option<Claim>,
}

impl ReplyStream {
    pub(super) fn new(number: u64) -> Arc<Self> {
        Arc::new(Self { number, state: Mutex::default(), changed: Notify::new(), readers: AtomicU64::new(0) })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn push(&self, message: Bytes) {
        self.add(message.into(), false);
    }

    /// Ends the stream, with the answer if there is one.
    pub(super) fn finish(&self, answer: Option<Payload>, handed: Handed) {
        match answer {
            Some(answer) => {
                self.lock().handed = handed;
                self.add(answer, true);
            }
            None => {
                self.lock().over = true;
                self.changed.notify_waiters();
            }
        }
    }

    pub(super) fn interrupt(&self, pause: Duration) {
        let mut state = self.lock();
        state.interrupted = Some(pause);
        drop(state);
        self.changed.notify_waiters();
    }

    fn add(&self, message: Payload, last: bool) {
        let mut state = self.lock();
        state.over |= last;
        state.kept.add(message, false);
        drop(state);
        self.changed.notify_waiters();
    }

    /// There may be something for the newest reader to take.
    pub(super) fn wake(&self) {
        self.changed.notify_waiters();
    }

    pub(super) fn is_over(&self) -> bool {
        self.lock().over
    }

    /// It is over: from now on what it carried counts among what is kept.
    pub(super) fn claim(&self, retention: &Arc<Retention>, session: &Arc<HttpSession>) {
        let bytes = self.lock().kept.bytes();
        let claim = retention.claim(session, self.number, bytes);
        self.lock().claim = Some(claim);
    }

    /// How many bytes count for it.
    pub(super) fn claimed(&self) -> usize {
        self.lock().claim.as_ref().map_or(0, |claim| claim.bytes)
    }

    /// It is not kept any more.
    pub(super) fn release(&self) {
        let claim = self.lock().claim.take();
        drop(claim);
    }

    /// Whether it has carried nothing yet.
    pub(super) fn is_empty(&self) -> bool {
        self.lock().kept.bytes() == 0
    }

    /// Whether it is over and a client has had all of it.
    pub(super) fn is_done(&self) -> bool {
        let state = self.lock();
        state.over && state.delivered
    }

    /// The events after `after` (without it: those that nobody was given), as text. `prime`: begin with an event that
    /// only carries an id. The newest reader gets what comes from now on; older ones stay open and quiet.
    pub(super) fn read(
        self: &Arc<Self>,
        after: Option<u64>,
        prime: bool,
        owed: Option<Owed>,
        closing: CancellationToken,
    ) -> impl Stream<Item = Bytes> + Send + 'static {
        let mut state = self.lock();
        let reader = self.readers.fetch_add(1, Ordering::SeqCst) + 1;
        state.interrupted = None;
        let next = after.unwrap_or(state.kept.carried());
        drop(state);
        self.changed.notify_waiters();
        let cursor = Cursor {
            stream: Arc::clone(self),
            next,
            reader,
            prime,
            ended: false,
            owed,
            handed: Handed::default(),
            closing,
        };
        stream::unfold(cursor, |mut cursor| async move { cursor.step().await.map(|chunk| (chunk, cursor)) })
    }
}

struct Cursor {
    stream: Arc<ReplyStream>,
    next: u64,
    reader: u64,
    prime: bool,
    ended: bool,
    owed: Option<Owed>,
    /// Dropped with the connection that carried the answer, at its end.
    handed: Handed,
    closing: CancellationToken,
}

/// Takes what the client is owed; called only when there is a stream to carry it.
pub(super) type Owed = Box<dyn Fn() -> Vec<Bytes> + Send + Sync>;

impl Cursor {
    async fn step(&mut self) -> Option<Bytes> {
        if std::mem::take(&mut self.prime) {
            return Some(sse::encode(Some(&self.event_id(self.next)), Some(RETRY), b""));
        }
        let stream = Arc::clone(&self.stream);
        loop {
            let changed = stream.changed.notified();
            if self.ended {
                return None;
            }
            if let Some(chunk) = self.look() {
                return Some(chunk);
            }
            if self.ended {
                return None;
            }
            tokio::select! {
                () = changed => {}
                () = tokio::time::sleep(QUIET) => return Some(Bytes::from_static(KEEP_ALIVE)),
                // Only the standalone stream has nothing to finish.
                () = self.closing.cancelled(), if stream.number == 0 => return None,
            }
        }
    }

    /// The next event, if there is one for this reader.
    fn look(&mut self) -> Option<Bytes> {
        let is_newest = || self.stream.readers.load(Ordering::SeqCst) == self.reader;
        // What is owed is taken when nothing else waits: what a slow reader is owed does not pile up here.
        let is_idle = || self.stream.lock().kept.at(self.next).is_none();
        let owed = self.owed.as_ref().filter(|_| is_newest() && is_idle()).map(|take| take()).unwrap_or_default();
        let mut state = self.stream.lock();
        let newest = is_newest();
        if !newest && !owed.is_empty() {
            // A newer reader came in between, and may have looked already.
            self.stream.changed.notify_waiters();
        }
        for message in owed {
            // Kept like every other event: a client that comes back finds it again.
            state.kept.add(message.into(), true);
        }
        let waiting = state.kept.at(self.next).map(|(number, data, last)| (number, data.clone(), last));
        if newest && let Some((number, data, last)) = waiting {
            self.next = number + 1;
            state.kept.carry(self.next);
            if state.over && last {
                state.delivered = true;
                self.handed = std::mem::take(&mut state.handed);
                self.ended = true;
            }
            drop(state);
            return Some(sse::encode(Some(&self.event_id(self.next)), None, &one_line(&data.to_bytes())));
        }
        if let Some(pause) = state.interrupted.take().filter(|_| newest) {
            self.ended = true;
            drop(state);
            let pause = u64::try_from(pause.as_millis()).unwrap_or(u64::MAX);
            return Some(sse::encode(Some(&self.event_id(self.next)), Some(pause), b""));
        }
        self.ended |= state.over;
        None
    }

    fn event_id(&self, sequence: u64) -> String {
        format!("{}-{sequence}", self.stream.number)
    }
}

/// Splits an event id into the stream's number and the sequence.
pub(super) fn parse_event_id(id: &str) -> Option<(u64, u64)> {
    let (stream, sequence) = id.split_once('-')?;
    Some((stream.parse().ok()?, sequence.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use futures_util::StreamExt as _;

    use super::*;

    // bridging 27
    #[tokio::test]
    async fn what_is_owed_is_taken_only_when_nothing_else_waits_for_the_reader() {
        let stream = ReplyStream::new(0);
        let taken = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&taken);
        let owed: Owed = Box::new(move || match counter.fetch_add(1, Ordering::SeqCst) {
            0 => vec![Bytes::from_static(b"1"), Bytes::from_static(b"2")],
            _ => Vec::new(),
        });
        stream.push(Bytes::from_static(b"0"));
        let mut reader = Box::pin(stream.read(None, false, Some(owed), CancellationToken::new()));
        for (expected, takes) in [("0", 0), ("1", 1), ("2", 1)] {
            let event = reader.next().await.unwrap_or_default();
            assert!(String::from_utf8_lossy(&event).contains(&format!("data: {expected}")), "{event:?}");
            assert_eq!(taken.load(Ordering::SeqCst), takes, "before {expected}");
        }
    }
}
