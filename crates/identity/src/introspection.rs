//! Tokens that nobody signed: the provider is asked about each (RFC 7662), once at a time, and its answer is kept for a while.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderValue, StatusCode};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Map, Value};
use tidings_config::IntrospectionSettings;
use tidings_sync::Lock;
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

use crate::SKEW;
use crate::credential::Credential;
use crate::person::PeopleReader;
use crate::provider_fetch::ask;
use crate::resource::RefusedToken;

/// How long an answer counts.
pub(crate) const KEPT: Duration = Duration::from_secs(60);
/// How long a refusal does.
const REFUSED: Duration = Duration::from_secs(5);
/// How many refusals are remembered.
const MOST: usize = 10_000;

type TokenDigest = [u8; 32];

/// A provider that is asked about tokens.
pub(crate) struct Introspection {
    pub(crate) settings: IntrospectionSettings,
    people: PeopleReader,
    audience: Vec<String>,
    refused: Lock<HashMap<TokenDigest, Instant>>,
    /// Held by whoever asks about a token: others with the same token wait for the same answer.
    asking: Lock<HashMap<TokenDigest, Weak<Mutex<()>>>>,
    /// Rings when its tokens open nothing any longer.
    pub(crate) ended: CancellationToken,
}

impl Introspection {
    pub(crate) fn new(settings: IntrospectionSettings, people: PeopleReader, resource: &str) -> Self {
        // Without an audience in the configuration the gateway's own address: never everybody's.
        let audience = match settings.people.audience.is_empty() {
            true => vec![resource.to_owned()],
            false => settings.people.audience.clone(),
        };
        let (refused, asking) = (Lock::default(), Lock::default());
        Self { settings, people, audience, refused, asking, ended: CancellationToken::new() }
    }

    /// Whose people have names that begin so.
    pub(crate) fn issuer(&self) -> &str {
        self.settings.issuer.as_deref().unwrap_or(&self.settings.url)
    }

    /// The turn of whoever asks about this token.
    pub(crate) fn turn(&self, token: TokenDigest) -> Arc<Mutex<()>> {
        let mut asking = self.asking.lock();
        if let Some(turn) = asking.get(&token).and_then(Weak::upgrade) {
            return turn;
        }
        // Those that nobody holds any longer: as many stay as are asked about at this moment.
        asking.retain(|_, turn| turn.strong_count() > 0);
        let turn = Arc::new(Mutex::new(()));
        asking.insert(token, Arc::downgrade(&turn));
        turn
    }

    /// Whether the token was refused a moment ago.
    pub(crate) fn was_refused(&self, token: &TokenDigest) -> bool {
        self.refused.lock().get(token).is_some_and(|at| at.elapsed() < REFUSED)
    }

    /// What the token stands for.
    pub(crate) async fn check(&self, digest: TokenDigest, token: &str) -> Result<Credential, RefusedToken> {
        let claims = match self.ask(token).await {
            Ok(claims) => claims,
            Err(reason) => {
                tracing::warn!(issuer = %self.issuer(), "an identity provider can not be asked about tokens: {reason}");
                return Err(RefusedToken::Silent);
            }
        };
        let read = self.read(&claims);
        // Only for what the provider has said. Its silence is not remembered, because it may answer the next time.
        if matches!(read, Err(RefusedToken::Invalid(_))) {
            let mut refused = self.refused.lock();
            if refused.len() >= MOST {
                refused.retain(|_, at| at.elapsed() < REFUSED);
            }
            // More than that in five seconds are asked about again.
            if refused.len() < MOST {
                refused.insert(digest, Instant::now());
            }
        }
        read
    }

    async fn ask(&self, token: &str) -> Result<Map<String, Value>, String> {
        let encoded = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
        // As RFC 6749, section 2.3.1 has it: each part encoded before they are joined.
        let pair = format!("{}:{}", encoded(&self.settings.client_id), encoded(&self.settings.client_secret));
        let mut authorization = HeaderValue::try_from(format!("Basic {}", STANDARD.encode(pair)))
            .map_err(|_| "the secret can not be sent".to_owned())?;
        authorization.set_sensitive(true);
        let form = format!("token={}&token_type_hint=access_token", encoded(token));
        let answer = ask(&self.settings.url, authorization, form).await?;
        // An answer, too: some providers refuse to be asked about tokens of a kind (oidc-provider about those that it signed). They do not
        // vouch for it.
        if answer.status() == StatusCode::BAD_REQUEST {
            return Ok(Map::new());
        }
        if !answer.status().is_success() {
            return Err(format!("HTTP status {}", answer.status().as_u16()));
        }
        serde_json::from_slice(answer.body()).map_err(|_| "its answer is not an object".to_owned())
    }

    fn read(&self, claims: &Map<String, Value>) -> Result<Credential, RefusedToken> {
        if claims.get("active") != Some(&Value::Bool(true)) {
            // Exactly `true`: RFC 7662, 2.2 has a boolean, and a text "false" must not count as set.
            return Err(RefusedToken::Invalid("the token is not good, or no longer"));
        }
        let meant_for: Vec<&str> = match claims.get("aud") {
            Some(Value::String(one)) => vec![one],
            Some(Value::Array(several)) => several.iter().filter_map(Value::as_str).collect(),
            _ => Vec::new(),
        };
        // A provider that does not say for whom has checked nothing: its tokens for anybody else would open this, too.
        if !meant_for.iter().any(|audience| self.audience.iter().any(|own| own == audience)) {
            return Err(RefusedToken::Invalid("the token is meant for somebody else"));
        }
        let now = SystemTime::now();
        let time = |claim: &str| {
            // Some providers send a fraction.
            let seconds = claims.get(claim).and_then(Value::as_f64)?;
            UNIX_EPOCH.checked_add(Duration::try_from_secs_f64(seconds).ok()?)
        };
        if time("exp").is_some_and(|expiry| expiry + SKEW <= now) {
            return Err(RefusedToken::Invalid("the token has expired; if it is fresh, look at the clocks"));
        }
        if time("nbf").is_some_and(|begin| begin > now + SKEW) {
            return Err(RefusedToken::Invalid("the token is not good yet; look at the clocks"));
        }
        let principal = self.people.person(self.issuer(), claims)?;
        Ok(Credential { principal, until: time("exp").map(|expiry| expiry + SKEW), ended: self.ended.child_token() })
    }
}
