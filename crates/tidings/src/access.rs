//! Who may come in: the tokens of `[auth]`, and the key of the data directory.

use axum::Router;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse as _;
use axum::routing::get;
use tidings_config::{Config, QuotaSettings, glob_matches};
use tidings_engine::{AccessScope, Principal, QuotaBook, QuotaLimits};
use tidings_hub::who::PersonFacts;
use tidings_identity::{Authenticator, AuthenticatorSettings, METADATA, StaticToken};
use tidings_inventory::WatchFault;

use crate::policy;

/// Who may use what, now and after the file was read again.
#[derive(Clone)]
pub(crate) struct AccessControl {
    /// Opens the MCP endpoint.
    pub(crate) clients: Authenticator,
    /// The API, for those of them who are admins.
    pub(crate) admins: Authenticator,
    /// The key of the data directory.
    admin_token: String,
    /// The address of the gateway, as clients know it.
    pub(crate) base: String,
    /// Whether there was `[auth]` at the start.
    has_auth: bool,
}

impl AccessControl {
    /// The configured tokens and providers, and the key of the data directory: whoever can read it is the owner of this gateway.
    pub(crate) fn new(config: &Config, admin_token: &str, base: &str) -> Self {
        let (admin_token, base) = (admin_token.to_owned(), base.to_owned());
        let admins = Authenticator::closed(settings(config, &admin_token, &base));
        // Without `[auth]` clients need no token, unless they are to have that of the data directory; the API, which changes the
        // gateway, always needs it.
        let clients = match config.auth.is_some() || config.gateway.asks_everybody {
            true => admins.clone(),
            false => Authenticator::open(Principal::local(), counted(config).map(limits)),
        };
        for warning in warnings(config) {
            tracing::warn!("{warning}");
        }
        Self { clients, admins, admin_token, base, has_auth: config.auth.is_some() }
    }

    /// What another reading of the file says; the change is made when what is given back is called.
    pub(crate) fn prepare(&self, config: &Config) -> Result<Box<dyn FnOnce() + Send>, WatchFault> {
        // First: a change that would leave everybody outside, or inside, is refused as a whole.
        if let Some(fault) = fault(config) {
            return Err(WatchFault(fault));
        }
        // Whether anybody is asked at all is decided at the start: a file that loses the section must not open the door.
        if config.auth.is_none() || !self.has_auth {
            return Ok(Box::new(|| {}));
        }
        let (authenticator, settings) = (self.admins.clone(), settings(config, &self.admin_token, &self.base));
        let warnings = warnings(config);
        Ok(Box::new(move || {
            authenticator.change(settings);
            warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
        }))
    }

    /// Where clients learn who gives them tokens (RFC 9728).
    pub(crate) fn metadata(&self) -> Router {
        let authenticator = self.clients.clone();
        let show = async move || match authenticator.resource_metadata() {
            // Open to every page, as the specification has it: nothing in it is a secret.
            Some(document) => {
                let headers = [(header::CONTENT_TYPE, "application/json"), (header::ACCESS_CONTROL_ALLOW_ORIGIN, "*")];
                (headers, document.to_string()).into_response()
            }
            None => StatusCode::NOT_FOUND.into_response(),
        };
        Router::new().route(METADATA, get(show.clone())).route(&format!("{METADATA}/mcp"), get(show))
    }
}

fn settings(config: &Config, admin_token: &str, base: &str) -> AuthenticatorSettings {
    // Rules can name its owner, too.
    let owner = PersonFacts { token: Some("local".to_owned()), ..PersonFacts::default() };
    let owner = Principal::new("local", AccessScope::everything().of_person(owner));
    // The owner's key is always among them: the API must be reachable whatever the file says.
    let mut tokens = vec![StaticToken::of(admin_token, owner)];
    let auth = config.auth.clone().unwrap_or_default();
    for token in auth.tokens {
        let facts = PersonFacts {
            token: Some(token.name.clone()),
            groups: token.groups.into_iter().collect(),
            ..PersonFacts::default()
        };
        let scope = AccessScope::new(token.servers, token.admin, glob_matches).of_person(facts);
        let principal = Principal::new(&token.name, scope);
        tokens.push(StaticToken { principal, sha256: token.sha256, until: token.expires });
    }
    AuthenticatorSettings {
        tokens,
        jwt: auth.jwt,
        introspection: auth.introspection,
        certificates: auth.certificates,
        base: base.to_owned(),
        claims: policy::claims(config),
        // One person alone is counted only where that is asked for; several are kept from each other's way in any case.
        quotas: counted(config).map(limits),
    }
}

/// What each person may have, where they are counted. Who has limits is counted in any case.
fn counted(config: &Config) -> Option<QuotaSettings> {
    let several = config.auth.is_some() || config.limits.is_some();
    config.quotas.or_else(|| several.then(QuotaSettings::default))
}

fn limits(quotas: QuotaSettings) -> QuotaLimits {
    let QuotaSettings { calls, listens, sessions, subscriptions, message_mib } = quotas;
    QuotaLimits { calls, listens, sessions, subscriptions, message_memory: message_mib << 20 }
}

/// Who speaks on standard input: the person at this machine, counted where there are limits.
pub(crate) fn only_client(config: &Config) -> Principal {
    let local = Principal::local();
    match counted(config).filter(|_| config.limits.is_some()) {
        Some(quotas) => {
            let book = QuotaBook::new(&local.name, limits(quotas));
            local.counted(book)
        }
        None => local,
    }
}

/// Why nobody could come in, or everybody.
pub(crate) fn fault(config: &Config) -> Option<String> {
    let has_signers = config.gateway.tls.as_ref().is_some_and(|tls| tls.client_ca.is_some());
    let fault = match &config.auth {
        Some(auth) if auth.is_empty() => {
            "auth.tokens is empty, so that no client could connect; `tidings token NAME` makes a token"
        }
        Some(auth) if !auth.certificates.is_empty() && !has_signers => {
            "auth.certificates needs `client_ca` of [gateway] tls: who signs certificates that are let in"
        }
        // Without it nobody is asked who they are.
        None if has_signers => "client_ca of [gateway] tls needs [auth] certificates: who comes in with a certificate",
        _ => return None,
    };
    Some(fault.to_owned())
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
