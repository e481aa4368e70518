//! A server behind HTTP+SSE, the transport of revision 2024-11-05: one event stream on which everything comes, and a POST for
//! each message to the address that the stream names first.
//!
//! The end of the stream is the end of the link: the transport has no resumption, and what was said meanwhile is lost. Posts
//! travel beside each other, so that a server which answers one late holds up no other.

mod endpoint;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue, LOCATION, USER_AGENT};
use http::{Request, Response, StatusCode, Uri};
use http_body_util::Full;
use tidings_proto::TraceContext;
use tidings_sync::Lock;
use tidings_wire::sse::{SseDecoder, SseEvent};
use tidings_wire::{BudgetShare, Frame, IncomingMessage, assert_outgoing, unreadable_answer_id};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::call::call_channel;
use crate::credential::{HeldCredential, SharedCredential};
use crate::error;
use crate::http::client::{chunk, read_all};
use crate::http::{
    AGENT, BOTH, HttpBody, HttpClient, HttpDestination, JSON, LAST_POSTS, POST, configured_headers, trace_headers,
};
use crate::link::{Link, MessageSink, OutgoingRequest};
use crate::pace::UnaskedPace;
use crate::shared_pipe::{SharedPipe, cancellation, excerpt};
use crate::spec::HttpSpec;
use crate::web_page::is_web_page;
use crate::{CallEvent, CallStream, LIMITS, LinkError, MAX_MESSAGE, ShownUrl};

/// How long a server may take to open its stream and to name its endpoint.
const OPENING: Duration = Duration::from_secs(5);
/// How long a call that is cancelled may still be on its way before the server is told; it is told again when the call has arrived.
const MOMENT: Duration = Duration::from_millis(100);

/// A link to a server behind HTTP+SSE.
pub(crate) struct SseLink {
    shared: Arc<SseLinkShared>,
    goodbyes: TaskTracker,
}

struct SseLinkShared {
    pipe: SharedPipe,
    client: HttpClient,
    /// Where messages are posted.
    to: Arc<HttpDestination>,
    headers: HeaderMap,
    credential: Option<SharedCredential>,
    /// The server is introduced: from then on a refusal is about the session.
    settled: AtomicBool,
    /// Calls whose posts were not answered yet. Each ends with its post, or with the link.
    on_their_way: Lock<HashMap<u64, CancellationToken>>,
    stop: CancellationToken,
    /// Posts under way. They end with their answers, and those of calls with the link.
    posts: TaskTracker,
    /// The reader of the stream. Ends with the stream, or when the link is closed, after the last posts.
    reader: TaskTracker,
}

impl SseLink {
    /// Opens the stream and waits for the address of messages.
    pub(crate) async fn open(
        client: HttpClient,
        name: &str,
        spec: &HttpSpec,
        sink: Arc<dyn MessageSink>,
        goodbyes: TaskTracker,
    ) -> Result<Arc<Self>, LinkError> {
        let url: Uri =
            spec.url.parse().map_err(|e| LinkError::Unreachable(format!("{}: {e}", ShownUrl::of(&spec.url))))?;
        let mut headers = configured_headers(spec)?;
        headers.insert(USER_AGENT, AGENT);
        let late = LinkError::HandshakeTimeout(OPENING.as_secs());
        let credential = spec.credential.clone();
        let mut held = credential.as_ref().and_then(SharedCredential::now);
        let mut is_first = true;
        let (stream, endpoint) = loop {
            let opening = open_stream(&client, &url, with_credential(headers.clone(), held.as_ref()));
            match tokio::time::timeout(OPENING, opening).await.unwrap_or_else(|_| Err(late.clone()))? {
                StreamAnswer::Open(stream, endpoint) => break (*stream, endpoint),
                StreamAnswer::Refused(answer) => match &credential {
                    Some(credential) if std::mem::take(&mut is_first) => {
                        let status = answer.status().as_u16();
                        held = Some(credential.another(held.as_ref(), status, answer.headers()).await?);
                    }
                    _ => return Err(refusal(*answer, false).await),
                },
            }
        };
        headers.insert(CONTENT_TYPE, JSON);
        headers.insert(ACCEPT, BOTH);
        let shared = Arc::new(SseLinkShared {
            pipe: SharedPipe::new(name, sink),
            client,
            to: Arc::new(HttpDestination::new(&endpoint)?),
            headers,
            credential,
            settled: AtomicBool::new(false),
            on_their_way: Lock::default(),
            stop: CancellationToken::new(),
            posts: TaskTracker::new(),
            reader: TaskTracker::new(),
        });
        shared.reader.spawn(Arc::clone(&shared).run(stream));
        shared.reader.close();
        Ok(Arc::new(Self { shared, goodbyes }))
    }

