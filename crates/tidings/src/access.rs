//! Who may come in: the tokens of `[auth]`, and the key of the data directory.

use tidings_config::{Config, glob_matches};
use tidings_downstream::auth::{Token, Tokens};
use tidings_engine::{Principal, Scope};

use crate::failure::Failure;

/// Who may use what.
pub(crate) struct Access {
    /// The MCP endpoint.
    pub(crate) clients: Tokens,
    /// The API, for those of them who are admins.
    pub(crate) admins: Tokens,
}

/// The configured tokens, and that of the data directory: whoever can read it is the owner of this gateway.
pub(crate) fn of(config: &Config, admin_token: &str) -> Result<Access, Failure> {
    let own = Token::of(admin_token, Principal::new("local", Scope::everything()));
    let Some(auth) = &config.auth else {
        return Ok(Access { clients: Tokens::default(), admins: Tokens::new(vec![own]) });
    };
    if auth.tokens.is_empty() {
        return Err(Failure::Failed(
            "auth.tokens is empty, so that no client could connect; `tidings token NAME` makes a token".to_owned(),
        ));
    }
    let mut known = vec![own];
    for token in &auth.tokens {
        warn_of_strangers(config, &token.name, &token.servers);
        let scope = Scope::new(token.servers.clone(), token.admin, glob_matches);
        known.push(Token { principal: Principal::new(&token.name, scope), sha256: token.sha256 });
    }
    let tokens = Tokens::new(known);
    Ok(Access { clients: tokens.clone(), admins: tokens })
}

/// A pattern that fits no server is most likely misspelled. Servers may come later, so it is no error.
fn warn_of_strangers(config: &Config, token: &str, patterns: &[String]) {
    let names = || config.servers.iter().map(|server| server.name.as_str()).chain(["watch", "demo"]);
    for pattern in patterns.iter().filter(|pattern| !names().any(|name| glob_matches(pattern, name))) {
        tracing::warn!(token, pattern, "no configured server has a name that this pattern of auth.tokens matches");
    }
}
