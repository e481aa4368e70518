//! Logging in to a server: begun by an admin, ended by a browser or by what it came back with.

use std::time::Duration;

use axum::Json;
use axum::body::Bytes;
use axum::extract::{Extension, Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use tidings_engine::Principal;
use tidings_login::{LoginBearer, LoginFault, LoginOutcome, Logins};

use crate::servers::describe_one;
use crate::{AdminShared, problem};

/// How long one question for the outcome waits for it.
const WAIT: Duration = Duration::from_secs(20);

/// `POST /servers/{name}/login`.
pub(crate) async fn begin(
    State(admin): State<AdminShared>,
    Extension(principal): Extension<Principal>,
    Path(name): Path<String>,
    body: Bytes,
) -> Response {
    let logins = match logins(&admin) {
        Ok(logins) => logins,
        Err(refused) => return *refused,
    };
    // Without a body everything is as usual.
    let wish: Value = serde_json::from_slice(&body).unwrap_or_default();
    match logins.begin(&name, &principal.name, wish["device"] == true).await {
        Ok(begun) => Json(json!({
            "ticket": begun.ticket,
            "url": begun.authorize.as_ref().and_then(|_| logins.connect_url(&begun.ticket)),
            "authorize": begun.authorize,
            "device": begun.device.map(|device| json!({
                "url": device.url, "code": device.code, "url_with_code": device.url_with_code,
            })),
            "issuer": begun.issuer,
            "expires_in": begun.expires_in,
        }))
        .into_response(),
        Err(fault) => refused(&fault),
    }
}

/// `GET /servers/{name}/login/{ticket}`: how it went, as soon as that is known or after a while.
pub(crate) async fn outcome(
    State(admin): State<AdminShared>,
    Path((name, ticket)): Path<(String, String)>,
) -> Response {
    let logins = match logins(&admin) {
        Ok(logins) => logins,
        Err(refused) => return *refused,
    };
    let Some(mut outcome) = logins.outcome(&ticket) else { return refused(&LoginFault::Stale) };
    let _ = tokio::time::timeout(WAIT, outcome.wait_for(|outcome| *outcome != LoginOutcome::Waiting)).await;
    let outcome = outcome.borrow().clone();
    Json(match outcome {
        LoginOutcome::Waiting => json!({ "state": "waiting" }),
        LoginOutcome::Done => json!({ "state": "done", "server": describe_one(&admin, &name) }),
        LoginOutcome::Failed(reason) => json!({ "state": "failed", "error": reason }),
    })
    .into_response()
}

/// `POST /servers/{name}/login/complete`: what a browser came back with, pasted by who began.
pub(crate) async fn complete(
    State(admin): State<AdminShared>,
    Extension(principal): Extension<Principal>,
    Path(name): Path<String>,
    body: Bytes,
) -> Response {
    let logins = match logins(&admin) {
        Ok(logins) => logins,
        Err(refused) => return *refused,
    };
    let wish: Value = serde_json::from_slice(&body).unwrap_or_default();
    let Some(callback) = wish["callback"].as_str() else {
        return problem(StatusCode::BAD_REQUEST, "`callback` must be the address that the browser came back to");
    };
    let query = callback.split_once('?').map_or(callback, |(_, query)| query);
    let query = query.split('#').next().unwrap_or_default();
    match logins.complete(query.trim(), LoginBearer::Asker(&principal.name)).await {
        Ok(_) => Json(describe_one(&admin, &name)).into_response(),
        Err(fault) => refused(&fault),
    }
}

/// `POST /servers/{name}/logout`.
pub(crate) async fn log_out(
    State(admin): State<AdminShared>,
    Extension(principal): Extension<Principal>,
    Path(name): Path<String>,
) -> Response {
    let logins = match logins(&admin) {
        Ok(logins) => logins,
        Err(refused) => return *refused,
    };
    match logins.log_out(&name, &principal.name).await {
        Ok(was_in) => Json(json!({ "logged_out": was_in })).into_response(),
        Err(fault) => refused(&fault),
    }
}

fn logins(admin: &AdminShared) -> Result<&Logins, Box<Response>> {
    let none = || Box::new(problem(StatusCode::NOT_FOUND, "this gateway keeps no logins"));
    admin.logins.as_ref().ok_or_else(none)
}

fn refused(fault: &LoginFault) -> Response {
    let status = match fault {
        LoginFault::Unknown(_) | LoginFault::Stale => StatusCode::NOT_FOUND,
        LoginFault::ByMachine(_) => StatusCode::CONFLICT,
        LoginFault::Refused(_) => StatusCode::BAD_GATEWAY,
    };
    problem(status, &fault.to_string())
}
