//! A provider whose signed tokens are let in: its keys, and reading them.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use arc_swap::ArcSwap;
use serde_json::Value;
use tidings_config::JwtSettings;
use tidings_engine::Principal;
use tidings_sync::Lock;
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use crate::SKEW;
use crate::credential::Credential;
use crate::key_care::{KeyCare, KeyStep};
use crate::person::PeopleReader;
use crate::provider_fetch::{is_safe, read};
use crate::resource::RefusedToken;
use crate::signed_token::{PublishedKeys, UnverifiedToken};

/// One provider.
pub(crate) struct JwtProvider {
    pub(crate) settings: JwtSettings,
    keys: ProviderKeys,
    people: PeopleReader,
    audience: Vec<String>,
    /// Rings when its tokens open nothing any longer.
    pub(crate) ended: CancellationToken,
}

/// The keys of a provider, which outlive changes of the rules about its people.
#[derive(Clone)]
pub(crate) struct ProviderKeys(Arc<KeyReader>);

struct KeyReader {
    issuer: String,
    url: Option<String>,
    published: ArcSwap<PublishedKeys>,
    care: Lock<KeyCare>,
    /// Held by whoever reads them: one at a time, and those who come meanwhile wait for the same reading.
    reading: Arc<Mutex<()>>,
    /// The last reading that nobody waited for. There is one at a time, by `reading`.
    unawaited: Lock<Option<AbortOnDropHandle<()>>>,
}

impl JwtProvider {
    pub(crate) fn new(settings: JwtSettings, people: PeopleReader, resource: &str, keys: Option<ProviderKeys>) -> Self {
        let audience = match settings.people.audience.is_empty() {
            true => vec![resource.to_owned()],
            false => settings.people.audience.clone(),
        };
        let keys = keys.unwrap_or_else(|| ProviderKeys::new(&settings));
        Self { settings, keys, people, audience, ended: CancellationToken::new() }
    }

    /// The keys, if they are those of these settings too.
    pub(crate) fn keys_for(&self, settings: &JwtSettings) -> Option<ProviderKeys> {
        // Where they come from, and nothing else: who may come in with them is decided after they were checked.
        let same = (&self.settings.issuer, &self.settings.jwks_url) == (&settings.issuer, &settings.jwks_url);
        same.then(|| self.keys.clone())
    }

    /// What the token stands for.
    pub(crate) async fn check(&self, token: &UnverifiedToken<'_>) -> Result<Credential, RefusedToken> {
        self.keys.ready_for(token).await?;
        let claims = token.verify(&self.keys.0.published.load(), &self.audience)?;
        let expiry = claims.get("exp").and_then(Value::as_f64).unwrap_or_default();
        let until = Duration::try_from_secs_f64(expiry).ok().and_then(|expiry| (UNIX_EPOCH + SKEW).checked_add(expiry));
        let principal = self.people.person(&self.settings.issuer, &claims)?;
        // An end that is no time counts as now, and not as never.
        Ok(Credential { principal, until: until.or(Some(SystemTime::now())), ended: self.ended.child_token() })
    }

    /// Whom an ID token is about that was given to the gateway itself, for the request with this number.
    pub(crate) async fn identify(&self, token: &UnverifiedToken<'_>, nonce: &str) -> Result<Principal, RefusedToken> {
        let client = self.settings.browser.as_ref();
        let client = client.ok_or(RefusedToken::Invalid("the gateway is no client of this provider"))?;
        self.keys.ready_for(token).await?;
        let claims = token.verify_identity(&self.keys.0.published.load(), &client.id, nonce)?;
        self.people.identified(&self.settings.issuer, &claims)
    }
}

impl ProviderKeys {
    fn new(settings: &JwtSettings) -> Self {
        Self(Arc::new(KeyReader {
            issuer: settings.issuer.clone(),
            url: settings.jwks_url.clone(),
            published: ArcSwap::default(),
            care: Lock::default(),
            reading: Arc::default(),
            unawaited: Lock::default(),
        }))
    }

