//! Servers that live in the process, behind the same link as any other: the router does not know the difference.
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test fails by panicking"))]

mod hidden;
mod local;
mod registry_tools;
mod search_tools;
pub mod watch;

pub use registry_tools::RegistryTools;
pub use search_tools::SearchTools;
