//! What people and monitors ask the gateway about itself: health, metrics, and the HTTP API under `/api/v1`.
//!
//! Reads snapshots; holds no state of its own.

mod changes;
mod hooks;
mod metrics;
mod servers;
mod subscriptions;
mod tools;

pub use hooks::hooks;
pub use servers::describe;
pub use tools::tools;

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tidings_downstream::auth::same;
use tidings_engine::Gateway;
use tidings_search::ToolIndex;
use tidings_store::ChangeLog;

/// What the routes share.
#[derive(Clone)]
struct Admin {
    gateway: Gateway,
    index: Arc<ToolIndex>,
    changes: ChangeLog,
    token: Arc<str>,
}

/// Routes for everything but the MCP endpoint. `index` is searched; `token` opens the API, and the metrics unless only
/// this machine can ask for them.
pub fn router(gateway: Gateway, index: Arc<ToolIndex>, changes: ChangeLog, token: &str, loopback: bool) -> Router {
    let admin = Admin { gateway, index, changes, token: token.into() };
    let api = Router::new()
        .route("/changes", get(changes::list))
        .route("/changes/stream", get(changes::stream))
        .route("/servers", get(servers::list))
        .route("/status", get(servers::status))
        .route("/subscriptions", get(subscriptions::list))
        .route("/tools", get(tools::list))
        .layer(middleware::from_fn_with_state(admin.clone(), authorise));
    let mut metrics = Router::new().route("/metrics", get(metrics::show));
    if !loopback {
        metrics = metrics.layer(middleware::from_fn_with_state(admin.clone(), authorise));
    }
    Router::new()
        .merge(metrics)
        .route("/", get(front))
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(ready))
        .nest("/api/v1", api)
        .fallback(|| async { problem(StatusCode::NOT_FOUND, "no such page; the MCP endpoint is /mcp") })
        .with_state(admin)
}

async fn front() -> &'static str {
    "Tidings is running. The MCP endpoint is /mcp; `tidings servers` shows what is behind it.\n"
}

async fn ready(State(admin): State<Admin>) -> Response {
    if admin.gateway.is_ready() {
        return "ready\n".into_response();
    }
    problem(StatusCode::SERVICE_UNAVAILABLE, "servers are still starting")
}

async fn authorise(State(admin): State<Admin>, request: Request, next: Next) -> Response {
    let given = request.headers().get(header::AUTHORIZATION).and_then(|v| v.to_str().ok()?.strip_prefix("Bearer "));
    if given.is_some_and(|given| same(given.as_bytes(), admin.token.as_bytes())) {
        return next.run(request).await;
    }
    let mut response = problem(
        StatusCode::UNAUTHORIZED,
        "send `Authorization: Bearer` with the content of admin.token in the data directory",
    );
    response.headers_mut().insert(header::WWW_AUTHENTICATE, header::HeaderValue::from_static("Bearer"));
    response
}

/// An error as RFC 9457 has it.
fn problem(status: StatusCode, detail: &str) -> Response {
    let body = serde_json::json!({
        "type": "about:blank",
        "title": status.canonical_reason().unwrap_or("error"),
        "status": status.as_u16(),
        "detail": detail,
    });
    (status, [(header::CONTENT_TYPE, "application/problem+json")], body.to_string()).into_response()
}
