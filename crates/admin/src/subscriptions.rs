//! `GET /subscriptions`: which resources are followed, and by whom.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde_json::{Value, json};

use crate::AdminShared;

pub(crate) async fn list(State(admin): State<AdminShared>) -> Json<Value> {
    let (resources, followers) = admin.gateway.followed();
    let resources = resources.iter().map(|resource| {
        let mut shown = json!({
            "server": resource.server,
            "uri": resource.uri,
            "server_uri": &*resource.local,
            "state": resource.phase.as_str(),
            "own_connection": resource.own,
            "followers": resource.followers,
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
}

fn named((server, local): &(String, Arc<str>)) -> Value {
    json!({ "server": server, "server_uri": &**local })
}
