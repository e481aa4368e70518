//! `tidings check`: validates the configuration without starting anything.

use serde_json::json;

use super::terminal::plural;
use crate::cli::Cli;
use crate::failure::CommandFailure;
use crate::{access, settings, wiring};

pub(super) fn run(cli: &Cli, for_stdio: bool, as_json: bool) -> Result<(), CommandFailure> {
    let loaded = match settings::load_to_examine(cli) {
        Ok(loaded) => loaded,
        Err(CommandFailure::Config(errors)) if as_json => {
            let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
            println!("{:#}", json!({ "ok": false, "errors": errors }));
            return Err(CommandFailure::Failed("the configuration is not valid".into()));
        }
        Err(other) => return Err(other),
    };
    let mut warnings: Vec<String> = loaded.config.warnings.iter().map(ToString::to_string).collect();
    warnings.extend(loaded.untrusted.as_ref().map(crate::trust::Untrusted::words));
    let unsuited = if for_stdio { loaded.config.unsuited_to_stdio() } else { Vec::new() };
    let mut unsupported: Vec<String> = unsuited.iter().map(ToString::to_string).collect();
    if !for_stdio {
        unsupported.extend(access::fault(&loaded.config));
        warnings.extend(access::warnings(&loaded.config));
    }
    // These look at the folders and files that the configuration names; an untrusted one does not choose what is opened.
    let tries = [wiring::try_watches, wiring::try_catalogue, wiring::try_projects];
    for attempt in tries.into_iter().filter(|_| loaded.untrusted.is_none()) {
        if let Err(CommandFailure::Failed(fault)) = attempt(&loaded.config) {
            unsupported.push(fault);
        }
    }
    let file = loaded.found.map(|found| found.path.display().to_string());
    if as_json {
        let ok = unsupported.is_empty();
        println!("{:#}", json!({ "ok": ok, "file": file, "errors": unsupported, "warnings": warnings }));
    } else {
        for line in warnings.iter().chain(&unsupported) {
            println!("{line}");
        }
        let config = &loaded.config;
        let enabled = config.enabled_servers().count();
        match &file {
            Some(file) if unsupported.is_empty() => {
                let watches = match config.watches.len() as u64 {
                    0 => String::new(),
                    some => format!(", {}", plural(some, "watch")),
                };
                let servers = plural(config.servers.len() as u64, "server");
                println!("{file}: fine, {enabled} of {servers} enabled{watches}")
            }
            Some(_) => {}
            None => println!("no configuration found; `tidings serve` would show the built-in demo"),
        }
    }
    if unsupported.is_empty() { Ok(()) } else { Err(CommandFailure::Failed("the configuration can not be run".into())) }
}
