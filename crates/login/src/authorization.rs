//! The way of a browser to the provider and back: the request with its proof key (RFC 7636), and the check of what comes back.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::digest::{SHA256, digest};

use crate::metadata::Provider;
use crate::web_address::{decode_fields, encode_fields, single, with_query};

/// Thirty-two random bytes, as text.
pub(crate) fn fresh_secret() -> String {
    let mut bytes = [0; 32];
    // Without random numbers nothing in the process would be safe.
    getrandom::fill(&mut bytes).expect("the system has random numbers");
    URL_SAFE_NO_PAD.encode(bytes)
}

/// What is sent of a verifier before it is shown.
pub(crate) fn code_challenge(verifier: &str) -> String {
    URL_SAFE_NO_PAD.encode(digest(&SHA256, verifier.as_bytes()))
}

/// What a browser asks the provider for.
pub(crate) struct AuthorizationRequest<'a> {
    pub(crate) client_id: &'a str,
    pub(crate) redirect: &'a str,
    pub(crate) state: &'a str,
    pub(crate) verifier: &'a str,
    pub(crate) scopes: &'a [String],
    pub(crate) resource: Option<&'a str>,
    /// Comes back inside the ID token, where one is asked for.
    pub(crate) nonce: Option<&'a str>,
}

impl AuthorizationRequest<'_> {
    /// The address that the browser is sent to.
    pub(crate) fn url(&self, endpoint: &str) -> String {
        let challenge = code_challenge(self.verifier);
        let scopes = self.scopes.join(" ");
        let mut fields = vec![
            ("response_type", "code"),
            ("client_id", self.client_id),
            ("redirect_uri", self.redirect),
            ("state", self.state),
            // The verifier is not a field: the browser's history and the provider's logs see this address, and the
            // verifier is what makes the code useless to whoever reads it there.
            ("code_challenge", &challenge),
            ("code_challenge_method", "S256"),
        ];
        if !scopes.is_empty() {
            fields.push(("scope", &scopes));
        }
        if self.scopes.iter().any(|scope| scope == OFFLINE) {
            // OpenID Connect gives a refresh token only with it (Core 1.0, 11).
            fields.push(("prompt", "consent"));
        }
        if let Some(resource) = self.resource {
            fields.push(("resource", resource));
        }
        if let Some(nonce) = self.nonce {
            fields.push(("nonce", nonce));
        }
        with_query(endpoint, &encode_fields(fields))
    }
}

/// The scope by which OpenID Connect asks for a refresh token.
pub(crate) const OFFLINE: &str = "offline_access";

/// What is asked for: what the configuration says, else what the server's challenge names, else what it says it has; and a refresh
/// token, where the provider wants to be asked for one.
pub(crate) fn scopes(
    configured: Option<&[String]>,
    challenged: Option<&[String]>,
    supported: Option<&[String]>,
    provider: &Provider,
) -> Vec<String> {
    // The first that is there counts, and not the union: what the configuration names may be less on purpose.
    let mut scopes = configured.or(challenged).or(supported).unwrap_or_default().to_vec();
    if provider.knows_scope(OFFLINE) && !scopes.iter().any(|scope| scope == OFFLINE) {
        scopes.push(OFFLINE.to_owned());
    }
    scopes
}

/// What a browser came back with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Callback {
    /// A code, to be exchanged for tokens.
    Code(String),
    /// The provider, or the person there, said no.
    Denied { error: String, description: Option<String> },
}

/// Why what came back does not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CallbackFault {
    #[error("it is not from the provider that was asked")]
    OtherIssuer,
    #[error("it holds neither a code nor an error")]
    Empty,
}

/// The `state` of a callback, by which it is known whose it is.
pub(crate) fn state_of(query: &str) -> Option<String> {
    single(&decode_fields(query), "state").map(str::to_owned)
}

