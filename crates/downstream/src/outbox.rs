//! Messages on their way to a client that has one stream for everything, bounded in bytes: what may be dropped, what waits for room,
//! and what never does. Standard output is such a stream, and so is that of HTTP+SSE.

use std::sync::{Arc, MutexGuard, OnceLock, Weak};

use bytes::{Bytes, BytesMut};
use tidings_engine::{ClientSink, Gateway, Session};
use tidings_sync::Lock;
use tidings_wire::assert_outgoing;
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::Notify;

/// Above this, input is not read: what is in flight may still be answered.
const FULL: usize = 16 << 20;
/// Above this, nobody is told of changes: they are told later, as one.
const ENOUGH: usize = 64 << 10;
/// Above this, what nobody asked for is dropped.
const DROP: usize = 4 << 20;

/// How messages follow one another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum OutboxFraming {
    /// One on each line.
    #[default]
    Lines,
    /// Each an event of an event stream.
    Events,
}

#[derive(Default)]
pub(crate) struct ClientOutbox {
    framing: OutboxFraming,
    state: Lock<ClientOutboxState>,
    filled: Notify,
    emptied: Notify,
    /// Who is owed something when there is room again.
    news: OnceLock<Weak<dyn ClientSink>>,
}

#[derive(Default)]
struct ClientOutboxState {
    /// Somebody found no room.
    is_wanted: bool,
    waiting: BytesMut,
    closed: bool,
    /// The reader is gone: nothing can be written any more.
    broken: bool,
}

impl ClientOutbox {
    pub(crate) fn new(framing: OutboxFraming) -> Self {
        Self { framing, ..Self::default() }
    }

    /// What comes before the first message, as it is.
    pub(crate) fn begin(&self, text: &str) {
        self.lock().waiting.extend_from_slice(text.as_bytes());
        self.filled.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, ClientOutboxState> {
        self.state.lock()
    }

    /// Adds one line. Bounded by the requests in flight, since input stops when the box is full.
    pub(crate) fn push(&self, line: &Bytes) {
        assert_outgoing(line);
        let mut state = self.lock();
        if state.broken {
            return;
        }
        if self.framing == OutboxFraming::Events {
            state.waiting.extend_from_slice(b"event: message\ndata: ");
        }
        state.waiting.extend_from_slice(line);
        if !line.ends_with(b"\n") {
            state.waiting.extend_from_slice(b"\n");
        }
        if self.framing == OutboxFraming::Events {
            state.waiting.extend_from_slice(b"\n");
        }
        drop(state);
        // Keeps a permit: the writer may be in the middle of a write.
        self.filled.notify_one();
    }

    /// Adds one line, unless the client is far behind.
    pub(crate) fn push_droppable(&self, line: &Bytes) {
        if self.lock().waiting.len() < DROP {
            self.push(&tidings_wire::one_line(line));
        } else {
            tracing::warn!("the client does not read; a message was dropped");
        }
    }

    /// Whether a client that reads may be told of changes. If not, it is woken when it has read.
    pub(crate) fn has_room_for_news(&self) -> bool {
        let mut state = self.lock();
        let has_room = state.waiting.len() < ENOUGH && !state.broken;
        // Remembered, so that the writer wakes only who found no room.
        state.is_wanted |= !has_room;
        has_room
    }

    fn wake_news(&self) {
        // The lock is let go with this line: `wake` comes back to this box to ask for room.
        let is_wanted = std::mem::take(&mut self.lock().is_wanted);
        if let Some(news) = self.news.get().and_then(Weak::upgrade).filter(|_| is_wanted) {
            news.wake();
        }
    }

    /// Whether more may be taken from the client: not while it leaves unread what it was answered.
    pub(crate) fn may_read(&self) -> bool {
        let state = self.lock();
        // Whoever can not be written to is read until its input ends, or the loop would wait for ever.
        state.broken || state.waiting.len() < FULL
    }

    pub(crate) async fn has_room(&self) {
        self.wait_until(Self::may_read).await;
    }

    /// Waits until a client that listens may be told of changes.
    pub(crate) async fn has_room_for_a_listen(&self) {
        self.wait_until(|outbox| {
            let state = outbox.lock();
            state.broken || state.closed || state.waiting.len() < ENOUGH
        })
        .await;
    }

    async fn wait_until(&self, fits: impl Fn(&Self) -> bool) {
        loop {
            // Made before the look: `notify_waiters` keeps no permit.
            let emptied = self.emptied.notified();
            if fits(self) {
                return;
            }
            emptied.await;
        }
    }

    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.filled.notify_one();
    }
}

