//! One request over HTTP: a JSON answer, or an event stream that may be cut off and picked up again.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use http::StatusCode;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderValue, LOCATION, WWW_AUTHENTICATE};
use http::{Method as Verb, Response};
use tidings_proto::{Era, Method, ServerMessage};
use tidings_wire::sse::{SseDecoder, SseEvent};
use tidings_wire::{Frame, FrameError, FrameKind, IncomingMessage, RawId, unreadable_answer_id};
use tokio_util::task::task_tracker::TaskTrackerToken;

use super::asked::QuestionsOfCall;
use super::cancellation::{CallTicket, cancel};
use super::client::{chunk, gather};
use super::refusal::{refused, session_refused};
use super::{HttpBody, HttpLinkShared, HttpLinkState, LAST_EVENT};
use crate::link::OutgoingRequest;
use crate::web_page::is_web_page;
use crate::{CallEvent, CallStream, LIMITS, LinkError, MAX_MESSAGE, ShownUrl, error};

/// How long to wait before a stream is picked up again when the server does not say.
const RETRY: Duration = Duration::from_millis(500);
/// How often in a row picking up may fail.
const ATTEMPTS: u32 = 5;
/// How much of an unexpected body is quoted.
const EXCERPT: usize = 300;

struct HttpCall {
    shared: Arc<HttpLinkShared>,
    /// Where the server must be told when the call is cancelled.
    ticket: Option<CallTicket>,
    id: u64,
    /// A stream of announcements, which may end at any time.
    is_listen: bool,
    stage: HttpCallStage,
    resume_from: Option<String>,
    retry: Duration,
    attempts: u32,
    /// What the server asked on this stream. Most calls are asked nothing.
    asked: Option<Box<QuestionsOfCall>>,
    /// What came together with the event that was given last: 2025-03-26 has batches.
    ready: VecDeque<CallEvent>,
    _running: TaskTrackerToken,
}

enum HttpCallStage {
    Start(Box<OutgoingRequest>),
    Stream(Box<(HttpBody, SseDecoder)>),
    Resume,
    Over,
}

pub(super) fn start(shared: Arc<HttpLinkShared>, request: OutgoingRequest) -> CallStream {
    let is_legacy = shared.state().era == Era::Legacy;
    let call = HttpCall {
        id: request.id,
        // Made here and not when the request is sent: a cancellation may come before the stream is first polled.
        ticket: is_legacy.then(|| CallTicket::new(&shared, request.id)),
        is_listen: request.method == Method::Listen,
        _running: shared.calls.token(),
        shared,
        stage: HttpCallStage::Start(Box::new(request)),
        resume_from: None,
        retry: RETRY,
        attempts: 0,
        asked: None,
        ready: VecDeque::new(),
    };
    let progress = call.ticket.as_ref().map(CallTicket::progress);
    let events = CallStream::new(stream::unfold(call, |mut call| async move {
        let event = call.step().await?;
        Some((event, call))
    }));
    match progress {
        Some(progress) => events.gathering(progress),
        None => events,
    }
}

impl HttpCall {
    async fn step(&mut self) -> Option<CallEvent> {
        if let Some(event) = self.ready.pop_front() {
            return Some(event);
        }
        // Whoever wants to go on sets the next stage; an error on the way leaves it over.
        let event = match std::mem::replace(&mut self.stage, HttpCallStage::Over) {
            HttpCallStage::Over => return None,
            HttpCallStage::Start(request) => self.post(*request).await,
            HttpCallStage::Stream(stream) => self.read(stream).await,
            HttpCallStage::Resume => self.resume().await,
        };
        let event = event.unwrap_or_else(CallEvent::Failed);
        let ends = matches!(event, CallEvent::Response(_) | CallEvent::Failed(_) | CallEvent::Refused { .. });
        let waits_in_vain = matches!(event, CallEvent::Failed(LinkError::AnswerLost(_)));
        match &self.ticket {
            // The server waits, and nobody else will tell it that there is nothing to wait for.
            Some(_) if waits_in_vain => cancel(&self.shared, self.id, Some("the answer to its question was lost")),
            Some(ticket) if ends => ticket.over(),
            _ => {}
        }
        match &event {
            // What the answer was lost with has been told of the link already.
            CallEvent::Failed(LinkError::AnswerLost(_)) => {}
            // A listen that ends is opened again; only one that can not be opened says something about the link.
            CallEvent::Failed(LinkError::Lost) if self.is_listen => {}
            CallEvent::Failed(error) | CallEvent::Refused { error, .. } => self.shared.trouble(error),
            _ => {}
        }
        Some(event)
    }

