//! `tidings stdio`: the gateway for one client on standard input and output.

use std::path::Path;

use tidings_config::Config;
use tidings_downstream::stdio;
use tokio_util::sync::CancellationToken;

use super::project;
use super::serve::ring_on_signal;
use crate::cli::Cli;
use crate::data::DataDir;
use crate::failure::Failure;
use crate::{demo, feed, settings, wiring};

pub(super) async fn run(cli: &Cli, project: Option<&Path>) -> Result<(), Failure> {
    let mut config = settings::load_to_run(cli.config.as_deref())?.config;
    settings::refuse(&config.unsuited_to_stdio())?;
    if let Some(dir) = project {
        let server = project::server(dir, Vec::new());
        if config.servers.iter().any(|other| other.name == server.name) {
            return Err(Failure::Usage(format!(
                "--project: the configuration has a server {:?} already; rename one of them",
                server.name
            )));
        }
        config.servers.push(server);
    }
    demo::add_where_nothing_is(&mut config, DataDir::find(cli.data.as_deref()).ok().as_ref())?;
    serve(cli, config, false).await
}

/// Serves one client. `bound_pages`: lists are given as projects have always given them.
pub(super) async fn serve(cli: &Cli, config: Config, bound_pages: bool) -> Result<(), Failure> {
    let stop = CancellationToken::new();
    tokio::spawn(ring_on_signal(stop.clone()));
    let mut prepared = wiring::prepare(cli, config)?;
    if bound_pages {
        prepared.bind_pages();
    }
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
