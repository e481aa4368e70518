//! `GET /live`: what is new, as it happens; with `ask=1` what is new right now. A reader resumes by number.

use std::collections::{HashMap, HashSet};

use axum::Json;
use axum::extract::{RawQuery, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use serde_json::{Value, json};
use tidings_admin::EventSource;
use tidings_engine::StandingClient;
use tidings_store::{ChangeQuery, ChangeRecord, ChangeRow, LogTail, QueryStart};
use tidings_wire::sse;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Duration, Instant};

use super::entrance::fields;
use super::{PageServer, views};
use crate::weight;

/// How far apart messages are at least.
const PACE: Duration = Duration::from_millis(100);
/// How soon a browser that lost the stream comes again, in milliseconds.
const RETRY: u64 = 1_000;
/// How many headlines a message holds, and how many names a headline.
const HEADLINES: usize = 64;
const NAMES: usize = 8;
/// How often numbers and states are looked at, of how many commits and clients.
const TICK: Duration = Duration::from_millis(250);
const COMMITS: usize = 64;
const CLIENTS: usize = 64;

pub(super) async fn follow(State(page): State<PageServer>, RawQuery(query): RawQuery, headers: HeaderMap) -> Response {
    let query = fields(&query.unwrap_or_default());
    let number =
        |name: &str| query.iter().find(|(key, _)| key == name).and_then(|(_, value)| value.parse::<u64>().ok());
    let resumed = headers.get("last-event-id").and_then(|id| id.to_str().ok()).and_then(|id| id.trim().parse().ok());
    let after = resumed.or(number("since"));
    if number("ask").is_some() {
        let from = after.map_or(QueryStart::Newest, QueryStart::After);
        let limit = if after.is_some() { HEADLINES } else { 0 };
        let found = page.0.changes.read(ChangeQuery { from, limit, max_bytes: 1 << 20 }).await;
        let rows = found.map(|found| found.rows).unwrap_or_default();
        return Json(rows.iter().map(headline).collect::<Vec<_>>()).into_response();
    }
    let Ok(permit) = page.0.streams.clone().try_acquire_owned() else {
        return (StatusCode::SERVICE_UNAVAILABLE, "There are too many open pages.\n").into_response();
    };
    match page.0.changes.follow(after).await {
        Ok(tail) => {
            let wants_clients = query.iter().any(|(key, value)| key == "want" && value.contains("clients"));
            let named = query.iter().filter(|(key, _)| key == "clients").flat_map(|(_, ids)| ids.split(','));
            let shown = named.filter_map(|id| id.parse().ok()).take(CLIENTS).collect();
            let state = ShownState::new(page.clone(), wants_clients, shown);
            let news = News { tail, told: None, state, _permit: permit };
            tidings_admin::event_stream(news, page.0.gateway.draining())
        }
        Err(error) => (StatusCode::SERVICE_UNAVAILABLE, format!("{error}\n")).into_response(),
    }
}

/// One reader. What it does not take stays in the log.
struct News {
    tail: LogTail,
    told: Option<Instant>,
    state: ShownState,
    _permit: OwnedSemaphorePermit,
}

impl EventSource for News {
    async fn next(&mut self) -> Option<Bytes> {
        if let Some(told) = self.told {
            tokio::time::sleep_until(told + PACE).await;
        }
        let rows = loop {
            tokio::select! {
                rows = self.tail.next() => break rows.ok()?,
                () = tokio::time::sleep_until(self.state.due) => if let Some(news) = self.state.news() {
                    // Without a number: it is what is, and nothing of it is missed by whoever comes back.
                    return Some(sse::encode(None, Some(RETRY), news.to_string().as_bytes()));
                },
            }
        };
        self.told = Some(Instant::now());
        let last = rows.last()?.seq.to_string();
        let headlines: Vec<Value> = rows.iter().map(headline).collect();
        Some(sse::encode(Some(&last), Some(RETRY), json!(headlines).to_string().as_bytes()))
    }
}

/// What numbers and states a page that is open shows.
struct ShownState {
    page: PageServer,
    wants_clients: bool,
    due: Instant,
    version: u64,
    told: HashMap<String, String>,
    /// The clients that stand on the page, how each stood, and how many there were in all.
    shown: HashSet<u64>,
    clients: HashMap<u64, &'static str>,
    total: usize,
}

impl ShownState {
    fn new(page: PageServer, wants_clients: bool, shown: HashSet<u64>) -> Self {
        let due = Instant::now() + TICK;
        let (told, clients) = (HashMap::new(), HashMap::new());
        Self { page, wants_clients, due, version: 0, told, shown, clients, total: 0 }
    }

    /// What differs from what was last sent.
    fn news(&mut self) -> Option<Value> {
        self.due = Instant::now() + TICK;
        let gateway = &self.page.0.gateway;
        let version = gateway.deliveries_version();
        let mut news = json!({});
        if version != self.version {
            self.version = version;
            let newest = gateway.newest_notices(COMMITS).into_iter().map(|(commit, topic, known)| {
                let counts = views::notice_counts(commit, &known);
                (counts.key(topic.as_str()), counts.words())
            });
            let now: HashMap<String, String> = newest.collect();
            let told: Vec<_> = now.iter().filter(|(key, words)| self.told.get(*key) != Some(words)).collect();
            if !told.is_empty() {
                news["told"] = told.into_iter().map(|(key, words)| (key.clone(), json!(words))).collect();
            }
            self.told = now;
        }
        // How long ago something was makes another state of it, so these are asked each time.
        if self.wants_clients {
            let all = gateway.standing();
            let total = all.len();
            let shown: Vec<_> = all.into_iter().filter(|standing| self.shown.contains(&standing.client.id)).collect();
            let differs = |standing: &&StandingClient| {
                self.clients.get(&standing.client.id).copied() != Some(standing.standing.as_str())
            };
            let changed = shown.iter().filter(differs).map(|standing| {
                let state = standing.standing.as_str();
                let (shape, class) = tidings_page::client_state(state);
                let reason = tidings_admin::client_reason(standing);
                (standing.client.id.to_string(), json!([class, format!("{shape} {state}"), reason]))
            });
            let changed: serde_json::Map<String, Value> = changed.collect();
            if !changed.is_empty() || total != self.total {
                news["clients"] = changed.into();
                news["total"] = total.into();
            }
            self.total = total;
            self.clients = shown.iter().map(|standing| (standing.client.id, standing.standing.as_str())).collect();
        }
        (!news.as_object()?.is_empty()).then_some(news)
    }
}

/// What a reader needs to know whether a change fits its filter.
fn headline(row: &ChangeRow) -> Value {
    let Ok(record) = serde_json::from_slice::<ChangeRecord>(&row.json) else {
        return json!({ "seq": row.seq, "names": [] });
    };
    let changed = record.changed.iter().map(|item| &item.name);
    let names: Vec<&String> = record.added.iter().chain(&record.removed).chain(changed).take(NAMES).collect();
    json!({
        "seq": row.seq,
        "server": record.server,
        "kind": record.kind,
        "severity": weight::of_record(&record).0.as_str(),
        "names": names,
    })
}
