//! An event stream that remembers what it sent, so that it can be resumed.

use std::pin::Pin;
use std::sync::Mutex;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::Frame;
use tidings_wire::{one_line, sse};
use tokio::sync::mpsc;

use crate::record::lock;

/// One stream of a session. Events are numbered from 1; 0 is the one that primes a resumption.
pub(crate) struct EventStream {
    name: String,
    inner: Mutex<EventStreamState>,
}

#[derive(Default)]
struct EventStreamState {
    events: Vec<Bytes>,
    /// How many were handed to a connection.
    delivered: usize,
    writer: Option<mpsc::UnboundedSender<Bytes>>,
    ended: bool,
}

impl EventStream {
    pub(crate) fn new(name: String) -> Self {
        Self { name, inner: Mutex::default() }
    }

    /// The number behind this stream's name in an event id.
    pub(crate) fn position(&self, event_id: &str) -> Option<usize> {
        event_id.strip_prefix(&self.name)?.strip_prefix('-')?.parse().ok()
    }

    fn encode(&self, number: usize, data: &[u8]) -> Bytes {
        sse::encode(Some(&format!("{}-{number}", self.name)), None, data)
    }

    /// Sends an event, or keeps it until somebody comes for it.
    pub(crate) fn push(&self, message: &Bytes) {
        let mut inner = lock(&self.inner);
        inner.events.push(one_line(message));
        self.flush(&mut inner);
    }

    fn flush(&self, inner: &mut EventStreamState) {
        let Some(writer) = &inner.writer else { return };
        while inner.delivered < inner.events.len() {
            let number = inner.delivered + 1;
            if writer.send(self.encode(number, &inner.events[inner.delivered])).is_err() {
                inner.writer = None;
                return;
            }
            inner.delivered = number;
        }
        if inner.ended {
            // Dropping the writer ends the response, after all that it was given.
            inner.writer = None;
        }
    }

    /// A new connection takes over: from after an event, or from what nobody got yet.
    pub(crate) fn attach(&self, after: Option<usize>, priming: bool) -> mpsc::UnboundedReceiver<Bytes> {
        let (writer, reader) = mpsc::unbounded_channel();
        let mut inner = lock(&self.inner);
        if let Some(after) = after {
            // A number from the future would leave out events that are still to come.
            inner.delivered = after.min(inner.events.len());
        }
        if priming {
            // An event with an id and no data, so that the client can resume before the first message.
            let _ = writer.send(self.encode(inner.delivered, b""));
        }
        inner.writer = Some(writer);
        self.flush(&mut inner);
        reader
    }

    /// Whether a connection carries it now.
    pub(crate) fn is_attached(&self) -> bool {
        lock(&self.inner).writer.as_ref().is_some_and(|writer| !writer.is_closed())
    }

    /// Closes the connection but not the stream.
    pub(crate) fn detach(&self, retry: Option<u64>) {
        let mut inner = lock(&self.inner);
        if let (Some(writer), Some(retry)) = (&inner.writer, retry) {
            let id = format!("{}-{}", self.name, inner.delivered);
            let _ = writer.send(sse::encode(Some(&id), Some(retry), b""));
        }
        inner.writer = None;
    }

    /// Nothing more will come.
    pub(crate) fn end(&self) {
        let mut inner = lock(&self.inner);
        inner.ended = true;
        self.flush(&mut inner);
    }
}

/// Calls its function when the response is dropped before its end.
pub(crate) struct DropGuard(pub(crate) Option<Box<dyn FnOnce() + Send>>);

impl DropGuard {
    pub(crate) fn disarm(&mut self) {
        self.0 = None;
    }
}

impl Drop for DropGuard {
    fn drop(&mut self) {
        if let Some(function) = self.0.take() {
            function();
        }
    }
}

/// A response body of chunks as they come.
pub(crate) struct ChannelBody {
    pub(crate) chunks: mpsc::UnboundedReceiver<Bytes>,
    pub(crate) guard: DropGuard,
}

impl http_body::Body for ChannelBody {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let next = std::task::ready!(self.chunks.poll_recv(cx));
        if next.is_none() {
            self.guard.disarm();
        }
        Poll::Ready(next.map(|chunk| Ok(Frame::data(chunk))))
    }
}
