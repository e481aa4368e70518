//! `GET /subscriptions`: which resources are followed, and by whom.

use axum::Json;
use axum::extract::State;
use serde_json::{Value, json};

use crate::Admin;

pub(crate) async fn list(State(admin): State<Admin>) -> Json<Value> {
    let (resources, followers) = admin.gateway.followed();
    let resources = resources.iter().map(|resource| {
        json!({
            "server": resource.server,
            "uri": resource.uri,
            "server_uri": &*resource.local,
            "state": resource.phase.as_str(),
            "own_connection": resource.own,
            "followers": resource.followers,
        })
    });
    let clients = followers.iter().map(|follower| {
        json!({
            "id": follower.id,
            "era": follower.era.as_str(),
            "name": follower.name.as_deref(),
            "uris": follower.uris,
        })
    });
    Json(json!({ "subscriptions": resources.collect::<Vec<_>>(), "clients": clients.collect::<Vec<_>>() }))
}
