//! The load harness: what the gateway costs, against a bare reverse proxy measured in the same run.
//!
//! Without a subcommand it runs the whole suite and prints a table. The subcommands are the parts of
//! the suite; each runs as a process of its own, so that memory and CPU are counted apart.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod accept;
mod bus_trip;
mod echo;
mod error;
mod fan;
mod floor;
mod load;
mod machine;
mod poll;
mod process;
mod report;
mod static_body;
mod stdio_server;
mod suite;
mod upstream;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use tokio::runtime::{Builder, Runtime};

use crate::error::BenchError;

/// Measure the gateway against a bare reverse proxy, in one run.
#[derive(Parser)]
#[command(name = "tidings-bench", after_help = "Example: tidings-bench --only 1 --seconds 2")]
struct BenchCli {
    #[command(subcommand)]
    part: Option<BenchPart>,
    #[command(flatten)]
    suite: suite::SuiteOptions,
}

#[derive(Subcommand)]
enum BenchPart {
    /// An MCP echo server over HTTP, of both eras.
    Upstream(upstream::UpstreamOptions),
    /// A bare reverse proxy: every byte passes unread.
    Floor(floor::FloorOptions),
    /// A fixed body from the HTTP stack that the gateway uses.
    Static(static_body::StaticOptions),
    /// A bare server that writes what is posted to every open stream.
    Fan(fan::FanOptions),
    /// Asks a URL again and again, and does nothing else.
    Poll(poll::PollOptions),
    /// What a request and its answer over NATS take; prints microseconds.
    Trip(bus_trip::TripOptions),
    /// An MCP echo server on stdin and stdout, of both eras.
    StdioServer(stdio_server::StdioOptions),
    /// Fills the change log of a data directory, for pages with many changes.
    Fill(suite::FillOptions),
    /// Fills what is remembered of who was told, and prints what it weighs.
    Ledger(suite::LedgerOptions),
    /// The load client: a closed loop over keep-alive connections; prints one line of JSON.
    Load(load::LoadOptions),
}

fn main() -> ExitCode {
    let cli = BenchCli::parse();
    machine::allow_many_files();
    let outcome = match &cli.part {
        // The peers of what is measured stay on one thread: on a small machine they compete with it.
        Some(BenchPart::Upstream(options)) => on(single(), upstream::run(options)),
        Some(BenchPart::Load(options)) => on(single(), load::run(options)),
        // These stand where the gateway stands, so they get its kind of runtime.
        Some(BenchPart::Poll(options)) => on(multi(), poll::run(options)),
        Some(BenchPart::Trip(options)) => on(multi(), bus_trip::run(options)),
        Some(BenchPart::Fan(options)) => on(multi(), fan::run(options)),
        Some(BenchPart::Floor(options)) => on(multi(), floor::run(options)),
        Some(BenchPart::Static(options)) => on(multi(), static_body::run(options)),
        Some(BenchPart::Fill(options)) => on(single(), suite::fill(options)),
        Some(BenchPart::Ledger(options)) => on(single(), suite::weigh(options)),
        Some(BenchPart::StdioServer(options)) => stdio_server::run(options),
        None => {
            return match on(single(), suite::run(&cli.suite)) {
                Ok(passed) if passed || cli.suite.no_fail => ExitCode::SUCCESS,
                Ok(_) => ExitCode::from(1),
                Err(error) => fail(&error),
            };
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&error),
    }
}

fn fail(error: &BenchError) -> ExitCode {
    eprintln!("tidings-bench: {error}");
    ExitCode::from(1)
}

fn single() -> std::io::Result<Runtime> {
    Builder::new_current_thread().enable_all().build()
}

fn multi() -> std::io::Result<Runtime> {
    Builder::new_multi_thread().enable_all().build()
}

fn on<T>(
    runtime: std::io::Result<Runtime>,
    work: impl Future<Output = Result<T, BenchError>>,
) -> Result<T, BenchError> {
    runtime.map_err(BenchError::io("starting the runtime"))?.block_on(work)
}