    /// The server is introduced.
    pub(crate) fn settle(&self) {
        self.shared.settled.store(true, Ordering::Relaxed);
    }
}

/// The event stream of a link, as far as it was read.
struct OpenStream {
    body: HttpBody,
    decoder: SseDecoder,
    /// What the messages of this server take of the memory for all.
    memory: Arc<BudgetShare>,
}

impl OpenStream {
    /// The next event; an error at the end.
    async fn next(&mut self) -> Result<SseEvent, LinkError> {
        loop {
            match self.decoder.next_event_within(Some(&self.memory)) {
                Ok(Some(event)) => return Ok(event),
                Ok(None) => {}
                Err(error) => return Err(LinkError::Protocol(error.to_string())),
            }
            match chunk(&mut self.body).await {
                Some(Ok(bytes)) => self.decoder.push(&bytes),
                Some(Err(_)) | None => return Err(LinkError::Lost),
            }
        }
    }
}

/// What came of asking for the stream.
enum StreamAnswer {
    Open(Box<OpenStream>, Uri),
    /// The credentials are refused.
    Refused(Box<Response<HttpBody>>),
}

/// The headers of a request with the token in use.
fn with_credential(mut headers: HeaderMap, held: Option<&HeldCredential>) -> HeaderMap {
    if let Some(held) = held {
        headers.insert(AUTHORIZATION, held.header.clone());
    }
    headers
}

async fn open_stream(client: &HttpClient, url: &Uri, mut headers: HeaderMap) -> Result<StreamAnswer, LinkError> {
    headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
    let mut request = Request::new(Full::new(Bytes::new()));
    *request.uri_mut() = url.clone();
    *request.headers_mut() = headers;
    let answer = client.send(request).await?;
    let kind = answer.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    if answer.status() == StatusCode::UNAUTHORIZED {
        return Ok(StreamAnswer::Refused(Box::new(answer)));
    }
    if !answer.status().is_success() {
        return Err(refusal(answer, false).await);
    }
    if !kind.starts_with("text/event-stream") {
        return Err(LinkError::Protocol(format!("it answered a GET with {kind:?} and not with an event stream")));
    }
    let mut stream =
        OpenStream { body: answer.into_body(), decoder: SseDecoder::new(MAX_MESSAGE), memory: Arc::default() };
    loop {
        let event = stream.next().await?;
        if event.event == "endpoint" {
            let endpoint = endpoint::resolve(url, &String::from_utf8_lossy(&event.data))?;
            return Ok(StreamAnswer::Open(Box::new(stream), endpoint));
        }
    }
}

/// What a status that is no success means. From a server that is introduced it may be that the session is over.
async fn refusal(answer: Response<HttpBody>, settled: bool) -> LinkError {
    let status = answer.status();
    if matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
        return LinkError::Unauthorized(status.as_u16());
    }
    let location = answer.headers().get(LOCATION).and_then(|to| to.to_str().ok());
    if let Some(to) = location.filter(|_| status.is_redirection()) {
        // Followed nowhere: credentials of this server would go to another.
        return LinkError::Status {
            status: status.as_u16(),
            body: Some(format!("{}{}", error::REDIRECTS, ShownUrl::of(to))),
        };
    }
    let body = read_all(answer.into_body(), MAX_MESSAGE).await.unwrap_or_default();
    let words = excerpt(&body);
    let says_session = words.to_ascii_lowercase().contains("session");
    match status {
        StatusCode::NOT_FOUND | StatusCode::CONFLICT | StatusCode::GONE if settled => {
            LinkError::SessionRefused(status.as_u16())
        }
        StatusCode::BAD_REQUEST if settled && says_session => LinkError::SessionRefused(status.as_u16()),
        _ => {
            let words = if is_web_page(&body) { "a web page (HTML)".to_owned() } else { words };
            LinkError::Status { status: status.as_u16(), body: (!words.is_empty()).then_some(words) }
        }
    }
}

