//! The folders under which clients keep their files.

use std::path::{Path, PathBuf};

/// The operating systems that clients tell apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OperatingSystem {
    /// Linux and everything that keeps to its customs.
    Linux,
    /// macOS.
    Mac,
    /// Windows.
    Windows,
}

impl OperatingSystem {
    /// The one that this program was built for.
    #[must_use]
    pub fn here() -> Self {
        if cfg!(target_os = "macos") {
            Self::Mac
        } else if cfg!(windows) {
            Self::Windows
        } else {
            Self::Linux
        }
    }
}

/// Where a user's files are.
#[derive(Debug, Clone)]
pub struct UserPlaces {
    pub(crate) home: PathBuf,
    /// `~/.config`, or where the user moved it.
    pub(crate) config: PathBuf,
    /// Where desktop programs keep their settings.
    pub(crate) desktop: PathBuf,
    /// `%APPDATA%` on Windows, else the same as `config`.
    pub(crate) roaming: PathBuf,
    pub(crate) system: OperatingSystem,
    /// `CODEX_HOME` and `CLAUDE_CONFIG_DIR` move the files of these two.
    pub(crate) codex: Option<PathBuf>,
    pub(crate) claude: Option<PathBuf>,
    pub(crate) project: PathBuf,
}

impl UserPlaces {
    /// The places of a user with these variables, in the folder `project`. `None` when there is no home.
    pub fn new(system: OperatingSystem, variable: &dyn Fn(&str) -> Option<String>, project: &Path) -> Option<Self> {
        let path = |name: &str| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let home = path("HOME").or_else(|| path("USERPROFILE"))?;
        // Clients on macOS do not look at XDG variables for these.
        let moved = path("XDG_CONFIG_HOME").filter(|_| system == OperatingSystem::Linux);
        let config = moved.unwrap_or_else(|| home.join(".config"));
        let roaming = match system {
            OperatingSystem::Windows => path("APPDATA").unwrap_or_else(|| home.join("AppData/Roaming")),
            _ => config.clone(),
        };
        let desktop = match system {
            OperatingSystem::Mac => home.join("Library/Application Support"),
            OperatingSystem::Linux | OperatingSystem::Windows => roaming.clone(),
        };
        Some(Self {
            config,
            desktop,
            roaming,
            system,
            codex: path("CODEX_HOME"),
            claude: path("CLAUDE_CONFIG_DIR"),
            project: project.to_owned(),
            home,
        })
    }

    /// The folder that project files count from.
    #[must_use]
    pub fn project(&self) -> &Path {
        &self.project
    }

    /// A path as a person would write it.
    #[must_use]
    pub fn shown(&self, path: &Path) -> String {
        match path.strip_prefix(&self.home) {
            Ok(below) => format!("~/{}", below.display()),
            Err(_) => path.display().to_string(),
        }
    }
}
