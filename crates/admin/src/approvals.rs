//! `GET /approvals`, `POST /approvals` and `POST /approvals/{id}`: definitions that wait for somebody to decide. `GET /lock`: what every
//! server offers now, by the hashes that stand in a lock file.

use std::time::UNIX_EPOCH;

use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use tidings_engine::{ApprovalChoice, ApprovalVerdict, DecisionRefusal, Gateway, OfferedServer, PendingApproval};
use tidings_wire::{Digest, hex};

use crate::{AdminShared, problem};

/// What stands before a hash.
const HASH: &str = "blake3:";

/// Everything that is held.
pub(crate) async fn list(State(admin): State<AdminShared>) -> Json<Value> {
    // Whoever was told of a decision by another replica finds it here. One that is cut off shows what it knows.
    let _ = admin.gateway.confirm_set().await;
    Json(approvals(&admin.gateway))
}

/// `POST /approvals`: one decision about several definitions.
pub(crate) async fn decide_all(State(admin): State<AdminShared>, body: Bytes) -> Response {
    match serde_json::from_slice(&body) {
        Ok(body) => answer(decide(&admin.gateway, &body).await),
        Err(error) => problem(StatusCode::BAD_REQUEST, &format!("the body is not JSON: {error}")),
    }
}

/// `POST /approvals/{id}`: a decision about the definition that whoever decides has seen.
pub(crate) async fn decide_one(State(admin): State<AdminShared>, Path(id): Path<String>, body: Bytes) -> Response {
    let body: Value = match serde_json::from_slice(&body) {
        Ok(body) => body,
        Err(error) => return problem(StatusCode::BAD_REQUEST, &format!("the body is not JSON: {error}")),
    };
    // The digest of what somebody has seen goes with the decision: a definition that changed since is not approved
    // unseen.
    let items = json!([{ "id": id, "digest": body["digest"] }]);
    answer(decide(&admin.gateway, &json!({ "decision": body["decision"], "items": items })).await)
}

/// `GET /lock`.
pub(crate) async fn lock(State(admin): State<AdminShared>) -> Json<Value> {
    Json(offered(&admin.gateway))
}

fn answer(decided: Result<Value, DecisionFault>) -> Response {
    match decided {
        Ok(decided) => Json(decided).into_response(),
        Err(fault) => {
            problem(StatusCode::from_u16(fault.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR), &fault.detail)
        }
    }
}

/// Why nothing was decided.
#[derive(Clone, Debug)]
pub struct DecisionFault {
    /// The HTTP status.
    pub status: u16,
    /// The reason, for people.
    pub detail: String,
}

/// Everything that is held, as the API and the command line show it.
pub fn approvals(gateway: &Gateway) -> Value {
    let all: Vec<Value> = gateway.approvals().iter().map(one).collect();
    json!({ "approvals": all })
}

/// Decides what a body asks for: `{"decision": "approve" | "reject", "items": [{"id", "digest"}]}`.
pub async fn decide(gateway: &Gateway, body: &Value) -> Result<Value, DecisionFault> {
    let bad = |detail: &str| DecisionFault { status: 400, detail: detail.to_owned() };
    let (verdict, word) = match body["decision"].as_str() {
        Some("approve") => (ApprovalVerdict::Approve, "approve"),
        Some("reject") => (ApprovalVerdict::Reject, "reject"),
        _ => return Err(bad("`decision` must be \"approve\" or \"reject\"")),
    };
    let items = body["items"].as_array().filter(|items| !items.is_empty());
    let items = items.ok_or_else(|| bad("`items` must be a list with at least one item"))?;
    let choice = |item: &Value| {
        let id = item["id"].as_str().ok_or_else(|| bad("`id` must be a string"))?.to_owned();
        let digest = item["digest"].as_str().and_then(hash);
        // Required, and never taken from the server: without it a decision would be about whatever is held at that
        // moment.
        let digest = digest.ok_or_else(|| bad("`digest` must be the digest that GET /api/v1/approvals shows"))?;
        Ok(ApprovalChoice { id, digest })
    };
    let choices = items.iter().map(choice).collect::<Result<Vec<_>, _>>()?;
    match gateway.decide(&choices, verdict).await {
        Ok(decided) => Ok(json!({ "decision": word, "decided": decided.iter().map(one).collect::<Vec<_>>() })),
        Err(refusal) => {
            let status = match refusal {
                DecisionRefusal::Unknown(_) => 404,
                DecisionRefusal::Changed { .. } | DecisionRefusal::Meanwhile { .. } => 409,
                DecisionRefusal::Isolated { .. } | DecisionRefusal::Unanswered { .. } => 503,
                DecisionRefusal::NotKept { .. } => 507,
            };
            Err(DecisionFault { status, detail: refusal.to_string() })
        }
    }
}

/// What every server offers now, as the API and the command line show it.
pub fn offered(gateway: &Gateway) -> Value {
    let server = |server: &OfferedServer| {
        let items: Vec<Value> = server
            .items
            .iter()
            .map(|item| {
                let (kind, hash) = (item.kind.member(), spelled(item.digest));
                json!({ "kind": kind, "name": item.name.as_str(), "hash": hash, "held": item.held })
            })
            .collect();
        json!({
            "name": server.name,
            "source": server.origin.as_str(),
            "identity": server.identity,
            "error": server.error,
            "items": items,
        })
    };
    json!({ "servers": gateway.offered().iter().map(server).collect::<Vec<_>>() })
}

fn one(pending: &PendingApproval) -> Value {
    let held = &pending.held;
    let definition = |raw: &[u8]| serde_json::from_slice::<Value>(raw).unwrap_or_default();
    let findings: Vec<Value> = pending
        .findings
        .iter()
        .map(|found| json!({ "severity": found.severity.as_str(), "code": found.code, "text": found.text }))
        .collect();
    json!({
        "id": pending.id,
        "server": pending.server,
        "kind": held.kind.member(),
        "name": held.item.key.as_str(),
        "reason": if held.approved.is_some() { "changed" } else { "new" },
        "rejected": held.rejected,
        "since": pending.since.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()),
        "digest": spelled(held.item.digest),
        "definition": definition(&held.item.raw),
        "approved_digest": held.approved.as_ref().map(|approved| spelled(approved.digest)),
        "approved": held.approved.as_ref().and_then(|approved| Some(definition(approved.definition.as_ref()?))),
        "findings": findings,
    })
}

fn spelled(digest: Digest) -> String {
    format!("{HASH}{}", hex(&digest.0))
}

fn hash(text: &str) -> Option<Digest> {
    let digits = text.strip_prefix(HASH).filter(|digits| digits.len() == 64 && digits.is_ascii())?;
    let mut bytes = [0; 32];
    for (place, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&digits[2 * place..2 * place + 2], 16).ok()?;
    }
    Some(Digest(bytes))
}