impl SseLinkShared {
    async fn run(self: Arc<Self>, mut stream: OpenStream) {
        let error = tokio::select! {
            error = self.read(&mut stream) => error,
            () = self.stop.cancelled() => LinkError::Stopped,
        };
        // Whoever calls from now on must fail at once.
        self.stop.cancel();
        self.pipe.fail(&error);
        self.pipe.sink.closed(error);
        // What was said before, such as cancellations of the calls that ran, still goes out: the end of the stream ends the session.
        self.posts.close();
        let _ = tokio::time::timeout(LAST_POSTS, self.posts.wait()).await;
        drop(stream);
        self.client.close();
    }

    async fn read(self: &Arc<Self>, stream: &mut OpenStream) -> LinkError {
        let mut pace = UnaskedPace::default();
        loop {
            match stream.next().await {
                Ok(event) => {
                    if let Some(pause) = pace.count(self.event(&event)) {
                        tokio::time::sleep(pause).await;
                    }
                }
                Err(error) => return error,
            }
        }
    }

    /// Handles an event; gives the number of things in it that nobody asked for.
    fn event(self: &Arc<Self>, event: &SseEvent) -> usize {
        let is_message = matches!(&*event.event, "" | "message");
        if is_message && !event.data.is_empty() { self.message(&event.data) } else { 0 }
    }

    /// Handles what came on the stream, or as the answer of a post.
    fn message(self: &Arc<Self>, data: &Bytes) -> usize {
        match IncomingMessage::parse(data.clone(), &LIMITS) {
            Ok(IncomingMessage::Single(frame)) => self.route(frame),
            // Only 2025-03-26 has these. They mean what their parts mean, in order.
            Ok(IncomingMessage::Batch(parts)) => parts
                .into_iter()
                .map(|part| match part {
                    Ok(frame) => self.route(frame),
                    Err(error) => {
                        self.pipe.unreadable(error.id.as_ref(), &error, data);
                        0
                    }
                })
                .sum(),
            Err(error) => {
                let id = unreadable_answer_id(data);
                let is_notice = memchr::memmem::find(data, b"\"method\"").is_some() || !data.starts_with(b"{");
                if id.is_none() && is_notice {
                    self.pipe.sink.remark(format!("sent what is no message ({error}): {}", excerpt(data)));
                } else {
                    self.pipe.unreadable(id.as_ref(), &error, data);
                }
                1
            }
        }
    }

    fn route(self: &Arc<Self>, frame: Frame) -> usize {
        self.pipe.route(frame, |message| self.send(message))
    }

    fn send(self: &Arc<Self>, message: Bytes) {
        self.posts.spawn(Arc::clone(self).post_notice(message));
    }

    fn request(&self, body: Bytes, held: Option<&HeldCredential>) -> Request<Full<Bytes>> {
        assert_outgoing(&body);
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = http::Method::POST;
        *request.headers_mut() = with_credential(self.headers.clone(), held);
        request
    }

    /// The token in use.
    fn held(&self) -> Option<HeldCredential> {
        self.credential.as_ref().and_then(SharedCredential::now)
    }

    /// Posts a message that wants no answer.
    async fn post_notice(self: Arc<Self>, message: Bytes) {
        let answer =
            self.client.fetch_from(&self.to, self.request(message, self.held().as_ref()), POST, MAX_MESSAGE).await;
        match answer {
            Ok(answer) if answer.status().is_success() => {}
            Ok(answer) => tracing::debug!(server = %self.pipe.name(), status = %answer.status(), "message refused"),
            Err(error) => tracing::debug!(server = %self.pipe.name(), %error, "message lost"),
        }
    }

    /// Posts a call. Its answer comes on the stream, and is waited for there however late the post is answered.
    async fn post_call(self: Arc<Self>, id: u64, message: Bytes, trace: Option<Box<TraceContext>>) {
        let posting = self.post(message, trace.as_deref());
        tokio::pin!(posting);
        let outcome = loop {
            tokio::select! {
                outcome = &mut posting => break Some(outcome),
                () = self.stop.cancelled() => break None,
                // Nobody waits for the call any more, so nobody for its post.
                () = tokio::time::sleep(POST) => if self.pipe.calls().get(id).is_none() { break None },
            }
        };
        if let Some(arrived) = self.on_their_way().remove(&id) {
            arrived.cancel();
        }
        match outcome {
            Some(Ok(answer)) if !answer.is_empty() => drop(self.message(&answer)),
            Some(Err(error)) => self.call_failed(id, error),
            Some(Ok(_)) | None => {}
        }
    }

