//! A scripted MCP client of any revision, over HTTP, stdio or HTTP+SSE, with one interface.

mod builder;
mod exchange;
mod http;
mod request;
mod rounds;
mod sse;
mod stdio;

use std::process::ExitStatus;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use serde_json::{Value, json};
use tidings_wire::{RawId, error_response, notification, response};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use builder::ClientBuilder;
pub use exchange::{Exchange, PendingExchange};
pub(crate) use http::decode_header;
pub use request::RequestBuilder;
pub use rounds::{answer_all, retry_of};

use crate::received::ReceivedMessage;
use crate::record::{AwaitedRecord, lock};
use crate::revision::{LATEST_LEGACY, is_modern};
use crate::tempdir::TempDir;

/// How a client answers a request of the server.
#[derive(Clone, Debug)]
pub enum ClientReply {
    /// With this value as the result.
    Result(Value),
    /// With an error of this code and text.
    Error(i64, String),
    /// With a whole message, byte for byte.
    Raw(Bytes),
    /// Not now: see [`Client::respond`].
    Later,
}

type RequestHandler = Arc<dyn Fn(&ReceivedMessage) -> ClientReply + Send + Sync>;

/// A client. Its connections and its process end when it is dropped.
pub struct Client {
    shared: Arc<ClientShared>,
    transport: ClientTransport,
    _keep: Option<TempDir>,
}

enum ClientTransport {
    Http(http::HttpTransport),
    Stdio(stdio::StdioTransport),
    Sse(sse::SseTransport),
}

/// What the client's tasks share.
struct ClientShared {
    revision: Mutex<String>,
    capabilities: Value,
    log_level: Option<String>,
    name: String,
    received: AwaitedRecord<ReceivedMessage>,
    on_request: Mutex<Option<RequestHandler>>,
    ids: AtomicU64,
    initialize: Mutex<Value>,
    life: CancellationToken,
    tasks: TaskTracker,
    /// Those who hear every message that is no response.
    followers: Mutex<Vec<mpsc::UnboundedSender<ReceivedMessage>>>,
    /// Whether streams are left unread for now.
    paused: watch::Sender<bool>,
}

impl ClientShared {
    fn revision(&self) -> String {
        lock(&self.revision).clone()
    }

    fn is_modern(&self) -> bool {
        is_modern(&self.revision())
    }

    async fn wait_reading(&self) {
        let _ = self.paused.subscribe().wait_for(|paused| !paused).await;
    }

    fn spawn(&self, until: &CancellationToken, future: impl Future<Output = ()> + Send + 'static) {
        let until = until.clone();
        self.tasks.spawn(async move {
            until.run_until_cancelled(future).await;
        });
    }

    /// Records a message; gives the answer when it is a request that is to be answered now.
    fn take(&self, received: &ReceivedMessage) -> Option<Bytes> {
        // Recorded before it is answered: whoever sees what the answer led to finds the request in the record.
        self.received.push(received.clone());
        if !received.is_response() {
            // A follower that was dropped is taken out here.
            lock(&self.followers).retain(|follower| follower.send(received.clone()).is_ok());
        }
        let id = received.id.as_ref().filter(|_| received.is_request())?;
        let handler = lock(&self.on_request).clone();
        let reply = match handler {
            // Every side has to answer a ping, whatever a test's handler does.
            _ if received.method == "ping" => ClientReply::Result(json!({})),
            Some(handler) => handler(received),
            None => ClientReply::Error(-32601, format!("this client does not know {}", received.method)),
        };
        reply.message(id)
    }
}

impl ClientReply {
    fn message(&self, id: &RawId) -> Option<Bytes> {
        match self {
            Self::Result(result) => Some(response(id, result.to_string().as_bytes())),
            Self::Error(code, text) => Some(error_response(Some(id), *code, text, None)),
            Self::Raw(bytes) => Some(bytes.clone()),
            Self::Later => None,
        }
    }
}