    async fn post(&mut self, request: OutgoingRequest) -> Result<CallEvent, LinkError> {
        // Cancelled before anything was written.
        if self.ticket.as_ref().is_some_and(|ticket| !ticket.send()) {
            return Err(LinkError::Stopped);
        }
        let mut state = self.shared.state();
        let headers = self.shared.call_headers(&state, &request);
        // Kept only where it may have to be sent again.
        let again = self.shared.may_resend(&state).then(|| request.clone());
        let method = request.method;
        let post = self.shared.request(Verb::POST, headers, request.bytes);
        let mut answer = self.shared.send(post).await?;
        if let Some(again) = again.filter(|_| answer.status() == StatusCode::UNAUTHORIZED)
            && !self.is_about_session(&answer, &state)
        {
            // Once, and only with a newer token: a refusal for its credentials means that the server did not read it.
            state = self.shared.credentials_refused(&state, (answer.status(), answer.headers())).await?;
            let headers = self.shared.call_headers(&state, &again);
            answer = self.shared.send(self.shared.request(Verb::POST, headers, again.bytes)).await?;
        }
        if let Some(ticket) = &self.ticket {
            ticket.begun();
        }
        if method == Method::Initialize {
            // Before the body is read: the server may speak on the new session at once.
            self.shared.adopt_session(answer.headers());
        }
        self.accept(answer, &state).await
    }

    async fn accept(&mut self, answer: Response<HttpBody>, state: &HttpLinkState) -> Result<CallEvent, LinkError> {
        let status = answer.status();
        if matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
            return match session_refused(state, status).filter(|_| self.is_about_session(&answer, state)) {
                Some(error) => Ok(CallEvent::Refused { answer: None, error }),
                // There may be a newer token by now, but what was sent is gone.
                None => match self.shared.credentials_refused(state, (answer.status(), answer.headers())).await {
                    Ok(_) => Err(LinkError::Unauthorized(status.as_u16())),
                    Err(error) => Err(error),
                },
            };
        }
        if status.is_redirection() {
            // Followed nowhere: credentials of this server would go to another. Whoever wrote the URL has to.
            let location = answer.headers().get(LOCATION).and_then(|to| to.to_str().ok());
            let body = location.map(|to| format!("{}{}", error::REDIRECTS, ShownUrl::of(to)));
            return Err(LinkError::Status { status: status.as_u16(), body });
        }
        let kind = answer.headers().get(CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or_default();
        if status.is_success() && kind.starts_with("text/event-stream") {
            self.stage = HttpCallStage::Stream(Box::new((answer.into_body(), SseDecoder::new(MAX_MESSAGE))));
            return Ok(CallEvent::Accepted);
        }
        let ticket = self.ticket.as_ref();
        let gathers = |taken| ticket.into_iter().for_each(|ticket| ticket.gathers(taken));
        let body = gather(answer.into_body(), MAX_MESSAGE, Some(&self.shared.memory), gathers).await?;
        match IncomingMessage::parse(body.clone(), &LIMITS) {
            // Nearly every answer: it does not go through the queue, which would be made for it alone.
            Ok(IncomingMessage::Single(frame)) if status.is_success() && self.is_answer(&frame) => {
                Ok(answered(state, status, frame, &body))
            }
            Ok(message) if status.is_success() => {
                let none = || LinkError::Protocol("the body holds no answer to the request".into());
                if !self.take_apart(message)? {
                    return Err(none());
                }
                match self.ready.pop_front().ok_or_else(none)? {
                    CallEvent::Response(frame) => Ok(answered(state, status, frame, &body)),
                    other => Ok(other),
                }
            }
            // Errors come with a status of their own in the modern era; the body says more.
            Ok(IncomingMessage::Single(frame)) if frame.kind() == FrameKind::Error => {
                match refused(state, status, Some(&frame), &body) {
                    Some(error) => Ok(CallEvent::Refused { answer: Some(frame), error }),
                    None => {
                        if state.is_settled() && state.era == Era::Legacy {
                            // In the old era errors come with status 200: this one may not be the server's own.
                            self.shared.trouble(&LinkError::Status { status: status.as_u16(), body: None });
                        }
                        Ok(CallEvent::Response(frame))
                    }
                }
            }
            Err(_) if status.is_success() && is_web_page(&body) => Err(LinkError::Protocol(error::WEB_PAGE.into())),
            Err(error) if status.is_success() => Err(LinkError::Protocol(error.to_string())),
            _ => match refused(state, status, None, &body) {
                Some(error) => Ok(CallEvent::Refused { answer: None, error }),
                None if is_web_page(&body) => {
                    Err(LinkError::Status { status: status.as_u16(), body: Some("a web page (HTML)".into()) })
                }
                None => {
                    let text = String::from_utf8_lossy(&body[..body.len().min(EXCERPT)]).trim().to_owned();
                    Err(LinkError::Status { status: status.as_u16(), body: (!text.is_empty()).then_some(text) })
                }
            },
        }
    }

