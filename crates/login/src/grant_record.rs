//! What is kept of a login, so that nothing has to be asked again after a restart.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use tidings_hub::grant_keeper::TokenLife;

use crate::client_registration::OAuthClient;
use crate::metadata::Provider;
use crate::token_exchange::Tokens;

/// A grant: who gave it, to whom, for what, and the tokens.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct GrantRecord {
    pub(crate) provider: Provider,
    pub(crate) client: OAuthClient,
    pub(crate) resource: Option<String>,
    /// What was asked for.
    pub(crate) scopes: Vec<String>,
    /// What was given, where the provider says.
    pub(crate) granted: Option<Vec<String>>,
    pub(crate) access: String,
    pub(crate) refresh: Option<String>,
    /// When the access token ends, in seconds since 1970.
    pub(crate) expires: Option<u64>,
    /// Whether the gateway itself logs in.
    pub(crate) by_machine: bool,
}

impl GrantRecord {
    /// Takes tokens in. A provider that gives no new refresh token lets the old one be used on.
    pub(crate) fn take(&mut self, tokens: Tokens) {
        self.access = tokens.access;
        self.refresh = tokens.refresh.or(self.refresh.take());
        // Of the time of day, because it outlives the process, for which an `Instant` means nothing.
        self.expires = tokens.lives.map(|lives| unix_now().saturating_add(lives.as_secs()));
        // A provider leaves the scopes out where they are those that were asked for (RFC 6749, 5.1), so the last word
        // stays.
        self.granted = tokens.scopes.or(self.granted.take());
    }

    /// How long its token lives, by the clock of this process.
    pub(crate) fn life(&self, now: Instant) -> TokenLife {
        let ends = self.expires.map(|expires| now + Duration::from_secs(expires.saturating_sub(unix_now())));
        TokenLife { ends, is_renewable: self.by_machine || self.refresh.is_some() }
    }
}

impl std::fmt::Debug for GrantRecord {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GrantRecord").field("issuer", &self.provider.issuer).finish_non_exhaustive()
    }
}

/// Seconds since 1970.
pub(crate) fn unix_now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
