//! Adding a server, and logging in to one.

use axum::extract::{Extension, RawQuery, State};
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::{Value, json};
use tidings_inventory::RegistryChange;
use tidings_page::{AddScreen, EntryView};
use tidings_server_catalog::{EntryCatalogue as _, ExtraKeys, default_prefix};

use super::actions::to;
use super::entrance::{SentForm, Visitor};
use super::screens::ScreenQuery;
use super::{PageServer, html};

/// `GET /add`.
pub(super) async fn show(
    State(page): State<PageServer>,
    Extension(visitor): Extension<Visitor>,
    RawQuery(raw): RawQuery,
) -> Response {
    let query = ScreenQuery::of(raw).text("q");
    add_page(&page, visitor, query, StatusCode::OK, None).await
}

async fn add_page(
    page: &PageServer,
    visitor: Visitor,
    query: String,
    status: StatusCode,
    said: Option<String>,
) -> Response {
    let shell = page.shell(visitor.form_token).await;
    let (found, fault) = match tidings_admin::entries(&*page.0.entries, &query).await {
        Ok(found) => (found, None),
        Err(error) => (Vec::new(), Some(error.to_string())),
    };
    let entries = found.iter().map(entry).collect();
    html(status, AddScreen { query, entries, said: said.or(fault) }.page(&shell))
}

fn entry(entry: &Value) -> EntryView {
    let text = |key: &str| entry[key].as_str().unwrap_or_default().to_owned();
    let variables = entry["variables"].as_array().into_iter().flatten().map(|variable| {
        let text = |key: &str| variable[key].as_str().unwrap_or_default().to_owned();
        (text("name"), text("description"), variable["required"] == true)
    });
    EntryView {
        id: text("id"),
        name: text("name"),
        description: text("description"),
        source: text("source"),
        official: entry["official"] == true,
        variables: variables.collect(),
        arguments: entry["arguments"].as_str().map(str::to_owned),
    }
}

/// `POST /add`: answers when the server is committed, or says why it is not.
pub(super) async fn add(
    State(page): State<PageServer>,
    Extension(visitor): Extension<Visitor>,
    Extension(form): Extension<SentForm>,
) -> Response {
    match wanted(&page, &form).await {
        Ok((name, server)) => {
            let put = RegistryChange::Add { name: name.clone(), server };
            match page.0.registry.apply(vec![put]).await {
                Ok(()) => to(&format!("/servers/{}", crate::url_text::encode(&name))),
                Err(refusal) => {
                    let status =
                        StatusCode::from_u16(refusal.kind().status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
                    add_page(&page, visitor, String::new(), status, Some(refusal.to_string())).await
                }
            }
        }
        Err(fault) => add_page(&page, visitor, String::new(), StatusCode::BAD_REQUEST, Some(fault)).await,
    }
}

/// The name and the keys of the server that a form asks for.
async fn wanted(page: &PageServer, form: &SentForm) -> Result<(String, Value), String> {
    let (name, words) =
        (form.get("name").trim(), |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
    if form.get("entry").is_empty() {
        let run = words(form.get("run"));
        let Some((first, rest)) = run.split_first() else {
            return Err("A URL or a command has to be given.".to_owned());
        };
        if name.is_empty() {
            return Err("A name has to be given.".to_owned());
        }
        let is_url = first.starts_with("http://") || first.starts_with("https://");
        let keys = if is_url { json!({ "url": first }) } else { json!({ "command": first, "args": rest }) };
        return Ok((name.to_owned(), keys));
    }
    let found = page.0.entries.get(form.get("entry").to_owned()).await.map_err(|error| error.to_string())?;
    let entry = found.ok_or_else(|| "The catalogue has no such entry any more.".to_owned())?;
    let given = |variable: &str| form.get(&format!("env.{variable}"));
    let environment = entry.variables.iter().filter(|variable| !given(&variable.name).is_empty());
    let environment = environment.map(|variable| (variable.name.clone(), given(&variable.name).to_owned())).collect();
    let wishes = ExtraKeys { args: words(form.get("args")), environment, kind: None };
    let name = if name.is_empty() { default_prefix(&entry.id) } else { name.to_owned() };
    let keys = page.0.entries.keys(entry, wishes).await.map_err(|error| error.to_string())?;
    Ok((name, keys))
}
