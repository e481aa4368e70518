//! What comes back for one call: a stream that ends with the answer, and the bounded queue that links fill it through.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use futures_util::Stream;
use tidings_proto::{PublicName, ServerMessage};
use tidings_sync::Lock;
use tidings_wire::{Frame, FrameKind};

use crate::LinkError;

/// How many messages, and how many bytes of them, may wait for a slow client before notifications of that call are dropped.
const QUEUE: usize = 1_024;
const QUEUE_BYTES: usize = 8 << 20;

/// Another tool to be called in the place of the one that was asked for, for the same client and as the same request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolRedirect {
    /// The tool to call in its place.
    pub name: PublicName,
    /// Its arguments, raw; passed on as they are.
    pub arguments: Option<Bytes>,
}

/// Something that happened to a call. The last five end it.
#[derive(Clone, Debug)]
pub enum CallEvent {
    /// The server has taken the request, and answers it on a stream of its own (HTTP only).
    Accepted,
    /// The server opened a stream that can be resumed, and has said nothing yet.
    Opened,
    /// A notification or request of the server that belongs to this call.
    Message(ServerMessage),
    /// The server closed the stream for now; it will be picked up again after this time.
    Interrupted(Duration),
    /// The connection broke; it will be picked up again.
    Broken,
    /// Not an answer but who is to give it (servers inside the process only).
    Redirect(ToolRedirect),
    /// Not an answer but the server that whoever calls has to log in to (servers inside the process only).
    LoginWanted(String),
    /// The answer of the server, result or error; nothing comes after it.
    Response(Frame),
    /// The server refused it, as it seems because of the session or the era: then it was not run. If that proves wrong, what the
    /// server said is the answer.
    Refused {
        /// What the server said, if that is an answer.
        answer: Option<Frame>,
        /// What it seems to mean.
        error: LinkError,
    },
    /// The link was over before anything of the call was sent: the server knows nothing of it.
    Unsent(LinkError),
    /// There will be no answer.
    Failed(LinkError),
}

/// The events of one call, in the order in which the server sent them.
pub struct CallStream {
    events: Pin<Box<dyn Stream<Item = CallEvent> + Send>>,
    gathering: Option<Arc<dyn GatheredBytes>>,
}

/// Knows how much of the memory for messages a call takes for one that is not whole yet.
pub(crate) trait GatheredBytes: Send + Sync {
    fn gathered(&self) -> usize;
}

impl CallStream {
    /// Wraps a stream of events.
    pub fn new(events: impl Stream<Item = CallEvent> + Send + 'static) -> Self {
        Self { events: Box::pin(events), gathering: None }
    }

    /// The same stream, which can tell what it gathers.
    pub(crate) fn gathering(self, gathering: Arc<dyn GatheredBytes>) -> Self {
        Self { gathering: Some(gathering), ..self }
    }

    /// How much of the memory for messages it takes for one that is not whole yet. Only calls over HTTP to servers of the legacy era can
    /// tell: the others are not read on when they are given up.
    pub fn gathered(&self) -> usize {
        self.gathering.as_ref().map_or(0, |gathering| gathering.gathered())
    }

    /// A call that failed before it began.
    pub fn failed(error: LinkError) -> Self {
        Self::new(futures_util::stream::iter([CallEvent::Failed(error)]))
    }

    /// A call on a link that was over already.
    pub(crate) fn unsent(error: LinkError) -> Self {
        Self::new(futures_util::stream::iter([CallEvent::Unsent(error)]))
    }

    /// A call that begins with something else: what it gives is the rest.
    pub fn after(first: impl Future<Output = Self> + Send + 'static) -> Self {
        use futures_util::FutureExt as _;
        Self::new(first.map(|rest| rest.events).flatten_stream())
    }

    /// The same stream, which keeps something until it is dropped.
    pub fn keeping(self, kept: impl Send + Unpin + 'static) -> Self {
        Self { events: Box::pin(KeepingStream { events: self.events, _kept: kept }), gathering: self.gathering }
    }

