//! `GET /servers` and `GET /status`: what is configured beside what runs, one entry per server.

use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use axum::Json;
use axum::extract::State;
use serde_json::{Value, json};
use tidings_engine::{Catalogue, FailedList, Gateway, Origin, ServerState, ServerStatus};
use tidings_inventory::{RegistryEntry, RegistryState};
use tidings_proto::ListKind;

use crate::AdminShared;

/// Every server with its state.
pub(crate) async fn list(State(admin): State<AdminShared>) -> Json<Value> {
    Json(describe(&admin.gateway, &admin.registry.state()))
}

/// One server that has just been put.
pub(crate) fn describe_one(admin: &AdminShared, name: &str) -> Value {
    let mut all = describe(&admin.gateway, &admin.registry.state());
    let servers = all["servers"].as_array_mut().map(std::mem::take).unwrap_or_default();
    // It may be gone again already, by somebody else's hand.
    servers.into_iter().find(|server| server["name"] == name).unwrap_or_else(|| json!({ "name": name }))
}

/// The gateway as a whole.
pub(crate) async fn status(State(admin): State<AdminShared>) -> Json<Value> {
    let state = admin.registry.state();
    let catalogue = admin.gateway.catalogue().borrow().clone();
    let external = || catalogue.servers.iter().filter(|server| server.origin != Origin::BuiltIn);
    let count = |state: ServerState| external().filter(|server| server.state == state).count();
    let reload = state.reload.as_ref();
    Json(json!({
        "version": env!("CARGO_PKG_VERSION"),
        "pid": std::process::id(),
        "started": seconds(admin.gateway.started()),
        "ready": admin.gateway.is_ready(),
        "config": state.file,
        "config_read": reload.map(|report| seconds(report.at)),
        "config_error": reload.and_then(|report| report.outcome.as_ref().err()).map(ToString::to_string),
        "needs_restart": state.needs_restart,
        "keeps_servers": state.kept,
        "servers": {
            "ready": count(ServerState::Ready),
            "connecting": count(ServerState::Connecting),
            "failing": count(ServerState::Failing),
            "needs_login": count(ServerState::NeedsLogin),
            "disabled": state.servers.iter().filter(|entry| !entry.enabled).count(),
        },
        "sessions": admin.gateway.connected().len(),
        "requests_in_flight": admin.gateway.in_flight(),
        "displaced_tools": displaced(&admin.gateway),
        "quotas": quotas(&admin),
        "search": admin.search.describe(),
        "audit": admin.audit.as_ref().map(|audit| json!({ "dropped": audit.dropped() })),
    }))
}

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs())
}

/// Who has how much of what may be had: only those who have some, or were refused.
fn quotas(admin: &AdminShared) -> Vec<Value> {
    let measures = admin.quotas.iter().flat_map(|book| book.measures());
    let measures = measures.filter(|measure| measure.used > 0 || measure.refused > 0);
    let shown = measures.map(|measure| {
        let (used, limit, refused) = (measure.used, measure.limit, measure.refused);
        json!({ "principal": &*measure.principal, "quota": measure.quota, "used": used, "limit": limit, "refused": refused })
    });
    shown.collect()
}

/// Tools of servers that would be taken for built-in ones.
fn displaced(gateway: &Gateway) -> Vec<Value> {
    let snapshot = Arc::clone(&gateway.catalogue().borrow().snapshot);
    let mut out = Vec::new();
    for offer in snapshot.offers() {
        for tool in snapshot.displaced_tools(offer) {
            let (name, shown_as) = (tool.item.key.as_str(), tool.shown_as.as_str());
            out.push(json!({ "server": &*offer.name, "name": name, "shown_as": shown_as }));
        }
    }
    out
}

/// The servers, as the API and the command line show them: those that run, then those that are configured and do not.
pub fn describe(gateway: &Gateway, state: &RegistryState) -> Value {
    let catalogue = gateway.catalogue().borrow().clone();
    let runs = |entry: &RegistryEntry| {
        // By origin as well: a built-in server may have the name of one that is off.
        catalogue.servers.iter().any(|server| *server.name == *entry.name && server.origin == entry.origin)
    };
    let added_by = |name: &str| state.server(name).and_then(|entry| entry.added_by.as_deref());
    let running = catalogue.servers.iter().map(|server| one(gateway, &catalogue, server, added_by(&server.name)));
    let idle = state.servers.iter().filter(|entry| !runs(entry)).map(not_running);
    let servers: Vec<Value> = running.chain(idle).collect();
    json!({ "servers": servers })
}

/// A server that is configured, but off or of no use.
fn not_running(entry: &RegistryEntry) -> Value {
    json!({
        "name": entry.name,
        "state": if entry.enabled { "failing" } else { "disabled" },
        "source": entry.origin.as_str(),
        "added_by": entry.added_by,
        "transport": null,
        "era": null,
        "revision": null,
        "tools": 0,
        "resources": 0,
        "resource_templates": 0,
        "prompts": 0,
        "since": null,
        "connects": 0,
        "error": entry.problem,
        "warning": null,
        "failed_lists": [],
        "displaced_tools": [],
        "displaced_resources": [],
        "held": 0,
    })
}

fn one(gateway: &Gateway, catalogue: &Catalogue, server: &ServerStatus, added_by: Option<&str>) -> Value {
    let offer = catalogue.snapshot.offer(server.id);
    let count = |kind| offer.map_or(0, |offer| offer.list(kind).items.len());
    let snapshot = &catalogue.snapshot;
    let tools = offer.into_iter().flat_map(|offer| snapshot.displaced_tools(offer));
    let displaced_tools: Vec<&str> = tools.map(|displaced| displaced.item.key.as_str()).collect();
    let resources = offer.into_iter().flat_map(|offer| snapshot.displaced_resources(offer));
    let displaced_resources: Vec<&str> = resources.map(|item| item.key.as_str()).collect();
    json!({
        "name": &*server.name,
        "state": server.state.as_str(),
        "source": server.origin.as_str(),
        "added_by": added_by,
        "transport": server.transport,
        "era": server.era().map(|era| era.as_str()),
        "revision": server.revision().map(|revision| revision.as_str()),
        "tools": count(ListKind::Tools),
        "resources": count(ListKind::Resources),
        "resource_templates": count(ListKind::Templates),
        "prompts": count(ListKind::Prompts),
        "since": seconds(server.since),
        "connects": server.connects,
        "error": server.error,
        "warning": gateway.remark(server.id),
        "failed_lists": server.failed_lists.iter().map(failed).collect::<Vec<_>>(),
        "displaced_tools": displaced_tools,
        "displaced_resources": displaced_resources,
        "held": gateway.waiting_approvals(server.id),
    })
}

/// A list that the server fails to give; `retry_in` is in seconds.
fn failed(list: &FailedList) -> Value {
    let left = list.retry_at.saturating_duration_since(Instant::now());
    json!({ "list": list.kind.method(), "error": list.error, "retry_in": left.as_secs_f64().ceil() as u64 })
}
