//! Reads and validates the configuration of Tidings.
//!
//! Text goes in, a complete and trusted plan comes out, or every fault that was found, each with its file, line, key and
//! remedy. Nothing here starts, watches or connects to anything: the environment and the files that `${file:…}` names are
//! reached only through [`Surroundings`].
//!
//! Architecture invariant: both formats become one tree with positions (`tree`), and only `decode` turns that tree into
//! the plan (`plan`). All wording for people is in `error`.
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test fails by panicking"))]

mod decode;
mod edit;
mod error;
mod expand;
mod find;
mod plan;
mod read;
mod schema;
mod span;
mod tree;

use std::path::Path;

pub use edit::{Edit, EditError, edit};
pub use error::{Caution, ConfigError, Errors, Fault, Notice, Part, Place, Position, PrefixKind, Warning};
pub use expand::Surroundings;
pub use find::{Found, Origin, discover, user_file};
pub use plan::auth::{AuthSettings, ClusterSettings, JwtSettings, Token};
pub use plan::container::{ContainerConfig, ContainerNetwork, ContainerRuntime, Volume, VolumeSource};
pub use plan::entry::{Arguments, CatalogueEntry, Run, Variable};
pub use plan::filter::{ToolFilter, glob_matches};
pub use plan::gateway::{
    Expose, GatewaySettings, InitialTriplet, Listen, ListenError, Naming, NotificationSettings, REVISIONS,
    RegistryTools, View,
};
pub use plan::server::{Approval, EraChoice, Isolation, ServerConfig, Transport, UriMode};
pub use plan::watch::{WatchConfig, WatchSource};
pub use plan::{Config, name_prefix, uri_prefix};
pub use schema::schema;
pub use span::{DurationError, parse_duration};

/// Reads and validates the file at `path`; `env` looks up environment variables.
pub fn load(path: &Path, env: &dyn Fn(&str) -> Option<String>) -> Result<Config, Errors> {
    let surroundings = Surroundings { env, read: &|path| std::fs::read_to_string(path) };
    let text = (surroundings.read)(path).map_err(|error| Errors::unreadable(path, error.kind()))?;
    parse(&text, path, &surroundings)
}

/// As [`load`], for running what can be run: a server that refers to a variable or a file that is not there is given with
/// its [`ServerConfig::problem`], and keeps nobody else from starting.
pub fn load_to_run(path: &Path, env: &dyn Fn(&str) -> Option<String>) -> Result<Config, Errors> {
    let surroundings = Surroundings { env, read: &|path| std::fs::read_to_string(path) };
    let text = (surroundings.read)(path).map_err(|error| Errors::unreadable(path, error.kind()))?;
    decode::file(&text, path, &surroundings, true)
}

/// Validates `text` as the content of the file `path`, which decides the format and what relative paths count from.
pub fn parse(text: &str, path: &Path, surroundings: &Surroundings<'_>) -> Result<Config, Errors> {
    decode::file(text, path, surroundings, false)
}

/// Validates one server given as JSON with the keys of `[servers.X]`; relative paths count from `base`.
pub fn server_from_json(
    name: &str,
    body: &serde_json::Value,
    base: &Path,
    surroundings: &Surroundings<'_>,
) -> Result<ServerConfig, Errors> {
    decode::single_server(name, body, base, surroundings)
}

/// Validates `text` as a catalogue file: the servers that could be added.
pub fn parse_catalogue(text: &str, path: &Path) -> Result<Vec<CatalogueEntry>, Errors> {
    decode::catalogue(text, path)
}

/// A commented `tidings.toml` to begin from.
pub fn starter() -> &'static str {
    include_str!("starter.toml")
}
