//! `GET /entries`: servers that could be added.

use std::collections::HashMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::{Query as Params, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use tidings_server_catalog::{CatalogEntry, CatalogueError, EntryCatalogue, EntryQuery};

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

fn describe(entry: &Arc<CatalogEntry>) -> Value {
    let variables = entry.variables.iter().map(
        |variable| json!({ "name": variable.name, "description": variable.description, "required": variable.required }),
    );
    json!({
        "id": entry.id,
        "name": entry.name,
        "description": entry.description,
        "source": &*entry.source,
        "official": entry.official,
        "variables": variables.collect::<Vec<_>>(),
        "arguments": entry.arguments.as_ref().map(|arguments| &arguments.description),
    })
}
