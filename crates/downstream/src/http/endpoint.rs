//! `/mcp`, also with one server alone: checks that precede reading, then which era a request belongs to.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use http::header::{
    ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE,
};
use http::{Method as Verb, Request, Response};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use tidings_engine::{Gateway, Principal};
use tidings_identity::{Admission, Entrant, RefusedToken};
use tidings_proto::outcome::ClientAnswer;
use tidings_proto::{code, headers};
use tidings_wire::{Frame, FrameKind, IncomingMessage};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::failed_logins::FailedLogins;
use super::session_archive::{ArchivedSessions, unix_now};
use super::sessions::{HttpSession, HttpSessions, InUse};
use super::sse::SseSessions;
use super::{EndpointOptions, ShownCredentials, body, credential_end, guard, peer};
use crate::admission::{self, BodyFault, BodyLimits, LIMITS, MessageClass, TransportClaims, VERSION};
use crate::batch::malformed;

pub(super) const SESSION: HeaderName = HeaderName::from_static(headers::SESSION_ID);
/// After so many seconds a client that was refused for lack of room may try again.
const TRY_AGAIN: HeaderValue = HeaderValue::from_static("1");
/// After so many whose identity provider does not answer.
const PROVIDER_AGAIN: HeaderValue = HeaderValue::from_static("5");

pub(super) struct HttpEndpoint {
    pub(super) gateway: Gateway,
    pub(super) options: EndpointOptions,
    pub(super) sessions: HttpSessions,
    /// Clients of HTTP+SSE, which take seats among the sessions.
    pub(super) sse: SseSessions,
    /// Sessions of an earlier process whose clients have not come back yet.
    pub(super) waiting: ArchivedSessions,
    /// What goes on for clients that have left: calls of sessions, and rests of bodies that are not wanted. Each ends by itself,
    /// with its call or its own deadline.
    pub(super) tasks: TaskTracker,
    pub(super) failed_logins: FailedLogins,
    /// What is served beside MCP, for requests that other replicas pass on.
    pub(super) others: OnceLock<Router>,
}

/// A request that is turned away before its message counts.
#[derive(Clone, Copy, Debug)]
pub(super) struct RefusedRequest {
    status: u16,
    text: &'static str,
}

impl RefusedRequest {
    fn new(status: u16, text: &'static str) -> Self {
        Self { status, text }
    }
}

impl From<RefusedRequest> for Response<Body> {
    fn from(refused: RefusedRequest) -> Self {
        body::error(refused.status, None, code::INVALID_REQUEST, refused.text)
    }
}

/// The answer to another user of this machine.
pub(super) fn foreign_user() -> Response<Body> {
    let text = "this gateway serves only the user who started it; for others its configuration needs [auth] tokens";
    RefusedRequest::new(403, text).into()
}

/// The answer to whoever shows one token after the other that opens nothing.
pub(super) fn too_many_failed_logins(left: Duration) -> Response<Body> {
    let seconds = left.as_secs() + 1;
    let text = format!(
        "too many tokens that open nothing came from this address; try again in {seconds} s (a token that is good is let in at any time)"
    );
    let mut response = body::error(429, None, code::INVALID_REQUEST, &text);
    response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    response
}

/// A request as far as it was read.
pub(super) struct ReceivedRequest<'h> {
    pub(super) headers: &'h HeaderMap,
    pub(super) principal: &'h Principal,
    /// Headers that are asked for more than once: each look into the map costs some 200 instructions.
    pub(super) accept: Option<&'h str>,
    pub(super) version: Option<&'h str>,
    session: Option<&'h HeaderValue>,
}

impl HttpEndpoint {
    pub(super) fn new(gateway: Gateway, options: EndpointOptions) -> Self {
        let mut sessions = HttpSessions::new(options.max_sessions, options.kept_bytes);
        sessions.home = gateway.session_home();
        let waiting = ArchivedSessions::new(options.archive.clone(), sessions.bell());
        let sse = SseSessions::default();
        let endpoint = Self {
            gateway,
            options,
            sessions,
            sse,
            waiting,
            tasks: TaskTracker::new(),
            failed_logins: FailedLogins::default(),
            others: OnceLock::new(),
        };
        // At the start: if the kernel can not be asked, that must be known before anybody connects.
        if endpoint.is_open_to_its_user() {
            peer::try_kernel();
        }
        endpoint
    }

    /// Whether nobody is asked for a token, because only this machine can connect.
    pub(super) fn is_open_to_its_user(&self) -> bool {
        self.options.loopback && self.options.authenticator.is_open()
    }

