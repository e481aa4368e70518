//! Legacy clients: sessions, streams that survive a broken connection.

use std::sync::Arc;

use axum::body::Body;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::{FutureExt as _, StreamExt as _};
use http::Response;
use http::header::{HeaderName, HeaderValue};
use tidings_engine::{Caller, OwedNotice, Receipt, Reply, Session, SessionCaller};
use tidings_proto::refusal::RequestRefusal;
use tidings_proto::{Era, Method, code, headers};
use tidings_wire::{Frame, FrameError, FrameKind, assert_outgoing, assert_outgoing_payload};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::body::{self, AnswerReceipt};
use super::cancel_safe::CancelSafeExchange;
use super::endpoint::{HttpEndpoint, ReceivedRequest, SESSION, accepts, prefers_events};
use super::reply_stream::{Owed, ReplyStream, parse_event_id};
use super::session_archive::MarkAfter;
use super::sessions::{HttpSession, InUse};
use crate::admission::{admit_batch, admit_legacy};
use crate::batch::{self, BatchAnswers, dispatch};

const LAST_EVENT: HeaderName = HeaderName::from_static(headers::LAST_EVENT_ID);

impl HttpEndpoint {
    pub(super) async fn initialize(&self, received: &ReceivedRequest<'_>, frame: &Frame) -> Response<Body> {
        let Some(id) = frame.id() else { return body::empty(400) };
        // Before it is known whether there is room: the engine needs its sink. One that is not entered ends with this.
        let session = self.sessions.make();
        let sink = session.sink();
        match self.gateway.initialize(frame, &id, received.principal, sink).await {
            // In this era a refusal is an answer like any other.
            Err(refusal) => body::json(200, refusal.respond(&id, Era::Legacy).into()),
            Ok((engine_session, answer)) => {
                session.begin(Arc::clone(&engine_session));
                // The engine's session exists already, so it is ended in order.
                let entered = match self.sessions.add(&session) {
                    Ok(entered) => entered,
                    Err(no_room) => {
                        self.gateway.end_session(&engine_session);
                        return body::error(503, Some(&id), code::INTERNAL_ERROR, &no_room.to_string());
                    }
                };
                // The table was full: the session that was idle longest has given way.
                if let Some(displaced) = entered.displaced {
                    self.end(&displaced);
                }
                let mut response = body::json(200, answer.payload);
                if let Ok(value) = HeaderValue::try_from(entered.id) {
                    response.headers_mut().insert(SESSION, value);
                }
                response
            }
        }
    }

    pub(super) async fn legacy(
        &self,
        received: &ReceivedRequest<'_>,
        http: &Arc<HttpSession>,
        frame: Frame,
    ) -> Response<Body> {
        // Out of reach: a session enters the table after it has begun.
        let Some(session) = http.session() else { return body::empty(404) };
        let Some(id) = frame.id().filter(|_| frame.kind() == FrameKind::Request) else {
            dispatch(&self.gateway, session, &frame);
            // `initialized` and answers change what is kept of a session.
            http.archived.mark();
            return body::empty(202);
        };
        let method = match admit_legacy(&frame) {
            Ok(method) => method,
            Err(refusal) => {
                // In this era errors of requests are answers like any other; only a broken sequence of messages is
                // HTTP's business.
                let status = if matches!(refusal, RequestRefusal::InvalidRequest(_)) { 400 } else { 200 };
                return body::json(status, refusal.respond(&id, Era::Legacy).into());
            }
        };
        // Marked when the request is over: before that there is nothing new to keep.
        let _changes = match method {
            Method::ResourcesSubscribe => {
                http.archived.mark_following();
                Some(MarkAfter(&http.archived))
            }
            Method::SetLevel | Method::ResourcesUnsubscribe | Method::ResourcesRead => Some(MarkAfter(&http.archived)),
            _ => None,
        };
        let caller = Caller::Legacy(SessionCaller::with_token(session, received.principal));
        let mut exchange = self.gateway.request(caller, frame, method, id);
        exchange.came_over_http(|name| received.header(HeaderName::from_static(name)));
        let mut underway =
            AwaitedExchange { http, tasks: &self.tasks, said: None, exchange: Some(CancelSafeExchange::new(exchange)) };
        // The client would rather have a stream at once, so nothing is waited for.
        if prefers_events(received.accept) {
            // What is known at once is only whether the token is enough, and a stream has no status for that.
            match underway.next().now_or_never() {
                Some(Reply::Forbidden { answer, scopes }) => {
                    underway.over();
                    return self.forbid(answer, &scopes);
                }
                reply => underway.said = reply,
            }
            let stream = underway.detach();
            return self.stream(http, session, &stream);
        }
        tokio::select! {
            reply = underway.next() => match reply {
                Reply::Answer(answer) => return body::answer(200, answer.payload, underway.over()),
                Reply::Forbidden { answer, scopes } => {
                    underway.over();
                    return self.forbid(answer, &scopes);
                }
                // A cancelled request has no answer; an empty stream is the only body that says nothing.
                Reply::Cancelled => {
                    underway.over();
                    return body::events(futures_util::stream::empty());
                }
                reply => underway.said = Some(reply),
            },
            // A long silence: open the stream, so that nobody on the way gives up.
            () = self.gateway.long_while(self.options.silence) => {}
        }
        let stream = underway.detach();
        self.stream(http, session, &stream)
    }

