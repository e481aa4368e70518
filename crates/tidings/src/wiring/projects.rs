//! From `[servers.X] project` to servers in the process.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use tidings_config::{Config, Transport};
use tidings_engine::LocalServer;
use tidings_project::run::Kit;
use tidings_project::{Environment, Home, HomeFault, ProjectServer, Sdk};
use tidings_upstream::Launcher;

use crate::cli::Cli;
use crate::data::DataDir;
use crate::failure::Failure;

/// The projects, by the names of their servers.
#[derive(Default)]
pub(super) struct Projects(BTreeMap<String, Arc<ProjectServer>>);

impl Projects {
    pub(super) fn server(&self, name: &str) -> Option<Arc<dyn LocalServer>> {
        self.0.get(name).map(|server| Arc::clone(server) as Arc<dyn LocalServer>)
    }
}

/// Opens the projects. Nothing is read of them yet.
pub(super) fn prepare(cli: &Cli, config: &Config, launcher: &Arc<Launcher>) -> Result<Projects, Failure> {
    let homes = homes(config)?;
    if homes.is_empty() {
        return Ok(Projects::default());
    }
    let kit = kit(cli);
    let servers = homes.into_iter().map(|(name, home)| {
        let server = ProjectServer::new(home, Arc::clone(launcher), &kit);
        (name, Arc::new(server))
    });
    Ok(Projects(servers.collect()))
}

/// Where they are, by the names of their servers.
pub(super) fn homes(config: &Config) -> Result<BTreeMap<String, Home>, Failure> {
    let mut homes = BTreeMap::new();
    for server in config.enabled_servers() {
        let Transport::Project { dir, env } = &server.transport else { continue };
        let home = open(dir, env).map_err(|fault| {
            let key = format!("servers.{}.project", server.name);
            match config.place_of(&key) {
                Some(place) => Failure::Failed(format!("{place}: {key}: {fault}")),
                None => Failure::failed(fault),
            }
        })?;
        homes.insert(server.name.clone(), home);
    }
    Ok(homes)
}

/// What scripts find besides their project: helpers, and a `jq`, in the data directory. Scripts that need neither run
/// without.
pub(crate) fn kit(cli: &Cli) -> Kit {
    let unpacked = DataDir::find(cli.data.as_deref()).map_err(|failure| failure.to_string()).and_then(|data| {
        let program = std::env::current_exe().map_err(|error| error.to_string())?;
        Sdk::unpack(data.path(), &program).map_err(|error| format!("{}: {error}", data.path().display()))
    });
    match unpacked {
        Ok(sdk) => sdk.kit(),
        Err(problem) => {
            tracing::warn!("scripts can not use MCP_SDK: {problem}; name a data directory with --data DIR");
            Kit::default()
        }
    }
}

/// A project with the environment of this process and some more.
pub(crate) fn open(dir: &Path, env: &[(String, String)]) -> Result<Home, HomeFault> {
    let more = env.iter().map(|(name, value)| (name.into(), value.into()));
    let environment = Environment::new(std::env::vars_os().chain(more));
    Home::open(dir, environment)
}
