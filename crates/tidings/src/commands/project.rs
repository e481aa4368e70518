//! `tidings project`: a folder of scripts, and nothing else, for one client.

use std::path::{Path, PathBuf};

use tidings_config::{Config, ServerConfig, TransportConfig};
use tidings_store::{HookTable, KeptServers, ServerTable};

use super::stdio;
use crate::cli::Cli;
use crate::data::DataDir;
use crate::failure::CommandFailure;
use crate::wiring::GatewayInputs;
use crate::{settings, wiring};

/// Where the folder is when it is not named.
const ROOT: &str = "MCPBASH_PROJECT_ROOT";
/// Pages as clients of such projects know them.
const PAGE: usize = 50;

pub(super) async fn run(cli: &Cli, dir: Option<&Path>, allow: &[String]) -> Result<(), CommandFailure> {
    let dir = named(dir).ok_or_else(|| {
        CommandFailure::Usage(format!("no folder: name one, as in `tidings project ./my-scripts`, or set {ROOT}"))
    })?;
    let allowed = (!allow.is_empty()).then(|| ("MCPBASH_TOOL_ALLOWLIST".to_owned(), allow.join(" ")));
    // Only a configuration that is named has a say, and only in how things are done.
    let mut config = match &cli.config {
        Some(_) => settings::load(cli)?.config,
        None => Config::default(),
    };
    // The folder alone is served, whatever else the configuration names.
    config.watches.clear();
    config.registries.clear();
    config.gateway.expose = tidings_config::ExposeSetting::All;
    config.gateway.registry_tools = tidings_config::RegistryToolsSetting::Off;
    config.gateway.page_size = PAGE;
    config.servers = vec![server(&dir, allowed.into_iter().collect())];
    // Elsewhere a folder that is missing fails its server alone; here there is nothing else to serve.
    wiring::try_projects(&config)?;
    // Nothing else is served: neither what was added at run time nor what a file says later.
    let ground = GatewayInputs {
        config,
        file: None,
        text: None,
        consent: None,
        table: ServerTable::in_memory(KeptServers::default()),
        listeners: Vec::new(),
        hooks: HookTable::default(),
        notice: None,
        search: Default::default(),
        keeps_first_sight: true,
        logins: None,
        copies: Default::default(),
        access: None,
        notify: None,
    };
    let store = stdio::store(cli).await;
    let mut prepared = wiring::prepare(cli, ground, DataDir::find(cli.data.as_deref()).ok().as_ref())?;
    // Here a cursor is good for one state of its list, and a client may ask for longer pages.
    prepared.bind_pages();
    stdio::serve(prepared, store, false).await
}

/// The folder that is meant.
pub(super) fn named(dir: Option<&Path>) -> Option<PathBuf> {
    let from_environment = || std::env::var_os(ROOT).filter(|root| !root.is_empty()).map(PathBuf::from);
    dir.map(Path::to_owned).or_else(from_environment)
}

/// A folder of scripts as a server, called like the folder.
pub(super) fn server(dir: &Path, env: Vec<(String, String)>) -> ServerConfig {
    // A path such as `.` has no last part; the folder that it leads to has a name.
    let real = dir.canonicalize().unwrap_or_else(|_| dir.to_owned());
    let name = real.file_name().map_or_else(|| "project".into(), |name| name.to_string_lossy().into_owned());
    ServerConfig::new(name, TransportConfig::Project { dir: dir.to_owned(), env })
}
