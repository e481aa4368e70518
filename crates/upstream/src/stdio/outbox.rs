//! Bytes on their way into a pipe: writers never wait, and everything that gathered goes out in one write.

use bytes::{Bytes, BytesMut};
use tidings_sync::Lock;
use tidings_wire::assert_outgoing;
use tokio::sync::Notify;

use crate::LinkError;

/// How much may wait for a server that does not read; more is refused.
const LIMIT: usize = 64 << 20;

#[derive(Default)]
pub(super) struct StdioOutbox {
    state: Lock<StdioOutboxState>,
    filled: Notify,
}

#[derive(Default)]
struct StdioOutboxState {
    waiting: BytesMut,
    closed: bool,
}

impl StdioOutbox {
    /// Adds one line; refused when the link is closed, or the server has too much unread.
    pub(super) fn push(&self, line: &Bytes) -> Result<(), LinkError> {
        assert_outgoing(line);
        let mut state = self.state.lock();
        if state.closed {
            return Err(LinkError::Stopped);
        }
        if state.waiting.len() + line.len() > LIMIT {
            return Err(LinkError::Stalled);
        }
        state.waiting.extend_from_slice(line);
        state.waiting.extend_from_slice(b"\n");
        drop(state);
        // Keeps a permit, and the lock is free by now.
        self.filled.notify_one();
        Ok(())
    }

    /// Waits for bytes; `None` after the end.
    pub(super) async fn take(&self) -> Option<Bytes> {
        loop {
            {
                let mut state = self.state.lock();
                if !state.waiting.is_empty() {
                    // Also after `close`: what was taken in is written out.
                    return Some(state.waiting.split().freeze());
                }
                if state.closed {
                    return None;
                }
            }
            self.filled.notified().await;
        }
    }

    /// Nothing more is accepted.
    pub(super) fn close(&self) {
        self.state.lock().closed = true;
        self.filled.notify_one();
    }
}
