//! What is shown when nothing is configured: a folder of scripts and a folder of notes, which a newcomer can edit and see
//! change. They are made once, in the data directory, and are the user's from then on.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use tidings_config::{ServerConfig, Transport, WatchConfig, WatchSource};

use crate::data::DataDir;
use crate::failure::Failure;
use crate::wiring::Ground;

/// Every file, by its path inside the demo's folder.
const FILES: &[(&str, &str)] = &[
    ("notes/todo.md", include_str!("../demo/notes/todo.md")),
    ("project/prompts/haiku.meta.json", include_str!("../demo/project/prompts/haiku.meta.json")),
    ("project/prompts/haiku.txt", include_str!("../demo/project/prompts/haiku.txt")),
    ("project/resources/welcome.meta.json", include_str!("../demo/project/resources/welcome.meta.json")),
    ("project/resources/welcome.txt", include_str!("../demo/project/resources/welcome.txt")),
    ("project/server.d/server.instructions.md", include_str!("../demo/project/server.d/server.instructions.md")),
    ("project/server.d/server.meta.json", include_str!("../demo/project/server.d/server.meta.json")),
    ("project/tools/clock.sh", include_str!("../demo/project/tools/clock.sh")),
    ("project/tools/echo/tool.meta.json", include_str!("../demo/project/tools/echo/tool.meta.json")),
    ("project/tools/echo/tool.sh", include_str!("../demo/project/tools/echo/tool.sh")),
];

/// Where the demo is.
pub(crate) struct Demo {
    /// The folder of scripts.
    pub(crate) project: PathBuf,
    /// The folder of notes.
    pub(crate) notes: PathBuf,
}

/// Adds the demo where there is nothing to show. Without a data directory there is none.
pub(crate) fn add_where_nothing_is(ground: &mut Ground, data: Option<&DataDir>) -> Result<Option<Demo>, Failure> {
    let Some(data) = data.filter(|_| ground.is_empty()) else { return Ok(None) };
    let config = &mut ground.config;
    let folder = data.path().join("demo");
    let demo = Demo { project: folder.join("project"), notes: folder.join("notes") };
    if !folder.exists() {
        make(&folder).map_err(|e| Failure::Failed(format!("{}: {e}", folder.display())))?;
    }
    // Its tools are ours, or the user's own by now.
    let allowed = vec![("MCPBASH_TOOL_ALLOWLIST".to_owned(), "*".to_owned())];
    let transport = Transport::Project { dir: demo.project.clone(), env: allowed };
    config.servers.push(ServerConfig::new("demo", transport));
    config.watches.push(WatchConfig {
        id: "notes".into(),
        source: WatchSource::File { path: demo.notes.clone() },
        uri: None,
        name: None,
        description: Some("Notes to play with.".into()),
        mime_type: None,
        quiet: None,
        max_wait: None,
    });
    Ok(Some(demo))
}

/// All or nothing: made beside its place and put there at once.
fn make(folder: &Path) -> std::io::Result<()> {
    let partial = folder.with_extension(std::process::id().to_string());
    for (path, text) in FILES {
        let path = partial.join(path);
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent)?;
        }
        std::fs::write(&path, text)?;
        let mode = if path.extension().is_some_and(|ending| ending == "sh") { 0o755 } else { 0o644 };
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode))?;
    }
    match std::fs::rename(&partial, folder) {
        // Another process was quicker.
        Err(_) if folder.exists() => std::fs::remove_dir_all(&partial),
        done => done,
    }
}
