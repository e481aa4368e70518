//! A stand-in of the official registry's API v0.1 over real HTTP: pages, `updated_since`, and answers that nobody should send.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use tidings_sync::Lock;

const OFFICIAL: &str = "io.modelcontextprotocol.registry/official";

/// What it answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum StandInMode {
    #[default]
    Honest,
    Away,
    Huge,
    Circle,
    BadJson,
    WrongTypes,
}

#[derive(Default)]
struct StandInState {
    mode: StandInMode,
    items: Vec<Value>,
    files: BTreeMap<String, Vec<u8>>,
    requests: Vec<String>,
}

/// The registry. It ends with the runtime of its test.
#[derive(Clone)]
pub(crate) struct StandInRegistry {
    pub(crate) url: String,
    state: Arc<Lock<StandInState>>,
}

impl StandInRegistry {
    pub(crate) async fn start() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let state: Arc<Lock<StandInState>> = Arc::default();
        let router = Router::new().fallback(answer).with_state(Arc::clone(&state));
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { url, state }
    }

    pub(crate) fn mode(&self, mode: StandInMode) {
        self.state.lock().mode = mode;
    }

    /// Publishes a release: of one name the newest is the latest.
    pub(crate) fn publish(&self, server: &Value, status: &str, updated: &str) {
        let mut state = self.state.lock();
        let (name, version) = (server["name"].clone(), server["version"].clone());
        state.items.retain(|item| item["server"]["name"] != name || item["server"]["version"] != version);
        for item in state.items.iter_mut().filter(|item| item["server"]["name"] == name) {
            item["_meta"][OFFICIAL]["isLatest"] = false.into();
        }
        let message = (status != "active").then_some("use another");
        state.items.push(json!({"server": server, "_meta": {OFFICIAL: {
            "status": status, "statusMessage": message, "publishedAt": updated, "updatedAt": updated, "isLatest": true,
        }}}));
    }

    /// Serves a file; gives its address.
    pub(crate) fn file(&self, path: &str, bytes: Vec<u8>) -> String {
        self.state.lock().files.insert(path.to_owned(), bytes);
        format!("{}{path}", self.url)
    }

    /// What was asked since the last time.
    pub(crate) fn take_requests(&self) -> Vec<String> {
        std::mem::take(&mut self.state.lock().requests)
    }
}

async fn answer(State(state): State<Arc<Lock<StandInState>>>, request: Request) -> Response {
    let mut state = state.lock();
    state.requests.push(request.uri().to_string());
    if let Some(file) = state.files.get(request.uri().path()) {
        return Body::from(file.clone()).into_response();
    }
    if request.uri().path() != "/v0.1/servers" {
        return StatusCode::NOT_FOUND.into_response();
    }
    let query: BTreeMap<String, String> =
        axum::extract::Query::try_from_uri(request.uri()).map(|query| query.0).unwrap_or_default();
    match state.mode {
        StandInMode::Honest => page(&state.items, &query).to_string().into_response(),
        StandInMode::Away => StatusCode::SERVICE_UNAVAILABLE.into_response(),
        StandInMode::Huge => format!("{{\"servers\": [{}]}}", " ".repeat(9 << 20)).into_response(),
        StandInMode::Circle => json!({"servers": [], "metadata": {"nextCursor": "x"}}).to_string().into_response(),
        StandInMode::BadJson => "{\"servers\": [".into_response(),
        StandInMode::WrongTypes => "{\"servers\": {\"a\": 1}}".into_response(),
    }
}

/// One page, as the official registry makes it.
fn page(items: &[Value], query: &BTreeMap<String, String>) -> Value {
    let meta = |item: &Value| item["_meta"][OFFICIAL].clone();
    let since = query.get("updated_since").map(|since| since.parse::<jiff::Timestamp>().unwrap());
    let wanted: Vec<&Value> = items
        .iter()
        .filter(|item| match since {
            Some(since) => meta(item)["updatedAt"].as_str().unwrap().parse::<jiff::Timestamp>().unwrap() >= since,
            None => meta(item)["isLatest"] == true && meta(item)["status"] != "deleted",
        })
        .collect();
    let limit: usize = query["limit"].parse().unwrap();
    // A cursor that has to come back as it was sent.
    let start: usize = query.get("cursor").map_or(0, |cursor| cursor.strip_prefix("ü/&=").unwrap().parse().unwrap());
    let end = (start + limit).min(wanted.len());
    let next = (end < wanted.len()).then(|| format!("ü/&={end}"));
    json!({"servers": wanted[start..end], "metadata": {"nextCursor": next, "count": end - start}})
}
