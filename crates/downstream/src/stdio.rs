//! One client on standard input and output. Both eras may be spoken, even side by side.

mod lines;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};
use tidings_engine::{Caller, Gateway, Principal, Reply, Session};
use tidings_hub::ClientKey;
use tidings_proto::gateway_path;
use tidings_proto::meta::{self, ModernMeta};
use tidings_proto::refusal::RequestRefusal;
use tidings_proto::{Era, Method, channel, code, notifications};
use tidings_sync::Lock;
use tidings_wire::{Frame, FrameError, FrameKind, IncomingMessage, RawId, error_response, notification, one_line};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use lines::InputLines;

use crate::DRAIN;
use crate::admission::{
    LIMITS, MessageClass, ModernRequest, TransportClaims, admit_batch, admit_legacy, admit_modern, classify,
};
use crate::batch::{self, cancelled, dispatch, malformed};
use crate::outbox::{self, ClientOutbox, UnaskedMessages};

/// What the first message tells about the client, before any server is started.
#[derive(Clone, Debug)]
pub struct FirstWords {
    /// What it can do.
    pub capabilities: Value,
    /// The era that the client's first message showed.
    pub era: Era,
    /// The gateways through which it asks, if any.
    pub gateways: Vec<String>,
}

/// How long the last lines may take to be read by the client, when everything else is over.
const LAST_LINES: Duration = Duration::from_secs(1);

/// Serves until the input ends or `stop` rings: then running requests may finish ([`DRAIN`]), what is owed is written, and the
/// engine is ended.
/// `principal` is who asks: their limits hold here, too. `channel`: the client is told of changes on the channel of Claude Code, too.
/// `start` is called with the first message, since servers are told what this one client can do.
pub async fn serve(
    mut input: impl AsyncRead + Unpin + Send,
    output: impl AsyncWrite + Unpin + Send + 'static,
    (principal, channel): (Principal, bool),
    stop: CancellationToken,
    start: impl FnOnce(FirstWords) -> Gateway,
) {
    let outbox = Arc::new(ClientOutbox::default());
    // Who does not read our answers any more has no questions either, even if its end of the input stays open.
    let over = stop.child_token();
    let (written, unread) = (Arc::clone(&outbox), over.clone());
    let writer = tokio::spawn(async move {
        outbox::write(written, output).await;
        unread.cancel();
    });
    let mut start = Some(start);
    let mut connection: Option<Arc<StdioConnection>> = None;
    let mut lines = InputLines::default();
    while let Some(line) = lines.next(&mut input, &over).await {
        // A client that does not read its answers is not read from either.
        tokio::select! {
            () = outbox.has_room() => {}
            () = stop.cancelled() => break,
        }
        let message = match line {
            Ok(bytes) => IncomingMessage::parse(bytes, &LIMITS),
            Err(fault) => Err(fault),
        };
        // The gateway is started by the first message, which says what its only client can do: servers are told the
        // same.
        if connection.is_none()
            && let Some(start) = start.take()
        {
            let gateway = start(first_words(&message));
            let begun = StdioConnection::new(gateway, principal.clone(), Arc::clone(&outbox), channel);
            connection = Some(Arc::new(begun));
        }
        if let Some(connection) = &connection {
            // One after the other: what follows `initialize` must find its session.
            connection.receive(message).await;
        }
    }
    let until = Instant::now() + DRAIN;
    if let Some(connection) = connection {
        connection.finish(until).await;
    }
    outbox.close();
    // A client that does not read keeps nobody here.
    let _ = tokio::time::timeout_at(until.max(Instant::now() + LAST_LINES), writer).await;
}

fn first_words(message: &Result<IncomingMessage, FrameError>) -> FirstWords {
    let Ok(IncomingMessage::Single(frame)) = message else {
        // A first message that can not be read says nothing; the client is taken for a legacy one that can do nothing.
        return FirstWords { capabilities: json!({}), era: Era::Legacy, gateways: Vec::new() };
    };
    let (span, era) = match ModernMeta::read(frame) {
        Ok(meta) => (Some(meta.capabilities), Era::Modern),
        Err(_) => (frame.param(&["capabilities"]), Era::Legacy),
    };
    let declared = span.and_then(|at| serde_json::from_slice(frame.raw(at)).ok());
    let gateways = gateway_path::asking(frame).unwrap_or_default();
    FirstWords { capabilities: declared.unwrap_or_else(|| json!({})), era, gateways }
}

