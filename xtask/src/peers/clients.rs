//! MCP clients that people use, from npm. They are large, so they have a folder and a stamp of their own.

use std::fs;
use std::path::PathBuf;

use serde_json::{Map, Value, json};

use super::system;
use crate::children::Children;
use crate::failure::Failure;
use crate::invocation::Invocation;
use crate::workspace::Workspace;

/// Every client, with its version.
const CLIENT_PACKAGES: [(&str, &str); 4] = [
    ("@anthropic-ai/claude-code", "2.1.325"),
    ("@google/gemini-cli", "0.61.0"),
    ("@openai/codex", "0.166.0"),
    ("opencode-ai", "1.18.33"),
];

/// Installs what is missing, and tells where `node_modules` is.
pub(crate) fn install(children: &Children, workspace: &Workspace) -> Result<PathBuf, Failure> {
    system::ensure_npm(children)?;
    let directory = workspace.clients();
    let exact = CLIENT_PACKAGES.map(|(name, version)| (name.to_owned(), Value::from(version)));
    let manifest = json!({ "private": true, "dependencies": Map::from_iter(exact) }).to_string();
    let stamp = directory.join("installed");
    if fs::read_to_string(&stamp).is_ok_and(|installed| installed == manifest) {
        return Ok(directory);
    }
    if directory.exists() {
        fs::remove_dir_all(&directory).map_err(Failure::file(&directory))?;
    }
    fs::create_dir_all(&directory).map_err(Failure::file(&directory))?;
    let path = directory.join("package.json");
    fs::write(&path, &manifest).map_err(Failure::file(&path))?;
    // Their scripts only copy the programs to where a shell finds them.
    let install =
        Invocation::new("npm").args(["install", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]);
    super::run(children, install.directory(&directory))?;
    fs::write(&stamp, &manifest).map_err(Failure::file(&stamp))?;
    Ok(directory)
}
