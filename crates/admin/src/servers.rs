//! `GET /servers` and `GET /status`: what is configured beside what runs, one entry per server.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use axum::Json;
use axum::extract::{Path, Query as Params, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use tidings_engine::{Catalogue, FailedList, Gateway, Origin, ServerState, ServerStatus};
use tidings_inventory::{RegistryEntry, RegistryState};
use tidings_proto::{ListKind, extensions};

use crate::query_fault::QueryFault;
use crate::{AdminShared, cluster, notify, problem, telemetry};

/// The words of the states.
const STATES: [&str; 5] = ["ready", "connecting", "failing", "needs login", "disabled"];

/// Every server with its state, or those that are asked for; by name where a part is asked for.
pub(crate) async fn list(
    State(admin): State<AdminShared>,
    Params(params): Params<HashMap<String, String>>,
) -> Response {
    let wrong = |fault: QueryFault| problem(StatusCode::BAD_REQUEST, &fault.to_string());
    let strange = params.keys().find(|key| !matches!(key.as_str(), "state" | "after" | "limit"));
    if let Some(key) = strange {
        return wrong(QueryFault::UnknownParameter(key.clone()));
    }
    if let Some(state) = params.get("state").filter(|state| !STATES.contains(&state.as_str())) {
        return wrong(QueryFault::ServerState(state.clone()));
    }
    let limit = match params.get("limit").map(|limit| limit.parse().ok().filter(|limit| *limit > 0)) {
        Some(None) => return wrong(QueryFault::ToolLimit),
        Some(Some(limit)) => limit,
        None => usize::MAX,
    };
    let state = admin.registry.state();
    let catalogue = admin.gateway.catalogue().borrow().clone();
    let mut known = known(&admin.gateway, &catalogue, &state);
    known.retain(|server| params.get("state").is_none_or(|state| server.state() == state));
    // Sorted only where a part is asked for: `after` goes by names, and everybody else expects the order of the file.
    if params.contains_key("after") || params.contains_key("limit") {
        known.sort_by_key(KnownServer::name);
        known.retain(|server| params.get("after").is_none_or(|after| server.name() > after.as_str()));
    }
    let total = known.len();
    let servers: Vec<Value> =
        known.iter().take(limit).map(|server| server.describe(&admin.gateway, &catalogue)).collect();
    Json(json!({ "servers": servers, "more": total > servers.len() })).into_response()
}

/// `GET /servers/{name}`.
pub(crate) async fn show(State(admin): State<AdminShared>, Path(name): Path<String>) -> Response {
    match describe_server(&admin.gateway, &admin.registry.state(), &name) {
        Some(server) => Json(server).into_response(),
        None => problem(StatusCode::NOT_FOUND, &format!("there is no server \"{name}\" now")),
    }
}

/// One server that has just been put.
pub(crate) fn describe_one(admin: &AdminShared, name: &str) -> Value {
    // It may be gone again already, by somebody else's hand.
    describe_server(&admin.gateway, &admin.registry.state(), name).unwrap_or_else(|| json!({ "name": name }))
}

/// One server by its name.
pub fn describe_server(gateway: &Gateway, state: &RegistryState, name: &str) -> Option<Value> {
    let catalogue = gateway.catalogue().borrow().clone();
    let known = known(gateway, &catalogue, state);
    known.iter().find(|server| server.name() == name).map(|server| server.describe(gateway, &catalogue))
}

/// The name and the state of each server.
pub fn server_states(gateway: &Gateway, state: &RegistryState) -> Vec<(String, &'static str)> {
    let catalogue = gateway.catalogue().borrow().clone();
    known(gateway, &catalogue, state).iter().map(|server| (server.name().to_owned(), server.state())).collect()
}

/// Some of the servers, in the order of `rank` and then of their names, and how many fit.
pub fn describe_some(
    gateway: &Gateway,
    state: &RegistryState,
    fits: impl Fn(&str, &str) -> bool,
    rank: impl Fn(&str) -> u8,
    part: std::ops::Range<usize>,
) -> (Vec<Value>, usize) {
    let catalogue = gateway.catalogue().borrow().clone();
    let mut known = known(gateway, &catalogue, state);
    known.retain(|server| fits(server.name(), server.state()));
    known.sort_by_key(|server| (rank(server.state()), server.name()));
    let shown = known.iter().skip(part.start).take(part.len());
    (shown.map(|server| server.describe(gateway, &catalogue)).collect(), known.len())
}

/// A server that runs, or one that is configured and does not.
enum KnownServer<'a> {
    Running {
        server: &'a ServerStatus,
        state: ServerState,
        /// Who added it, where that is known.
        added_by: Option<&'a str>,
    },
    Idle(&'a RegistryEntry),
}

impl<'a> KnownServer<'a> {
    fn name(&self) -> &'a str {
        match self {
            Self::Running { server, .. } => &server.name,
            Self::Idle(entry) => &entry.name,
        }
    }

    fn state(&self) -> &'static str {
        match self {
            Self::Running { state, .. } => state.as_str(),
            // It should run and does not: its `problem` says why, and nobody tries it.
            Self::Idle(entry) if entry.enabled => "failing",
            Self::Idle(_) => "disabled",
        }
    }

    fn describe(&self, gateway: &Gateway, catalogue: &Catalogue) -> Value {
        match self {
            Self::Running { server, state, added_by } => one(gateway, catalogue, (server, *state), *added_by),
            Self::Idle(entry) => not_running(entry),
        }
    }
}

