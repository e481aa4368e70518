//! Script projects: a folder of scripts is a live MCP server.
//!
//! - [`Home`] is where a project lives and how it is to be treated; [`Contents`] is one good state of what it offers.
//! - Scripts are read as data: nothing is started to list a project.
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test fails by panicking"))]

mod entry;
mod home;
pub mod sdk;
mod settings;

pub use entry::{Completion, Contents, Digests, Prompt, PromptBody, Resource, Template, Timeouts, Tool};
pub use home::{Folders, Home, HomeFault};
pub use sdk::{JsonTool, Sdk};
pub use settings::{Environment, EnvironmentMode, Settings, ToolPolicy};
