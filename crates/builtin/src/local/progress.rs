//! What a server in the process says of a call before it answers.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use futures_util::Stream;
use futures_util::future::BoxFuture;
use tidings_proto::notifications;
use tidings_upstream::{CallEvent, in_process};
use tidings_wire::{Frame, encode_string, notification};
use tokio::sync::mpsc;

/// Reports that wait for a slow client; later ones are dropped, the answer never.
const QUEUE: usize = 32;

/// A way to report progress, if the caller asked for it.
pub(crate) struct LocalProgress(Option<ProgressReporter>);

struct ProgressReporter {
    /// The token, as it stands in the request.
    token: String,
    steps: AtomicU64,
    messages: mpsc::Sender<Frame>,
}

impl LocalProgress {
    /// Reports another step. How many there will be is not known, so there is no total.
    pub(crate) fn report(&self, message: &str) {
        let Some(reporter) = &self.0 else { return };
        let step = reporter.steps.fetch_add(1, Ordering::Relaxed) + 1;
        let message = encode_string(message);
        let params = format!(r#"{{"progressToken":{},"progress":{step},"message":{message}}}"#, reporter.token);
        if let Ok(frame) = in_process::frame(notification(notifications::PROGRESS, Some(params.as_bytes()))) {
            // A reader that does not read misses steps, nothing else.
            let _ = reporter.messages.try_send(frame);
        }
    }
}

/// A way to report progress of a request, and what is reported; nothing when its caller gave no token.
pub(super) fn channel(request: &Frame) -> (LocalProgress, Option<mpsc::Receiver<Frame>>) {
    let token = request.param(&["_meta", "progressToken"]).and_then(|at| std::str::from_utf8(request.raw(at)).ok());
    let Some(token) = token else { return (LocalProgress(None), None) };
    let (messages, said) = mpsc::channel(QUEUE);
    (LocalProgress(Some(ProgressReporter { token: token.to_owned(), steps: AtomicU64::new(0), messages })), Some(said))
}

/// The events of a call: all that was said, then the answer.
pub(super) fn before(
    said: mpsc::Receiver<Frame>,
    answer: impl Future<Output = CallEvent> + Send + 'static,
) -> impl Stream<Item = CallEvent> + Send {
    ProgressStream { said, answer: Some(Box::pin(answer)), end: None }
}

struct ProgressStream {
    said: mpsc::Receiver<Frame>,
    answer: Option<BoxFuture<'static, CallEvent>>,
    end: Option<CallEvent>,
}

impl Stream for ProgressStream {
    type Item = CallEvent;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<CallEvent>> {
        if let Some(answer) = &mut self.answer
            // Polled first and held back: what it reported on the way to its end is in the queue then.
            && let Poll::Ready(event) = answer.as_mut().poll(cx)
        {
            self.answer = None;
            self.end = Some(event);
        }
        // Before the end, which waits in `end`: nothing that was said comes after the answer.
        if let Poll::Ready(Some(frame)) = self.said.poll_recv(cx) {
            return Poll::Ready(Some(CallEvent::Message(frame.into())));
        }
        match self.end.take() {
            Some(event) => Poll::Ready(Some(event)),
            // The answer was given: whoever polls once more is told that there is nothing.
            None if self.answer.is_none() => Poll::Ready(None),
            None => Poll::Pending,
        }
    }
}

#[cfg(test)]
mod tests {
    use tidings_upstream::{CallStream, LinkError};
    use tidings_wire::FrameLimits;

    use super::*;

    fn request(meta: &str) -> Frame {
        let text = format!(r#"{{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{{"name":"t"{meta}}}}}"#);
        Frame::parse(text, &FrameLimits::default()).unwrap()
    }

    fn text(event: CallEvent) -> String {
        match event {
            CallEvent::Message(frame) => String::from_utf8_lossy(frame.bytes()).into_owned(),
            other => format!("{other:?}"),
        }
    }

    // S2.8
    #[tokio::test]
    async fn what_is_said_before_the_answer_comes_before_it() {
        let (progress, said) = channel(&request(r#","_meta":{"progressToken":7}"#));
        let answer = async move {
            progress.report("one");
            tokio::task::yield_now().await;
            progress.report("two");
            CallEvent::Failed(LinkError::Lost)
        };
        let mut events = CallStream::new(before(said.unwrap(), answer));
        for (step, word) in [(1, "one"), (2, "two")] {
            let expected = format!(
                r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":7,"progress":{step},"message":"{word}"}}}}"#
            );
            assert_eq!(text(events.next().await), expected);
        }
        assert!(matches!(events.next().await, CallEvent::Failed(_)));
    }

    // bounded queues
    #[tokio::test]
    async fn a_reader_that_does_not_read_loses_steps_but_not_the_answer() {
        let (progress, said) = channel(&request(r#","_meta":{"progressToken":7}"#));
        let answer = async move {
            (0..1_000).for_each(|_| progress.report("again"));
            CallEvent::Failed(LinkError::Lost)
        };
        let mut events = CallStream::new(before(said.unwrap(), answer));
        let mut count = 0;
        while let CallEvent::Message(_) = events.next().await {
            count += 1;
        }
        assert_eq!(count, QUEUE);
    }

    #[test]
    fn without_a_token_nothing_is_said() {
        let (progress, said) = channel(&request(""));
        assert!(said.is_none());
        progress.report("to nobody");
    }
}
