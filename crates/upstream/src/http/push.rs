//! The standalone stream on which a legacy server speaks by itself.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::{ACCEPT, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderMap, StatusCode};
use tidings_proto::ServerMessage;
use tidings_wire::sse::SseDecoder;
use tidings_wire::{Frame, FrameError, FrameKind, IncomingMessage};
use tokio::sync::oneshot;

use super::call::is_message;
use super::client::{chunk, read_all};
use super::refusal::{refused, session_refused};
use super::{HttpLinkShared, LAST_EVENT};
use crate::pace::{UnaskedPace, is_unasked};
use crate::{LIMITS, LinkError, MAX_MESSAGE};

/// How long a link waits for the answer to its first request for the stream before it is given out without.
pub(super) const DECIDED_WITHIN: Duration = Duration::from_secs(2);
const RETRY: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(10);
/// The pause before a stream that held is opened again, where the server names none: nothing is heard meanwhile.
const AGAIN: Duration = Duration::from_millis(100);
/// How often in a row the stream may be refused, while the link stays, before the server counts as one that has none.
const REFUSALS: u32 = 2;
/// A stream that is closed before this, with nothing said on it, was closed at once.
const AT_ONCE: Duration = Duration::from_secs(1);

struct PushStream {
    shared: Arc<HttpLinkShared>,
    resume_from: Option<String>,
    /// The pause that the server asks for.
    retry: Option<Duration>,
    /// Whether the stream was ever open on this link.
    opened: bool,
    /// Whether anything was said on the stream.
    spoke: bool,
    /// Told once, as soon as the first request for the stream is answered or has failed.
    decided: Option<oneshot::Sender<()>>,
}

/// Keeps the stream open as long as the link lives.
pub(super) async fn listen(shared: Arc<HttpLinkShared>, decided: oneshot::Sender<()>) {
    let stop = shared.stop.clone();
    let mut push =
        PushStream { shared, resume_from: None, retry: None, opened: false, spoke: false, decided: Some(decided) };
    tokio::select! {
        () = push.run() => {}
        () = stop.cancelled() => {}
    }
}

enum PushEnd {
    /// The server has no such stream.
    Unsupported,
    /// It ended; open it again.
    Closed,
    /// Not now: the server may still hold the stream from before, or have too much to do. With how long it asks to wait.
    Later(Option<Duration>),
    /// It could not be opened.
    Failed,
    /// The server refuses it as if it did not know the session.
    Refused,
}

/// The pause before a stream is asked for again that was put off so many times in a row. The first is short: a balancer that refuses one request
/// is free for the next, and nothing is heard meanwhile.
fn busy_pause(times: u32, asked: Option<Duration>) -> Duration {
    match asked {
        Some(asked) => asked.clamp(RETRY, LONGEST),
        None => RETRY.saturating_mul(times).min(LONGEST / 2),
    }
}

/// In seconds; a date is as good as no word, since no two clocks agree.
fn asked_to_wait(headers: &HeaderMap) -> Option<Duration> {
    headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok().map(Duration::from_secs)
}

impl PushStream {
    async fn run(&mut self) {
        let (mut failures, mut short, mut refusals, mut put_off) = (0_u32, 0_u32, 0_u32, 0_u32);
        loop {
            self.spoke = false;
            let opened = Instant::now();
            match self.once().await {
                PushEnd::Unsupported => return self.unsupported(),
                PushEnd::Closed => {
                    (failures, refusals, put_off) = (0, 0, 0);
                    // Each new stream is a reason to list everything: one that says nothing must not be one all the time.
                    short = if self.spoke || opened.elapsed() >= AT_ONCE { 0 } else { short + 1 };
                }
                PushEnd::Later(asked) => {
                    self.tell_decided();
                    put_off += 1;
                    // Without a count of failures: the server has said that it is there.
                    tokio::time::sleep(busy_pause(put_off, asked)).await;
                    continue;
                }
                PushEnd::Refused => {
                    refusals += 1;
                    // Were it the session, the link would be over by now. A stream that was open before may open again.
                    if refusals >= REFUSALS && !self.opened {
                        return self.unsupported();
                    }
                    failures += 1;
                }
                PushEnd::Failed => failures += 1,
            }
            self.tell_decided();
            tokio::time::sleep(self.pause(failures, short)).await;
        }
    }

    fn tell_decided(&mut self) {
        // Nobody waits any more when the first answer was slow.
        if let Some(decided) = self.decided.take() {
            let _ = decided.send(());
        }
    }

    /// There will be no stream on this link.
    fn unsupported(&mut self) {
        // Set before it is told: whoever is told looks.
        self.shared.push_unsupported.store(true, Ordering::SeqCst);
        self.shared.sink.push_unsupported();
        self.tell_decided();
    }

    fn pause(&self, failures: u32, short: u32) -> Duration {
        let usual = self.retry.unwrap_or(RETRY);
        let longest = LONGEST.max(usual);
        match (failures, short) {
            // A proxy that cuts streams after a while is no failure, and nothing is heard until the next one.
            (0, 0) => self.retry.unwrap_or(AGAIN),
            (0, 1) => usual,
            (0, more) => usual.max(RETRY).saturating_mul(1 << (more - 1).min(16)).min(longest),
            (more, _) => usual.saturating_mul(more).min(longest),
        }
    }

