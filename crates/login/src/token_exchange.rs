//! What is said to a token endpoint, and what it answers (RFC 6749, 7523, 8628): forms and JSON, without I/O.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::StatusCode;
use serde::Deserialize;

use crate::client_registration::{ClientProof, DEVICE_GRANT, OAuthClient};
use crate::web_address::{encode_fields, encode_value};

/// The type of an assertion that a key of the client signed.
const JWT_PROOF: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";
/// The grant of RFC 7523.
const JWT_GRANT: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";
/// How much of a provider's words is repeated.
const EXCERPT: usize = 200;

/// What a token is asked for by.
#[derive(Clone, Copy)]
pub(crate) enum TokenProof<'a> {
    Code { code: &'a str, verifier: &'a str, redirect: &'a str },
    Refresh(&'a str),
    Device(&'a str),
    ClientCredentials,
    Assertion(&'a str),
}

/// A request to the token endpoint: its body, and the header by which the client proves itself.
pub(crate) struct TokenRequest {
    pub(crate) body: String,
    pub(crate) authorization: Option<String>,
}

/// Makes the request. `signed`: the assertion of a client that has a key.
pub(crate) fn token_request(
    client: &OAuthClient,
    proof: TokenProof<'_>,
    scopes: &[String],
    resource: Option<&str>,
    signed: Option<&str>,
) -> TokenRequest {
    let scopes = scopes.join(" ");
    let mut fields = match proof {
        TokenProof::Code { code, verifier, redirect } => vec![
            ("grant_type", "authorization_code"),
            ("code", code),
            ("code_verifier", verifier),
            ("redirect_uri", redirect),
        ],
        TokenProof::Refresh(token) => vec![("grant_type", "refresh_token"), ("refresh_token", token)],
        TokenProof::Device(code) => vec![("grant_type", DEVICE_GRANT), ("device_code", code)],
        TokenProof::ClientCredentials => vec![("grant_type", "client_credentials")],
        TokenProof::Assertion(assertion) => vec![("grant_type", JWT_GRANT), ("assertion", assertion)],
    };
    // The others have their scopes from what came before.
    if matches!(proof, TokenProof::ClientCredentials | TokenProof::Assertion(_)) && !scopes.is_empty() {
        fields.push(("scope", &scopes));
    }
    // In each of them, also with a code or a refresh token: MCP asks for it, and RFC 8707, 2.2 allows it.
    if let Some(resource) = resource {
        fields.push(("resource", resource));
    }
    let authorization = prove(client, &mut fields, signed);
    TokenRequest { body: encode_fields(fields), authorization }
}

/// The request that ends a grant (RFC 7009).
pub(crate) fn revocation_request(client: &OAuthClient, token: &str, signed: Option<&str>) -> TokenRequest {
    let mut fields = vec![("token", token)];
    let authorization = prove(client, &mut fields, signed);
    TokenRequest { body: encode_fields(fields), authorization }
}

/// The request that begins the device grant.
pub(crate) fn device_request(
    client: &OAuthClient,
    scopes: &[String],
    resource: Option<&str>,
    signed: Option<&str>,
) -> TokenRequest {
    let scopes = scopes.join(" ");
    let mut fields = Vec::new();
    if !scopes.is_empty() {
        fields.push(("scope", scopes.as_str()));
    }
    if let Some(resource) = resource {
        fields.push(("resource", resource));
    }
    let authorization = prove(client, &mut fields, signed);
    TokenRequest { body: encode_fields(fields), authorization }
}

/// Adds what proves the client; gives the header, where it is one.
fn prove<'a>(client: &'a OAuthClient, fields: &mut Vec<(&'a str, &'a str)>, signed: Option<&'a str>) -> Option<String> {
    match (client.proof, &client.secret) {
        (ClientProof::Basic, Some(secret)) => {
            // Beside the header, which is all that RFC 6749 asks for: the authorization server of the PyPI SDK looks for it here only.
            fields.push(("client_id", &client.id));
            // Each part is encoded as a form before the two are joined (RFC 6749, 2.3.1).
            let pair = format!("{}:{}", encode_value(&client.id), encode_value(secret));
            return Some(format!("Basic {}", STANDARD.encode(pair)));
        }
        (ClientProof::Post, Some(secret)) => {
            fields.push(("client_id", &client.id));
            fields.push(("client_secret", secret));
        }
        (ClientProof::Key, _) => {
            fields.push(("client_id", &client.id));
            if let Some(signed) = signed {
                fields.push(("client_assertion_type", JWT_PROOF));
                fields.push(("client_assertion", signed));
            }
        }
        // Also a client that should have a secret and has none: the provider's refusal says more than a fault of ours.
        _ => fields.push(("client_id", &client.id)),
    }
    None
}

/// Tokens, as a provider gave them.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Tokens {
    pub(crate) access: String,
    pub(crate) refresh: Option<String>,
    pub(crate) lives: Option<Duration>,
    pub(crate) scopes: Option<Vec<String>>,
    /// What it says of who has logged in, where that was asked for.
    pub(crate) identity: Option<String>,
}

/// Why a provider gave none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TokenFault {
    /// It says no: the error of the standard, and its words.
    Rejected { error: String, description: Option<String> },
    /// It did not answer, or is out of order. With the pause that it asks for.
    Unavailable { reason: String, after: Option<Duration> },
}

impl std::fmt::Display for TokenFault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Rejected { error, description: Some(words) } => write!(f, "{error}: {words}"),
            Self::Rejected { error, description: None } => write!(f, "{error}"),
            Self::Unavailable { reason, .. } => write!(f, "{reason}"),
        }
    }
}

