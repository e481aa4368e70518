//! Settings of the gateway as a whole, and of the notifications it sends.

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use super::server::InheritEnv;

/// The protocol revisions, oldest first.
pub const REVISIONS: [&str; 5] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"];

/// `[gateway]`: the endpoint, names and limits of the whole gateway.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GatewaySettings {
    /// Where `serve` listens.
    pub listen: ListenAddress,
    /// And where else.
    pub also_listen: Vec<ListenTarget>,
    /// Whether clients on this machine need a token, too.
    pub asks_everybody: bool,
    /// When names and URIs get a prefix.
    pub names: NamingSetting,
    /// Which tools are listed.
    pub expose: ExposeSetting,
    /// Whether `mcp_registry_*` tools are offered.
    pub registry_tools: RegistryToolsSetting,
    /// A file of servers that could be added, beside those that are built in.
    pub catalogue: Option<PathBuf>,
    /// How long the first lists wait for servers to settle.
    pub start_wait: Duration,
    /// How long a server that is added at run time may take to start.
    pub start_timeout: Duration,
    /// How long a call may go without progress.
    pub timeout: Duration,
    /// How long a call may take with progress; never less than `timeout`.
    pub max_timeout: Duration,
    /// How long a client that was asked something in the middle of a call may take to come back with its answers.
    pub input_wait: Duration,
    /// How many items a page of a list holds; at least one.
    pub page_size: usize,
    /// What older clients get.
    pub view: ViewSetting,
    /// Whether the result of a call says once that the list of tools which its client has read is old.
    pub hint: bool,
    /// How many connections servers with `isolation = "session"` may have for single clients; at least one.
    pub session_links: usize,
    /// And how many one client may have.
    pub session_links_per_client: usize,
    /// How long such a connection may be unused.
    pub session_link_idle: Duration,
    /// What commands see of the gateway's own environment.
    pub inherit_env: InheritEnv,
    /// Where browsers and others reach the gateway, where that is not where it listens.
    pub public_url: Option<String>,
    /// What its addresses speak TLS with. Nothing: plain HTTP.
    pub tls: Option<Box<TlsSettings>>,
}

/// `tls` of `[gateway]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsSettings {
    /// The certificate, and those between it and one that clients trust.
    pub cert: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// Who signs the certificates of clients; without it none is asked for.
    pub client_ca: Option<PathBuf>,
    /// Whether nobody comes in without one.
    pub client_cert_required: bool,
}

impl Default for GatewaySettings {
    fn default() -> Self {
        Self {
            listen: ListenAddress { host: "127.0.0.1".to_owned(), port: 7337 },
            also_listen: Vec::new(),
            asks_everybody: false,
            names: NamingSetting::Auto,
            expose: ExposeSetting::All,
            registry_tools: RegistryToolsSetting::Auto,
            catalogue: None,
            start_wait: Duration::from_secs(5),
            start_timeout: Duration::from_secs(60),
            timeout: Duration::from_secs(5 * 60),
            max_timeout: Duration::from_secs(60 * 60),
            input_wait: Duration::from_secs(10 * 60),
            page_size: 1000,
            view: ViewSetting::Strict,
            hint: false,
            session_links: 256,
            session_links_per_client: 16,
            session_link_idle: Duration::from_secs(10 * 60),
            inherit_env: InheritEnv::default(),
            public_url: None,
            tls: None,
        }
    }
}

/// Somewhere to listen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListenTarget {
    /// A host and a port.
    Address(ListenAddress),
    /// A socket in the file system, for the user of the gateway.
    Socket(PathBuf),
}

/// A host and a port to listen on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListenAddress {
    /// A name or an address; IPv6 addresses without brackets.
    pub host: String,
    /// The port; 0 takes a free one.
    pub port: u16,
}

