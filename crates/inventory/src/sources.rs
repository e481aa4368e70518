//! The set of servers as its sources want it, and what has to be done to get there.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;
use std::sync::Arc;

use serde_json::Value;
use tidings_config::{Config, ConfigErrors, ConfigSurroundings, ServerConfig, UriMode};
use tidings_engine::{KeptStep, Origin, Prefix};
use tidings_store::{KeepStep, KeptServers};

use crate::state::RegistryEntry;

/// A server that is to run.
#[derive(Clone, Debug)]
pub(crate) struct WantedServer {
    pub(crate) config: Arc<ServerConfig>,
    pub(crate) origin: Origin,
}

impl PartialEq for WantedServer {
    fn eq(&self, other: &Self) -> bool {
        // Most of what is compared is what was read the last time.
        let is_same = Arc::ptr_eq(&self.config, &other.config) || self.config == other.config;
        is_same && self.origin == other.origin
    }
}

/// A server that was added at run time.
#[derive(Clone, Debug)]
pub(crate) struct AddedServer {
    pub(crate) server: Value,
    /// What it says, as far as it can be read here and now.
    pub(crate) read: Result<ServerConfig, ConfigErrors>,
}

/// The servers of the configuration file, in its order. Shared: a file may have many hundred, and each change asks what is to run.
pub(crate) type ServerFile = Vec<Arc<ServerConfig>>;

/// The servers of a configuration that was read. Those that say the same as `before` are the same, so that nobody after this has to compare
/// what they say.
pub(crate) fn server_file(config: &Config, before: &ServerFile) -> ServerFile {
    let before: HashMap<&str, &Arc<ServerConfig>> =
        before.iter().map(|server| (server.name.as_str(), server)).collect();
    let shared = |server: &ServerConfig| match before.get(server.name.as_str()) {
        Some(same) if ***same == *server => Arc::clone(same),
        _ => Arc::new(server.clone()),
    };
    config.servers.iter().map(shared).collect()
}

/// Where servers come from.
#[derive(Clone, Debug, Default)]
pub(crate) struct ServerSources {
    pub(crate) file: ServerFile,
    pub(crate) kept: BTreeMap<String, AddedServer>,
    pub(crate) switched: BTreeMap<String, bool>,
}

/// A step of what is wanted beside the file: what the store keeps of it is a [`KeepStep`].
#[derive(Clone, Debug)]
pub(crate) enum SourceStep {
    /// A server is to be there.
    Put {
        name: String,
        /// Its keys as they were given.
        server: Value,
        /// What the keys say, read and checked.
        read: Box<ServerConfig>,
    },
    /// A server that was added is to go.
    Remove(String),
    /// Whether a server is on, decided by hand; `None`: its configuration decides.
    Switch(String, Option<bool>),
}

impl SourceStep {
    /// The server that it is about.
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Put { name, .. } | Self::Remove(name) | Self::Switch(name, _) => name,
        }
    }
}

impl From<&SourceStep> for KeepStep {
    fn from(step: &SourceStep) -> Self {
        match step {
            SourceStep::Put { name, server, .. } => Self::Put(name.clone(), server.clone()),
            SourceStep::Remove(name) => Self::Remove(name.clone()),
            SourceStep::Switch(name, switch) => Self::Switch(name.clone(), *switch),
        }
    }
}

/// What the sources come to.
#[derive(Clone, Debug, Default)]
pub(crate) struct ResolvedServers {
    /// What is to run: those of the file in its order, then the others by name.
    pub(crate) wanted: Vec<WantedServer>,
    pub(crate) entries: Vec<RegistryEntry>,
}

impl ServerSources {
    pub(crate) fn new(config: &Config, kept: &KeptServers, base: &Path) -> Self {
        let kept_servers = kept.servers.iter().map(|(name, server)| {
            let read = read_server(name, server, base);
            (name.clone(), AddedServer { server: server.clone(), read })
        });
        Self { file: server_file(config, &Vec::new()), kept: kept_servers.collect(), switched: kept.switched.clone() }
    }

    /// Whether the file has a server of this name.
    pub(crate) fn in_file(&self, name: &str) -> bool {
        self.file.iter().any(|server| server.name == name)
    }

    /// What they are when these steps are taken.
    pub(crate) fn after(&self, steps: &[SourceStep]) -> Self {
        let mut sources = self.clone();
        steps.iter().for_each(|step| sources.take(step));
        sources
    }

    /// What they are with another file.
    pub(crate) fn with_file(&self, file: &ServerFile) -> Self {
        Self { file: file.clone(), kept: self.kept.clone(), switched: self.switched.clone() }
    }

    /// The servers of which the file says something else than this one, also those that are off in both.
    pub(crate) fn differing(&self, file: &ServerFile) -> BTreeSet<String> {
        // By name: files of many hundred servers are compared, each time one of them is edited.
        let before: HashMap<&str, &Arc<ServerConfig>> = named(&self.file).collect();
        let after: HashMap<&str, &Arc<ServerConfig>> = named(file).collect();
        // What is the same was found to be so when the file was read.
        let is_same = |other: Option<&&Arc<ServerConfig>>, server: &Arc<ServerConfig>| {
            other.is_some_and(|other| Arc::ptr_eq(other, server) || **other == *server)
        };
        let gone = named(&self.file).filter(|(name, server)| !is_same(after.get(name), server));
        let new = named(file).filter(|(name, server)| !is_same(before.get(name), server));
        gone.chain(new).map(|(name, _)| name.to_owned()).collect()
    }

