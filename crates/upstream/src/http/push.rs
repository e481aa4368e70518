//! The standalone stream on which a legacy server speaks by itself.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::StatusCode;
use http::header::{ACCEPT, HeaderValue};
use tidings_wire::sse::Decoder;
use tidings_wire::{Frame, FrameError, Kind, Message};

use super::call::is_message;
use super::client::chunk;
use super::{LAST_EVENT, SESSION, Shared};
use crate::pace::{Pace, is_unasked};
use crate::{LIMITS, LinkError, MAX_MESSAGE};

const RETRY: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(10);
/// How often in a row the stream may fail to open before the server counts as gone.
const FAILURES: u32 = 3;
/// A stream that is closed before this, with nothing said on it, was closed at once.
const AT_ONCE: Duration = Duration::from_secs(1);

struct Push {
    shared: Arc<Shared>,
    resume_from: Option<String>,
    retry: Duration,
    /// Whether anything was said on the stream.
    spoke: bool,
}

/// Keeps the stream open as long as the link lives.
pub(super) async fn listen(shared: Arc<Shared>) {
    let stop = shared.stop.clone();
    let mut push = Push { shared, resume_from: None, retry: RETRY, spoke: false };
    tokio::select! {
        () = push.run() => {}
        () = stop.cancelled() => {}
    }
}

enum End {
    /// The server has no such stream.
    Unsupported,
    /// It ended; open it again.
    Closed,
    /// Not now: the server may still hold the stream from before, or have too much to do.
    Later,
    /// It could not be opened.
    Failed(LinkError),
}

impl Push {
    async fn run(&mut self) {
        let (mut failures, mut short) = (0, 0);
        loop {
            self.spoke = false;
            let opened = Instant::now();
            match self.once().await {
                End::Unsupported => return self.shared.sink.deaf(),
                End::Closed => {
                    failures = 0;
                    // Each new stream is a reason to list everything: one that says nothing must not be one all the time.
                    short = if self.spoke || opened.elapsed() >= AT_ONCE { 0 } else { short + 1 };
                }
                End::Later => {
                    tokio::time::sleep(LONGEST / 2).await;
                    continue;
                }
                End::Failed(error) => {
                    failures += 1;
                    if failures >= FAILURES || error == LinkError::SessionExpired {
                        return self.shared.report(error);
                    }
                }
            }
            let pause = match short {
                0 | 1 => self.retry,
                more => self.retry.max(RETRY).saturating_mul(1 << (more - 1).min(16)),
            };
            tokio::time::sleep((pause * (failures + 1)).min(LONGEST.max(self.retry))).await;
        }
    }

    async fn once(&mut self) -> End {
        let mut headers = self.shared.base_headers(&self.shared.state());
        headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        if let Some(last) = self.resume_from.as_deref().and_then(|id| HeaderValue::try_from(id).ok()) {
            headers.insert(LAST_EVENT, last);
        }
        let had_session = headers.contains_key(SESSION);
        let request = self.shared.request(http::Method::GET, headers, Bytes::new());
        let answer = match self.shared.send(request).await {
            Ok(answer) => answer,
            Err(error) => return End::Failed(error),
        };
        match answer.status() {
            status if status.is_success() => {}
            StatusCode::NOT_FOUND if had_session => return End::Failed(LinkError::SessionExpired),
            StatusCode::REQUEST_TIMEOUT
            | StatusCode::CONFLICT
            | StatusCode::TOO_EARLY
            | StatusCode::TOO_MANY_REQUESTS => {
                return End::Later;
            }
            status if status.is_client_error() => return End::Unsupported,
            status => return End::Failed(LinkError::Status { status: status.as_u16(), body: None }),
        }
        // Also after a resumption: many servers take the header and remember nothing.
        self.shared.sink.hears();
        let mut decoder = Decoder::new(MAX_MESSAGE);
        let mut body = answer.into_body();
        let mut pace = Pace::default();
        while let Some(Ok(bytes)) = chunk(&mut body).await {
            decoder.push(&bytes);
            loop {
                match decoder.next_event() {
                    Ok(Some(event)) => {
                        if let Some(pause) = pace.count(self.event(event)) {
                            tokio::time::sleep(pause).await;
                        }
                    }
                    Ok(None) => break,
                    Err(error) => return End::Failed(LinkError::Protocol(error.to_string())),
                }
            }
        }
        End::Closed
    }

    /// Handles an event; gives the number of things in it that nobody asked for.
    fn event(&mut self, event: tidings_wire::sse::Event) -> usize {
        if let Some(id) = event.id.filter(|id| !id.is_empty()) {
            self.resume_from = Some(id);
        }
        if let Some(retry) = event.retry {
            self.retry = Duration::from_millis(retry.clamp(10, 60_000));
        }
        if event.data.is_empty() {
            return 0;
        }
        self.spoke = true;
        if !is_message(&event.event) {
            return 0;
        }
        match Message::parse(event.data, &LIMITS) {
            Ok(Message::Single(frame)) => self.message(Ok(frame)),
            // Only 2025-03-26 has these. They mean what their parts mean, in order.
            Ok(Message::Batch(parts)) => parts.into_iter().map(|part| self.message(part)).sum(),
            Err(error) => self.message(Err(error)),
        }
    }

    fn message(&self, message: Result<Frame, FrameError>) -> usize {
        match message {
            Ok(frame) if matches!(frame.kind(), Kind::Request | Kind::Notification) => {
                let unasked = usize::from(is_unasked(&frame));
                self.shared.sink.unowned(frame);
                unasked
            }
            Ok(_) => 0,
            Err(error) => {
                tracing::debug!(url = %self.shared.url, %error, "not a message");
                self.shared.sink.remark(format!("sent what is no message: {error}"));
                1
            }
        }
    }
}
