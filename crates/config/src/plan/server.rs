//! One server behind the gateway, as configured: values that were checked, with defaults filled in. Nothing here reads a file.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use super::filter::ToolFilter;
use super::login::LoginSetting;
use super::registry::ReleasePin;
use super::sandbox::SandboxSettings;
use super::{name_prefix, uri_prefix};
use crate::redact::without_secrets;
use tidings_container_spec::ContainerSpec;

/// `[servers.X]`. Two that are equal need no restart to get from one to the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerConfig {
    /// The name it is configured by; never empty.
    pub name: String,
    /// How it is reached.
    pub transport: TransportConfig,
    /// Whether it is used at all.
    pub enabled: bool,
    /// What to use for `name` in public names and URIs; may be empty.
    pub prefix: Option<String>,
    /// The catalogue entry that it was made of, if it was.
    pub entry: Option<String>,
    /// What added it, where that was no person: "tool".
    pub added_by: Option<String>,
    /// Which release of that entry it is, where the entry is one of a registry.
    pub release: Option<ReleasePin>,
    /// Whether clients share one connection.
    pub isolation: IsolationSetting,
    /// Whether its URIs get a prefix.
    pub uris: UriMode,
    /// Which era of the protocol it is spoken to in.
    pub era: EraSetting,
    /// How long a call may go without progress, when not as in `[gateway]`.
    pub timeout: Option<Duration>,
    /// How long a call may take with progress, when not as in `[gateway]`.
    pub max_timeout: Option<Duration>,
    /// How often it is asked when it has no `listChanged`, when not as in `[notifications]`; zero is never.
    pub poll_interval: Option<Duration>,
    /// Which of its tools are let through.
    pub tools: ToolFilter,
    /// Whether rules believe what its tools say they do.
    pub trusts_annotations: bool,
    /// Which of its tools and prompts wait for approval.
    pub approve: ApprovalSetting,
    /// What is seen of one whose definition changed and waits.
    pub held: HeldSetting,
    /// What a command sees of the gateway's own environment, when not as in `[gateway]`.
    pub inherit_env: Option<InheritEnv>,
    /// How the gateway logs in to it.
    pub auth: LoginSetting,
    /// Whether its URL may lead into a private network; when absent, as where it comes from says.
    pub private: Option<bool>,
    /// What a command may do to this machine.
    pub sandbox: SandboxSettings,
    /// Labels that a replica of a cluster must have to run it.
    pub placement: Vec<String>,
    /// Whether a replica that is cut off from the others ends it.
    pub stops_alone: bool,
    /// Why it can not be run here and now: it refers to a variable or a file that is not there.
    pub problem: Option<String>,
}

impl ServerConfig {
    /// An enabled server with every other setting at its default.
    pub fn new(name: impl Into<String>, transport: TransportConfig) -> Self {
        Self {
            name: name.into(),
            transport,
            enabled: true,
            prefix: None,
            entry: None,
            added_by: None,
            release: None,
            isolation: IsolationSetting::default(),
            uris: UriMode::default(),
            era: EraSetting::default(),
            timeout: None,
            max_timeout: None,
            poll_interval: None,
            tools: ToolFilter::default(),
            trusts_annotations: false,
            approve: ApprovalSetting::default(),
            held: HeldSetting::default(),
            inherit_env: None,
            auth: LoginSetting::default(),
            private: None,
            sandbox: SandboxSettings::default(),
            placement: Vec::new(),
            stops_alone: false,
            problem: None,
        }
    }

    /// What stands before `__` in its public names.
    pub fn name_prefix(&self) -> String {
        name_prefix(self.prefix.as_deref().unwrap_or(&self.name))
    }

    /// What stands before `+` in its public URIs.
    pub fn uri_prefix(&self) -> String {
        uri_prefix(self.prefix.as_deref().unwrap_or(&self.name))
    }
}

