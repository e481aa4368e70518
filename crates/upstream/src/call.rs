//! What comes back for one call.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_util::Stream;
use tidings_wire::{Frame, Kind};
use tokio::sync::{mpsc, oneshot};

use crate::LinkError;

/// How many messages may wait for a slow client before notifications of that call are dropped.
const QUEUE: usize = 1_024;

/// Another tool to be called in the place of the one that was asked for, for the same client and as the same request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redirect {
    /// The server that has the tool, by its configured name; then `name` is what that server calls it. Without, `name` is
    /// one that clients use.
    pub server: Option<String>,
    /// The tool.
    pub name: String,
    /// Its arguments, raw; passed on as they are.
    pub arguments: Option<Bytes>,
}

/// Something that happened to a call. The last three end it.
#[derive(Clone, Debug)]
pub enum CallEvent {
    /// The server has taken the request, and answers it on a stream of its own (HTTP only).
    Accepted,
    /// The server opened a stream that can be resumed, and has said nothing yet.
    Opened,
    /// A notification or request of the server that belongs to this call.
    Message(Frame),
    /// The server closed the stream for now; it will be picked up again after this time.
    Interrupted(Duration),
    /// The connection broke; it will be picked up again.
    Broken,
    /// Not an answer but who is to give it (servers inside the process only).
    Redirect(Redirect),
    /// The answer.
    Response(Frame),
    /// There will be no answer.
    Failed(LinkError),
}

/// The events of one call, in the order in which the server sent them.
pub struct CallStream(Pin<Box<dyn Stream<Item = CallEvent> + Send>>);

impl CallStream {
    /// Wraps a stream of events.
    pub fn new(events: impl Stream<Item = CallEvent> + Send + 'static) -> Self {
        Self(Box::pin(events))
    }

    /// A call that failed before it began.
    pub fn failed(error: LinkError) -> Self {
        Self::new(futures_util::stream::iter([CallEvent::Failed(error)]))
    }

    /// A call that begins with something else: what it gives is the rest.
    pub fn after(first: impl Future<Output = Self> + Send + 'static) -> Self {
        use futures_util::FutureExt as _;
        Self::new(first.map(|rest| rest.0).flatten_stream())
    }

    /// The same stream, which keeps something until it is dropped.
    pub fn keeping(self, kept: impl Send + Unpin + 'static) -> Self {
        Self(Box::pin(Keeping { events: self.0, _kept: kept }))
    }

    /// The next event; a stream that ends without an answer counts as lost.
    pub async fn next(&mut self) -> CallEvent {
        std::future::poll_fn(|cx| self.0.as_mut().poll_next(cx)).await.unwrap_or(CallEvent::Failed(LinkError::Lost))
    }

    /// Waits for the answer and ignores everything before it.
    pub async fn answer(mut self) -> Result<Frame, LinkError> {
        loop {
            match self.next().await {
                CallEvent::Response(frame) => return Ok(frame),
                CallEvent::Failed(error) => return Err(error),
                _ => {}
            }
        }
    }
}

struct Keeping<K> {
    events: Pin<Box<dyn Stream<Item = CallEvent> + Send>>,
    _kept: K,
}

impl<K: Unpin> Stream for Keeping<K> {
    type Item = CallEvent;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<CallEvent>> {
        self.events.as_mut().poll_next(cx)
    }
}

/// The sending half for a link whose reader serves many calls.
pub struct CallQueue {
    messages: mpsc::Sender<CallEvent>,
    end: oneshot::Sender<CallEvent>,
}

struct Queued {
    messages: mpsc::Receiver<CallEvent>,
    end: oneshot::Receiver<CallEvent>,
}

/// A bounded queue for one call. The answer has a place of its own: it is never dropped and never overtakes.
pub fn call_channel() -> (CallQueue, CallStream) {
    let (messages, receiver) = mpsc::channel(QUEUE);
    let (end, ended) = oneshot::channel();
    (CallQueue { messages, end }, CallStream::new(Queued { messages: receiver, end: ended }))
}

impl CallQueue {
    /// Queues a message. Gives it back when the client is too slow: a dropped notification costs only that client, a
    /// dropped request must be refused by the caller.
    pub fn push(&self, frame: Frame) -> Option<Frame> {
        match self.messages.try_send(CallEvent::Message(frame)).err()?.into_inner() {
            CallEvent::Message(frame) => Some(frame),
            _ => None,
        }
    }

    /// Ends the call. Tells whether somebody was there to hear it.
    pub fn finish(self, event: CallEvent) -> bool {
        drop(self.messages);
        self.end.send(event).is_ok()
    }

    /// Ends the call with the server's answer. Tells whether somebody was there to hear it.
    pub fn answer(self, frame: Frame) -> bool {
        debug_assert!(matches!(frame.kind(), Kind::Response | Kind::Error));
        self.finish(CallEvent::Response(frame))
    }
}

impl Stream for Queued {
    type Item = CallEvent;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<CallEvent>> {
        if let Some(event) = std::task::ready!(self.messages.poll_recv(cx)) {
            return Poll::Ready(Some(event));
        }
        Pin::new(&mut self.end).poll(cx).map(Result::ok)
    }
}