    /// The next event; a stream that ends without an answer counts as lost.
    pub async fn next(&mut self) -> CallEvent {
        // Not a panic and not a hang: whoever waits for a call always gets an end.
        std::future::poll_fn(|cx| self.events.as_mut().poll_next(cx))
            .await
            .unwrap_or(CallEvent::Failed(LinkError::Lost))
    }

    /// Waits for the answer and ignores everything before it.
    pub async fn answer(mut self) -> Result<Frame, LinkError> {
        loop {
            match self.next().await {
                CallEvent::Response(frame) => return Ok(frame),
                CallEvent::Failed(error) | CallEvent::Unsent(error) | CallEvent::Refused { error, .. } => {
                    return Err(error);
                }
                _ => {}
            }
        }
    }
}

struct KeepingStream<K> {
    events: Pin<Box<dyn Stream<Item = CallEvent> + Send>>,
    _kept: K,
}

impl<K: Unpin> Stream for KeepingStream<K> {
    type Item = CallEvent;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<CallEvent>> {
        self.events.as_mut().poll_next(cx)
    }
}

/// The sending half for a link whose reader serves many calls. Dropped without an end, it ends the stream, which then counts as
/// lost.
pub struct CallQueue(Arc<Lock<QueuedEvents>>);

struct QueuedStream(Arc<Lock<QueuedEvents>>);

/// What waits for whoever reads the stream of a call. It takes room only while something waits: thousands of calls may be silent
/// for minutes.
#[derive(Default)]
struct QueuedEvents {
    messages: VecDeque<ServerMessage>,
    /// How many bytes they have together.
    bytes: usize,
    end: QueueEnd,
    /// Nobody reads any more.
    is_unread: bool,
    reader: Option<Waker>,
}

#[derive(Default)]
enum QueueEnd {
    /// More may come.
    #[default]
    Open,
    /// The last event, not read yet.
    Last(Box<CallEvent>),
    Over,
}

/// A bounded queue for one call. The answer has a place of its own: it is never dropped and never overtakes.
pub fn call_channel() -> (CallQueue, CallStream) {
    let events = Arc::new(Lock::new(QueuedEvents::default()));
    (CallQueue(Arc::clone(&events)), CallStream::new(QueuedStream(events)))
}

impl CallQueue {
    /// Queues a message. Gives it back when the client is too slow: a dropped notification costs only that client, a
    /// dropped request must be refused by the caller.
    pub fn push(&self, message: ServerMessage) -> Option<ServerMessage> {
        let len = message.bytes().len();
        let mut events = self.0.lock();
        // One message is always taken, however long.
        let is_full = events.messages.len() >= QUEUE || events.bytes > 0 && events.bytes + len > QUEUE_BYTES;
        if is_full || events.is_unread {
            return Some(message);
        }
        events.bytes += len;
        events.messages.push_back(message);
        let reader = events.reader.take();
        drop(events);
        wake(reader);
        None
    }

    /// Ends the call. Tells whether somebody was there to hear it.
    pub fn finish(self, event: CallEvent) -> bool {
        let mut events = self.0.lock();
        if events.is_unread {
            return false;
        }
        events.end = QueueEnd::Last(Box::new(event));
        let reader = events.reader.take();
        drop(events);
        wake(reader);
        true
    }

    /// Ends the call with the server's answer. Tells whether somebody was there to hear it.
    pub fn answer(self, frame: Frame) -> bool {
        debug_assert!(matches!(frame.kind(), FrameKind::Response | FrameKind::Error));
        self.finish(CallEvent::Response(frame))
    }
}

impl Drop for CallQueue {
    fn drop(&mut self) {
        let mut events = self.0.lock();
        // Runs after `finish` too, whose end must stay.
        if matches!(events.end, QueueEnd::Open) {
            events.end = QueueEnd::Over;
        }
        let reader = events.reader.take();
        drop(events);
        wake(reader);
    }
}

/// Not under the lock: whoever is woken may read at once.
fn wake(reader: Option<Waker>) {
    if let Some(reader) = reader {
        reader.wake();
    }
}

