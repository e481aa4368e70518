//! `GET /connect`: how clients are connected, and which are.

use std::collections::HashMap;

use axum::Json;
use axum::extract::{Query as Params, State};
use serde_json::{Value, json};

use crate::AdminShared;

/// One command per client, and who is connected; both of one client only, where that is asked for.
pub(crate) async fn show(
    State(admin): State<AdminShared>,
    Params(params): Params<HashMap<String, String>>,
) -> Json<Value> {
    let wanted = params.get("client").map(|client| client.to_lowercase()).unwrap_or_default();
    let fits = |name: &str| wanted.is_empty() || name.to_lowercase().contains(&wanted);
    let commands = admin.connect.iter().filter(|(client, _)| fits(client));
    let commands: Vec<Value> =
        commands.map(|(client, command)| json!({ "client": client, "command": command })).collect();
    let connected: Vec<String> =
        admin.gateway.connected().into_iter().filter_map(|client| client.name).filter(|name| fits(name)).collect();
    Json(json!({ "commands": commands, "connected": connected }))
}
