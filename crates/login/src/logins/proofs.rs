//! Whose a browser is, where the people of the gateway come from a provider: the browser is sent there, and what it comes back with is
//! exchanged for an ID token. Whether that is about the person who asked is decided by whoever opens the ticket.

use std::time::Instant;

use tidings_config::{LoginConfig, LoginResource};

use super::Logins;
use crate::authorization::{AuthorizationRequest, Callback, fresh_secret, read_callback, state_of};
use crate::browser_proof::BrowserProof;
use crate::keeper::KeeperTools;
use crate::people_door::PersonProvider;
use crate::provider_http::ProviderReach;
use crate::provider_session::ProviderSession;
use crate::token_exchange::{TokenProof, clean};

/// The scope by which OpenID Connect asks for an ID token.
const OPENID: &str = "openid";

/// A browser that goes to a provider.
pub(crate) struct SentBrowser {
    pub(crate) url: String,
    pub(crate) state: String,
    pub(crate) cookie: String,
}

/// A browser that came back.
pub(crate) struct ReturnedBrowser {
    pub(crate) ticket: String,
    pub(crate) issuer: String,
    pub(crate) id_token: String,
    pub(crate) nonce: String,
}

/// Why a browser that came back is not known.
pub(crate) enum ProofFault {
    /// It was not sent from here, was here before, or took too long.
    Stale,
    /// What the provider says.
    Refused { issuer: String, reason: String },
}

impl Logins {
    /// Where browsers come back to that were to say whose they are.
    fn proof_redirect(&self) -> String {
        format!("{}/oauth/whoami", self.0.base.get().map_or("http://127.0.0.1", String::as_str))
    }

    fn proof_session<'s>(&'s self, settings: &'s LoginConfig) -> ProviderSession<'s> {
        let KeeperTools { http, vault, .. } = &*self.0.tools;
        // The configuration names it, and no server: it may be anywhere.
        ProviderSession { http, vault, settings, reach: ProviderReach::Anywhere }
    }

    /// Sends a browser that opened a ticket to the provider of who asked.
    pub(crate) async fn send_to_prove(&self, ticket: &str, to: &PersonProvider) -> Result<SentBrowser, String> {
        let settings = LoginConfig {
            client_id: Some(to.client_id.clone()),
            client_secret: to.client_secret.clone(),
            // An ID token is for a client and not for a resource.
            resource: LoginResource::Omitted,
            ..LoginConfig::default()
        };
        let described = self.proof_session(&settings).describe(&to.issuer).await;
        let provider = described.map_err(|fault| fault.to_string())?;
        let endpoint = provider.authorization_endpoint.clone();
        let endpoint = endpoint.ok_or_else(|| format!("the provider {} has no authorization endpoint", to.issuer))?;
        let (state, nonce, verifier, cookie) = (self.fresh_ticket(), fresh_secret(), fresh_secret(), fresh_secret());
        let request = AuthorizationRequest {
            client_id: &to.client_id,
            redirect: &self.proof_redirect(),
            state: &state,
            verifier: &verifier,
            scopes: &[OPENID.to_owned()],
            resource: None,
            nonce: Some(&nonce),
        };
        let url = request.url(&endpoint);
        let sent = SentBrowser { url, state: state.clone(), cookie: cookie.clone() };
        let (ticket, since) = (ticket.to_owned(), Instant::now());
        let proof = BrowserProof { ticket, state, nonce, verifier, cookie, provider, settings, since };
        self.0.proofs.lock().insert(proof, since);
        Ok(sent)
    }

    /// It came back.
    pub(crate) async fn returned(&self, query: &str, cookies: &[String]) -> Result<ReturnedBrowser, ProofFault> {
        let state = state_of(query).ok_or(ProofFault::Stale)?;
        let taken = self.0.proofs.lock().take(&state, cookies, Instant::now());
        let BrowserProof { ticket, nonce, verifier, provider, settings, .. } = taken.ok_or(ProofFault::Stale)?;
        let issuer = provider.issuer.clone();
        let refused = |reason: String| ProofFault::Refused { issuer: issuer.clone(), reason };
        let code = match read_callback(query, &provider).map_err(|fault| refused(fault.to_string()))? {
            Callback::Code(code) => code,
            Callback::Denied { error, description } => {
                let words = description.map(|words| format!(": {words}")).unwrap_or_default();
                return Err(refused(clean(&format!("it says {error}{words}"), &[])));
            }
        };
        let session = self.proof_session(&settings);
        // The settings are those of the moment when the browser left, which always have a client.
        let client = session.configured_client(&provider).ok_or(ProofFault::Stale)?;
        let proof = TokenProof::Code { code: &code, verifier: &verifier, redirect: &self.proof_redirect() };
        // Without scopes and without a resource: the code has them from the request (RFC 6749, 4.1.3).
        let tokens = session.tokens(&provider, &client, proof, &[], None).await;
        let tokens = tokens.map_err(|fault| refused(fault.to_string()))?;
        // Of all that it gave, this alone is looked at; the rest is dropped here.
        let id_token = tokens.identity.ok_or_else(|| refused("it gave no ID token".to_owned()))?;
        Ok(ReturnedBrowser { ticket, issuer, id_token, nonce })
    }

    /// Whether browsers reach the gateway over TLS alone: then its cookies go no other way.
    pub(crate) fn is_secure(&self) -> bool {
        self.0.base.get().is_some_and(|base| base.starts_with("https://"))
    }
}
