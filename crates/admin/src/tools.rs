//! `GET /tools`: every tool behind the gateway, or those that fit a query, best first.

use std::sync::Arc;

use axum::extract::{RawQuery, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use tidings_engine::Gateway;
use tidings_proto::ListKind;
use tidings_search::{FoundTool, SearchView, ToolIndex, present, present_all};

use crate::query_fault::QueryFault;
use crate::{AdminShared, problem};

/// How many tools a search gives when nothing is said.
const LIMIT: usize = 20;

/// The parameters of the request.
#[derive(Debug, Default, PartialEq, Eq)]
struct ToolsQuery {
    query: Option<String>,
    limit: Option<usize>,
}

pub(crate) async fn list(State(admin): State<AdminShared>, RawQuery(raw): RawQuery) -> Response {
    let asked = match ToolsQuery::read(raw.as_deref().unwrap_or_default()) {
        Ok(asked) => asked,
        Err(fault) => return problem(StatusCode::BAD_REQUEST, &fault.to_string()),
    };
    // As the first lists do.
    admin.gateway.settled().await;
    let body = tools(&admin.gateway, &admin.index, asked.query, asked.limit).await;
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
                let digits = std::str::from_utf8(&digits).ok().filter(|d| d.bytes().all(|b| b.is_ascii_hexdigit()))?;
                u8::from_str_radix(digits, 16).ok()?
            }
            other => other,
        });
    }
    String::from_utf8(out).ok()
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
        let query = |text: &str| Ok(ToolsQuery { query: Some(text.into()), limit: None });
        assert_eq!(ToolsQuery::read(""), Ok(ToolsQuery::default()));
        assert_eq!(ToolsQuery::read("q=send+an%20e%2Dm%C3%A4il"), query("send an e-mäil"));
        assert_eq!(ToolsQuery::read("limit=3&q=a"), Ok(ToolsQuery { query: Some("a".into()), limit: Some(3) }));
        for wrong in ["q=", "q=%20", "q=%", "q=%+1", "q=%FF", "limit=0", "limit=x", "query=a"] {
            assert!(ToolsQuery::read(wrong).is_err(), "{wrong}");
        }
    }
}
