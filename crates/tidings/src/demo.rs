//! What is shown when nothing is configured: a folder of scripts and a folder of notes, which a newcomer can edit and see
//! change. They are made once, in the data directory, and are the user's from then on.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use tidings_config::watch::FileWatch;
use tidings_config::{WatchConfig, WatchSource};

use crate::cli::Cli;
use crate::data::DataDir;
use crate::failure::CommandFailure;

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

/// The two folders of the demo in the data directory.
#[derive(Clone)]
pub(crate) struct Demo {
    /// The folder of scripts.
    pub(crate) project: PathBuf,
    /// The folder of notes.
    pub(crate) notes: PathBuf,
}

impl Demo {
    /// The one in the data directory, made if need be. Without a data directory there is none.
    pub(crate) fn in_data_directory(cli: &Cli) -> Result<Option<Self>, CommandFailure> {
        // The demo is a convenience; a machine without a home directory starts without it.
        let Ok(data) = DataDir::find(cli.data.as_deref()) else { return Ok(None) };
        let folder = data.path().join("demo");
        // What is there is the user's by now and is never written over.
        if !folder.exists() {
            make(&folder).map_err(|e| CommandFailure::Failed(format!("{}: {e}", folder.display())))?;
        }
        Ok(Some(Self { project: folder.join("project"), notes: folder.join("notes") }))
    }

    /// The command by which a newcomer sees a change: a new tool.
    pub(crate) fn change(&self) -> String {
        let project = self.project.display();
        format!("cp {project}/tools/clock.sh {project}/tools/mine.sh")
    }

    /// Its tools are ours, or the user's own by now: they may run.
    pub(crate) fn environment(&self) -> [(String, String); 1] {
        [("MCPBASH_TOOL_ALLOWLIST".to_owned(), "*".to_owned())]
    }

    /// The notes, as something to watch.
    pub(crate) fn watch(&self) -> WatchConfig {
        WatchConfig {
            id: "notes".into(),
            source: WatchSource::File(FileWatch { path: self.notes.clone() }),
            uri: None,
            name: None,
            description: Some("Notes to play with.".into()),
            mime_type: None,
            quiet: None,
            max_wait: None,
            placement: Vec::new(),
        }
    }
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
