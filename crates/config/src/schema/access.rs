//! The shape of `[auth]` and `[cluster]`.

use schemars::JsonSchema;

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
