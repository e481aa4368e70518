//! What a registry says of one release: `server.json` (schema 2025-12-11) and the registry's own words beside it.
//!
//! Reading only: what becomes of it is in `published/keys.rs`, how it is found in `published/about.rs`.

mod about;
mod arguments;
mod inputs;
mod keys;
mod ways;

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Deserialize;

pub(crate) use about::entry;
pub(crate) use inputs::{InputSet, JoinedText, literal};
pub(crate) use keys::{ResolvedWay, release_keys};
pub(crate) use ways::{ReleaseWay, choose};

/// Where a registry puts what it says itself.
const OFFICIAL: &str = "io.modelcontextprotocol.registry/official";
/// Longer names and versions are nobody's.
const LONGEST_NAME: usize = 200;

/// One item of a registry's list.
#[derive(Clone, Debug)]
pub(crate) struct RegistryItem {
    pub(crate) server: PublishedServer,
    pub(crate) state: ReleaseState,
}

/// What the registry says of a release.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReleaseState {
    pub(crate) status: ReleaseStatus,
    pub(crate) message: Option<String>,
    pub(crate) updated: Option<Timestamp>,
    pub(crate) is_latest: bool,
}

/// Whether a release should be used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReleaseStatus {
    /// It may be used.
    #[default]
    Active,
    /// Its publisher advises against it.
    Deprecated,
    /// It was withdrawn, and is not offered.
    Deleted,
}

impl ReleaseStatus {
    /// The registry's word.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Deprecated => "deprecated",
            Self::Deleted => "deleted",
        }
    }
}

/// `server.json`.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PublishedServer {
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) description: String,
    pub(crate) title: Option<String>,
    pub(crate) version: String,
    #[serde(default)]
    pub(crate) repository: Option<PublishedRepository>,
    pub(crate) website_url: Option<String>,
    #[serde(default)]
    pub(crate) packages: Vec<PublishedPackage>,
    #[serde(default)]
    pub(crate) remotes: Vec<PublishedTransport>,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct PublishedRepository {
    pub(crate) url: Option<String>,
}

/// One package that runs the server.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PublishedPackage {
    pub(crate) registry_type: String,
    pub(crate) registry_base_url: Option<String>,
    pub(crate) identifier: String,
    pub(crate) version: Option<String>,
    pub(crate) file_sha256: Option<String>,
    pub(crate) transport: PublishedTransport,
    #[serde(default)]
    pub(crate) runtime_arguments: Vec<PublishedArgument>,
    #[serde(default)]
    pub(crate) package_arguments: Vec<PublishedArgument>,
    #[serde(default)]
    pub(crate) environment_variables: Vec<PublishedPair>,
}

/// How a package speaks, or where a server is that runs elsewhere.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct PublishedTransport {
    #[serde(rename = "type")]
    pub(crate) kind: String,
    pub(crate) url: Option<String>,
    #[serde(default)]
    pub(crate) headers: Vec<PublishedPair>,
    #[serde(default)]
    pub(crate) variables: BTreeMap<String, PublishedInput>,
}

/// An environment variable or a header.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct PublishedPair {
    pub(crate) name: String,
    #[serde(flatten)]
    pub(crate) input: PublishedInput,
}

/// An argument of a package, or of what runs it.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PublishedArgument {
    #[serde(rename = "type")]
    pub(crate) kind: String,
    pub(crate) name: Option<String>,
    pub(crate) value_hint: Option<String>,
    #[serde(default)]
    pub(crate) is_repeated: bool,
    #[serde(flatten)]
    pub(crate) input: PublishedInput,
}

/// Something that has a value, or that somebody is asked for.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PublishedInput {
    #[serde(default)]
    pub(crate) description: String,
    #[serde(default)]
    pub(crate) is_required: bool,
    #[serde(default)]
    pub(crate) is_secret: bool,
    pub(crate) format: Option<String>,
    pub(crate) value: Option<String>,
    pub(crate) default: Option<String>,
    #[serde(default)]
    pub(crate) choices: Vec<String>,
    #[serde(default)]
    pub(crate) variables: BTreeMap<String, PublishedInput>,
}

#[derive(Deserialize)]
struct ItemForm {
    server: PublishedServer,
    #[serde(default, rename = "_meta")]
    meta: BTreeMap<String, serde_json::Value>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct OfficialForm {
    #[serde(default)]
    status: String,
    status_message: Option<String>,
    updated_at: Option<Timestamp>,
    is_latest: Option<bool>,
}

impl RegistryItem {
    /// Reads one item; `None` when it is none that can be offered.
    pub(crate) fn read(text: &str) -> Option<Self> {
        let ItemForm { server, meta } = serde_json::from_str(text).ok()?;
        let official = meta.get(OFFICIAL).cloned().map(serde_json::from_value::<OfficialForm>);
        // A registry of somebody's own may say nothing of its releases: each is the only one then.
        // What stands there and can not be read is no reason to take the release for a good one.
        let official = official.transpose().ok()?.unwrap_or_default();
        let status = match official.status.as_str() {
            "" | "active" => ReleaseStatus::Active,
            "deleted" => ReleaseStatus::Deleted,
            // A word of a later version of the API is a reason for care, not for silence.
            _ => ReleaseStatus::Deprecated,
        };
        let state = ReleaseState {
            status,
            message: official.status_message.filter(|message| !message.is_empty()),
            updated: official.updated_at,
            is_latest: official.is_latest.unwrap_or(true),
        };
        (is_name(&server.name) && is_version(&server.version)).then_some(Self { server, state })
    }
}

/// `namespace/name`, in the letters that the schema allows: it is the id of the entry, and part of addresses.
fn is_name(name: &str) -> bool {
    let allowed = |text: &str, more: &str| {
        !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || more.contains(c))
    };
    let parts = name.split_once('/');
    name.len() <= LONGEST_NAME && parts.is_some_and(|(space, own)| allowed(space, ".-") && allowed(own, "._-"))
}

fn is_version(version: &str) -> bool {
    !version.is_empty()
        && version.len() <= LONGEST_NAME
        && !version.chars().any(|c| c.is_control() || c.is_whitespace())
}

#[cfg(test)]
mod tests;
