//! `POST /hooks/NAME`: what webhooks deliver. A signature opens the door, not a token.

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use tidings_watch::{BadSignature, DeliveryRefusal, LONGEST_HOOK, WebhookSet};

use crate::problem;

/// How long a body may take to arrive.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(30);

/// Routes for webhooks, also for those that are configured later.
pub fn hooks(hooks: WebhookSet) -> Router {
    Router::new().route("/hooks/{name}", post(deliver)).with_state(hooks)
}

async fn deliver(
    State(hooks): State<WebhookSet>,
    Path(name): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let Some(hook) = hooks.get(&name) else {
        return problem(StatusCode::NOT_FOUND, "no webhook of this name is configured");
    };
    // The whole body is needed before its signature can be checked, so its size and time are bounded for strangers.
    let body = match tokio::time::timeout(PATIENCE, to_bytes(body, LONGEST_HOOK)).await {
        Ok(Ok(body)) => body,
        Ok(Err(_)) => return problem(StatusCode::PAYLOAD_TOO_LARGE, "the body is longer than 1 MiB, or broke off"),
        Err(_) => return problem(StatusCode::REQUEST_TIMEOUT, "the body did not arrive"),
    };
    match hook.deliver(&headers, body).await {
        Ok(_) => StatusCode::NO_CONTENT.into_response(),
        Err(why) => {
            // The poster rarely shows its user the answer, so the user is told here.
            tracing::warn!(hook = name, "a delivery was refused: {why}");
            let status = match why {
                DeliveryRefusal::Signature(BadSignature::TooMany) => StatusCode::TOO_MANY_REQUESTS,
                DeliveryRefusal::NotAgreed(_) => StatusCode::SERVICE_UNAVAILABLE,
                DeliveryRefusal::Signature(_) => StatusCode::UNAUTHORIZED,
            };
            problem(status, &why.to_string())
        }
    }
}
