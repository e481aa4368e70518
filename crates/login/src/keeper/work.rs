//! What the machine wants and takes time: finding the provider, renewing the token, saving it.

use std::time::Instant;

use http::HeaderValue;
use tidings_config::LoginConfig;
use tidings_hub::grant_keeper::{ClaimOutcome, GrantCommand, GrantEvent, RenewalFault};
use tidings_upstream::HeldCredential;

use super::place::GRANT;
use super::{Keeper, KeeperState, KeeperTools};
use crate::authorization;
use crate::challenge::BearerChallenge;
use crate::discovery::{Discovered, DiscoveryFault};
use crate::grant_record::GrantRecord;
use crate::provider_session::{ProviderSession, SessionFault};
use crate::token_exchange::{TokenFault, Tokens};

impl Keeper {
    pub(super) async fn carry_out(&self, command: GrantCommand) {
        match command {
            GrantCommand::Discover => {
                let event = self.discover().await;
                self.tell(event);
            }
            GrantCommand::Claim(attempt) => {
                let outcome = match &self.0.shared {
                    Some(shared) => self.claim(shared, attempt).await,
                    None => ClaimOutcome::Granted,
                };
                self.tell(GrantEvent::Claim(attempt, outcome));
            }
            GrantCommand::Tell(reason) => {
                if let Some(shared) = &self.0.shared
                    && !self.tell_need(shared, reason).await
                {
                    self.tell(GrantEvent::Untold);
                }
            }
            GrantCommand::Renew(attempt) => self.renew(attempt).await,
            GrantCommand::Save => {
                let event = if self.save().await { GrantEvent::Saved } else { GrantEvent::SaveFailed };
                self.tell(event);
            }
            // Done already, at once.
            GrantCommand::Use(_) | GrantCommand::Withdraw => {}
        }
    }

    pub(super) fn publish(&self, state: &KeeperState, generation: u64) {
        let header = state.record.as_ref().and_then(|record| {
            let mut header = HeaderValue::try_from(format!("Bearer {}", record.access)).ok()?;
            // Keeps the token out of debug output.
            header.set_sensitive(true);
            Some(header)
        });
        // A token that no header can hold is as good as none: the server refuses what carries none, and that is told.
        self.0.held.send_replace(header.map(|header| HeldCredential { generation, header }));
    }

    async fn discover(&self) -> GrantEvent {
        let (settings, challenge) = {
            let state = self.0.state.lock();
            (state.settings.clone(), state.challenge.clone())
        };
        let reach = self.reach().await;
        let KeeperTools { http, vault, .. } = &*self.0.tools;
        let session = ProviderSession { http, vault, settings: &settings, reach };
        let found = session.discover(&self.0.address, challenge.as_ref()).await;
        let machine_grant = settings.grant.is_machine();
        match found {
            Ok(None) => GrantEvent::NothingThere,
            Ok(Some(found)) if machine_grant => match machine_record(&session, &settings, found, challenge.as_ref()) {
                Ok(record) => {
                    self.0.state.lock().record = Some(record);
                    GrantEvent::Discovered { by_machine: true }
                }
                Err(fault) => {
                    self.0.state.lock().fault = Some(fault.to_string());
                    // Nobody is asked to log in by this: the machine's word for it carries the fault, which says what
                    // to correct.
                    GrantEvent::Discovered { by_machine: false }
                }
            },
            Ok(Some(_)) => {
                self.0.state.lock().fault = None;
                GrantEvent::Discovered { by_machine: false }
            }
            Err(fault) => self.undiscovered(&fault),
        }
    }

    fn undiscovered(&self, fault: &DiscoveryFault) -> GrantEvent {
        self.0.state.lock().fault = Some(fault.to_string());
        match fault.is_passing() {
            true => GrantEvent::DiscoveryFailed,
            // Something is there to log in to, and is not as it should be: `tidings login` says the same.
            false => GrantEvent::Discovered { by_machine: false },
        }
    }