    async fn once(&mut self) -> PushEnd {
        // Read anew each time: the session is known only after `initialize`.
        let state = self.shared.state();
        let mut headers = state.headers.clone();
        headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        if let Some(last) = self.resume_from.as_deref().and_then(|id| HeaderValue::try_from(id).ok()) {
            headers.insert(LAST_EVENT, last);
        }
        let request = self.shared.request(http::Method::GET, headers, Bytes::new());
        let answer = match self.shared.send(request).await {
            Ok(answer) => answer,
            Err(error) => return self.failed(&error),
        };
        let status = answer.status();
        match status {
            _ if status.is_success() => {}
            // The status that the specification gives to servers without such a stream.
            StatusCode::METHOD_NOT_ALLOWED => return PushEnd::Unsupported,
            StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_EARLY | StatusCode::TOO_MANY_REQUESTS => {
                return PushEnd::Later(asked_to_wait(answer.headers()));
            }
            StatusCode::UNAUTHORIZED if answer.headers().contains_key(WWW_AUTHENTICATE) => {
                // Opened again with the newer token, if there is one.
                return match self.shared.credentials_refused(&state, (answer.status(), answer.headers())).await {
                    Ok(_) => PushEnd::Failed,
                    Err(LinkError::Unauthorized(_)) => PushEnd::Unsupported,
                    Err(error) => self.failed(&error),
                };
            }
            _ if status.is_client_error() => {
                // Read in full, for its words and so that the connection can be used again.
                let said = read_all(answer.into_body(), MAX_MESSAGE).await.unwrap_or_default();
                let refusal = session_refused(&state, status).or_else(|| refused(&state, status, None, &said));
                let Some(refusal) = refusal else { return PushEnd::Unsupported };
                self.shared.trouble(&refusal);
                // The server may also still hold the stream from before.
                return if status == StatusCode::CONFLICT { PushEnd::Later(None) } else { PushEnd::Refused };
            }
            _ => return self.failed(&LinkError::Status { status: status.as_u16(), body: None }),
        }
        self.opened = true;
        // Also after a resumption: many servers take the header and remember nothing.
        self.shared.sink.push_opened();
        self.tell_decided();
        let mut decoder = SseDecoder::new(MAX_MESSAGE);
        let mut body = answer.into_body();
        let mut pace = UnaskedPace::default();
        while let Some(Ok(bytes)) = chunk(&mut body).await {
            decoder.push(&bytes);
            loop {
                match decoder.next_event_within(Some(&self.shared.memory)) {
                    Ok(Some(event)) => {
                        // A server that floods its stream is read more slowly, and so waits for itself (edges G7).
                        if let Some(pause) = pace.count(self.event(event)) {
                            tokio::time::sleep(pause).await;
                        }
                    }
                    Ok(None) => break,
                    Err(error) => return self.failed(&LinkError::Protocol(error.to_string())),
                }
            }
        }
        PushEnd::Closed
    }

    /// Whether the link is over is not decided here.
    fn failed(&self, error: &LinkError) -> PushEnd {
        self.shared.trouble(error);
        PushEnd::Failed
    }

    /// Handles an event; gives the number of things in it that nobody asked for.
    fn event(&mut self, event: tidings_wire::sse::SseEvent) -> usize {
        if let Some(id) = event.id.filter(|id| !id.is_empty()) {
            self.resume_from = Some(id);
        }
        if let Some(retry) = event.retry {
            // A server's wish, within reason: 0 would be a busy loop, and days would be never.
            self.retry = Some(Duration::from_millis(retry.clamp(10, 60_000)));
        }
        // Primes a resumption, or keeps the connection alive.
        if event.data.is_empty() {
            return 0;
        }
        self.spoke = true;
        if !is_message(&event.event) {
            return 0;
        }
        match IncomingMessage::parse(event.data, &LIMITS) {
            Ok(IncomingMessage::Single(frame)) => self.message(Ok(frame)),
            // Only 2025-03-26 has these. They mean what their parts mean, in order.
            Ok(IncomingMessage::Batch(parts)) => parts.into_iter().map(|part| self.message(part)).sum(),
            Err(error) => self.message(Err(error)),
        }
    }

    fn message(&self, message: Result<Frame, FrameError>) -> usize {
        match message {
            Ok(frame) if matches!(frame.kind(), FrameKind::Request | FrameKind::Notification) => {
                let message = ServerMessage::from(frame);
                let unasked = usize::from(is_unasked(message.subject()));
                self.shared.sink.unowned(message);
                unasked
            }
            // An answer here is nobody's: calls are answered on their own streams.
            Ok(_) => 0,
            Err(error) => {
                tracing::debug!(url = %self.shared.shown(), %error, "not a message");
                self.shared.sink.remark(format!("sent what is no message: {error}"));
                1
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // edges A3: what a balancer answers in the place of the server must not silence it for long
    #[test]
    fn a_stream_that_is_put_off_is_asked_for_soon_and_then_less_often() {
        let pauses: Vec<u64> = (1..=7).map(|times| busy_pause(times, None).as_secs()).collect();
        assert_eq!(pauses, [1, 2, 3, 4, 5, 5, 5]);
        let after = |text| {
            let headers = HeaderMap::from_iter([(RETRY_AFTER, HeaderValue::from_static(text))]);
            busy_pause(1, asked_to_wait(&headers)).as_secs()
        };
        assert_eq!([after("0"), after("4"), after(" 7 "), after("86400")], [1, 4, 7, 10]);
        assert_eq!([after("Fri, 31 Dec 1999 23:59:59 GMT"), after("-3"), after("")], [1, 1, 1]);
    }
}
