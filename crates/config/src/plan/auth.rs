//! Who may use the gateway.

use std::fmt;
use std::time::SystemTime;

use super::filter::glob_matches;
use crate::redact::without_secrets;

/// `[auth]`: who may use the gateway. Without it only this machine may.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuthSettings {
    /// Tokens that are let in.
    pub tokens: Vec<TokenSettings>,
    /// Identity providers whose signed tokens are let in.
    pub jwt: Vec<JwtSettings>,
    /// Whom to ask about tokens that nobody signed.
    pub introspection: Option<IntrospectionSettings>,
    /// Who comes in with a certificate; the first that fits counts.
    pub certificates: Vec<CertificateSettings>,
}

impl AuthSettings {
    /// Whether nobody could come in.
    pub fn is_empty(&self) -> bool {
        let no_token = self.tokens.is_empty() && self.jwt.is_empty() && self.introspection.is_none();
        no_token && self.certificates.is_empty()
    }
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
    /// The groups that its bearer is in, for rules.
    pub groups: Vec<String>,
    /// From when on it opens nothing.
    pub expires: Option<SystemTime>,
}

impl TokenSettings {
    /// Whether it may use the server.
    pub fn permits(&self, server: &str) -> bool {
        self.servers.iter().any(|pattern| glob_matches(pattern, server))
    }
}

/// Somebody who has a certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateSettings {
    /// The name in the certificate, or a pattern.
    pub name: String,
    /// Patterns of the servers its owner may use.
    pub servers: Vec<String>,
    /// Whether its owner may change the gateway.
    pub admin: bool,
    /// The groups that its owner is in, for rules.
    pub groups: Vec<String>,
}

/// `jwt` of `[auth]`: tokens that an identity provider signs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JwtSettings {
    /// Who has to have issued a token.
    pub issuer: String,
    /// Where the keys are; else its metadata says that.
    pub jwks_url: Option<String>,
    /// As which client it knows the gateway, so that it can say whose a browser is.
    pub browser: Option<BrowserClient>,
    /// What its tokens say about people.
    pub people: PeopleSettings,
}

/// `client_id` and `client_secret` of `jwt`: the client that the gateway is to a provider whose people it knows by their browsers.
#[derive(Clone, PartialEq, Eq)]
pub struct BrowserClient {
    /// Its name there.
    pub id: String,
    /// Its secret, if it has one.
    pub secret: Option<String>,
}

impl fmt::Debug for BrowserClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BrowserClient").field("id", &self.id).finish_non_exhaustive()
    }
}

/// `introspection` of `[auth]`: a provider that is asked about tokens (RFC 7662).
#[derive(Clone, PartialEq, Eq)]
pub struct IntrospectionSettings {
    /// Where it is asked.
    pub url: String,
    /// Who it knows the gateway as.
    pub client_id: String,
    /// The secret of that.
    pub client_secret: String,
    /// The provider, as clients are told it.
    pub issuer: Option<String>,
    /// What its answers say about people.
    pub people: PeopleSettings,
}

impl fmt::Debug for IntrospectionSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IntrospectionSettings").field("url", &without_secrets(&self.url)).finish_non_exhaustive()
    }
}

/// How a token of a provider is read: whom it has to be meant for, and what it says about its bearer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeopleSettings {
    /// Whom it has to be meant for; nothing stands for the address of the gateway.
    pub audience: Vec<String>,
    /// Scopes that it has to have.
    pub scopes: Vec<String>,
    /// The claim with the groups; dots lead into objects.
    pub groups: String,
    /// Patterns of the servers its bearer may use.
    pub servers: Vec<String>,
    /// Who may change the gateway, as rules name people.
    pub admin: Vec<String>,
}
