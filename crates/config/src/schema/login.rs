//! The shape of `auth` in `[servers.X]`.

use schemars::JsonSchema;

#[derive(JsonSchema)]
#[schemars(untagged)]
#[schemars(rename = "LoginChoice")]
pub(super) enum LoginSchema {
    Word(LoginWord),
    Table(Box<LoginTable>),
}

#[derive(JsonSchema)]
#[schemars(rename_all = "lowercase")]
pub(super) enum LoginWord {
    Auto,
    None,
}

#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[schemars(rename = "Login")]
pub(super) struct LoginTable {
    /// Whom a login is for: everybody, by an admin ("shared"), or each person for themselves ("principal"), which gives each of them a
    /// connection of their own.
    #[schemars(extend("default" = "shared"))]
    r#for: Option<ForSchema>,
    /// How to log in: a person in a browser ("code"), a person in a browser elsewhere ("device"), or the gateway itself, by a secret or
    /// key ("client_credentials") or by an assertion from a file ("jwt_bearer").
    #[schemars(extend("default" = "code"))]
    grant: Option<GrantSchema>,
    /// The client that the provider knows; else the gateway registers one.
    client_id: Option<String>,
    /// Its secret.
    client_secret: Option<String>,
    /// Its private key in PEM, such as "${file:key.pem}": what the gateway signs with it takes the place of a secret.
    client_key: Option<String>,
    /// Where a document describes the client, for providers that read one.
    client_metadata_url: Option<String>,
    /// What is asked for, in place of what the server names.
    scopes: Option<Vec<String>>,
    /// The provider, where the server names several or none.
    issuer: Option<String>,
    /// Which resource tokens are for: what the server calls itself (true), none (false), or this one.
    #[schemars(extend("default" = true))]
    resource: Option<ResourceSchema>,
    /// Whether the provider has to say that it checks PKCE ("advertised"), or is taken to ("assumed").
    #[schemars(extend("default" = "advertised"))]
    pkce: Option<PkceSchema>,
    /// Whether a server without metadata has the endpoints that revision 2025-03-26 gave it.
    #[schemars(extend("default" = false))]
    legacy: Option<bool>,
    /// The file with the assertion of grant = "jwt_bearer"; read each time.
    assertion: Option<String>,
}

#[derive(JsonSchema)]
#[schemars(rename_all = "lowercase")]
#[schemars(rename = "LoginFor")]
enum ForSchema {
    Shared,
    Principal,
}

#[derive(JsonSchema)]
#[schemars(rename_all = "snake_case")]
enum GrantSchema {
    Code,
    Device,
    ClientCredentials,
    JwtBearer,
}

#[derive(JsonSchema)]
#[schemars(untagged)]
enum ResourceSchema {
    Whether(bool),
    Named(String),
}

#[derive(JsonSchema)]
#[schemars(rename_all = "lowercase")]
enum PkceSchema {
    Advertised,
    Assumed,
}
