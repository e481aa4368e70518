//! A server behind Streamable HTTP, of either era: one POST for each call, and for legacy servers the stream on which they speak
//! by themselves (`push`). Connections are kept in `pool`, which knows nothing of MCP.

mod asked;
mod call;
mod cancellation;
pub(crate) mod client;
mod dial;
mod driven;
mod pool;
mod push;
mod reach;
mod refusal;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, USER_AGENT};
use http::{Request, Response, StatusCode, Uri};
use http_body_util::Full;
use tidings_proto::{Era, Method, Revision, TraceContext, headers, meta};
use tidings_wire::{BudgetShare, RawId, assert_outgoing};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::credential::{HeldCredential, SharedCredential};
use crate::link::{Link, MessageSink, OutgoingRequest};
use crate::spec::HttpSpec;
use crate::{CallStream, LinkError, MAX_MESSAGE, ShownUrl};
pub use client::HttpClient;
pub use pool::HttpBody;
pub(crate) use pool::HttpDestination;
pub use reach::{NetworkReach, is_public};

pub(crate) const SESSION: HeaderName = HeaderName::from_static(headers::SESSION_ID);
pub(crate) const VERSION: HeaderName = HeaderName::from_static(headers::PROTOCOL_VERSION);
pub(crate) const LAST_EVENT: HeaderName = HeaderName::from_static(headers::LAST_EVENT_ID);
const METHOD: HeaderName = HeaderName::from_static(headers::METHOD);
const NAME: HeaderName = HeaderName::from_static(headers::NAME);
pub(crate) const BOTH: HeaderValue = HeaderValue::from_static("application/json, text/event-stream");
pub(crate) const AGENT: HeaderValue = HeaderValue::from_static(concat!("tidings/", env!("CARGO_PKG_VERSION")));
pub(crate) const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// How long our own short posts (notifications, answers) may take.
pub(crate) const POST: Duration = Duration::from_secs(30);

/// How often an answer to a server is sent, and how much longer is waited each time.
const ANSWER_TRIES: u32 = 4;
const ANSWER_PAUSE: Duration = Duration::from_millis(200);

/// How long posts under way, and then calls, are waited for before the session is ended, and how long that may take. While calls
/// run it is not ended: the server forgets it by itself.
pub(crate) const LAST_POSTS: Duration = Duration::from_secs(2);
const LAST_CALLS: Duration = Duration::from_secs(5);
const DELETE: Duration = Duration::from_secs(2);

/// A session with a legacy server, or an understanding with a modern one.
pub(crate) struct HttpLink {
    pub(crate) shared: Arc<HttpLinkShared>,
}

pub(crate) struct HttpLinkShared {
    pub(crate) client: HttpClient,
    /// The URL as the log may have it.
    shown: Box<str>,
    /// What the messages of this server take of the memory for all.
    pub(crate) memory: Arc<BudgetShare>,
    to: Arc<HttpDestination>,
    configured: HeaderMap,
    credential: Option<SharedCredential>,
    /// Whether the configuration says that the server wants a token. Read once: calls ask for it.
    expects_refusals: bool,
    /// Whether newer tokens are taken over as they come: only where there is one.
    follows_credential: AtomicBool,
    state: RwLock<Arc<HttpLinkState>>,
    pub(crate) sink: Arc<dyn MessageSink>,
    pub(crate) stop: CancellationToken,
    pub(crate) tasks: TaskTracker,
    progress: cancellation::LinkCallProgress,
    /// What the server asked on the streams of calls.
    asked: Arc<asked::AskedQuestions>,
    /// Calls that are not over: the session is not ended under them.
    pub(crate) calls: TaskTracker,
    /// Whoever waits for the ends of links waits for this one too.
    goodbyes: TaskTracker,
    closing: AtomicBool,
    closed: CancellationToken,
    push_unsupported: AtomicBool,
}

