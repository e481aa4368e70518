//! The validated plan: complete, trusted, and free of the file it came from.

pub(crate) mod audit;
pub(crate) mod auth;
pub(crate) mod cluster;
pub(crate) mod entry;
pub(crate) mod filter;
pub(crate) mod gateway;
pub(crate) mod limits;
pub(crate) mod login;
pub(crate) mod notify;
pub(crate) mod page;
pub(crate) mod policy;
pub(crate) mod profile;
pub(crate) mod quotas;
pub(crate) mod registry;
pub(crate) mod sandbox;
pub(crate) mod search;
pub(crate) mod server;
pub(crate) mod telemetry;
pub(crate) mod vault;

use std::collections::BTreeMap;

use crate::error::{ConfigNotice, ConfigPlace, ConfigWarning, UnrunnablePart};
use crate::tree::key_path;
use crate::watch::{WatchConfig, WatchSource};
use audit::AuditSettings;
use auth::AuthSettings;
use cluster::ClusterSettings;
use gateway::{GatewaySettings, NotificationSettings};
use limits::LimitSettings;
use notify::NotifySettings;
use page::PageSettings;
use policy::PolicySettings;
use profile::ClientSettings;
use quotas::QuotaSettings;
use registry::RegistrySettings;
use search::SearchSettings;
use server::ServerConfig;
use telemetry::TelemetrySettings;
use vault::VaultKey;

/// A whole configuration. The default is that of an empty file.
#[derive(Debug, Clone, Default)]
pub struct Config {
    /// `[gateway]`: the endpoint, names and limits of the whole gateway.
    pub gateway: GatewaySettings,
    /// `[notifications]`: how changes are gathered before clients are told.
    pub notifications: NotificationSettings,
    /// `[search]`: how tools are searched, and what is remembered of uses.
    pub search: SearchSettings,
    /// `[audit]`: what is recorded of calls and decisions.
    pub audit: AuditSettings,
    /// `[telemetry]`: where traces and measures are sent.
    pub telemetry: TelemetrySettings,
    /// `[page]`: whether the gateway is shown in a browser.
    pub page: PageSettings,
    /// `[quotas]`: what one principal may have at a time. Absent: only tokens are counted, by the defaults.
    pub quotas: Option<QuotaSettings>,
    /// `[vault]`: what seals logins to servers, where it is not in the data directory.
    pub vault: Option<Box<VaultKey>>,
    /// `[servers.X]`, in the order of the file; those that start Tidings itself are left out.
    pub servers: Vec<ServerConfig>,
    /// `[watch.X]`, in the order of the file.
    pub watches: Vec<WatchConfig>,
    /// `[auth]`; without it only loopback is served.
    pub auth: Option<AuthSettings>,
    /// `[policy]`: who may have which items; without it everybody has all of their servers.
    pub policy: Option<PolicySettings>,
    /// `[limits]`: how often one person may use what.
    pub limits: Option<Vec<LimitSettings>>,
    /// `[clients.X]`: what is said about clients, in the order of the file.
    pub clients: Vec<ClientSettings>,
    /// `[[notify]]`: who outside is told of changes.
    pub notify: Vec<NotifySettings>,
    /// `[[registry]]`: where entries of servers that could be added come from, in the order of the file.
    pub registries: Vec<RegistrySettings>,
    /// `[cluster]`; without it this is the only process.
    pub cluster: Option<ClusterSettings>,
    /// What is odd about the file.
    pub warnings: Vec<ConfigWarning>,
    /// Where sections and some keys are written. Apart from the plan, so that a moved line is not a changed server.
    pub(crate) places: BTreeMap<String, ConfigPlace>,
}

impl Config {
    /// The enabled servers, in order.
    pub fn enabled_servers(&self) -> impl Iterator<Item = &ServerConfig> {
        self.servers.iter().filter(|server| server.enabled)
    }

    /// Where a section such as `servers.memory` is written, when it came from a file.
    pub fn place_of(&self, key: &str) -> Option<&ConfigPlace> {
        self.places.get(key)
    }

    /// The parts that make no sense for one client on standard input and output.
    pub fn unsuited_to_stdio(&self) -> Vec<ConfigNotice> {
        let hooks = self.watches.iter().filter(|watch| matches!(watch.source, WatchSource::Webhook(_)));
        let notice = |watch: &WatchConfig| {
            let key = format!("{}.webhook", key_path("watch", &watch.id));
            ConfigNotice {
                place: self.places.get(&key).cloned().unwrap_or_default(),
                key,
                part: UnrunnablePart::WebhookOnStdio,
            }
        };
        let cluster = self.cluster.as_ref().map(|_| ConfigNotice {
            place: self.places.get("cluster").cloned().unwrap_or_default(),
            key: "cluster".to_owned(),
            part: UnrunnablePart::ClusterOnStdio,
        });
        hooks.map(notice).chain(cluster).collect()
    }
}

/// What a server name becomes before `__` in the names of tools and prompts.
pub fn name_prefix(name: &str) -> String {
    let allowed = |c: char| if c.is_ascii_alphanumeric() || c == '_' || c == '-' { c } else { '_' };
    name.chars().map(allowed).collect()
}

/// What a server name becomes before `+` in the scheme of resource URIs.
///
/// `_` becomes `-` too: RFC 3986 has no underscore in schemes, and clients refuse such URIs.
pub fn uri_prefix(name: &str) -> String {
    let allowed = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    name.chars().map(allowed).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_hold_only_characters_that_names_and_schemes_may_hold() {
        let table = [
            ("memory", "memory", "memory"),
            ("My Server", "My_Server", "my-server"),
            ("a.b/c", "a_b_c", "a-b-c"),
            ("a-b_c", "a-b_c", "a-b-c"),
            ("é", "_", "-"),
        ];
        for (name, in_names, in_uris) in table {
            assert_eq!(name_prefix(name), in_names);
            assert_eq!(uri_prefix(name), in_uris);
        }
    }
}
