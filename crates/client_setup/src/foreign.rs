//! The servers of a client in the keys of `[servers.X]`.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use crate::client::{CLIENTS, KnownClient};
use crate::edit::{EditError, FileFormat, entries, tree};
use crate::places::UserPlaces;
use crate::spelling::{AskedFor, respelled};

/// A server that a client uses.
#[derive(Debug, Clone, PartialEq)]
pub struct ClientServer {
    /// Its name in that client's file.
    pub name: String,
    /// The keys of `[servers.X]`.
    pub keys: Value,
    /// Whose file it stands in.
    pub from: String,
    /// The file that it was found in.
    pub path: PathBuf,
}

impl ClientServer {
    /// What it runs or reaches, without secrets.
    #[must_use]
    pub fn what(&self) -> String {
        let shown = crate::mask::masked(&self.keys);
        match shown["url"].as_str() {
            Some(url) => url.to_owned(),
            None => {
                let args = shown["args"].as_array().into_iter().flatten().filter_map(Value::as_str);
                shown["command"].as_str().into_iter().chain(args).collect::<Vec<_>>().join(" ")
            }
        }
    }
}

/// Servers that were found in the files of other clients, and files that could not be read.
#[derive(Debug, Default)]
pub struct FoundServers {
    /// The servers, each once.
    pub servers: Vec<ClientServer>,
    /// What was left out or must be seen to, and why.
    pub notices: Vec<String>,
}

/// A file that servers are read from.
#[derive(Debug, Clone)]
pub struct ImportSource {
    /// Whose it is, in words.
    pub from: String,
    /// Where the file is; it need not be there.
    pub path: PathBuf,
    /// How it is written.
    pub format: FileFormat,
    /// The member with the servers, by its path in the file.
    pub member: Vec<String>,
    /// It is a file of the folder, which may have been cloned from anywhere.
    pub of_project: bool,
}

impl KnownClient {
    /// The files of this client: of the project, then of the user.
    #[must_use]
    pub fn sources(&self, places: &UserPlaces) -> Vec<ImportSource> {
        let source = |from: String, path: PathBuf, member: Vec<String>| {
            let of_project = false;
            ImportSource { from, path, format: self.format, member, of_project }
        };
        let key = || vec![self.key.to_owned()];
        let mut sources = Vec::new();
        if let (Some(shown), Some(path)) = (self.project_file, self.project_file(places)) {
            sources.push(ImportSource { of_project: true, ..source(shown.to_owned(), path, key()) });
        }
        let user = self.user_file(places);
        if self.id == "claude-code" {
            // What `claude mcp add` writes when it is told nothing else: servers of one folder, in the user's file.
            let folder = places.project.to_string_lossy().into_owned();
            let member = vec!["projects".to_owned(), folder, self.key.to_owned()];
            sources.push(source(format!("{} (this folder)", self.title), user.clone(), member));
        }
        sources.push(source(self.title.to_owned(), user, key()));
        sources
    }
}

impl ImportSource {
    /// A file that is no client's: its ending says how it is written, and the first known member is taken.
    pub fn of_file(path: &Path, text: &str) -> Result<Self, EditError> {
        let format = match path.extension().and_then(|ending| ending.to_str()) {
            Some("toml") => FileFormat::Toml,
            Some("yaml" | "yml") => FileFormat::Yaml,
            _ => FileFormat::Json,
        };
        let tree = tree(format, text)?;
        // The members of known clients, in their order; the first that is an object counts.
        let known = CLIENTS.iter().map(|client| client.key);
        let key = known.clone().find(|key| tree[*key].is_object()).ok_or_else(|| {
            let mut keys: Vec<&str> = known.collect();
            keys.sort_unstable();
            keys.dedup();
            EditError::Unusual(format!("none of {} is in it", keys.join(", ")))
        })?;
        let from = path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        Ok(Self { from, path: path.to_owned(), format, member: vec![key.to_owned()], of_project: false })
    }

    fn entries(&self, text: &str) -> Result<Map<String, Value>, EditError> {
        if let [key] = &self.member[..] {
            return entries(self.format, text, key);
        }
        let tree = tree(self.format, text)?;
        let member = self.member.iter().fold(&tree, |tree, key| &tree[key.as_str()]);
        Ok(member.as_object().cloned().unwrap_or_default())
    }
}

/// Adds the servers of one file. A file that is not there has none. `own` are the addresses of the gateway itself.
pub fn read_file(source: &ImportSource, own: &[String], found: &mut FoundServers) {
    let Ok(text) = std::fs::read_to_string(&source.path) else { return };
    let entries = match source.entries(&text) {
        Ok(entries) => entries,
        Err(error) => return found.notices.push(format!("{} is left out: {error}", source.path.display())),
    };
    for (name, entry) in &entries {
        let mut asked = Vec::new();
        match keys(entry, own, &mut asked) {
            Ok(Some(keys)) => {
                for AskedFor { input, variable } in asked {
                    found.notices.push(format!(
                        "{name} of {}: the client asks for \"{input}\"; set the variable {variable} where the gateway runs",
                        source.from
                    ));
                }
                // Several clients often have the same server.
                if !found.servers.iter().any(|known| known.name == *name && known.keys == keys) {
                    let path = source.path.clone();
                    found.servers.push(ClientServer { name: name.clone(), keys, from: source.from.clone(), path });
                }
            }
            Ok(None) => {}
            Err(why) => found.notices.push(format!("{name} of {} is left out: {why}", source.from)),
        }
    }
}

