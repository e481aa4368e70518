//! Who the gateway is for a provider: a client from the configuration, one described by a document, or one that was registered
//! (RFC 7591).

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::metadata::Provider;

/// The grant of RFC 8628.
pub(crate) const DEVICE_GRANT: &str = "urn:ietf:params:oauth:grant-type:device_code";

/// How a client proves who it is at the token endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ClientProof {
    /// By nothing: PKCE and the redirect are all that there is.
    None,
    #[serde(rename = "client_secret_basic")]
    Basic,
    #[serde(rename = "client_secret_post")]
    Post,
    #[serde(rename = "private_key_jwt")]
    Key,
}

impl ClientProof {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Basic => "client_secret_basic",
            Self::Post => "client_secret_post",
            Self::Key => "private_key_jwt",
        }
    }

    fn named(text: &str) -> Option<Self> {
        [Self::None, Self::Basic, Self::Post, Self::Key].into_iter().find(|proof| proof.as_str() == text)
    }

    /// The way a client with a secret sends it; what RFC 8414 assumes where a provider does not say.
    pub(crate) fn of_secret(provider: &Provider) -> Self {
        match &provider.token_endpoint_auth_methods_supported {
            Some(known) if !known.iter().any(|known| known == "client_secret_basic") => Self::Post,
            _ => Self::Basic,
        }
    }

    /// What a client that is about to be registered asks for: nothing to keep secret, where that is allowed.
    fn wanted(provider: &Provider) -> Self {
        let known = provider.token_endpoint_auth_methods_supported.as_deref();
        let has = |proof: Self| known.is_some_and(|known| known.iter().any(|known| known == proof.as_str()));
        match known {
            // Without a list RFC 8414 assumes `client_secret_basic`. A public client is asked for all the same: then
            // nothing has to be kept secret.
            None => Self::None,
            Some(_) => {
                // A key is never asked for: a client that is registered has none, only a configured one.
                [Self::None, Self::Basic, Self::Post].into_iter().find(|proof| has(*proof)).unwrap_or(Self::None)
            }
        }
    }
}

/// The gateway, as one provider knows it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct OAuthClient {
    pub(crate) id: String,
    pub(crate) secret: Option<String>,
    pub(crate) proof: ClientProof,
}

impl std::fmt::Debug for OAuthClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OAuthClient").field("id", &self.id).field("proof", &self.proof).finish_non_exhaustive()
    }
}

/// The body that registers a client. `redirect`: where the browser comes back to.
pub(crate) fn registration_request(provider: &Provider, redirect: &str, is_native: bool) -> Value {
    let mut grants = vec!["authorization_code", "refresh_token"];
    if provider.device_authorization_endpoint.is_some() && provider.has_grant(DEVICE_GRANT) {
        grants.push(DEVICE_GRANT);
    }
    // Providers may refuse redirects over `http` to `web` clients; `native` ones may have those to loopback (OpenID Connect
    // Registration 1.0, 2).
    json!({
        "client_name": "Tidings",
        "redirect_uris": [redirect],
        "grant_types": grants,
        "response_types": ["code"],
        "token_endpoint_auth_method": ClientProof::wanted(provider).as_str(),
        "application_type": if is_native { "native" } else { "web" },
    })
}

/// The client that a provider has registered; `None` if the answer is not one.
pub(crate) fn registered(provider: &Provider, body: &[u8]) -> Option<OAuthClient> {
    #[derive(Deserialize)]
    struct Registered {
        client_id: String,
        client_secret: Option<String>,
        token_endpoint_auth_method: Option<String>,
    }
    let answer: Registered = serde_json::from_slice(body).ok()?;
    // What it says, and not what it was asked for: RFC 7591, 3.2.1 lets it register something else.
    let said = answer.token_endpoint_auth_method.as_deref().and_then(ClientProof::named);
    let proof = match (&answer.client_secret, said) {
        (None, _) => ClientProof::None,
        (Some(_), Some(proof)) => proof,
        (Some(_), None) => ClientProof::of_secret(provider),
    };
    Some(OAuthClient { id: answer.client_id, secret: answer.client_secret, proof })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn provider(methods: Option<&[&str]>) -> Provider {
        let methods = methods.map(|methods| methods.iter().map(|method| (*method).to_owned()).collect());
        Provider { token_endpoint_auth_methods_supported: methods, ..Provider::default() }
    }

    // identity 8.1
    #[test]
    fn the_proof_is_one_that_the_provider_knows() {
        for (methods, wanted) in [
            (None, "none"),
            (Some(&["client_secret_basic"][..]), "client_secret_basic"),
            (Some(&["client_secret_post"][..]), "client_secret_post"),
            (Some(&["client_secret_post", "none"][..]), "none"),
        ] {
            let asked = registration_request(&provider(methods), "http://127.0.0.1:1/cb", true);
            assert_eq!(asked["token_endpoint_auth_method"], wanted, "{methods:?}");
        }
        let answer = br#"{"client_id": "c", "client_secret": "s"}"#;
        let proof = |methods| registered(&provider(methods), answer).map(|client| client.proof);
        assert_eq!(proof(None), Some(ClientProof::Basic));
        assert_eq!(proof(Some(&["client_secret_post"][..])), Some(ClientProof::Post));
        let said = br#"{"client_id": "c", "client_secret": "s", "token_endpoint_auth_method": "client_secret_post"}"#;
        assert_eq!(registered(&provider(None), said).map(|client| client.proof), Some(ClientProof::Post));
        let open = br#"{"client_id": "c"}"#;
        assert_eq!(registered(&provider(None), open).map(|client| client.proof), Some(ClientProof::None));
    }

    #[test]
    fn debug_output_holds_no_secret() {
        let client = OAuthClient { id: "c".into(), secret: Some("hunter2".into()), proof: ClientProof::Post };
        assert!(!format!("{client:?}").contains("hunter2"));
    }
}
