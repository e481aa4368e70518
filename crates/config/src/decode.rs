//! Tree to plan: which keys there are, what they mean, and what has to hold between them.

mod access;
mod audit;
mod clash;
mod clients;
pub(crate) mod cluster;
mod container;
mod entry;
mod itself;
mod limits;
mod login;
mod notify;
mod policy;
mod profile;
mod quotas;
mod registry;
mod search;
mod server;
mod settings;
mod telemetry;

use std::cell::{Cell, RefCell};
use std::path::{Path, PathBuf};

use crate::error::{ConfigErrors, ConfigFault};
use crate::expand::{ConfigSurroundings, ReferenceDialect, ReferenceExpander};
use crate::plan::Config;
use crate::plan::entry::CatalogueEntry;
use crate::plan::policy::PolicySettings;
use crate::plan::server::ServerConfig;
use crate::read::{FileReading, ReadFindings, TableSection};
use crate::tree::{self, ConfigNode, ConfigValue, SyntaxError, TableEntry, key_path};

/// Decodes a whole file. `tolerant`: servers may refer to variables and files that are not there, and say so.
pub(crate) fn file(
    text: &str,
    path: &Path,
    surroundings: &ConfigSurroundings<'_>,
    tolerant: bool,
) -> Result<Config, ConfigErrors> {
    // Not canonical: where the file is a link, paths in it count from where the user sees it.
    let base = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let base = base.parent().map_or_else(PathBuf::new, Path::to_owned);
    if is_json(text, path) {
        let reading = FileReading { tolerant, ..reading(Some(path), base, ReferenceDialect::Clients, surroundings) };
        let config = match tree::json::parse(text) {
            Ok(node) => clients::config(&reading, &node),
            Err(error) => {
                syntax(&reading, error);
                Config::default()
            }
        };
        conclude(reading, config)
    } else {
        let reading = FileReading { tolerant, ..reading(Some(path), base, ReferenceDialect::Native, surroundings) };
        let (entries, errors) = tree::toml::parse(text);
        // What a broken text seems to say is not worth complaints of its own.
        let config = if errors.is_empty() { native(&reading, &entries) } else { Config::default() };
        errors.into_iter().for_each(|error| syntax(&reading, error));
        conclude(reading, config)
    }
}

/// Decodes one server with the keys of `[servers.X]`.
pub(crate) fn single_server(
    name: &str,
    body: &serde_json::Value,
    base: &Path,
    surroundings: &ConfigSurroundings<'_>,
) -> Result<ServerConfig, ConfigErrors> {
    let reading = reading(None, base.to_owned(), ReferenceDialect::Native, surroundings);
    let node = tree::json::from_value(body);
    let path = key_path("servers", name);
    if name.trim().is_empty() {
        reading.fault(&path, None, ConfigFault::Empty);
    }
    let section = TableSection::of_node(&reading, path, None, &node);
    let server = section.and_then(|section| server::native(section, name));
    let findings = reading.findings.into_inner();
    match (server, ConfigErrors::from_found(findings.errors)) {
        (Some(server), None) => Ok(server),
        (_, Some(errors)) => Err(errors),
        // Never an answer without a server and without a reason.
        (None, None) => Err(ConfigErrors::unusable(key_path("servers", name))),
    }
}

/// Decodes `[policy]` and nothing else.
pub(crate) fn policy_alone(text: &str, path: &Path) -> Result<PolicySettings, ConfigErrors> {
    let nothing = ConfigSurroundings { env: &|_| None, read: &|_| Err(std::io::ErrorKind::NotFound.into()) };
    let reading = reading(Some(path), PathBuf::new(), ReferenceDialect::Verbatim, &nothing);
    let (entries, errors) = tree::toml::parse(text);
    let is_readable = errors.is_empty();
    errors.into_iter().for_each(|error| syntax(&reading, error));
    let mut root = TableSection::new(&reading, String::new(), None, &entries);
    let policy = root.section("policy").filter(|_| is_readable).map(policy::policy);
    if policy.is_none() && is_readable {
        reading.fault("", None, ConfigFault::MissingKey { key: "policy" });
    }
    let findings = reading.findings.into_inner();
    match (policy, ConfigErrors::from_found(findings.errors)) {
        (Some(policy), None) => Ok(policy),
        (_, Some(errors)) => Err(errors),
        (None, None) => Err(ConfigErrors::unusable("policy".to_owned())),
    }
}

