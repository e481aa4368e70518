//! What somebody is told who was not let in: challenges (RFC 6750), and the document that says where tokens come from (RFC 9728).

use serde_json::{Value, json};

/// Where the document is; the path of the endpoint may follow.
pub const METADATA: &str = "/.well-known/oauth-protected-resource";
/// The endpoint that it is about.
const ENDPOINT: &str = "/mcp";

/// Why a token opens nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RefusedToken {
    /// There is none.
    #[error("a bearer token is required")]
    Missing,
    /// It is not good.
    #[error("{0}")]
    Invalid(&'static str),
    /// It is good, and was not given these scopes.
    #[error("the token needs the scopes {}", .0.join(" "))]
    Insufficient(Vec<String>),
    /// Nobody can say whether it is good.
    #[error("the identity provider does not answer, so the token can not be checked; try again later")]
    Silent,
}

impl RefusedToken {
    /// The status of the answer.
    pub fn status(&self) -> u16 {
        match self {
            Self::Missing | Self::Invalid(_) => 401,
            Self::Insufficient(_) => 403,
            // Not 401: a client would throw away a token that may be good, and send its user to log in.
            Self::Silent => 503,
        }
    }
}

/// What the gateway is to those who want a token for it.
#[derive(Clone, Debug, Default)]
pub(crate) struct ProtectedResource {
    /// The address of the gateway, without a path.
    pub(crate) base: String,
    /// Who gives tokens for it. Nobody: there are only tokens of the configuration.
    pub(crate) issuers: Vec<String>,
    /// Scopes that a token has to have.
    pub(crate) scopes: Vec<String>,
}

impl ProtectedResource {
    /// What tokens have to be meant for.
    pub(crate) fn name(&self) -> String {
        format!("{}{ENDPOINT}", self.base)
    }

    /// The document; `None` where no provider gives tokens.
    pub(crate) fn document(&self) -> Option<Value> {
        if self.issuers.is_empty() {
            return None;
        }
        let mut document = json!({
            "resource": self.name(),
            "authorization_servers": self.issuers,
            "bearer_methods_supported": ["header"],
            "resource_name": "Tidings",
        });
        if !self.scopes.is_empty() {
            document["scopes_supported"] = json!(self.scopes);
        }
        Some(document)
    }

    /// `WWW-Authenticate`.
    pub(crate) fn challenge(&self, refused: &RefusedToken) -> String {
        let mut parts = Vec::new();
        match refused {
            // Without `error`: RFC 6750, 3.1 has none for a request that brought no token.
            RefusedToken::Missing | RefusedToken::Silent => {}
            RefusedToken::Invalid(reason) => {
                parts.push("error=\"invalid_token\"".to_owned());
                parts.push(format!("error_description=\"{reason}\""));
            }
            RefusedToken::Insufficient(_) => parts.push("error=\"insufficient_scope\"".to_owned()),
        }
        let scopes = match refused {
            RefusedToken::Insufficient(scopes) => scopes,
            _ => &self.scopes,
        };
        if !scopes.is_empty() {
            parts.push(format!("scope=\"{}\"", scopes.join(" ")));
        }
        if !self.issuers.is_empty() {
            parts.push(format!("resource_metadata=\"{}{METADATA}{ENDPOINT}\"", self.base));
        }
        if parts.is_empty() { "Bearer".to_owned() } else { format!("Bearer {}", parts.join(", ")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // identity 2
    #[test]
    fn a_challenge_leads_to_the_provider_only_where_there_is_one() {
        let plain = ProtectedResource { base: "http://h".to_owned(), ..ProtectedResource::default() };
        assert_eq!(plain.challenge(&RefusedToken::Missing), "Bearer");
        assert!(plain.document().is_none());
        let resource = ProtectedResource {
            issuers: vec!["https://login.example".to_owned()],
            scopes: vec!["mcp".to_owned()],
            ..plain
        };
        let place = "resource_metadata=\"http://h/.well-known/oauth-protected-resource/mcp\"";
        assert_eq!(resource.challenge(&RefusedToken::Missing), format!("Bearer scope=\"mcp\", {place}"));
        assert_eq!(
            resource.challenge(&RefusedToken::Invalid("late")),
            format!("Bearer error=\"invalid_token\", error_description=\"late\", scope=\"mcp\", {place}")
        );
        assert_eq!(
            resource.challenge(&RefusedToken::Insufficient(vec!["mcp".to_owned(), "x".to_owned()])),
            format!("Bearer error=\"insufficient_scope\", scope=\"mcp x\", {place}")
        );
        let document = resource.document().expect("a document");
        assert_eq!((&document["resource"], &document["scopes_supported"]), (&json!("http://h/mcp"), &json!(["mcp"])));
    }
}
