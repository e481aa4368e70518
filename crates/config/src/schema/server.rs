//! The shape of `[servers.X]`.

use std::collections::BTreeMap;

use schemars::JsonSchema;

use super::{InheritEnv, login, registry};
use crate::span::SpanSchema;

/// A server: exactly one of command, url, container and project.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields, extend("oneOf" = [
    {"required": ["command"]}, {"required": ["url"]}, {"required": ["container"]}, {"required": ["project"]},
]))]
#[schemars(rename = "Server")]
pub(super) struct ServerSchema {
    /// A program that speaks the protocol on its standard input and output. With a "/" in it, it counts from the file.
    command: Option<String>,
    /// Arguments of the command or container.
    args: Option<Vec<String>>,
    /// Environment variables of the command, container or project.
    env: Option<BTreeMap<String, String>>,
    /// The folder to start the command in.
    cwd: Option<String>,
    /// A URL that speaks Streamable HTTP or, where it turns out that it does not, HTTP+SSE.
    url: Option<String>,
    /// What the URL speaks: "http" is Streamable HTTP; "sse" is HTTP+SSE, the transport of revision 2024-11-05, without trying the
    /// other first.
    r#type: Option<UrlTypeSchema>,
    /// Whether the name in the URL may lead into a private network, and its address to that of a cloud's keys. By default yes where
    /// the file has the server, and no where it was added at run time. Through a proxy nothing is checked.
    private: Option<bool>,
    /// HTTP headers to send to the URL.
    headers: Option<BTreeMap<String, String>>,
    /// A container image whose command speaks the protocol on its standard input and output.
    container: Option<String>,
    /// What runs the container; found by itself when absent.
    runtime: Option<RuntimeSchema>,
    /// What the container reaches: nothing, what the runtime gives to containers, or a network by its name.
    #[schemars(extend("default" = false))]
    network: Option<NetworkSchema>,
    /// How much memory the container may use, such as "512m" or "2g", or "unlimited".
    #[schemars(extend("default" = "1g"))]
    memory: Option<String>,
    /// How many processors the container may use, such as 2 or "0.5", or "unlimited".
    #[schemars(extend("default" = 1))]
    cpus: Option<CpusSchema>,
    /// How many processes the container may have, or "unlimited".
    #[schemars(extend("default" = 256))]
    pids: Option<PidsSchema>,
    /// Whether the container can write nowhere but in /tmp and its volumes.
    #[schemars(extend("default" = true))]
    read_only: Option<bool>,
    /// What the container sees of this machine: SOURCE:TARGET or SOURCE:TARGET:OPTIONS, such as "./data:/data:ro".
    volumes: Option<Vec<String>>,
    /// Who runs the container's command, as USER or USER:GROUP; by default as the image says.
    user: Option<String>,
    /// Arguments of podman or docker before `run`.
    runtime_args: Option<Vec<String>>,
    /// Arguments of `run`, after those of Tidings.
    run_args: Option<Vec<String>>,
    /// A folder of scripts with tools/, resources/, prompts/ and server.d/.
    project: Option<String>,
    /// Whether the project's own hooks may run: register.sh, and policy.sh, which can only deny. By default they may not.
    allow_hooks: Option<bool>,
    /// What a command may do to this machine (Linux): "files" lets it write only in a folder of its own and in `writable`; "strict"
    /// also hides the home folder and forbids system calls that no server needs.
    #[schemars(extend("default" = "off"))]
    sandbox: Option<SandboxSchema>,
    /// Folders and files that a command in a sandbox may write.
    writable: Option<Vec<String>>,
    /// Folders and files of the home folder that a command with sandbox = "strict" may read.
    readable: Option<Vec<String>>,
    /// Whether it is used.
    #[schemars(extend("default" = true))]
    enabled: Option<bool>,
    /// What to use in place of the server's name in public names and URIs.
    prefix: Option<String>,
    /// The catalogue entry that it was made of; mcp_registry_add writes it.
    entry: Option<String>,
    /// What added it at run time, where that was no person: "tool". Tidings writes it.
    added_by: Option<String>,
    /// The release of the entry that it runs, for entries of a registry; Tidings writes it, and `tidings upgrade` needs it.
    release: Option<registry::ReleaseSchema>,
    /// Who shares a connection: everybody ("auto"), nobody, so that each session has its own ("session"), or the clients of one
    /// person ("principal").
    #[schemars(extend("default" = "auto"))]
    isolation: Option<IsolationSchema>,
    /// Whether resource URIs get a prefix or stay as they are.
    #[schemars(extend("default" = "prefix"))]
    uris: Option<UrisSchema>,
    /// Which era of the protocol the server is spoken to in.
    #[schemars(extend("default" = "auto"))]
    era: Option<EraSchema>,
    /// How long a call may go without progress; by default as in [gateway].
    timeout: Option<SpanSchema>,
    /// How long a call may take with progress; by default as in [gateway].
    max_timeout: Option<SpanSchema>,
    /// How often it is asked when it has no listChanged; by default as in [notifications]; 0 is never.
    poll_interval: Option<SpanSchema>,
    /// Which of its tools are let through.
    tools: Option<ToolsSchema>,
    /// Whether rules of `[policy]` believe what its tools say they do (`readOnlyHint` and its like): "trust", or "ignore", and then they count
    /// as tools that say nothing.
    #[schemars(extend("default" = "ignore"))]
    annotations: Option<AnnotationsSchema>,
    /// Which of its tools and prompts wait until somebody approves them: none ("auto"), those that are new or different after the
    /// first sight of the server ("changed"), or all ("manual").
    #[schemars(extend("default" = "auto"))]
    approve: Option<ApproveSchema>,
    /// What clients see of a tool or prompt whose definition changed and waits for approval: nothing ("hide"), or the approved
    /// definition ("old"), which then still can be called.
    #[schemars(extend("default" = "hide"))]
    held: Option<HeldSchema>,
    /// In a cluster: labels of which a replica must have all to run it.
    #[schemars(extend("default" = []))]
    placement: Option<Vec<String>>,
    /// In a cluster: what becomes of it while its replica is cut off from the others. "keep" goes on for the clients of that replica, while another
    /// replica may start it too; "stop" kills it, so that there are never two.
    #[schemars(extend("default" = "keep"))]
    on_isolation: Option<OnIsolationSchema>,
    /// Which variables of the gateway the command sees, besides what every program needs and `env`: names, of which one that
    /// ends in `*` stands for all that begin so, or "all". By default what `[gateway]` says.
    inherit_env: Option<InheritEnv>,
    /// How the gateway logs in to the server at the URL: when it asks for a login ("auto"), never ("none"), or as a table says.
    #[schemars(extend("default" = "auto"))]
    auth: Option<login::LoginSchema>,
}

