//! `tidings stdio`: the gateway for one client on standard input and output.

use std::time::Duration;

use tidings_config::Config;
use tidings_downstream::stdio;
use tidings_store::ServerTable;
use tokio_util::sync::CancellationToken;

use super::serve::ring_on_signal;
use crate::cli::Cli;
use crate::data::DataDir;
use crate::failure::Failure;
use crate::{feed, reload, settings, wiring};

/// How long a process that is about to leave may hold the store. A client waits for the answer to its first request.
const PATIENCE: Duration = Duration::from_millis(300);

pub(super) async fn run(cli: &Cli) -> Result<(), Failure> {
    let loaded = settings::load_to_run(cli.config.as_deref())?;
    settings::refuse(&loaded.config.unsuited_to_stdio())?;
    let stop = CancellationToken::new();
    tokio::spawn(ring_on_signal(stop.clone()));
    // A client's process may have no home: then there is nothing to keep.
    let data = DataDir::find(cli.data.as_deref()).ok();
    // One that serves will not leave.
    let is_served = data.as_ref().is_some_and(|data| data.running().is_some());
    let store = feed::open(data.clone(), if is_served { Duration::ZERO } else { PATIENCE }).await;
    let ground = loaded.into_ground(ServerTable::new(&store), Config::unsuited_to_stdio);
    let prepared = wiring::prepare(ground, data.as_ref())?;
    let log = feed::log(store);
    let reloading = tokio::spawn(reload::follow(prepared.registry(), stop.clone()));
    let journal = feed::journal(&log);
    stdio::serve(tokio::io::stdin(), tokio::io::stdout(), stop.clone(), |first| {
        prepared.start(Some((first.capabilities, first.era)), Some(journal))
    })
    .await;
    stop.cancel();
    let _ = reloading.await;
    log.close().await;
    Ok(())
}
