//! Legacy clients: sessions, streams that survive a broken connection.

use std::sync::Arc;

use axum::body::Body;
use bytes::Bytes;
use futures_util::StreamExt as _;
use http::Response;
use http::header::{ACCEPT, HeaderName, HeaderValue};
use tidings_engine::{Caller, ClientSink, Exchange, Reply, Session};
use tidings_proto::{Era, Method, Revision, code};
use tidings_wire::{Frame, FrameError, Kind};

use super::body::{self, Handed};
use super::endpoint::{Endpoint, Received, SESSION, accepts, prefers_events};
use super::reply_stream::{Owed, ReplyStream, parse_event_id};
use super::sessions::{HttpSession, InUse};
use crate::batch::{self, Answers, dispatch, legacy_method};

const LAST_EVENT: HeaderName = HeaderName::from_static("last-event-id");

impl Endpoint {
    pub(super) async fn initialize(&self, received: &Received<'_>, frame: &Frame) -> Response<Body> {
        let Some(id) = frame.id() else { return body::empty(400) };
        let session = HttpSession::new();
        let sink: Arc<dyn ClientSink> = Arc::clone(&session) as _;
        match self.gateway.initialize(frame, &id, received.principal, sink).await {
            Err(refusal) => body::json(200, refusal.respond(&id, Era::Legacy).into()),
            Ok((engine_session, answer)) => {
                session.begin(Arc::clone(&engine_session));
                let Some(session_id) = self.sessions.add(&session, self.options.max_sessions) else {
                    self.gateway.end_session(&engine_session);
                    return body::error(503, Some(&id), code::INTERNAL_ERROR, "too many sessions; try again later");
                };
                let mut response = body::json(200, answer.payload);
                if let Ok(value) = HeaderValue::try_from(session_id) {
                    response.headers_mut().insert(SESSION, value);
                }
                response
            }
        }
    }

    pub(super) async fn legacy(
        &self,
        received: &Received<'_>,
        http: &Arc<HttpSession>,
        frame: Frame,
    ) -> Response<Body> {
        let Some(session) = http.session() else { return body::empty(404) };
        let Some(id) = frame.id().filter(|_| frame.kind() == Kind::Request) else {
            dispatch(&self.gateway, session, &frame);
            return body::empty(202);
        };
        let method = match legacy_method(&frame) {
            Ok(Method::Initialize) => {
                let text = "the session has begun already";
                return body::error(400, Some(&id), code::INVALID_REQUEST, text);
            }
            Ok(method) => method,
            Err(refusal) => return body::json(200, refusal.respond(&id, Era::Legacy).into()),
        };
        let exchange = self.gateway.request(Caller::Legacy(Arc::clone(session)), frame, method, id);
        let mut underway = Underway { http, exchange: Some(exchange) };
        if prefers_events(received.header(ACCEPT)) {
            let stream = underway.detach(Some(Reply::Opened));
            return self.stream(http, session, &stream);
        }
        let first = tokio::select! {
            first = underway.next() => Some(first),
            // A long silence: open the stream, so that nobody on the way gives up.
            () = self.gateway.long_while(body::QUIET) => Some(Reply::Opened),
        };
        match first {
            Some(Reply::Answer(answer)) => {
                let receipt = underway.exchange.take().and_then(|mut exchange| exchange.take_receipt());
                body::answer(200, answer.payload, receipt)
            }
            Some(Reply::Cancelled) | None => {
                underway.exchange = None;
                body::events(futures_util::stream::empty())
            }
            first => {
                let stream = underway.detach(first);
                self.stream(http, session, &stream)
            }
        }
    }

    fn stream(&self, http: &Arc<HttpSession>, session: &Session, stream: &Arc<ReplyStream>) -> Response<Body> {
        self.read(http, stream, None, session.revision() == Revision::V2025_11_25)
    }