/// Decodes a catalogue file.
pub(crate) fn catalogue(text: &str, path: &Path) -> Result<Vec<CatalogueEntry>, ConfigErrors> {
    // References stay as they are written: they are resolved when an entry is added, by whoever adds it.
    let nothing = ConfigSurroundings { env: &|_| None, read: &|_| Err(std::io::ErrorKind::NotFound.into()) };
    let reading = reading(Some(path), PathBuf::new(), ReferenceDialect::Verbatim, &nothing);
    let tree = if is_json(text, path) {
        tree::json::parse(text).map_err(|error| vec![error])
    } else {
        let (entries, errors) = tree::toml::parse(text);
        if errors.is_empty() { Ok(ConfigNode { at: None, value: ConfigValue::Table(entries) }) } else { Err(errors) }
    };
    let entries = match &tree {
        Ok(node) => TableSection::of_node(&reading, String::new(), None, node).map(entry::all).unwrap_or_default(),
        Err(_) => Vec::new(),
    };
    tree.err().into_iter().flatten().for_each(|error| syntax(&reading, error));
    match ConfigErrors::from_found(reading.findings.into_inner().errors) {
        Some(errors) => Err(errors),
        None => Ok(entries),
    }
}

pub(crate) fn is_json(text: &str, path: &Path) -> bool {
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("json" | "jsonc") => true,
        Some("toml") => false,
        // Neither name: TOML can not begin with a brace.
        _ => text.trim_start().starts_with('{'),
    }
}

fn reading<'a>(
    file: Option<&Path>,
    base: PathBuf,
    dialect: ReferenceDialect,
    surroundings: &ConfigSurroundings<'a>,
) -> FileReading<'a> {
    FileReading {
        file: file.map(Path::to_owned),
        expander: ReferenceExpander { surroundings: *surroundings, dialect, base },
        lenient: Cell::new(false),
        tolerant: false,
        missing: RefCell::default(),
        findings: RefCell::new(ReadFindings::default()),
    }
}

fn syntax(reading: &FileReading<'_>, error: SyntaxError) {
    reading.fault("", error.at, ConfigFault::Syntax { message: error.message });
}

fn native(reading: &FileReading<'_>, entries: &[TableEntry]) -> Config {
    let mut root = TableSection::new(reading, String::new(), None, entries);
    let gateway = root.section("gateway").map(settings::gateway).unwrap_or_default();
    let notifications = root.section("notifications").map(settings::notifications).unwrap_or_default();
    let search = root.section("search").map(search::search).unwrap_or_default();
    let audit = root.section("audit").map(audit::audit).unwrap_or_default();
    let telemetry = root.section("telemetry").map(telemetry::telemetry).unwrap_or_default();
    let page = root.section("page").map(settings::page).unwrap_or_default();
    let quotas = root.section("quotas").map(quotas::quotas);
    let vault = root.section("vault").and_then(access::vault).map(Box::new);
    let servers = root.section("servers").map(|section| section.named_sections()).unwrap_or_default();
    let servers = servers.into_iter().filter_map(|(name, section)| {
        let place = (section.path.clone(), section.at);
        server::native(section, name).filter(|server| !itself::skipped(reading, &place.0, place.1, server))
    });
    let mut servers: Vec<_> = servers.collect();
    server::fit_timeouts(&mut servers, &gateway);
    let watches = root.section("watch").as_ref().map(crate::watch::all).unwrap_or_default();
    let auth = root.section("auth").map(access::auth);
    let policy = root.section("policy").map(policy::policy);
    let limits = root.section("limits").map(limits::limits);
    let clients = root.section("clients").as_ref().map(profile::clients).unwrap_or_default();
    let notify = notify::all(&mut root);
    let registries = registry::registries(&mut root);
    // Notices that are made after reading point to where the section stands.
    root.remember("cluster");
    let cluster = root.section("cluster").and_then(cluster::cluster);
    // Last: every key that was asked for is known by now, the rest are misspelt.
    root.finish();
    let rest = Config::default();
    Config {
        gateway,
        notifications,
        search,
        audit,
        telemetry,
        page,
        quotas,
        vault,
        servers,
        watches,
        auth,
        policy,
        limits,
        clients,
        notify,
        registries,
        cluster,
        ..rest
    }
}

/// The plan with what was noted about it, or the faults.
fn conclude(reading: FileReading<'_>, mut config: Config) -> Result<Config, ConfigErrors> {
    // Between servers, so only when all of them are read.
    clash::check(&reading, &config.servers);
    let findings = reading.findings.into_inner();
    match ConfigErrors::from_found(findings.errors) {
        Some(errors) => Err(errors),
        None => {
            config.warnings = findings.warnings;
            config.places = findings.places;
            Ok(config)
        }
    }
}
