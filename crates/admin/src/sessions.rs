//! `GET /sessions`: who is connected.

use std::time::UNIX_EPOCH;

use axum::Json;
use axum::extract::State;
use serde_json::{Value, json};
use tidings_proto::Era;

use crate::AdminShared;

pub(crate) async fn list(State(admin): State<AdminShared>) -> Json<Value> {
    let (_, followers) = admin.gateway.followed();
    let follows = |id: u64| followers.iter().find(|follower| follower.id == id).map_or(0, |f| f.uris.len());
    let sessions = admin.gateway.connected().into_iter().map(|client| {
        json!({
            "id": client.id,
            "kind": match client.revision.era() {
                Era::Legacy => "session",
                Era::Modern => "listen",
            },
            "name": client.name,
            "principal": client.principal,
            "era": client.revision.era().as_str(),
            "revision": client.revision.as_str(),
            "since": client.since.duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs()),
            "requests_in_flight": client.requests,
            "subscriptions": follows(client.id),
        })
    });
    Json(json!({ "sessions": sessions.collect::<Vec<_>>() }))
}
