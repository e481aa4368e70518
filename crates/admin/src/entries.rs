//! `/entries` and `/sources`: servers that could be added, where they come from, and adding one.

use std::collections::HashMap;
use std::sync::Arc;

use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, Query as Params, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use jiff::Timestamp;
use serde_json::{Value, json};
use tidings_inventory::RegistryChange;
use tidings_server_catalog::{
    CatalogEntry, CatalogueError, EntryCatalogue, EntryQuery, ExtraKeys, KeysError, RefreshReport, SourceStatus,
    default_prefix, documentation,
};

use crate::manage::refused;
use crate::servers::describe_one;
use crate::{AdminShared, problem};

/// How many are given.
const LIMIT: usize = 50;

pub(crate) async fn list(
    State(admin): State<AdminShared>,
    Params(params): Params<HashMap<String, String>>,
) -> Response {
    let Some(catalogue) = &admin.entries else {
        return Json(json!({ "entries": [] })).into_response();
    };
    match entries(&**catalogue, params.get("q").map(String::as_str).unwrap_or_default()).await {
        Ok(entries) => Json(json!({ "entries": entries })).into_response(),
        Err(error) => problem(StatusCode::SERVICE_UNAVAILABLE, &error.to_string()),
    }
}

/// The entries that fit, best first; without words the first of all.
pub async fn entries(catalogue: &dyn EntryCatalogue, words: &str) -> Result<Vec<Value>, CatalogueError> {
    if words.trim().is_empty() {
        let page = catalogue.list(None, LIMIT).await?;
        return Ok(page.entries.iter().map(describe).collect());
    }
    let query = EntryQuery { text: words.to_owned(), limit: LIMIT, ..EntryQuery::default() };
    Ok(catalogue.search(query).await?.iter().map(|hit| describe(&hit.entry)).collect())
}

/// `GET /entries/{id}`: one entry, with a page to read.
pub(crate) async fn show(State(admin): State<AdminShared>, Path(id): Path<String>) -> Response {
    match found(&admin, &id).await {
        Ok((_, entry)) => {
            let mut shown = describe(&entry);
            shown["documentation"] = documentation(&entry).into();
            Json(shown).into_response()
        }
        Err(refused) => *refused,
    }
}

/// `GET /sources`.
pub(crate) async fn sources(State(admin): State<AdminShared>) -> Response {
    let Some(catalogue) = &admin.entries else { return Json(json!({ "sources": [] })).into_response() };
    // What is kept of registries is read when somebody first asks.
    let _ = catalogue.list(None, 0).await;
    Json(json!({ "sources": catalogue.sources().iter().map(source).collect::<Vec<_>>() })).into_response()
}

/// `POST /entries/refresh`: asks one source, or all, what is new. A source that can not be read says so and keeps what it had.
pub(crate) async fn refresh(State(admin): State<AdminShared>, body: Bytes) -> Response {
    let Some(catalogue) = &admin.entries else { return Json(json!({ "sources": [] })).into_response() };
    let wish: Value = serde_json::from_slice(&body).unwrap_or_default();
    match catalogue.refresh(wish["source"].as_str().map(str::to_owned)).await {
        Ok(reports) => {
            let report = |report: &RefreshReport| {
                let mut shown = source(&report.source);
                shown["added"] = report.added.into();
                shown["changed"] = report.changed.into();
                shown["removed"] = report.removed.into();
                shown
            };
            Json(json!({ "sources": reports.iter().map(report).collect::<Vec<_>>() })).into_response()
        }
        Err(error @ CatalogueError::UnknownSource { .. }) => problem(StatusCode::NOT_FOUND, &error.to_string()),
        Err(error) => problem(StatusCode::SERVICE_UNAVAILABLE, &error.to_string()),
    }
}

/// `POST /entries/{id}/add`: answers when the server is committed, or with the reason why it is not.
pub(crate) async fn add(State(admin): State<AdminShared>, Path(id): Path<String>, body: Bytes) -> Response {
    let wish: Value = serde_json::from_slice(&body).unwrap_or_default();
    let (catalogue, entry) = match found(&admin, &id).await {
        Ok(found) => found,
        Err(refused) => return *refused,
    };
    let texts = |value: &Value| -> Vec<String> {
        value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let inputs = wish["inputs"].as_object().into_iter().flatten();
    let inputs = inputs.filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned())));
    let wishes = ExtraKeys {
        args: texts(&wish["args"]),
        environment: inputs.collect(),
        kind: wish["kind"].as_str().map(str::to_owned),
    };
    let name = wish["name"].as_str().map_or_else(|| default_prefix(&entry.id), str::to_owned);
    let server = match catalogue.keys(entry, wishes).await {
        Ok(server) => server,
        Err(fault @ KeysError::Unfetched { .. }) => return problem(StatusCode::BAD_GATEWAY, &fault.to_string()),
        Err(fault) => return problem(StatusCode::UNPROCESSABLE_ENTITY, &fault.to_string()),
    };
    match admin.registry.apply(vec![RegistryChange::Add { name: name.clone(), server }]).await {
        Ok(()) => (StatusCode::CREATED, Json(describe_one(&admin, &name))).into_response(),
        Err(refusal) => refused(&refusal),
    }
}

type FoundEntry = (Arc<dyn EntryCatalogue>, Arc<CatalogEntry>);

/// An entry that has to be there.
async fn found(admin: &AdminShared, id: &str) -> Result<FoundEntry, Box<Response>> {
    let catalogue = admin.entries.clone();
    let missing =
        || Box::new(problem(StatusCode::NOT_FOUND, &format!("there is no entry \"{id}\"; GET /entries finds them")));
    let catalogue = catalogue.ok_or_else(missing)?;
    match catalogue.get(id.to_owned()).await {
        Ok(Some(entry)) => Ok((catalogue, entry)),
        Ok(None) => Err(missing()),
        Err(error) => Err(Box::new(problem(StatusCode::SERVICE_UNAVAILABLE, &error.to_string()))),
    }
}

fn source(source: &SourceStatus) -> Value {
    let refreshed = (source.refreshed != std::time::UNIX_EPOCH)
        .then(|| Timestamp::try_from(source.refreshed).unwrap_or_default().to_string());
    json!({
        "name": &*source.name,
        "file": source.file.as_ref().map(|file| file.display().to_string()),
        "url": source.url,
        "entries": source.entries,
        "refreshed": refreshed,
        "error": source.error,
    })
}

fn describe(entry: &Arc<CatalogEntry>) -> Value {
    let variables = entry.variables.iter().map(
        |variable| json!({ "name": variable.name, "description": variable.description, "required": variable.required, "secret": variable.secret }),
    );
    let release = entry.release.as_ref();
    json!({
        "id": entry.id,
        "kind": entry.run.kind(),
        "version": release.map(|release| &release.version),
        "status": release.map(|release| release.status.word()),
        "status_message": release.and_then(|release| release.message.as_ref()),
        "name": entry.name,
        "description": entry.description,
        "source": &*entry.source,
        "official": entry.official,
        "variables": variables.collect::<Vec<_>>(),
        "arguments": entry.arguments.as_ref().map(|arguments| &arguments.description),
    })
}
