//! How a login begins: what there is to log in to, as which client, and where the person is sent.

use std::time::{Duration, Instant};

use tidings_config::{LoginConfig, LoginGrant};
use tokio::sync::watch;

use super::ending::fail;
use super::{BegunLogin, DeviceLogin, LoginFault, Logins};
use crate::authorization::{AuthorizationRequest, fresh_secret, scopes};
use crate::challenge::BearerChallenge;
use crate::client_registration::OAuthClient;
use crate::discovery::Discovered;
use crate::keeper::{Keeper, KeeperTools};
use crate::pending::{LIFE, LoginOutcome, PendingLogin};
use crate::provider_session::{ProviderSession, SessionFault};
use crate::token_exchange::{DeviceCodes, TokenFault, TokenProof};

/// The pause between two questions whether somebody has typed a code in, where the provider names none.
const DEVICE_PAUSE: u64 = 5;

impl Logins {
    /// Begins a login of somebody.
    pub async fn begin(&self, server: &str, asker: &str, by_device: bool) -> Result<BegunLogin, LoginFault> {
        let keeper = self.keeper_for(server, asker).await?;
        let settings = keeper.settings();
        if settings.grant.is_machine() {
            return Err(LoginFault::ByMachine(server.to_owned()));
        }
        if !self.is_connected().await {
            let why = "this replica is cut off from the others, which would not know of a login";
            return Err(LoginFault::Refused(why.to_owned()));
        }
        let by_device = by_device || settings.grant == LoginGrant::Device;
        // The fault is worded without knowing the server, which the remedy has to name.
        let refused = |fault: SessionFault| LoginFault::Refused(fault.to_string().replace("NAME", server));
        let session = self.session(&keeper, &settings).await;
        let (challenge, more) = keeper.wishes();
        let found = session.discover(keeper.address(), challenge.as_ref()).await;
        let found = found.map_err(SessionFault::Discovery).and_then(|found| found.ok_or(SessionFault::Nothing));
        let found = found.map_err(refused)?;
        let redirect = self.redirect();
        let document = self.client_document();
        let client = session.client(&found.provider, &redirect, document.as_deref()).await.map_err(refused)?;
        let scopes = wanted_scopes(&settings, challenge.as_ref(), &found, more.into_iter().collect());
        if by_device {
            let codes = session.device_codes(&found, &client, &scopes).await.map_err(refused)?;
            return Ok(self.begin_device(keeper, found, client, scopes, codes, asker));
        }
        let provider = &found.provider;
        if !provider.checks_pkce() && !settings.pkce_assumed {
            return Err(refused(SessionFault::NoPkce(provider.issuer.clone())));
        }
        let lacks = || SessionFault::Lacks(provider.issuer.clone(), "authorization endpoint");
        let endpoint = provider.authorization_endpoint.clone().ok_or_else(lacks).map_err(refused)?;
        let (state, verifier) = (self.fresh_ticket(), fresh_secret());
        let request = AuthorizationRequest {
            client_id: &client.id,
            redirect: &redirect,
            state: &state,
            verifier: &verifier,
            scopes: &scopes,
            resource: found.resource.as_deref(),
            nonce: None,
        };
        let (url, issuer) = (request.url(&endpoint), provider.issuer.clone());
        let login = PendingLogin {
            keeper,
            found,
            client,
            scopes,
            redirect,
            verifier,
            state,
            url: url.clone(),
            asker: asker.to_owned(),
            cookie: None,
            since: Instant::now(),
            outcome: watch::Sender::new(LoginOutcome::Waiting),
        };
        let ticket = self.keep_pending(login);
        Ok(BegunLogin { ticket, authorize: Some(url), device: None, issuer, expires_in: LIFE.as_secs() })
    }

    fn keep_pending(&self, login: PendingLogin) -> String {
        let ticket = self.fresh_ticket();
        self.0.pending.lock().insert(ticket.clone(), login, Instant::now());
        ticket
    }