/// How many subscriptions one client may have open. One can follow everything, so nobody needs many.
const LISTENS: usize = 1_024;

struct StdioConnection {
    gateway: Gateway,
    /// Whoever started this process is the one who speaks on its input.
    principal: Principal,
    outbox: Arc<ClientOutbox>,
    /// Whether it is told on the channel, which only sessions have.
    channel: bool,
    session: Lock<Option<Arc<Session>>>,
    /// Modern ids are unique to the connection.
    modern: ClientKey,
    listening: Lock<HashMap<RawId, CancellationToken>>,
    tasks: TaskTracker,
    /// Rings when running requests have had their time.
    ending: CancellationToken,
}

impl StdioConnection {
    fn new(gateway: Gateway, principal: Principal, outbox: Arc<ClientOutbox>, channel: bool) -> Self {
        let modern = gateway.new_client();
        Self {
            gateway,
            principal,
            outbox,
            channel,
            session: Lock::default(),
            modern,
            listening: Lock::default(),
            tasks: TaskTracker::new(),
            ending: CancellationToken::new(),
        }
    }

    fn session(&self) -> Option<Arc<Session>> {
        // Cloned out, so that the lock is not held while a request is handled.
        self.session.lock().clone()
    }

    async fn receive(self: &Arc<Self>, message: Result<IncomingMessage, FrameError>) {
        match message {
            Err(error) => self.outbox.push(&malformed(&error)),
            Ok(IncomingMessage::Batch(parts)) => self.batch(parts),
            Ok(IncomingMessage::Single(frame)) => match frame.kind() {
                FrameKind::Request => self.request(frame).await,
                FrameKind::Notification if frame.method() == notifications::CANCELLED => self.cancel(&frame),
                _ => {
                    if let Some(session) = self.session() {
                        dispatch(&self.gateway, &session, &frame);
                    }
                }
            },
        }
    }

    fn batch(self: &Arc<Self>, parts: Vec<Result<Frame, FrameError>>) {
        let session = self.session();
        if let Err(refusal) = admit_batch(session.as_deref()) {
            let code = refusal.code(Era::Legacy);
            return self.outbox.push(&tidings_wire::error_response(None, code, &refusal.to_string(), None));
        }
        let Some(session) = session else { return };
        let outbox = Arc::clone(&self.outbox);
        let push = move |message: Bytes| outbox.push(&one_line(&message));
        let run = batch::run(self.gateway.clone(), session, parts, push, self.ending.clone());
        let outbox = Arc::clone(&self.outbox);
        self.tasks.spawn(async move {
            if let Some(answers) = run.await {
                outbox.push(&one_line(&answers.message));
                // On one pipe everything keeps its order, so the receipts end as soon as the answers are in the box.
                drop(answers.receipts);
            }
        });
    }

    fn cancel(&self, frame: &Frame) {
        let Some((id, reason)) = cancelled(frame) else { return };
        // A listen is cancelled by its own token: it never became a call.
        let listening = self.listening.lock().remove(&id);
        if let Some(token) = listening {
            return token.cancel();
        }
        // The same id may be in flight in either era; each has its own table.
        match self.session() {
            Some(session) if !self.gateway.knows(self.modern, &id) => {
                self.gateway.cancel_for(&session, &id, reason.as_deref());
            }
            _ => self.gateway.cancel(self.modern, &id, reason.as_deref()),
        }
    }

    async fn request(self: &Arc<Self>, frame: Frame) {
        let Some(id) = frame.id() else { return };
        let era = if meta::is_modern(&frame) { Era::Modern } else { Era::Legacy };
        match self.begin(frame, &id, era).await {
            Ok(()) => {}
            Err(refusal) => self.outbox.push(&refusal.respond(&id, era)),
        }
    }

