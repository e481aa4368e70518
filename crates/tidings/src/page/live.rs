//! `GET /live`: what is new, as it happens; with `ask=1` what is new right now. A reader resumes by number.

use axum::Json;
use axum::extract::{RawQuery, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use serde_json::{Value, json};
use tidings_admin::EventSource;
use tidings_store::{ChangeQuery, ChangeRecord, ChangeRow, LogTail, QueryStart};
use tidings_wire::sse;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Duration, Instant};

use super::PageServer;
use super::entrance::fields;
use super::shown_state::ShownState;
use crate::weight;

/// How far apart messages are at least.
const PACE: Duration = Duration::from_millis(100);
/// How soon a browser that lost the stream comes again, in milliseconds.
const RETRY: u64 = 1_000;
/// How many headlines a message holds, and how many names a headline.
const HEADLINES: usize = 64;
const NAMES: usize = 8;

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
            let state = ShownState::new(page.clone(), &query);
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
                () = tokio::time::sleep_until(self.state.due()) => if let Some(news) = self.state.news() {
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