#[derive(Clone)]
pub(crate) struct HttpLinkState {
    pub(crate) era: Era,
    revision: Option<HeaderValue>,
    session: Option<HeaderValue>,
    /// The token that the headers hold.
    held: Option<HeldCredential>,
    /// Headers that every request carries. Made when one of them changes, and not for each request.
    pub(crate) headers: HeaderMap,
}

impl HttpLinkState {
    /// Whether the server is introduced: from then on a refusal is news.
    pub(crate) fn is_settled(&self) -> bool {
        self.revision.is_some()
    }

    pub(crate) fn has_session(&self) -> bool {
        self.session.is_some()
    }
}

/// Headers that every request of a link in this state carries.
fn base_headers(configured: &HeaderMap, state: &HttpLinkState) -> HeaderMap {
    // First the user's headers and then ours: what the protocol needs can not be overwritten by the configuration.
    let mut headers = configured.clone();
    // Room for those of one request, so that a copy need not be made larger.
    headers.reserve(12);
    headers.insert(CONTENT_TYPE, JSON);
    headers.insert(ACCEPT, BOTH);
    headers.insert(USER_AGENT, AGENT);
    if let Some(session) = &state.session {
        headers.insert(SESSION, session.clone());
    }
    if let Some(revision) = &state.revision {
        headers.insert(VERSION, revision.clone());
    }
    if let Some(held) = &state.held {
        headers.insert(AUTHORIZATION, held.header.clone());
    }
    headers
}

impl HttpLink {
    pub(crate) fn open(
        client: HttpClient,
        spec: &HttpSpec,
        era: Era,
        sink: Arc<dyn MessageSink>,
        goodbyes: TaskTracker,
    ) -> Result<Arc<Self>, LinkError> {
        let url: Uri =
            spec.url.parse().map_err(|e| LinkError::Unreachable(format!("{}: {e}", ShownUrl::of(&spec.url))))?;
        let configured = configured_headers(spec)?;
        let credential = spec.credential.clone();
        let held = credential.as_ref().and_then(SharedCredential::now);
        let mut state = HttpLinkState { era, revision: None, session: None, held, headers: HeaderMap::new() };
        state.headers = base_headers(&configured, &state);
        let is_held = state.held.is_some();
        let expects_refusals = credential.as_ref().is_some_and(|credential| credential.0.expects_refusals());
        let link = Arc::new(Self {
            shared: Arc::new(HttpLinkShared {
                client,
                to: Arc::new(HttpDestination::new(&url)?),
                shown: ShownUrl::of(&spec.url).to_string().into(),
                memory: Arc::default(),
                configured,
                credential,
                expects_refusals,
                follows_credential: AtomicBool::new(false),
                state: RwLock::new(Arc::new(state)),
                sink,
                stop: CancellationToken::new(),
                tasks: TaskTracker::new(),
                progress: cancellation::LinkCallProgress::default(),
                asked: Arc::default(),
                calls: TaskTracker::new(),
                goodbyes,
                closing: AtomicBool::new(false),
                closed: CancellationToken::new(),
                push_unsupported: AtomicBool::new(false),
            }),
        });
        if is_held {
            link.shared.follow_credential();
        }
        Ok(link)
    }

    /// The era of the messages from now on.
    pub(crate) fn speak(&self, era: Era) {
        self.shared.update(|state| state.era = era);
    }

    /// The revision is known: headers say it from now on.
    pub(crate) fn settle(&self, revision: Revision) {
        self.shared.update(|state| state.revision = Some(HeaderValue::from_static(revision.as_str())));
    }

    /// Listens to what a legacy server says by itself. Returns when it is known whether that stream opens: most servers drop what they
    /// say while nobody has it open, and a tool that asks something there would wait for ever.
    pub(crate) async fn listen(&self) {
        let (decided, first) = oneshot::channel();
        self.shared.tasks.spawn(push::listen(Arc::clone(&self.shared), decided));
        // A server may keep the head of the answer until it has something to say: then nothing is decided, and calls go on.
        let _ = tokio::time::timeout(push::DECIDED_WITHIN, first).await;
    }
}

