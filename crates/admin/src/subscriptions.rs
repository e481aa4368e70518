//! `GET /subscriptions`: which resources are followed, and by whom.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use axum::Json;
use axum::extract::{Query as Params, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use crate::query_fault::QueryFault;
use crate::{AdminShared, problem};

pub(crate) async fn list(
    State(admin): State<AdminShared>,
    Params(params): Params<HashMap<String, String>>,
) -> Response {
    let (mut resources, mut followers) = admin.gateway.followed();
    let wrong = |fault: QueryFault| problem(StatusCode::BAD_REQUEST, &fault.to_string());
    let known = ["server", "client", "uri", "after"];
    if let Some(strange) = params.keys().find(|key| !known.contains(&key.as_str())) {
        return wrong(QueryFault::UnknownParameter(strange.clone()));
    }
    if let Some(client) = params.get("client") {
        let Ok(client) = client.parse::<u64>() else { return wrong(QueryFault::ClientNumber(client.clone())) };
        followers.retain(|follower| follower.id == client);
        let own: HashSet<&(String, Arc<str>)> = followers.iter().flat_map(|follower| &follower.resources).collect();
        resources.retain(|resource| own.contains(&(resource.server.clone(), Arc::clone(&resource.local))));
    }
    resources.retain(|resource| {
        params.get("server").is_none_or(|server| *server == resource.server)
            && params.get("uri").is_none_or(|uri| *uri == resource.uri || **uri == *resource.local)
            && params.get("after").is_none_or(|after| resource.uri > *after)
    });
    if !params.is_empty() {
        let shown: HashSet<(&str, &str)> =
            resources.iter().map(|resource| (&*resource.server, &*resource.local)).collect();
        for follower in &mut followers {
            follower.resources.retain(|(server, local)| shown.contains(&(server, local)));
        }
        followers.retain(|follower| !follower.resources.is_empty());
        // By what `after` goes by.
        resources.sort_by(|a, b| a.uri.cmp(&b.uri));
    }
    let resources = resources.iter().map(|resource| {
        let mut shown = json!({
            "server": resource.server,
            "uri": resource.uri,
            "server_uri": &*resource.local,
            "state": resource.phase.as_str(),
            "own_connection": resource.own,
            "followers": resource.followers,
            "announced": resource.announced,
            "announced_at": resource.announced_ago.map(crate::clients::time),
        });
        if let Some(unheard) = resource.unheard_for {
            shown["unheard_seconds"] = unheard.as_secs().into();
        }
        shown
    });
    let clients = followers.iter().map(|follower| {
        json!({
            "id": follower.id,
            "era": follower.era.as_str(),
            "name": follower.name.as_deref(),
            "uris": follower.uris,
            "resources": follower.resources.iter().map(named).collect::<Vec<_>>(),
        })
    });
    Json(json!({ "subscriptions": resources.collect::<Vec<_>>(), "clients": clients.collect::<Vec<_>>() }))
        .into_response()
}

fn named((server, local): &(String, Arc<str>)) -> Value {
    json!({ "server": server, "server_uri": &**local })
}
