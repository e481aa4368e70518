//! One request at a scripted server, and what its handler can do.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Value, json};
use tidings_wire::{RawId, notification, request};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::answer::{RpcError, ScriptedAnswer};
use super::conn::{ChannelOut, ClientConnection, Outlet};
use super::core::ServerCore;
use crate::received::ReceivedMessage;
use crate::record::lock;
use crate::revision::{META_CAPABILITIES, META_LOG_LEVEL, META_SERVER};

const LEVELS: [&str; 8] = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];

/// A request that is being handled. Clones are the same request.
#[derive(Clone)]
pub struct ScriptedCall {
    pub(crate) core: Arc<ServerCore>,
    pub(crate) received: ReceivedMessage,
    pub(crate) id: RawId,
    /// Absent for modern requests, which belong to no session.
    pub(crate) conn: Option<Arc<ClientConnection>>,
    pub(crate) outlet: Outlet,
    pub(crate) modern: bool,
    pub(crate) cancelled: CancellationToken,
}

impl ScriptedCall {
    /// The request as it arrived: raw bytes, headers.
    pub fn received(&self) -> &ReceivedMessage {
        &self.received
    }

    /// The id of the request, with its JSON type.
    pub fn id(&self) -> &RawId {
        &self.id
    }

    /// The params as a value; null when there are none.
    pub fn params(&self) -> Value {
        self.received.params()
    }

    /// The raw text of the params.
    pub fn params_raw(&self) -> String {
        self.received.params_raw()
    }

    /// An argument of a tool or a prompt; null when absent.
    pub fn argument(&self, name: &str) -> Value {
        self.received.param(&["arguments", name])
    }

    /// The raw text of all arguments.
    pub fn arguments_raw(&self) -> String {
        self.received.param_raw(&["arguments"])
    }

    pub(crate) fn param_str(&self, name: &str) -> String {
        self.received.param(&[name]).as_str().unwrap_or_default().to_owned()
    }

    /// Whether it is a stateless request.
    pub fn is_modern(&self) -> bool {
        self.modern
    }

    /// What the client can do.
    pub fn client_capabilities(&self) -> Value {
        match &self.conn {
            Some(conn) if !self.modern => lock(&conn.state).client["capabilities"].clone(),
            _ => self.received.param(&["_meta", META_CAPABILITIES]),
        }
    }

    /// The responses to an earlier [`ScriptedCall::input_required`]; null on the first round.
    pub fn input_responses(&self) -> Value {
        self.received.param(&["inputResponses"])
    }

    /// The state of an earlier [`ScriptedCall::input_required`]; null on the first round.
    pub fn request_state(&self) -> Value {
        self.received.param(&["requestState"])
    }

    /// Sends a message on this call's own stream, byte for byte.
    pub fn notify_raw(&self, message: impl Into<Bytes>) {
        let _ = self.outlet.send(ChannelOut::Message(message.into()));
    }

    /// Sends a notification on this call's own stream.
    pub fn notify(&self, method: &str, params: impl Into<Value>) {
        self.notify_raw(notification(method, Some(params.into().to_string().as_bytes())));
    }

    /// Reports progress, if the client gave a token: a number, or an object with `progress`, `total`, `message`. Tells
    /// whether there was a token.
    pub fn progress(&self, progress: impl Into<Value>) -> bool {
        let token = self.received.param_raw(&["_meta", "progressToken"]);
        if token.is_empty() {
            return false;
        }
        let progress = match progress.into() {
            Value::Object(members) => Value::Object(members),
            number => json!({ "progress": number }),
        };
        let members = progress.to_string();
        // By hand, since the token must keep its exact text.
        let params = format!("{{\"progressToken\":{token},{}", &members[1..]);
        self.notify_raw(notification("notifications/progress", Some(params.as_bytes())));
        true
    }

    /// Logs, if the client wants this level. Tells whether it was sent.
    pub fn log(&self, level: &str, data: impl Into<Value>) -> bool {
        // Legacy servers log everything until a level is set; modern ones log nothing unless the request names a level.
        let wanted = match &self.conn {
            Some(conn) if !self.modern => lock(&conn.state).log_level.clone().or(Some("debug".to_owned())),
            _ => self.received.param(&["_meta", META_LOG_LEVEL]).as_str().map(str::to_owned),
        };
        let rank = |level: &str| LEVELS.iter().position(|l| *l == level).unwrap_or(0);
        if wanted.is_none_or(|wanted| rank(level) < rank(&wanted)) {
            return false;
        }
        self.notify("notifications/message", json!({"level": level, "logger": self.core.name, "data": data.into()}));
        true
    }