    /// With a challenge a refusal is about credentials; without one some servers mean the session.
    fn is_about_session(&self, answer: &Response<HttpBody>, state: &HttpLinkState) -> bool {
        !answer.headers().contains_key(WWW_AUTHENTICATE) && session_refused(state, answer.status()).is_some()
    }

    /// Makes what a message, or each part of a batch, means for this call ready, in order. Says whether the answer is among
    /// it; what follows the answer is nobody's.
    fn take_apart(&mut self, message: IncomingMessage) -> Result<bool, LinkError> {
        let parts = match message {
            IncomingMessage::Single(frame) => return Ok(self.part(frame)),
            IncomingMessage::Batch(parts) => parts,
        };
        for part in parts {
            match part {
                Ok(frame) => {
                    if self.part(frame) {
                        return Ok(true);
                    }
                }
                // The answer itself can not be read, so there will be none.
                Err(error) if error.id.as_ref().is_some_and(|id| self.is_mine(id)) => return Err(unreadable(&error)),
                Err(error) => tracing::warn!(url = %self.shared.shown(), %error, "part of a batch is not a message"),
            }
        }
        Ok(false)
    }

    fn part(&mut self, frame: Frame) -> bool {
        match frame.kind() {
            FrameKind::Request | FrameKind::Notification => {
                if let (FrameKind::Request, Some(question)) = (frame.kind(), frame.id()) {
                    self.asked.get_or_insert_with(|| Box::new(QuestionsOfCall::new(&self.shared.asked))).add(question);
                }
                let message = ServerMessage::from(frame);
                // It is about the server and not about the call: it counts also where nobody reads what the call brings, as with a
                // call that was given up or a request of our own.
                if !self.is_listen && message.subject().is_change() {
                    self.shared.sink.unowned(message);
                } else {
                    self.ready.push_back(CallEvent::Message(message));
                }
                false
            }
            _ if self.is_answer(&frame) => {
                self.ready.push_back(CallEvent::Response(frame));
                true
            }
            _ => false,
        }
    }

    fn is_answer(&self, frame: &Frame) -> bool {
        // An error without an id can only be about the request that this is the answer to.
        matches!(frame.kind(), FrameKind::Response | FrameKind::Error) && frame.id().is_none_or(|id| self.is_mine(&id))
    }

    /// Also when the server made a string of our number.
    fn is_mine(&self, id: &RawId) -> bool {
        let text = id.as_str();
        // There are servers that answer number 1 with string "1".
        id.as_u64() == Some(self.id) || text.trim_matches('"').parse() == Ok(self.id)
    }

    async fn read(&mut self, mut stream: Box<(HttpBody, SseDecoder)>) -> Result<CallEvent, LinkError> {
        loop {
            let (body, decoder) = &mut *stream;
            match decoder.next_event_within(Some(&self.shared.memory)) {
                Err(error) => return Err(LinkError::Protocol(error.to_string())),
                Ok(Some(event)) => {
                    let is_answered = self.event(event)?;
                    if let Some(first) = self.ready.pop_front() {
                        if !is_answered {
                            self.stage = HttpCallStage::Stream(stream);
                        }
                        return Ok(first);
                    }
                }
                Ok(None) => {
                    self.ticket.iter().for_each(|ticket| ticket.gathers(decoder.taken()));
                    let more = match &self.asked {
                        None => chunk(body).await,
                        Some(asked) => tokio::select! {
                            biased;
                            // First: a stream with other news would put it off without end. Boxed, because thousands of calls that were asked nothing wait here.
                            error = Box::pin(asked.lost()) => return Err(error),
                            more = chunk(body) => more,
                        },
                    };
                    match more {
                        Some(Ok(bytes)) => decoder.push(&bytes),
                        Some(Err(_)) => return self.interrupted(false),
                        None => return self.interrupted(true),
                    }
                }
            }
        }
    }

