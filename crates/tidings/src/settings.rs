//! Finding the configuration, and what of it may count: a file of the current folder only if its content is trusted.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tidings_config::{Config, ConfigErrors, ConfigNotice, ConfigSurroundings, FoundConfig};
use tidings_inventory::{ConfigLoader, LoadFault};
use tidings_store::{HookTable, ServerTable};

use crate::cli::Cli;
use crate::failure::CommandFailure;
use crate::trust::{self, TrustRecords, Untrusted};
use crate::wiring::GatewayInputs;

fn env(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// A configuration and where it came from.
pub(crate) struct LoadedConfig {
    pub(crate) config: Config,
    pub(crate) found: Option<FoundConfig>,
    /// What stood in the file when it was read.
    pub(crate) text: Option<Vec<u8>>,
    /// A file of the current folder that would count if it were trusted.
    pub(crate) untrusted: Option<Untrusted>,
    records: TrustRecords,
}

impl LoadedConfig {
    /// What a gateway is made from; `also` refuses what it can not run in this way.
    pub(crate) fn into_inputs(self, table: ServerTable, also: fn(&Config) -> Vec<ConfigNotice>) -> GatewayInputs {
        let mut consent = None;
        let file = self.found.map(|found| {
            let (path, records) = (found.path.clone(), self.records);
            let asks = found.origin.needs_consent();
            consent = asks.then(|| records.record_of(&path)).flatten();
            // Every later reading asks for trust again: what was agreed to is the content, not the path.
            let load: ConfigLoader = Arc::new(move || read_again(&path, asks.then_some(&records), also));
            (found.path, load)
        });
        let hooks = HookTable::default();
        let text = self.text;
        GatewayInputs {
            config: self.config,
            file,
            text,
            consent,
            table,
            listeners: Vec::new(),
            hooks,
            notice: None,
            search: Default::default(),
            keeps_first_sight: true,
            logins: None,
            copies: Default::default(),
            access: None,
            notify: None,
        }
    }
}

/// Reads the file of a running gateway again. `records`: where somebody must have said yes to what it says now.
fn read_again(
    path: &Path,
    records: Option<&TrustRecords>,
    also: fn(&Config) -> Vec<ConfigNotice>,
) -> Result<Config, LoadFault> {
    let content = std::fs::read(path);
    if let (Some(records), Ok(content)) = (records, &content)
        // What is judged is what is parsed below: the file is not read a second time.
        && !records.trusts(path, content)
    {
        let changed = Untrusted { file: path.to_owned(), content: content.clone() };
        return Err(LoadFault::Untrusted { file: path.to_owned(), remedy: changed.remedy() });
    }
    let config = parse_to_run(path, content).map_err(LoadFault::Invalid)?;
    let refused = also(&config);
    if !refused.is_empty() {
        return Err(LoadFault::Unsupported(refused));
    }
    for warning in &config.warnings {
        tracing::warn!("{warning}");
    }
    Ok(config)
}

/// How a text becomes a configuration.
type Parse = fn(&Path, std::io::Result<Vec<u8>>) -> Result<Config, ConfigErrors>;

fn parse(path: &Path, content: std::io::Result<Vec<u8>>) -> Result<Config, ConfigErrors> {
    let text = tidings_config::text_of(path, content)?;
    tidings_config::parse(&text, path, &ConfigSurroundings { env: &env, read: &tidings_config::read_referred })
}

/// The same for a file that nobody trusts: no file is opened because it says so.
fn parse_to_examine(path: &Path, content: std::io::Result<Vec<u8>>) -> Result<Config, ConfigErrors> {
    let text = tidings_config::text_of(path, content)?;
    tidings_config::parse(&text, path, &ConfigSurroundings { env: &env, read: &|_| Ok(String::new()) })
}

fn parse_to_run(path: &Path, content: std::io::Result<Vec<u8>>) -> Result<Config, ConfigErrors> {
    let text = tidings_config::text_of(path, content)?;
    tidings_config::parse_to_run(&text, path, &ConfigSurroundings { env: &env, read: &tidings_config::read_referred })
}

/// The file that counts, with what stands in it, and the one that would if it were trusted.
struct Chosen {
    counts: Option<(FoundConfig, std::io::Result<Vec<u8>>)>,
    untrusted: Option<Untrusted>,
}

fn choose(cli: &Cli, records: &TrustRecords) -> Result<Chosen, CommandFailure> {
    let cwd = std::env::current_dir().map_err(CommandFailure::failed)?;
    let mut untrusted = None;
    for found in tidings_config::candidates(cli.config.as_deref(), &env, &cwd) {
        // What is judged is what is read: the file may be another in a moment.
        let content = std::fs::read(&found.path);
        match &content {
            // A file that another user left in a shared folder is not ours to read, and stops nothing.
            Err(error) if found.origin.needs_consent() => {
                eprintln!("{} does not count: {error}", crate::plain_text::line(&found.path.display().to_string()));
            }
            Ok(bytes) if found.origin.needs_consent() && !records.trusts(&found.path, bytes) => {
                let here = Untrusted { file: found.path, content: bytes.clone() };
                // The first file that is not trusted is the one that would count, so it is the one to name.
                untrusted.get_or_insert(here);
            }
            _ => return Ok(Chosen { counts: Some((found, content)), untrusted }),
        }
    }
    Ok(Chosen { counts: None, untrusted })
}

fn load_chosen(chosen: Chosen, records: TrustRecords, parse: Parse) -> Result<LoadedConfig, CommandFailure> {
    let Chosen { counts, untrusted } = chosen;
    let Some((found, content)) = counts else {
        // With `untrusted`: whoever asks why there is nothing is told of the file that would count.
        return Ok(LoadedConfig { config: Config::default(), found: None, text: None, untrusted, records });
    };
    let text = content.as_ref().ok().cloned();
    let config = parse(&found.path, content).map_err(CommandFailure::Config)?;
    Ok(LoadedConfig { config, found: Some(found), text, untrusted, records })
}

/// Finds and reads the configuration that counts; an empty one when there is none.
pub(crate) fn load(cli: &Cli) -> Result<LoadedConfig, CommandFailure> {
    let records = TrustRecords::of(cli);
    load_chosen(choose(cli, &records)?, records, parse)
}

/// The same, for looking at it only: an untrusted file of the current folder is examined too, in the place of another.
pub(crate) fn load_to_examine(cli: &Cli) -> Result<LoadedConfig, CommandFailure> {
    let records = TrustRecords::of(cli);
    let mut chosen = choose(cli, &records)?;
    if let Some(here) = &chosen.untrusted {
        let found = FoundConfig { path: here.file.clone(), origin: tidings_config::ConfigOrigin::CurrentFolder };
        chosen.counts = Some((found, Ok(here.content.clone())));
        return load_chosen(chosen, records, parse_to_examine);
    }
    load_chosen(chosen, records, parse)
}

/// The file in which a server is added or removed: the one that counts, else a new one of the user's.
pub(crate) fn file_to_change(cli: &Cli) -> Result<PathBuf, CommandFailure> {
    let chosen = choose(cli, &TrustRecords::of(cli))?;
    if let Some((found, _)) = chosen.counts {
        return Ok(found.path);
    }
    if let Some(here) = &chosen.untrusted {
        // The user may have meant that file: say why it is not the one that is changed.
        eprintln!("{}", here.words());
    }
    tidings_config::user_file(&env).ok_or_else(|| {
        CommandFailure::Usage("no configuration directory: set HOME, or name a file with --config FILE".into())
    })
}

/// The same as [`load`], for commands that start servers: somebody at a terminal is asked about a file of the current
/// folder, warnings are shown, and parts that can not be run are refused.
pub(crate) fn load_to_run(cli: &Cli) -> Result<LoadedConfig, CommandFailure> {
    let records = TrustRecords::of(cli);
    let mut chosen = choose(cli, &records)?;
    if let Some(here) = chosen.untrusted.take() {
        // A file that can not even be shown is no reason to fail: it does not count.
        let agrees = || {
            here.ask(&records).unwrap_or_else(|failure| {
                eprintln!("{failure}");
                false
            })
        };
        if trust::can_ask() && agrees() {
            let found = FoundConfig { path: here.file, origin: tidings_config::ConfigOrigin::CurrentFolder };
            chosen.counts = Some((found, Ok(here.content)));
        } else {
            let instead =
                chosen.counts.as_ref().map(|(found, _)| format!(". {} is used instead", found.path.display()));
            eprintln!("{}{}", here.words(), instead.unwrap_or_default());
            chosen.untrusted = Some(here);
        }
    }
    let loaded = load_chosen(chosen, records, parse_to_run)?;
    for warning in &loaded.config.warnings {
        tracing::warn!("{warning}");
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
