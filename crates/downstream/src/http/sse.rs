//! Old clients over HTTP: `GET /sse` opens the one stream that carries everything, `POST /messages` brings each message.
//!
//! This is the transport of revision 2024-11-05. A session is its stream: it begins with it and ends with it, nothing is resumed,
//! and whoever goes away has cancelled what runs. What is said, and in which order, is as on a pipe; what is checked before a
//! message is read is as on `/mcp`.

mod sse_table;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use futures_util::stream;
use http::header::CONTENT_TYPE;
use http::{Method as Verb, Request, Response};
use hyper::body::Incoming;
use tidings_engine::{Caller, Exchange, Principal, Quota, QuotaSeat, Reply, Session, SessionCaller};
use tidings_proto::refusal::RequestRefusal;
use tidings_proto::{Era, code};
use tidings_wire::{Frame, FrameError, FrameKind, IncomingMessage, RawId, error_response, one_line};
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use super::ShownCredentials;
use super::body::{self, KEEP_ALIVE, QUIET};
use super::credential_end;
use super::endpoint::{HttpEndpoint, ReceivedRequest, accepts, busy, is_json, not_allowed};
use crate::DRAIN;
use crate::admission::{LIMITS, MessageClass, TransportClaims, admit_batch, admit_legacy, classify};
use crate::batch::{self, dispatch, malformed};
use crate::outbox::{ClientOutbox, OutboxFraming, UnaskedMessages};
pub(super) use sse_table::SseSessions;

/// Where the stream is opened.
pub(super) const STREAM: &str = "/sse";
/// Where messages go; the stream names the session to add.
pub(super) const MESSAGES: &str = "/messages";

/// How long a stream may be open before its session begins: one that never does takes the place of another.
const INTRODUCTION: Duration = Duration::from_secs(60);
/// How long before the end of all the requests that still run are refused, so that their clients read it.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// One client: its stream, its session once it has begun, and what runs for it.
pub(super) struct SseClient {
    /// Whose token opened the stream: nobody else posts to it.
    principal: Principal,
    /// It counts for its principal until it is gone.
    _seat: Option<QuotaSeat>,
    outbox: Arc<ClientOutbox>,
    session: OnceLock<Arc<Session>>,
    /// `initialize` was sent. A session begins once.
    begun: AtomicBool,
    tasks: TaskTracker,
    /// Rings when the stream is gone: what runs is given up.
    gone: CancellationToken,
    /// Rings when running requests have had their time.
    ending: CancellationToken,
}

impl HttpEndpoint {
    /// A request to one of the two paths.
    pub(super) async fn handle_sse(
        self: Arc<Self>,
        request: Request<Incoming>,
        shown: Arc<ShownCredentials>,
    ) -> Response<Body> {
        let (parts, incoming) = request.into_parts();
        let entrant = match self.let_in(&parts.headers, &shown).await {
            Ok(entrant) => entrant,
            Err(refused) => return *refused,
        };
        let received = ReceivedRequest::new(&parts.headers, &entrant);
        match (parts.method, parts.uri.path()) {
            (Verb::GET, STREAM) => {
                let response = self.open_sse(&received);
                match entrant.credential() {
                    None => response,
                    Some(credential) => credential_end::limit(response, credential, &Verb::GET, &parts.headers),
                }
            }
            (Verb::POST, MESSAGES) => self.post_sse(&received, parts.uri.query(), incoming).await,
            (_, STREAM) => not_allowed("GET"),
            _ => not_allowed("POST"),
        }
    }

    fn open_sse(self: &Arc<Self>, received: &ReceivedRequest<'_>) -> Response<Body> {
        if !accepts(received.accept, &["text/event-stream"]) {
            return body::error(406, None, code::INVALID_REQUEST, "Accept must list text/event-stream");
        }
        if self.gateway.draining().is_cancelled() {
            return body::error(503, None, code::INTERNAL_ERROR, "the gateway is shutting down");
        }
        let seat = match received.principal.take_seat(Quota::Sessions) {
            Ok(seat) => seat,
            Err(over) => return body::error(503, None, code::INTERNAL_ERROR, &over.to_string()),
        };
        let client = Arc::new(SseClient {
            _seat: seat,
            principal: received.principal.clone(),
            outbox: Arc::new(ClientOutbox::new(OutboxFraming::Events)),
            session: OnceLock::new(),
            begun: AtomicBool::new(false),
            tasks: TaskTracker::new(),
            gone: CancellationToken::new(),
            ending: CancellationToken::new(),
        });
        let displaced = match self.sessions.take_seat() {
            Ok(displaced) => displaced,
            Err(no_room) => return body::error(503, None, code::INTERNAL_ERROR, &no_room.to_string()),
        };
        if let Some(displaced) = displaced {
            self.end(&displaced);
        }
        let Some(id) = self.sse.add(&client) else {
            self.sessions.leave_seat();
            return body::error(503, None, code::INTERNAL_ERROR, "no session can be made; try again later");
        };
        // The first event, before the session can exist: everything else is pushed behind it.
        client.outbox.begin(&format!("event: endpoint\ndata: {MESSAGES}?sessionId={id}\n\n"));
        let chunks = chunks(Arc::clone(&client));
        self.tasks.spawn(Arc::clone(self).keep_sse(id, client));
        body::events(chunks)
    }

