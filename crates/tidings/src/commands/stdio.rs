//! `tidings stdio`: the gateway for one client on standard input and output.

use tidings_downstream::stdio;
use tokio_util::sync::CancellationToken;

use super::serve::ring_on_signal;
use crate::cli::Cli;
use crate::data::DataDir;
use crate::failure::Failure;
use crate::{feed, settings, wiring};

pub(super) async fn run(cli: &Cli) -> Result<(), Failure> {
    let loaded = settings::load_to_run(cli.config.as_deref())?;
    settings::refuse(&loaded.config.unsuited_to_stdio())?;
    let stop = CancellationToken::new();
    tokio::spawn(ring_on_signal(stop.clone()));
    let prepared = wiring::prepare(loaded.config)?;
    // A client's process may have no home: then there is nothing to keep.
    let log = feed::open(DataDir::find(cli.data.as_deref()).ok());
    let journal = feed::journal(&log);
    stdio::serve(tokio::io::stdin(), tokio::io::stdout(), stop, |first| {
        prepared.start(Some((first.capabilities, first.era)), Some(journal))
    })
    .await;
    log.close().await;
    Ok(())
}
