//! Where a project lives: its folders, which variables may move, and the settings that go with it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::settings::{GivenEnvironment, ProjectSettings};

/// A project's folder and how it is to be treated.
#[derive(Clone, Debug)]
pub struct ProjectHome {
    /// The folder: absolute, without symbolic links.
    pub root: PathBuf,
    /// Where the parts are.
    pub folders: ProjectFolders,
    /// The environment that was handed in; nothing reads the process's own.
    pub environment: Arc<GivenEnvironment>,
    /// What the environment says.
    pub settings: ProjectSettings,
}

/// Where the parts of a project are; `MCPBASH_TOOLS_DIR` and its kin move them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProjectFolders {
    /// `tools/`: one folder or script per tool.
    pub tools: PathBuf,
    /// `resources/`: files that are served, and their metadata.
    pub resources: PathBuf,
    /// `prompts/`: texts with gaps, or scripts that print them.
    pub prompts: PathBuf,
    /// `server.d/`
    pub server: PathBuf,
    /// `providers/`: scripts that read resources of a scheme.
    pub providers: PathBuf,
    /// `ui/`: pages that belong to no tool.
    pub ui: PathBuf,
}

/// Why a folder can not be a project.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HomeFault {
    /// It can not be reached.
    #[error("{}: {reason}", dir.display())]
    Unreachable {
        /// As it was named.
        dir: PathBuf,
        /// What the system says.
        reason: String,
    },
    /// It is something else.
    #[error("{}: not a folder; a project is a folder with tools/, resources/, prompts/ or server.d/", dir.display())]
    NotAFolder {
        /// As it was named.
        dir: PathBuf,
    },
}

impl ProjectHome {
    /// The project in this folder, treated as the environment says.
    pub fn open(dir: &Path, environment: GivenEnvironment) -> Result<Self, HomeFault> {
        let unreachable = |e: std::io::Error| HomeFault::Unreachable { dir: dir.into(), reason: e.to_string() };
        // Everything is compared with this path later, so it is resolved once, here.
        let root = dir.canonicalize().map_err(unreachable)?;
        if !root.is_dir() {
            return Err(HomeFault::NotAFolder { dir: dir.into() });
        }
        let folder = |variable: &str, name: &str| match environment.get(variable).filter(|path| !path.is_empty()) {
            Some(path) => root.join(path),
            None => root.join(name),
        };
        let folders = ProjectFolders {
            tools: folder("MCPBASH_TOOLS_DIR", "tools"),
            resources: folder("MCPBASH_RESOURCES_DIR", "resources"),
            prompts: folder("MCPBASH_PROMPTS_DIR", "prompts"),
            server: folder("MCPBASH_SERVER_DIR", "server.d"),
            providers: folder("MCPBASH_PROVIDERS_DIR", "providers"),
            ui: folder("MCPBASH_UI_DIR", "ui"),
        };
        let settings = ProjectSettings::read(&environment);
        Ok(Self { root, folders, environment: Arc::new(environment), settings })
    }
}
