//! The HTTP side of a client: a connection of its own for every request, so that dropping one is seen at once.

use std::borrow::Cow;
use std::sync::{Arc, Mutex};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{Request, Uri};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tidings_wire::{RawId, sse};
use tokio::net::TcpStream;
use tokio::sync::mpsc::{self, UnboundedSender};

use super::ClientShared;
use super::exchange::{ExchangeEvent, PendingExchange};
use crate::received::ReceivedMessage;
use crate::record::lock;
use crate::revision::V2025_06_18;

const EVENT_LIMIT: usize = 256 << 20;

pub(super) struct HttpTransport {
    link: Arc<HttpSender>,
    raw: bool,
}

/// What a task needs to send a request, or the answer to one.
struct HttpSender {
    uri: Uri,
    headers: Vec<(String, String)>,
    session: Mutex<Option<String>>,
}

impl HttpTransport {
    pub(super) fn new(url: &str, headers: Vec<(String, String)>, raw: bool) -> Self {
        let uri = url.parse().unwrap_or_else(|e| panic!("URL {url}: {e}"));
        Self { link: Arc::new(HttpSender { uri, headers, session: Mutex::default() }), raw }
    }

    pub(super) fn is_raw(&self) -> bool {
        self.raw
    }

    pub(super) fn session(&self) -> Option<String> {
        lock(&self.link.session).clone()
    }

    pub(super) fn set_session(&self, id: Option<&str>) {
        *lock(&self.link.session) = id.map(str::to_owned);
    }

    /// Posts a message that wants no answer.
    pub(super) fn post(
        &self,
        shared: &Arc<ClientShared>,
        message: Bytes,
        method: &str,
        params: Option<&Bytes>,
    ) -> PendingExchange {
        let about = params.map(|params| (method, params));
        self.send(shared, "POST", message, about, &[], RawId::from(0))
    }

    /// Sends bytes that need not be a message, with any headers.
    pub(super) fn raw(
        &self,
        shared: &Arc<ClientShared>,
        verb: &str,
        body: Bytes,
        headers: &[(&str, &str)],
    ) -> PendingExchange {
        let headers: Vec<_> = headers.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        let id = ReceivedMessage::parse(body.clone()).id.unwrap_or_else(|| RawId::from(0));
        self.send(shared, verb, body, None, &headers, id)
    }

    /// Sends a request in a task of its own. `about` is the method and the params of a JSON-RPC request.
    pub(super) fn send(
        &self,
        shared: &Arc<ClientShared>,
        verb: &str,
        body: Bytes,
        about: Option<(&str, &Bytes)>,
        extra: &[(String, String)],
        id: RawId,
    ) -> PendingExchange {
        let mut headers = self.link.usual_headers(shared, verb);
        if let (true, false, Some((method, params))) = (shared.is_modern(), self.raw, about) {
            headers.extend(modern_headers(method, params));
        }
        for (name, value) in extra {
            // A test's own header replaces the usual one, and an empty value removes it.
            headers.retain(|(old, _)| !old.eq_ignore_ascii_case(name));
            if !value.is_empty() {
                headers.push((name.clone(), value.clone()));
            }
        }
        let (events, receiver) = mpsc::unbounded_channel();
        let stream = if verb == "POST" { format!("post {id}") } else { verb.to_lowercase() };
        let what = format!("{verb} {}", String::from_utf8_lossy(&body));
        let until = shared.life.child_token();
        let request = HttpPost { verb: verb.to_owned(), headers, body, stream };
        let (link, task_shared) = (self.link.clone(), shared.clone());
        shared.spawn(&until, async move {
            let last = match link.run(&task_shared, request, &events).await {
                Ok(()) => ExchangeEvent::End,
                Err(reason) => ExchangeEvent::Failed(reason),
            };
            let _ = events.send(last);
        });
        PendingExchange::new(id, what, receiver, Some(until))
    }
}

struct HttpPost {
    verb: String,
    headers: Vec<(String, String)>,
    body: Bytes,
    stream: String,
}

impl HttpSender {
    fn usual_headers(&self, shared: &ClientShared, verb: &str) -> Vec<(String, String)> {
        let mut headers = self.headers.clone();
        let mut add = |name: &str, value: &str| headers.push((name.to_owned(), value.to_owned()));
        add("accept", if verb == "GET" { "text/event-stream" } else { "application/json, text/event-stream" });
        if verb == "POST" {
            add("content-type", "application/json");
        }
        let session = lock(&self.session).clone();
        if let Some(session) = &session {
            add("mcp-session-id", session);
        }
        let revision = shared.revision();
        let handshaken = !lock(&shared.initialize).is_null();
        // The header came with 2025-06-18, and belongs to requests after the handshake.
        if shared.is_modern() || (handshaken && revision.as_str() >= V2025_06_18) {
            add("mcp-protocol-version", &revision);
        }
        headers
    }