#[derive(JsonSchema)]
#[schemars(rename_all = "lowercase")]
#[schemars(rename = "OnIsolation")]
#[allow(dead_code, reason = "only its schema is used")]
enum OnIsolationSchema {
    Keep,
    Stop,
}

#[derive(JsonSchema)]
#[schemars(rename_all = "lowercase")]
#[schemars(rename = "Sandbox")]
#[allow(dead_code, reason = "only its schema is used")]
enum SandboxSchema {
    Off,
    Files,
    Strict,
}

#[derive(JsonSchema)]
#[schemars(rename_all = "lowercase")]
#[schemars(rename = "Annotations")]
enum AnnotationsSchema {
    Ignore,
    Trust,
}

#[derive(JsonSchema)]
#[schemars(rename_all = "lowercase")]
#[schemars(rename = "Runtime")]
enum RuntimeSchema {
    Podman,
    Docker,
}

#[derive(JsonSchema)]
#[schemars(untagged)]
#[schemars(rename = "Network")]
enum NetworkSchema {
    Switch(bool),
    Name(String),
}

#[derive(JsonSchema)]
#[schemars(untagged)]
#[schemars(rename = "Cpus")]
enum CpusSchema {
    Whole(#[schemars(range(min = 1, max = 4096))] i64),
    Text(String),
}

#[derive(JsonSchema)]
#[schemars(untagged)]
#[schemars(rename = "Pids")]
enum PidsSchema {
    Count(#[schemars(range(min = 1, max = 1_000_000))] i64),
    Unlimited(UnlimitedSchema),
}

#[derive(JsonSchema)]
#[schemars(rename_all = "lowercase")]
#[schemars(rename = "Unlimited")]
enum UnlimitedSchema {
    Unlimited,
}

#[derive(JsonSchema)]
#[schemars(rename_all = "lowercase")]
#[schemars(rename = "Isolation")]
enum IsolationSchema {
    Auto,
    Session,
    Principal,
}

#[derive(JsonSchema)]
#[schemars(rename_all = "lowercase")]
#[schemars(rename = "Uris")]
enum UrisSchema {
    Prefix,
    Transparent,
}

#[derive(JsonSchema)]
#[schemars(rename_all = "kebab-case")]
#[schemars(rename = "UrlType")]
enum UrlTypeSchema {
    Http,
    StreamableHttp,
    Sse,
}

#[derive(JsonSchema)]
#[schemars(rename_all = "lowercase")]
#[schemars(rename = "Era")]
enum EraSchema {
    Auto,
    Modern,
    Legacy,
}

#[derive(JsonSchema)]
#[schemars(rename_all = "lowercase")]
#[schemars(rename = "Approve")]
enum ApproveSchema {
    Auto,
    Changed,
    Manual,
}

#[derive(JsonSchema)]
#[schemars(rename_all = "lowercase")]
#[schemars(rename = "Held")]
enum HeldSchema {
    Hide,
    Old,
}

/// Patterns in which * stands for any characters.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[schemars(rename = "Tools")]
struct ToolsSchema {
    /// Only matching tools are let through.
    #[schemars(length(min = 1))]
    allow: Option<Vec<String>>,
    /// Matching tools are held back, whatever `allow` says.
    deny: Option<Vec<String>>,
}
