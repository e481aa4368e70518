//! Script projects: a folder of scripts is a live MCP server.
//!
//! - [`ProjectHome`] is where a project lives and how it is to be treated; [`ProjectContents`] is one good state of what it offers.
//! - [`ProjectSurvey`] looks at the folder once: scripts are read as data, nothing is started. The registry looks again when
//!   something changes, and keeps the last good state.
//! - [`ProjectServer`] is the server in the process that clients reach through the gateway.
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test fails by panicking"))]

mod document;
mod entry;
mod environment;
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

pub use entry::{
    ListDigests, ProjectCompletion, ProjectContents, ProjectPrompt, ProjectResource, ProjectTemplate, ProjectTool,
    PromptBody, ToolTimeouts,
};
pub use home::{HomeFault, ProjectFolders, ProjectHome};
pub use identity::ProjectIdentity;
pub use problem::{ProblemSeverity, ProjectFault, ProjectProblem};
pub use scaffold::{ScaffoldFault, ScaffoldSubject, scaffold};
pub use sdk::ScriptSdk;
pub use server::ProjectServer;
pub use settings::{EnvironmentMode, GivenEnvironment, ProjectSettings, ToolPolicy};
pub use survey::ProjectSurvey;
pub use validate::validate;
