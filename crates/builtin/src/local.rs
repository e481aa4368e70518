//! A link to a server in the same process.

mod progress;

use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use tidings_proto::{Method, Revision, code};
use tidings_upstream::{
    CallEvent, CallStream, ConnectedLink, Link, LinkError, MessageSink, OutgoingRequest, ServerHello, ToolRedirect,
};
use tidings_wire::{Frame, FrameLimits, RawId, error_response, response};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

pub(crate) use progress::LocalProgress;

/// A request to a server in the process.
pub(crate) struct LocalRequest {
    /// The call, by which the gateway knows who makes it.
    pub(crate) call: u64,
    pub(crate) method: Method,
    pub(crate) frame: Frame,
    /// Where the server may say how far it is; what it says comes before the answer.
    pub(crate) progress: LocalProgress,
}

impl LocalRequest {
    /// The parameters, parsed.
    pub(crate) fn params(&self) -> Value {
        let raw = self.frame.params().map(|at| self.frame.raw(at)).unwrap_or(b"{}");
        serde_json::from_slice(raw).unwrap_or_default()
    }
}

/// What becomes of a request.
pub(crate) enum LocalOutcome {
    /// A result: a raw JSON object.
    Result(Bytes),
    /// An error with its code.
    Error(i64, String),
    /// Another tool answers, for the same client and as the same request.
    Redirect(ToolRedirect),
}

impl From<Result<Value, (i64, String)>> for LocalOutcome {
    fn from(outcome: Result<Value, (i64, String)>) -> Self {
        match outcome {
            Ok(result) => Self::Result(result.to_string().into()),
            Err((code, message)) => Self::Error(code, message),
        }
    }
}

/// What a server in the process must be able to do.
pub(crate) trait LocalAnswers: Send + Sync + 'static {
    /// Answers a request. Dropping the future cancels it.
    fn answer(self: Arc<Self>, request: LocalRequest) -> BoxFuture<'static, LocalOutcome>;
}

/// Connects a server of the gateway's own tools. `work` goes on beside it until the link ends, or it is done.
pub(crate) fn connect_tools(
    server: Arc<impl LocalAnswers>,
    sink: Arc<dyn MessageSink>,
    work: Option<impl Future<Output = ()> + Send + 'static>,
) -> ConnectedLink {
    let stop = CancellationToken::new();
    let work = work.map(|work| {
        let stop = stop.clone();
        AbortOnDropHandle::new(tokio::spawn(async move {
            tokio::select! {
                () = work => {}
                () = stop.cancelled() => {}
            }
            // To let go of the sink is to end the link.
            drop(sink);
        }))
    });
    ConnectedLink {
        link: Arc::new(LocalLink { server, stop, _work: work }),
        hello: ServerHello {
            revision: Revision::MODERN,
            capabilities: json!({ "tools": {} }),
            info: json!({ "name": "tidings", "version": env!("CARGO_PKG_VERSION") }),
            instructions: None,
            gateways: Vec::new(),
        },
    }
}

/// A connection to a server that lives in the process: no transport, only a future per request.
pub(crate) struct LocalLink<S> {
    pub(crate) server: Arc<S>,
    pub(crate) stop: CancellationToken,
    /// What goes on beside the calls.
    _work: Option<AbortOnDropHandle<()>>,
}

impl<S: LocalAnswers> Link for LocalLink<S> {
    fn call(&self, request: OutgoingRequest) -> CallStream {
        let frame = match parse(request.bytes) {
            Ok(frame) => frame,
            Err(error) => return CallStream::failed(error),
        };
        let id = request.id;
        let (progress, said) = progress::channel(&frame);
        let answer =
            Arc::clone(&self.server).answer(LocalRequest { call: id, method: request.method, frame, progress });
        let answer = async move { event(id, answer.await) };
        match said {
            None => CallStream::new(futures_util::stream::once(answer)),
            Some(said) => CallStream::new(progress::before(said, answer)),
        }
    }

    fn cancel(&self, _id: u64, _reason: Option<&str>) {
        // The stream is dropped, and the answer with it.
    }

    fn send(&self, _message: Bytes) {}

    fn close(&self) -> BoxFuture<'static, ()> {
        self.stop.cancel();
        Box::pin(std::future::ready(()))
    }
}

/// As much as a client may send: it was checked there.
fn parse(bytes: Bytes) -> Result<Frame, LinkError> {
    let limits = FrameLimits { max_bytes: bytes.len(), max_depth: 512, ..FrameLimits::default() };
    Frame::parse(bytes, &limits).map_err(|error| LinkError::Protocol(error.to_string()))
}

fn event(id: u64, outcome: LocalOutcome) -> CallEvent {
    let id = RawId::from(id);
    let bytes = match outcome {
        LocalOutcome::Result(result) => response(&id, &result),
        LocalOutcome::Error(code, message) => error_response(Some(&id), code, &message, None),
        LocalOutcome::Redirect(instead) => return CallEvent::Redirect(instead),
    };
    match parse(bytes) {
        Ok(frame) => CallEvent::Response(frame),
        Err(error) => CallEvent::Failed(error),
    }
}

/// The error of a method that a server does not have.
pub(crate) fn unknown(method: Method) -> (i64, String) {
    (code::METHOD_NOT_FOUND, format!("method not found: {}", method.as_str()))
}
