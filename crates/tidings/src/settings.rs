//! Finding the configuration, and asking before a folder's own file may start commands.

use std::io::{BufRead as _, IsTerminal as _, Write as _};
use std::path::Path;

use tidings_config::{Config, Found, Notice};

use crate::failure::Failure;

fn env(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// A configuration and where it came from.
pub(crate) struct Loaded {
    pub(crate) config: Config,
    pub(crate) found: Option<Found>,
}

/// Finds and reads the configuration; an empty one when there is none.
pub(crate) fn load(explicit: Option<&Path>) -> Result<Loaded, Failure> {
    let cwd = std::env::current_dir().map_err(Failure::failed)?;
    let Some(found) = tidings_config::discover(explicit, &env, &cwd) else {
        return Ok(Loaded { config: Config::default(), found: None });
    };
    let config = tidings_config::load(&found.path, &env).map_err(Failure::Config)?;
    Ok(Loaded { config, found: Some(found) })
}

/// The same, for commands that start servers: warnings are shown, parts that can not be run are refused, and a file
/// that merely lies in the current folder needs a yes.
pub(crate) fn load_to_run(explicit: Option<&Path>) -> Result<Loaded, Failure> {
    let loaded = load(explicit)?;
    for warning in &loaded.config.warnings {
        tracing::warn!("{warning}");
    }
    refuse(&loaded.config.unsupported())?;
    if let Some(found) = loaded.found.as_ref().filter(|found| found.origin.needs_consent()) {
        consent(&found.path, &loaded.config)?;
    }
    Ok(loaded)
}

/// Fails when there is anything to refuse.
pub(crate) fn refuse(notices: &[Notice]) -> Result<(), Failure> {
    if notices.is_empty() {
        return Ok(());
    }
    let lines: Vec<String> = notices.iter().map(ToString::to_string).collect();
    Err(Failure::Failed(lines.join("\n")))
}

fn consent(path: &Path, config: &Config) -> Result<(), Failure> {
    let commands: Vec<String> = config
        .enabled_servers()
        .filter_map(|server| match &server.transport {
            tidings_config::Transport::Stdio { command, args, .. } => {
                Some(format!("  {}: {command} {}", server.name, args.join(" ")))
            }
            _ => None,
        })
        .collect();
    if commands.is_empty() {
        return Ok(());
    }
    let path = path.display();
    if !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
        return Err(Failure::Usage(format!(
            "{path} lies in the current folder and starts commands; if you trust it, name it: --config {path}"
        )));
    }
    eprintln!("{path} lies in the current folder and starts these commands:\n{}", commands.join("\n"));
    eprint!("Start them? [y/N] ");
    let _ = std::io::stderr().flush();
    let mut answer = String::new();
    let _ = std::io::stdin().lock().read_line(&mut answer);
    if matches!(answer.trim(), "y" | "Y" | "yes") {
        return Ok(());
    }
    Err(Failure::Usage(format!("nothing was started; name the file to skip this question: --config {path}")))
}
