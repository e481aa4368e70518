//! What the registry is given by whoever wires the program together.

use std::path::PathBuf;
use std::sync::Arc;

use tidings_config::{Config, ServerConfig};
use tidings_engine::{Origin, ServerPlan};
use tidings_store::ServerTable;

/// Turns configuration into what the engine runs.
pub trait ServerPlanner: Send + Sync + 'static {
    /// What to run for a server, or why this build can not.
    fn plan(&self, server: &ServerConfig, origin: Origin) -> Result<ServerPlan, String>;

    /// What to run for the watches of a configuration, or what is wrong with one of them. A plan may come to nothing; then this is asked
    /// again.
    fn watches(&self, config: &Config) -> Result<WatchServerPlan, String>;
}

/// The built-in server of all watches.
pub struct WatchServerPlan {
    /// What to run; `None` when the server of the watches runs already, and changes by itself.
    pub plan: Option<ServerPlan>,
    /// Called once everything else is applied, and only then.
    pub committed: Box<dyn FnOnce() + Send>,
}

/// Reads the configuration file again: a plan, or everything that is wrong with it, with places. Blocks.
pub type ConfigLoader = Arc<dyn Fn() -> Result<Config, String> + Send + Sync>;

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
