//! Which servers there should be, and where each comes from.
//!
//! - [`ServerRegistry`] is the one way to change the set of servers: from a tool, the HTTP API, the command line or the
//!   configuration file. Whatever asks, the difference becomes one transaction of the engine.
//! - Servers come from the configuration file or were added at run time; the latter are kept in the store and started
//!   again. The file wins over a kept server of the same name.
//!
//! What a server offers, and how it is doing, is no concern of this crate: the engine knows.
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test fails by panicking"))]

mod change;
mod follow;
mod name_locks;
mod planner;
mod refusal;
mod registry;
mod reload;
mod shared;
mod sources;
mod state;

pub use change::RegistryChange;
pub use name_locks::{NameGuard, NameLocks};
pub use planner::{ConfigLoader, LoadFault, RegistrySetup, ServerPlanner, WatchFault, WatchServerPlan};
pub use refusal::{RefusalClass, RegistryRefusal, ReloadFault};
pub use registry::{ChangeReview, ServerRegistry};
pub use state::{RegistryEntry, RegistryState, ReloadOutcome, ReloadReport};
