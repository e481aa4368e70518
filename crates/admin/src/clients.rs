//! `GET /clients`: who is connected, what each was told of lists that changed, and whether it listed again. `GET /changes/{seq}/deliveries`:
//! the same, seen from a change.

use std::collections::HashMap;
use std::time::{Duration, UNIX_EPOCH};

use axum::Json;
use axum::extract::{Path, Query as Params, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use jiff::Timestamp;
use serde_json::{Value, json};
use tidings_engine::{ClientStanding, DEAF_CALLS, Gateway, StandingClient};
use tidings_proto::Topic;

use crate::query_fault::QueryFault;
use crate::{AdminShared, problem};

/// How many events of a client, and clients of a change, are given.
const MOST: usize = 1_000;

pub(crate) async fn list(
    State(admin): State<AdminShared>,
    Params(params): Params<HashMap<String, String>>,
) -> Response {
    let mut all = clients(&admin.gateway);
    if let Some(state) = params.get("state") {
        if !ClientStanding::ALL.iter().any(|standing| standing.as_str() == state) {
            return problem(StatusCode::BAD_REQUEST, &QueryFault::ClientState(state.clone()).to_string());
        }
        if let Some(clients) = all["clients"].as_array_mut() {
            clients.retain(|client| client["state"] == **state);
        }
    }
    if let Some(before) = params.get("before") {
        let Ok(before) = before.parse::<u64>() else {
            return problem(StatusCode::BAD_REQUEST, &QueryFault::ClientBefore(before.clone()).to_string());
        };
        if let Some(clients) = all["clients"].as_array_mut() {
            clients.retain(|client| client["id"].as_u64().is_some_and(|id| id < before));
        }
    }
    Json(all).into_response()
}

pub(crate) async fn show(State(admin): State<AdminShared>, Path(id): Path<u64>) -> Response {
    match client(&admin.gateway, id) {
        Some(client) => Json(client).into_response(),
        None => absent(id),
    }
}

pub(crate) async fn ledger(State(admin): State<AdminShared>, Path(id): Path<u64>) -> Response {
    match client(&admin.gateway, id) {
        Some(_) => Json(client_ledger(&admin.gateway, id, MOST)).into_response(),
        None => absent(id),
    }
}

fn absent(id: u64) -> Response {
    let detail = format!("there is no client {id} now; it left, or was connected before a restart");
    problem(StatusCode::NOT_FOUND, &detail)
}

/// Every client that stays, as the API, the page and the command line show it.
pub fn clients(gateway: &Gateway) -> Value {
    let since = gateway.started().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    json!({ "since": since, "clients": gateway.standing().iter().map(one).collect::<Vec<_>>() })
}

/// Some of them, in the order of `rank` and then of their numbers, and how many fit.
pub fn clients_part(
    gateway: &Gateway,
    fits: impl Fn(&str) -> bool,
    rank: impl Fn(&str) -> u8,
    part: std::ops::Range<usize>,
) -> (Vec<Value>, usize) {
    let (shown, total) =
        gateway.standing_part(|standing| fits(standing.as_str()), |standing| rank(standing.as_str()), part);
    (shown.iter().map(one).collect(), total)
}

/// One of them.
pub fn client(gateway: &Gateway, id: u64) -> Option<Value> {
    gateway.standing_of([id]).first().map(one)
}

/// What happened to a client, the newest first.
pub fn client_ledger(gateway: &Gateway, id: u64, most: usize) -> Value {
    let found = gateway.client_events(id, most);
    let events = found.events.iter().map(|event| {
        json!({
            "time": time(event.ago),
            "event": if event.told { "told" } else { "listed" },
            "lists": event.topics.iter().map(|topic| topic.as_str()).collect::<Vec<_>>(),
            "first_commit": event.commits.map(|commits| commits.0),
            "last_commit": event.commits.map(|commits| commits.1),
        })
    });
    json!({ "events": events.collect::<Vec<_>>(), "older": found.older })
}

/// What became of the notices of one list and commit: counts, a histogram, and who was told. Null counts where nothing is known.
pub fn deliveries(gateway: &Gateway, commit: Option<u64>, kind: &str, most: usize) -> Value {
    let topic = topic_of(kind);
    let known = commit.and_then(|commit| gateway.notices_of(commit, topic));
    let Some((commit, known)) = commit.zip(known) else {
        return json!({ "commit": commit, "known": false });
    };
    let told = gateway.told_of(commit, topic, most).into_iter().map(|told| {
        json!({ "client": told.id, "name": told.name, "time": time(told.ago), "coalesced": told.span.saturating_sub(1) })
    });
    json!({
        "commit": commit,
        "known": true,
        "owed": known.owed,
        "told": known.told,
        "left": known.left,
        "waiting": known.owed.saturating_sub(known.told + known.left),
        "spared": known.spared,
        "silent": known.silent,
        "median_ms": known.median,
        "within": known.within,
        "clients": told.collect::<Vec<_>>(),
    })
}

/// The topic by which changes of a list are announced.
fn topic_of(kind: &str) -> Topic {
    match kind {
        "tools" => Topic::Tools,
        "prompts" => Topic::Prompts,
        // Resources and their templates are announced by one notice.
        _ => Topic::Resources,
    }
}

pub(crate) fn time(ago: Duration) -> String {
    let millis = i64::try_from(ago.as_millis()).unwrap_or(i64::MAX);
    let at = Timestamp::now().as_millisecond().saturating_sub(millis);
    Timestamp::from_millisecond(at).map(|time| time.to_string()).unwrap_or_default()
}

fn one(standing: &StandingClient) -> Value {
    let client = &standing.client;
    let list = |topic: Topic| {
        let [told, listed] = [standing.told, standing.listed].map(|all| all[topic as usize].map(time));
        let outdated = standing.outdated.iter().any(|(old, _)| *old == topic);
        let (state, calls) = (standing.lists[topic as usize].as_str(), standing.calls[topic as usize]);
        json!({
            "list": topic.as_str(),
            "state": state,
            "told": told,
            "commit": standing.commits[topic as usize],
            "listed": listed,
            "outdated": outdated,
            "calls_since": calls,
        })
    };
    json!({
        "id": client.id,
        "kind": client.by.as_str(),
        "name": client.name,
        "principal": client.principal,
        "revision": client.revision.as_str(),
        "since": client.since.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()),
        "state": standing.standing.as_str(),
        "reason": client_reason(standing),
        "notices": standing.notices,
        "lists": Topic::ALL.map(list),
    })
}

