//! The JSON Schema of `tidings.toml`, for editors and `tidings schema`.
//!
//! These types describe the file and are never filled: decoding reports more than one fault and knows lines, which
//! deriving it would not. Tests hold the two together, key by key and default by default.
#![allow(dead_code, reason = "only their shape is used")]

mod access;
mod cluster;
mod limits;
mod login;
mod notify;
mod policy;
mod profile;
mod registry;
mod telemetry;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde_json::Value;

use crate::span::SpanSchema;
use crate::watch::WatchSchema;
use access::AuthSchema;
use cluster::ClusterSchema;
use limits::LimitsSchema;
use notify::NotifySchema;
use policy::PolicySchema;

/// The JSON Schema of the TOML file.
pub fn schema() -> Value {
    let mut schema = schemars::schema_for!(FileSchema).to_value();
    without_null(&mut schema);
    schema
}

/// Optional keys are left out in TOML, which has no null.
fn without_null(schema: &mut Value) {
    let is_null = |schema: &Value| schema == "null" || schema["type"] == "null";
    match schema {
        Value::Array(items) => items.iter_mut().for_each(without_null),
        Value::Object(object) => {
            for key in ["type", "anyOf"] {
                let Some(Value::Array(choices)) = object.get_mut(key) else { continue };
                choices.retain(|choice| !is_null(choice));
                if choices.len() > 1 {
                    continue;
                }
                match (choices.pop(), key) {
                    (Some(only), "type") => drop(object.insert(key.to_owned(), only)),
                    (Some(Value::Object(only)), _) => {
                        object.remove(key);
                        object.extend(only);
                    }
                    _ => {}
                }
            }
            object.values_mut().for_each(without_null);
        }
        _ => {}
    }
}

/// Configuration of Tidings. `${env:NAME}`, `${env:NAME:-default}` and `${file:PATH}` work in any string; relative paths
/// count from the file.
#[derive(JsonSchema)]
#[schemars(title = "tidings.toml", deny_unknown_fields)]
struct FileSchema {
    /// The gateway as a whole.
    gateway: Option<GatewaySchema>,
    /// When and to whom changes are announced.
    notifications: Option<NotificationsSchema>,
    /// How tools are searched.
    search: Option<SearchSchema>,
    /// What is recorded of calls and decisions.
    audit: Option<AuditSchema>,
    /// Where traces and measures are sent.
    telemetry: Option<telemetry::TelemetrySchema>,
    /// Whether the gateway is shown in a browser.
    page: Option<PageSchema>,
    /// What one principal may have at a time.
    quotas: Option<QuotasSchema>,
    /// What seals logins to servers. Absent: a key in the data directory, or one that systemd hands over.
    vault: Option<VaultSchema>,
    /// The servers behind the gateway, by name.
    servers: Option<BTreeMap<String, ServerSchema>>,
    /// Sources that are watched and offered as resources, by name.
    watch: Option<BTreeMap<String, WatchSchema>>,
    /// Who may use the gateway. Absent: loopback only, no token needed.
    auth: Option<AuthSchema>,
    /// Who may see, use and follow which items. Absent: everybody all items of their servers.
    policy: Option<PolicySchema>,
    /// How often one person may use what. Absent: as often as they like.
    limits: Option<LimitsSchema>,
    /// What is said about clients, by what they call themselves.
    clients: Option<BTreeMap<String, profile::ClientSchema>>,
    /// URLs that are told of changes.
    notify: Option<Vec<NotifySchema>>,
    /// Registries whose servers can be found and added: servers of the official registry API.
    registry: Option<Vec<registry::RegistrySchema>>,
    /// Other processes to be one with. Absent: one process.
    cluster: Option<ClusterSchema>,
}

#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[schemars(rename = "Vault")]
struct VaultSchema {
    /// 32 bytes in hexadecimal digits, best as `${env:NAME}` or `${file:PATH}`.
    key: String,
}

#[derive(JsonSchema)]
#[schemars(untagged)]
#[schemars(rename = "Listen")]
#[allow(dead_code, reason = "only its schema is used")]
enum ListenSchema {
    One(String),
    Several(Vec<String>),
}

#[derive(JsonSchema)]
#[schemars(rename_all = "lowercase")]
#[schemars(rename = "LoopbackAuth")]
#[allow(dead_code, reason = "only its schema is used")]
enum LoopbackAuthSchema {
    Open,
    Token,
}

