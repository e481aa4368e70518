//! `GET /servers/{name}/log`: the last that was logged of a server: what it wrote to its standard error, and what the gateway says of it.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::json;

use crate::{AdminShared, problem};

/// Where the log is.
pub trait ServerLogs: Send + Sync + 'static {
    /// The last lines about a server, the oldest first. May read a file.
    fn tail(&self, server: &str) -> Vec<String>;
}

pub(crate) async fn show(State(admin): State<AdminShared>, Path(name): Path<String>) -> Response {
    let catalogue = admin.gateway.catalogue().borrow().clone();
    if !catalogue.servers.iter().any(|server| *server.name == *name) {
        return problem(StatusCode::NOT_FOUND, &format!("there is no server \"{name}\" now"));
    }
    let Some(logs) = admin.logs.clone() else {
        return Json(json!({ "lines": [] })).into_response();
    };
    let lines = tokio::task::spawn_blocking(move || logs.tail(&name)).await.unwrap_or_default();
    Json(json!({ "lines": lines })).into_response()
}
