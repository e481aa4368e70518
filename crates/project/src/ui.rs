//! Pages of a project for clients that show them (MCP Apps): a folder `tools/NAME/ui/` belongs to its tool, a folder
//! `ui/NAME/` to nobody in particular. Each is a resource `ui://SERVER/NAME`: its `index.html`, or what a template of
//! `ui.meta.json` makes. What a client does with a page is the client's business.

mod template;

use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use crate::document::JsonDocument;
use crate::entry::ProjectResource;
use crate::folder::{inside, problem};
use crate::metadata::document;
use crate::problem::{ProjectFault, ProjectProblem};

/// The kind of content that clients show as a page.
pub(crate) const MIME_TYPE: &str = "text/html;profile=mcp-app";
/// Who reads these resources, unless the project has a provider of that name.
pub(crate) const PROVIDER: &str = "ui";
/// The folder of a tool that holds its page.
pub(crate) const FOLDER: &str = "ui";

const PAGE: &str = "index.html";
const METADATA: &str = "ui.meta.json";
/// Members of `meta` that clients are told of, beside `prefersBorder`.
const TOLD: [&str; 2] = ["csp", "permissions"];

/// Whether there is a page in a folder.
pub(crate) fn is_page(folder: &Path) -> bool {
    folder.join(PAGE).is_file() || folder.join(METADATA).is_file()
}

/// The URI of a page.
pub(crate) fn uri(server: &str, name: &str) -> String {
    format!("ui://{server}/{name}")
}

/// The name of the page that a URI means. Whatever server it names, a project has its own pages only.
pub(crate) fn named(uri: &str) -> Option<&str> {
    let rest = uri.strip_prefix("ui://")?;
    Some(rest.split_once('/').map_or(rest, |(_, name)| name)).filter(|name| !name.is_empty())
}

/// Whether a resource is the page of this name.
pub(crate) fn is(resource: &ProjectResource, name: &str) -> bool {
    resource.provider == PROVIDER && resource.name == name
}

/// What a tool's `_meta` says of its page: as its author wrote it, and what follows from its folder.
pub(crate) fn linked(meta: Option<Value>, server: &str, name: &str) -> Value {
    let mut meta = match meta {
        Some(Value::Object(meta)) => meta,
        _ => Map::new(),
    };
    let mut ui = match meta.remove("ui") {
        Some(Value::Object(ui)) => ui,
        _ => Map::new(),
    };
    // What the author wrote wins over what follows from the folder.
    if ui.get("resourceUri").and_then(Value::as_str).is_none_or(str::is_empty) {
        ui.insert("resourceUri".into(), uri(server, name).into());
        ui.entry("visibility").or_insert_with(|| json!(["model", "app"]));
    }
    meta.insert("ui".into(), ui.into());
    meta.into()
}

/// Before there was `_meta.ui`, a page was named by `_meta["ui/resourceUri"]`: clients look for the new one.
pub(crate) fn respell(result: &mut Map<String, Value>) {
    let Some(meta) = result.get_mut("_meta").and_then(Value::as_object_mut) else { return };
    let Some(named) = meta.remove("ui/resourceUri") else { return };
    let ui = meta.entry("ui").or_insert_with(|| json!({}));
    if let Some(ui) = ui.as_object_mut() {
        ui.insert("resourceUri".into(), named);
    }
}

/// The page in a folder, as a resource. What is wrong with it is reported; `Err` where there is nothing to show.
pub(crate) fn page(
    folder: &Path,
    name: &str,
    server: &str,
    root: &Path,
    problems: &mut Vec<ProjectProblem>,
) -> Result<ProjectResource, ProjectProblem> {
    let path = folder.join(METADATA);
    let written = if path.is_file() { document(&path, root)? } else { JsonDocument::empty(path) };
    let facts = written.facts();
    let about = facts.text("description", problems).unwrap_or_else(|| format!("UI resource for {name}"));
    let entry = facts.text("entrypoint", problems).unwrap_or_else(|| PAGE.to_owned());
    let page: Option<PathBuf> = match inside(folder, folder, &entry) {
        Ok(page) => Some(page),
        // Without a file, a template may make the page.
        Err(ProjectFault::NoFile(_)) => None,
        Err(fault) => return Err(facts.problem(Some("entrypoint"), fault)),
    };
    let template = facts.text("template", problems);
    if page.is_none() {
        match &template {
            None => return Err(problem(root, folder, ProjectFault::NoFile(entry))),
            Some(name) if !template::NAMES.contains(&name.as_str()) => {
                return Err(facts.problem(
                    Some("template"),
                    ProjectFault::Field { field: "template".into(), wanted: template::WANTED },
                ));
            }
            Some(_) => {}
        }
    }
    let mut ui = Map::new();
    let meta = facts.object("meta", problems).unwrap_or_default();
    for member in TOLD {
        ui.insert(
            member.into(),
            meta.get(member).filter(|told| told.is_object()).cloned().unwrap_or_else(|| json!({})),
        );
    }
    ui.insert("prefersBorder".into(), meta.get("prefersBorder").and_then(Value::as_bool).unwrap_or(true).into());
    let uri = uri(server, name);
    let definition = json!({
        "uri": uri, "name": name, "description": about, "mimeType": MIME_TYPE, "_meta": { "ui": ui },
    });
    let config = facts.object("config", problems).unwrap_or_else(|| json!({}));
    let metadata = json!({ "template": template, "config": config, "ui": definition["_meta"]["ui"] });
    Ok(ProjectResource { name: name.to_owned(), uri, provider: PROVIDER.into(), path: page, definition, metadata })
}

/// The text of a page that a template makes.
pub(crate) fn generated(metadata: &Value) -> Option<String> {
    template::page(metadata["template"].as_str()?, &metadata["config"])
}