/// Reads the answer of a token endpoint. `secrets`: what was sent, and must not be repeated by whoever words the fault.
pub(crate) fn read_tokens(
    status: StatusCode,
    after: Option<Duration>,
    body: &[u8],
    secrets: &[&str],
) -> Result<Tokens, TokenFault> {
    #[derive(Deserialize)]
    struct Given {
        access_token: String,
        token_type: Option<String>,
        expires_in: Option<serde_json::Value>,
        refresh_token: Option<String>,
        scope: Option<String>,
        id_token: Option<String>,
    }
    #[derive(Deserialize)]
    struct Refused {
        error: String,
        error_description: Option<String>,
    }
    if status.is_success() {
        let given: Given = serde_json::from_slice(body).map_err(|_| TokenFault::Rejected {
            error: "the answer of the token endpoint holds no token".into(),
            description: None,
        })?;
        // Another type (DPoP, MAC) wants a proof with each request, which links do not make.
        if given.token_type.as_deref().is_some_and(|kind| !kind.eq_ignore_ascii_case("bearer")) {
            let error = "the provider gives tokens of a type other than bearer".into();
            return Err(TokenFault::Rejected { error, description: None });
        }
        // Some send the number as a string.
        let seconds = given.expires_in.and_then(|value| value.as_u64().or_else(|| value.as_str()?.parse().ok()));
        return Ok(Tokens {
            access: given.access_token,
            // An empty one would replace the good one that is kept.
            refresh: given.refresh_token.filter(|token| !token.is_empty()),
            lives: seconds.map(Duration::from_secs),
            scopes: given.scope.map(|scope| scope.split_whitespace().map(str::to_owned).collect()),
            identity: given.id_token,
        });
    }
    let is_passing = status.is_server_error()
        || matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_EARLY);
    // A status that passes wins over what the body says: gateways in front of providers word their own errors.
    match serde_json::from_slice::<Refused>(body) {
        Ok(refused) if !is_passing => Err(TokenFault::Rejected {
            error: clean(&refused.error, secrets),
            description: refused.error_description.map(|words| clean(&words, secrets)),
        }),
        _ => {
            let reason = format!("the token endpoint answered with HTTP status {}", status.as_u16());
            Err(TokenFault::Unavailable { reason, after })
        }
    }
}

/// The words of somebody else, short, without control characters, and without what they must not repeat.
pub(crate) fn clean(text: &str, secrets: &[&str]) -> String {
    // First: control characters inside a secret that is repeated would hide it from the search.
    let mut text: String = text.chars().filter(|c| !c.is_control()).collect();
    for secret in secrets.iter().filter(|secret| !secret.is_empty()) {
        text = text.replace(secret, "…");
    }
    text.chars().take(EXCERPT).collect()
}

/// The codes of a device grant.
#[derive(Clone, Deserialize)]
pub(crate) struct DeviceCodes {
    pub(crate) device_code: String,
    pub(crate) user_code: String,
    // The word of some providers from before RFC 8628.
    #[serde(alias = "verification_url")]
    pub(crate) verification_uri: String,
    pub(crate) verification_uri_complete: Option<String>,
    pub(crate) expires_in: Option<u64>,
    pub(crate) interval: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::web_address::{decode_fields, single};

    fn client(proof: ClientProof) -> OAuthClient {
        OAuthClient { id: "a b".into(), secret: Some("s:1".into()), proof }
    }

    // identity 8.1
    #[test]
    fn a_client_proves_itself_the_way_that_was_agreed() {
        let of =
            |proof| token_request(&client(proof), TokenProof::Refresh("r"), &[], Some("https://x"), Some("signed"));
        let basic = of(ClientProof::Basic);
        assert_eq!(basic.authorization.as_deref(), Some("Basic YSUyMGI6cyUzQTE="));
        assert!(!basic.body.contains("client_secret"), "{}", basic.body);
        assert_eq!(single(&decode_fields(&basic.body), "client_id"), Some("a b"));
        let post = decode_fields(&of(ClientProof::Post).body);
        assert_eq!((single(&post, "client_id"), single(&post, "client_secret")), (Some("a b"), Some("s:1")));
        let key = decode_fields(&of(ClientProof::Key).body);
        assert_eq!((single(&key, "client_assertion"), single(&key, "client_secret")), (Some("signed"), None));
        let none = decode_fields(&of(ClientProof::None).body);
        assert_eq!((single(&none, "client_id"), single(&none, "resource")), (Some("a b"), Some("https://x")));
    }

    #[test]
    fn answers_are_told_apart() {
        let read = |status: u16, body: &str| {
            read_tokens(StatusCode::from_u16(status).expect("a status"), None, body.as_bytes(), &["hunter2"])
        };
        let tokens = read(200, r#"{"access_token":"a","token_type":"Bearer","expires_in":"60","scope":"x y"}"#);
        let tokens = tokens.map_err(|fault| fault.to_string()).expect("tokens");
        assert_eq!((tokens.access.as_str(), tokens.lives), ("a", Some(Duration::from_secs(60))));
        let rejected = read(400, r#"{"error":"invalid_grant","error_description":"no\n hunter2"}"#);
        assert_eq!(rejected.err().map(|fault| fault.to_string()).as_deref(), Some("invalid_grant: no …"));
        for (status, body) in
            [(503, "{}"), (429, r#"{"error":"slow_down"}"#), (404, "<html>"), (500, r#"{"error":"x"}"#)]
        {
            assert!(matches!(read(status, body), Err(TokenFault::Unavailable { .. })), "{status}");
        }
        assert!(matches!(read(200, "{}"), Err(TokenFault::Rejected { .. })));
        let dpop = read(200, r#"{"access_token":"a","token_type":"DPoP"}"#);
        assert!(matches!(dpop, Err(TokenFault::Rejected { .. })));
    }
}