    /// Waits for the end of a stream, whoever ends it, and ends its session.
    async fn keep_sse(self: Arc<Self>, id: String, client: Arc<SseClient>) {
        let introduction = async {
            tokio::time::sleep(INTRODUCTION).await;
            if client.session.get().is_some() {
                // It has begun in time: only its stream or the end of the gateway ends it now.
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            () = client.gone.cancelled() => {}
            () = introduction => {}
            () = self.gateway.draining().cancelled_owned() => self.drain_sse(&client).await,
        }
        self.sse.remove(&id);
        // What is in the box still goes out: the stream ends when the box is empty.
        client.outbox.close();
        client.gone.cancel();
        if let Some(session) = client.session.get() {
            self.gateway.end_session(session);
        }
        self.sessions.leave_seat();
    }

    /// The gateway ends: what runs may finish, and what is owed is told.
    async fn drain_sse(&self, client: &SseClient) {
        let Some(session) = client.session.get() else { return };
        self.gateway.no_more_answers(session);
        client.tasks.close();
        let finished = async {
            if tokio::time::timeout(DRAIN.saturating_sub(LAST_WORDS), client.tasks.wait()).await.is_err() {
                client.ending.cancel();
                // Each of them answers with a refusal now, so this ends.
                client.tasks.wait().await;
            }
            for message in self.gateway.take_last_owed(session).await {
                client.outbox.push(&message);
            }
        };
        tokio::select! {
            () = finished => {}
            () = client.gone.cancelled() => {}
        }
    }

    async fn post_sse(
        self: &Arc<Self>,
        received: &ReceivedRequest<'_>,
        query: Option<&str>,
        mut incoming: Incoming,
    ) -> Response<Body> {
        if !received.header(CONTENT_TYPE).is_some_and(is_json) {
            return body::error(415, None, code::INVALID_REQUEST, "Content-Type must be application/json");
        }
        let id = query.unwrap_or_default().split('&').find_map(|part| part.strip_prefix("sessionId="));
        let Some(id) = id else {
            return body::error(400, None, code::INVALID_REQUEST, "sessionId is missing; GET /sse names it");
        };
        let Some(client) = self.sse.get(id, received.principal) else {
            return body::error(404, None, code::INVALID_REQUEST, "no such session; GET /sse opens one");
        };
        // A client that does not read its answers is not read from either.
        if !client.outbox.may_read() {
            return busy("this client does not read its stream; try again later");
        }
        let bytes = match self.read_message(received, &mut incoming).await {
            Ok(bytes) => bytes,
            Err(fault) => return self.refuse_body(fault, incoming),
        };
        match IncomingMessage::parse(bytes, &LIMITS) {
            Err(error) => body::json(400, malformed(&error).into()),
            Ok(IncomingMessage::Batch(parts)) => self.sse_batch(&client, parts),
            Ok(IncomingMessage::Single(frame)) => self.receive_sse(received.principal, &client, frame).await,
        }
    }

    async fn receive_sse(
        self: &Arc<Self>,
        principal: &Principal,
        client: &Arc<SseClient>,
        frame: Frame,
    ) -> Response<Body> {
        let claims = TransportClaims { session: true, modern: false };
        let class = classify(&frame, claims);
        if matches!(class, MessageClass::Modern(_) | MessageClass::HalfModern(_)) {
            let text = "HTTP+SSE has only sessions; requests of 2026-07-28 go to /mcp";
            return body::error(400, frame.id().as_ref(), code::INVALID_REQUEST, text);
        }
        match (frame.id().filter(|_| frame.kind() == FrameKind::Request), client.session.get()) {
            (Some(id), _) => {
                let begun = match class {
                    MessageClass::Initialize => self.initialize_sse(client, &frame, &id).await,
                    _ => self.begin_sse(principal, client, frame, &id),
                };
                if let Err(refusal) = begun {
                    // Every answer of this transport comes on the stream, refusals too; the post is only told that it
                    // was taken.
                    client.outbox.push(&refusal.respond(&id, Era::Legacy));
                }
            }
            (None, Some(session)) => dispatch(&self.gateway, session, &frame),
            // Before the session there is nothing that a notification could be about.
            (None, None) => {}
        }
        body::empty(202)
    }

    async fn initialize_sse(&self, client: &SseClient, frame: &Frame, id: &RawId) -> Result<(), RequestRefusal> {
        // Two posts may bring `initialize` side by side; on a pipe one would come after the other.
        if client.begun.swap(true, Ordering::SeqCst) {
            return Err(RequestRefusal::InvalidRequest("the session has begun already".into()));
        }
        let sink = UnaskedMessages::new(&client.outbox, &self.gateway);
        let made = self.gateway.initialize(frame, id, &client.principal, Arc::clone(&sink) as _).await;
        let (session, answer) = made.inspect_err(|_| client.begun.store(false, Ordering::SeqCst))?;
        sink.serve(&session);
        let _ = client.session.set(Arc::clone(&session));
        // The stream may have ended meanwhile, and whoever ended it knew of no session.
        if client.gone.is_cancelled() {
            self.gateway.end_session(&session);
        }
        client.outbox.push(&one_line(&answer.payload.to_bytes()));
        Ok(())
    }

    fn begin_sse(
        &self,
        principal: &Principal,
        client: &Arc<SseClient>,
        frame: Frame,
        id: &RawId,
    ) -> Result<(), RequestRefusal> {
        let method = admit_legacy(&frame)?;
        let session = client.session.get().cloned();
        let session =
            session.ok_or_else(|| RequestRefusal::InvalidRequest("the session begins with initialize".into()))?;
        let caller = Caller::Legacy(SessionCaller::with_token(&session, principal));
        let mut exchange = self.gateway.request(caller, frame, method, id.clone());
        // What the headers of a post say is of the post, which is answered at once.
        exchange.came_over_http(|_| None);
        let (running, id) = (Arc::clone(client), id.clone());
        client.tasks.spawn(async move {
            tokio::select! {
                () = pump(exchange, &running.outbox) => {}
                // Nobody reads the answer: dropped, the exchange tells the server.
                () = running.gone.cancelled() => {}
                () = running.ending.cancelled() => {
                    running.outbox.push(&RequestRefusal::ShuttingDown.respond(&id, Era::Legacy));
                }
            }
        });
        Ok(())
    }

    fn sse_batch(&self, client: &Arc<SseClient>, parts: Vec<Result<Frame, FrameError>>) -> Response<Body> {
        let session = client.session.get();
        let Some(session) = session.filter(|_| admit_batch(session.map(|session| &**session)).is_ok()) else {
            let text = "only sessions of revision 2025-03-26 may send batches";
            return body::json(400, error_response(None, code::INVALID_REQUEST, text, None).into());
        };
        let outbox = Arc::clone(&client.outbox);
        let push = move |message: Bytes| outbox.push(&one_line(&message));
        let run = batch::run(self.gateway.clone(), Arc::clone(session), parts, push, client.ending.clone());
        let running = Arc::clone(client);
        client.tasks.spawn(async move {
            tokio::select! {
                answers = run => if let Some(answers) = answers {
                    running.outbox.push(&one_line(&answers.message));
                    // In the box is as good as written: what follows an answer goes the same way, behind it.
                    drop(answers.receipts);
                },
                () = running.gone.cancelled() => {}
            }
        });
        body::empty(202)
    }
}

async fn pump(mut exchange: Exchange, outbox: &ClientOutbox) {
    loop {
        match exchange.next().await {
            Reply::Message(message) => outbox.push(&one_line(&message)),
            Reply::Answer(answer) | Reply::Forbidden { answer, .. } => {
                return outbox.push(&one_line(&answer.payload.to_bytes()));
            }
            Reply::Cancelled => return,
            Reply::Opened | Reply::Interrupted(_) => {}
        }
    }
}

/// What is written to the client, as it gathers. Whoever drops it has closed the stream.
fn chunks(client: Arc<SseClient>) -> impl stream::Stream<Item = Bytes> + Send {
    let closed: DropGuard = client.gone.clone().drop_guard();
    stream::unfold((client, closed), |(client, closed)| async move {
        let bytes = tokio::select! {
            // Nothing is taken before it returns, so the keep-alive below loses nothing by dropping it.
            bytes = client.outbox.take() => bytes?,
            () = tokio::time::sleep(QUIET) => Bytes::from_static(KEEP_ALIVE),
        };
        Some((bytes, (client, closed)))
    })
}