    async fn renew(&self, attempt: u64) {
        let (record, settings, claimed) = {
            let state = self.0.state.lock();
            (state.record.clone(), state.settings.clone(), state.told_last())
        };
        let Some(record) = record else {
            // The machine wants a renewal only where there is a record, so somebody has logged out meanwhile.
            return self.tell(GrantEvent::RenewalFailed(attempt, RenewalFault::Rejected));
        };
        let reach = self.reach().await;
        if self.0.shared.as_ref().is_some_and(|shared| !self.has_claim(shared, claimed)) {
            // Stopped in between, or overtaken: it is claimed anew.
            return self.tell(GrantEvent::RenewalFailed(attempt, RenewalFault::Unavailable(None)));
        }
        let KeeperTools { http, vault, .. } = &*self.0.tools;
        let session = ProviderSession { http, vault, settings: &settings, reach };
        tracing::debug!(server = %self.0.name, issuer = %record.provider.issuer, "the token is renewed");
        let outcome = session.renew(&record).await;
        if let (Some(shared), Err(fault @ SessionFault::Token(TokenFault::Unavailable { .. }))) =
            (&self.0.shared, &outcome)
        {
            self.release(shared, attempt, claimed, record, fault.to_string()).await;
        }
        self.renewed(attempt, outcome);
    }

    fn renewed(&self, attempt: u64, outcome: Result<Tokens, SessionFault>) {
        let mut state = self.0.state.lock();
        let now = Instant::now();
        let event = match outcome {
            // Somebody has logged in or out meanwhile: this is about a grant that is no longer the one.
            _ if !state.machine.is_renewing(attempt) => return,
            Ok(tokens) => match &mut state.record {
                Some(record) => {
                    record.take(tokens);
                    let life = record.life(now);
                    if self.is_shared() {
                        state.wants_renewal_written();
                    }
                    GrantEvent::Renewed(attempt, life)
                }
                None => GrantEvent::RenewalFailed(attempt, RenewalFault::Rejected),
            },
            Err(fault) => {
                tracing::warn!(server = %self.0.name, %fault, "the token could not be renewed");
                let event = match &fault {
                    SessionFault::Token(TokenFault::Unavailable { after, .. }) => RenewalFault::Unavailable(*after),
                    // Also a key that can not sign, and an assertion that is not there: only a change of the
                    // configuration helps, as after a refusal.
                    _ => RenewalFault::Rejected,
                };
                state.fault = Some(fault.to_string());
                GrantEvent::RenewalFailed(attempt, event)
            }
        };
        // Not by `tell`, which takes the lock: the record and what the machine knows of it change together.
        let commands = state.machine.on(event, now);
        state.commands.extend(commands);
    }

    async fn save(&self) -> bool {
        if let Some(shared) = &self.0.shared {
            return self.save_shared(shared).await;
        }
        let text = match &self.0.state.lock().record {
            Some(record) => serde_json::to_vec(record).unwrap_or_default(),
            // Somebody logged out meanwhile, and what was kept is removed there: there is nothing to lose.
            None => return true,
        };
        let (vault, place) = (self.0.tools.vault.clone(), self.place());
        let saved = tokio::task::spawn_blocking(move || vault.put(GRANT, &place, &text)).await;
        match saved {
            Ok(Ok(())) => true,
            Ok(Err(error)) => {
                tracing::error!(server = %self.0.name, %error, "the login could not be saved; a restart would lose it");
                false
            }
            Err(_) => false,
        }
    }
}

/// What the gateway itself logs in with.
fn machine_record(
    session: &ProviderSession<'_>,
    settings: &LoginConfig,
    found: Discovered,
    challenge: Option<&BearerChallenge>,
) -> Result<GrantRecord, SessionFault> {
    let Discovered { provider, resource, scopes } = found;
    let client = session.configured_client(&provider);
    let client = client.ok_or_else(|| SessionFault::Key("`client_id` is not set".to_owned()))?;
    let challenged = challenge.and_then(|challenge| challenge.scopes.as_deref());
    let mut asked = authorization::scopes(settings.scopes.as_deref(), challenged, scopes.as_deref(), &provider);
    // There is nobody who could be away.
    asked.retain(|scope| scope != authorization::OFFLINE);
    Ok(GrantRecord {
        provider,
        client,
        resource,
        scopes: asked,
        granted: None,
        // Empty until the first renewal, which the machine asks for before anything is used.
        access: String::new(),
        refresh: None,
        expires: None,
        by_machine: true,
    })
}
