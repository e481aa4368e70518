//! Lines on their way to standard output.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use bytes::BytesMut;
use tidings_engine::ClientSink;
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::Notify;

/// Above this, input is not read: what is in flight may still be answered.
const FULL: usize = 16 << 20;
/// Above this, nobody is told of changes: they are told later, as one.
const ENOUGH: usize = 64 << 10;
/// Above this, what nobody asked for is dropped.
const DROP: usize = 4 << 20;

#[derive(Default)]
pub(super) struct Outbox {
    state: Mutex<State>,
    filled: Notify,
    emptied: Notify,
    /// Who is owed something when there is room again.
    news: OnceLock<Weak<dyn ClientSink>>,
}

#[derive(Default)]
struct State {
    /// Somebody found no room.
    is_wanted: bool,
    waiting: BytesMut,
    closed: bool,
    /// The reader is gone: nothing can be written any more.
    broken: bool,
}

impl Outbox {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds one line. Bounded by the requests in flight, since input stops when the box is full.
    pub(super) fn push(&self, line: &[u8]) {
        let mut state = self.lock();
        if state.broken {
            return;
        }
        state.waiting.extend_from_slice(line);
        if !line.ends_with(b"\n") {
            state.waiting.extend_from_slice(b"\n");
        }
        drop(state);
        self.filled.notify_one();
    }

    /// Adds one line, unless the client is far behind.
    pub(super) fn push_droppable(&self, line: &bytes::Bytes) {
        if self.lock().waiting.len() < DROP {
            self.push(&tidings_wire::one_line(line));
        } else {
            tracing::warn!("the client does not read; a message was dropped");
        }
    }

    /// Who is woken when there is room again.
    pub(super) fn serve(&self, news: Weak<dyn ClientSink>) {
        let _ = self.news.set(news);
    }

    /// Whether a client that reads may be told of changes. If not, it is woken when it has read.
    pub(super) fn has_room_for_news(&self) -> bool {
        let mut state = self.lock();
        let has_room = state.waiting.len() < ENOUGH && !state.broken;
        state.is_wanted |= !has_room;
        has_room
    }

    fn wake_news(&self) {
        let is_wanted = std::mem::take(&mut self.lock().is_wanted);
        if let Some(news) = self.news.get().and_then(Weak::upgrade).filter(|_| is_wanted) {
            news.wake();
        }
    }

    fn may_read(&self) -> bool {
        let state = self.lock();
        state.broken || state.waiting.len() < FULL
    }

    pub(super) async fn has_room(&self) {
        loop {
            let emptied = self.emptied.notified();
            if self.may_read() {
                return;
            }
            emptied.await;
        }
    }

    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.filled.notify_one();
    }
}

/// Writes what gathers, until the box is closed and empty, or the reader is gone.
pub(super) async fn write(outbox: Arc<Outbox>, mut output: impl AsyncWrite + Unpin) {
    loop {
        let (bytes, closed) = {
            let mut state = outbox.lock();
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
        outbox.emptied.notify_waiters();
        outbox.wake_news();
        if broken {
            return;
        }
    }
}
