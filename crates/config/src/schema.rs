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
mod server;
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
use server::ServerSchema;

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
    /// Whether a fresh legacy session is told once that tools, prompts and resources changed, so that it lists them again.
    #[schemars(extend("default" = "once"))]
    initial: Option<InitialSchema>,
    /// Protocol revisions whose clients are told of no changed list.
    #[schemars(extend("default" = ["2025-03-26"]))]
    suppress: Option<Vec<RevisionSchema>>,
    /// How long lists have to be quiet before a change is announced; 0 is allowed.
    #[schemars(extend("default" = "250ms"))]
    list_quiet: Option<SpanSchema>,
    /// How long a change of lists may go unannounced while they are not quiet.
    #[schemars(extend("default" = "1s"))]
    list_max_wait: Option<SpanSchema>,
    /// How long a resource has to be quiet before an update is announced.
    #[schemars(extend("default" = "500ms"))]
    resource_quiet: Option<SpanSchema>,
    /// How long an update of a resource may go unannounced while it is not quiet.
    #[schemars(extend("default" = "2s"))]
    resource_max_wait: Option<SpanSchema>,
    /// How often the gateway lists again what a server does not announce; 0 is never.
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
