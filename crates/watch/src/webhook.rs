//! What others post to `/hooks/NAME`: the body is the content.

mod shared;
mod signature;

use std::collections::HashMap;
use std::sync::{Arc, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::{HeaderMap, header};
use serde_json::Value;
use tidings_config::watch::WebhookWatch;
use tidings_sync::Lock;
use tokio::sync::watch;

use super::kinds::{DeclaredWatch, MadeSource, SourceFault, SourceInputs, WatchFinding};
use super::observations::{Hash, SourceSignals, hash};
use super::source::{SourceContent, SourceEntry, UnreadableReason, WatchedSource};
use super::{AboutResource, encoded};
use shared::SharedDeliveries;
pub use shared::SharedHooks;
pub use signature::BadSignature;
use signature::SignatureVerifier;

/// The longest body that is taken.
pub const LONGEST_HOOK: usize = 1 << 20;
/// How many resources a pointer may make. The one that was posted to least recently goes first.
const MOST_PARTS: usize = 256;
/// How many bytes they may have together.
const MOST_BYTES: usize = 32 << 20;

/// What was received for one resource, in the form in which it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceivedDelivery {
    /// The URI of the resource that the delivery is the content of.
    pub uri: String,
    /// When it was received, by the clock of this machine.
    pub at: SystemTime,
    /// Which delivery it was.
    pub number: u64,
    /// Its MIME type, as configured or as the poster said.
    pub mime_type: Option<String>,
    /// The body as it was posted.
    pub body: Bytes,
}

/// Keeps what webhooks received beyond the life of the process. All of it blocks, and says by itself what went wrong.
pub trait DeliveryKeeper: Send + Sync + 'static {
    /// What is kept of a watch.
    fn read(&self, watch: &str) -> Vec<ReceivedDelivery>;

    /// Keeps some, and drops the contents of other resources of the watch.
    fn keep(&self, watch: &str, put: &[ReceivedDelivery], remove: &[String]);
}

/// Why a delivery was not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeliveryRefusal {
    /// It may come from anybody.
    #[error(transparent)]
    Signature(#[from] BadSignature),
    /// The replicas of a cluster can not agree on it at the moment: whoever posts it tries again.
    #[error("the replicas of this cluster can not agree at the moment: {0}; deliver it again")]
    NotAgreed(String),
}

/// A webhook and what it received last.
pub struct WebhookSource {
    /// Held while the newest state is written, so that an older one is never written after it.
    writing: Lock<Option<Arc<dyn DeliveryKeeper>>>,
    /// In a cluster: what is received is written into its log, and read from there.
    replicas: Option<Arc<SharedHooks>>,
    /// In a cluster: held by the delivery that is being agreed on.
    delivering: tokio::sync::Mutex<()>,
    about: AboutResource,
    verifier: SignatureVerifier,
    pointer: Option<String>,
    state: Lock<WebhookState>,
    /// Rises with every delivery: whoever waits for one compares it.
    deliveries: watch::Sender<u64>,
}

#[derive(Clone, Default)]
struct WebhookState {
    last: Option<ReceivedBody>,
    /// The last delivery for each part, by the URI of its resource.
    parts: HashMap<String, ReceivedBody>,
    /// In a cluster: what its log says beside the contents.
    shared: SharedDeliveries,
}

#[derive(Clone)]
struct ReceivedBody {
    content: SourceContent,
    hash: Hash,
    at: SystemTime,
    number: u64,
}

/// What became of a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeliveryOutcome {
    /// It is the content now.
    Taken,
    /// It was delivered before.
    Again,
}

impl WebhookSource {
    /// A webhook that has received nothing yet.
    fn new(about: AboutResource, watch: WebhookWatch) -> Self {
        let verifier = SignatureVerifier::new(&watch.secret);
        let (state, deliveries) = (Lock::default(), watch::Sender::new(0));
        let (writing, replicas, delivering) = Default::default();
        Self { writing, replicas, delivering, about, verifier, pointer: watch.pointer, state, deliveries }
    }