    fn stream(&self, http: &Arc<HttpSession>, session: &Session, stream: &Arc<ReplyStream>) -> Response<Body> {
        self.read(http, stream, None, session.revision().resumes_streams())
    }

    fn read(
        &self,
        http: &Arc<HttpSession>,
        stream: &Arc<ReplyStream>,
        after: Option<u64>,
        prime: bool,
    ) -> Response<Body> {
        // Held by the body: a session with an open stream does not expire.
        let in_use = InUse::new(http);
        // Only the standalone stream carries notices; the streams of requests carry what belongs to the request.
        let owed = http.session().filter(|_| stream.number == 0).map(|session| {
            let (gateway, session, http) = (self.gateway.clone(), Arc::clone(session), Arc::clone(http));
            Box::new(move |give: &mut dyn FnMut(OwedNotice)| {
                gateway.pass_owed(&session, |notice| {
                    assert_outgoing(&notice.message);
                    // What it was told is kept, so that a restart does not tell it again.
                    http.archived.mark();
                    give(notice);
                });
            }) as Owed
        });
        let chunks = stream.read(after, prime, owed, self.gateway.draining());
        body::events(chunks.map(move |chunk| {
            let _held = &in_use;
            chunk
        }))
    }

    pub(super) fn get(&self, received: &ReceivedRequest<'_>) -> Response<Body> {
        if !accepts(received.accept, &["text/event-stream"]) {
            return body::error(406, None, code::INVALID_REQUEST, "Accept must list text/event-stream");
        }
        let http = match self.session_of(received) {
            Ok(http) => http,
            Err(refused) => return refused.into(),
        };
        let resumed = received.header(LAST_EVENT).and_then(parse_event_id);
        if let Some((number, sequence)) = resumed
            // Otherwise it was forgotten: the client gets the standalone stream, which is the best there is.
            && let Some(stream) = http.stream(number)
        {
            // Not primed: a client that names an event has an id to come back with.
            return self.read(&http, &stream, Some(sequence), false);
        }
        let prime = http.session().is_some_and(|session| session.revision().resumes_streams());
        self.read(&http, http.standalone(), None, prime)
    }

