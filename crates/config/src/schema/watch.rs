//! The shape of `[watch.X]`, `[auth]` and `[cluster]`.

use std::collections::BTreeMap;

use schemars::JsonSchema;

use super::SpanSchema;

/// A watched source: exactly one of file, postgres, http and webhook.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields, extend("oneOf" = [
    {"required": ["file"]}, {"required": ["postgres", "query", "channel"]}, {"required": ["http"]},
    {"required": ["webhook", "secret"]},
]))]
#[schemars(rename = "Watch")]
pub(super) struct WatchSchema {
    /// A file, a folder or a glob; one resource per file.
    file: Option<String>,
    /// The URL of a PostgreSQL database.
    postgres: Option<String>,
    /// The query whose rows are the content.
    query: Option<String>,
    /// The channel to LISTEN on.
    channel: Option<String>,
    /// A URL that is asked again and again; only a changed body counts.
    http: Option<String>,
    /// How often the URL is asked.
    #[schemars(extend("default" = "30s"))]
    every: Option<SpanSchema>,
    /// Headers to send with each request.
    headers: Option<BTreeMap<String, String>>,
    /// Whether the host's name may lead into a private network. An address, or localhost, may stand in the URL as it is.
    #[schemars(extend("default" = false))]
    private: Option<bool>,
    /// The NAME of POST /hooks/NAME; the body is the content.
    #[schemars(regex(pattern = r"^[A-Za-z0-9_.-]+$"))]
    webhook: Option<String>,
    /// What the poster signs with (HMAC-SHA256).
    secret: Option<String>,
    /// Where in a JSON body the name of the part stands that it concerns; each part is a resource of its own.
    #[schemars(regex(pattern = r"^/"))]
    pointer: Option<String>,
    /// The URI of the resource; by default watch://NAME.
    uri: Option<String>,
    /// The name of the resource.
    name: Option<String>,
    /// The description of the resource.
    description: Option<String>,
    /// The MIME type of the content.
    mime_type: Option<String>,
    /// How long it has to be quiet before an update is announced; by default as in [notifications].
    quiet: Option<SpanSchema>,
    /// How long that announcement may be put off; by default as in [notifications].
    max_wait: Option<SpanSchema>,
}

#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[schemars(rename = "Auth")]
pub(super) struct AuthSchema {
    /// Tokens that are let in.
    tokens: Option<Vec<TokenSchema>>,
    /// Tokens of an identity provider.
    jwt: Option<JwtSchema>,
}

#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[schemars(rename = "Token")]
struct TokenSchema {
    /// What it is called in logs and lists.
    name: String,
    /// The SHA-256 of the token, in hexadecimal.
    #[schemars(regex(pattern = r"^([0-9A-Fa-f]{64}|.*\$\{.*\}.*)$"))]
    sha256: String,
    /// Patterns of the servers it may use.
    #[schemars(extend("default" = ["*"]))]
    servers: Option<Vec<String>>,
    /// Whether it may change the gateway.
    #[schemars(extend("default" = false))]
    admin: Option<bool>,
}

#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[schemars(rename = "Jwt")]
struct JwtSchema {
    /// Who has to have issued a token.
    issuer: String,
    /// Whom it has to be meant for.
    audience: String,
    /// Where the keys are.
    jwks_url: String,
}

#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[schemars(rename = "Cluster")]
pub(super) struct ClusterSchema {
    /// The URL of a NATS server.
    nats: String,
}