    /// As [`Self::new`], with what was received before this process began, and keeping what comes.
    fn kept(about: AboutResource, watch: WebhookWatch, keeper: Arc<dyn DeliveryKeeper>) -> Self {
        let hook = Self::new(about, watch);
        for kept in keeper.read(&hook.about.id) {
            hook.restore(kept);
        }
        Self { writing: Lock::new(Some(keeper)), ..hook }
    }

    /// Takes over what another one of the same resources has received: it is configured differently, and its content is the same.
    fn inherit(&self, before: &Self) {
        // Otherwise the same bodies would be other resources.
        if before.about.uri() == self.about.uri() && before.pointer == self.pointer {
            *self.state() = before.state().clone();
            self.deliveries.send_replace(*before.deliveries.borrow());
        }
    }

    fn restore(&self, kept: ReceivedDelivery) {
        // Kept under an earlier configuration.
        if !self.owns(&kept.uri) {
            return;
        }
        let ReceivedDelivery { uri, at, number, mime_type, body } = kept;
        let received =
            ReceivedBody { hash: hash(&body), content: SourceContent { mime_type, bytes: body }, at, number };
        let mut state = self.state();
        // The highest number that was kept; rows come in no order.
        self.deliveries.send_if_modified(|last| number > std::mem::replace(last, number.max(*last)));
        if uri == self.about.uri() {
            state.last = Some(received);
        } else {
            state.parts.insert(uri, received);
        }
    }

    fn state(&self) -> MutexGuard<'_, WebhookState> {
        self.state.lock()
    }

    /// Takes a delivery whose signature is right. What is kept of it is on disk when this returns.
    pub async fn deliver(
        self: &Arc<Self>,
        headers: &HeaderMap,
        body: Bytes,
    ) -> Result<DeliveryOutcome, DeliveryRefusal> {
        if let Some(replicas) = &self.replicas {
            return self.deliver_shared(replicas, headers, body).await;
        }
        // Before the disk: followers are told at once, and the poster gets its answer when it is kept.
        let (delivered, touched) = self.take(headers, body, SystemTime::now())?;
        if !touched.is_empty() {
            let hook = Arc::clone(self);
            if let Err(error) = tokio::task::spawn_blocking(move || hook.write(touched)).await {
                tracing::error!(%error, "a delivery was not kept");
            }
        }
        Ok(delivered)
    }

    /// Writes what these resources say now.
    fn write(&self, uris: Vec<String>) {
        // Held while it is written, so that of two deliveries the later one is kept last.
        let writing = self.writing.lock();
        let Some(keeper) = &*writing else { return };
        let (mut put, mut remove) = (Vec::new(), Vec::new());
        {
            // Under both locks: what is written is the newest state, and not the one that the caller delivered.
            let state = self.state();
            for uri in uris {
                match if uri == self.about.uri() { state.last.as_ref() } else { state.parts.get(&uri) } {
                    Some(received) => put.push(received.to_keep(uri)),
                    None => remove.push(uri),
                }
            }
        }
        keeper.keep(&self.about.id, &put, &remove);
    }

    /// The resources that say something else now are given, too.
    fn take(
        &self,
        headers: &HeaderMap,
        body: Bytes,
        at: SystemTime,
    ) -> Result<(DeliveryOutcome, Vec<String>), BadSignature> {
        // The poster got no answer the first time and tries again: it is told yes, and nobody is told of a change.
        if self.verifier.verify(headers, &body, at)? == DeliveryOutcome::Again {
            return Ok((DeliveryOutcome::Again, Vec::new()));
        }
        let mime_type = self.mime_type(headers);
        let part = self.part(&body);
        let mut state = self.state();
        // Counted inside the lock, so that a later number is never seen with an earlier body.
        self.deliveries.send_modify(|number| *number += 1);
        let number = *self.deliveries.borrow();
        let received =
            ReceivedBody { hash: hash(&body), content: SourceContent { mime_type, bytes: body }, at, number };
        state.last = Some(received.clone());
        let mut touched = vec![self.about.uri()];
        if let Some(uri) = part {
            state.parts.insert(uri.clone(), received);
            touched.push(uri);
            touched.extend(state.shrink());
        }
        Ok((DeliveryOutcome::Taken, touched))
    }

    /// The type of a body: as configured, or as the poster says.
    fn mime_type(&self, headers: &HeaderMap) -> Option<String> {
        let given = || {
            let text = headers.get(header::CONTENT_TYPE)?.to_str().ok()?;
            Some(text.split(';').next().unwrap_or(text).trim().to_ascii_lowercase())
        };
        self.about.mime_type.clone().or_else(given)
    }

    /// The URI of the part that a body concerns.
    fn part(&self, body: &[u8]) -> Option<String> {
        // A body that is no JSON has no part, and is the content of the whole all the same.
        let json: Value = serde_json::from_slice(body).ok()?;
        let name = match json.pointer(self.pointer.as_deref()?)? {
            Value::String(text) if !text.is_empty() => text.clone(),
            Value::Number(number) => number.to_string(),
            // An object or a list is no name.
            _ => return None,
        };
        Some(format!("{}/{}", self.about.uri(), encoded(name.as_bytes())))
    }

    fn entry(&self, uri: &str, received: Option<&ReceivedBody>) -> SourceEntry {
        let mut entry = SourceEntry { uri: uri.to_owned(), ..self.about.entry() };
        if let Some(part) = uri.strip_prefix(&self.about.uri()).filter(|part| !part.is_empty()) {
            entry.name = format!("{}{part}", self.about.name());
        }
        if let Some(received) = received {
            entry.mime_type = received.content.mime_type.clone();
            entry.size = Some(received.content.bytes.len() as u64);
            entry.last_modified = Some(received.at);
        }
        entry
    }

    fn tell(&self, known: &mut Vec<String>, signals: &SourceSignals, first: bool) {
        let (last, parts) = {
            let state = self.state();
            let hashes = |(uri, part): (&String, &ReceivedBody)| (uri.clone(), part.hash);
            (state.last.as_ref().map(|last| last.hash), state.parts.iter().map(hashes).collect::<HashMap<_, _>>())
        };
        let tell = |uri: &str, seen| if first { signals.baseline(uri, seen) } else { signals.observed(uri, seen) };
        tell(&self.about.uri(), last);
        for (uri, hash) in &parts {
            tell(uri, Some(*hash));
        }
        for gone in known.iter().filter(|uri| !parts.contains_key(*uri)) {
            tell(gone, None);
        }
        let mut now: Vec<String> = parts.into_keys().collect();
        now.sort_unstable();
        if *known != now && !first {
            signals.list_changed();
        }
        *known = now;
    }
}