/// How a server is reached. Values of variables and headers are left out of its `Debug` output, and so are those parts of a
/// URL that may hold secrets.
#[derive(Clone, PartialEq, Eq)]
pub enum TransportConfig {
    /// A command that speaks the protocol on its standard input and output.
    Stdio {
        /// The program: a name to look up, or an absolute path.
        command: String,
        /// Its arguments, one by one: no shell reads them.
        args: Vec<String>,
        /// Variables to add to its environment.
        env: Vec<(String, String)>,
        /// The folder to start it in.
        cwd: Option<PathBuf>,
    },
    /// A URL that speaks Streamable HTTP; if it turns out that it does not, HTTP+SSE.
    Http {
        /// The URL of the MCP endpoint.
        url: String,
        /// Headers to send with each request.
        headers: Vec<(String, String)>,
    },
    /// A URL that opens the event stream of HTTP+SSE, the transport of revision 2024-11-05.
    Sse {
        /// The URL of the stream.
        url: String,
        /// Headers to send with each request.
        headers: Vec<(String, String)>,
    },
    /// A container whose command speaks the protocol on its standard input and output.
    Container(Box<ContainerSpec>),
    /// A folder of scripts.
    Project {
        /// The project's folder; relative ones count from the configuration file.
        dir: PathBuf,
        /// Variables that are set for it, such as `MCPBASH_TOOL_ALLOWLIST`.
        env: Vec<(String, String)>,
    },
}

impl fmt::Debug for TransportConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stdio { command, args, env, cwd } => f
                .debug_struct("Stdio")
                .field("command", command)
                .field("args", args)
                .field("env", &RedactedNames(env))
                .field("cwd", cwd)
                .finish(),
            Self::Http { url, headers } | Self::Sse { url, headers } => f
                .debug_struct(if matches!(self, Self::Sse { .. }) { "Sse" } else { "Http" })
                .field("url", &without_secrets(url))
                .field("headers", &RedactedNames(headers))
                .finish(),
            Self::Container(container) => container.fmt(f),
            Self::Project { dir, env } => {
                f.debug_struct("Project").field("dir", dir).field("env", &RedactedNames(env)).finish()
            }
        }
    }
}

/// Names without their values.
pub(super) struct RedactedNames<'a>(pub(super) &'a [(String, String)]);

impl fmt::Debug for RedactedNames<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.0.iter().map(|(name, _)| (name, format_args!("…")))).finish()
    }
}

/// Which variables of the gateway commands see, besides what every program needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InheritEnv {
    /// Every variable of the gateway's own environment.
    All,
    /// These names; one that ends in `*` stands for all that begin so.
    Names(Vec<String>),
}

impl Default for InheritEnv {
    fn default() -> Self {
        Self::Names(Vec::new())
    }
}

/// Whether clients share one connection to a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum IsolationSetting {
    /// They share it where the protocol allows.
    #[default]
    Auto,
    /// Each session has its own.
    Session,
    /// Each person has one, for all their clients.
    Principal,
}

/// Whether the URIs of a server get a prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum UriMode {
    /// They do, wherever names do.
    #[default]
    Prefix,
    /// They stay as they are.
    Transparent,
}

/// Which era of the protocol a server is spoken to in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum EraSetting {
    /// Whichever it turns out to speak.
    #[default]
    Auto,
    /// Requests that carry everything themselves (2026-07-28).
    Modern,
    /// A session that `initialize` opens (2025-11-25 and before).
    Legacy,
}

/// Which tools and prompts of a server wait for somebody to approve them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ApprovalSetting {
    /// None: they are used as they come.
    #[default]
    Auto,
    /// Those that are new or different after the first sight of the server.
    Changed,
    /// All.
    Manual,
}

/// What is seen of a tool or prompt whose definition changed and waits for approval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HeldSetting {
    /// Nothing.
    #[default]
    Hide,
    /// The definition that was approved.
    Old,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_output_holds_no_secrets() {
        let pair = || vec![("NAME".to_owned(), "hunter2".to_owned())];
        let transports = [
            TransportConfig::Stdio { command: "c".into(), args: vec![], env: pair(), cwd: None },
            TransportConfig::Http { url: "https://me:hunter2@host/mcp?key=hunter2".into(), headers: pair() },
            TransportConfig::Sse { url: "https://host/sse?key=hunter2".into(), headers: pair() },
            TransportConfig::Container(Box::new(ContainerSpec { env: pair(), ..ContainerSpec::new("i") })),
        ];
        for transport in transports {
            let shown = format!("{:?}", ServerConfig::new("s", transport));
            assert!(shown.contains("NAME") && !shown.contains("hunter2"), "{shown}");
        }
    }
}
