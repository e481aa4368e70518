//! The files in which MCP clients keep their servers, and what stands in them.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

/// A server that a client uses.
#[derive(Debug)]
pub(super) struct ClientServer {
    pub(super) name: String,
    /// The keys of `[servers.X]`.
    pub(super) keys: Value,
    /// Whose file it stands in.
    pub(super) from: String,
}

impl ClientServer {
    /// What it runs or reaches. Values of variables and headers are keys more often than not: they are not shown.
    pub(super) fn what(&self) -> String {
        match self.keys["url"].as_str() {
            Some(url) => url.to_owned(),
            None => {
                let args = self.keys["args"].as_array().into_iter().flatten().filter_map(Value::as_str);
                self.keys["command"].as_str().into_iter().chain(args).collect::<Vec<_>>().join(" ")
            }
        }
    }
}

/// The servers that the clients of this machine use, and files that could not be read.
#[derive(Debug, Default)]
pub(super) struct ClientServers {
    pub(super) servers: Vec<ClientServer>,
    /// Files and servers that could not be taken, and why.
    pub(super) problems: Vec<String>,
}

/// Looks into the files of the current folder, then of the user.
pub(super) fn look(cwd: &Path, home: Option<&Path>) -> ClientServers {
    let mut found = ClientServers::default();
    for (client, path) in files(cwd, home) {
        let Ok(text) = std::fs::read_to_string(&path) else { continue };
        let parsed: Value = match serde_json::from_str(&text) {
            Ok(parsed) => parsed,
            Err(error) => {
                found.problems.push(format!("{} is left out: {error}", path.display()));
                continue;
            }
        };
        let members = ["mcpServers", "servers"].iter().find_map(|member| parsed[member].as_object());
        for (name, entry) in members.into_iter().flatten() {
            match server(entry) {
                Ok(Some(keys)) => {
                    // Several clients often have the same server.
                    if !found.servers.iter().any(|known| known.name == *name && known.keys == keys) {
                        found.servers.push(ClientServer { name: name.clone(), keys, from: client.to_owned() });
                    }
                }
                Ok(None) => {}
                Err(why) => found.problems.push(format!("{name} of {client} is left out: {why}")),
            }
        }
    }
    found
}

fn files(cwd: &Path, home: Option<&Path>) -> Vec<(&'static str, PathBuf)> {
    let mut files = vec![
        (".mcp.json", cwd.join(".mcp.json")),
        (".cursor/mcp.json", cwd.join(".cursor/mcp.json")),
        (".vscode/mcp.json", cwd.join(".vscode/mcp.json")),
    ];
    let of_user = [
        ("Claude Code", ".claude.json"),
        ("Claude Desktop", ".config/Claude/claude_desktop_config.json"),
        ("Claude Desktop", "Library/Application Support/Claude/claude_desktop_config.json"),
        ("Cursor", ".cursor/mcp.json"),
        ("Windsurf", ".codeium/windsurf/mcp_config.json"),
        ("VS Code", ".config/Code/User/mcp.json"),
        ("VS Code", "Library/Application Support/Code/User/mcp.json"),
    ];
    files.extend(home.into_iter().flat_map(|home| of_user.map(|(client, path)| (client, home.join(path)))));
    files
}

