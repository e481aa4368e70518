//! From `[servers.X] project` to servers in the process.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use tidings_config::{Config, Transport};
use tidings_engine::LocalServer;
use tidings_project::{Environment, Home, HomeFault, ProjectServer};

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
pub(super) fn prepare(config: &Config) -> Result<Projects, Failure> {
    let mut projects = Projects::default();
    for server in config.enabled_servers() {
        let Transport::Project { dir, env } = &server.transport else { continue };
        let home = open(dir, env).map_err(|fault| {
            let key = format!("servers.{}.project", server.name);
            match config.place_of(&key) {
                Some(place) => Failure::Failed(format!("{place}: {key}: {fault}")),
                None => Failure::failed(fault),
            }
        })?;
        projects.0.insert(server.name.clone(), Arc::new(ProjectServer::new(home)));
    }
    Ok(projects)
}

/// A project with the environment of this process and some more.
pub(crate) fn open(dir: &Path, env: &[(String, String)]) -> Result<Home, HomeFault> {
    let more = env.iter().map(|(name, value)| (name.into(), value.into()));
    let environment = Environment::new(std::env::vars_os().chain(more));
    Home::open(dir, environment)
}
