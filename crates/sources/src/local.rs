//! A link to a server in the same process.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use serde_json::Value;
use tidings_proto::{Method, code};
use tidings_upstream::{CallEvent, CallStream, Link, LinkError, Outgoing};
use tidings_wire::{Frame, Limits, RawId, error_response, response};
use tokio_util::sync::CancellationToken;

/// What a server in the process must be able to do.
pub(crate) trait Answers: Send + Sync + 'static {
    /// Answers a request with a result, or with an error code and a message.
    fn answer(&self, method: Method, params: &Value) -> Result<Value, (i64, String)>;
}

/// The link.
pub(crate) struct LocalLink<S> {
    pub(crate) server: Arc<S>,
    pub(crate) stop: CancellationToken,
}

impl<S: Answers> LocalLink<S> {
    fn reply(&self, request: &Outgoing) -> Result<Frame, LinkError> {
        let broken = |error: &dyn std::fmt::Display| LinkError::Protocol(error.to_string());
        let frame = Frame::parse(request.bytes.clone(), &Limits::default()).map_err(|e| broken(&e))?;
        let params = frame.params().map(|at| frame.raw(at)).unwrap_or(b"{}");
        let params: Value = serde_json::from_slice(params).map_err(|e| broken(&e))?;
        let id = RawId::from(request.id);
        let bytes = match self.server.answer(request.method, &params) {
            Ok(mut result) => {
                result["resultType"] = "complete".into();
                response(&id, result.to_string().as_bytes())
            }
            Err((code, message)) => error_response(Some(&id), code, &message, None),
        };
        Frame::parse(bytes, &Limits::default()).map_err(|e| broken(&e))
    }
}

impl<S: Answers> Link for LocalLink<S> {
    fn call(&self, request: Outgoing) -> CallStream {
        let event = match self.reply(&request) {
            Ok(frame) => CallEvent::Response(frame),
            Err(error) => CallEvent::Failed(error),
        };
        CallStream::new(futures_util::stream::iter([event]))
    }

    fn cancel(&self, _id: u64, _reason: Option<&str>) {
        // Everything is answered at once.
    }

    fn send(&self, _message: Bytes) {}

    fn close(&self) -> BoxFuture<'static, ()> {
        self.stop.cancel();
        Box::pin(std::future::ready(()))
    }
}

/// The error of a method that a server does not have.
pub(crate) fn unknown(method: Method) -> (i64, String) {
    (code::METHOD_NOT_FOUND, format!("method not found: {}", method.as_str()))
}