    /// Pages of other sites may not drive this one.
    pub(super) fn check_origin(&self, headers: &HeaderMap) -> Result<(), RefusedRequest> {
        if guard::allowed(headers, self.options.loopback, self.options.own_name.as_deref()) {
            return Ok(());
        }
        Err(RefusedRequest::new(403, "requests with this Origin or Host are not accepted"))
    }

    /// Who sends a request, or why nobody with this Origin, Host or token may. Asked before anything of the body is read: who
    /// may not come in can not make us hold bytes.
    pub(super) async fn let_in(
        &self,
        headers: &HeaderMap,
        shown: &ShownCredentials,
    ) -> Result<Entrant<'_>, Box<Response<Body>>> {
        self.check_origin(headers).map_err(|refused| Box::new(refused.into()))?;
        let authorization = headers.get(AUTHORIZATION).map(HeaderValue::as_bytes);
        let refused = match self.options.authenticator.admit_again(
            authorization,
            shown.certificate.as_deref(),
            &shown.last_token,
        ) {
            Admission::In(entrant) => return Ok(entrant),
            Admission::Out(refused) => refused,
            // In a box: the way to a provider is long, and rarely gone.
            Admission::Ask(question) => match Box::pin(question.answer()).await {
                Ok(credential) => return Ok(Entrant::Known(credential)),
                Err(refused) => refused,
            },
        };
        Err(Box::new(self.not_let_in(&refused)))
    }

    /// The answer to somebody whose token opens nothing: a status, never an answer of a tool, because clients act on no other.
    fn not_let_in(&self, refused: &RefusedToken) -> Response<Body> {
        let mut response = body::error(refused.status(), None, code::INVALID_REQUEST, &refused.to_string());
        let headers = response.headers_mut();
        if matches!(refused, RefusedToken::Silent) {
            headers.insert(RETRY_AFTER, PROVIDER_AGAIN);
        } else if let Ok(challenge) = HeaderValue::try_from(self.options.authenticator.challenge(refused)) {
            // RFC 9110 asks for it with every 401.
            headers.insert(WWW_AUTHENTICATE, challenge);
        }
        response
    }

    /// The answer to a request whose token is good, and lacks scopes. A status too, with which a client can ask its provider for more.
    pub(super) fn forbid(&self, answer: ClientAnswer, scopes: &str) -> Response<Body> {
        let refused = RefusedToken::Insufficient(scopes.split(' ').map(str::to_owned).collect());
        let mut response = body::json(refused.status(), answer.payload);
        if let Ok(challenge) = HeaderValue::try_from(self.options.authenticator.challenge(&refused)) {
            response.headers_mut().insert(WWW_AUTHENTICATE, challenge);
        }
        response
    }

    pub(super) async fn handle(
        self: Arc<Self>,
        request: Request<Incoming>,
        shown: Arc<ShownCredentials>,
    ) -> Response<Body> {
        let (parts, incoming) = request.into_parts();
        let entrant = match self.let_in(&parts.headers, &shown).await {
            Ok(entrant) => entrant,
            Err(refused) => return *refused,
        };
        let principal = match self.at_path(parts.uri.path(), &entrant) {
            Ok(principal) => principal,
            Err(refused) => return *refused,
        };
        let received = ReceivedRequest::new(&parts.headers, &principal);
        let response = match parts.method {
            _ if self.home_elsewhere(&received).is_some() => {
                let home = self.home_elsewhere(&received).unwrap_or_default();
                self.forward(home, (&parts.method, parts.uri.path()), &received, incoming).await
            }
            Verb::POST => self.post(&received, incoming).await,
            // The modern era has neither streams to attach to nor sessions to end.
            Verb::GET | Verb::DELETE if received.claims_modern() => not_allowed("POST"),
            Verb::GET => self.get(&received),
            Verb::DELETE => self.delete(&received),
            _ => not_allowed("GET, POST, DELETE"),
        };
        match entrant.credential() {
            // Whoever needed none has nothing that could end.
            None => response,
            Some(credential) => credential_end::limit(response, credential, &parts.method, &parts.headers),
        }
    }

    async fn post(self: &Arc<Self>, received: &ReceivedRequest<'_>, incoming: Incoming) -> Response<Body> {
        // A form or a text can be sent by any web page without asking; JSON can not.
        if !received.header(CONTENT_TYPE).is_some_and(is_json) {
            return body::error(415, None, code::INVALID_REQUEST, "Content-Type must be application/json");
        }
        if !accepts_answers(received.accept) {
            let text = "Accept must list application/json and text/event-stream";
            return body::error(406, None, code::INVALID_REQUEST, text);
        }
        let mut incoming = incoming;
        let bytes = match self.read_message(received, &mut incoming).await {
            Ok(bytes) => bytes,
            Err(fault) => return self.refuse_body(fault, incoming),
        };
        self.take_message(received, bytes).await
    }

    /// A message that was read as a whole.
    pub(super) async fn take_message(
        self: &Arc<Self>,
        received: &ReceivedRequest<'_>,
        bytes: bytes::Bytes,
    ) -> Response<Body> {
        match IncomingMessage::parse(bytes, &LIMITS) {
            // A JSON-RPC error in the body, too: clients log it, and some read nothing else.
            Err(error) => body::json(400, malformed(&error).into()),
            Ok(IncomingMessage::Batch(parts)) => match self.session_of(received) {
                Ok(session) => self.batch(&session, parts).await,
                Err(refused) => refused.into(),
            },
            Ok(IncomingMessage::Single(frame)) => self.receive(received, frame).await,
        }
    }

    /// The body of a request, within the bounds of messages.
    pub(super) async fn read_message(
        &self,
        received: &ReceivedRequest<'_>,
        incoming: &mut Incoming,
    ) -> Result<bytes::Bytes, BodyFault> {
        let limits = BodyLimits {
            pause: self.options.body_pause,
            whole: self.options.body_whole,
            budget: self.options.message_budget,
            share: received.principal.book().map(|book| book.memory()),
        };
        admission::read_body(&self.gateway, &limits, received.headers, incoming).await
    }

    /// Says what is wrong with a body. A client that sends all of it before it looks for an answer would find a broken
    /// connection in its place, so the rest is read for a while, and dropped.
    pub(super) fn refuse_body(&self, fault: BodyFault, mut incoming: Incoming) -> Response<Body> {
        let error = |status, text| body::error(status, None, code::INVALID_REQUEST, text);
        let response = match fault {
            // Nothing more can come on this connection, so there is no rest to read.
            BodyFault::Broken => return error(400, "the body could not be read"),
            BodyFault::TooSlow => return error(408, "the body did not come in time"),
            BodyFault::TooLong => error(413, "the body is too long"),
            BodyFault::NoRoom => busy("messages take all the memory that is set aside for them; try again later"),
        };
        // The rest is read and thrown away: a client that is still sending would see a reset connection instead of
        // the answer.
        self.tasks.spawn(tokio::time::timeout(self.options.body_pause, async move {
            let mut left = LIMITS.max_bytes;
            while let Some(Ok(frame)) = incoming.frame().await {
                let length = frame.data_ref().map_or(0, bytes::Bytes::len);
                match left.checked_sub(length) {
                    Some(less) => left = less,
                    None => return,
                }
            }
        }));
        response
    }

    async fn receive(self: &Arc<Self>, received: &ReceivedRequest<'_>, frame: Frame) -> Response<Body> {
        let claims = TransportClaims { session: received.session.is_some(), modern: received.claims_modern() };
        match (admission::classify(&frame, claims), frame.kind()) {
            (MessageClass::Modern(meta), FrameKind::Request) => self.modern(received, frame, meta).await,
            // Ids are not unique across exchanges, so a cancellation could mean anything: it is accepted and ignored.
            (MessageClass::Modern(_), _) | (MessageClass::HalfModern(_), FrameKind::Notification) => body::empty(202),
            (MessageClass::Initialize, _) => self.initialize(received, &frame).await,
            (MessageClass::InSession, _) => match self.session_of(received) {
                Ok(session) => self.legacy(received, &session, frame).await,
                Err(refused) => refused.into(),
            },
            (MessageClass::HalfModern(fault), FrameKind::Request) => {
                body::error(400, frame.id().as_ref(), code::INVALID_PARAMS, &fault.to_string())
            }
            (MessageClass::HalfModern(_), _) => {
                body::error(400, None, code::INVALID_REQUEST, "modern clients send no responses")
            }
            (MessageClass::Homeless, _) => {
                // Names both ways in: it is not known which one the client meant.
                let text = "no session: send initialize first, or the modern _meta with every request";
                body::error(400, frame.id().as_ref(), code::INVALID_REQUEST, text)
            }
        }
    }

    /// The session that the headers name.
    pub(super) fn session_of(&self, received: &ReceivedRequest<'_>) -> Result<InUse, RefusedRequest> {
        let Some(id) = received.session_id() else {
            return Err(RefusedRequest::new(400, "the Mcp-Session-Id header is missing"));
        };
        let session = self
            .sessions
            .get(id, received.principal)
            // Only when no living session has the id: a session is resumed once.
            .or_else(|| self.resume(id, received.principal))
            // The status that tells a client to begin a new session.
            .ok_or(RefusedRequest::new(404, "no such session; send initialize"))?;
        if received.version.is_some_and(|version| !admission::is_session_version(version)) {
            return Err(RefusedRequest::new(400, "this MCP-Protocol-Version is not supported in a session"));
        }
        Ok(session)
    }

    /// Ends sessions that nobody uses.
    pub(super) async fn expire_sessions(self: Arc<Self>, closing: CancellationToken) {
        // A quarter of the limit: a session lives at most that much longer than it may.
        let every = (self.options.session_idle / 4).max(std::time::Duration::from_millis(100));
        loop {
            tokio::select! {
                () = tokio::time::sleep(every) => {}
                () = closing.cancelled() => return,
            }
            for session in self.sessions.expire(self.options.session_idle) {
                self.end(&session);
            }
            self.waiting.expire(self.options.session_idle, unix_now());
        }
    }

    /// Ends the sessions of those who could not come in again: their token was taken away, or has expired.
    pub(super) async fn end_unadmitted_sessions(self: Arc<Self>, closing: CancellationToken) {
        let mut follower = self.options.authenticator.follow();
        loop {
            tokio::select! {
                () = follower.moved() => {}
                () = closing.cancelled() => return,
            }
            for session in
                self.sessions.take_out(|principal| !self.options.authenticator.still_admits(&principal.as_admitted()))
            {
                self.end(&session);
            }
        }
    }

    pub(super) fn end(&self, session: &HttpSession) {
        self.waiting.remove(&session.archived);
        // Its readers end, and their clients see the end of the stream and not of the connection.
        session.standalone().finish(None, body::AnswerReceipt::default());
        if let Some(session) = session.session() {
            self.gateway.end_session(session);
        }
    }
}

