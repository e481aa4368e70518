//! Logins that were begun and are not over: whose they are, how long they count, and who may end them.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use tokio::sync::watch;

use crate::client_registration::OAuthClient;
use crate::discovery::Discovered;
use crate::keeper::Keeper;

/// For how long a login may be ended after it was begun.
pub(crate) const LIFE: Duration = Duration::from_secs(600);
/// How many there may be. With more, the oldest goes.
const MOST: usize = 256;

/// How a login went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoginOutcome {
    /// Nobody has come back yet.
    Waiting,
    /// It is done, and the server was connected.
    Done,
    /// It failed, for this reason.
    Failed(String),
}

/// A login under way.
#[derive(Clone)]
pub(crate) struct PendingLogin {
    pub(crate) keeper: Keeper,
    pub(crate) found: Discovered,
    pub(crate) client: OAuthClient,
    pub(crate) scopes: Vec<String>,
    pub(crate) redirect: String,
    pub(crate) verifier: String,
    pub(crate) state: String,
    /// Where the browser is sent; empty for a device.
    pub(crate) url: String,
    /// Who began it: only they may go on with it.
    pub(crate) asker: String,
    /// What the browser that opened the ticket was given, by which it is known again.
    pub(crate) cookie: Option<String>,
    pub(crate) since: Instant,
    pub(crate) outcome: watch::Sender<LoginOutcome>,
}

/// All of them, by ticket.
#[derive(Default)]
pub(crate) struct PendingLogins(HashMap<String, PendingLogin>);

impl PendingLogins {
    pub(crate) fn insert(&mut self, ticket: String, login: PendingLogin, now: Instant) {
        self.0.retain(|_, login| now.saturating_duration_since(login.since) < LIFE);
        if self.0.len() >= MOST
            && let Some(oldest) = self.0.iter().min_by_key(|(_, login)| login.since).map(|(ticket, _)| ticket.clone())
        {
            self.0.remove(&oldest);
        }
        self.0.insert(ticket, login);
    }

    /// A login that still counts.
    pub(crate) fn get(&mut self, ticket: &str, now: Instant) -> Option<&mut PendingLogin> {
        self.0.get_mut(ticket).filter(|login| now.saturating_duration_since(login.since) < LIFE)
    }

    /// Whether a ticket can still be given to somebody: nobody has opened it, and there is time left.
    pub(crate) fn is_unopened(&self, ticket: &str, now: Instant) -> bool {
        self.0.get(ticket).is_some_and(|login| {
            let age = now.saturating_duration_since(login.since);
            // Half of its life has to be left: a person who is handed the page needs time at the provider, too.
            login.cookie.is_none() && !login.state.is_empty() && age < LIFE / 2
        })
    }

    /// Its outcome, also after it is over. Who waits for one that nobody can end any more is told so.
    pub(crate) fn outcome(&self, ticket: &str, now: Instant) -> Option<watch::Receiver<LoginOutcome>> {
        let login = self.0.get(ticket)?;
        // A state that was taken is being ended at this moment, and a device has a time of its own.
        if !login.state.is_empty() && now.saturating_duration_since(login.since) >= LIFE {
            login.outcome.send_replace(LoginOutcome::Failed("nobody came back within ten minutes".to_owned()));
        }
        Some(login.outcome.subscribe())
    }

    /// The login that a state belongs to. It can be ended once: its state counts no more.
    pub(crate) fn take_state(
        &mut self,
        state: &str,
        now: Instant,
        may_end: impl FnOnce(&PendingLogin) -> bool,
    ) -> Option<PendingLogin> {
        // Devices and logins that were taken have an empty state: a query without one must not find them.
        let found = self.0.values_mut().find(|login| login.state == state && !state.is_empty())?;
        if now.saturating_duration_since(found.since) >= LIFE || !may_end(found) {
            return None;
        }
        let taken = found.clone();
        // The row stays for whoever waits for its outcome.
        found.state.clear();
        // Secrets that are used up are not kept until the row goes.
        found.verifier.clear();
        Some(taken)
    }
}
