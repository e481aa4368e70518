//! Who a project says it is.

use serde_json::{Map, Value, json};

use crate::document::JsonDocument;
use crate::folder::{problem, read_text};
use crate::home::ProjectHome;
use crate::make::{EntryOrigin, icons};
use crate::metadata::{LONGEST, document};
use crate::problem::ProjectProblem;

/// The name, version and instructions of a project.
#[derive(Clone, Debug, PartialEq)]
pub struct ProjectIdentity {
    /// What clients are told as `serverInfo`: name, title, version and what else the author wrote.
    pub info: Value,
    /// What a model should know before it begins.
    pub instructions: Option<String>,
}

impl ProjectIdentity {
    /// From `server.d/server.meta.json` and `server.d/server.instructions.md`; what is wrong there is left out and reported.
    pub fn read(home: &ProjectHome) -> (Self, Vec<ProjectProblem>) {
        let mut problems = Vec::new();
        let path = home.folders.server.join("server.meta.json");
        let written = match path.is_file().then(|| document(&path, &home.root)) {
            Some(Ok(written)) => written,
            Some(Err(problem)) => {
                problems.push(problem);
                JsonDocument::empty(path.clone())
            }
            None => JsonDocument::empty(path.clone()),
        };
        let origin = EntryOrigin { facts: written.facts(), root: &home.root, base: &home.folders.server };
        let mut info = Map::new();
        for member in ["name", "title", "version", "description", "websiteUrl"] {
            if let Some(text) = origin.facts.text(member, &mut problems) {
                info.insert(member.into(), text.into());
            }
        }
        if let Some(icons) = icons(&origin, &mut problems) {
            info.insert("icons".into(), icons);
        }
        let folder = home.root.file_name().map(|name| name.to_string_lossy().into_owned());
        // The folder's name, so that a project without any metadata can be used.
        let name = info.entry("name").or_insert_with(|| folder.unwrap_or_else(|| "project".into()).into());
        let title = titled(name.as_str().unwrap_or_default());
        info.entry("title").or_insert_with(|| title.into());
        info.entry("version").or_insert_with(|| version(home).into());
        let instructions = instructions(home, &mut problems);
        (Self { info: info.into(), instructions }, problems)
    }
}

/// What the server is called, in its metadata or by its folder.
pub(crate) fn server_name(home: &ProjectHome) -> String {
    let (identity, _) = ProjectIdentity::read(home);
    identity.info["name"].as_str().unwrap_or("project").to_owned()
}

/// `my-server` is called My Server.
fn titled(name: &str) -> String {
    let words = name.split(['-', '_', ' ']).filter(|word| !word.is_empty());
    let words = words.map(|word| {
        let mut letters = word.chars();
        letters.next().map(|first| first.to_uppercase().chain(letters).collect::<String>()).unwrap_or_default()
    });
    words.collect::<Vec<_>>().join(" ")
}

fn version(home: &ProjectHome) -> String {
    let plain = read_text(&home.root.join("VERSION"), 256).ok().map(|text| text.trim().to_owned());
    let package = || -> Option<String> {
        let text = read_text(&home.root.join("package.json"), LONGEST).ok()?;
        Some(serde_json::from_str::<Value>(&text).ok()?.get("version")?.as_str()?.to_owned())
    };
    plain.filter(|version| !version.is_empty()).or_else(package).unwrap_or_else(|| "0.0.0".into())
}

fn instructions(home: &ProjectHome, problems: &mut Vec<ProjectProblem>) -> Option<String> {
    let path = home.folders.server.join("server.instructions.md");
    if !path.is_file() {
        return None;
    }
    match read_text(&path, LONGEST) {
        Ok(text) => Some(text).filter(|text| !text.trim().is_empty()),
        Err(fault) => {
            problems.push(problem(&home.root, &path, fault));
            None
        }
    }
}

/// What every project can do, whatever lies in it now: the rest may come while clients are connected.
pub(crate) fn capabilities() -> Value {
    json!({
        "tools": { "listChanged": true },
        "resources": { "listChanged": true, "subscribe": true },
        "prompts": { "listChanged": true },
        "completions": {},
        "logging": {},
        // Pages may come, too; who has not declared that it shows them is not told.
        "extensions": { "io.modelcontextprotocol/ui": { "mimeTypes": [crate::ui::MIME_TYPE] } },
    })
}
