//! Script projects: a folder of scripts is a live MCP server.
//!
//! - [`Home`] is where a project lives and how it is to be treated; [`Contents`] is one good state of what it offers.
//! - [`Survey`] looks at the folder once: scripts are read as data, nothing is started. The registry looks again when
//!   something changes, and keeps the last good state.
//! - [`ProjectServer`] is the server in the process that clients reach through the gateway.
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test fails by panicking"))]

mod document;
mod entry;
mod events;
mod folder;
mod home;
mod identity;
mod make;
mod metadata;
mod policy;
mod problem;
mod register;
mod registry;
pub mod run;
mod scaffold;
mod sdk;
mod server;
mod settings;
mod shell;
mod survey;
mod ui;
mod validate;

pub use entry::{Completion, Contents, Digests, Prompt, PromptBody, Resource, Template, Timeouts, Tool};
pub use home::{Folders, Home, HomeFault};
pub use identity::Identity;
pub use problem::{Fault, Problem, Severity};
pub use scaffold::{Kind, ScaffoldFault, scaffold};
pub use sdk::Sdk;
pub use server::ProjectServer;
pub use settings::{Environment, EnvironmentMode, Settings, ToolPolicy};
pub use survey::Survey;
pub use validate::validate;
