//! From `[servers.X] project` to servers in the process.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use tidings_config::{Config, TransportConfig};
use tidings_engine::{LocalServer, Source, Unready, UnreadyReason};
use tidings_project::run::ScriptKit;
use tidings_project::{GivenEnvironment, HomeFault, ProjectHome, ProjectServer, ScriptSdk};
use tidings_upstream::ProcessLauncher;

use crate::cli::Cli;
use crate::data::DataDir;
use crate::failure::CommandFailure;

/// Makes servers of projects. What scripts find besides their project is unpacked for the first of them.
pub(super) struct ProjectServers {
    data: Option<PathBuf>,
    launcher: Arc<ProcessLauncher>,
    kit: OnceLock<ScriptKit>,
}

impl ProjectServers {
    pub(super) fn new(cli: &Cli, launcher: Arc<ProcessLauncher>) -> Self {
        Self { data: cli.data.clone(), launcher, kit: OnceLock::new() }
    }

    /// What to run for the project in this folder, which may come later.
    pub(super) fn source(self: &Arc<Self>, dir: &Path, env: &[(String, String)]) -> Source {
        match self.server(dir, env) {
            Ok(server) => Source::Local(server),
            // The reason is not kept: `try_again` finds the one of its own time.
            Err(_) => {
                let (projects, dir, env) = (Arc::clone(self), dir.to_owned(), env.to_vec());
                Source::Unready(Arc::new(MissingProject { projects, dir, env }))
            }
        }
    }

    /// A server of the project in this folder. Nothing is read of it yet.
    pub(super) fn server(&self, dir: &Path, env: &[(String, String)]) -> Result<Arc<dyn LocalServer>, HomeFault> {
        let home = open(dir, env)?;
        // Unpacked once, when the first project needs it, and never where there is none.
        let kit = self.kit.get_or_init(|| unpacked(self.data.as_deref()));
        Ok(Arc::new(ProjectServer::new(home, Arc::clone(&self.launcher), kit)))
    }
}

/// A project whose folder is not there, or can not be used.
struct MissingProject {
    projects: Arc<ProjectServers>,
    dir: PathBuf,
    env: Vec<(String, String)>,
}

impl Unready for MissingProject {
    fn try_again(&self) -> Result<Arc<dyn LocalServer>, UnreadyReason> {
        Ok(self.projects.server(&self.dir, &self.env)?)
    }

    fn transport(&self) -> &'static str {
        "project"
    }
}

/// Where they are, by the names of their servers.
pub(super) fn homes(config: &Config) -> Result<BTreeMap<String, ProjectHome>, CommandFailure> {
    let mut homes = BTreeMap::new();
    for server in config.enabled_servers() {
        let TransportConfig::Project { dir, env } = &server.transport else { continue };
        let home = open(dir, env).map_err(|fault| {
            let key = format!("servers.{}.project", server.name);
            match config.place_of(&key) {
                Some(place) => CommandFailure::Failed(format!("{place}: {key}: {fault}")),
                None => CommandFailure::failed(fault),
            }
        })?;
        homes.insert(server.name.clone(), home);
    }
    Ok(homes)
}

/// What scripts find besides their project.
pub(crate) fn kit(cli: &Cli) -> ScriptKit {
    unpacked(cli.data.as_deref())
}

/// Helpers, and a `jq`, in the data directory. Scripts that need neither run without.
fn unpacked(data: Option<&Path>) -> ScriptKit {
    let unpacked = DataDir::find(data).map_err(|failure| failure.to_string()).and_then(|data| {
        let program = std::env::current_exe().map_err(|error| error.to_string())?;
        ScriptSdk::unpack(data.path(), &program).map_err(|error| format!("{}: {error}", data.path().display()))
    });
    match unpacked {
        Ok(sdk) => sdk.kit(),
        Err(problem) => {
            tracing::warn!("scripts can not use MCP_SDK: {problem}; name a data directory with --data DIR");
            ScriptKit::default()
        }
    }
}

/// A project with the environment of this process and some more.
pub(crate) fn open(dir: &Path, env: &[(String, String)]) -> Result<ProjectHome, HomeFault> {
    let more = env.iter().map(|(name, value)| (name.into(), value.into()));
    let environment = GivenEnvironment::new(std::env::vars_os().chain(more));
    ProjectHome::open(dir, environment)
}