#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[schemars(rename = "Gateway")]
struct GatewaySchema {
    /// Where `tidings serve` listens: an address, or a list of them, of which those after the first may be `unix:PATH`, a socket for
    /// the user of the gateway.
    #[schemars(extend("default" = "127.0.0.1:7337"))]
    listen: Option<ListenSchema>,
    /// Whether clients on this machine need a token, too: "token" asks everybody for that of `[auth]` or of the data directory.
    #[schemars(extend("default" = "open"))]
    auth: Option<LoopbackAuthSchema>,
    /// When names and URIs get a prefix: with several servers, always, or only for collisions.
    #[schemars(extend("default" = "auto"))]
    names: Option<NamingSchema>,
    /// Which tools are listed: all, only retrieve_tools and call_tool, or both.
    #[schemars(extend("default" = "all"))]
    expose: Option<ExposeSchema>,
    /// Whether mcp_registry_* tools are offered; auto: in `stdio`, not in `serve`, because they start commands; ask: everywhere, and nothing starts before somebody who can be asked says yes.
    #[schemars(extend("default" = "auto"))]
    registry_tools: Option<RegistryToolsSchema>,
    /// A JSON or TOML file of servers that mcp_registry_add can add, beside those that are built in.
    catalogue: Option<String>,
    /// How long the first lists wait for servers to settle.
    #[schemars(extend("default" = "5s"))]
    start_wait: Option<SpanSchema>,
    /// How long a server that is added at run time may take to start and to list what it has.
    #[schemars(extend("default" = "60s"))]
    start_timeout: Option<SpanSchema>,
    /// How long a call may go without progress.
    #[schemars(extend("default" = "5m"))]
    timeout: Option<SpanSchema>,
    /// How long a call may take with progress.
    #[schemars(extend("default" = "1h"))]
    max_timeout: Option<SpanSchema>,
    /// How many items a page of a list holds.
    #[schemars(range(min = 1, max = 1_000_000), extend("default" = 1000))]
    page_size: Option<u32>,
    /// What older clients get: only fields of their revision, or everything.
    #[schemars(extend("default" = "strict"))]
    view: Option<ViewSchema>,
    /// Whether the result of a call says once that the list of tools changed since its client last read it: in `_meta`, and as a last text
    /// that says that it is the gateway's. Never beside an error or structured content.
    #[schemars(extend("default" = false))]
    hint: Option<bool>,
    /// How long a client of 2026-07-28 may take to answer what an older server asks in the middle of a call; never longer than the call
    /// itself may take.
    #[schemars(extend("default" = "10m"))]
    input_wait: Option<SpanSchema>,
    /// How many connections servers with `isolation = "session"` may have for single clients, all together.
    #[schemars(range(min = 1, max = 1_000_000), extend("default" = 256))]
    session_links: Option<u32>,
    /// How many of these one client may have.
    #[schemars(range(min = 1, max = 1_000_000), extend("default" = 16))]
    session_links_per_client: Option<u32>,
    /// How long such a connection may be unused before it is closed.
    #[schemars(extend("default" = "10m"))]
    session_link_idle: Option<SpanSchema>,
    /// Which variables of the gateway the commands of all servers see, besides what every program needs: names, of which one
    /// that ends in `*` stands for all that begin so, or "all".
    inherit_env: Option<InheritEnv>,
    /// Where browsers reach the gateway, where that is not the address it listens on: logins to servers come back there.
    public_url: Option<String>,
    /// Makes the addresses speak TLS.
    tls: Option<TlsSchema>,
}

