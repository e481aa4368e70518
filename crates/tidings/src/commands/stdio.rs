//! `tidings stdio`: the gateway for one client on standard input and output.

use tidings_downstream::stdio;
use tokio_util::sync::CancellationToken;

use super::serve::ring_on_signal;
use crate::cli::Cli;
use crate::failure::Failure;
use crate::{settings, wiring};

pub(super) async fn run(cli: &Cli) -> Result<(), Failure> {
    let loaded = settings::load_to_run(cli.config.as_deref())?;
    let stop = CancellationToken::new();
    tokio::spawn(ring_on_signal(stop.clone()));
    let prepared = wiring::prepare(loaded.config)?;
    stdio::serve(tokio::io::stdin(), tokio::io::stdout(), stop, |first| {
        prepared.start(Some((first.capabilities, first.era)))
    })
    .await;
    Ok(())
}
