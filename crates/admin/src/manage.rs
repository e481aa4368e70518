//! Changing the set of servers: every request becomes one transaction of the registry, and is answered when that is
//! committed or refused.

use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use tidings_inventory::{RegistryChange, RegistryRefusal};

use crate::servers::describe_one;
use crate::{AdminShared, problem};

/// `PUT /servers/{name}`.
pub(crate) async fn put(State(admin): State<AdminShared>, Path(name): Path<String>, body: Bytes) -> Response {
    let server = match object(&body) {
        Ok(server) => server,
        Err(refused) => return *refused,
    };
    // Looked up before the change, to tell a new server from a replaced one.
    let known = admin.registry.state().server(&name).is_some();
    match admin.registry.apply(vec![RegistryChange::Put { name: name.clone(), server }]).await {
        Ok(()) => {
            let status = if known { StatusCode::OK } else { StatusCode::CREATED };
            (status, Json(describe_one(&admin, &name))).into_response()
        }
        Err(refusal) => refused(&refusal),
    }
}

/// `DELETE /servers/{name}`.
pub(crate) async fn delete(State(admin): State<AdminShared>, Path(name): Path<String>) -> Response {
    match admin.registry.apply(vec![RegistryChange::Delete { name: name.clone() }]).await {
        Ok(()) => {
            // After the commit, and only where it was made: a server that stays needs its logins.
            if let Some(logins) = &admin.logins {
                logins.forget(&name).await;
            }
            Json(json!({ "removed": name })).into_response()
        }
        Err(refusal) => refused(&refusal),
    }
}

/// `POST /servers/{name}/restart`.
pub(crate) async fn restart(State(admin): State<AdminShared>, Path(name): Path<String>) -> Response {
    // Before the server is restarted, so that its first request goes by what is known now and not by an old refusal.
    if let Some(logins) = &admin.logins {
        logins.restart(&name).await;
    }
    match admin.registry.restart(&name).await {
        Ok(()) => Json(describe_one(&admin, &name)).into_response(),
        Err(refusal) => refused(&refusal),
    }
}

/// `POST /servers/{name}/enable`.
pub(crate) async fn enable(State(admin): State<AdminShared>, Path(name): Path<String>) -> Response {
    match admin.registry.set_enabled(&name, true).await {
        Ok(()) => Json(describe_one(&admin, &name)).into_response(),
        Err(refusal) => refused(&refusal),
    }
}

/// `POST /servers/{name}/disable`.
pub(crate) async fn disable(State(admin): State<AdminShared>, Path(name): Path<String>) -> Response {
    match admin.registry.set_enabled(&name, false).await {
        Ok(()) => Json(json!({ "disabled": name })).into_response(),
        Err(refusal) => refused(&refusal),
    }
}

/// `POST /batch`: all or nothing, one commit.
pub(crate) async fn batch(State(admin): State<AdminShared>, body: Bytes) -> Response {
    let changes = match object(&body).and_then(|body| operations(&body)) {
        Ok(changes) => changes,
        Err(refused) => return *refused,
    };
    let puts = changes.iter().filter(|change| !matches!(change, RegistryChange::Delete { .. }));
    let put: Vec<String> = puts.map(|change| change.name().to_owned()).collect();
    match admin.registry.apply(changes).await {
        Ok(()) => {
            let servers: Vec<Value> = put.iter().map(|name| describe_one(&admin, name)).collect();
            Json(json!({ "servers": servers })).into_response()
        }
        Err(refusal) => refused(&refusal),
    }
}

/// `POST /reload`: the configuration file is read again.
pub(crate) async fn reload(State(admin): State<AdminShared>) -> Response {
    match admin.registry.reload().await {
        Ok(done) => Json(json!({
            "added": done.added,
            "removed": done.removed,
            "changed": done.changed,
            "watches_changed": done.watches,
            "needs_restart": done.needs_restart,
        }))
        .into_response(),
        Err(fault) => problem(StatusCode::UNPROCESSABLE_ENTITY, &fault.to_string()),
    }
}

pub(crate) fn refused(refusal: &RegistryRefusal) -> Response {
    // The kinds have statuses of ours, all of them valid: the other value is never sent.
    let status = StatusCode::from_u16(refusal.kind().status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    problem(status, &refusal.to_string())
}

fn object(body: &[u8]) -> Result<Value, Box<Response>> {
    let bad = |detail: String| Box::new(problem(StatusCode::BAD_REQUEST, &detail));
    match serde_json::from_slice(body) {
        Ok(value @ Value::Object(_)) => Ok(value),
        Ok(_) => Err(bad("the body must be a JSON object".into())),
        Err(error) => Err(bad(format!("the body is not JSON: {error}"))),
    }
}

/// The operations of a batch; a fault names its place.
fn operations(body: &Value) -> Result<Vec<RegistryChange>, Box<Response>> {
    let bad = |detail: String| Box::new(problem(StatusCode::BAD_REQUEST, &detail));
    let list = body["operations"].as_array().filter(|list| !list.is_empty());
    let list = list.ok_or_else(|| bad("`operations` must be a list with at least one operation".into()))?;
    let read = |(place, operation): (usize, &Value)| {
        let name = operation["name"].as_str().map(str::to_owned);
        let name = name.ok_or_else(|| bad(format!("operations[{place}].name must be a string")))?;
        match operation["op"].as_str() {
            Some("put") if operation["server"].is_object() => {
                Ok(RegistryChange::Put { name, server: operation["server"].clone() })
            }
            Some("put") => Err(bad(format!("operations[{place}].server must be an object with the keys of a server"))),
            Some("delete") => Ok(RegistryChange::Delete { name }),
            _ => Err(bad(format!("operations[{place}].op must be \"put\" or \"delete\""))),
        }
    };
    list.iter().enumerate().map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_read_in_its_order_and_its_faults_name_their_place() {
        let body = json!({"operations": [
            {"op": "put", "name": "a", "server": {"command": "x"}},
            {"op": "delete", "name": "b"},
        ]});
        let changes = operations(&body).expect("a batch");
        assert_eq!(changes.iter().map(RegistryChange::name).collect::<Vec<_>>(), ["a", "b"]);
        for wrong in [
            json!({}),
            json!({"operations": []}),
            json!({"operations": [{"op": "put", "name": "a"}]}),
            json!({"operations": [{"op": "move", "name": "a"}]}),
            json!({"operations": [{"op": "delete"}]}),
        ] {
            assert_eq!(operations(&wrong).expect_err("a fault").status(), StatusCode::BAD_REQUEST, "{wrong}");
        }
    }
}
