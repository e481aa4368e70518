//! A log as a stream of events: what a reader missed by the number of its last event, and then every row as it is written.

use std::collections::VecDeque;

use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use bytes::Bytes;
use tidings_store::{AuditTail, ChangeRow, LogError, LogTail};
use tidings_wire::sse;

use crate::events::EventSource;
use crate::problem;

/// The end of a log that grows.
pub(crate) trait RowTail: Send + 'static {
    /// The next rows, at least one. May be dropped and called again without loss.
    fn next_rows(&mut self) -> impl Future<Output = Result<Vec<ChangeRow>, LogError>> + Send;
}

impl RowTail for LogTail {
    fn next_rows(&mut self) -> impl Future<Output = Result<Vec<ChangeRow>, LogError>> + Send {
        self.next()
    }
}

impl RowTail for AuditTail {
    fn next_rows(&mut self) -> impl Future<Output = Result<Vec<ChangeRow>, LogError>> + Send {
        self.next()
    }
}

/// A follower's connection. It holds one batch at most; what it does not take stays in the log.
pub(crate) struct LogFollower<T> {
    tail: T,
    ready: VecDeque<Bytes>,
}

impl<T: RowTail> LogFollower<T> {
    pub(crate) fn new(tail: T) -> Self {
        Self { tail, ready: VecDeque::new() }
    }
}

impl<T: RowTail> EventSource for LogFollower<T> {
    async fn next(&mut self) -> Option<Bytes> {
        if self.ready.is_empty() {
            self.ready.extend(self.tail.next_rows().await.ok()?.iter().map(event));
        }
        self.ready.pop_front()
    }
}

fn event(row: &ChangeRow) -> Bytes {
    sse::encode(Some(&row.seq.to_string()), None, &row.json)
}

/// The number of the last event that a reader had, which it sends when it connects again; `None` when it says nothing.
pub(crate) fn last_event(headers: &HeaderMap) -> Result<Option<u64>, Box<Response>> {
    let Some(id) = headers.get("last-event-id") else { return Ok(None) };
    let number = id.to_str().ok().and_then(|text| text.trim().parse().ok());
    number.map(Some).ok_or_else(|| {
        let text = "Last-Event-ID: it must be the id of an event of this stream, which is a number";
        Box::new(problem(StatusCode::BAD_REQUEST, text))
    })
}
