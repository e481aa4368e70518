//! Logs go to standard error: standard output belongs to the protocol, or to what was asked for.

use std::io::IsTerminal as _;

use tracing_subscriber::EnvFilter;

use crate::cli::{Cli, Command};

pub(crate) fn start(cli: &Cli) {
    let serving = matches!(cli.command, Some(Command::Serve { .. } | Command::Stdio { .. } | Command::Project { .. }));
    let level = match (serving, cli.verbose) {
        (true, 0) => "info",
        (false, 0) => "error",
        (_, 1) => "debug",
        (_, _) => "trace",
    };
    let default = format!("{level},hyper=warn,reqwest=warn,rustls=warn,hyper_util=warn");
    let filter = EnvFilter::try_from_env("TIDINGS_LOG").unwrap_or_else(|_| EnvFilter::new(default));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_target(false)
        .init();
}