    fn take(&mut self, step: &SourceStep) {
        match step {
            SourceStep::Put { name, server, read } => {
                let read = Ok(ServerConfig::clone(read));
                self.kept.insert(name.clone(), AddedServer { server: server.clone(), read });
            }
            SourceStep::Remove(name) => {
                self.kept.remove(name);
            }
            SourceStep::Switch(name, Some(on)) => {
                self.switched.insert(name.clone(), *on);
            }
            SourceStep::Switch(name, None) => {
                self.switched.remove(name);
            }
        }
    }

    /// Takes a step that another replica made. What it refers to (variables, files) is read here, and may be missing.
    pub(crate) fn follow(&mut self, step: &KeptStep, base: &Path) {
        match step {
            KeptStep::Keep { name, definition, .. } => {
                // Written by a replica from what it had read.
                let server: Value = serde_json::from_slice(definition).unwrap_or_default();
                let read = read_server(name, &server, base);
                if let Err(errors) = &read {
                    tracing::error!(server = %name, "another replica added it, and it can not be used here: {errors}");
                }
                self.kept.insert(name.clone(), AddedServer { server, read });
            }
            KeptStep::Forget { name } => self.take(&SourceStep::Remove(name.clone())),
            KeptStep::Switch { name, on } => self.take(&SourceStep::Switch(name.clone(), *on)),
        }
    }

    /// What is to run, and everything that is configured.
    pub(crate) fn resolve(&self) -> ResolvedServers {
        let mut resolved = ResolvedServers::default();
        for server in &self.file {
            let entry = self.entry(&server.name, Origin::File, server.enabled, None);
            resolved.add(entry, Some(server));
        }
        for (name, kept) in &self.kept {
            let (enabled, problem) = match &kept.read {
                // Shown as on, with its problem: leaving it out would look as if it had never been added.
                Err(errors) => (true, Some(errors.to_string())),
                Ok(server) => (server.enabled, self.shadowed(server)),
            };
            let entry = self.entry(name, Origin::Runtime, enabled, problem);
            resolved.add(entry, kept.read.as_ref().ok().cloned().map(Arc::new).as_ref());
        }
        resolved
    }

    fn entry(&self, name: &str, origin: Origin, configured: bool, problem: Option<String>) -> RegistryEntry {
        let switched = self.switched.get(name).copied();
        let enabled = switched.unwrap_or(configured);
        let (name, switched) = (name.to_owned(), switched.is_some());
        RegistryEntry { name, origin, enabled, switched, made_of: None, release: None, added_by: None, problem }
    }

    /// Why the file keeps a server from running that was added at run time.
    fn shadowed(&self, server: &ServerConfig) -> Option<String> {
        if self.in_file(&server.name) {
            return Some("the configuration file has a server of this name, which is used instead".to_owned());
        }
        let (other, _) = self.clash(server)?;
        Some(format!(
            "its names would have the same prefix as those of server \"{}\" of the configuration file; add it again with \
             another `prefix`",
            other.name
        ))
    }

    /// The server of the file whose public names could not be told from this one's, and which names they are.
    pub(crate) fn clash(&self, server: &ServerConfig) -> Option<(&ServerConfig, Prefix)> {
        // A server that is switched off has no names that another could clash with.
        let on = |other: &&ServerConfig| self.switched.get(&other.name).copied().unwrap_or(other.enabled);
        // Only those of the file: of two that were added, the engine refuses the second when it finds the clash.
        self.file.iter().map(Arc::as_ref).filter(on).find_map(|other| Some((other, shared_prefix(server, other)?)))
    }
}

impl ResolvedServers {
    fn add(&mut self, entry: RegistryEntry, server: Option<&Arc<ServerConfig>>) {
        let made_of = server.and_then(|server| server.entry.clone());
        let added_by = server.and_then(|server| server.added_by.clone());
        let release = server.and_then(|server| server.release.clone());
        let entry = RegistryEntry { made_of, release, added_by, ..entry };
        if let Some(server) = server.filter(|_| entry.enabled && entry.problem.is_none()) {
            // Whether it is on is decided; it is no part of what runs.
            let config = match server.enabled {
                true => Arc::clone(server),
                false => Arc::new(ServerConfig { enabled: true, ..ServerConfig::clone(server) }),
            };
            self.wanted.push(WantedServer { config, origin: entry.origin });
        }
        self.entries.push(entry);
    }
}

fn named(servers: &ServerFile) -> impl Iterator<Item = (&str, &Arc<ServerConfig>)> {
    servers.iter().map(|server| (server.name.as_str(), server))
}

/// Reads the keys of `[servers.X]`.
pub(crate) fn read_server(name: &str, server: &Value, base: &Path) -> Result<ServerConfig, ConfigErrors> {
    let env = |name: &str| std::env::var(name).ok();
    let surroundings = ConfigSurroundings { env: &env, read: &tidings_config::read_referred };
    tidings_config::server_from_json(name, server, base, &surroundings)
}

fn shared_prefix(one: &ServerConfig, other: &ServerConfig) -> Option<Prefix> {
    let both_prefixed = one.uris == UriMode::Prefix && other.uris == UriMode::Prefix;
    match (one.name_prefix() == other.name_prefix(), both_prefixed && one.uri_prefix() == other.uri_prefix()) {
        (true, _) => Some(Prefix::Name),
        (false, true) => Some(Prefix::Uri),
        (false, false) => None,
    }
}
