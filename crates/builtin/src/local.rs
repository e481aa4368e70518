//! A link to a server in the same process.

mod progress;

use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use tidings_proto::{Method, Revision};
use tidings_upstream::in_process::{self, LinkLife, RequestError};
use tidings_upstream::{
    CallEvent, CallStream, ConnectedLink, Link, MessageSink, OutgoingRequest, ServerHello, ToolRedirect,
};
use tidings_wire::Frame;
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
    /// An error in its place.
    Error(RequestError),
    /// Another tool answers, for the same client and as the same request.
    Redirect(ToolRedirect),
    /// Whoever calls has to log in to this server.
    LoginWanted(String),
}

impl From<RequestError> for LocalOutcome {
    fn from(error: RequestError) -> Self {
        Self::Error(error)
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
    let life = LinkLife::new(sink);
    let stop = life.stop();
    let work = work.map(|work| {
        // `stop`, too: a link may be closed long before the last who holds it, and with it the handle, lets go.
        AbortOnDropHandle::new(tokio::spawn(async move {
            tokio::select! {
                () = work => {}
                () = stop.cancelled() => {}
            }
        }))
    });
    ConnectedLink {
        link: Arc::new(LocalLink { server, life, _work: work }),
        hello: ServerHello {
            revision: Revision::MODERN,
            // No `listChanged`: the definitions are part of the program.
            capabilities: json!({ "tools": {} }),
            info: json!({ "name": "tidings", "version": env!("CARGO_PKG_VERSION") }),
            instructions: None,
            gateways: Vec::new(),
        },
    }
}

/// A connection to a server that lives in the process: no transport, only a future per request.
pub(crate) struct LocalLink<S> {
    server: Arc<S>,
    life: LinkLife,
    /// What goes on beside the calls.
    _work: Option<AbortOnDropHandle<()>>,
}

impl<S: LocalAnswers> Link for LocalLink<S> {
    fn call(&self, request: OutgoingRequest) -> CallStream {
        let frame = match in_process::read_request(&request) {
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

    // No server in the process listens to notifications.
    fn send(&self, _message: Bytes) {}

    fn close(&self) -> BoxFuture<'static, ()> {
        self.life.end();
        // Nothing to wait for: a call runs only while whoever made it polls its stream.
        Box::pin(std::future::ready(()))
    }
}

fn event(id: u64, outcome: LocalOutcome) -> CallEvent {
    match outcome {
        LocalOutcome::Result(result) => in_process::answer(id, Ok(&result)),
        LocalOutcome::Error(error) => in_process::answer(id, Err(&error)),
        LocalOutcome::Redirect(instead) => CallEvent::Redirect(instead),
        LocalOutcome::LoginWanted(server) => CallEvent::LoginWanted(server),
    }
}
