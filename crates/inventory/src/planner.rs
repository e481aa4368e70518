//! What the registry is given by whoever wires the program together.

use std::path::PathBuf;
use std::sync::Arc;

use tidings_config::{Config, ConfigErrors, ConfigNotice, ServerConfig};
use tidings_engine::{AccessPolicy, Origin, ServerPlan};
use tidings_store::ServerTable;

/// Turns configuration into what the engine runs.
pub trait ServerPlanner: Send + Sync + 'static {
    /// What to run for a server. One that can not be run has a plan that says why ([`tidings_engine::Source::Unready`]).
    fn plan(&self, server: &ServerConfig, origin: Origin) -> ServerPlan;

    /// What to run for the watches of a configuration, or what is wrong with one of them. A plan may come to nothing; then this is asked
    /// again.
    fn watches(&self, config: &Config) -> Result<WatchServerPlan, WatchFault>;

    /// The rules of a configuration that decide who may have which items, or what is wrong with them.
    fn policy(&self, _config: &Config) -> Result<Option<Arc<AccessPolicy>>, WatchFault> {
        Ok(None)
    }

    /// Who may come in by a configuration, and see what; called when everything else of it is applied. Or what is wrong with it.
    fn access(&self, _config: &Config) -> Result<Box<dyn FnOnce() + Send>, WatchFault> {
        Ok(Box::new(|| {}))
    }
}

/// The built-in server of all watches.
pub struct WatchServerPlan {
    /// What to run; `None` when the server of the watches runs already, and changes by itself.
    pub plan: Option<ServerPlan>,
    /// Called once everything else is applied, and only then.
    pub committed: Box<dyn FnOnce() + Send>,
}

/// Reads the configuration file again: a plan, or everything that is wrong with it, with places. Blocks.
pub type ConfigLoader = Arc<dyn Fn() -> Result<Config, LoadFault> + Send + Sync>;

/// Why the configuration file does not count as it is now.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoadFault {
    /// Nobody said yes to what it says now.
    #[error(
        "{} lies in the folder that the gateway was started in, and nobody has trusted what it says now; to see what \
         changed and let it act: {remedy}",
        .file.display()
    )]
    Untrusted {
        /// The file.
        file: PathBuf,
        /// The command that lets it act.
        remedy: String,
    },
    /// It has faults, each with its place.
    #[error("{0}")]
    Invalid(ConfigErrors),
    /// It asks for what this program, or this machine, does not have.
    #[error("{}", lines(.0))]
    Unsupported(Vec<ConfigNotice>),
}

fn lines(notices: &[ConfigNotice]) -> String {
    notices.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

/// A watch can not be made; says which one and why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct WatchFault(pub String);

/// What a registry begins with.
pub struct RegistrySetup {
    /// The configuration that the gateway starts with.
    pub config: Config,
    /// The file it was read from, if any.
    pub file: Option<PathBuf>,
    /// What stood in that file, as far as it is known: what differs from it is a change that nobody has read yet.
    pub text: Option<Vec<u8>>,
    /// Reads that file again.
    pub load: Option<ConfigLoader>,
    /// What relative paths of servers count from that are added at run time.
    pub base: PathBuf,
    /// Turns configured servers into what the engine runs.
    pub planner: Arc<dyn ServerPlanner>,
    /// Keeps servers that are added at run time.
    pub table: ServerTable,
}
