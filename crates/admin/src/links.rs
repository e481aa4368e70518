//! `POST /links`: a link that opens the page once.

use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::json;

use crate::{AdminShared, problem};

/// What kind of link is wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LinkRequest {
    /// Whoever uses it may only look.
    pub read_only: bool,
    /// It leads to the address, for browsers that do not know the page's own name.
    pub plain_host: bool,
}

/// A fresh link.
#[derive(Clone, Debug)]
pub struct PageLink {
    /// Where it leads; it holds the key.
    pub url: String,
    /// How long it can be used.
    pub seconds: u64,
}

/// Makes links to the page.
pub trait PageLinks: Send + Sync + 'static {
    /// A fresh link; `None` where the page is not served.
    fn link(&self, request: &LinkRequest) -> Option<PageLink>;
}

pub(crate) async fn make(State(admin): State<AdminShared>, body: Bytes) -> Response {
    let body: &[u8] = if body.is_empty() { b"{}" } else { &body };
    let request = match serde_json::from_slice(body) {
        Ok(request) => request,
        Err(error) => return problem(StatusCode::BAD_REQUEST, &format!("the body is not what is expected: {error}")),
    };
    match admin.links.as_ref().and_then(|links| links.link(&request)) {
        Some(link) => Json(json!({ "url": link.url, "expires_in": link.seconds })).into_response(),
        None => problem(
            StatusCode::NOT_FOUND,
            "the page is not served: [page] enabled is false, or other machines can connect; listen on 127.0.0.1, and forward the port to look from elsewhere",
        ),
    }
}
