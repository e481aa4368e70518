//! `tidings`: command line, configuration and wiring. What it starts lives in the other crates.

// First: its macros stand in for those of the standard library.
#[macro_use]
mod standard;

mod access;
mod audit;
mod backend;
mod cli;
mod client_profiles;
mod commands;
mod data;
mod demo;
mod ending;
mod failure;
mod feed;
mod item_limits;
mod limits;
mod lock_files;
mod logging;
mod page;
mod plain_text;
mod policy;
mod registry_care;
mod registry_http;
mod reload;
mod secret;
mod server_card;
mod server_log;
mod session_archive;
mod settings;
mod shell_word;
mod telemetry;
mod ticket_door;
mod trust;
mod url_text;
mod weight;
mod wiring;

use std::process::ExitCode;

/// Every call makes and drops a few dozen small buffers, often on another thread than the one that made them.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let mut args = std::env::args_os().skip(1);
    match args.next().as_deref().and_then(std::ffi::OsStr::to_str) {
        // Hidden: how servers are started so that none outlives the gateway.
        Some("__exec") => {
            let error = tidings_upstream::exec_helper(args);
            eprintln!("tidings: {error}");
            return ExitCode::from(127);
        }
        Some("__watchdog") => {
            tidings_upstream::watchdog_helper(args);
            return ExitCode::SUCCESS;
        }
        // Scripts start it often: it needs no runtime, and its options are those of jq.
        Some("json") => return tidings_json::main(args),
        _ => {}
    }
    let cli = cli::parse();
    logging::start(&cli);
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("tidings: no runtime: {error}");
            return ExitCode::FAILURE;
        }
    };
    let outcome = runtime.block_on(async {
        tokio::select! {
            // The command first: what it did counts more than a reader that has gone at the same moment.
            biased;
            outcome = Box::pin(commands::run(cli)) => outcome.and(standard::refused_so_far()),
            // A list that nobody reads to its end needs no end.
            refused = standard::refused() => refused,
        }
    });
    // Blocking reads of standard input can not be interrupted; nothing else is left by now.
    runtime.shutdown_background();
    let code = match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("{failure}");
            failure.exit_code()
        }
    };
    logging::flush();
    code
}