impl WebhookState {
    /// Forgets what is oldest until the rest fits, and says what.
    fn shrink(&mut self) -> Vec<String> {
        let mut forgotten = Vec::new();
        let mut bytes: usize = self.parts.values().map(|part| part.content.bytes.len()).sum();
        while self.parts.len() > MOST_PARTS || bytes > MOST_BYTES {
            // By number and not by time, which may step back.
            let oldest = self.parts.iter().min_by_key(|(_, part)| part.number).map(|(uri, _)| uri.clone());
            let Some((uri, gone)) = oldest.and_then(|uri| self.parts.remove_entry(&uri)) else { break };
            bytes -= gone.content.bytes.len();
            forgotten.push(uri);
        }
        forgotten
    }
}

impl ReceivedBody {
    fn to_keep(&self, uri: String) -> ReceivedDelivery {
        let SourceContent { mime_type, bytes } = self.content.clone();
        // In milliseconds, as it is kept.
        let since = self.at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let at = SystemTime::UNIX_EPOCH + Duration::from_millis(u64::try_from(since.as_millis()).unwrap_or(u64::MAX));
        ReceivedDelivery { uri, at, number: self.number, mime_type, body: bytes }
    }
}

impl WatchedSource for WebhookSource {
    fn owns(&self, uri: &str) -> bool {
        let rest = uri.strip_prefix(&self.about.uri());
        rest.is_some_and(|rest| rest.is_empty() || (self.pointer.is_some() && rest.len() > 1 && rest.starts_with('/')))
    }

