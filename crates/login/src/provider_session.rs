//! The conversations with a provider: finding it, becoming its client, getting, renewing and ending tokens. Each is a few requests,
//! worded elsewhere; here they are sent.

use tidings_config::{LoginConfig, LoginGrant};
use tidings_store::VaultTable;

use crate::challenge::BearerChallenge;
use crate::client_assertion;
use crate::client_registration::{ClientProof, OAuthClient, registered, registration_request};
use crate::discovery::{Discovered, Discovery, DiscoveryFault, DiscoveryStep};
use crate::grant_record::{GrantRecord, unix_now};
use crate::metadata::Provider;
use crate::provider_http::{ProviderHttp, ProviderReach, TOKENS_WITHIN, WITHIN, retry_after};
use crate::token_exchange::{
    DeviceCodes, TokenFault, TokenProof, TokenRequest, Tokens, clean, device_request, read_tokens, revocation_request,
    token_request,
};
use crate::web_address::WebAddress;

/// What the vault calls a client that was registered.
const CLIENT: &str = "client";

/// Why a login can not be begun or ended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SessionFault {
    #[error("{0}")]
    Discovery(DiscoveryFault),
    #[error("the server names no provider to log in to; if it takes a key, set `headers` for it")]
    Nothing,
    #[error("the provider {0} registers no clients; make one there, and set `client_id` in [servers.NAME.auth]")]
    NoClient(String),
    #[error("the provider {issuer} did not register a client: {reason}")]
    Unregistered { issuer: String, reason: String },
    #[error("the provider {0} has no {1}")]
    Lacks(String, &'static str),
    #[error(
        "the provider {0} does not say that it checks PKCE, so a code could be used by others; if it does all the same: pkce = \"assumed\""
    )]
    NoPkce(String),
    #[error("{0}")]
    Key(String),
    #[error("{0}")]
    Token(TokenFault),
}

/// The provider of one server, and the way to it.
pub(crate) struct ProviderSession<'a> {
    pub(crate) http: &'a ProviderHttp,
    pub(crate) vault: &'a VaultTable,
    pub(crate) settings: &'a LoginConfig,
    pub(crate) reach: ProviderReach,
}

