//! A URL that is asked again and again. Only a changed body counts.

use std::net::IpAddr;
use std::sync::{Arc, MutexGuard};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::{HeaderMap, HeaderName, HeaderValue, Request, StatusCode, Uri, header};
use http_body_util::Full;
use tidings_config::watch::HttpWatch;
use tidings_sync::Lock;
use tidings_upstream::{HttpClient, LinkError};
use tokio::time::Instant;

use super::kinds::{DeclaredWatch, MadeSource, SourceFault, SourceInputs, WatchFinding};
use super::note::PassingNote;
use super::observations::{SourceSignals, hash};
use super::source::{SourceContent, SourceEntry, UnreadableReason, WatchedSource};
use super::{AboutResource, pause};

/// The longest body that is taken.
const LONGEST: usize = 4 << 20;
/// How long one request may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// A body is this fresh for readers without asking again.
const FRESH: Duration = Duration::from_millis(500);
/// The longest time that a server may ask us to wait.
const LONGEST_WAIT: Duration = Duration::from_secs(60 * 60);

/// The URL, and what is known of its body.
struct HttpSource {
    about: AboutResource,
    url: Uri,
    headers: HeaderMap,
    every: Duration,
    client: HttpClient,
    note: PassingNote,
    state: Lock<HttpSourceState>,
}

#[derive(Default)]
struct HttpSourceState {
    /// Requests are numbered as they are sent; an answer that was overtaken is not believed.
    sent: u64,
    believed: u64,
    body: Option<HttpSourceBody>,
    /// When the body was had; `None` once a later try failed.
    fetched: Option<Instant>,
    wait_until: Option<Instant>,
}

#[derive(Clone)]
struct HttpSourceBody {
    content: SourceContent,
    etag: Option<HeaderValue>,
    last_modified: Option<HeaderValue>,
    /// When it changed, as far as we know.
    changed: SystemTime,
}

/// Why a watch can not be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum HttpFault {
    /// The URL does not parse, or names no host.
    #[error("not a URL that can be asked")]
    Url,
    /// The name or the value of a header has characters that HTTP does not allow; the name is given.
    #[error("not an HTTP header: {0}")]
    Header(String),
    /// The system's certificates can not be had.
    #[error("{0}")]
    Client(LinkError),
}

/// Why there is no body this time.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum NoBody {
    #[error("{0}")]
    Link(LinkError),
    #[error("answered with HTTP status {0}")]
    Status(StatusCode),
    #[error("redirects to another URL (HTTP status {0}); configure that one")]
    Redirect(StatusCode),
    #[error("asked us to wait for {} s", .0.as_secs())]
    Wait(Duration),
}

impl HttpSource {
    /// A watch of a URL. Nothing is asked yet.
    fn new(about: AboutResource, watch: &HttpWatch) -> Result<Self, HttpFault> {
        let url: Uri = watch.url.parse().map_err(|_| HttpFault::Url)?;
        let mut headers = HeaderMap::new();
        for (name, value) in &watch.headers {
            let fault = || HttpFault::Header(name.clone());
            let (key, value) = (HeaderName::try_from(name), HeaderValue::try_from(value));
            headers.insert(key.map_err(|_| fault())?, value.map_err(|_| fault())?);
        }
        // An address in the URL is the user's word; a name may be made to lead into the private network by whoever
        // owns it.
        let anywhere = watch.private || is_declared_private(url.host().unwrap_or_default());
        let client = if anywhere { HttpClient::new() } else { HttpClient::public_only() };
        let client = client.map_err(HttpFault::Client)?;
        let (note, state) = (PassingNote::default(), Lock::default());
        Ok(Self { about, url, headers, every: watch.every, client, note, state })
    }

