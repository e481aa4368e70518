//! What servers and providers say of themselves: RFC 9728, RFC 8414, OpenID Connect Discovery. Only the members that are used.

use serde::{Deserialize, Serialize};

use crate::web_address::WebAddress;

/// A resource, as it describes itself.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct ResourceMetadata {
    pub(crate) resource: Option<String>,
    #[serde(default)]
    pub(crate) authorization_servers: Vec<String>,
    pub(crate) scopes_supported: Option<Vec<String>>,
}

/// A provider, as it describes itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Provider {
    pub(crate) issuer: String,
    pub(crate) authorization_endpoint: Option<String>,
    pub(crate) token_endpoint: Option<String>,
    pub(crate) registration_endpoint: Option<String>,
    pub(crate) device_authorization_endpoint: Option<String>,
    pub(crate) revocation_endpoint: Option<String>,
    pub(crate) token_endpoint_auth_methods_supported: Option<Vec<String>>,
    pub(crate) code_challenge_methods_supported: Option<Vec<String>>,
    pub(crate) grant_types_supported: Option<Vec<String>>,
    pub(crate) scopes_supported: Option<Vec<String>>,
    #[serde(default)]
    pub(crate) authorization_response_iss_parameter_supported: bool,
    #[serde(default)]
    pub(crate) client_id_metadata_document_supported: bool,
}

impl Provider {
    /// The endpoints that servers of revision 2025-03-26 have without saying so.
    pub(crate) fn invented(server: &WebAddress) -> Self {
        let at = |path: &str| Some(format!("{}/{path}", server.origin()));
        Self {
            issuer: server.origin(),
            authorization_endpoint: at("authorize"),
            token_endpoint: at("token"),
            registration_endpoint: at("register"),
            // That revision asks every server for it.
            code_challenge_methods_supported: Some(vec!["S256".to_owned()]),
            ..Self::default()
        }
    }

    /// Whether it checks the proof that the code comes back to whoever asked for it.
    pub(crate) fn checks_pkce(&self) -> bool {
        // Without a list there is none: RFC 8414 says so, and a challenge that nobody checks protects nobody.
        self.code_challenge_methods_supported.iter().flatten().any(|method| method == "S256")
    }

    /// Whether it can be told a scope.
    pub(crate) fn knows_scope(&self, scope: &str) -> bool {
        self.scopes_supported.iter().flatten().any(|known| known == scope)
    }

    /// Whether it has a grant. Without a list RFC 8414 names the first two.
    pub(crate) fn has_grant(&self, grant: &str) -> bool {
        match &self.grant_types_supported {
            Some(known) => known.iter().any(|known| known == grant),
            None => matches!(grant, "authorization_code" | "implicit"),
        }
    }

    /// An endpoint that is not safe to send a secret to.
    pub(crate) fn unsafe_endpoint(&self) -> Option<&str> {
        let endpoints = [
            &self.authorization_endpoint,
            &self.token_endpoint,
            &self.registration_endpoint,
            &self.device_authorization_endpoint,
            &self.revocation_endpoint,
        ];
        let is_unsafe = |url: &&str| !WebAddress::parse(url).is_some_and(|address| address.is_safe());
        endpoints.into_iter().filter_map(Option::as_deref).find(is_unsafe)
    }
}