    async fn begin(self: &Arc<Self>, frame: Frame, id: &RawId, era: Era) -> Result<(), RequestRefusal> {
        let session = self.session();
        let (caller, method) = match classify(&frame, TransportClaims { session: session.is_some(), modern: false }) {
            MessageClass::Initialize => return self.initialize(&frame, id).await,
            MessageClass::Modern(_) if self.channel && frame.method() == "server/discover" => {
                self.outbox.push(&error_response(Some(id), code::METHOD_NOT_FOUND, channel::NO_DISCOVERY, None));
                return Ok(());
            }
            MessageClass::Modern(meta) => {
                let request =
                    ModernRequest { principal: &self.principal, connection: Some(self.modern), mirrors: None };
                let admitted = admit_modern(&self.gateway, &request, &frame, meta)?;
                (admitted.caller, admitted.method)
            }
            MessageClass::HalfModern(fault) => return Err(RequestRefusal::InvalidParams(fault.to_string())),
            // On a pipe there is one session at most, so a request without one is only too early.
            MessageClass::InSession | MessageClass::Homeless => {
                let method = admit_legacy(&frame)?;
                let session = session
                    .ok_or_else(|| RequestRefusal::InvalidRequest("the session begins with initialize".into()))?;
                (Caller::Legacy(session.into()), method)
            }
        };
        let token = CancellationToken::new();
        if method == Method::Listen {
            let mut listening = self.listening.lock();
            if listening.len() >= LISTENS {
                return Err(RequestRefusal::InvalidRequest(format!(
                    "this client has {LISTENS} subscriptions open; end one first"
                )));
            }
            listening.insert(id.clone(), token.clone());
        }
        let mut exchange = self.gateway.request(caller, frame, method, id.clone());
        exchange.came_over_pipe();
        let connection = Arc::clone(self);
        let id = id.clone();
        self.tasks.spawn(async move {
            tokio::select! {
                () = connection.pump(exchange, &id, method) => {}
                () = token.cancelled() => {}
                () = connection.ending.cancelled() => {
                    // Every request gets an answer, also when the process ends.
                    connection.outbox.push(&RequestRefusal::ShuttingDown.respond(&id, era));
                }
            }
            if method == Method::Listen {
                connection.listening.lock().remove(&id);
            }
        });
        Ok(())
    }

    async fn pump(&self, mut exchange: tidings_engine::Exchange, id: &RawId, method: Method) {
        loop {
            if method == Method::Listen {
                // While the client does not read, what changes is gathered where it costs nothing.
                self.outbox.has_room_for_a_listen().await;
            }
            match exchange.next().await {
                Reply::Message(message) => self.outbox.push(&one_line(&message)),
                Reply::Answer(answer) | Reply::Forbidden { answer, .. } => {
                    self.outbox.push(&one_line(&answer.payload.to_bytes()));
                    if method == Method::Listen && answer.error.is_none() {
                        // One page of the specification asks for the result, another for this.
                        let params = format!("{{\"requestId\":{id}}}");
                        self.outbox.push(&notification(notifications::CANCELLED, Some(params.as_bytes())));
                    }
                    return;
                }
                Reply::Cancelled => return,
                Reply::Opened | Reply::Interrupted(_) => {}
            }
        }
    }

    async fn initialize(&self, frame: &Frame, id: &RawId) -> Result<(), RequestRefusal> {
        if self.session().is_some() {
            return Err(RequestRefusal::InvalidRequest("the session has begun already".into()));
        }
        // Asked here, so that servers are not told of it.
        let asked = self.channel.then(|| Frame::parse(channel::ask(frame), &LIMITS).ok()).flatten();
        let frame = asked.as_ref().unwrap_or(frame);
        let sink = UnaskedMessages::new(&self.outbox, &self.gateway);
        let (session, answer) = self.gateway.initialize(frame, id, &self.principal, Arc::clone(&sink) as _).await?;
        // After `initialize` has returned: before that there is no session that could be owed anything.
        sink.serve(&session);
        *self.session.lock() = Some(session);
        self.outbox.push(&one_line(&answer.payload.to_bytes()));
        Ok(())
    }

    async fn finish(&self, until: Instant) {
        // First, so that listens end with their answers while the tasks are waited for.
        self.gateway.drain();
        if let Some(session) = self.session() {
            // A server that asks the client something now would wait for nothing, and its call with it.
            self.gateway.no_more_answers(&session);
        }
        // Nothing new is taken from here on; what runs may finish.
        self.tasks.close();
        if tokio::time::timeout_at(until, self.tasks.wait()).await.is_err() {
            tracing::warn!(requests = self.tasks.len(), "not everything was finished in time");
            // Each of them is answered with a refusal, so that the client waits for nothing.
            self.ending.cancel();
            self.tasks.wait().await;
        }
        if let Some(session) = self.session() {
            // Notices that were still being gathered: the client would learn of the change only after its next start.
            for message in self.gateway.take_last_owed(&session).await {
                self.outbox.push(&message);
            }
            self.gateway.end_session(&session);
        }
        self.gateway.shutdown().await;
    }
}