impl HttpLinkShared {
    /// Its URL, for the log.
    pub(crate) fn shown(&self) -> &str {
        &self.shown
    }

    pub(crate) fn state(&self) -> Arc<HttpLinkState> {
        Arc::clone(&self.state.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn update(&self, change: impl FnOnce(&mut HttpLinkState)) {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        let changed = Arc::make_mut(&mut state);
        change(changed);
        changed.headers = base_headers(&self.configured, changed);
    }

    /// Remembers the session that the answer to `initialize` opens.
    pub(crate) fn adopt_session(&self, answer: &HeaderMap) {
        if let Some(session) = answer.get(SESSION) {
            let session = session.clone();
            self.update(|state| state.session = Some(session));
        }
    }

    /// Whether a request is kept until it is answered, because it may have to be sent again with another token. Not where nothing is
    /// known of one: most servers want none.
    pub(crate) fn may_resend(&self, state: &HttpLinkState) -> bool {
        state.held.is_some() || self.expects_refusals || (!state.is_settled() && self.credential.is_some())
    }

    /// The server refused the credentials of a request, which it did not read. Gives the state to send it with once more; an error where
    /// there is none.
    pub(crate) async fn credentials_refused(
        self: &Arc<Self>,
        sent: &HttpLinkState,
        (status, headers): (StatusCode, &HeaderMap),
    ) -> Result<Arc<HttpLinkState>, LinkError> {
        let status = status.as_u16();
        let Some(credential) = &self.credential else { return Err(LinkError::Unauthorized(status)) };
        let held = credential.another(sent.held.as_ref(), status, headers).await?;
        self.take_credential(held);
        self.follow_credential();
        Ok(self.state())
    }

    fn take_credential(&self, held: HeldCredential) {
        let generation = held.generation;
        let is_newer = |state: &HttpLinkState| state.held.as_ref().is_none_or(|old| old.generation < generation);
        // Asked first, because all who were refused with one token come with the same next one, and nothing is made anew for them.
        if is_newer(&self.state()) {
            self.update(|state| {
                // And again: somebody may have brought a newer one meanwhile, which must not be replaced by this.
                if is_newer(state) {
                    state.held = Some(held);
                }
            });
        }
    }

    /// Takes newer tokens over as they come, for as long as the link lives.
    fn follow_credential(self: &Arc<Self>) {
        let Some(credential) = self.credential.clone() else { return };
        if self.follows_credential.swap(true, Ordering::SeqCst) {
            return;
        }
        let (link, stop, mut held) = (Arc::downgrade(self), self.stop.clone(), credential.0.held());
        self.tasks.spawn(async move {
            loop {
                let newer = held.borrow_and_update().clone();
                match (link.upgrade(), newer) {
                    (None, _) => return,
                    (Some(link), Some(newer)) => link.take_credential(newer),
                    // Withdrawn: the server is about to refuse what is sent, and then everybody hears why.
                    (Some(_), None) => {}
                }
                tokio::select! {
                    changed = held.changed() => if changed.is_err() { return },
                    () = stop.cancelled() => return,
                }
            }
        });
    }

    /// Sends a request to the endpoint.
    pub(crate) async fn send(&self, request: Request<Full<Bytes>>) -> Result<Response<HttpBody>, LinkError> {
        self.client.send_to(&self.to, request).await
    }

    /// The same, and reads the whole answer.
    pub(crate) async fn fetch(
        &self,
        request: Request<Full<Bytes>>,
        within: Duration,
    ) -> Result<Response<Bytes>, LinkError> {
        self.client.fetch_from(&self.to, request, within, MAX_MESSAGE).await
    }

    /// A request to the endpoint.
    pub(crate) fn request(&self, method: http::Method, headers: HeaderMap, body: Bytes) -> Request<Full<Bytes>> {
        if method == http::Method::POST {
            assert_outgoing(&body);
        }
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = method;
        *request.headers_mut() = headers;
        request
    }

    /// Headers of a request, those that mirror its body included.
    pub(crate) fn call_headers(&self, state: &HttpLinkState, request: &OutgoingRequest) -> HeaderMap {
        let mut headers = state.headers.clone();
        if state.era == Era::Modern {
            // The probe comes before a revision is settled.
            headers.entry(VERSION).or_insert(HeaderValue::from_static(Revision::MODERN.as_str()));
            if let Some(method) = method_header(request) {
                headers.insert(METHOD, method);
            }
            if let Some(name) = &request.name
                && let Ok(value) = HeaderValue::try_from(&*headers::encode(name.as_str()))
            {
                headers.insert(NAME, value);
            }
            for (name, value) in &request.params {
                if let (Ok(name), Ok(value)) = (
                    HeaderName::try_from(format!("{}{name}", headers::PARAM_PREFIX)),
                    HeaderValue::try_from(&*headers::encode(value)),
                ) {
                    headers.insert(name, value);
                }
            }
        } else if request.method == Method::Initialize {
            // `initialize` asks for a new session, so it must not name an old one.
            headers.remove(SESSION);
        }
        if let Some(trace) = &request.trace {
            trace_headers(trace, &mut headers);
        }
        headers
    }

    /// Something failed. Not told once the link is given up: then it has to.
    pub(crate) fn trouble(&self, error: &LinkError) {
        if !self.stop.is_cancelled() {
            self.sink.troubled(error);
        }
    }

    /// Ends the session in good order: after what is under way, and never under a call that runs.
    async fn say_goodbye(&self) {
        // Posts under way, such as `initialized` or a cancellation, come first.
        self.tasks.close();
        let _ = tokio::time::timeout(LAST_POSTS, self.tasks.wait()).await;
        let state = self.state();
        // Without a session the server has nothing to forget.
        if !state.has_session() {
            return;
        }
        self.calls.close();
        if tokio::time::timeout(LAST_CALLS, self.calls.wait()).await.is_ok() {
            let request = self.request(http::Method::DELETE, state.headers.clone(), Bytes::new());
            // A server may refuse to be told (405); then it forgets the session by itself.
            let _ = self.fetch(request, DELETE).await;
        }
    }
}

impl Link for HttpLink {
    fn is_push_unsupported(&self) -> bool {
        self.shared.push_unsupported.load(Ordering::SeqCst)
    }

    fn call(&self, request: OutgoingRequest) -> CallStream {
        call::start(Arc::clone(&self.shared), request)
    }

    fn cancel(&self, id: u64, reason: Option<&str>) {
        // A modern server sees the stream close; a legacy one must be told.
        if self.shared.state().era == Era::Legacy {
            cancellation::cancel(&self.shared, id, reason);
        }
    }

    fn send(&self, message: Bytes) {
        // Nobody waits for it: an answer of ours must not hold up whoever sends it.
        self.shared.tasks.spawn(post(Arc::clone(&self.shared), message));
    }

    fn deliver(&self, message: Bytes) -> BoxFuture<'static, ()> {
        Box::pin(post(Arc::clone(&self.shared), message))
    }

    fn close(&self) -> BoxFuture<'static, ()> {
        let shared = Arc::clone(&self.shared);
        shared.stop.cancel();
        // Not left to whoever polls the future: it may be dropped, and the server would keep the session.
        if !shared.closing.swap(true, Ordering::SeqCst) {
            let ending = Arc::clone(&shared);
            shared.goodbyes.spawn(async move {
                ending.say_goodbye().await;
                // Whoever still knows the link keeps no connection by it.
                ending.client.close();
                ending.closed.cancel();
            });
        }
        Box::pin(async move { shared.closed.cancelled().await })
    }
}