    /// Makes what an event means ready; says whether the answer is among it.
    fn event(&mut self, event: SseEvent) -> Result<bool, LinkError> {
        // An empty id means that there is nothing to resume from.
        if let Some(id) = event.id.filter(|id| !id.is_empty()) {
            self.resume_from = Some(id);
            // Something new came, so the attempts before were worth it.
            self.attempts = 0;
        }
        if let Some(retry) = event.retry {
            // A server must not be able to put a call off for hours.
            self.retry = Duration::from_millis(retry.min(60_000));
        }
        if event.data.is_empty() {
            // An event with an id and no data only makes the stream resumable.
            self.ready.push_back(CallEvent::Opened);
            return Ok(false);
        }
        if !is_message(&event.event) {
            tracing::debug!(url = %self.shared.shown(), event = event.event, "an event that is no message");
            return Ok(false);
        }
        match IncomingMessage::parse(event.data.clone(), &LIMITS) {
            Ok(message) => self.take_apart(message),
            // A notification that can not be read costs nobody the answer.
            Err(error) if is_notice(&event.data) => {
                tracing::warn!(url = %self.shared.shown(), %error, "not a message");
                Ok(false)
            }
            Err(error) => Err(unreadable(&error)),
        }
    }

    /// The stream ended before the answer. Only a server that closes it in good order wants to be left alone for a while.
    fn interrupted(&mut self, in_order: bool) -> Result<CallEvent, LinkError> {
        // The modern era has no resumption, and without an event id there is nothing to resume from.
        if self.shared.state().era == Era::Modern || self.resume_from.is_none() {
            return Err(LinkError::Lost);
        }
        self.attempts += 1;
        if self.attempts > ATTEMPTS {
            return Err(LinkError::Lost);
        }
        self.stage = HttpCallStage::Resume;
        Ok(if in_order { CallEvent::Interrupted(self.retry) } else { CallEvent::Broken })
    }

    async fn resume(&mut self) -> Result<CallEvent, LinkError> {
        tokio::time::sleep(self.retry).await;
        let state = self.shared.state();
        let mut headers = state.headers.clone();
        headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        if let Some(last) = self.resume_from.as_deref().and_then(|id| HeaderValue::try_from(id).ok()) {
            headers.insert(LAST_EVENT, last);
        }
        match self.shared.send(self.shared.request(Verb::GET, headers, Bytes::new())).await {
            Ok(answer) if answer.status().is_success() => {
                self.read(Box::new((answer.into_body(), SseDecoder::new(MAX_MESSAGE)))).await
            }
            Ok(answer) => match session_refused(&state, answer.status()) {
                Some(error) => {
                    self.shared.trouble(&error);
                    // The call may have run, so its loss is told; what the refusal means for the link is the watch's
                    // business.
                    Err(LinkError::Lost)
                }
                None => self.interrupted(false),
            },
            Err(_) => self.interrupted(false),
        }
    }
}

/// The answer, or that the server refused to take the request.
fn answered(state: &HttpLinkState, status: StatusCode, frame: Frame, body: &[u8]) -> CallEvent {
    match refused(state, status, Some(&frame), body) {
        Some(error) => CallEvent::Refused { answer: Some(frame), error },
        None => CallEvent::Response(frame),
    }
}

fn unreadable(error: &FrameError) -> LinkError {
    LinkError::Protocol(format!("its answer can not be read: {error}"))
}

/// Whether an event carries messages. What servers call by other names is not for clients of MCP.
pub(super) fn is_message(name: &str) -> bool {
    matches!(name, "" | "message")
}

/// Whether text that can not be read names a method, and is thus no answer.
fn is_notice(text: &[u8]) -> bool {
    unreadable_answer_id(text).is_none() && memchr::memmem::find(text, b"\"method\"").is_some()
}