impl ClientOutbox {
    /// Everything that has gathered, as soon as there is something; `None` when the box is closed and empty. Whoever asks has written
    /// what it got before.
    pub(crate) async fn take(&self) -> Option<Bytes> {
        loop {
            let (bytes, closed) = {
                let mut state = self.lock();
                (state.waiting.split().freeze(), state.closed)
            };
            if !bytes.is_empty() {
                self.emptied.notify_waiters();
                self.wake_news();
                return Some(bytes);
            }
            if closed {
                return None;
            }
            self.filled.notified().await;
        }
    }
}

/// What nobody asked for, on its way to the client.
pub(crate) struct UnaskedMessages {
    outbox: Arc<ClientOutbox>,
    gateway: Gateway,
    session: OnceLock<Weak<Session>>,
}

impl UnaskedMessages {
    pub(crate) fn new(outbox: &Arc<ClientOutbox>, gateway: &Gateway) -> Arc<Self> {
        Arc::new(Self { outbox: Arc::clone(outbox), gateway: gateway.clone(), session: OnceLock::new() })
    }

    /// The session has begun: from now on it may be owed something.
    pub(crate) fn serve(self: &Arc<Self>, session: &Arc<Session>) {
        let _ = self.session.set(Arc::downgrade(session));
        let news: Arc<dyn ClientSink> = Arc::clone(self) as _;
        // Weak: the box outlives the session by its last lines, and must not keep it.
        let _ = self.outbox.news.set(Arc::downgrade(&news));
    }
}

impl ClientSink for UnaskedMessages {
    fn push(&self, message: Bytes) {
        self.outbox.push_droppable(&message);
    }

    fn wake(&self) {
        if let Some(session) = self.session.get().and_then(Weak::upgrade) {
            // While the client does not read it is owed what it is owed; the box says when there is room.
            while self.outbox.has_room_for_news()
                // Not droppable: what is handed over here counts as delivered.
                && self.gateway.pass_owed(&session, |notice| self.outbox.push(&notice.message))
            {}
        }
    }

    fn forget_resource(&self, _uri: &str) {
        // What waits in the box is written before any later answer, as it should be.
    }
}

/// Writes what gathers, until the box is closed and empty, or the reader is gone.
pub(crate) async fn write(outbox: Arc<ClientOutbox>, mut output: impl AsyncWrite + Unpin) {
    loop {
        let (bytes, closed) = {
            let mut state = outbox.lock();
            // Everything that has gathered goes out in one write.
            (state.waiting.split().freeze(), state.closed)
        };
        if bytes.is_empty() {
            if closed {
                return;
            }
            outbox.filled.notified().await;
            continue;
        }
        let broken = output.write_all(&bytes).await.is_err() || output.flush().await.is_err();
        outbox.lock().broken = broken;
        // Also when the reader is gone: whoever waits for room must not wait any more.
        outbox.emptied.notify_waiters();
        outbox.wake_news();
        if broken {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::io::AsyncReadExt as _;

    use super::*;

    #[derive(Default)]
    struct Client(AtomicUsize);

    impl ClientSink for Client {
        fn push(&self, _: bytes::Bytes) {}

        fn wake(&self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }

        fn forget_resource(&self, _: &str) {}
    }

    // bridging 27
    #[tokio::test]
    async fn a_client_that_does_not_read_is_told_later_and_woken_when_it_has_read() {
        let outbox = Arc::new(ClientOutbox::default());
        let client = Arc::new(Client::default());
        let news: Arc<dyn ClientSink> = Arc::clone(&client) as _;
        let _ = outbox.news.set(Arc::downgrade(&news));
        assert!(outbox.has_room_for_news());
        let lines = ENOUGH / 100 + 1;
        let method = "x".repeat(99 - tidings_wire::notification("", None).len());
        let line = tidings_wire::notification(&method, None);
        for _ in 0..lines {
            outbox.push(&line);
        }
        assert!(!outbox.has_room_for_news(), "somebody wants to tell");
        assert_eq!(client.0.load(Ordering::SeqCst), 0);
        let (reader, writer) = tokio::io::duplex(1 << 10);
        outbox.close();
        let writing = tokio::spawn(write(Arc::clone(&outbox), writer));
        let mut read = Vec::new();
        let mut reader = reader;
        reader
            .read_to_end(&mut read)
            .await
            .map_or_else(|error| panic!("{error}"), |count| assert_eq!(count, lines * 100));
        writing.await.map_or_else(|error| panic!("{error}"), drop);
        assert!(outbox.has_room_for_news());
        assert_eq!(client.0.load(Ordering::SeqCst), 1);
    }
}
