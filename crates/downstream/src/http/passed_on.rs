//! Requests of browsers that only one process of a cluster can answer, because what they are about lives there: passed on as they came.
//!
//! Which process that is says the request itself. Whoever sends it has looked at where it comes from; nobody is let in by a token here.

use std::sync::Arc;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use axum::response::IntoResponse as _;
use bytes::Bytes;
use http::{Method as Verb, Response, StatusCode, Uri};
use serde_json::{Value, json};
use tidings_engine::{Gateway, HttpEnd, HttpPiece};
use tower::ServiceExt as _;

use super::endpoint::HttpEndpoint;
use super::forwarded::{read_headers, respond_with, with_head, written_headers};

/// The longest form that is passed on.
const LONGEST_FORM: usize = 64 << 10;

/// Says in which process something lives.
pub type HomeOf = fn(&Uri) -> Option<u64>;

/// The same routes; what lives in another process of the cluster is answered there.
pub fn passed_on(routes: Router, gateway: &Gateway, home_of: HomeOf) -> Router {
    let Some(here) = gateway.session_home() else { return routes };
    let gateway = gateway.clone();
    routes.layer(from_fn(move |request: Request, next: Next| {
        let gateway = gateway.clone();
        async move {
            match home_of(request.uri()).filter(|home| *home != here) {
                Some(home) => pass_on(&gateway, home, request).await,
                None => next.run(request).await,
            }
        }
    }))
}

async fn pass_on(gateway: &Gateway, home: u64, request: Request) -> Response<Body> {
    let (parts, body) = request.into_parts();
    let Ok(body) = to_bytes(body, LONGEST_FORM).await else { return StatusCode::PAYLOAD_TOO_LARGE.into_response() };
    let head = json!({
        "verb": parts.method.as_str(),
        "path": parts.uri.path_and_query().map_or("/", |target| target.as_str()),
        "headers": written_headers(&parts.headers),
        "routed": true,
    });
    let Some(mut answer) = gateway.forward_http(home, with_head(head.to_string().as_bytes(), &body)) else {
        return gone();
    };
    match answer.next().await {
        HttpPiece::Head(head) => respond_with(&head, answer),
        HttpPiece::End(HttpEnd::Unreached) => words(
            StatusCode::SERVICE_UNAVAILABLE,
            "The replica where this was begun can not be reached at the moment; load this page again.",
        ),
        _ => gone(),
    }
}

/// Also one that may have been carried out: what it was about is gone with its process.
fn gone() -> Response<Body> {
    words(StatusCode::NOT_FOUND, "The replica where this was begun is gone. Begin again.")
}

fn words(status: StatusCode, text: &'static str) -> Response<Body> {
    (status, text).into_response()
}

impl HttpEndpoint {
    /// Carries out a request that another replica passed on.
    pub(super) async fn answer_passed_on(self: &Arc<Self>, head: &Value, body: Bytes) -> Response<Body> {
        let others = self.others.get().cloned().unwrap_or_default();
        let mut request = Request::new(Body::from(body));
        let verb = head["verb"].as_str().and_then(|verb| Verb::from_bytes(verb.as_bytes()).ok());
        let target = head["path"].as_str().and_then(|target| target.parse::<Uri>().ok());
        let (Some(verb), Some(target)) = (verb, target) else { return StatusCode::BAD_REQUEST.into_response() };
        *request.method_mut() = verb;
        *request.uri_mut() = target;
        *request.headers_mut() = read_headers(&head["headers"]);
        others.oneshot(request).await.into_response()
    }
}
