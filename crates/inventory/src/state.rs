//! What can be seen of the registry from outside.

use std::path::PathBuf;
use std::time::SystemTime;

use tidings_config::ReleasePin;
use tidings_engine::Origin;

use crate::refusal::ReloadFault;

/// Everything at one moment.
#[derive(Clone, Debug, Default)]
pub struct RegistryState {
    /// The configuration file, if there is one.
    pub file: Option<PathBuf>,
    /// Whether servers that are added at run time outlive the process.
    pub kept: bool,
    /// All servers that are configured, also those that do not run: first those of the file, in its order.
    pub servers: Vec<RegistryEntry>,
    /// How the last reading of the file while running went, if there was one.
    pub reload: Option<ReloadReport>,
    /// Sections of the file that changed since the start and need a restart of the gateway to apply.
    pub needs_restart: Vec<&'static str>,
}

/// A configured server: where it comes from, and whether it is to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegistryEntry {
    /// The name of its table, which is its name everywhere.
    pub name: String,
    /// Where it comes from.
    pub origin: Origin,
    /// Whether it is on.
    pub enabled: bool,
    /// Whether that was decided by hand, and not by its configuration.
    pub switched: bool,
    /// The catalogue entry that it was made of, if it was.
    pub made_of: Option<String>,
    /// Which release of that entry it is, where the entry is one of a registry.
    pub release: Option<ReleasePin>,
    /// What added it, where that was no person.
    pub added_by: Option<String>,
    /// Why it does not run though it is on: the file has one of its name, or it can not be read.
    pub problem: Option<String>,
}

/// One reading of the configuration file.
#[derive(Clone, Debug)]
pub struct ReloadReport {
    /// When the file was read.
    pub at: SystemTime,
    /// What it changed, or why it changed nothing: every fault with its place.
    pub outcome: Result<ReloadOutcome, ReloadFault>,
}

/// What a reading of the file changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReloadOutcome {
    /// Names that were not in the file before.
    pub added: Vec<String>,
    /// Names that are in the file no longer.
    pub removed: Vec<String>,
    /// Servers that are configured otherwise now, and were started anew.
    pub changed: Vec<String>,
    /// Whether the watches are others now.
    pub watches: bool,
    /// Sections that changed since the start and need a restart of the gateway to apply.
    pub needs_restart: Vec<&'static str>,
}

impl RegistryState {
    /// What is known of the server of this name; `None` when neither the file nor the store has it.
    pub fn server(&self, name: &str) -> Option<&RegistryEntry> {
        // Two entries have one name where the file shadows a kept server; the one of the file is the one that runs.
        self.servers.iter().filter(|entry| entry.name == name).min_by_key(|entry| entry.origin != Origin::File)
    }
}