fn known<'a>(gateway: &Gateway, catalogue: &'a Catalogue, state: &'a RegistryState) -> Vec<KnownServer<'a>> {
    // By origin as well: a built-in server may have the name of one that is off.
    let running: HashSet<(&str, &str)> =
        catalogue.servers.iter().map(|server| (&*server.name, server.origin.as_str())).collect();
    let idle = state.servers.iter().filter(|entry| !running.contains(&(entry.name.as_str(), entry.origin.as_str())));
    let added: HashMap<&str, &str> =
        state.servers.iter().filter_map(|entry| Some((entry.name.as_str(), entry.added_by.as_deref()?))).collect();
    // What is there for people alone has nothing that could be said of it in general.
    let general = catalogue.servers.iter().filter(|server| !server.is_for_people);
    let running = general.map(|server| KnownServer::Running {
        server,
        state: state_of(gateway, server),
        added_by: added.get(&*server.name).copied(),
    });
    running.chain(idle.map(KnownServer::Idle)).collect()
}

/// The gateway as a whole.
pub(crate) async fn status(State(admin): State<AdminShared>) -> Json<Value> {
    let state = admin.registry.state();
    let catalogue = admin.gateway.catalogue().borrow().clone();
    let external = || catalogue.servers.iter().filter(|server| server.origin != Origin::BuiltIn);
    let count = |state: ServerState| external().filter(|server| state_of(&admin.gateway, server) == state).count();
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
        "sessions": admin.gateway.connected_count(),
        "clients": clients_by_state(&admin),
        "requests_in_flight": admin.gateway.in_flight(),
        "displaced_tools": displaced(&admin.gateway),
        "quotas": quotas(&admin),
        "search": admin.search.describe(),
        "notify": notify::describe(admin.hooks.as_ref()),
        "telemetry": telemetry::describe(admin.telemetry.as_ref()),
        "cluster": cluster::describe(&admin.gateway),
        "audit": admin.audit.as_ref().map(|audit| json!({ "dropped": audit.dropped() })),
    }))
}

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs())
}

/// How many clients stand how to what they were told; states that nobody is in are left out.
fn clients_by_state(admin: &AdminShared) -> serde_json::Map<String, Value> {
    let counts = admin.gateway.standing_counts().into_iter().filter(|(_, count)| *count > 0);
    counts.map(|(standing, count)| (standing.as_str().to_owned(), count.into())).collect()
}

/// Who has how much of what may be had: only those who have some, or were refused.
fn quotas(admin: &AdminShared) -> Vec<Value> {
    let books = admin.clients.books();
    let measures = books.iter().flat_map(|book| book.measures());
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
    let servers: Vec<Value> =
        known(gateway, &catalogue, state).iter().map(|server| server.describe(gateway, &catalogue)).collect();
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
        "owner": null,
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
        "app_tools": 0,
        "held": 0,
        "people": null,
    })
}

/// How a server is. Where no replica of a cluster may run it nobody tries to start it, so nothing else says what is wrong.
fn state_of(gateway: &Gateway, server: &ServerStatus) -> ServerState {
    if gateway.unplaced(&server.name).is_some() { ServerState::Failing } else { server.state }
}

fn one(
    gateway: &Gateway,
    catalogue: &Catalogue,
    (server, state): (&ServerStatus, ServerState),
    added_by: Option<&str>,
) -> Value {
    let offer = catalogue.snapshot.offer(server.id);
    let count = |kind| offer.map_or(0, |offer| offer.list(kind).items.len());
    let snapshot = &catalogue.snapshot;
    let tools = offer.into_iter().flat_map(|offer| snapshot.displaced_tools(offer));
    let displaced_tools: Vec<&str> = tools.map(|displaced| displaced.item.key.as_str()).collect();
    let resources = offer.into_iter().flat_map(|offer| snapshot.displaced_resources(offer));
    let displaced_resources: Vec<&str> = resources.map(|item| item.key.as_str()).collect();
    let tools = offer.into_iter().flat_map(|offer| &offer.list(ListKind::Tools).items);
    let app_tools = tools.filter(|tool| extensions::names_page(&tool.raw)).count();
    json!({
        "name": &*server.name,
        "state": state.as_str(),
        "source": server.origin.as_str(),
        "added_by": added_by,
        "transport": server.transport,
        "owner": gateway.owner_of(&server.name),
        "era": server.era().map(|era| era.as_str()),
        "revision": server.revision().map(|revision| revision.as_str()),
        "tools": count(ListKind::Tools),
        "resources": count(ListKind::Resources),
        "resource_templates": count(ListKind::Templates),
        "prompts": count(ListKind::Prompts),
        "since": seconds(server.since),
        "connects": server.connects,
        "error": gateway.unplaced(&server.name).or_else(|| server.error.clone()),
        "warning": gateway.remark(server.id),
        "failed_lists": server.failed_lists.iter().map(failed).collect::<Vec<_>>(),
        "displaced_tools": displaced_tools,
        "displaced_resources": displaced_resources,
        "app_tools": app_tools,
        "held": gateway.waiting_approvals(server.id),
        "people": gateway.people_logins(server.id).map(|people| json!({
            "logged_in": people.logged_in, "need_login": people.need_login,
        })),
    })
}

/// A list that the server fails to give; `retry_in` is in seconds.
fn failed(list: &FailedList) -> Value {
    let left = list.retry_at.saturating_duration_since(Instant::now());
    json!({ "list": list.kind.method(), "error": list.error, "retry_in": left.as_secs_f64().ceil() as u64 })
}
