//! `/search`: how tools are searched, and forgetting what was learnt.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use crate::{AdminShared, problem};

/// What is searched with, and how that is.
pub(crate) async fn show(State(admin): State<AdminShared>) -> Json<Value> {
    Json(admin.search.describe())
}

/// Forgets which tools were used after which questions, for all callers.
pub(crate) async fn forget(State(admin): State<AdminShared>) -> Response {
    match admin.search.forget().await {
        Ok(forgotten) => Json(json!({ "forgotten": forgotten })).into_response(),
        Err(fault) => problem(StatusCode::INTERNAL_SERVER_ERROR, &fault.to_string()),
    }
}
