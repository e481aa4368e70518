//! `GET /audit`, `GET /audit/stream`: who did what. `POST /audit/checkpoints` signs it, `POST /audit/verify` proves that nothing is missing.

use std::collections::HashMap;

use axum::Json;
use axum::extract::{Query as Params, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use serde::Deserialize;
use tidings_store::{AuditLog, Checkpoint};

use crate::changes::{query, unavailable};
use crate::events;
use crate::log_feed::{LogFollower, last_event};
use crate::{AdminShared, problem};

/// What a proof may be asked to include.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct VerifyRequest {
    checkpoints: Vec<Checkpoint>,
    key: Option<String>,
}

fn log(admin: &AdminShared) -> Result<&AuditLog, Box<Response>> {
    let off = || problem(StatusCode::NOT_FOUND, "nothing is audited: the configuration says [audit] enabled = false");
    admin.audit.as_ref().ok_or_else(|| Box::new(off()))
}

/// The records since a point, or the newest.
pub(crate) async fn list(
    State(admin): State<AdminShared>,
    Params(params): Params<HashMap<String, String>>,
) -> Response {
    let log = match log(&admin) {
        Ok(log) => log,
        Err(refusal) => return *refusal,
    };
    let query = match query(&params) {
        Ok(query) => query,
        Err(fault) => return problem(StatusCode::BAD_REQUEST, &fault.to_string()),
    };
    match log.read(query).await {
        Ok(found) => {
            let rows: Vec<&[u8]> = found.rows.iter().map(|row| &row.json[..]).collect();
            let end = format!(r#"],"last":{}}}"#, found.last);
            let body = [br#"{"records":["#, &rows.join(&b","[..])[..], end.as_bytes()];
            ([(header::CONTENT_TYPE, "application/json")], body.concat()).into_response()
        }
        Err(error) => unavailable(&error),
    }
}

/// Every record as it is written, after what `Last-Event-ID` says was missed.
pub(crate) async fn stream(State(admin): State<AdminShared>, headers: HeaderMap) -> Response {
    let log = match log(&admin) {
        Ok(log) => log,
        Err(refusal) => return *refusal,
    };
    let after = match last_event(&headers) {
        Ok(after) => after,
        Err(refusal) => return *refusal,
    };
    match log.follow(after).await {
        Ok(tail) => events::respond(LogFollower::new(tail), admin.gateway.draining()),
        Err(error) => unavailable(&error),
    }
}

/// Signs how far both logs have come.
pub(crate) async fn checkpoint(State(admin): State<AdminShared>) -> Response {
    let log = match log(&admin) {
        Ok(log) => log,
        Err(refusal) => return *refusal,
    };
    match log.checkpoint().await {
        Ok(checkpoint) => (StatusCode::CREATED, Json(checkpoint)).into_response(),
        Err(error) => unavailable(&error),
    }
}

/// The longest list of checkpoints: some ten years of hours, which a file that a sink wrote may well have.
pub(crate) const MOST_CHECKPOINTS: usize = 64 << 20;

/// Goes along both logs. What is wrong is in the answer, which is 200 in any case: the question could be answered.
pub(crate) async fn verify(State(admin): State<AdminShared>, body: Bytes) -> Response {
    let log = match log(&admin) {
        Ok(log) => log,
        Err(refusal) => return *refusal,
    };
    let request = if body.is_empty() { Ok(VerifyRequest::default()) } else { serde_json::from_slice(&body) };
    let VerifyRequest { checkpoints, key } = match request {
        Ok(request) => request,
        Err(error) => return problem(StatusCode::BAD_REQUEST, &format!("the body is not what is expected: {error}")),
    };
    match log.verify(checkpoints, key).await {
        Ok(report) => Json(report).into_response(),
        Err(error) => unavailable(&error),
    }
}