impl<'h> ReceivedRequest<'h> {
    pub(super) fn new(headers: &'h HeaderMap, principal: &'h Principal) -> Self {
        let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
        Self { headers, principal, accept: text(ACCEPT), version: text(VERSION), session: headers.get(SESSION) }
    }

    /// The session that the client names. One that is no text is named, and never found.
    pub(super) fn session_id(&self) -> Option<&'h str> {
        self.session.and_then(|value| value.to_str().ok())
    }

    pub(super) fn header(&self, name: HeaderName) -> Option<&'h str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// Whether the version header is that of the modern era, or of a later one.
    pub(super) fn claims_modern(&self) -> bool {
        self.version.is_some_and(admission::is_modern_version)
    }
}

pub(super) fn is_json(content_type: &str) -> bool {
    // As nearly all write it.
    content_type == "application/json"
        || content_type.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json"))
}

/// Whether a client takes an answer in either form. Nearly all say so in the very words of the specification.
fn accepts_answers(accept: Option<&str>) -> bool {
    // The comparison spares a parse on the path of every call.
    accept == Some("application/json, text/event-stream") || accepts(accept, &["application/json", "text/event-stream"])
}

/// Whether an `Accept` header covers all of these types.
pub(super) fn accepts(accept: Option<&str>, wanted: &[&str]) -> bool {
    let Some(accept) = accept else { return false };
    wanted.iter().all(|wanted| {
        accept.split(',').any(|range| {
            let range = range.split(';').next().unwrap_or_default().trim();
            let group = wanted.split('/').next().unwrap_or_default();
            range == "*/*" || range.eq_ignore_ascii_case(wanted) || range.strip_suffix("/*") == Some(group)
        })
    })
}

/// Whether a client names the event stream before JSON, and so prefers it.
pub(super) fn prefers_events(accept: Option<&str>) -> bool {
    // The usual order, decided without a search (ADR 5 says why the order counts).
    if accept.is_some_and(|accept| accept.starts_with("application/json")) {
        return false;
    }
    let position = |kind: &str| accept.and_then(|accept| accept.find(kind));
    matches!((position("text/event-stream"), position("application/json")), (Some(events), Some(json)) if events < json)
}

/// The answer to a client that may try again in a moment.
pub(super) fn busy(text: &str) -> Response<Body> {
    let mut response = body::error(503, None, code::INVALID_REQUEST, text);
    response.headers_mut().insert(RETRY_AFTER, TRY_AGAIN);
    response
}

pub(super) fn not_allowed(verbs: &'static str) -> Response<Body> {
    let mut response = body::empty(405);
    response.headers_mut().insert(http::header::ALLOW, HeaderValue::from_static(verbs));
    response
}