    fn list(&self) -> BoxFuture<'_, Vec<SourceEntry>> {
        let state = self.state();
        let mut parts: Vec<_> = state.parts.iter().map(|(uri, part)| self.entry(uri, Some(part))).collect();
        parts.sort_by(|a, b| a.uri.cmp(&b.uri));
        parts.insert(0, self.entry(&self.about.uri(), state.last.as_ref()));
        Box::pin(std::future::ready(parts))
    }

    fn template(&self) -> BoxFuture<'_, Option<SourceEntry>> {
        let uri = || format!("{}/{{+part}}", self.about.uri());
        let template = self.pointer.as_ref().map(|_| SourceEntry { uri: uri(), ..self.about.entry() });
        Box::pin(std::future::ready(template))
    }

    fn read<'a>(&'a self, uri: &'a str) -> BoxFuture<'a, Result<SourceContent, UnreadableReason>> {
        Box::pin(async move {
            if let Some(replicas) = &self.replicas {
                // It may have been posted to another replica just now.
                replicas.confirm().await;
            }
            let state = self.state();
            let received = if uri == self.about.uri() { state.last.as_ref() } else { state.parts.get(uri) };
            received.map(|received| received.content.clone()).ok_or(UnreadableReason::NothingYet)
        })
    }

    fn list_is_alive(&self) -> BoxFuture<'_, bool> {
        Box::pin(std::future::ready(self.pointer.is_some()))
    }

    fn look<'a>(&'a self, uris: &'a [String], signals: &'a SourceSignals) -> BoxFuture<'a, ()> {
        let state = self.state();
        for uri in uris {
            let received = if *uri == self.about.uri() { state.last.as_ref() } else { state.parts.get(uri) };
            signals.baseline(uri, received.map(|received| received.hash));
        }
        Box::pin(std::future::ready(()))
    }

    fn watch(&self, signals: SourceSignals) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            // Before the first tell: a delivery in between rings again.
            let mut deliveries = self.deliveries.subscribe();
            let mut known = Vec::new();
            self.tell(&mut known, &signals, !signals.is_ready());
            signals.ready();
            // The sender lives as long as the source.
            while deliveries.changed().await.is_ok() {
                self.tell(&mut known, &signals, false);
            }
        })
    }
}

impl DeclaredWatch for WebhookWatch {
    fn make(&self, about: AboutResource, inputs: &SourceInputs<'_>) -> Result<MadeSource, SourceFault> {
        if let Some(replicas) = &inputs.replicas {
            let hook =
                WebhookSource { replicas: Some(Arc::clone(replicas)), ..WebhookSource::new(about, self.clone()) };
            let made = Arc::new(hook);
            replicas.join(&made);
            return Ok(MadeSource { hook: Some((self.name.clone(), Arc::clone(&made))), source: made });
        }
        let made = Arc::new(match &inputs.keeper {
            Some(keeper) => WebhookSource::kept(about, self.clone(), Arc::clone(keeper)),
            None => WebhookSource::new(about, self.clone()),
        });
        if let Some((_, before)) = inputs.before.and_then(|before| before.hook.as_ref()) {
            // A changed secret or pace must not lose what was delivered under the old one.
            made.inherit(before);
        }
        Ok(MadeSource { hook: Some((self.name.clone(), Arc::clone(&made))), source: made })
    }

    fn examine(&self, _about: AboutResource) -> BoxFuture<'_, Vec<WatchFinding>> {
        let what = format!("takes what is posted to /hooks/{} of `tidings serve`", self.name);
        Box::pin(std::future::ready(vec![WatchFinding::fine(what)]))
    }
}

/// All webhooks by name. Clones are handles to the same set, which may be replaced.
#[derive(Clone, Default)]
pub struct WebhookSet(Arc<RwLock<HashMap<String, Arc<WebhookSource>>>>);

impl WebhookSet {
    /// These, each by the NAME of its path.
    pub fn new(hooks: impl IntoIterator<Item = (String, Arc<WebhookSource>)>) -> Self {
        Self(Arc::new(RwLock::new(hooks.into_iter().collect())))
    }

    /// The webhook that `/hooks/NAME` means at this moment; `None` when no watch has the name.
    pub fn get(&self, name: &str) -> Option<Arc<WebhookSource>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }

    /// From now on there are those of another set.
    pub fn replace(&self, other: &Self) {
        // Cloned first: both locks at once could wait for each other if two sets were exchanged.
        let hooks = other.0.read().unwrap_or_else(PoisonError::into_inner).clone();
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = hooks;
    }
}

#[cfg(test)]
mod tests;
