//! Who may come in: the tokens of `[auth]`, and the key of the data directory.

use tidings_config::{Config, glob_matches};
use tidings_downstream::auth::{AccessToken, AccessTokens};
use tidings_engine::{AccessScope, Principal};

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
    let own = AccessToken::of(admin_token, Principal::new("local", AccessScope::everything()));
    let Some(auth) = &config.auth else {
        // Without `[auth]` clients need no token; the API, which changes the gateway, always needs the one of the data
        // directory.
        return Ok(AccessSettings { clients: AccessTokens::default(), admins: AccessTokens::new(vec![own]) });
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
        known.push(AccessToken { principal: Principal::new(&token.name, scope), sha256: token.sha256 });
    }
    let tokens = AccessTokens::new(known);
    Ok(AccessSettings { clients: tokens.clone(), admins: tokens })
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
