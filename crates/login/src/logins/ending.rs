//! How a login ends: a browser comes back, what it brings is exchanged and kept, and the server is connected; and how somebody logs out.

use std::time::{Duration, Instant};

use tidings_config::LoginConfig;

use super::{LoginFault, Logins};
use crate::authorization::{Callback, read_callback, state_of};
use crate::grant_record::GrantRecord;
use crate::keeper::Keeper;
use crate::pending::{LoginOutcome, PendingLogin};
use crate::provider_session::SessionFault;
use crate::token_exchange::{TokenFault, TokenProof, Tokens, clean};

/// How long the server may take to be there after a login.
const CONNECTED: Duration = Duration::from_secs(60);

/// Who comes with the end of a login.
#[derive(Clone, Copy, Debug)]
pub enum LoginBearer<'a> {
    /// A browser with these cookies.
    Browser(&'a [String]),
    /// Somebody who pastes where the browser came to: has to be who began.
    Asker(&'a str),
}

/// A login that came to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompletedLogin {
    /// The server.
    pub server: String,
    /// Whether it is for one person alone.
    pub is_personal: bool,
}

impl Logins {
    /// A browser came back, or somebody pastes what it came back with.
    pub async fn complete(&self, query: &str, by: LoginBearer<'_>) -> Result<CompletedLogin, LoginFault> {
        let state = state_of(query).ok_or(LoginFault::Stale)?;
        let may_end = |login: &PendingLogin| match by {
            LoginBearer::Asker(name) => login.asker == name,
            LoginBearer::Browser(cookies) => login.cookie.as_ref().is_some_and(|cookie| cookies.contains(cookie)),
        };
        let taken = self.0.pending.lock().take_state(&state, Instant::now(), may_end);
        let login = taken.ok_or(LoginFault::Stale)?;
        let settings = login.keeper.settings();
        let outcome = self.exchange(&login, &settings, query).await;
        match outcome {
            Ok(tokens) => self.finish(&login, tokens).await,
            Err(reason) => fail(&login, reason),
        }
        match login.outcome.borrow().clone() {
            LoginOutcome::Failed(reason) => Err(LoginFault::Refused(reason)),
            LoginOutcome::Done | LoginOutcome::Waiting => {
                let (server, is_personal) = (login.keeper.name().to_owned(), login.keeper.person().is_some());
                Ok(CompletedLogin { server, is_personal })
            }
        }
    }

    async fn exchange(&self, login: &PendingLogin, settings: &LoginConfig, query: &str) -> Result<Tokens, String> {
        let provider = &login.found.provider;
        let code = match read_callback(query, provider).map_err(|fault| fault.to_string())? {
            Callback::Code(code) => code,
            Callback::Denied { error, description } => {
                let words = description.map(|words| format!(": {words}")).unwrap_or_default();
                return Err(clean(&format!("the provider says {error}{words}"), &[]));
            }
        };
        let session = self.session(&login.keeper, settings).await;
        let proof = TokenProof::Code { code: &code, verifier: &login.verifier, redirect: &login.redirect };
        let resource = login.found.resource.as_deref();
        let tokens = session.tokens(provider, &login.client, proof, &login.scopes, resource).await;
        if let Err(SessionFault::Token(TokenFault::Rejected { error, .. })) = &tokens
            // Only for this error: a code that was refused says nothing about the client.
            && error == "invalid_client"
        {
            // The next login registers anew.
            session.forget_client(provider, &login.redirect).await;
        }
        tokens.map_err(|fault| fault.to_string())
    }

    /// Keeps what was given, and has the server connected.
    pub(super) async fn finish(&self, login: &PendingLogin, tokens: Tokens) {
        let mut record = GrantRecord {
            provider: login.found.provider.clone(),
            client: login.client.clone(),
            resource: login.found.resource.clone(),
            scopes: login.scopes.clone(),
            granted: None,
            access: String::new(),
            refresh: None,
            expires: None,
            by_machine: false,
        };
        record.take(tokens);
        let outcome = match login.keeper.logged_in(record).await {
            // The login is kept even where the server does not come up: that may be for another reason.
            Ok(()) => match self.reconnect(&login.keeper, true).await {
                Ok(()) => LoginOutcome::Done,
                Err(reason) => LoginOutcome::Failed(format!("logged in, but {reason}")),
            },
            Err(reason) => LoginOutcome::Failed(reason),
        };
        tracing::info!(server = %login.keeper.name(), issuer = %login.found.provider.issuer, ok = outcome == LoginOutcome::Done, "login");
        login.outcome.send_replace(outcome);
    }

    /// `is_in`: whether somebody has logged in, and not out.
    async fn reconnect(&self, keeper: &Keeper, is_in: bool) -> Result<(), String> {
        let server = keeper.name().to_owned();
        let connecting = match keeper.person() {
            Some(person) => self.0.person_moved.get().map(|moved| moved(server, person.to_owned(), is_in)),
            None => self.0.reconnect.get().map(|reconnect| reconnect(server)),
        };
        // Before the wiring is done nobody connects anything: the token is there for the first link.
        let Some(connecting) = connecting else { return Ok(()) };
        let late = Err("the server was not there in time".to_owned());
        tokio::time::timeout(CONNECTED, connecting).await.unwrap_or(late)
    }

    /// Forgets the login of a server, that of who asks where each person has one, and ends it at the provider.
    pub async fn log_out(&self, server: &str, asker: &str) -> Result<bool, LoginFault> {
        let keeper = self.keeper_for(server, asker).await?;
        // First here, then at the provider: also where that does not answer, the token is in use no longer.
        let record = keeper.logged_out().await.map_err(LoginFault::Refused)?;
        if let Some(record) = &record {
            keeper.revoke(record).await;
            // It is not let in any more, and says so.
            let _ = self.reconnect(&keeper, false).await;
        }
        Ok(record.is_some())
    }
}

pub(super) fn fail(login: &PendingLogin, reason: String) {
    tracing::info!(server = %login.keeper.name(), %reason, "a login failed");
    login.outcome.send_replace(LoginOutcome::Failed(reason));
}