impl Client {
    /// A client over HTTP, to be described further. Legacy, of the latest revision, unless told otherwise.
    pub fn http(url: impl Into<String>) -> ClientBuilder {
        ClientBuilder::http(url.into())
    }

    /// A client over HTTP+SSE, to be described further. Of the first revision, unless told otherwise.
    pub fn sse(url: impl Into<String>) -> ClientBuilder {
        ClientBuilder::sse(url.into())
    }

    /// A client that starts a process, to be described further.
    pub fn stdio(program: impl Into<String>, args: Vec<String>) -> ClientBuilder {
        ClientBuilder::stdio(program.into(), args)
    }

    /// A client of a scripted server, however that is reached.
    pub fn of(server: &crate::Server) -> ClientBuilder {
        ClientBuilder::of(server)
    }

    /// A legacy client over HTTP, its handshake done.
    pub async fn legacy(url: impl Into<String>, revision: &str, capabilities: Value) -> Self {
        Self::http(url).revision(revision).capabilities(capabilities).connect().await
    }

    /// A modern client over HTTP.
    pub async fn modern(url: impl Into<String>) -> Self {
        Self::http(url).modern().connect().await
    }

    async fn handshake(&self, ask_for: &str) {
        let params = json!({
            "protocolVersion": ask_for,
            "capabilities": self.shared.capabilities,
            "clientInfo": {"name": self.shared.name, "version": "1.0.0"},
        });
        let reply = self.request("initialize", params).await;
        let result = reply.result();
        if let ClientTransport::Http(http) = &self.transport {
            // Before the first message of the session, which has to carry it.
            http.set_session(reply.header("mcp-session-id"));
        }
        let revision = result["protocolVersion"].as_str().unwrap_or(LATEST_LEGACY).to_owned();
        // Before the notification, whose header names the negotiated revision.
        *lock(&self.shared.revision) = revision;
        *lock(&self.shared.initialize) = result;
        self.notify("notifications/initialized", json!({})).await;
    }

    /// The revision in use: after a handshake the negotiated one.
    pub fn revision(&self) -> String {
        self.shared.revision()
    }

    /// The result of `initialize`; null for modern and raw clients.
    pub fn initialize_result(&self) -> Value {
        lock(&self.shared.initialize).clone()
    }

    /// How to answer requests of the server, from now on. Without this `ping` gets a result and all else −32601.
    pub fn on_request(&self, handler: impl Fn(&ReceivedMessage) -> ClientReply + Send + Sync + 'static) {
        *lock(&self.shared.on_request) = Some(Arc::new(handler));
    }

