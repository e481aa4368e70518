//! `GET /pulls/stream`: how far images are that are being got, as it happens.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::stream;
use serde_json::json;
use tidings_upstream::PullProgress;
use tidings_wire::sse;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio_util::sync::CancellationToken;

use crate::Admin;

/// How long a stream may be quiet, and what breaks the silence.
const QUIET: Duration = Duration::from_secs(15);
const KEEP_ALIVE: &[u8] = b": \n\n";

pub(crate) async fn follow(State(admin): State<Admin>) -> Response {
    let reader = Reader { pulls: admin.gateway.pulls(), ending: admin.gateway.draining(), begun: false };
    let chunks = stream::unfold(reader, async |mut reader| {
        let chunk = reader.next().await?;
        Some((Ok::<_, Infallible>(chunk), reader))
    });
    let headers = [(header::CONTENT_TYPE, "text/event-stream"), (header::CACHE_CONTROL, "no-cache")];
    (headers, Body::from_stream(chunks)).into_response()
}

/// A follower's connection. What it is too slow for is dropped: only the latest matters.
struct Reader {
    pulls: Receiver<PullProgress>,
    ending: CancellationToken,
    begun: bool,
}

impl Reader {
    async fn next(&mut self) -> Option<Bytes> {
        // Whoever asks knows from the first bytes that nothing is missed from now on.
        if !std::mem::replace(&mut self.begun, true) {
            return Some(Bytes::from_static(KEEP_ALIVE));
        }
        loop {
            tokio::select! {
                biased;
                () = self.ending.cancelled() => return None,
                report = self.pulls.recv() => match report {
                    Ok(progress) => return Some(event(&progress)),
                    Err(RecvError::Lagged(_)) => {}
                    Err(RecvError::Closed) => return None,
                },
                () = tokio::time::sleep(QUIET) => return Some(Bytes::from_static(KEEP_ALIVE)),
            }
        }
    }
}

fn event(progress: &PullProgress) -> Bytes {
    let report = json!({
        "server": progress.server,
        "image": progress.image,
        "line": progress.line,
        "layers": progress.layers,
        "done": progress.done,
    });
    sse::encode(None, None, report.to_string().as_bytes())
}
