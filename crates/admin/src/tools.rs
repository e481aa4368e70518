//! `GET /tools`: every tool behind the gateway, or those that fit a query, best first.

use std::sync::Arc;

use axum::Json;
use axum::extract::{RawQuery, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use jiff::Timestamp;
use serde_json::{Value, json};
use tidings_engine::Gateway;
use tidings_hub::catalogue::CatalogueSnapshot;
use tidings_proto::ListKind;
use tidings_search::{FoundTool, SearchView, ToolIndex, present, present_all};
use tidings_store::{ChangeLog, LogError};
use tidings_wire::hex;

use crate::changes::unavailable;
use crate::definitions::{definition, millis, moment};
use crate::query_fault::QueryFault;
use crate::{AdminShared, problem};

/// How many tools a search gives when nothing is said.
const LIMIT: usize = 20;

/// The parameters of the request.
#[derive(Debug, Default, PartialEq, Eq)]
struct ToolsQuery {
    query: Option<String>,
    limit: Option<usize>,
    /// The client through whose eyes they are seen.
    seen_by: Option<String>,
    at: Option<String>,
    after: Option<String>,
}

pub(crate) async fn list(State(admin): State<AdminShared>, RawQuery(raw): RawQuery) -> Response {
    let asked = match ToolsQuery::read(raw.as_deref().unwrap_or_default()) {
        Ok(asked) => asked,
        Err(fault) => return problem(StatusCode::BAD_REQUEST, &fault.to_string()),
    };
    // As the first lists do.
    admin.gateway.settled().await;
    if let Some(text) = asked.at {
        let Some(at) = moment(&text) else {
            return problem(StatusCode::BAD_REQUEST, &QueryFault::Moment(text).to_string());
        };
        return match tools_at(&admin.changes, at, 0..asked.limit.unwrap_or(usize::MAX)).await {
            Ok((tools, _)) => Json(json!({ "tools": tools })).into_response(),
            Err(error) => unavailable(&error),
        };
    }
    let body = if let Some(client) = asked.seen_by {
        let seen = client.parse().ok().and_then(|id| admin.gateway.seen_by_client(id));
        let Some(seen) = seen else {
            return problem(StatusCode::NOT_FOUND, &QueryFault::NoClient(client).to_string());
        };
        tools_seen(&seen, &admin.index, asked.query, asked.limit, asked.after.as_deref()).await
    } else if asked.after.is_some() {
        let all = Arc::clone(&admin.gateway.catalogue().borrow().snapshot);
        tools_seen(&all, &admin.index, asked.query, asked.limit, asked.after.as_deref()).await
    } else {
        tools(&admin.gateway, &admin.index, asked.query, asked.limit).await
    };
    ([(header::CONTENT_TYPE, "application/json")], body).into_response()
}

impl ToolsQuery {
    fn read(raw: &str) -> Result<Self, QueryFault> {
        let mut asked = Self::default();
        for pair in raw.split('&').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            let value = decode(value).ok_or_else(|| QueryFault::NotEncoded(key.to_owned()))?;
            match key {
                "q" if value.trim().is_empty() => return Err(QueryFault::EmptySearch),
                "q" => asked.query = Some(value),
                "as" => asked.seen_by = Some(value),
                "at" => asked.at = Some(value),
                "after" => asked.after = Some(value),
                "limit" => {
                    let limit = value.parse().ok().filter(|limit| *limit > 0);
                    asked.limit = Some(limit.ok_or(QueryFault::ToolLimit)?);
                }
                other => return Err(QueryFault::UnknownParameter(other.to_owned())),
            }
        }
        Ok(asked)
    }
}

/// Form encoding: `+` is a space, `%XX` a byte.
fn decode(text: &str) -> Option<String> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        out.push(match byte {
            b'+' => b' ',
            b'%' => {
                let digits = [bytes.next()?, bytes.next()?];
                // Checked before, because `from_str_radix` takes a sign.
                let digits = std::str::from_utf8(&digits).ok().filter(|d| d.bytes().all(|b| b.is_ascii_hexdigit()))?;
                u8::from_str_radix(digits, 16).ok()?
            }
            other => other,
        });
    }
    String::from_utf8(out).ok()
}

/// The tools that there were at a time, as their servers called them; and how many. Those of the part are read.
pub async fn tools_at(
    log: &ChangeLog,
    at: Timestamp,
    part: std::ops::Range<usize>,
) -> Result<(Vec<Value>, usize), LogError> {
    let all = log.items_at("tools".to_owned(), millis(at)).await?;
    let total = all.len();
    let mut shown = Vec::new();
    for item in all.into_iter().skip(part.start).take(part.len()) {
        let mut tool = definition(log, item.digest).await?;
        if !tool.is_object() {
            // A definition that is too long is known by its digest alone.
            tool = json!({ "description": "not kept: its definition is too long" });
        }
        let (name, schema) = (item.name, tool["inputSchema"].take());
        let since = Timestamp::from_millisecond(i64::try_from(item.since).unwrap_or_default()).unwrap_or(at);
        shown.push(json!({
            "name": name,
            "server": item.owner.server,
            "description": tool["description"].as_str().unwrap_or_default(),
            "inputSchema": if schema.is_object() { schema } else { json!({ "type": "object" }) },
            "since": since.to_string(),
            "digest": hex(&item.digest),
        }));
    }
    Ok((shown, total))
}

