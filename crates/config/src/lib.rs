//! Reads and validates the configuration of Tidings.
//!
//! Text goes in, a complete and trusted plan comes out, or every fault that was found, each with its file, line, key and
//! remedy. Nothing here starts, watches or connects to anything: the environment and the files that `${file:…}` names are
//! reached only through [`ConfigSurroundings`].
//!
//! Architecture invariant: both formats become one tree with positions (`tree`), and only `decode` turns that tree into
//! the plan (`plan`). `[watch.X]` has both, and its schema, in `watch`: a kind of watch is one file there. All wording for
//! people is in `error`.
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test fails by panicking"))]

mod decode;
mod edit;
mod error;
mod expand;
mod find;
mod lock;
mod outline;
mod plan;
mod read;
mod redact;
mod schema;
mod span;
mod tree;
pub mod watch;

use std::path::Path;

pub use edit::{EditError, ServerEdit, edit};
pub use error::{
    ConfigError, ConfigErrors, ConfigFault, ConfigNotice, ConfigPlace, ConfigWarning, PrefixKind, TextPosition,
    UnrunnablePart, WarningKind,
};
pub use expand::ConfigSurroundings;
pub use find::{ConfigOrigin, FoundConfig, candidates, place_of, user_file};
pub use lock::{LockFile, LockFileFault, LockedItem, LockedServer};
pub use outline::outline;
pub use plan::audit::AuditSettings;
pub use plan::auth::{
    AuthSettings, BrowserClient, CertificateSettings, IntrospectionSettings, JwtSettings, PeopleSettings, TokenSettings,
};
pub use plan::cluster::{ClusterSettings, ClusterTls};
pub use plan::entry::{CatalogueEntry, EntryArguments, EntryCommand, EntryVariable};
pub use plan::filter::{ToolFilter, glob_matches};
pub use plan::gateway::{
    ExposeSetting, GatewaySettings, InitialTriplet, ListenAddress, ListenError, ListenTarget, NamingSetting,
    NotificationSettings, REVISIONS, RegistryToolsSetting, TlsSettings, ViewSetting,
};
pub use plan::limits::LimitSettings;
pub use plan::login::{LoginConfig, LoginGrant, LoginResource, LoginSetting};
pub use plan::notify::{NOTIFY_KINDS, NotifyFormat, NotifySettings};
pub use plan::page::PageSettings;
pub use plan::policy::{PolicyHints, PolicyKinds, PolicyRuleSettings, PolicySettings, PolicyVerbs};
pub use plan::profile::{ClientSettings, HEARD_NOTICES, SCHEMA_RULES};
pub use plan::quotas::QuotaSettings;
pub use plan::registry::{RegistrySettings, ReleasePin};
pub use plan::sandbox::{SandboxLevel, SandboxSettings};
pub use plan::search::{EmbeddingsSettings, SearchSettings};
pub use plan::server::{
    ApprovalSetting, EraSetting, HeldSetting, InheritEnv, IsolationSetting, ServerConfig, TransportConfig, UriMode,
};
pub use plan::telemetry::TelemetrySettings;
pub use plan::vault::VaultKey;
pub use plan::{Config, name_prefix, uri_prefix};
pub use schema::schema;
pub use span::{DurationError, parse_duration};
pub use tidings_container_spec::{ContainerNetwork, ContainerRuntime, ContainerSpec, ContainerVolume, VolumeSource};
pub use watch::{WatchConfig, WatchSource};

/// Reads and validates the file at `path`; `env` looks up environment variables.
pub fn load(path: &Path, env: &dyn Fn(&str) -> Option<String>) -> Result<Config, ConfigErrors> {
    let surroundings = ConfigSurroundings { env, read: &read_referred };
    let text = text_of(path, std::fs::read(path))?;
    parse(&text, path, &surroundings)
}

/// As [`parse`], for running what can be run: a server that refers to a variable or a file that is not there is given with
/// its [`ServerConfig::problem`], and keeps nobody else from starting.
pub fn parse_to_run(text: &str, path: &Path, surroundings: &ConfigSurroundings<'_>) -> Result<Config, ConfigErrors> {
    decode::file(text, path, surroundings, true)
}

/// The most that `${file:…}` brings in: keys and certificates are smaller.
const LARGEST_REFERRED: u64 = 64 * 1024;

/// Reads what `${file:PATH}` refers to: a regular file of at most 64 KiB. A pipe or a device could hold the reader, or be
/// endless.
pub fn read_referred(path: &Path) -> std::io::Result<String> {
    use std::io::{Error, ErrorKind, Read as _};
    if !std::fs::metadata(path)?.is_file() {
        return Err(Error::from(ErrorKind::InvalidInput));
    }
    let mut text = String::new();
    // One byte more than allowed tells a file of exactly that size from a larger one.
    std::fs::File::open(path)?.take(LARGEST_REFERRED + 1).read_to_string(&mut text)?;
    if text.len() as u64 > LARGEST_REFERRED {
        return Err(Error::from(ErrorKind::FileTooLarge));
    }
    Ok(text)
}

/// The text of a file from its bytes, which were read before, or the reason why there is none.
pub fn text_of(path: &Path, content: std::io::Result<Vec<u8>>) -> Result<String, ConfigErrors> {
    let content = content.map_err(|error| ConfigErrors::unreadable(path, error.kind()))?;
    String::from_utf8(content).map_err(|_| ConfigErrors::unreadable(path, std::io::ErrorKind::InvalidData))
}

/// Validates `text` as the content of the file `path`, which decides the format and what relative paths count from.
pub fn parse(text: &str, path: &Path, surroundings: &ConfigSurroundings<'_>) -> Result<Config, ConfigErrors> {
    decode::file(text, path, surroundings, false)
}

/// Validates one server given as JSON with the keys of `[servers.X]`; relative paths count from `base`.
pub fn server_from_json(
    name: &str,
    body: &serde_json::Value,
    base: &Path,
    surroundings: &ConfigSurroundings<'_>,
) -> Result<ServerConfig, ConfigErrors> {
    decode::single_server(name, body, base, surroundings)
}

/// Validates `text` as a catalogue file: the servers that could be added.
pub fn parse_catalogue(text: &str, path: &Path) -> Result<Vec<CatalogueEntry>, ConfigErrors> {
    decode::catalogue(text, path)
}

/// The `[policy]` of a file, whatever else stands in it. References are not resolved: rules have none.
pub fn parse_policy(text: &str, path: &Path) -> Result<PolicySettings, ConfigErrors> {
    decode::policy_alone(text, path)
}

/// A commented `tidings.toml` to begin from.
pub fn starter() -> &'static str {
    include_str!("starter.toml")
}
