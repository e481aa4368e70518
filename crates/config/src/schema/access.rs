//! The shape of `[auth]`.

use schemars::JsonSchema;

#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[schemars(rename = "Auth")]
pub(super) struct AuthSchema {
    /// Tokens that are let in.
    tokens: Option<Vec<TokenSchema>>,
    /// Identity providers whose signed tokens are let in: a table, or a list of them.
    jwt: Option<JwtChoice>,
    /// A provider that is asked about tokens which nobody signed (RFC 7662).
    introspection: Option<IntrospectionSchema>,
    /// Who comes in with a certificate that `client_ca` of `tls` signed; the first that fits counts.
    certificates: Option<Vec<CertificateSchema>>,
}

#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[schemars(rename = "Certificate")]
struct CertificateSchema {
    /// The name in the certificate, or a pattern of such names, in which `*` stands for any characters.
    name: String,
    /// Patterns of the servers its owner may use.
    #[schemars(extend("default" = ["*"]))]
    servers: Option<Vec<String>>,
    /// Whether its owner may change the gateway.
    #[schemars(extend("default" = false))]
    admin: Option<bool>,
    /// The groups that its owner is in, for rules.
    groups: Option<Vec<String>>,
}

#[derive(JsonSchema)]
#[schemars(untagged)]
enum JwtChoice {
    One(Box<JwtSchema>),
    Several(Vec<JwtSchema>),
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
    /// The groups that its bearer is in, for rules.
    groups: Option<Vec<String>>,
    /// The day (UTC) or moment from which on it opens nothing: "2027-01-01", "2027-01-01T12:00:00Z".
    expires: Option<String>,
}

#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[schemars(rename = "Jwt")]
struct JwtSchema {
    /// Who has to have issued a token.
    issuer: String,
    /// Where the keys are; else the metadata of the issuer says that.
    jwks_url: Option<String>,
    /// As which client the issuer knows the gateway: then browsers that open the page of a login are known by the issuer, and no token is asked for.
    client_id: Option<String>,
    /// The secret of that client, if it has one.
    client_secret: Option<String>,
    /// Whom it has to be meant for: text or a list. Without it, the address of the gateway (public_url and /mcp).
    audience: Option<TextOrList>,
    /// Scopes that a token has to have.
    scopes: Option<Vec<String>>,
    /// The claim with the groups of its bearer; dots lead into objects.
    #[schemars(extend("default" = "groups"))]
    groups: Option<String>,
    /// Patterns of the servers its bearer may use.
    #[schemars(extend("default" = ["*"]))]
    servers: Option<Vec<String>>,
    /// Who may change the gateway: "group:NAME", "scope:NAME", "claim:NAME=VALUE".
    admin: Option<Vec<String>>,
}

#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[schemars(rename = "Introspection")]
struct IntrospectionSchema {
    /// Where the provider is asked.
    url: String,
    /// Who it knows the gateway as.
    client_id: String,
    /// The secret of that.
    client_secret: String,
    /// The provider, as clients are told it.
    issuer: Option<String>,
    /// Whom it has to be meant for: text or a list. Without it, the address of the gateway (public_url and /mcp).
    audience: Option<TextOrList>,
    /// Scopes that a token has to have.
    scopes: Option<Vec<String>>,
    /// The claim with the groups of its bearer; dots lead into objects.
    #[schemars(extend("default" = "groups"))]
    groups: Option<String>,
    /// Patterns of the servers its bearer may use.
    #[schemars(extend("default" = ["*"]))]
    servers: Option<Vec<String>>,
    /// Who may change the gateway: "group:NAME", "scope:NAME", "claim:NAME=VALUE".
    admin: Option<Vec<String>>,
}

#[derive(JsonSchema)]
#[schemars(untagged)]
pub(super) enum TextOrList {
    Text(String),
    List(Vec<String>),
}
