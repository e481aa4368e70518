//! `GET /pulls/stream`: how far images are that are being got, as it happens.

use axum::extract::State;
use axum::response::Response;
use bytes::Bytes;
use serde_json::json;
use tidings_upstream::PullProgress;
use tidings_wire::sse;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

use crate::AdminShared;
use crate::events::{self, EventSource};

pub(crate) async fn follow(State(admin): State<AdminShared>) -> Response {
    events::respond(PullReports(admin.gateway.pulls()), admin.gateway.draining())
}

/// What a follower is too slow for is dropped: only the latest matters.
struct PullReports(Receiver<PullProgress>);

impl EventSource for PullReports {
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            match self.0.recv().await {
                Ok(progress) => return Some(event(&progress)),
                Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => return None,
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
