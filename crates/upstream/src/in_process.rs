//! What links to servers in this process share: how a request is read, how what they say is framed and how long it may be,
//! what an error is, and when the link is over.
//!
//! What does not belong here: what such a server offers.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::stream;
use serde_json::Value;
use tidings_proto::{Method, ServerMessage, code};
use tidings_sync::Lock;
use tidings_wire::{Frame, FrameLimits, RawId, error_response, notification, response};
use tokio_util::sync::CancellationToken;

use crate::{CallEvent, CallStream, LinkError, MAX_MESSAGE, MessageSink, OutgoingRequest};

/// Deeper than what clients and servers may send: what they sent may be wrapped.
const MAX_DEPTH: usize = 512;

/// An error in the place of a result.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{message} ({code})")]
pub struct RequestError {
    /// The JSON-RPC error code.
    pub code: i64,
    /// What happened, for people.
    pub message: String,
    /// What happened, for programs.
    pub data: Option<Value>,
}

impl RequestError {
    /// An error without data.
    pub fn new(code: i64, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None }
    }

    /// The server does not have this method.
    pub fn unknown_method(method: Method) -> Self {
        Self::new(code::METHOD_NOT_FOUND, format!("method not found: {}", method.as_str()))
    }

    /// What was asked for makes no sense, or is not there.
    pub fn invalid_params(message: impl Into<String>) -> Self {
        Self::new(code::INVALID_PARAMS, message)
    }

    /// Something failed on our side, or that of a script.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(code::INTERNAL_ERROR, message)
    }

    /// The error as a whole JSON-RPC response under this id.
    pub fn respond(&self, id: u64) -> Bytes {
        let data = self.data.as_ref().map(ToString::to_string);
        error_response(Some(&RawId::from(id)), self.code, &self.message, data.as_deref().map(str::as_bytes))
    }
}

/// A request as it was sent. It was checked where it came from, so its length needs no other bound.
pub fn read_request(request: &OutgoingRequest) -> Result<Frame, LinkError> {
    let limits = FrameLimits { max_bytes: request.bytes.len(), max_depth: MAX_DEPTH, max_batch: 1 };
    Frame::parse(request.bytes.clone(), &limits).map_err(|error| LinkError::Protocol(error.to_string()))
}

/// The parameters of a request; an empty object where it has none.
pub fn read_params(frame: &Frame) -> Result<Value, LinkError> {
    let params = frame.params().map(|at| frame.raw(at)).unwrap_or(b"{}");
    serde_json::from_slice(params).map_err(|error| LinkError::Protocol(error.to_string()))
}

/// What the server says, as a message.
pub fn frame(bytes: Bytes) -> Result<Frame, LinkError> {
    let limits = FrameLimits { max_bytes: MAX_MESSAGE, max_depth: MAX_DEPTH, max_batch: 1 };
    Frame::parse(bytes, &limits).map_err(|error| LinkError::Protocol(error.to_string()))
}

/// The end of a call: a result (a raw JSON object) or an error.
pub fn answer(id: u64, outcome: Result<&[u8], &RequestError>) -> CallEvent {
    let bytes = match outcome {
        Ok(result) => response(&RawId::from(id), result),
        Err(error) => error.respond(id),
    };
    frame(bytes).map_or_else(CallEvent::Failed, CallEvent::Response)
}

/// A call that is nothing but its end.
pub fn at_once(end: CallEvent) -> CallStream {
    CallStream::new(stream::iter([end]))
}

/// A notification in the name of the server, ready for the sink or the stream of a call.
pub fn notice(method: &str, params: Option<&Value>) -> Result<ServerMessage, LinkError> {
    let params = params.map(ToString::to_string);
    frame(notification(method, params.as_deref().map(str::as_bytes))).map(ServerMessage::from)
}

/// For a link over which nothing is said but answers, and what rides with them on the streams of calls.
pub struct CallsOnlySink;

impl MessageSink for CallsOnlySink {
    fn owner(&self, _: &ServerMessage) -> Option<u64> {
        None
    }

    fn unowned(&self, _: ServerMessage) {}

    fn push_opened(&self) {}

    fn push_unsupported(&self) {}

    fn closed(&self, _: LinkError) {}
}

/// The life of a link. The sink is held until the link is closed: whoever waits for its end takes the sink's for it.
pub struct LinkLife {
    stop: CancellationToken,
    sink: Lock<Option<Arc<dyn MessageSink>>>,
}

impl LinkLife {
    /// A link that delivers here.
    pub fn new(sink: Arc<dyn MessageSink>) -> Self {
        Self { stop: CancellationToken::new(), sink: Lock::new(Some(sink)) }
    }

    /// Is cancelled when the link is closed or dropped.
    pub fn stop(&self) -> CancellationToken {
        self.stop.clone()
    }

    /// Ends the link: rings [`Self::stop`], and lets go of the sink.
    pub fn end(&self) {
        self.stop.cancel();
        // The sink leads back to whoever holds this link: kept, it would keep both.
        drop(self.sink.lock().take());
    }
}

impl Drop for LinkLife {
    fn drop(&mut self) {
        // Also without `end`: tasks that wait for this token must not outlive the link.
        self.stop.cancel();
    }
}
