//! Finding the configuration, and asking before a folder's own file may start commands.

use std::io::{BufRead as _, IsTerminal as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tidings_config::{Config, ConfigErrors, ConfigNotice, FoundConfig};
use tidings_inventory::ConfigLoader;
use tidings_store::{HookTable, ServerTable};

use crate::failure::CommandFailure;
use crate::logging;
use crate::wiring::GatewayInputs;

fn env(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// A configuration and where it came from.
pub(crate) struct LoadedConfig {
    pub(crate) config: Config,
    pub(crate) found: Option<FoundConfig>,
    /// What stood in the file just before it was read.
    pub(crate) text: Option<Vec<u8>>,
}

impl LoadedConfig {
    /// What a gateway is made from; `also` refuses what it can not run in this way.
    pub(crate) fn into_ground(self, table: ServerTable, also: fn(&Config) -> Vec<ConfigNotice>) -> GatewayInputs {
        let agreed = commands(&self.config);
        let file = self.found.map(|found| {
            let (path, asks) = (found.path.clone(), found.origin.needs_consent());
            let load: ConfigLoader = Arc::new(move || read_again(&path, asks.then_some(&*agreed), also));
            (found.path, load)
        });
        let hooks = HookTable::default();
        GatewayInputs { config: self.config, file, text: self.text, table, listeners: Vec::new(), hooks }
    }
}

/// Reads the file of a running gateway again. `agreed`: the commands that somebody said yes to, where that was asked.
fn read_again(
    path: &Path,
    agreed: Option<&[String]>,
    also: fn(&Config) -> Vec<ConfigNotice>,
) -> Result<Config, String> {
    let config = tidings_config::load_to_run(path, &env).map_err(|errors| errors.to_string())?;
    let refused = [config.unsupported(), also(&config)].concat();
    if !refused.is_empty() {
        return Err(refused.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"));
    }
    let new = agreed.and_then(|agreed| commands(&config).into_iter().find(|command| !agreed.contains(command)));
    if let Some(command) = new {
        return Err(format!(
            "{} lies in the folder that the gateway was started in, and now starts another command:\n{command}\nStart \
             the gateway again to be asked, or name the file with --config if you trust it",
            path.display()
        ));
    }
    for warning in &config.warnings {
        tracing::warn!("{warning}");
    }
    Ok(config)
}

/// Finds and reads the configuration; an empty one when there is none.
pub(crate) fn load(explicit: Option<&Path>) -> Result<LoadedConfig, CommandFailure> {
    load_by(explicit, |path| tidings_config::load(path, &env))
}

fn load_by(
    explicit: Option<&Path>,
    read: impl Fn(&Path) -> Result<Config, ConfigErrors>,
) -> Result<LoadedConfig, CommandFailure> {
    let cwd = std::env::current_dir().map_err(CommandFailure::failed)?;
    let Some(found) = tidings_config::discover(explicit, &env, &cwd) else {
        return Ok(LoadedConfig { config: Config::default(), found: None, text: None });
    };
    let text = std::fs::read(&found.path).ok();
    let config = read(&found.path).map_err(CommandFailure::Config)?;
    Ok(LoadedConfig { config, found: Some(found), text })
}

/// The file in which a server is added or removed: the one that would be read, else a new one of the user's.
pub(crate) fn file_to_change(explicit: Option<&Path>) -> Result<PathBuf, CommandFailure> {
    let cwd = std::env::current_dir().map_err(CommandFailure::failed)?;
    if let Some(found) = tidings_config::discover(explicit, &env, &cwd) {
        return Ok(found.path);
    }
    tidings_config::user_file(&env).ok_or_else(|| {
        CommandFailure::Usage("no configuration directory: set HOME, or name a file with --config FILE".into())
    })
}

/// The same, for commands that start servers: warnings are shown, parts that can not be run are refused, and a file
/// that merely lies in the current folder needs a yes.
pub(crate) fn load_to_run(explicit: Option<&Path>) -> Result<LoadedConfig, CommandFailure> {
    let loaded = load_by(explicit, |path| tidings_config::load_to_run(path, &env))?;
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
pub(crate) fn refuse(notices: &[ConfigNotice]) -> Result<(), CommandFailure> {
    if notices.is_empty() {
        return Ok(());
    }
    let lines: Vec<String> = notices.iter().map(ToString::to_string).collect();
    Err(CommandFailure::Failed(lines.join("\n")))
}

/// The commands that a configuration starts, one per line.
fn commands(config: &Config) -> Vec<String> {
    let line = |server: &tidings_config::ServerConfig| match &server.transport {
        tidings_config::TransportConfig::Stdio { command, args, .. } => {
            Some(format!("  {}: {command} {}", server.name, args.join(" ")))
        }
        tidings_config::TransportConfig::Project { dir, .. } => {
            Some(format!("  {}: the scripts in {}", server.name, dir.display()))
        }
        tidings_config::TransportConfig::Container(container) => {
            Some(format!("  {}: container {}", server.name, container.image))
        }
        _ => None,
    };
    config.enabled_servers().filter_map(line).collect()
}

fn consent(path: &Path, config: &Config) -> Result<(), CommandFailure> {
    let commands = commands(config);
    if commands.is_empty() {
        return Ok(());
    }
    let path = path.display();
    if !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
        return Err(CommandFailure::Usage(format!(
            "{path} lies in the current folder and starts commands; if you trust it, name it: --config {path}"
        )));
    }
    eprintln!("{path} lies in the current folder and starts these commands:\n{}", commands.join("\n"));
    eprint!("Start them? [y/N] ");
    logging::flush();
    let mut answer = String::new();
    let _ = std::io::stdin().lock().read_line(&mut answer);
    if matches!(answer.trim(), "y" | "Y" | "yes") {
        return Ok(());
    }
    Err(CommandFailure::Usage(format!("nothing was started; name the file to skip this question: --config {path}")))
}
