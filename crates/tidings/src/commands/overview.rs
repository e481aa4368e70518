//! `tidings` alone: what is running, and the next useful command.

use super::terminal::plural;
use crate::cli::Cli;
use crate::data::DataDir;
use crate::failure::CommandFailure;
use crate::settings;

pub(super) async fn run(cli: &Cli) -> Result<(), CommandFailure> {
    println!("Tidings {}: one MCP endpoint in front of all your MCP servers.\n", env!("CARGO_PKG_VERSION"));
    match DataDir::find(cli.data.as_deref())?.running() {
        Some(running) => {
            println!("A gateway is running at {}/mcp.\n", running.url);
            println!("  tidings servers      what is behind it");
            println!("  tidings tools        what it offers");
            println!("  tidings changes      what changed lately");
        }
        None => {
            match settings::load(cli) {
                Ok(settings::LoadedConfig { config, found: Some(found), .. }) => {
                    let servers = plural(config.servers.len() as u64, "server");
                    println!("No gateway is running. {} has {servers}.\n", found.path.display());
                }
                Ok(settings::LoadedConfig { untrusted: Some(here), .. }) => {
                    println!("No gateway is running. {}\n", here.words());
                }
                Ok(_) => println!("No gateway is running, and there is no configuration yet.\n"),
                Err(_) => println!("No gateway is running, and the configuration has errors: tidings check\n"),
            }
            println!("  tidings init         make a configuration from what your MCP clients use");
            println!("  tidings serve        serve over HTTP (without a configuration: a demo)");
            println!("  tidings stdio        serve one client on standard input and output");
        }
    }
    println!("  tidings --help       everything else");
    Ok(())
}