    async fn run(
        self: &Arc<Self>,
        shared: &Arc<ClientShared>,
        outgoing: HttpPost,
        events: &UnboundedSender<ExchangeEvent>,
    ) -> Result<(), String> {
        let authority = self.uri.authority().map(ToString::to_string).unwrap_or_default();
        let stream = TcpStream::connect(&authority).await.map_err(|e| format!("connecting to {authority}: {e}"))?;
        let _ = stream.set_nodelay(true);
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
            .await
            .map_err(|e| format!("connection: {e}"))?;
        let mut request = Request::builder().method(outgoing.verb.as_str()).uri(self.uri.path());
        if !outgoing.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
            request = request.header("host", &authority);
        }
        for (name, value) in &outgoing.headers {
            request = request.header(name, value);
        }
        let request = request.body(Full::new(outgoing.body)).map_err(|e| format!("request: {e}"))?;
        let exchange = async {
            let response = sender.send_request(request).await.map_err(|e| format!("response: {e}"))?;
            self.read(shared, response, &outgoing.stream, events).await
        };
        let mut connection = std::pin::pin!(connection);
        let mut exchange = std::pin::pin!(exchange);
        tokio::select! {
            done = &mut exchange => done,
            // The connection may be done first; what it read is still there to be taken.
            _ = &mut connection => exchange.await,
        }
    }

    async fn read(
        self: &Arc<Self>,
        shared: &Arc<ClientShared>,
        response: http::Response<Incoming>,
        stream: &str,
        events: &UnboundedSender<ExchangeEvent>,
    ) -> Result<(), String> {
        let (head, mut body) = response.into_parts();
        let text = |value: &http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
        let headers: Vec<_> = head.headers.iter().map(|(name, value)| (name.to_string(), text(value))).collect();
        let media = head.headers.get("content-type").map(text).unwrap_or_default();
        let _ = events.send(ExchangeEvent::Head { status: head.status.as_u16(), headers });
        if !media.starts_with("text/event-stream") {
            let bytes = body.collect().await.map_err(|e| format!("body: {e}"))?.to_bytes();
            let received = ReceivedMessage { stream: stream.to_owned(), ..ReceivedMessage::parse(bytes) };
            if !received.raw.is_empty() {
                shared.received.push(received.clone());
            }
            let is_message = received.kind.is_some();
            let _ =
                events.send(if is_message { ExchangeEvent::Message(received) } else { ExchangeEvent::Body(received) });
            return Ok(());
        }
        let mut decoder = sse::SseDecoder::new(EVENT_LIMIT);
        loop {
            // A client that is paused leaves the bytes in the socket, so that the server feels it.
            shared.wait_reading().await;
            let Some(frame) = body.frame().await else { break };
            let frame = frame.map_err(|e| format!("stream: {e}"))?;
            decoder.push(frame.data_ref().map_or(&[][..], |data| data));
            while let Some(event) = decoder.next_event().map_err(|e| e.to_string())? {
                self.take(shared, event, stream, events);
            }
        }
        Ok(())
    }

    fn take(
        self: &Arc<Self>,
        shared: &Arc<ClientShared>,
        event: sse::SseEvent,
        stream: &str,
        events: &UnboundedSender<ExchangeEvent>,
    ) {
        if event.retry.is_some() || event.data.is_empty() {
            let _ = events.send(ExchangeEvent::Hint { id: event.id.clone(), retry: event.retry });
        }
        if event.data.is_empty() {
            return;
        }
        let received =
            ReceivedMessage { event_id: event.id, stream: stream.to_owned(), ..ReceivedMessage::parse(event.data) };
        let reply = shared.take(&received);
        let _ = events.send(ExchangeEvent::Message(received));
        if let Some(reply) = reply {
            self.answer(shared, reply);
        }
    }

    /// Posts the response to a request of the server.
    fn answer(self: &Arc<Self>, shared: &Arc<ClientShared>, message: Bytes) {
        let headers = self.usual_headers(shared, "POST");
        let outgoing = HttpPost { verb: "POST".to_owned(), headers, body: message, stream: "answer".to_owned() };
        let (link, task_shared) = (self.clone(), shared.clone());
        // Nobody follows this exchange; what comes back is in the record.
        let (events, _) = mpsc::unbounded_channel();
        // Boxed: reading a response may lead to posting an answer.
        let post: futures_util::future::BoxFuture<'static, ()> = Box::pin(async move {
            let _ = link.run(&task_shared, outgoing, &events).await;
        });
        shared.spawn(&shared.life, post);
    }
}

fn modern_headers(method: &str, params: &[u8]) -> Vec<(String, String)> {
    // The modern revision repeats method and name in headers, for those who route without reading the body.
    let mut headers = vec![("mcp-method".to_owned(), method.to_owned())];
    let params: Value = serde_json::from_slice(params).unwrap_or_default();
    let name = match method {
        "resources/read" => &params["uri"],
        "tools/call" | "prompts/get" => &params["name"],
        _ if method.starts_with("tasks/") => &params["taskId"],
        _ => &Value::Null,
    };
    if let Some(name) = name.as_str() {
        headers.push(("mcp-name".to_owned(), encode_header(name)));
    }
    headers
}

/// Text that can not stand in a header is wrapped in base64.
fn encode_header(text: &str) -> String {
    let plain = text.bytes().all(|b| (0x20..0x7f).contains(&b)) && text.trim() == text && !text.starts_with("=?");
    if plain { text.to_owned() } else { format!("=?base64?{}?=", STANDARD.encode(text)) }
}

/// The text of a header that may be wrapped in base64.
pub(crate) fn decode_header(value: &str) -> Cow<'_, str> {
    let wrapped = value.strip_prefix("=?base64?").and_then(|rest| rest.strip_suffix("?="));
    let decoded = wrapped.and_then(|text| STANDARD.decode(text).ok()).and_then(|bytes| String::from_utf8(bytes).ok());
    decoded.map_or(Cow::Borrowed(value), Cow::Owned)
}