/// Why a client stands as it does, in words.
pub fn client_reason(standing: &StandingClient) -> String {
    let owed = standing.owed.unwrap_or_default().as_secs();
    let old: Vec<&str> = standing.outdated.iter().map(|(topic, _)| topic.as_str()).collect();
    let old = old.join(", ");
    let told = standing.outdated.iter().map(|(_, ago)| ago.as_secs()).max().unwrap_or_default();
    match standing.standing {
        ClientStanding::Heard if standing.notices == 0 => "nothing changed for it".to_owned(),
        ClientStanding::Heard => "listed after everything that it was told".to_owned(),
        ClientStanding::Owed => format!("owed a notice for {owed} s"),
        ClientStanding::Waiting => format!("told {told} s ago of {old}, and did not list yet"),
        ClientStanding::Deaf => deaf(standing),
        ClientStanding::Unreached => format!("owed a notice for {owed} s: it has no open stream, or does not read it"),
        ClientStanding::Sent if standing.notices == 0 => "on the channel; nothing changed for it".to_owned(),
        ClientStanding::Sent => "sent on the channel, which says nothing about who read it".to_owned(),
        ClientStanding::NotAsking => {
            "asks for lists, and not to be told of their changes (subscriptions/listen)".to_owned()
        }
        ClientStanding::Silent => "its revision is told of nothing ([notifications] suppress)".to_owned(),
        ClientStanding::Unknown => {
            "it asked for no list since it is counted, or its lists can not be told from another client's".to_owned()
        }
    }
}

/// Why a client counts as deaf: the lists that it used, or left alone, since it was told.
fn deaf(standing: &StandingClient) -> String {
    let is_deaf = |topic: &Topic| standing.lists[*topic as usize] == ClientStanding::Deaf;
    let lists: Vec<Topic> = standing.outdated.iter().map(|(topic, _)| *topic).filter(is_deaf).collect();
    let ago = standing.outdated.iter().filter(|(topic, _)| is_deaf(topic)).map(|(_, ago)| ago.as_secs()).max();
    let names: Vec<&str> = lists.iter().map(|topic| topic.as_str()).collect();
    let calls = lists.iter().map(|topic| standing.calls[*topic as usize]).max().unwrap_or_default();
    let calls = match calls {
        0 => String::new(),
        1 => "; it called once since".to_owned(),
        calls if calls < DEAF_CALLS => format!("; it called {calls} times since"),
        calls => format!("; it called {calls} times or more since"),
    };
    format!("told {} s ago of {}, and did not list since{calls}", ago.unwrap_or_default(), names.join(", "))
}