impl Stream for QueuedStream {
    type Item = CallEvent;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<CallEvent>> {
        let mut events = self.0.lock();
        // The messages first: the end may be there already, and must not overtake them.
        if let Some(message) = events.messages.pop_front() {
            events.bytes -= message.bytes().len();
            return Poll::Ready(Some(CallEvent::Message(message)));
        }
        match std::mem::replace(&mut events.end, QueueEnd::Over) {
            QueueEnd::Last(event) => Poll::Ready(Some(*event)),
            QueueEnd::Over => Poll::Ready(None),
            QueueEnd::Open => {
                events.end = QueueEnd::Open;
                // Without its buffer: whoever waits may wait long.
                events.messages = VecDeque::new();
                if events.reader.as_ref().is_none_or(|reader| !reader.will_wake(cx.waker())) {
                    events.reader = Some(cx.waker().clone());
                }
                Poll::Pending
            }
        }
    }
}

impl Drop for QueuedStream {
    fn drop(&mut self) {
        let mut events = self.0.lock();
        events.is_unread = true;
        let (messages, reader) = (std::mem::take(&mut events.messages), events.reader.take());
        drop(events);
        // Outside the lock: there may be megabytes to free.
        drop((messages, reader));
    }
}

#[cfg(test)]
mod tests {
    use tidings_proto::notifications;
    use tidings_wire::{FrameLimits, notification};

    use super::*;

    fn message(len: usize) -> ServerMessage {
        let params = format!("{{\"data\":\"{}\"}}", "x".repeat(len));
        let bytes = notification(notifications::MESSAGE, Some(params.as_bytes()));
        Frame::parse(bytes, &FrameLimits::default()).unwrap().into()
    }

    // edges D3
    #[tokio::test]
    async fn a_queue_is_bounded_in_bytes_and_has_room_again_when_it_is_read() {
        let (queue, mut stream) = call_channel();
        assert!(queue.push(message(3 << 20)).is_none());
        assert!(queue.push(message(3 << 20)).is_none());
        assert!(queue.push(message(3 << 20)).is_some(), "nine mebibytes are too many");
        assert!(queue.push(message(1 << 10)).is_none(), "a short one still fits");
        assert!(matches!(stream.next().await, CallEvent::Message(_)));
        assert!(queue.push(message(3 << 20)).is_none());
        let (queue, _stream) = call_channel();
        assert!(queue.push(message(20 << 20)).is_none(), "one is taken however long it is");
    }

    #[tokio::test]
    async fn messages_come_before_the_end_and_a_queue_that_is_dropped_is_a_loss() {
        let (queue, mut stream) = call_channel();
        let reading = tokio::spawn(async move {
            let first = stream.next().await;
            (first, stream.next().await, stream.next().await, stream.next().await)
        });
        tokio::task::yield_now().await;
        assert!(queue.push(message(1)).is_none());
        assert!(queue.push(message(2)).is_none());
        assert!(queue.finish(CallEvent::Failed(LinkError::Stopped)));
        let (first, second, third, after) = reading.await.unwrap();
        assert!(matches!((first, second), (CallEvent::Message(_), CallEvent::Message(_))));
        assert!(matches!(third, CallEvent::Failed(LinkError::Stopped)));
        assert!(matches!(after, CallEvent::Failed(LinkError::Lost)));

        let (queue, mut stream) = call_channel();
        let reading = tokio::spawn(async move { (stream.next().await, stream.next().await) });
        tokio::task::yield_now().await;
        assert!(queue.push(message(1)).is_none());
        drop(queue);
        assert!(matches!(reading.await.unwrap(), (CallEvent::Message(_), CallEvent::Failed(LinkError::Lost))));

        let (queue, stream) = call_channel();
        assert!(queue.push(message(1)).is_none());
        drop(stream);
        assert!(queue.push(message(1)).is_some(), "nobody is there to take it");
        assert!(!queue.finish(CallEvent::Failed(LinkError::Stopped)), "nor to hear of the end");
    }

    #[tokio::test]
    async fn a_queue_is_bounded_in_messages() {
        let (queue, mut stream) = call_channel();
        for _ in 0..QUEUE {
            assert!(queue.push(message(1)).is_none());
        }
        assert!(queue.push(message(1)).is_some());
        assert!(matches!(stream.next().await, CallEvent::Message(_)));
        assert!(queue.push(message(1)).is_none(), "there is room again");
    }
}