/// Reads what came back. Before anything else of it is looked at: is it from the provider that was asked (RFC 9207)?
pub(crate) fn read_callback(query: &str, provider: &Provider) -> Result<Callback, CallbackFault> {
    let fields = decode_fields(query);
    let has_issuer = fields.iter().any(|(name, _)| name == "iss");
    // Compared as it is: a spelling that differs is another provider's.
    let is_ours = match has_issuer {
        true => single(&fields, "iss") == Some(provider.issuer.as_str()),
        // One that says that it always names itself has to (RFC 9207, 2.4): else a callback of another provider passes
        // by leaving the name out.
        false => !provider.authorization_response_iss_parameter_supported,
    };
    if !is_ours {
        return Err(CallbackFault::OtherIssuer);
    }
    if let Some(error) = single(&fields, "error") {
        let description = single(&fields, "error_description").map(str::to_owned);
        return Ok(Callback::Denied { error: error.to_owned(), description });
    }
    let code = single(&fields, "code").filter(|code| !code.is_empty());
    code.map(|code| Callback::Code(code.to_owned())).ok_or(CallbackFault::Empty)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_proof_key_is_that_of_the_standard() {
        // RFC 7636, appendix B.
        assert_eq!(
            code_challenge("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"),
            "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"
        );
        assert_ne!(fresh_secret(), fresh_secret());
        assert_eq!(fresh_secret().len(), 43);
    }

    #[test]
    fn the_request_names_everything_and_asks_for_consent_where_it_must() {
        let scopes = ["read".to_owned(), OFFLINE.to_owned()];
        let request = AuthorizationRequest {
            client_id: "c",
            redirect: "http://127.0.0.1:1/oauth/callback",
            state: "s",
            verifier: "v",
            scopes: &scopes,
            resource: Some("https://crm.example/mcp"),
            nonce: None,
        };
        let url = request.url("https://login.example/authorize?tenant=t");
        let query = url.split_once("?tenant=t&").expect("the query of the endpoint stays").1;
        let fields = decode_fields(query);
        for (name, value) in [
            ("response_type", "code"),
            ("code_challenge_method", "S256"),
            ("scope", "read offline_access"),
            ("prompt", "consent"),
            ("resource", "https://crm.example/mcp"),
        ] {
            assert_eq!(single(&fields, name), Some(value));
        }
        assert!(!url.contains("code_challenge=v&"), "the verifier itself stays here");
    }

    // identity 8.1
    #[test]
    fn scopes_come_from_the_first_who_names_some() {
        let list = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let (configured, challenged, supported) = (list("a"), list("b"), list("c d"));
        let plain = Provider::default();
        assert_eq!(scopes(Some(&configured), Some(&challenged), Some(&supported), &plain), ["a"]);
        assert_eq!(scopes(None, Some(&challenged), Some(&supported), &plain), ["b"]);
        assert_eq!(scopes(None, None, Some(&supported), &plain), ["c", "d"]);
        assert!(scopes(None, None, None, &plain).is_empty());
        let offline = Provider { scopes_supported: Some(list("x offline_access")), ..Provider::default() };
        assert_eq!(scopes(None, Some(&challenged), None, &offline), ["b", "offline_access"]);
    }

    // identity 8.1
    #[test]
    fn a_callback_counts_only_from_the_provider_that_was_asked() {
        let provider = |says| Provider {
            issuer: "https://login.example".into(),
            authorization_response_iss_parameter_supported: says,
            ..Provider::default()
        };
        let ours = "code=c&state=s&iss=https%3A%2F%2Flogin.example";
        let code = Ok(Callback::Code("c".into()));
        for (query, says, expected) in [
            (ours, true, code.clone()),
            (ours, false, code.clone()),
            ("code=c&state=s", false, code),
            ("code=c&state=s", true, Err(CallbackFault::OtherIssuer)),
            ("code=c&iss=https%3A%2F%2Fevil.example", false, Err(CallbackFault::OtherIssuer)),
            ("code=c&iss=https%3A%2F%2Flogin.example%2F", true, Err(CallbackFault::OtherIssuer)),
            ("error=access_denied&iss=https%3A%2F%2Fevil.example", true, Err(CallbackFault::OtherIssuer)),
            ("code=c&code=d", false, Err(CallbackFault::Empty)),
            ("state=s", false, Err(CallbackFault::Empty)),
        ] {
            assert_eq!(read_callback(query, &provider(says)), expected, "{query}");
        }
        let denied = read_callback("error=access_denied&error_description=no", &provider(false));
        assert_eq!(denied, Ok(Callback::Denied { error: "access_denied".into(), description: Some("no".into()) }));
    }
}