    pub(super) fn delete(&self, received: &ReceivedRequest<'_>) -> Response<Body> {
        match self.session_of(received) {
            Ok(http) => {
                if let Some(id) = received.session_id() {
                    // First, so that no request finds a session that is just ending.
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
        if let Err(refusal) = admit_batch(Some(session)) {
            return body::error(400, None, code::INVALID_REQUEST, &refusal.to_string());
        }
        let stream = http.new_stream();
        // Rings when a server says something before the answers: then only a stream can carry both.
        let spoken = Arc::new(Notify::new());
        let (carrier, bell) = (Arc::clone(&stream), Arc::clone(&spoken));
        let push = move |message: Bytes| {
            assert_outgoing(&message);
            carrier.push(message);
            bell.notify_one();
        };
        // Nothing ends it early: whoever is gone may come back for the answers.
        let run = batch::run(self.gateway.clone(), Arc::clone(session), parts, push, CancellationToken::new());
        let mut underway = UnderwayBatch { http, tasks: &self.tasks, stream, run: Some(Box::pin(run)) };
        tokio::select! {
            biased;
            // What a server says meanwhile belongs to the stream of the batch.
            () = spoken.notified() => {}
            answers = underway.finished() => return match answers {
                Some(BatchAnswers { message, receipts }) => body::answer(200, message.into(), receipts),
                None => body::empty(202),
            },
            // A long silence: open the stream, so that nobody on the way gives up.
            () = self.gateway.long_while(self.options.silence) => {}
        }
        let stream = underway.detach();
        self.stream(http, session, &stream)
    }
}

/// A batch whose answers are awaited here as long as the client is. As for single requests, it goes on when the client
/// leaves.
struct UnderwayBatch<'a> {
    http: &'a Arc<HttpSession>,
    tasks: &'a TaskTracker,
    stream: Arc<ReplyStream>,
    run: Option<BoxFuture<'static, Option<BatchAnswers>>>,
}

impl UnderwayBatch<'_> {
    /// All answers, unless something was said meanwhile: then they follow it on the stream.
    async fn finished(&mut self) -> Option<BatchAnswers> {
        let answers = match &mut self.run {
            Some(run) => run.await,
            None => None,
        };
        // Something was said in the same moment; the answers must come after it, on the stream.
        if !self.stream.is_empty() {
            self.run = Some(Box::pin(std::future::ready(answers)));
            // The bell has rung, and is heard first.
            return std::future::pending().await;
        }
        self.run = None;
        answers
    }

    fn detach(&mut self) -> Arc<ReplyStream> {
        if let Some(run) = self.run.take() {
            // Before the task: a client that comes back at once must find the stream.
            self.http.keep(&self.stream);
            let (stream, in_use) = (Arc::clone(&self.stream), InUse::new(self.http));
            self.tasks.spawn(async move {
                match run.await {
                    Some(BatchAnswers { message, receipts }) => {
                        stream.finish(Some(message.into()), AnswerReceipt::new(receipts))
                    }
                    None => stream.finish(None, AnswerReceipt::default()),
                }
                in_use.retain(&stream);
            });
        }
        Arc::clone(&self.stream)
    }
}

impl Drop for UnderwayBatch<'_> {
    fn drop(&mut self) {
        self.detach();
    }
}

/// A request whose answer is awaited here as long as the client is: a disconnect is no cancellation in this era, so when
/// the client leaves, the exchange goes on by itself, and what it yields is kept for resumption.
struct AwaitedExchange<'a> {
    http: &'a Arc<HttpSession>,
    tasks: &'a TaskTracker,
    /// Its first reply, where that is not the last.
    said: Option<Reply>,
    /// None when it is over, or goes on elsewhere.
    exchange: Option<CancelSafeExchange>,
}

impl AwaitedExchange<'_> {
    async fn next(&mut self) -> Reply {
        match &mut self.exchange {
            Some(exchange) => exchange.next().await,
            None => Reply::Cancelled,
        }
    }

    /// The last reply was read. Gives what must be kept until the client has it.
    fn over(&mut self) -> Option<Receipt> {
        self.exchange.take()?.take_receipt()
    }

    /// Lets the exchange go on by itself.
    fn detach(&mut self) -> Arc<ReplyStream> {
        let stream = self.http.new_stream();
        self.http.keep(&stream);
        if let Some(mut exchange) = self.exchange.take() {
            // At once, not in the task: what was said must be there when the stream is first read.
            let reply = self.said.take().unwrap_or(Reply::Opened);
            if !apply(reply, &mut exchange, &stream, self.http) {
                self.tasks.spawn(pump(exchange, Arc::clone(&stream), InUse::new(self.http)));
            }
        }
        stream
    }
}

impl Drop for AwaitedExchange<'_> {
    fn drop(&mut self) {
        if self.exchange.is_some() {
            self.detach();
        }
    }
}

async fn pump(mut exchange: CancelSafeExchange, stream: Arc<ReplyStream>, http: InUse) {
    loop {
        let reply = exchange.next().await;
        if apply(reply, &mut exchange, &stream, &http) {
            return;
        }
    }
}

/// Puts a reply on the stream; says whether it was the last.
fn apply(reply: Reply, exchange: &mut CancelSafeExchange, stream: &Arc<ReplyStream>, http: &Arc<HttpSession>) -> bool {
    match reply {
        Reply::Opened => {}
        Reply::Message(message) => {
            assert_outgoing(&message);
            stream.push(message);
        }
        Reply::Interrupted(pause) => stream.interrupt(pause),
        Reply::Answer(answer) | Reply::Forbidden { answer, .. } => {
            assert_outgoing_payload(&answer.payload);
            stream.finish(Some(answer.payload), AnswerReceipt::new(exchange.take_receipt()));
            http.retain(stream);
            return true;
        }
        Reply::Cancelled => {
            // Not retained: there is no answer that anybody could come back for.
            stream.finish(None, AnswerReceipt::default());
            return true;
        }
    }
    false
}
