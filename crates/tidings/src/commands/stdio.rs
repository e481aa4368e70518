//! `tidings stdio`: the gateway for one client on standard input and output.

use std::path::Path;
use std::time::Duration;

use tidings_config::{Config, ServerConfig};
use tidings_downstream::stdio;
use tidings_store::{RegistryTable, ServerTable, Store};
use tokio_util::sync::CancellationToken;

use super::project;
use crate::cli::Cli;
use crate::data::DataDir;
use crate::failure::CommandFailure;
use crate::registry_care::RegistryCare;
use crate::trust::Untrusted;
use crate::weight::ToolNames;
use crate::wiring::{GatewayInputs, PreparedGateway};
use crate::{ending, feed, logging, reload, settings, standard, telemetry, wiring};

/// How long a process that is about to leave may hold the store. A client waits for the answer to its first request.
const PATIENCE: Duration = Duration::from_millis(300);

pub(super) async fn run(cli: &Cli, project: Option<&Path>, channel: bool) -> Result<(), CommandFailure> {
    let loaded = settings::load_to_run(cli)?;
    settings::refuse(&loaded.config.unsuited_to_stdio())?;
    if !loaded.config.notify.is_empty() {
        // Each process of each client would tell the same.
        tracing::warn!("[[notify]] is for `tidings serve`: nobody is told of changes by this process");
    }
    let (store, vault) = (store(cli).await, loaded.config.vault.clone());
    let notice = loaded.found.is_none().then(|| loaded.untrusted.as_ref().map(not_trusted)).flatten();
    let mut inputs = loaded.into_inputs(ServerTable::new(&store), Config::unsuited_to_stdio);
    inputs.search = wiring::search_tables(&store);
    inputs.copies = RegistryTable::new(&store);
    if let Some(dir) = project {
        add(&mut inputs, &project::server(dir, Vec::new()))?;
    }
    inputs.notice = notice;
    let data = DataDir::find(cli.data.as_deref()).ok();
    inputs.logins = wiring::open_logins(&store, data.as_ref(), vault.as_deref(), false);
    serve(wiring::prepare(cli, inputs, data.as_ref())?, store, channel).await
}

/// What a client is told in the place of servers that may not be started.
fn not_trusted(here: &Untrusted) -> String {
    format!(
        "Tidings offers nothing here: {} is not trusted, so nothing in it was read or started. Ask the user to run this \
         command in a terminal, look at what it shows, and start this server again:\n\n    {}",
        here.file.display(),
        here.remedy()
    )
}

/// A client's process may have no home: then there is nothing to keep.
pub(super) async fn store(cli: &Cli) -> Store {
    let data = DataDir::find(cli.data.as_deref()).ok();
    // One that serves will not leave.
    let is_served = data.as_ref().is_some_and(|data| data.running().is_some());
    feed::open(data, if is_served { Duration::ZERO } else { PATIENCE }).await
}

/// Adds a server to those of the file, also when that is read again.
fn add(inputs: &mut GatewayInputs, server: &ServerConfig) -> Result<(), CommandFailure> {
    let name = &server.name;
    if inputs.config.servers.iter().any(|other| other.name == *name) {
        let text = format!("--project: the configuration has a server {name:?} already; rename one of them");
        return Err(CommandFailure::Usage(text));
    }
    let server = server.clone();
    // Amended and not only pushed, or a changed file would remove the project.
    inputs.amend(move |config| config.servers.push(server.clone()));
    Ok(())
}

/// Serves one client until it or we are asked to end. `channel`: it is told of changes on the channel of Claude Code, too.
pub(super) async fn serve(mut prepared: PreparedGateway, store: Store, channel: bool) -> Result<(), CommandFailure> {
    let stop = CancellationToken::new();
    ending::stop_on_signal(stop.clone());
    let (audit, trail) = crate::audit::start(&store, prepared.audit()).unzip();
    let telemetry = telemetry::start(prepared.telemetry());
    prepared.trace(telemetry.as_ref());
    let (copies, entries) = (RegistryTable::new(&store), prepared.entries());
    let log = feed::log(store);
    let (registry, logins) = (prepared.registry(), prepared.logins());
    let reloading = tokio::spawn(reload::follow(registry.clone(), prepared.consent(), stop.clone()));
    let care = RegistryCare { catalogue: entries, registry: registry.clone(), table: copies, changes: log.clone() };
    let caring = tokio::spawn(care.run(stop.clone()));
    let names = ToolNames::default();
    let journal = feed::journal(&log, names.clone());
    let client = (prepared.only_client(), channel);
    let serving = stdio::serve(standard::input(), standard::output(), client, stop.clone(), move |first| {
        if let Err(failure) = prepared.come_through(first.gateways) {
            // Nothing may be started, not even to say so: the gateway that asks shows what stands on standard error.
            eprintln!("{failure}");
            logging::flush();
            std::process::exit(1);
        }
        let gateway = prepared.start(Some((first.capabilities, first.era)), Some(journal), trail);
        names.begin(&gateway);
        gateway
    });
    // On a thread of the runtime: each message from this one would have to wake another.
    tokio::spawn(serving).await.map_err(CommandFailure::failed)?;
    // The client left by itself: what was waiting for a signal is told the same.
    stop.cancel();
    let _ = reloading.await;
    let _ = caring.await;
    if let Some(telemetry) = telemetry {
        telemetry.close().await;
    }
    registry.close().await;
    if let Some(logins) = logins {
        logins.close().await;
    }
    // After everything that writes to it.
    log.close().await;
    if let Some(audit) = audit {
        audit.close().await;
    }
    Ok(())
}