/// A client's entry in the keys of `[servers.X]`. `None` for what Tidings would not be put in front of: itself, what is
/// switched off, and parts of a client that are no servers.
fn keys(entry: &Value, own: &[String], asked: &mut Vec<AskedFor>) -> Result<Option<Value>, String> {
    let text = |key: &str| entry[key].as_str();
    let kind = text("type").unwrap_or_default();
    let is_part_of_client = ["builtin", "platform", "frontend", "inline_python"].contains(&kind);
    if entry["disabled"] == true || entry["enabled"] == false || is_part_of_client {
        return Ok(None);
    }
    let mut keys = Map::new();
    if let Some((command, args)) = command(entry) {
        let program = command.rsplit(['/', '\\']).next().unwrap_or_default();
        // A gateway that starts itself would do so without end.
        if program.strip_suffix(".exe").unwrap_or(program) == "tidings" {
            return Ok(None);
        }
        keys.insert("command".into(), command.into());
        if !args.is_empty() {
            keys.insert("args".into(), args.into());
        }
        if let Some(folder) = text("cwd") {
            keys.insert("cwd".into(), folder.into());
        }
        insert_table(&mut keys, "env", environment(entry));
    } else if let Some(url) = ["url", "serverUrl", "httpUrl", "uri"].into_iter().find_map(text) {
        if own.iter().any(|own| own.trim_end_matches('/') == url.trim_end_matches('/')) {
            return Ok(None);
        }
        keys.insert("url".into(), url.into());
        // Without a word of the client it is found out, which takes two requests more at each start.
        if kind == "sse" {
            keys.insert("type".into(), kind.into());
        }
        insert_table(&mut keys, "headers", headers(entry));
    } else {
        return Err("it has neither a command nor a URL".to_owned());
    }
    let mut keys = Value::Object(keys);
    respell(&mut keys, asked);
    Ok(Some(keys))
}

fn insert_table(keys: &mut Map<String, Value>, key: &str, table: Map<String, Value>) {
    if !table.is_empty() {
        keys.insert(key.to_owned(), table.into());
    }
}

/// The program and its arguments: apart, or as one list.
fn command(entry: &Value) -> Option<(String, Vec<Value>)> {
    let args = || entry["args"].as_array().cloned().unwrap_or_default();
    match &entry["command"] {
        Value::String(command) => Some((command.clone(), args())),
        Value::Array(words) => {
            let (command, args) = words.split_first()?;
            Some((command.as_str()?.to_owned(), args.to_vec()))
        }
        // Zed once wrote {"path", "args", "env"}.
        Value::Object(older) => {
            let args = older.get("args").and_then(Value::as_array).cloned().unwrap_or_default();
            Some((older.get("path")?.as_str()?.to_owned(), args))
        }
        _ => Some((entry["cmd"].as_str()?.to_owned(), args())),
    }
}

fn environment(entry: &Value) -> Map<String, Value> {
    let tables = ["env", "envs", "environment"].into_iter().filter_map(|key| entry[key].as_object());
    let mut all: Map<String, Value> = tables.flatten().map(|(key, value)| (key.clone(), value.clone())).collect();
    for key in ["env_keys", "env_vars"] {
        for name in entry[key].as_array().into_iter().flatten().filter_map(Value::as_str) {
            // Listed by name only: the client passes its own variable on, and so does the gateway.
            all.entry(name).or_insert_with(|| format!("${{env:{name}}}").into());
        }
    }
    all
}

fn headers(entry: &Value) -> Map<String, Value> {
    let tables = ["headers", "http_headers"].into_iter().filter_map(|key| entry[key].as_object());
    let mut all: Map<String, Value> = tables.flatten().map(|(key, value)| (key.clone(), value.clone())).collect();
    for (header, variable) in entry["env_http_headers"].as_object().into_iter().flatten() {
        if let Some(variable) = variable.as_str() {
            all.insert(header.clone(), format!("${{env:{variable}}}").into());
        }
    }
    if let Some(variable) = entry["bearer_token_env_var"].as_str() {
        all.insert("Authorization".to_owned(), format!("Bearer ${{env:{variable}}}").into());
    }
    all
}

fn respell(value: &mut Value, asked: &mut Vec<AskedFor>) {
    match value {
        Value::String(text) => *text = respelled(text, asked),
        Value::Array(items) => items.iter_mut().for_each(|item| respell(item, asked)),
        Value::Object(members) => members.values_mut().for_each(|member| respell(member, asked)),
        _ => {}
    }
}