/// A client's entry in the keys of `[servers.X]`. `None` for what Tidings would not be put in front of: itself, and what
/// is switched off.
fn server(entry: &Value) -> Result<Option<Value>, String> {
    let text = |key: &str| entry[key].as_str();
    if entry["disabled"] == true || entry["enabled"] == false {
        return Ok(None);
    }
    let mut keys = Map::new();
    if let Some(command) = text("command") {
        if Path::new(command).file_stem().is_some_and(|stem| stem == "tidings") {
            return Ok(None);
        }
        keys.insert("command".into(), command.into());
        for key in ["args", "cwd"] {
            if let Some(value) = entry.get(key).filter(|value| !value.is_null()) {
                keys.insert(key.into(), value.clone());
            }
        }
    } else if let Some(url) = text("url").or_else(|| text("serverUrl")) {
        if text("type") == Some("sse") || url.trim_end_matches('/').ends_with("/sse") {
            return Err(format!(
                "{url} speaks HTTP+SSE, which Tidings does not connect to; many servers have /mcp beside it"
            ));
        }
        keys.insert("url".into(), url.into());
    } else {
        return Err("it has neither `command` nor `url`".to_owned());
    }
    for key in ["env", "headers"] {
        if let Some(table) = entry[key].as_object().filter(|table| !table.is_empty()) {
            keys.insert(key.into(), table.clone().into());
        }
    }
    let mut keys = Value::Object(keys);
    respell(&mut keys)?;
    Ok(Some(keys))
}

/// `${NAME}` of clients is `${env:NAME}` of Tidings.
fn respell(value: &mut Value) -> Result<(), String> {
    match value {
        Value::String(text) => {
            if text.contains("${input:") {
                return Err(format!(
                    "{text} is asked for by the editor; put it into a variable and write ${{env:NAME}}"
                ));
            }
            *text = respelled(text);
        }
        Value::Array(items) => items.iter_mut().try_for_each(respell)?,
        Value::Object(members) => members.values_mut().try_for_each(respell)?,
        _ => {}
    }
    Ok(())
}

fn respelled(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        out.push_str(before);
        let is_name = after.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
        let inside = after.split(['}', ':']).next().unwrap_or_default();
        let is_plain = is_name && inside.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        let known = ["env:", "file:", "keyring:"].iter().any(|word| after.starts_with(word));
        out.push_str(if is_plain && !known { "${env:" } else { "${" });
        rest = after;
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tidings_testkit::TempDir;

    use super::*;

    // edges F16
    #[test]
    fn servers_are_found_in_the_files_of_clients() {
        let folder = TempDir::new();
        for made in ["home/.cursor", "home/.config/Code/User", "home/.codeium/windsurf"] {
            std::fs::create_dir_all(folder.join(made)).expect("a folder");
        }
        folder.write(
            ".mcp.json",
            r#"{"mcpServers": {"a": {"command": "npx", "args": ["-y", "a"], "env": {"K": "${K}"}}}}"#,
        );
        folder.write(
            "home/.cursor/mcp.json",
            r#"{"mcpServers": {"a": {"command": "npx", "args": ["-y", "a"], "env": {"K": "${K}"}},
            "self": {"command": "/usr/bin/tidings", "args": ["stdio"]}, "off": {"command": "x", "disabled": true}}}"#,
        );
        folder.write(
            "home/.config/Code/User/mcp.json",
            r#"{"servers": {"web": {"type": "http", "url": "https://x.example/mcp",
            "headers": {"Authorization": "Bearer ${env:T}"}}, "ask": {"command": "x", "env": {"K": "${input:key}"}}}}"#,
        );
        folder.write("home/.codeium/windsurf/mcp_config.json", "{ not json");
        let found = look(folder.path(), Some(&folder.join("home")));
        let names: Vec<(&str, &str)> = found.servers.iter().map(|one| (one.name.as_str(), one.from.as_str())).collect();
        assert_eq!(names, [("a", ".mcp.json"), ("web", "VS Code")]);
        assert_eq!(found.servers[0].keys, json!({"command": "npx", "args": ["-y", "a"], "env": {"K": "${env:K}"}}));
        assert_eq!(found.problems.len(), 2, "{:?}", found.problems);
    }

    #[test]
    fn references_are_spelled_as_tidings_reads_them() {
        for (theirs, ours) in [
            ("${A}-${B:-x}", "${env:A}-${env:B:-x}"),
            ("${env:A} $HOME ${", "${env:A} $HOME ${"),
            ("${workspaceFolder}/x", "${env:workspaceFolder}/x"),
        ] {
            assert_eq!(respelled(theirs), ours);
        }
    }
}