    pub(super) async fn session<'s>(&'s self, keeper: &Keeper, settings: &'s LoginConfig) -> ProviderSession<'s> {
        let KeeperTools { http, vault, .. } = &*self.0.tools;
        ProviderSession { http, vault, settings, reach: keeper.reach().await }
    }

    fn begin_device(
        &self,
        keeper: Keeper,
        found: Discovered,
        client: OAuthClient,
        scopes: Vec<String>,
        codes: DeviceCodes,
        asker: &str,
    ) -> BegunLogin {
        let login = PendingLogin {
            keeper,
            found,
            client,
            scopes,
            // No browser comes back: an empty state is what `take_state` and the pages of tickets refuse.
            redirect: String::new(),
            verifier: String::new(),
            state: String::new(),
            url: String::new(),
            asker: asker.to_owned(),
            cookie: None,
            since: Instant::now(),
            outcome: watch::Sender::new(LoginOutcome::Waiting),
        };
        let device = DeviceLogin {
            url: codes.verification_uri.clone(),
            code: codes.user_code.clone(),
            url_with_code: codes.verification_uri_complete.clone(),
        };
        let (issuer, expires_in) = (login.found.provider.issuer.clone(), codes.expires_in.unwrap_or(LIFE.as_secs()));
        // A clone with the same outcome inside: the row is for whoever asks how it went, the other for the task.
        let ticket = self.keep_pending(login.clone());
        let (logins, stop) = (self.clone(), self.0.tools.stop.clone());
        self.0.tools.tasks.spawn(async move {
            tokio::select! {
                () = logins.follow_device(login, codes) => {}
                () = stop.cancelled() => {}
            }
        });
        BegunLogin { ticket, authorize: None, device: Some(device), issuer, expires_in }
    }

    /// Asks the provider until somebody has typed the code in, or it is too late.
    async fn follow_device(&self, login: PendingLogin, codes: DeviceCodes) {
        let settings = login.keeper.settings();
        let session = self.session(&login.keeper, &settings).await;
        // A provider that says 0 would be asked without a pause; one that says an hour would let the code end first.
        let mut pause = Duration::from_secs(codes.interval.unwrap_or(DEVICE_PAUSE).clamp(1, 60));
        // An hour bounds the task, whatever the provider says.
        let life = Duration::from_secs(codes.expires_in.unwrap_or(LIFE.as_secs()).min(3_600));
        let end = login.since + life;
        while Instant::now() < end {
            tokio::time::sleep(pause).await;
            let resource = login.found.resource.as_deref();
            let proof = TokenProof::Device(&codes.device_code);
            match session.tokens(&login.found.provider, &login.client, proof, &login.scopes, resource).await {
                Ok(tokens) => return self.finish(&login, tokens).await,
                Err(SessionFault::Token(TokenFault::Rejected { error, .. })) if error == "authorization_pending" => {}
                Err(SessionFault::Token(TokenFault::Rejected { error, .. })) if error == "slow_down" => {
                    // Five seconds, for this and all later requests (RFC 8628, 3.5).
                    pause += Duration::from_secs(5);
                }
                Err(SessionFault::Token(TokenFault::Unavailable { .. })) => {
                    // Twice as long after a time without an answer (RFC 8628, 3.5).
                    pause = (pause * 2).min(Duration::from_secs(60))
                }
                Err(fault) => return fail(&login, fault.to_string()),
            }
        }
        fail(&login, "nobody typed the code in".to_owned());
    }
}

/// What is asked for: the union where the server wanted more than it was given.
fn wanted_scopes(
    settings: &LoginConfig,
    challenge: Option<&BearerChallenge>,
    found: &Discovered,
    more: Vec<String>,
) -> Vec<String> {
    let challenged = challenge.and_then(|challenge| challenge.scopes.as_deref());
    let configured = settings.scopes.as_deref();
    let mut all = scopes(configured, challenged, found.scopes.as_deref(), &found.provider);
    for scope in more {
        if !all.contains(&scope) {
            all.push(scope);
        }
    }
    all
}
