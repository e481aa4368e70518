//! Who may use the gateway, and which other processes it is one with.

use std::fmt;

use super::filter::glob_matches;
use crate::redact::without_secrets;

/// `[auth]`: who may use the gateway. Without it only this machine may.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuthSettings {
    /// Tokens that are let in.
    pub tokens: Vec<TokenSettings>,
    /// Tokens of an identity provider.
    pub jwt: Option<JwtSettings>,
}

/// One token, known only by its digest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenSettings {
    /// What it is called in logs and lists.
    pub name: String,
    /// The SHA-256 of the token.
    pub sha256: [u8; 32],
    /// Patterns of the servers it may use.
    pub servers: Vec<String>,
    /// Whether it may change the gateway.
    pub admin: bool,
}

impl TokenSettings {
    /// Whether it may use the server.
    pub fn permits(&self, server: &str) -> bool {
        self.servers.iter().any(|pattern| glob_matches(pattern, server))
    }
}

/// `jwt` of `[auth]`: tokens that an identity provider signs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JwtSettings {
    /// Who has to have issued a token.
    pub issuer: String,
    /// Whom it has to be meant for.
    pub audience: String,
    /// Where the keys are.
    pub jwks_url: String,
}

/// `[cluster]`: other processes that serve the same clients.
#[derive(Clone, PartialEq, Eq)]
pub struct ClusterSettings {
    /// The URL of the NATS server.
    pub nats: String,
}

impl fmt::Debug for ClusterSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClusterSettings").field("nats", &without_secrets(&self.nats)).finish()
    }
}
