//! `GET /servers` and `GET /status`.

use std::sync::Arc;
use std::time::{Instant, UNIX_EPOCH};

use axum::Json;
use axum::extract::State;
use serde_json::{Value, json};
use tidings_engine::{Catalogue, FailedList, Gateway, ServerStatus};
use tidings_proto::ListKind;

use crate::Admin;

/// Every server with its state.
pub(crate) async fn list(State(admin): State<Admin>) -> Json<Value> {
    Json(describe(&admin.gateway))
}

/// The gateway as a whole.
pub(crate) async fn status(State(admin): State<Admin>) -> Json<Value> {
    Json(json!({
        "version": env!("CARGO_PKG_VERSION"),
        "pid": std::process::id(),
        "ready": admin.gateway.is_ready(),
        "requests_in_flight": admin.gateway.in_flight(),
        "hidden_tools": hidden(&admin.gateway),
    }))
}

/// Built-in tools that are hidden because a server offers one of the same name.
fn hidden(gateway: &Gateway) -> Vec<Value> {
    let snapshot = Arc::clone(&gateway.catalogue().borrow().snapshot);
    let mut out = Vec::new();
    for offer in snapshot.offers() {
        for item in snapshot.hidden_tools(offer) {
            let winner = snapshot.tool(&item.key).and_then(|route| snapshot.offer(route.server));
            out.push(json!({ "name": &*item.key, "by": winner.map(|winner| &*winner.name) }));
        }
    }
    out
}

/// The servers of an engine, as the API and the command line show them.
pub fn describe(gateway: &Gateway) -> Value {
    let catalogue = gateway.catalogue().borrow().clone();
    let servers: Vec<Value> = catalogue.servers.iter().map(|server| one(&catalogue, server)).collect();
    json!({ "servers": servers })
}

fn one(catalogue: &Catalogue, server: &ServerStatus) -> Value {
    let offer = catalogue.snapshot.offer(server.id);
    let count = |kind| offer.map_or(0, |offer| offer.list(kind).items.len());
    let hidden: Vec<&str> =
        offer.into_iter().flat_map(|offer| catalogue.snapshot.hidden_tools(offer)).map(|item| &*item.key).collect();
    json!({
        "name": &*server.name,
        "state": server.state.as_str(),
        "source": server.origin.as_str(),
        "era": server.era().map(|era| era.as_str()),
        "revision": server.revision().map(|revision| revision.as_str()),
        "tools": count(ListKind::Tools),
        "resources": count(ListKind::Resources),
        "resource_templates": count(ListKind::Templates),
        "prompts": count(ListKind::Prompts),
        "since": server.since.duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs()),
        "connects": server.connects,
        "error": server.error,
        "failed_lists": server.failed_lists.iter().map(failed).collect::<Vec<_>>(),
        "hidden_tools": hidden,
    })
}

/// A list that the server fails to give; `retry_in` is in seconds.
fn failed(list: &FailedList) -> Value {
    let left = list.retry_at.saturating_duration_since(Instant::now());
    json!({ "list": list.kind.method(), "error": list.error, "retry_in": left.as_secs_f64().ceil() as u64 })
}
