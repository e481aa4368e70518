//! People who are known by their browsers: what a provider says of somebody who has logged in there for this gateway.

use tidings_config::BrowserClient;
use tidings_engine::Principal;

use super::Authenticator;
use crate::provider::JwtProvider;
use crate::resource::RefusedToken;
use crate::signed_token::UnverifiedToken;

/// No provider of `[auth]` has this name, or none any longer.
const NO_PROVIDER: RefusedToken = RefusedToken::Invalid("the provider is not among those of [auth]");

impl Authenticator {
    /// The provider of a person, and as which client it knows the gateway; `None` where it can not be asked whose a browser is.
    pub fn browser_client(&self, person: &str) -> Option<(String, BrowserClient)> {
        let keys = self.0.keys.as_ref()?.load();
        let is_of = |provider: &JwtProvider| {
            // With the sign behind it: an issuer may be the beginning of another's name.
            person.strip_prefix(provider.settings.issuer.as_str()).is_some_and(|rest| rest.starts_with('#'))
        };
        let provider = keys.providers.iter().find(|provider| is_of(provider))?;
        Some((provider.settings.issuer.clone(), provider.settings.browser.clone()?))
    }

    /// Whom an ID token is about that this provider gave to the gateway, for the request with this number. It says who somebody is and
    /// lets nobody in.
    pub async fn known_by(&self, issuer: &str, id_token: &str, nonce: &str) -> Result<Principal, RefusedToken> {
        let keys = self.0.keys.as_ref().ok_or(NO_PROVIDER)?.load_full();
        let provider = keys.providers.iter().find(|provider| provider.settings.issuer == issuer).ok_or(NO_PROVIDER)?;
        // The outer one says that it is no signed token at all, the inner one that it is of a kind that is not
        // accepted.
        let token = UnverifiedToken::read(id_token).ok_or(RefusedToken::Invalid("this is no ID token"))??;
        // Compared as it is: the keys that are used are those of `issuer`.
        match token.issuer == issuer {
            true => provider.identify(&token, nonce).await,
            false => Err(RefusedToken::Invalid("the ID token was issued by somebody else")),
        }
    }
}