    /// Begins a request of which more than method and params is special.
    pub fn call(&self, method: &str) -> RequestBuilder<'_> {
        let id = RawId::from(self.shared.ids.fetch_add(1, Ordering::Relaxed));
        RequestBuilder::new(self, method, id)
    }

    /// Sends a request and gives the handle to follow it.
    pub fn start(&self, method: &str, params: Value) -> PendingExchange {
        self.call(method).params(params).start()
    }

    /// Sends a request and waits for its response.
    pub async fn request(&self, method: &str, params: Value) -> Exchange {
        self.start(method, params).finish().await
    }

    /// Calls a tool and waits for its answer.
    pub async fn call_tool(&self, name: &str, arguments: Value) -> Exchange {
        self.request("tools/call", json!({"name": name, "arguments": arguments})).await
    }

    /// All items of a list, page after page: `client.list("tools")`.
    pub async fn list(&self, kind: &str) -> Vec<Value> {
        let (method, member) = match kind {
            "templates" => ("resources/templates/list".to_owned(), "resourceTemplates"),
            kind => (format!("{kind}/list"), kind),
        };
        let mut items = Vec::new();
        let mut params = json!({});
        loop {
            let page = self.request(&method, params.clone()).await.result();
            items.extend(page[member].as_array().cloned().unwrap_or_default());
            match page.get("nextCursor") {
                Some(cursor) => params["cursor"] = cursor.clone(),
                None => return items,
            }
        }
    }

    /// The names (for resources and templates the URIs) of all items of a list.
    pub async fn names(&self, kind: &str) -> Vec<String> {
        let key = match kind {
            "resources" => "uri",
            "templates" => "uriTemplate",
            _ => "name",
        };
        self.list(kind).await.iter().map(|item| item[key].as_str().unwrap_or_default().to_owned()).collect()
    }

    /// Sends a notification; over HTTP waits until it was accepted.
    pub async fn notify(&self, method: &str, params: Value) {
        let message = notification(method, Some(params.to_string().as_bytes()));
        self.send_raw(message, method).await;
    }

    /// Cancels a request by notification, with its id exactly.
    pub async fn cancel(&self, pending: &PendingExchange) {
        // By hand, so that the id keeps its exact text and type.
        let params = format!("{{\"requestId\":{}}}", pending.id().as_str());
        let message = notification("notifications/cancelled", Some(params.as_bytes()));
        self.send_raw(message, "notifications/cancelled").await;
    }

    /// Answers a request that was put off with [`ClientReply::Later`].
    pub async fn respond(&self, request: &ReceivedMessage, reply: ClientReply) {
        let id = request.id.as_ref().expect("a request has an id");
        if let Some(message) = reply.message(id) {
            self.send_raw(message, "").await;
        }
    }

    async fn send_raw(&self, message: Bytes, method: &str) {
        match &self.transport {
            ClientTransport::Http(http) => {
                // 202 is the status of a notification or response that was accepted; any other one fails the test here.
                let reply = http.post(&self.shared, message, method, None).finish().await;
                assert_eq!(reply.status, 202, "sending {method}: {reply:?}");
            }
            ClientTransport::Stdio(stdio) => stdio.write(message),
            ClientTransport::Sse(sse) => sse.write(message),
        }
    }

    /// Everything received so far, on all streams.
    pub fn received(&self) -> Vec<ReceivedMessage> {
        self.shared.received.all()
    }

    /// The record behind [`Client::received`], for places in it and counted waits.
    pub fn record(&self) -> &AwaitedRecord<ReceivedMessage> {
        &self.shared.received
    }

    /// Whether it speaks HTTP. Known once it has received something.
    pub fn is_on_http(&self) -> bool {
        self.received().iter().all(|received| received.stream != "stdio")
    }

    /// How many notifications with that method were received.
    pub fn count(&self, method: &str) -> usize {
        self.received().iter().filter(|r| r.is_notification(method)).count()
    }

    /// The first message, past or future, that fits.
    pub async fn wait_for(&self, fits: impl Fn(&ReceivedMessage) -> bool) -> ReceivedMessage {
        self.shared.received.wait_for("a message at the client", fits).await
    }

    /// The `nth` notification or request (from 1) with that method.
    pub async fn wait_for_method(&self, method: &str, nth: usize) -> ReceivedMessage {
        self.shared.received.wait_for_nth(&format!("{method} at the client"), nth, |r| r.method == method).await
    }

    /// From now on, every message that is no response, on whichever stream it comes.
    pub fn follow(&self) -> mpsc::UnboundedReceiver<ReceivedMessage> {
        let (follower, messages) = mpsc::unbounded_channel();
        lock(&self.shared.followers).push(follower);
        messages
    }

    /// Stops reading event streams (on stdio: everything), as a client does that is busy elsewhere.
    pub fn pause_reading(&self) {
        self.shared.paused.send_replace(true);
    }

    /// Goes on after [`Client::pause_reading`].
    pub fn resume_reading(&self) {
        self.shared.paused.send_replace(false);
    }

    /// HTTP: sends a body as it is, with the usual headers and then these; an empty value takes a header away.
    pub async fn post_raw(&self, body: impl Into<Bytes>, headers: &[(&str, &str)]) -> Exchange {
        self.http_side().raw(&self.shared, "POST", body.into(), headers).finish().await
    }

    /// HTTP: any verb, with the usual headers and then these.
    pub async fn send_http(&self, verb: &str, body: impl Into<Bytes>, headers: &[(&str, &str)]) -> Exchange {
        self.http_side().raw(&self.shared, verb, body.into(), headers).finish().await
    }

    /// HTTP: opens the GET stream and waits until the server accepted it. It closes when the handle is dropped.
    pub async fn open_get(&self) -> PendingExchange {
        let mut pending = self.http_side().raw(&self.shared, "GET", Bytes::new(), &[]);
        let status = pending.status().await;
        assert_eq!(status, 200, "opening the GET stream: {pending:?}");
        pending
    }

    /// HTTP: resumes the stream that an event came from.
    pub async fn resume(&self, last_event_id: &str) -> PendingExchange {
        let mut pending = self.http_side().raw(&self.shared, "GET", Bytes::new(), &[("last-event-id", last_event_id)]);
        pending.status().await;
        pending
    }

    /// HTTP: ends the session and tells the status.
    pub async fn delete(&self) -> u16 {
        self.http_side().raw(&self.shared, "DELETE", Bytes::new(), &[]).finish().await.status
    }

    /// HTTP: the session's id.
    pub fn session_id(&self) -> Option<String> {
        self.http_side().session()
    }

    /// stdio: writes bytes to the process as they are, with a line break behind.
    pub fn write_line(&self, line: impl Into<Bytes>) {
        self.stdio_side().write(line.into());
    }

    /// stdio: ends the process's input.
    pub fn close_stdin(&self) {
        self.stdio_side().close_stdin();
    }

    /// stdio: the process id.
    pub fn pid(&self) -> u32 {
        self.stdio_side().pid()
    }

    /// stdio: waits until the process ended.
    pub async fn wait_exit(&self) -> ExitStatus {
        self.stdio_side().wait_exit().await
    }

    /// stdio: the lines on stderr so far.
    pub fn stderr(&self) -> &AwaitedRecord<String> {
        self.stdio_side().stderr()
    }

    /// HTTP+SSE: closes the stream, which ends the session.
    pub fn close_stream(&self) {
        self.sse_side().close();
    }

    /// HTTP+SSE: where messages are posted, as the stream named it.
    pub fn endpoint(&self) -> &str {
        self.sse_side().endpoint()
    }

    /// HTTP+SSE: the messages that were not accepted, with status and body.
    pub fn refused_posts(&self) -> &AwaitedRecord<(u16, String)> {
        self.sse_side().refused()
    }

    /// HTTP+SSE: posts bytes as they are.
    pub fn post_message(&self, message: impl Into<Bytes>) {
        self.sse_side().write(message.into());
    }

    fn sse_side(&self) -> &sse::SseTransport {
        match &self.transport {
            ClientTransport::Sse(sse) => sse,
            ClientTransport::Http(_) | ClientTransport::Stdio(_) => panic!("only over HTTP+SSE"),
        }
    }

    fn http_side(&self) -> &http::HttpTransport {
        match &self.transport {
            ClientTransport::Http(http) => http,
            ClientTransport::Stdio(_) | ClientTransport::Sse(_) => panic!("only over HTTP"),
        }
    }

    fn stdio_side(&self) -> &stdio::StdioTransport {
        match &self.transport {
            ClientTransport::Stdio(stdio) => stdio,
            ClientTransport::Http(_) | ClientTransport::Sse(_) => panic!("only on stdio"),
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // Tasks end by the token, because a destructor can not wait for them.
        self.shared.life.cancel();
        if std::thread::panicking() {
            eprintln!("client received {}", self.shared.received.dump());
            if let ClientTransport::Stdio(stdio) = &self.transport {
                eprintln!("its process printed {}", stdio.stderr().dump());
            }
        }
    }
}