impl ListenAddress {
    /// Whether only this machine can reach it.
    pub fn is_loopback(&self) -> bool {
        match self.host.parse::<IpAddr>() {
            Ok(address) => address.is_loopback(),
            // Any other name could lead anywhere, and is not resolved to find out.
            Err(_) => self.host.eq_ignore_ascii_case("localhost"),
        }
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

/// A text that is not a host and a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected a host and a port such as \"127.0.0.1:7337\"")]
pub struct ListenError;

impl FromStr for ListenAddress {
    type Err = ListenError;

    fn from_str(text: &str) -> Result<Self, ListenError> {
        // From the right, because an IPv6 address has colons of its own.
        let (host, port) = text.rsplit_once(':').ok_or(ListenError)?;
        let port = port.parse().map_err(|_| ListenError)?;
        let host = match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
            Some(address) => address.parse::<std::net::Ipv6Addr>().map_err(|_| ListenError)?.to_string(),
            None => host.to_owned(),
        };
        let is_name = host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
        let is_host = !host.is_empty() && (is_name || host.parse::<IpAddr>().is_ok());
        if is_host { Ok(Self { host, port }) } else { Err(ListenError) }
    }
}

/// When names and URIs get a prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum NamingSetting {
    /// When there are several servers.
    #[default]
    Auto,
    /// Every name and URI has its server's prefix.
    Prefix,
    /// Only when two servers offer the same name.
    None,
}

/// Which tools are listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ExposeSetting {
    /// Clients list every tool of every server.
    #[default]
    All,
    /// `retrieve_tools` and `call_tool` only.
    Search,
    /// Every tool, `retrieve_tools` and `call_tool`.
    Both,
}

/// Whether `mcp_registry_*` tools are offered. They start commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RegistryToolsSetting {
    /// In `stdio`, not in `serve`.
    #[default]
    Auto,
    /// Every client is offered them.
    On,
    /// Every client is offered them, and nothing is started without a yes of somebody who can be asked.
    Ask,
    /// No client is offered them.
    Off,
}

/// What older clients get.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ViewSetting {
    /// Only fields of their revision.
    #[default]
    Strict,
    /// They get every member, also those that their revision does not define.
    Pass,
}

/// `[notifications]`: how changes are gathered before clients are told, and who is told at the start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotificationSettings {
    /// Whether a fresh legacy session gets the `list_changed` triplet.
    pub initial: InitialTriplet,
    /// Revisions that get no `list_changed`.
    pub suppress: Vec<String>,
    /// How long lists have to be quiet before a change is announced.
    pub list_quiet: Duration,
    /// How long the announcement may be put off; never less than `list_quiet`.
    pub list_max_wait: Duration,
    /// How long a resource has to be quiet before an update is announced.
    pub resource_quiet: Duration,
    /// How long the announcement may be put off; never less than `resource_quiet`.
    pub resource_max_wait: Duration,
    /// How often servers without `listChanged` are asked; zero is never.
    pub poll_interval: Duration,
}

impl Default for NotificationSettings {
    fn default() -> Self {
        Self {
            initial: InitialTriplet::Once,
            // Requirement S0.4: clients of this revision get no `list_changed`, though the revision defines it.
            suppress: vec!["2025-03-26".to_owned()],
            list_quiet: Duration::from_millis(250),
            list_max_wait: Duration::from_secs(1),
            resource_quiet: Duration::from_millis(500),
            resource_max_wait: Duration::from_secs(2),
            poll_interval: Duration::from_secs(5 * 60),
        }
    }
}

/// Whether a fresh legacy session gets the `list_changed` triplet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum InitialTriplet {
    /// Each fresh legacy session is told of every list once.
    #[default]
    Once,
    /// A fresh session is told only of what changes after it began.
    Never,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listen_addresses_are_read_and_shown_alike() {
        for (text, loopback) in [
            ("127.0.0.1:7337", true),
            ("localhost:0", true),
            ("[::1]:80", true),
            ("0.0.0.0:1", false),
            ("[::]:1", false),
        ] {
            let listen: ListenAddress = text.parse().unwrap();
            assert_eq!(listen.to_string(), text);
            assert_eq!(listen.is_loopback(), loopback, "{text}");
        }
        for text in
            ["", "7337", ":7337", "localhost", "localhost:x", "localhost:70000", "[::1:80", "a b:1", "http://x:1"]
        {
            assert_eq!(text.parse::<ListenAddress>(), Err(ListenError), "{text}");
        }
    }
}