/// What is sent with every request because the configuration says so.
pub(crate) fn configured_headers(spec: &HttpSpec) -> Result<HeaderMap, LinkError> {
    let mut configured = HeaderMap::new();
    for (name, value) in &spec.headers {
        let name = HeaderName::try_from(name).map_err(|e| LinkError::Unreachable(e.to_string()))?;
        let mut value = HeaderValue::try_from(value).map_err(|e| LinkError::Unreachable(e.to_string()))?;
        // Keeps tokens out of debug output.
        value.set_sensitive(true);
        configured.insert(name, value);
    }
    Ok(configured)
}

/// Posts a message that wants no answer.
async fn post(shared: Arc<HttpLinkShared>, message: Bytes) {
    if is_answer(&message) {
        return post_answer(&shared, message).await;
    }
    match post_once(&shared, message).await {
        Ok(()) => {}
        // Not trouble of the link: a notification that is refused costs nobody an answer.
        Err(error) => tracing::debug!(url = %shared.shown(), %error, "message lost"),
    }
}

async fn post_once(shared: &HttpLinkShared, message: Bytes) -> Result<(), LinkError> {
    let headers = shared.state().headers.clone();
    // A token that ends just now costs a notification; the next call has it renewed.
    let answer = shared.fetch(shared.request(http::Method::POST, headers, message), POST).await?;
    let status = answer.status();
    match status.is_success() {
        true => Ok(()),
        false => Err(refusal::session_refused(&shared.state(), status)
            .unwrap_or(LinkError::Status { status: status.as_u16(), body: None })),
    }
}

