//! Those who were refused: what they use next, and in which words they are told that somebody has to log in.

use tidings_hub::grant_keeper::{GrantEvent, GrantState, LoginReason};
use tidings_upstream::{CredentialRefusal, CredentialRenewal, HeldCredential};

use super::{Keeper, KeeperState};
use crate::challenge::BearerChallenge;

/// How often a server may ask for more rights in one process before nothing is added any more.
const STEP_UPS: usize = 3;

impl Keeper {
    /// Why a person has to log in, and how.
    pub(crate) fn words(&self, reason: LoginReason) -> String {
        self.words_of(&self.0.state.lock(), reason)
    }

    pub(super) fn words_of(&self, state: &KeeperState, reason: LoginReason) -> String {
        let (fault, grant, is_personal) = (state.fault.as_ref(), state.settings.grant, state.settings.is_personal);
        let name = &self.0.name;
        let because = match (reason, fault) {
            (LoginReason::Never, None) => String::new(),
            (LoginReason::Never, Some(fault)) => format!(" ({fault})"),
            (LoginReason::Rejected, Some(fault)) => format!(", because its login has ended ({fault})"),
            (LoginReason::Rejected, None) => ", because its login has ended".to_owned(),
            (LoginReason::Ended, _) => {
                ", because its login has ended and its provider gave nothing to renew it with".to_owned()
            }
            (LoginReason::FreshRefused, _) => {
                ", because it refuses the token that its provider has just given".to_owned()
            }
            (LoginReason::Unreadable, fault) => {
                format!(", because {}", fault.map_or("what was saved of it can not be read", String::as_str))
            }
        };
        match grant.is_machine() {
            true => format!("{because}; correct [servers.{name}.auth], then: tidings restart {name}"),
            // They have no command line of the gateway: the tool is there as long as they have to.
            false if self.0.person.is_some() => format!(" of yours{because}: the tool log_in shows where"),
            false if is_personal => format!(" of each person: tidings login {name}"),
            false => format!("{because}: tidings login {name}"),
        }
    }

    /// More rights are wanted than were granted: the next login asks for all of them. The token stays in use.
    fn more_wanted(&self, challenge: Option<&BearerChallenge>) -> CredentialRenewal {
        let is_about_scopes =
            challenge.is_some_and(|challenge| challenge.error.as_deref() == Some("insufficient_scope"));
        // Without a token in use nothing was granted that more could be added to, and a 403 means something else.
        if !is_about_scopes || self.0.held.borrow().is_none() {
            return CredentialRenewal::Unknown;
        }
        let mut state = self.0.state.lock();
        let wanted = challenge.and_then(|challenge| challenge.scopes.clone()).unwrap_or_default();
        let is_new = wanted.iter().any(|scope| !state.more.contains(scope));
        if is_new && state.step_ups < STEP_UPS {
            state.step_ups += 1;
            state.more.extend(wanted.iter().cloned());
        }
        let name = &self.0.name;
        let wanted = wanted.join(" ");
        CredentialRenewal::NeedsMore(match self.0.person {
            Some(_) => format!(" of yours with more rights ({wanted})"),
            None => format!(" with more rights ({wanted}): tidings login {name}"),
        })
    }

    /// The server refused a request: what there is in place of the token that it carried.
    pub(crate) async fn refusal(self, refusal: CredentialRefusal) -> CredentialRenewal {
        let challenge = refusal.challenge.as_deref().and_then(BearerChallenge::parse);
        // Never renewed: the token is good, and another with the same rights is refused in the same way.
        if refusal.status == 403 {
            return self.more_wanted(challenge.as_ref());
        }
        let newer = |held: &Option<HeldCredential>| {
            held.clone().filter(|held| held.generation > refusal.generation.unwrap_or(0))
        };
        // Somebody else with the same token was refused earlier, and the renewal is over already.
        if let Some(held) = newer(&self.0.held.borrow()) {
            return CredentialRenewal::Use(held);
        }
        if let Some(shared) = &self.0.shared {
            // Another replica may have a newer one, which is on its way.
            shared.confirm().await;
            if let Some(held) = newer(&self.0.held.borrow()) {
                return CredentialRenewal::Use(held);
            }
            // The server may let this replica alone not in, and then no token helps: whoever runs it finds out, and renews for all.
            if refusal.is_past_owner {
                return CredentialRenewal::Unknown;
            }
        }
        self.tell_with(GrantEvent::Refused(refusal.generation), |state| {
            if refusal.generation.is_some() {
                state.is_of_no_use();
            }
            if let Some(challenge) = challenge {
                state.challenge = Some(challenge);
            }
        });
        match self.settled().await {
            GrantState::NeedsLogin(reason) => CredentialRenewal::NeedsLogin(self.words(reason)),
            GrantState::Alien | GrantState::Open => CredentialRenewal::Unknown,
            GrantState::Valid(_) => match newer(&self.0.held.borrow()) {
                Some(held) => CredentialRenewal::Use(held),
                None => CredentialRenewal::Unavailable("its token is refused".to_owned()),
            },
            GrantState::Busy | GrantState::Unavailable => {
                let fault = self.0.state.lock().fault.clone();
                CredentialRenewal::Unavailable(fault.unwrap_or_else(|| "its provider does not answer".to_owned()))
            }
        }
    }
}