/// The tools of a catalogue: by name after a name, or those that fit, best first.
pub async fn tools_seen(
    snapshot: &Arc<CatalogueSnapshot>,
    index: &Arc<ToolIndex>,
    query: Option<String>,
    limit: Option<usize>,
    after: Option<&str>,
) -> String {
    if let Some(query) = query {
        return found(Arc::clone(snapshot), index, query, limit.unwrap_or(LIMIT)).await;
    }
    let mut all = Vec::new();
    for offer in snapshot.offers() {
        for item in &offer.list(ListKind::Tools).items {
            if let Some(name) = snapshot.public_name(ListKind::Tools, offer.server, &item.key) {
                all.push((name.to_string(), offer.server, &item.key));
            }
        }
    }
    all.sort_by(|a, b| a.0.cmp(&b.0));
    all.retain(|(name, ..)| after.is_none_or(|after| name.as_str() > after));
    present_all(
        all.iter()
            .take(limit.unwrap_or(usize::MAX))
            .filter_map(|(_, server, key)| present(snapshot, *server, key, None)),
    )
}

async fn found(snapshot: Arc<CatalogueSnapshot>, index: &Arc<ToolIndex>, query: String, limit: usize) -> String {
    let index = Arc::clone(index);
    // May ask the embeddings endpoint; the search itself is processor work and goes to a blocking thread.
    let query = index.question(query).await;
    let search = move || {
        let shown = |found: &FoundTool| snapshot.public_name(ListKind::Tools, found.server, &found.local).is_some();
        // As a view of its own: a search brings its index up to this snapshot, and the shared one must not follow one
        // client.
        let found = index.search(&snapshot, SearchView::Own, &query, limit, shown);
        present_all(found.iter().filter_map(|f| present(&snapshot, f.server, &f.local, Some(f.score))))
    };
    tokio::task::spawn_blocking(search).await.unwrap_or_else(|_| present_all([]))
}

/// Some of the tools of a catalogue by server and name, and how many there are.
pub fn tools_part(snapshot: &CatalogueSnapshot, part: std::ops::Range<usize>) -> (String, usize) {
    let mut total = 0;
    let mut shown = Vec::new();
    for offer in snapshot.offers() {
        for item in &offer.list(ListKind::Tools).items {
            if snapshot.public_name(ListKind::Tools, offer.server, &item.key).is_none() {
                continue;
            }
            if part.contains(&total) {
                shown.extend(present(snapshot, offer.server, &item.key, None));
            }
            // Counted also outside of the part, for the number of pages.
            total += 1;
        }
    }
    (present_all(shown), total)
}

/// `{"tools": […]}` as the API and the command line show it: all by name, or those that fit the query, best first. Tools
/// that clients are not listed are there too.
pub async fn tools(gateway: &Gateway, index: &Arc<ToolIndex>, query: Option<String>, limit: Option<usize>) -> String {
    let snapshot = Arc::clone(&gateway.catalogue().borrow().snapshot);
    let Some(query) = query else {
        let tools = snapshot.offers().iter().flat_map(|offer| {
            let items = &offer.list(ListKind::Tools).items;
            items.iter().filter_map(|item| present(&snapshot, offer.server, &item.key, None))
        });
        return present_all(tools.take(limit.unwrap_or(usize::MAX)));
    };
    let index = Arc::clone(index);
    // May ask the embeddings endpoint; the search itself is processor work and goes to a blocking thread.
    let query = index.question(query).await;
    let search = move || {
        let shown = |found: &FoundTool| snapshot.public_name(ListKind::Tools, found.server, &found.local).is_some();
        let found = index.search(&snapshot, SearchView::Shared, &query, limit.unwrap_or(LIMIT), shown);
        present_all(found.iter().filter_map(|f| present(&snapshot, f.server, &f.local, Some(f.score))))
    };
    tokio::task::spawn_blocking(search).await.unwrap_or_else(|_| present_all([]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_decoded_and_strange_ones_refused() {
        let query = |text: &str| Ok(ToolsQuery { query: Some(text.into()), ..ToolsQuery::default() });
        assert_eq!(ToolsQuery::read(""), Ok(ToolsQuery::default()));
        assert_eq!(ToolsQuery::read("q=send+an%20e%2Dm%C3%A4il"), query("send an e-mäil"));
        assert_eq!(
            ToolsQuery::read("limit=3&q=a"),
            Ok(ToolsQuery { query: Some("a".into()), limit: Some(3), ..ToolsQuery::default() })
        );
        for wrong in ["q=", "q=%20", "q=%", "q=%+1", "q=%FF", "limit=0", "limit=x", "query=a"] {
            assert!(ToolsQuery::read(wrong).is_err(), "{wrong}");
        }
    }
}