    /// Sees to it that a key is there that the token can be checked with.
    async fn ready_for(&self, token: &UnverifiedToken<'_>) -> Result<(), RefusedToken> {
        let decide = || {
            let found = token.is_known(&self.0.published.load());
            (self.0.care.lock().decide(found, Instant::now()), found)
        };
        let (mut step, mut found) = decide();
        if step == KeyStep::UseAndRead {
            // If it is taken, somebody reads already: this token can be used without waiting for that.
            if let Ok(guard) = Arc::clone(&self.0.reading).try_lock_owned() {
                self.0.care.lock().begin(found, Instant::now());
                // It ends by itself, with the time that one request may take.
                let reading = tokio::spawn(Arc::clone(&self.0).read(guard));
                *self.0.unawaited.lock() = Some(AbortOnDropHandle::new(reading));
            }
            return Ok(());
        }
        // Also who would be refused: a reading may be under way at this moment, and hold the key.
        if step != KeyStep::Use {
            let guard = Arc::clone(&self.0.reading).lock_owned().await;
            // Somebody else may have read them meanwhile.
            (step, found) = decide();
            if step == KeyStep::Read {
                self.0.care.lock().begin(found, Instant::now());
                // A task, so that a client that goes away does not take the reading from the others. It ends by itself, as above.
                let _ = tokio::spawn(Arc::clone(&self.0).read(guard)).await;
                (step, _) = decide();
            }
        }
        match step {
            KeyStep::Use | KeyStep::UseAndRead => Ok(()),
            KeyStep::Unknown => Err(RefusedToken::Invalid("the provider has no such key")),
            KeyStep::Read | KeyStep::Silent => Err(RefusedToken::Silent),
        }
    }
}

impl KeyReader {
    async fn read(self: Arc<Self>, _turn: tokio::sync::OwnedMutexGuard<()>) {
        match self.fetch().await {
            Ok(keys) => {
                // First the keys: whoever asks the machine next finds those that it speaks of.
                self.published.store(Arc::new(keys));
                self.care.lock().done(Instant::now());
            }
            Err(reason) => {
                tracing::warn!(issuer = %self.issuer, "the keys of an identity provider can not be read: {reason}");
                self.care.lock().fail(Instant::now());
            }
        }
    }

    async fn fetch(&self) -> Result<PublishedKeys, String> {
        let url = match &self.url {
            Some(url) => url.clone(),
            None => discover(&self.issuer).await?,
        };
        let document = read(&url).await.map_err(|reason| format!("{url}: {reason}"))?;
        PublishedKeys::read(&document).ok_or_else(|| format!("{url}: it holds no keys"))
    }
}

/// Where the metadata of an issuer says that its keys are.
async fn discover(issuer: &str) -> Result<String, String> {
    let mut last = String::new();
    for url in metadata_urls(issuer) {
        match read(&url).await {
            Ok(document) => {
                let document: Value = serde_json::from_slice(&document).unwrap_or_default();
                // Identical, or another provider could speak for it (RFC 8414, section 3.3).
                if document["issuer"].as_str() != Some(issuer) {
                    last = format!("{url}: it is the metadata of another issuer");
                    continue;
                }
                return match document["jwks_uri"].as_str().filter(|url| is_safe(url)) {
                    Some(keys) => Ok(keys.to_owned()),
                    None => Err(format!("{url}: it names no keys over https")),
                };
            }
            // The next place may answer, also after one that is down: its own word about its issuer is what counts.
            Err(reason) => last = format!("{url}: {reason}"),
        }
    }
    Err(last)
}

/// Where the metadata of an issuer may be, in the order of the specification.
fn metadata_urls(issuer: &str) -> Vec<String> {
    let (scheme, rest) = issuer.split_once("://").unwrap_or(("https", issuer));
    let (host, path) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
    let path = path.trim_end_matches('/');
    let mut urls = vec![
        format!("{scheme}://{host}/.well-known/oauth-authorization-server{path}"),
        format!("{scheme}://{host}/.well-known/openid-configuration{path}"),
    ];
    if !path.is_empty() {
        urls.push(format!("{scheme}://{host}{path}/.well-known/openid-configuration"));
    }
    urls
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_is_looked_for_with_the_path_of_the_issuer() {
        assert_eq!(
            metadata_urls("https://h.example/tenant/"),
            [
                "https://h.example/.well-known/oauth-authorization-server/tenant",
                "https://h.example/.well-known/openid-configuration/tenant",
                "https://h.example/tenant/.well-known/openid-configuration",
            ]
        );
        assert_eq!(metadata_urls("https://h.example").len(), 2);
    }
}