/// Posts the answer to a question of the server, whose call waits for it. Sent again where it may not have arrived: the server knows it by
/// the id of its question, and has no use for a second one. An answer that can not be delivered ends the call, and is trouble of the
/// link, which is checked then.
async fn post_answer(shared: &HttpLinkShared, message: Bytes) {
    let question = question_of(&message);
    let mut tries = 0;
    let error = loop {
        let error = match post_once(shared, message.clone()).await {
            Ok(()) => {
                question.iter().for_each(|question| shared.asked.answered(question));
                return;
            }
            Err(error) => error,
        };
        tries += 1;
        // A server that has read it and does not want it says the same again.
        let is_refused = matches!(&error, LinkError::Status { status, .. } if *status < 500);
        if is_refused || matches!(error, LinkError::SessionRefused(_)) || tries == ANSWER_TRIES {
            break error;
        }
        tokio::select! {
            () = shared.stop.cancelled() => return,
            () = tokio::time::sleep(ANSWER_PAUSE * tries) => {}
        }
    };
    tracing::warn!(url = %shared.shown(), %error, tries, "the answer to a question of this server was lost");
    shared.trouble(&error);
    question.iter().for_each(|question| shared.asked.lost(question, &error));
}

/// The id of the question that a message answers.
fn question_of(message: &Bytes) -> Option<RawId> {
    let id = tidings_wire::get(message, tidings_wire::ByteSpan::new(0, message.len()), "id")?;
    RawId::from_raw(id.of(message))
}

/// Whether a message answers a request of the server.
fn is_answer(message: &Bytes) -> bool {
    tidings_wire::get(message, tidings_wire::ByteSpan::new(0, message.len()), "method").is_none()
}

/// Says which span a request belongs to, also to those on the way that read no messages.
pub(crate) fn trace_headers(trace: &TraceContext, headers: &mut HeaderMap) {
    let state = trace.state.as_deref().map(|state| (meta::TRACE_STATE, state.to_owned()));
    for (name, value) in [(meta::TRACE_PARENT, trace.parent.to_string())].into_iter().chain(state) {
        if let Ok(value) = HeaderValue::try_from(value) {
            headers.insert(HeaderName::from_static(name), value);
        }
    }
}

/// The header that mirrors the method. That of a vendor's method stands only in the message.
fn method_header(request: &OutgoingRequest) -> Option<HeaderValue> {
    if request.method != Method::Other {
        return Some(HeaderValue::from_static(request.method.as_str()));
    }
    let bytes = &request.bytes;
    let name = tidings_wire::get(bytes, tidings_wire::ByteSpan::new(0, bytes.len()), "method");
    let name = name.and_then(|at| tidings_wire::string_at(bytes, at))?;
    HeaderValue::try_from(&*headers::encode(&name)).ok()
}
