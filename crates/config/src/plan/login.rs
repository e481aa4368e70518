//! How the gateway logs in to a server: values that were checked. What they mean on the wire is the matter of the crate `login`.

use std::fmt;
use std::path::PathBuf;

/// `auth` of `[servers.X]`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum LoginSetting {
    /// When the server asks for a login.
    #[default]
    Auto,
    /// Never.
    Off,
    /// As this says.
    As(Box<LoginConfig>),
}

/// `[servers.X.auth]`. Secrets are left out of its `Debug` output.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct LoginConfig {
    /// How to log in.
    pub grant: LoginGrant,
    /// The client that the provider knows.
    pub client_id: Option<String>,
    /// Its secret.
    pub client_secret: Option<String>,
    /// Its private key, as PEM.
    pub client_key: Option<String>,
    /// Where a document describes it.
    pub client_metadata_url: Option<String>,
    /// What is asked for.
    pub scopes: Option<Vec<String>>,
    /// The provider.
    pub issuer: Option<String>,
    /// Which resource tokens are for.
    pub resource: LoginResource,
    /// Whether a provider checks PKCE though it does not say so.
    pub pkce_assumed: bool,
    /// Whether endpoints may be made up as revision 2025-03-26 has them.
    pub legacy: bool,
    /// The file with the assertion.
    pub assertion: Option<PathBuf>,
}

/// Which resource tokens are asked for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum LoginResource {
    /// What the server calls itself.
    #[default]
    Found,
    /// None.
    Omitted,
    /// This one.
    Named(String),
}

/// How somebody, or something, logs in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LoginGrant {
    /// A person in a browser.
    #[default]
    Code,
    /// A person in a browser elsewhere.
    Device,
    /// The gateway, by a secret or a key.
    ClientCredentials,
    /// The gateway, by an assertion from a file.
    JwtBearer,
}

impl fmt::Debug for LoginConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoginConfig").field("grant", &self.grant).field("issuer", &self.issuer).finish_non_exhaustive()
    }
}