    fn state(&self) -> MutexGuard<'_, HttpSourceState> {
        self.state.lock()
    }

    /// Asks once and remembers body and validator: the next request asks only whether it changed.
    async fn fetch(&self) -> Result<SourceContent, NoBody> {
        let answer = self.ask().await;
        let mut state = self.state();
        let (number, body) = match answer {
            Ok(answer) => answer,
            Err(why) => {
                // Readers ask again instead of getting a body that may be out of date. A failure that was overtaken costs one request more.
                state.fetched = None;
                return Err(why);
            }
        };
        // Answers may overtake each other; an older one must not undo what a newer one said.
        if number > state.believed {
            state.believed = number;
            state.body = Some(body.clone());
            state.fetched = Some(Instant::now());
        }
        Ok(body.content)
    }

    /// Asks, with what is known so that an unchanged body need not be sent.
    async fn ask(&self) -> Result<(u64, HttpSourceBody), NoBody> {
        let (number, known) = {
            let mut state = self.state();
            let now = Instant::now();
            // Readers wait as well: the server asked all of us to leave it alone.
            if let Some(wait) = state.wait_until.and_then(|until| until.checked_duration_since(now)) {
                return Err(NoBody::Wait(wait));
            }
            state.sent += 1;
            (state.sent, state.body.clone())
        };
        let response = self.client.fetch(self.request(known.as_ref()), PATIENCE, LONGEST).await;
        let (head, bytes) = response.map_err(NoBody::Link)?.into_parts();
        match (head.status, known) {
            // Counts as an answer with the same body, so a slower one before it is not believed any more.
            (StatusCode::NOT_MODIFIED, Some(known)) => Ok((number, known)),
            (StatusCode::OK, known) => Ok((number, self.body(&head.headers, bytes, known))),
            // Not followed: another host may be private, or get the headers that were meant for this one.
            (status, _) if status.is_redirection() => Err(NoBody::Redirect(status)),
            (status, _) => {
                if let Some(wait) = retry_after(&head.headers, SystemTime::now()) {
                    self.state().wait_until = Some(Instant::now() + wait);
                }
                Err(NoBody::Status(status))
            }
        }
    }

    fn request(&self, known: Option<&HttpSourceBody>) -> Request<Full<Bytes>> {
        let mut request = Request::new(Full::default());
        *request.uri_mut() = self.url.clone();
        let headers = request.headers_mut();
        let agent = concat!("tidings/", env!("CARGO_PKG_VERSION"));
        headers.insert(header::USER_AGENT, HeaderValue::from_static(agent));
        headers.insert(header::ACCEPT, HeaderValue::from_static("*/*"));
        // After ours, so that the configuration can replace them.
        headers.extend(self.headers.clone());
        if let Some(etag) = known.and_then(|known| known.etag.clone()) {
            headers.insert(header::IF_NONE_MATCH, etag);
        }
        if let Some(date) = known.and_then(|known| known.last_modified.clone()) {
            headers.insert(header::IF_MODIFIED_SINCE, date);
        }
        request
    }

    fn body(&self, headers: &HeaderMap, bytes: Bytes, known: Option<HttpSourceBody>) -> HttpSourceBody {
        let guessed = || {
            let text = headers.get(header::CONTENT_TYPE)?.to_str().ok()?;
            // Without the charset: clients compare types as text.
            Some(text.split(';').next().unwrap_or(text).trim().to_ascii_lowercase())
        };
        let mime_type = self.about.mime_type.clone().or_else(guessed);
        let last_modified = headers.get(header::LAST_MODIFIED).cloned();
        let dated = last_modified.as_ref().and_then(|date| httpdate::parse_http_date(date.to_str().ok()?).ok());
        // A server without dates or tags sends the same body each time: it did not change just now.
        let before = known.filter(|known| known.content.bytes == bytes).map(|known| known.changed);
        let changed = dated.or(before).unwrap_or_else(SystemTime::now);
        let etag = headers.get(header::ETAG).cloned();
        HttpSourceBody { content: SourceContent { mime_type, bytes }, etag, last_modified, changed }
    }
}

/// A host that is written as loopback or as an address is meant as it is written.
fn is_declared_private(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    bare.parse::<IpAddr>().is_ok() || bare.eq_ignore_ascii_case("localhost")
}

