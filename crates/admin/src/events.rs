//! Server-sent events of the API: a stream that says at once that it is open, is never silent for long, and ends with the
//! gateway.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::Body;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::stream;
use tokio_util::sync::CancellationToken;

/// How long a stream may be quiet, and what breaks the silence.
const QUIET: Duration = Duration::from_secs(15);
const KEEP_ALIVE: &[u8] = b": \n\n";

/// Where events come from.
pub trait EventSource: Send + 'static {
    /// The next event, encoded; `None` at the end. May be dropped and called again without loss.
    fn next(&mut self) -> impl Future<Output = Option<Bytes>> + Send;
}

/// The answer that goes on until there are no more events, or `ending` rings.
pub fn respond(events: impl EventSource, ending: CancellationToken) -> Response {
    let chunks = stream::unfold((events, ending, true), async |(mut events, ending, first)| {
        // Whoever asks knows from the first bytes that nothing is missed from now on.
        let chunk = if first { Bytes::from_static(KEEP_ALIVE) } else { next(&mut events, &ending).await? };
        Some((Ok::<_, Infallible>(chunk), (events, ending, false)))
    });
    let headers = [(header::CONTENT_TYPE, "text/event-stream"), (header::CACHE_CONTROL, "no-cache")];
    // nginx would hold events back until its buffer is full.
    (headers, [("x-accel-buffering", "no")], Body::from_stream(chunks)).into_response()
}

async fn next(events: &mut impl EventSource, ending: &CancellationToken) -> Option<Bytes> {
    tokio::select! {
        // The end first: a source that always has something ready must not outlive the gateway.
        biased;
        () = ending.cancelled() => None,
        event = events.next() => event,
        () = tokio::time::sleep(QUIET) => Some(Bytes::from_static(KEEP_ALIVE)),
    }
}