impl ProviderSession<'_> {
    /// Finds out what there is to log in to. `None`: nothing.
    pub(crate) async fn discover(
        &self,
        server: &WebAddress,
        challenge: Option<&BearerChallenge>,
    ) -> Result<Option<Discovered>, DiscoveryFault> {
        self.walk(Discovery::new(server.clone(), challenge, self.settings)).await
    }

    /// What the provider with this name says of itself.
    pub(crate) async fn describe(&self, issuer: &str) -> Result<Provider, DiscoveryFault> {
        let nowhere = || DiscoveryFault::Undescribed { issuer: issuer.to_owned() };
        let address = WebAddress::parse(issuer).ok_or_else(nowhere)?;
        let found = self.walk(Discovery::of_provider(&address, issuer, self.settings)).await?;
        found.map(|found| found.provider).ok_or_else(nowhere)
    }

    async fn walk(&self, mut discovery: Discovery<'_>) -> Result<Option<Discovered>, DiscoveryFault> {
        loop {
            match discovery.next() {
                DiscoveryStep::Get(url) => {
                    self.http.answer(&url, self.reach, |answer| discovery.answer(answer)).await;
                }
                DiscoveryStep::Found(found) => return Ok(Some(*found)),
                DiscoveryStep::Nothing => return Ok(None),
                DiscoveryStep::Failed(fault) => return Err(fault),
            }
        }
    }

    /// The client that the gateway is for a provider: the configured one, one that a document describes, one that was registered.
    pub(crate) async fn client(
        &self,
        provider: &Provider,
        redirect: &str,
        document: Option<&str>,
    ) -> Result<OAuthClient, SessionFault> {
        if let Some(client) = self.configured_client(provider) {
            return Ok(client);
        }
        let document = self.settings.client_metadata_url.as_deref().or(document);
        // Before a registration: nothing is made at the provider, and nothing has to be kept here.
        if let Some(document) = document.filter(|_| provider.client_id_metadata_document_supported) {
            return Ok(OAuthClient { id: document.to_owned(), secret: None, proof: ClientProof::None });
        }
        let Some(endpoint) = &provider.registration_endpoint else {
            return Err(SessionFault::NoClient(provider.issuer.clone()));
        };
        // The redirect is part of the name: a client is registered for that one, and the gateway may be reached
        // elsewhere now.
        let place = client_place(&provider.issuer, redirect);
        if let Some(client) = self.kept_client(&place).await {
            return Ok(client);
        }
        let is_native = WebAddress::parse(redirect).is_some_and(|address| address.is_loopback());
        let body = registration_request(provider, redirect, is_native);
        let unregistered = |reason| SessionFault::Unregistered { issuer: provider.issuer.clone(), reason };
        let answer = self.http.post_json(endpoint, self.reach, &body).await.map_err(unregistered)?;
        if !answer.status().is_success() {
            let said = clean(&String::from_utf8_lossy(answer.body()), &[]);
            return Err(unregistered(format!("HTTP status {}: {said}", answer.status().as_u16())));
        }
        let client = registered(provider, answer.body())
            .ok_or_else(|| unregistered("its answer holds no client_id".to_owned()))?;
        self.keep_client(place, &client).await;
        Ok(client)
    }

    /// The client of the configuration, if it names one.
    pub(crate) fn configured_client(&self, provider: &Provider) -> Option<OAuthClient> {
        let id = self.settings.client_id.clone()?;
        let secret = self.settings.client_secret.clone();
        let proof = match &secret {
            // Before the secret: whoever sets a key means it, also where a secret is left over.
            _ if self.settings.client_key.is_some() => ClientProof::Key,
            Some(_) => ClientProof::of_secret(provider),
            None => ClientProof::None,
        };
        Some(OAuthClient { id, secret, proof })
    }

    async fn kept_client(&self, place: &str) -> Option<OAuthClient> {
        let (vault, place) = (self.vault.clone(), place.to_owned());
        let kept = tokio::task::spawn_blocking(move || vault.get(CLIENT, &place)).await.ok()?;
        serde_json::from_slice(&kept.ok()??).ok()
    }

    async fn keep_client(&self, place: String, client: &OAuthClient) {
        let (vault, text) = (self.vault.clone(), serde_json::to_vec(client).unwrap_or_default());
        let kept = tokio::task::spawn_blocking(move || vault.put(CLIENT, &place, &text)).await;
        if !matches!(kept, Ok(Ok(()))) {
            // Another is registered next time, which costs one request.
            tracing::warn!("the client that a provider has registered could not be kept");
        }
    }

    /// Forgets a client that its provider does not know any more.
    pub(crate) async fn forget_client(&self, provider: &Provider, redirect: &str) {
        let (vault, place) = (self.vault.clone(), client_place(&provider.issuer, redirect));
        let _ = tokio::task::spawn_blocking(move || vault.remove(CLIENT, &place)).await;
    }

    /// Gets tokens.
    pub(crate) async fn tokens(
        &self,
        provider: &Provider,
        client: &OAuthClient,
        proof: TokenProof<'_>,
        scopes: &[String],
        resource: Option<&str>,
    ) -> Result<Tokens, SessionFault> {
        let endpoint = provider.token_endpoint.as_deref();
        let endpoint = endpoint.ok_or_else(|| SessionFault::Lacks(provider.issuer.clone(), "token endpoint"))?;
        let signed = self.signed(provider, client)?;
        let request = token_request(client, proof, scopes, resource, signed.as_deref());
        // Providers repeat what they were sent in the words of their errors, and those stand in logs and pages.
        let mut secrets: Vec<&str> = client.secret.as_deref().into_iter().chain(signed.as_deref()).collect();
        match proof {
            TokenProof::Code { code, verifier, .. } => secrets.extend([code, verifier]),
            TokenProof::Refresh(secret) | TokenProof::Device(secret) | TokenProof::Assertion(secret) => {
                secrets.push(secret);
            }
            TokenProof::ClientCredentials => {}
        }
        self.ask_for_tokens(endpoint, request, &secrets).await.map_err(SessionFault::Token)
    }

    async fn ask_for_tokens(
        &self,
        endpoint: &str,
        request: TokenRequest,
        secrets: &[&str],
    ) -> Result<Tokens, TokenFault> {
        let answer = self.http.post_form(endpoint, self.reach, request, TOKENS_WITHIN).await;
        let answer = answer.map_err(|reason| TokenFault::Unavailable { reason, after: None })?;
        read_tokens(answer.status(), retry_after(&answer), answer.body(), secrets)
    }

    /// The statement of a client with a key.
    fn signed(&self, provider: &Provider, client: &OAuthClient) -> Result<Option<String>, SessionFault> {
        if client.proof != ClientProof::Key {
            return Ok(None);
        }
        let key = self.settings.client_key.as_deref();
        let key = key.ok_or_else(|| SessionFault::Key("`client_key` is not set any more".to_owned()))?;
        let signed = client_assertion::sign(key, &client.id, &provider.issuer, unix_now());
        signed.map(Some).map_err(|fault| SessionFault::Key(fault.to_string()))
    }

    /// A new token for a grant, as its kind has it.
    pub(crate) async fn renew(&self, record: &GrantRecord) -> Result<Tokens, SessionFault> {
        let GrantRecord { provider, client, resource, scopes, .. } = record;
        let resource = resource.as_deref();
        match (&record.refresh, record.by_machine) {
            // A machine's refresh token is not used (RFC 6749, 4.4.3 says that there should be none): logging in anew
            // costs the same.
            (_, true) => self.by_machine(provider, client, scopes, resource).await,
            (Some(refresh), false) => {
                self.tokens(provider, client, TokenProof::Refresh(refresh), scopes, resource).await
            }
            (None, false) => {
                let error = "there is no refresh token".to_owned();
                Err(SessionFault::Token(TokenFault::Rejected { error, description: None }))
            }
        }
    }

    /// A token for the gateway itself.
    pub(crate) async fn by_machine(
        &self,
        provider: &Provider,
        client: &OAuthClient,
        scopes: &[String],
        resource: Option<&str>,
    ) -> Result<Tokens, SessionFault> {
        if self.settings.grant != LoginGrant::JwtBearer {
            return self.tokens(provider, client, TokenProof::ClientCredentials, scopes, resource).await;
        }
        let missing = || SessionFault::Key("`assertion` names no file".to_owned());
        let path = self.settings.assertion.clone().ok_or_else(missing)?;
        // Read each time: whoever writes it replaces it before it ends.
        let read = tokio::fs::read_to_string(&path).await;
        let assertion = read.map_err(|error| SessionFault::Key(format!("{}: {error}", path.display())))?;
        self.tokens(provider, client, TokenProof::Assertion(assertion.trim()), scopes, resource).await
    }

    /// Begins the device grant.
    pub(crate) async fn device_codes(
        &self,
        found: &Discovered,
        client: &OAuthClient,
        scopes: &[String],
    ) -> Result<DeviceCodes, SessionFault> {
        let provider = &found.provider;
        let endpoint = provider.device_authorization_endpoint.as_deref();
        let endpoint = endpoint.ok_or_else(|| SessionFault::Lacks(provider.issuer.clone(), "device grant"))?;
        let signed = self.signed(provider, client)?;
        let request = device_request(client, scopes, found.resource.as_deref(), signed.as_deref());
        let unavailable = |reason| SessionFault::Token(TokenFault::Unavailable { reason, after: None });
        let answer = self.http.post_form(endpoint, self.reach, request, WITHIN).await.map_err(unavailable)?;
        // By its content and not by its status: what holds codes is an answer, and everything else is read as an error.
        serde_json::from_slice(answer.body()).map_err(|_| {
            let refused = read_tokens(answer.status(), None, answer.body(), &[]).err();
            SessionFault::Token(refused.unwrap_or_else(|| TokenFault::Rejected {
                error: "the answer of the device endpoint holds no code".to_owned(),
                description: None,
            }))
        })
    }

    /// Ends a grant at the provider, if it has a way to. Best effort: it is forgotten here in any case.
    pub(crate) async fn revoke(&self, record: &GrantRecord) {
        let Some(endpoint) = &record.provider.revocation_endpoint else { return };
        // The refresh token first: with it the provider ends the whole grant (RFC 7009, 2.1), also if the second
        // request is lost.
        for token in record.refresh.iter().chain(std::iter::once(&record.access)) {
            let Ok(signed) = self.signed(&record.provider, &record.client) else { return };
            let request = revocation_request(&record.client, token, signed.as_deref());
            if let Err(error) = self.http.post_form(endpoint, self.reach, request, WITHIN).await {
                tracing::warn!(issuer = %record.provider.issuer, %error, "a token could not be revoked");
            }
        }
    }
}

fn client_place(issuer: &str, redirect: &str) -> String {
    format!("{issuer} {redirect}")
}
