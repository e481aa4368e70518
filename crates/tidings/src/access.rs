//! Who may come in: the tokens of `[auth]`, and the key of the data directory.

use tidings_config::{Config, QuotaSettings, glob_matches};
use tidings_downstream::auth::{AccessToken, AccessTokens};
use tidings_engine::{AccessScope, Principal, QuotaLimits};

use crate::failure::CommandFailure;

/// Who may use what.
pub(crate) struct AccessSettings {
    /// The tokens that open the MCP endpoint.
    pub(crate) clients: AccessTokens,
    /// The API, for those of them who are admins.
    pub(crate) admins: AccessTokens,
}

/// The configured tokens, and that of the data directory: whoever can read it is the owner of this gateway.
pub(crate) fn of(config: &Config, admin_token: &str) -> Result<AccessSettings, CommandFailure> {
    // One person alone is counted only where that is asked for; several are kept from each other's way in any case.
    let quotas = config.quotas.or_else(|| config.auth.is_some().then(QuotaSettings::default)).map(limits);
    let counted = |principal: Principal| match quotas {
        Some(quotas) => principal.counted(quotas),
        None => principal,
    };
    let own = AccessToken::of(admin_token, counted(Principal::new("local", AccessScope::everything())));
    let Some(auth) = &config.auth else {
        // Without `[auth]` clients need no token, unless they are to have that of the data directory; the API, which changes the
        // gateway, always needs it.
        let admins = AccessTokens::new(vec![own]);
        let clients = match config.gateway.asks_everybody {
            true => admins.clone(),
            false => AccessTokens::open(counted(Principal::local())),
        };
        return Ok(AccessSettings { clients, admins });
    };
    if let Some(fault) = fault(config) {
        return Err(CommandFailure::Failed(fault));
    }
    for warning in warnings(config) {
        tracing::warn!("{warning}");
    }
    let mut known = vec![own];
    for token in &auth.tokens {
        let scope = AccessScope::new(token.servers.clone(), token.admin, glob_matches);
        known.push(AccessToken { principal: counted(Principal::new(&token.name, scope)), sha256: token.sha256 });
    }
    let tokens = AccessTokens::new(known);
    Ok(AccessSettings { clients: tokens.clone(), admins: tokens })
}

fn limits(quotas: QuotaSettings) -> QuotaLimits {
    let QuotaSettings { calls, listens, sessions, subscriptions, message_mib } = quotas;
    QuotaLimits { calls, listens, sessions, subscriptions, message_memory: message_mib << 20 }
}

/// Why nobody could come in.
pub(crate) fn fault(config: &Config) -> Option<String> {
    let nobody = config.auth.as_ref().is_some_and(|auth| auth.tokens.is_empty() && auth.jwt.is_none());
    nobody
        .then(|| "auth.tokens is empty, so that no client could connect; `tidings token NAME` makes a token".to_owned())
}

/// Patterns that fit no server are most likely misspelled. Servers may come later, so they are no error.
pub(crate) fn warnings(config: &Config) -> Vec<String> {
    // The servers that Tidings brings along can be named in patterns, too.
    let names = || config.servers.iter().map(|server| server.name.as_str()).chain(["watch", "demo"]);
    let fits = |pattern: &str| names().any(|name| glob_matches(pattern, name));
    let tokens = config.auth.iter().flat_map(|auth| &auth.tokens);
    let strange = tokens.flat_map(|token| token.servers.iter().map(move |pattern| (token, pattern)));
    let strange = strange.filter(|(_, pattern)| !fits(pattern));
    strange
        .map(|(token, pattern)| {
            format!("auth.tokens: \"{}\" of the token \"{}\" is the name of no configured server", pattern, token.name)
        })
        .collect()
}
