//! Lines on their way to standard output.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::BytesMut;
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::Notify;

/// Above this, input is not read: what is in flight may still be answered.
const FULL: usize = 16 << 20;
/// Above this, what nobody asked for is dropped.
const DROP: usize = 4 << 20;

#[derive(Default)]
pub(super) struct Outbox {
    state: Mutex<State>,
    filled: Notify,
    emptied: Notify,
}

#[derive(Default)]
struct State {
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
        if broken {
            return;
        }
    }
}
