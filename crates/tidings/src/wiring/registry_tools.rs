//! From `registry_tools` and `catalogue` of `[gateway]` to the server of the registry tools.

use std::sync::Arc;

use tidings_builtin::StartConsent;
use tidings_config::{Config, RegistryToolsSetting};
use tidings_engine::{ServerPlan, Source};
use tidings_inventory::ServerRegistry;
use tidings_server_catalog::{LocalCatalogue, RegistryAccess};
use tidings_store::RegistryTable;
use tidings_upstream::LinkConnector;

use super::built_in;
use crate::data::DataDir;
use crate::failure::CommandFailure;
use crate::registry_http::RegistryHttp;

/// Reads the catalogue of servers that could be added, from the starter set and the user's file.
/// Registries are asked later; `table` keeps what they said, and `data` what is run of it.
pub(super) fn prepare(
    config: &Config,
    table: &RegistryTable,
    data: Option<&DataDir>,
) -> Result<Arc<LocalCatalogue>, CommandFailure> {
    let access = (!config.registries.is_empty()).then(|| RegistryAccess {
        registries: config.registries.clone(),
        table: table.clone(),
        fetcher: Arc::new(RegistryHttp::new(&config.registries)),
        bundles: data
            .map_or_else(|| std::env::temp_dir().join("tidings"), |data| data.path().to_path_buf())
            .join("bundles"),
    });
    let entries = LocalCatalogue::open(config.gateway.catalogue.as_deref(), access).map_err(|fault| {
        let place = config.place_of("gateway.catalogue").map(|place| format!("{place}: ")).unwrap_or_default();
        CommandFailure::Failed(format!("{place}gateway.catalogue: {fault}"))
    })?;
    Ok(Arc::new(entries))
}

/// The server of the tools, where they are wanted. They start commands, so over HTTP they have to be asked for.
pub(super) fn plan(
    config: &Config,
    entries: Arc<LocalCatalogue>,
    registry: ServerRegistry,
    connector: LinkConnector,
    on_stdio: bool,
) -> Option<ServerPlan> {
    let wanted = match config.gateway.registry_tools {
        RegistryToolsSetting::Auto => on_stdio,
        RegistryToolsSetting::On | RegistryToolsSetting::Ask => true,
        RegistryToolsSetting::Off => false,
    };
    let consent = match config.gateway.registry_tools {
        RegistryToolsSetting::Ask => StartConsent::Always,
        _ => StartConsent::WherePossible,
    };
    let tools = || tidings_builtin::RegistryTools::new(registry, entries, connector, consent);
    wanted.then(|| built_in("registry", Source::Local(Arc::new(tools())), config.gateway.expose))
}