    /// Posts a message; gives what the server answered it with, if that is a message.
    async fn post(&self, message: Bytes, trace: Option<&TraceContext>) -> Result<Bytes, LinkError> {
        let held = self.held();
        // Kept only where it may have to be sent again.
        let again = held.is_some().then(|| message.clone());
        let traced = |mut request: Request<Full<Bytes>>| {
            if let Some(trace) = trace {
                trace_headers(trace, request.headers_mut());
            }
            request
        };
        let mut answer = self.client.send_to(&self.to, traced(self.request(message, held.as_ref()))).await?;
        if let (Some(credential), Some(message), StatusCode::UNAUTHORIZED) = (&self.credential, again, answer.status())
        {
            // Once, and only with a newer token: it did not read what it refused.
            let newer = credential.another(held.as_ref(), answer.status().as_u16(), answer.headers()).await?;
            answer = self.client.send_to(&self.to, traced(self.request(message, Some(&newer)))).await?;
        }
        if !answer.status().is_success() {
            return Err(refusal(answer, self.settled.load(Ordering::Relaxed)).await);
        }
        let kind = answer.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        let is_json = kind.starts_with("application/json");
        // Read in either case, so that the connection can be used again.
        let body = read_all(answer.into_body(), MAX_MESSAGE).await?;
        Ok(if is_json && body.trim_ascii_start().starts_with(b"{") { body } else { Bytes::new() })
    }

    fn call_failed(&self, id: u64, error: LinkError) {
        let Some(queue) = self.pipe.calls().answered(id) else {
            // Given up, and provably not begun: the table of calls wants to know that the server is done with it.
            if !matches!(error, LinkError::Broken(_) | LinkError::Lost) {
                self.pipe.sink.answered_late(id);
            }
            return;
        };
        if !self.stop.is_cancelled() {
            self.pipe.sink.troubled(&error);
        }
        queue.finish(match error {
            error @ LinkError::SessionRefused(_) => CallEvent::Refused { answer: None, error },
            error => CallEvent::Failed(error),
        });
    }

    /// Tells the server that a call is no longer wanted, never before the call itself where that can be known.
    async fn tell(self: Arc<Self>, arrived: CancellationToken, message: Bytes) {
        let in_time = tokio::time::timeout(MOMENT, arrived.cancelled()).await.is_ok();
        Arc::clone(&self).post_notice(message.clone()).await;
        if in_time {
            return;
        }
        tokio::select! {
            () = arrived.cancelled() => self.post_notice(message).await,
            () = self.stop.cancelled() => {}
        }
    }

    fn on_their_way(&self) -> MutexGuard<'_, HashMap<u64, CancellationToken>> {
        self.on_their_way.lock()
    }
}

impl Link for SseLink {
    fn call(&self, request: OutgoingRequest) -> CallStream {
        let shared = &self.shared;
        let (queue, stream) = call_channel();
        if let Err(error) = shared.pipe.calls().open(request.id, request.method, queue) {
            return CallStream::unsent(error);
        }
        shared.on_their_way().insert(request.id, CancellationToken::new());
        shared.posts.spawn(Arc::clone(shared).post_call(request.id, request.bytes, request.trace));
        stream
    }

    fn cancel(&self, id: u64, reason: Option<&str>) {
        let shared = &self.shared;
        shared.pipe.calls().abandon(id);
        let message = cancellation(id, reason);
        let on_its_way = shared.on_their_way().get(&id).cloned();
        match on_its_way {
            Some(arrived) => drop(shared.posts.spawn(Arc::clone(shared).tell(arrived, message))),
            None => shared.send(message),
        }
    }

    fn send(&self, message: Bytes) {
        self.shared.send(message);
    }

    fn deliver(&self, message: Bytes) -> BoxFuture<'static, ()> {
        Box::pin(Arc::clone(&self.shared).post_notice(message))
    }

    fn shares_one_stream(&self) -> bool {
        true
    }

    fn close(&self) -> BoxFuture<'static, ()> {
        self.shared.stop.cancel();
        let reader = self.shared.reader.clone();
        // Whoever waits for the ends of links waits for this one too.
        let waited = reader.clone();
        self.goodbyes.spawn(async move { waited.wait().await });
        Box::pin(async move { reader.wait().await })
    }
}

impl Drop for SseLink {
    fn drop(&mut self) {
        self.shared.stop.cancel();
    }
}