/// How long the server wants to be left alone.
fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = headers.get(header::RETRY_AFTER)?.to_str().ok()?.trim();
    let wait = match text.parse() {
        Ok(seconds) => Duration::from_secs(seconds),
        // A date that has passed is no wait.
        Err(_) => httpdate::parse_http_date(text).ok()?.duration_since(now).ok()?,
    };
    Some(wait.min(LONGEST_WAIT))
}

impl WatchedSource for HttpSource {
    fn owns(&self, uri: &str) -> bool {
        uri == self.about.uri()
    }

    fn list(&self) -> BoxFuture<'_, Vec<SourceEntry>> {
        let body = self.state().body.clone();
        let mut entry = SourceEntry { description: self.note.describe(&self.about), ..self.about.entry() };
        if let Some(body) = body {
            entry.mime_type = body.content.mime_type;
            entry.size = Some(body.content.bytes.len() as u64);
            entry.last_modified = Some(body.changed);
        }
        Box::pin(std::future::ready(vec![entry]))
    }

    fn read<'a>(&'a self, _uri: &'a str) -> BoxFuture<'a, Result<SourceContent, UnreadableReason>> {
        Box::pin(async move {
            let fresh = {
                let state = self.state();
                // Many clients read at the same moment, after one notice; one request serves them all.
                state.body.clone().filter(|_| state.fetched.is_some_and(|at| at.elapsed() < FRESH))
            };
            match fresh {
                Some(body) => Ok(body.content),
                None => self.fetch().await.map_err(|why| UnreadableReason::Upstream(format!("the URL {why}"))),
            }
        })
    }

    fn trouble(&self) -> Option<String> {
        self.note.said()
    }

    fn watch(&self, signals: SourceSignals) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let uri = self.about.uri();
            let mut failures = 0;
            loop {
                let wait = match self.fetch().await {
                    Ok(content) => {
                        let seen = Some(hash(&content.bytes));
                        // Somebody was acknowledged without this look, so it may be a change for them.
                        if signals.is_ready() {
                            signals.observed(&uri, seen)
                        } else {
                            signals.baseline(&uri, seen)
                        }
                        if failures > 0 {
                            tracing::info!(watch = %self.about.id, failures, "the URL answers again");
                        }
                        failures = 0;
                        pause::jittered(self.every)
                    }
                    Err(why) => {
                        failures += 1;
                        if failures == 1 {
                            tracing::warn!(watch = %self.about.id, "the URL {why}");
                        }
                        let asked = if let NoBody::Wait(asked) = why { asked } else { Duration::ZERO };
                        let until = self.state().wait_until;
                        let asked = until.map_or(asked, |until| until.saturating_duration_since(Instant::now()));
                        // The server's wish counts where it is longer than our own pause.
                        pause::jittered(pause::after(failures, self.every)).max(asked)
                    }
                };
                let remark = (failures > 0).then(|| "the URL does not answer at this time".to_owned());
                if self.note.set(remark) {
                    signals.list_changed();
                }
                signals.ready();
                tokio::time::sleep(wait).await;
            }
        })
    }
}

impl DeclaredWatch for HttpWatch {
    fn make(&self, about: AboutResource, _inputs: &SourceInputs<'_>) -> Result<MadeSource, SourceFault> {
        let source = HttpSource::new(about, self).map_err(|fault| SourceFault::new("http", fault))?;
        let source: Arc<dyn WatchedSource> = Arc::new(source);
        Ok(source.into())
    }

    fn examine(&self, about: AboutResource) -> BoxFuture<'_, Vec<WatchFinding>> {
        Box::pin(async move {
            let uri = about.uri();
            // A fault of the URL was found with the configuration.
            let Ok(source) = HttpSource::new(about, self) else { return Vec::new() };
            vec![match source.read(&uri).await {
                Ok(content) => WatchFinding::fine(format!("the URL answers, {} bytes", content.bytes.len())),
                Err(why) => {
                    let remedy = "see whether `http` and `headers` are right: curl -i URL";
                    WatchFinding::problem(why.to_string(), remedy)
                }
            }]
        })
    }
}

#[cfg(test)]
mod tests;