    fn read(
        &self,
        http: &Arc<HttpSession>,
        stream: &Arc<ReplyStream>,
        after: Option<u64>,
        prime: bool,
    ) -> Response<Body> {
        let in_use = InUse::new(http);
        let owed = http.session().filter(|_| stream.number == 0).map(|session| {
            let (gateway, session) = (self.gateway.clone(), Arc::clone(session));
            Box::new(move || gateway.take_owed(&session)) as Owed
        });
        let chunks = stream.read(after, prime, owed, self.gateway.draining());
        body::events(chunks.map(move |chunk| {
            let _held = &in_use;
            chunk
        }))
    }

    pub(super) fn get(&self, received: &Received<'_>) -> Response<Body> {
        if !accepts(received.header(ACCEPT), &["text/event-stream"]) {
            return body::error(406, None, code::INVALID_REQUEST, "Accept must list text/event-stream");
        }
        let http = match self.session_of(received) {
            Ok(http) => http,
            Err(refused) => return refused.into(),
        };
        let resumed = received.header(LAST_EVENT).and_then(parse_event_id);
        if let Some((number, sequence)) = resumed
            && let Some(stream) = http.stream(number)
        {
            return self.read(&http, &stream, Some(sequence), false);
        }
        let prime = http.session().is_some_and(|session| session.revision() == Revision::V2025_11_25);
        self.read(&http, http.standalone(), None, prime)
    }

    pub(super) fn delete(&self, received: &Received<'_>) -> Response<Body> {
        match self.session_of(received) {
            Ok(http) => {
                if let Some(id) = received.header(SESSION) {
                    self.sessions.remove(id);
                }
                self.end(&http);
                body::empty(204)
            }
            Err(refused) => refused.into(),
        }
    }

    pub(super) async fn batch(&self, http: &Arc<HttpSession>, parts: Vec<Result<Frame, FrameError>>) -> Response<Body> {
        let Some(session) = http.session() else { return body::empty(404) };
        if session.revision() != Revision::V2025_03_26 {
            let text = "only sessions of revision 2025-03-26 may send batches";
            return body::error(400, None, code::INVALID_REQUEST, text);
        }
        let standalone = Arc::clone(http.standalone());
        let push = move |message: Bytes| standalone.push(message);
        match batch::run(&self.gateway, session, parts, push).await {
            Some(Answers { message, receipts }) => body::answer(200, message.into(), receipts),
            None => body::empty(202),
        }
    }
}

/// A request whose answer is awaited here as long as the client is: a disconnect is no cancellation in this era, so when
/// the client leaves, the exchange goes on by itself, and what it yields is kept for resumption.
struct Underway<'a> {
    http: &'a Arc<HttpSession>,
    exchange: Option<Exchange>,
}

impl Underway<'_> {
    async fn next(&mut self) -> Reply {
        match &mut self.exchange {
            Some(exchange) => exchange.next().await,
            None => Reply::Cancelled,
        }
    }

    /// Lets the exchange go on by itself, after `first`.
    fn detach(&mut self, first: Option<Reply>) -> Arc<ReplyStream> {
        let stream = self.http.new_stream();
        self.http.keep(&stream);
        if let Some(exchange) = self.exchange.take() {
            let mut exchange = exchange;
            let over = first.is_some_and(|reply| apply(reply, &mut exchange, &stream));
            if !over {
                tokio::spawn(pump(exchange, Arc::clone(&stream), InUse::new(self.http)));
            }
        }
        stream
    }
}

impl Drop for Underway<'_> {
    fn drop(&mut self) {
        if self.exchange.is_some() {
            self.detach(None);
        }
    }
}

async fn pump(mut exchange: Exchange, stream: Arc<ReplyStream>, _in_use: InUse) {
    loop {
        let reply = exchange.next().await;
        if apply(reply, &mut exchange, &stream) {
            return;
        }
    }
}

/// Puts a reply on the stream; says whether it was the last.
fn apply(reply: Reply, exchange: &mut Exchange, stream: &ReplyStream) -> bool {
    match reply {
        Reply::Opened => {}
        Reply::Message(message) => stream.push(message),
        Reply::Interrupted(pause) => stream.interrupt(pause),
        Reply::Answer(answer) => {
            stream.finish(Some(answer.payload), Handed::new(exchange.take_receipt()));
            return true;
        }
        Reply::Cancelled => {
            stream.finish(None, Handed::default());
            return true;
        }
    }
    false
}
