//! `GET /calls`: the calls of the audit log, the newest first.

use std::collections::HashMap;

use axum::Json;
use axum::extract::{Query as Params, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use tidings_store::{AuditLog, ChangeQuery, LogError, QueryStart};

use crate::changes::unavailable;
use crate::query_fault::QueryFault;
use crate::{AdminShared, problem};

/// How many are given, how many records are read at a time, and how many are looked at for one answer.
const ROWS: usize = 50;
const BATCH: usize = 200;
const MOST_SCANNED: usize = 5_000;
const BATCH_BYTES: usize = 4 << 20;

/// Which calls are wanted; what is empty fits always.
#[derive(Clone, Debug, Default)]
pub struct CallsQuery {
    /// What the client calls itself, or its principal.
    pub client: String,
    /// The server that was called.
    pub server: String,
    /// What was called.
    pub tool: String,
    /// `answered`, `error`, `cancelled` or `abandoned`.
    pub outcome: String,
    /// Older than this record.
    pub before: Option<u64>,
}

/// The outcomes that there are.
const OUTCOMES: [&str; 4] = ["answered", "error", "cancelled", "abandoned"];

impl CallsQuery {
    /// Reads the parameters of a request.
    pub fn read(params: &HashMap<String, String>) -> Self {
        let text = |name: &str| params.get(name).map(|value| value.trim().to_owned()).unwrap_or_default();
        Self {
            client: text("client"),
            server: text("server"),
            tool: text("tool"),
            outcome: text("outcome"),
            before: params.get("before").and_then(|before| before.parse().ok()),
        }
    }

    fn fits(&self, record: &Value) -> bool {
        let is = |wanted: &str, value: &Value| wanted.is_empty() || value == wanted;
        record["kind"] == "call"
            && is(&self.server, &record["server"])
            && is(&self.tool, &record["name"])
            && is(&self.outcome, &record["outcome"])
            && (is(&self.client, &record["client"]["name"]) || is(&self.client, &record["principal"]))
    }
}

/// The calls that fit, the newest first, each with its number; and where older ones begin.
pub async fn calls(log: &AuditLog, query: &CallsQuery) -> Result<(Vec<(u64, Value)>, Option<u64>), LogError> {
    let mut before = query.before.unwrap_or(u64::MAX);
    let (mut out, mut scanned) = (Vec::new(), 0);
    loop {
        let from = QueryStart::Before(before);
        let found = log.read(ChangeQuery { from, limit: BATCH, max_bytes: BATCH_BYTES }).await?;
        // The beginning of the log: nothing older is there to be asked for.
        if found.rows.is_empty() {
            return Ok((out, None));
        }
        for row in found.rows.iter().rev() {
            // Before the row is counted: `before` is the last one that was looked at, so the next answer begins right
            // after it.
            if out.len() == ROWS || scanned == MOST_SCANNED {
                return Ok((out, Some(before)));
            }
            (before, scanned) = (row.seq, scanned + 1);
            let record: Value = serde_json::from_slice(&row.json).unwrap_or_default();
            if query.fits(&record) {
                out.push((row.seq, record));
            }
        }
    }
}

pub(crate) async fn list(
    State(admin): State<AdminShared>,
    Params(params): Params<HashMap<String, String>>,
) -> Response {
    let Some(log) = &admin.audit else {
        let off = "calls are not recorded: the configuration says [audit] enabled = false";
        return problem(StatusCode::NOT_FOUND, off);
    };
    let known = ["client", "server", "tool", "outcome", "before"];
    if let Some(strange) = params.keys().find(|key| !known.contains(&key.as_str())) {
        return problem(StatusCode::BAD_REQUEST, &QueryFault::UnknownParameter(strange.clone()).to_string());
    }
    let query = CallsQuery::read(&params);
    if !query.outcome.is_empty() && !OUTCOMES.contains(&query.outcome.as_str()) {
        return problem(StatusCode::BAD_REQUEST, &QueryFault::Outcome(query.outcome).to_string());
    }
    if let Some(before) = params.get("before").filter(|_| query.before.is_none()) {
        return problem(StatusCode::BAD_REQUEST, &QueryFault::Before(before.clone()).to_string());
    }
    match calls(log, &query).await {
        Ok((found, older)) => {
            let calls: Vec<Value> = found.into_iter().map(|(_, record)| record).collect();
            Json(json!({ "calls": calls, "older": older })).into_response()
        }
        Err(error) => unavailable(&error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_fits_by_each_of_its_members() {
        let record = json!({
            "kind": "call", "server": "notes", "name": "search", "outcome": "answered", "principal": "laptop",
            "client": { "name": "cursor" },
        });
        let query = |name: &str, value: &str| CallsQuery::read(&HashMap::from([(name.to_owned(), value.to_owned())]));
        for (name, value) in [
            ("server", "notes"),
            ("tool", "search"),
            ("outcome", "answered"),
            ("client", "laptop"),
            ("client", "cursor"),
        ] {
            assert!(query(name, value).fits(&record), "{name}={value}");
            assert!(!query(name, "another").fits(&record), "{name}");
        }
        assert!(!CallsQuery::default().fits(&json!({ "kind": "refused" })));
    }
}