    /// Asks the user for input (legacy).
    pub async fn elicit(&self, params: Value) -> Result<Value, RpcError> {
        self.ask("elicitation/create", params).await
    }

    /// Asks the client's model (legacy).
    pub async fn sample(&self, params: Value) -> Result<Value, RpcError> {
        self.ask("sampling/createMessage", params).await
    }

    /// Asks for the client's roots (legacy).
    pub async fn roots(&self) -> Result<Value, RpcError> {
        self.ask("roots/list", json!({})).await
    }

    /// Sends a request to the client on this call's own stream and waits for its response (legacy).
    pub async fn ask(&self, method: &str, params: impl Into<Value>) -> Result<Value, RpcError> {
        let (_, response) = self.ask_raw(method, params.into().to_string().as_bytes());
        let Ok(response) = response.await else {
            return Err(RpcError::new(-32000, "the connection ended"));
        };
        if response.error().is_null() { Ok(response.result()) } else { Err(RpcError::from_value(&response.error())) }
    }

    /// Sends a request with raw params to the client; gives its id and what will hold the response.
    pub fn ask_raw(&self, method: &str, params: &[u8]) -> (RawId, oneshot::Receiver<ReceivedMessage>) {
        let conn = self.conn.as_ref().expect("a modern server can not send requests: use input_required");
        let id = self.core.next_request_id();
        let (sender, receiver) = oneshot::channel();
        // Entered before the question is sent, since the answer may be quick.
        lock(&conn.state).pending.insert(id.as_str().to_owned(), sender);
        self.notify_raw(request(&id, method, Some(params)));
        (id, receiver)
    }

    /// Waits until the client does not want the answer any more: it cancelled, or (modern HTTP) closed the response.
    pub async fn cancelled(&self) {
        self.cancelled.cancelled().await;
    }

    /// Whether the client does not want the answer any more.
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.is_cancelled()
    }

    /// HTTP: begins the event stream now, so that the client has its headers. Otherwise an answer that nothing preceded
    /// is plain JSON.
    pub fn open_stream(&self) {
        let _ = self.outlet.send(ChannelOut::OpenStream);
    }

    /// HTTP, legacy: closes the event stream, so that the client has to resume it. What is sent later waits there.
    pub fn close_stream(&self, retry_ms: Option<u64>) {
        let _ = self.outlet.send(ChannelOut::CloseStream(retry_ms));
    }

    /// A result; `resultType` and `serverInfo` are added for modern clients.
    pub fn ok(&self, mut result: Value) -> ScriptedAnswer {
        if let (true, Some(members)) = (self.modern, result.as_object_mut()) {
            members.entry("resultType").or_insert(json!("complete"));
            let meta = members.entry("_meta").or_insert(json!({}));
            if let Some(meta) = meta.as_object_mut() {
                meta.insert(META_SERVER.to_owned(), self.core.server_info());
            }
        }
        ScriptedAnswer::result(result)
    }

    /// A tool result with one text.
    pub fn ok_text(&self, text: &str) -> ScriptedAnswer {
        self.ok(json!({"content": [{"type": "text", "text": text}]}))
    }

    /// A resource result with one text.
    pub fn ok_contents(&self, text: &str) -> ScriptedAnswer {
        let mut result = json!({"contents": [{"uri": self.param_str("uri"), "mimeType": "text/plain", "text": text}]});
        if self.modern {
            result["ttlMs"] = json!(0);
            result["cacheScope"] = json!("private");
        }
        self.ok(result)
    }

    /// A prompt result with one message of the user.
    pub fn ok_message(&self, text: &str) -> ScriptedAnswer {
        self.ok(json!({"messages": [{"role": "user", "content": {"type": "text", "text": text}}]}))
    }

    /// An answer with this result, byte for byte: nothing is added for modern clients.
    pub fn result_raw(&self, result: impl Into<Bytes>) -> ScriptedAnswer {
        ScriptedAnswer::Result(result.into())
    }

    /// An answer with this JSON-RPC error.
    pub fn error(&self, code: i64, message: &str, data: Option<Value>) -> ScriptedAnswer {
        ScriptedAnswer::Error(RpcError { code, message: message.to_owned(), data })
    }

    /// The answer that asks for input (modern): an object with `inputRequests` or `requestState` or both.
    pub fn input_required(&self, mut members: Value) -> ScriptedAnswer {
        members["resultType"] = json!("input_required");
        self.ok(members)
    }
}
