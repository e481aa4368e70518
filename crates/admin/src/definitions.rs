//! `GET /definitions/…`: what tools, prompts and resources said, now and before.

use std::collections::HashMap;

use axum::Json;
use axum::extract::{Path, Query as Params, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use jiff::Timestamp;
use serde_json::{Value, json};
use tidings_engine::Gateway;
use tidings_store::{ChangeLog, DefinitionState, ItemHash, ListOwner, LogError};
use tidings_wire::hex;

use crate::changes::unavailable;
use crate::query_fault::QueryFault;
use crate::{AdminShared, problem};

/// The lists, as the log calls them.
const KINDS: [&str; 4] = ["tools", "prompts", "resources", "resource_templates"];

/// `GET /definitions/{digest}`.
pub(crate) async fn by_digest(State(admin): State<AdminShared>, Path(digest): Path<String>) -> Response {
    let Some(wanted) = unhex(&digest) else {
        return problem(StatusCode::BAD_REQUEST, "the hash of a definition has 64 hexadecimal digits");
    };
    match admin.changes.definition(wanted).await {
        Ok(Some(definition)) => ([(header::CONTENT_TYPE, "application/json")], definition).into_response(),
        Ok(None) => problem(StatusCode::NOT_FOUND, "no definition with this hash is kept"),
        Err(error) => unavailable(&error),
    }
}

/// `GET /definitions/{kind}/{server}/{name}`: what it says, or said at a time.
pub(crate) async fn show(
    State(admin): State<AdminShared>,
    Path((kind, server, name)): Path<(String, String, String)>,
    Params(params): Params<HashMap<String, String>>,
) -> Response {
    let at = match params.get("at").map(|text| moment(text)) {
        Some(None) => {
            let text = params.get("at").cloned().unwrap_or_default();
            return problem(StatusCode::BAD_REQUEST, &QueryFault::Moment(text).to_string());
        }
        at => at.flatten(),
    };
    let states = match known(&admin, &kind, &server, &name).await {
        Ok(states) => states,
        Err(refused) => return *refused,
    };
    let at = at.map_or(u64::MAX, millis);
    let Some(state) = states.iter().find(|state| state.since <= at) else {
        return problem(StatusCode::NOT_FOUND, "it was not known then");
    };
    let Some(digest) = state.digest else { return problem(StatusCode::NOT_FOUND, "it was not there then") };
    match definition(&admin.changes, digest).await {
        Ok(definition) => {
            let since = time(state.since);
            Json(json!({ "since": since, "digest": hex(&digest), "definition": definition })).into_response()
        }
        Err(error) => unavailable(&error),
    }
}

/// `GET /definitions/{kind}/{server}/{name}/history`: when it said something else, the newest first.
pub(crate) async fn history(
    State(admin): State<AdminShared>,
    Path((kind, server, name)): Path<(String, String, String)>,
) -> Response {
    match known(&admin, &kind, &server, &name).await {
        Ok(states) => {
            let states: Vec<Value> = states
                .iter()
                .map(|state| json!({ "since": time(state.since), "digest": state.digest.map(|digest| hex(&digest)) }))
                .collect();
            Json(json!({ "states": states })).into_response()
        }
        Err(refused) => *refused,
    }
}

async fn known(
    admin: &AdminShared,
    kind: &str,
    server: &str,
    name: &str,
) -> Result<Vec<DefinitionState>, Box<Response>> {
    if !KINDS.contains(&kind) {
        return Err(Box::new(problem(StatusCode::NOT_FOUND, &QueryFault::Kind(kind.to_owned()).to_string())));
    }
    match states(&admin.gateway, &admin.changes, kind, server, name).await {
        Ok(states) if states.is_empty() => Err(Box::new(problem(StatusCode::NOT_FOUND, "nothing is known of it"))),
        Ok(states) => Ok(states),
        Err(error) => Err(Box::new(unavailable(&error))),
    }
}

/// What an item of a server said, the newest first.
pub async fn states(
    gateway: &Gateway,
    log: &ChangeLog,
    kind: &str,
    server: &str,
    name: &str,
) -> Result<Vec<DefinitionState>, LogError> {
    let of = |built_in| ListOwner { server: server.to_owned(), built_in };
    let built_in = {
        let catalogue = gateway.catalogue().borrow().clone();
        catalogue.snapshot.offers().iter().any(|offer| *offer.name == *server && offer.built_in)
    };
    log.history(of(built_in), kind.to_owned(), name.to_owned()).await
}

/// A definition by its hash; null if it is not kept.
pub async fn definition(log: &ChangeLog, digest: ItemHash) -> Result<Value, LogError> {
    let raw = log.definition(digest).await?;
    Ok(raw.and_then(|raw| serde_json::from_slice(&raw).ok()).unwrap_or_default())
}

/// A time, or a day, which means its end.
pub fn moment(text: &str) -> Option<Timestamp> {
    let text = text.trim();
    let day = || format!("{text}T23:59:59Z").parse().ok();
    // What a field for a time in a page gives.
    let minute = || format!("{text}:59Z").parse().ok().or_else(|| format!("{text}Z").parse().ok());
    text.parse().ok().or_else(day).or_else(minute)
}

/// Milliseconds since 1970.
pub fn millis(time: Timestamp) -> u64 {
    u64::try_from(time.as_millisecond()).unwrap_or_default()
}

fn time(millis: u64) -> Option<String> {
    Timestamp::from_millisecond(i64::try_from(millis).ok()?).ok().map(|time| time.to_string())
}

fn unhex(text: &str) -> Option<ItemHash> {
    let mut out = [0; 32];
    if text.len() != 64 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    for (at, byte) in out.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * at..2 * at + 2], 16).ok()?;
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_a_time_a_minute_or_the_end_of_a_day() {
        let at = |text: &str| moment(text).map(|time| time.to_string());
        assert_eq!(at("2026-11-10T12:00:00Z").as_deref(), Some("2026-11-10T12:00:00Z"));
        assert_eq!(at("2026-11-10T12:34").as_deref(), Some("2026-11-10T12:34:59Z"));
        assert_eq!(at("2026-11-10").as_deref(), Some("2026-11-10T23:59:59Z"));
        assert_eq!([at(""), at("yesterday"), at("2026-13-40")], [None, None, None]);
    }

    #[test]
    fn a_hash_is_64_digits() {
        assert_eq!(unhex(&"0f".repeat(32)), Some([15; 32]));
        assert!(["", "zz", &"0g".repeat(32), &"é".repeat(32)].iter().all(|text| unhex(text).is_none()));
    }
}
