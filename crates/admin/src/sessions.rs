//! `GET /sessions`: who is connected.

use std::time::UNIX_EPOCH;

use axum::Json;
use axum::extract::State;
use serde_json::{Value, json};
use tidings_engine::ConnectedBy;

use crate::AdminShared;

pub(crate) async fn list(State(admin): State<AdminShared>) -> Json<Value> {
    let (_, followers) = admin.gateway.followed();
    let follows = |id: u64| followers.iter().find(|follower| follower.id == id).map_or(0, |f| f.uris.len());
    let sessions =
        admin.gateway.standing().into_iter().filter(|one| one.client.by != ConnectedBy::Requests).map(|one| {
            let client = one.client;
            json!({
                "id": client.id,
                "kind": client.by.as_str(),
                "name": client.name,
                "principal": client.principal,
                "era": client.revision.era().as_str(),
                "revision": client.revision.as_str(),
                "since": client.since.duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs()),
                "requests_in_flight": client.requests,
                "subscriptions": follows(client.id),
                "state": one.standing.as_str(),
            })
        });
    Json(json!({ "sessions": sessions.collect::<Vec<_>>() }))
}
