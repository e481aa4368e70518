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

/// How somebody, or something, logs in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum LoginGrant {
    /// A person in a browser.
    #[default]
    Code,
    /// A person in a browser elsewhere, by a code that is typed in.
    Device,
    /// The gateway itself, by a secret or a key.
    ClientCredentials,
    /// The gateway itself, by an assertion that something else writes to a file.
    JwtBearer,
}

impl LoginGrant {
    /// Whether no person is needed.
    pub fn is_machine(self) -> bool {
        matches!(self, Self::ClientCredentials | Self::JwtBearer)
    }
}

/// Which resource a token is asked for (RFC 8707).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum LoginResource {
    /// What the server calls itself, else its address.
    #[default]
    Found,
    /// None: some providers refuse the parameter.
    Omitted,
    /// This one.
    Named(String),
}

/// `[servers.X.auth]`. Secrets are left out of its `Debug` output.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct LoginConfig {
    /// Whether each person logs in for themselves, and is known to the server as such.
    pub is_personal: bool,
    /// How to log in.
    pub grant: LoginGrant,
    /// The client that the provider knows; else one is registered.
    pub client_id: Option<String>,
    /// Its secret.
    pub client_secret: Option<String>,
    /// Its private key, as PEM: the gateway signs what it would otherwise send a secret for.
    pub client_key: Option<String>,
    /// Where a document stands that describes the client.
    pub client_metadata_url: Option<String>,
    /// What is asked for, in place of what the server names.
    pub scopes: Option<Vec<String>>,
    /// The provider, where the server names several or none.
    pub issuer: Option<String>,
    /// Which resource tokens are for.
    pub resource: LoginResource,
    /// Whether a provider counts as one that checks PKCE though it does not say so.
    pub pkce_assumed: bool,
    /// Whether a server without any metadata has the endpoints that revision 2025-03-26 gave it.
    pub legacy: bool,
    /// The file with the assertion of `JwtBearer`; read each time.
    pub assertion: Option<PathBuf>,
}

impl fmt::Debug for LoginConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoginConfig").field("grant", &self.grant).field("issuer", &self.issuer).finish_non_exhaustive()
    }
}