#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[schemars(rename = "Tls")]
struct TlsSchema {
    /// A PEM file with the certificate, and those between it and one that clients trust. Read again when it changes.
    cert: String,
    /// A PEM file with its private key. Read again when it changes.
    key: String,
    /// A PEM file with who signs certificates of clients. Who comes in with one is in `certificates` of `[auth]`.
    client_ca: Option<String>,
    /// Whether everybody needs one: "optional" also lets tokens in.
    #[schemars(extend("default" = "optional"))]
    client_cert: Option<ClientCertSchema>,
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
#[schemars(rename = "ClientCert")]
#[allow(dead_code, reason = "only its schema is used")]
enum ClientCertSchema {
    Optional,
    Required,
}

#[derive(JsonSchema)]
#[schemars(untagged)]
enum InheritEnv {
    Names(Vec<String>),
    All(AllEnv),
}

#[derive(JsonSchema)]
#[schemars(rename_all = "lowercase")]
enum AllEnv {
    All,
}

#[derive(JsonSchema)]
#[schemars(rename_all = "lowercase")]
#[schemars(rename = "Naming")]
enum NamingSchema {
    Auto,
    Prefix,
    None,
}

#[derive(JsonSchema)]
#[schemars(rename_all = "lowercase")]
#[schemars(rename = "Expose")]
enum ExposeSchema {
    All,
    Search,
    Both,
}

#[derive(JsonSchema)]
#[schemars(untagged)]
#[schemars(rename = "RegistryTools")]
enum RegistryToolsSchema {
    Auto(AutoSchema),
    Fixed(bool),
}

#[derive(JsonSchema)]
#[schemars(rename_all = "lowercase")]
#[schemars(rename = "Auto")]
enum AutoSchema {
    Auto,
    Ask,
}

#[derive(JsonSchema)]
#[schemars(rename_all = "lowercase")]
#[schemars(rename = "View")]
enum ViewSchema {
    Strict,
    Pass,
}

#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[schemars(rename = "Notifications")]
struct NotificationsSchema {
    /// Whether a fresh legacy session gets the list_changed triplet.
    #[schemars(extend("default" = "once"))]
    initial: Option<InitialSchema>,
    /// Protocol revisions that get no list_changed.
    #[schemars(extend("default" = ["2025-03-26"]))]
    suppress: Option<Vec<RevisionSchema>>,
    /// How long lists have to be quiet before a change is announced; 0 is allowed.
    #[schemars(extend("default" = "250ms"))]
    list_quiet: Option<SpanSchema>,
    /// How long that announcement may be put off.
    #[schemars(extend("default" = "1s"))]
    list_max_wait: Option<SpanSchema>,
    /// How long a resource has to be quiet before an update is announced.
    #[schemars(extend("default" = "500ms"))]
    resource_quiet: Option<SpanSchema>,
    /// How long that announcement may be put off.
    #[schemars(extend("default" = "2s"))]
    resource_max_wait: Option<SpanSchema>,
    /// How often servers without listChanged are asked; 0 is never.
    #[schemars(extend("default" = "5m"))]
    poll_interval: Option<SpanSchema>,
}

#[derive(JsonSchema)]
#[schemars(rename_all = "lowercase")]
#[schemars(rename = "Initial")]
enum InitialSchema {
    Once,
    Never,
}

#[derive(JsonSchema)]
#[schemars(rename = "Revision")]
enum RevisionSchema {
    #[schemars(rename = "2024-11-05")]
    R1,
    #[schemars(rename = "2025-03-26")]
    R2,
    #[schemars(rename = "2025-06-18")]
    R3,
    #[schemars(rename = "2025-11-25")]
    R4,
    #[schemars(rename = "2026-07-28")]
    R5,
}

#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[schemars(rename = "Search")]
struct SearchSchema {
    /// The directory of a model (model.safetensors and tokenizer.json): a small transformer, or static embeddings, so that tools are found by meaning, too.
    model: Option<String>,
    /// An embeddings endpoint, in the place of `model`.
    embeddings: Option<EmbeddingsSchema>,
    /// Whether a tool that was used after a search moves up for similar questions of the same caller.
    #[schemars(extend("default" = true))]
    learn: Option<bool>,
}

#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[schemars(rename = "Audit")]
struct AuditSchema {
    /// Whether calls, refused logins and decisions are recorded.
    #[schemars(extend("default" = true))]
    enabled: Option<bool>,
    /// Whether the arguments of calls are recorded, and not only their hash and size. They may hold secrets.
    #[schemars(extend("default" = false))]
    arguments: Option<bool>,
    /// How long records are kept.
    #[schemars(extend("default" = "90d"))]
    keep: Option<SpanSchema>,
    /// How many records are kept.
    #[schemars(range(min = 1_000, max = 100_000_000), extend("default" = 250_000))]
    max_records: Option<u64>,
    /// A file that every record is appended to as a line of JSON, too.
    file: Option<String>,
    /// The socket of the system's log, such as "/dev/log", which gets every record, too.
    syslog: Option<String>,
}

#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[schemars(rename = "Page")]
struct PageSchema {
    /// Whether `tidings serve` serves the page, prints a link to it and makes more. It is only served on loopback.
    #[schemars(extend("default" = true))]
    enabled: Option<bool>,
}

#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[schemars(rename = "Quotas")]
struct QuotasSchema {
    /// Requests of one principal that are not answered yet.
    #[schemars(range(min = 1, max = 10_000_000), extend("default" = 4_096))]
    calls: Option<u64>,
    /// Open `subscriptions/listen` requests of one principal.
    #[schemars(range(min = 1, max = 10_000_000), extend("default" = 50_000))]
    listens: Option<u64>,
    /// Legacy sessions of one principal. Beyond it the one that was idle longest gives way.
    #[schemars(range(min = 1, max = 10_000_000), extend("default" = 5_000))]
    sessions: Option<u64>,
    /// Resources that clients of one principal follow, counted for each client.
    #[schemars(range(min = 1, max = 10_000_000), extend("default" = 1_000_000))]
    subscriptions: Option<u64>,
    /// MiB that messages of one principal above 64 KiB may take of the memory.
    #[schemars(range(min = 1, max = 1_048_576), extend("default" = 256))]
    message_mib: Option<u64>,
}

/// An endpoint of the form that OpenAI has, as Ollama and vLLM serve it. The texts of tools and the questions of searches go there.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[schemars(rename = "Embeddings")]
struct EmbeddingsSchema {
    /// Its URL, such as "http://127.0.0.1:11434/v1"; `/embeddings` is added unless it is there.
    url: String,
    /// The model to ask for.
    model: String,
    /// What to send as a bearer token.
    key: Option<String>,
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

/// A server: exactly one of command, url, container and project.
#[derive(JsonSchema)]
#[schemars(rename_all = "lowercase")]
#[schemars(rename = "Annotations")]
enum AnnotationsSchema {
    Ignore,
    Trust,
}

#[derive(JsonSchema)]
#[schemars(deny_unknown_fields, extend("oneOf" = [
    {"required": ["command"]}, {"required": ["url"]}, {"required": ["container"]}, {"required": ["project"]},
]))]
#[schemars(rename = "Server")]
struct ServerSchema {
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
