//! From lines to requests over HTTP, and back.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use tidings_downstream::LIMITS;
use tidings_proto::{channel, code, headers, meta, notifications};
use tidings_sync::Lock;
use tidings_wire::{
    Frame, FrameError, FrameKind, IncomingMessage, RawId, error_response, get, notification, one_line, request,
};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::door::{GatewayClient, NotAnswered, PROMPTLY, RelayedMessage, is_stream, whole};
use super::stream::StreamMessages;
use crate::data::{DataDir, RunningGateway};
use crate::failure::CommandFailure;

/// Events first: then the gateway says at once that it has taken a request, so that whatever follows can not overtake it.
const ACCEPT: &str = "text/event-stream, application/json";
/// How long to wait before a stream that broke is opened again.
const AGAIN: Duration = Duration::from_millis(300);
/// How long the gateway may take to say goodbye.
const GOODBYE: Duration = Duration::from_secs(2);

pub(super) struct StdioRelay {
    door: GatewayClient,
    out: mpsc::Sender<Bytes>,
    /// Whether the client is told on the channel, too.
    channel: bool,
    session: Lock<Option<LegacySession>>,
    /// Requests under way. A modern one is cancelled by dropping it; of a legacy one that was cancelled no answer comes.
    running: Lock<HashMap<RawId, RunningCall>>,
    tasks: TaskTracker,
    /// The stream of what belongs to no request: it has no end of its own, so nothing waits for it before the end.
    listening: TaskTracker,
    /// Rings when running requests have had their time.
    ending: CancellationToken,
}

#[derive(Clone)]
struct RunningCall {
    token: CancellationToken,
    is_modern: bool,
    is_listen: bool,
}

/// The session of a legacy client, and what it takes to begin it anew where it was not kept.
#[derive(Clone)]
struct LegacySession {
    id: String,
    revision: String,
    initialize: Bytes,
    is_initialized: bool,
    level: Option<Bytes>,
    follows: BTreeSet<String>,
}

/// The last event that was heard outside of requests. Its number means nothing in another session or to another gateway.
struct ResumePoint {
    event: String,
    session: Option<String>,
    gateway: RunningGateway,
}

impl StdioRelay {
    pub(super) fn new(data: DataDir, out: mpsc::Sender<Bytes>, channel: bool) -> Result<Self, CommandFailure> {
        Ok(Self {
            door: GatewayClient::new(data)?,
            out,
            channel,
            session: Lock::default(),
            running: Lock::default(),
            tasks: TaskTracker::new(),
            listening: TaskTracker::new(),
            ending: CancellationToken::new(),
        })
    }

    fn session(&self) -> MutexGuard<'_, Option<LegacySession>> {
        self.session.lock()
    }

    fn running(&self) -> MutexGuard<'_, HashMap<RawId, RunningCall>> {
        self.running.lock()
    }

    async fn write(&self, message: &Bytes) {
        // A closed channel means that the client is gone; the loop that reads it ends by itself.
        // On one line: a message that the gateway sent over several would be several messages on a pipe.
        let _ = self.out.send(one_line(message).to_vec().into()).await;
    }

    async fn refuse(&self, id: Option<&RawId>, text: &str) {
        self.write(&error_response(id, code::INTERNAL_ERROR, text, None)).await;
    }

    /// One line of the client.
    pub(super) async fn receive(self: Arc<Self>, line: Result<Bytes, FrameError>) {
        let line = match line {
            Ok(line) => line,
            Err(fault) => {
                let text = fault.to_string();
                return self.write(&error_response(fault.id.as_ref(), code::INVALID_REQUEST, &text, None)).await;
            }
        };
        let Ok(IncomingMessage::Single(frame)) = IncomingMessage::parse(line.clone(), &LIMITS) else {
            // A batch, or something that the gateway refuses in its own words.
            return self.legacy(line, None).await;
        };
        let id = frame.id().filter(|_| frame.kind() == FrameKind::Request);
        if frame.kind() == FrameKind::Notification && frame.method() == notifications::CANCELLED {
            return self.cancel(line, &frame).await;
        }
        match id {
            Some(id) if self.channel && frame.method() == "server/discover" => {
                // It goes on as a session then, which is what has a channel.
                let refusal = error_response(Some(&id), code::METHOD_NOT_FOUND, channel::NO_DISCOVERY, None);
                self.write(&refusal).await;
            }
            Some(id) if meta::is_modern(&frame) => {
                self.begin_modern(line, id, frame.method() == "subscriptions/listen");
            }
            Some(id) if frame.method() == "initialize" => {
                let line = if self.channel { channel::ask(&frame) } else { line };
                self.initialize(line, id).await;
            }
            id => {
                self.remember(&frame);
                // The push stream belongs to a session that is initialized; before, the gateway would refuse it.
                let begins = id.is_none() && frame.method() == notifications::INITIALIZED;
                Arc::clone(&self).legacy(line, id).await;
                if begins {
                    self.begin_listening();
                }
            }
        }
    }

    /// What a session that was not kept is begun with again.
    fn remember(&self, frame: &Frame) {
        let mut session = self.session();
        let Some(session) = session.as_mut() else { return };
        let uri = || frame.param_str(&["uri"]).map(|uri| uri.into_owned());
        match &*frame.method() {
            notifications::INITIALIZED => session.is_initialized = true,
            "logging/setLevel" => session.level = frame.params().map(|at| Bytes::copy_from_slice(frame.raw(at))),
            // Remembered for a gateway that lost its sessions: it is told all of this again.
            "resources/subscribe" => session.follows.extend(uri()),
            "resources/unsubscribe" => _ = uri().map(|uri| session.follows.remove(&uri)),
            _ => {}
        }
    }

    // Modern

    /// A modern request is cancelled over HTTP by closing its stream; of a legacy one the gateway is told.
    async fn cancel(self: Arc<Self>, line: Bytes, frame: &Frame) {
        let id = frame.param(&["requestId"]).and_then(|at| RawId::from_raw(frame.raw(at)));
        let running = id.and_then(|id| self.running().get(&id).cloned());
        // A modern request is cancelled by closing its connection, which the token does; a legacy one by a message.
        // Also one that is not known any more: it may have been answered a moment ago, and only the gateway can tell.
        if !running.as_ref().is_some_and(|running| running.is_modern) {
            self.legacy(line, None).await;
        }
        if let Some(running) = running {
            running.token.cancel();
        }
    }

    fn begin_modern(self: &Arc<Self>, line: Bytes, id: RawId, is_listen: bool) {
        let token = CancellationToken::new();
        // Entered before the task runs, so that a cancellation in the next line finds it.
        self.running().insert(id.clone(), RunningCall { token: token.clone(), is_modern: true, is_listen });
        let relay = Arc::clone(self);
        self.tasks.spawn(async move {
            tokio::select! {
                () = relay.run_modern(line, &id) => {}
                () = token.cancelled() => {}
                () = relay.ending.cancelled() => relay.refuse(Some(&id), "the gateway is shutting down").await,
            }
            relay.running().remove(&id);
        });
    }

    async fn run_modern(&self, line: Bytes, id: &RawId) {
        let headers = vec![("accept", ACCEPT.to_owned())];
        match self.door.send(&RelayedMessage { verb: http::Method::POST, headers, body: line }).await {
            Ok((response, _)) if is_stream(&response) => {
                let mut messages = StreamMessages::of(response.into_body());
                let mut is_answered = false;
                while let Some(message) = messages.next().await {
                    // The last message decides: a stream of a modern request ends with its answer.
                    is_answered = is_answer(&message, Some(id));
                    self.write(&message).await;
                }
                // A client must get an answer to every request, even where the stream ended without one.
                if !is_answered {
                    self.refuse(Some(id), LOST).await;
                }
            }
            Ok((response, _)) => match whole(response.into_body()).await {
                Some(answer) if !answer.is_empty() => self.write(&answer).await,
                _ => self.refuse(Some(id), LOST).await,
            },
            Err(NotAnswered::Lost) => self.refuse(Some(id), LOST).await,
            Err(NotAnswered::Nobody) => self.refuse(Some(id), NOBODY).await,
        }
    }

    // Legacy

    async fn initialize(&self, line: Bytes, id: RawId) {
        match self.open_session(line.clone()).await {
            Ok((session, answer)) => {
                // Without a session the answer is a refusal, which the client is shown; an earlier session stays.
                if let Some(session) = session {
                    *self.session() = Some(session);
                }
                self.write(&answer).await;
            }
            Err(reason) => self.refuse(Some(&id), reason).await,
        }
    }

    /// The session that the gateway opened, if it did, and its answer.
    async fn open_session(&self, line: Bytes) -> Result<(Option<LegacySession>, Bytes), &'static str> {
        // The answer comes at once, and as JSON.
        let headers = vec![("accept", "application/json, text/event-stream".to_owned())];
        let letter = RelayedMessage { verb: http::Method::POST, headers, body: line.clone() };
        let response = match tokio::time::timeout(PROMPTLY, self.door.send(&letter)).await {
            Ok(Ok((response, _))) => response,
            Ok(Err(NotAnswered::Lost)) => return Err(LOST),
            Ok(Err(NotAnswered::Nobody)) | Err(_) => return Err(NOBODY),
        };
        let id = response.headers().get(headers::SESSION_ID).and_then(|id| id.to_str().ok()).map(str::to_owned);
        let answer = whole(response.into_body()).await.filter(|answer| !answer.is_empty()).ok_or(LOST)?;
        let revision = Frame::parse(answer.clone(), &LIMITS).ok().and_then(|frame| {
            let at = get(frame.bytes(), frame.outcome()?, "protocolVersion")?;
            tidings_wire::string_at(frame.bytes(), at).map(|revision| revision.into_owned())
        });
        let session = id.zip(revision).map(|(id, revision)| LegacySession {
            id,
            revision,
            initialize: line,
            is_initialized: false,
            level: None,
            follows: BTreeSet::new(),
        });
        Ok((session, answer))
    }

    /// Headers of a request in the session.
    fn headers(&self, accept: &str) -> Vec<(&'static str, String)> {
        let mut headers = vec![("accept", accept.to_owned())];
        if let Some(session) = &*self.session() {
            headers.push((headers::SESSION_ID, session.id.clone()));
            headers.push((headers::PROTOCOL_VERSION, session.revision.clone()));
        }
        headers
    }

    /// Sends a message of the session and waits until the gateway has taken it; its answers follow by themselves.
    async fn legacy(self: Arc<Self>, line: Bytes, id: Option<RawId>) {
        // A batch is answered as a whole, and has no id.
        let wants_answer = id.is_some() || line.first() == Some(&b'[');
        let (response, gateway) = match self.post(line).await {
            Ok(answered) => answered,
            Err(reason) if wants_answer => return self.refuse(id.as_ref(), reason).await,
            Err(reason) => return tracing::warn!(reason, "a message of the client is lost"),
        };
        // Taken, and nothing will be said of it: a notification, or an answer of the client.
        if response.status() == StatusCode::ACCEPTED {
            return;
        }
        let token = CancellationToken::new();
        if let Some(id) = &id {
            // Lines are taken one after the other, so a cancellation in the next line finds it here.
            let call = RunningCall { token: token.clone(), is_modern: false, is_listen: false };
            self.running().insert(id.clone(), call);
        }
        let relay = Arc::clone(&self);
        self.tasks.spawn(async move {
            let answer = async {
                if is_stream(&response) {
                    relay.follow_answer(StreamMessages::of(response.into_body()), id.as_ref(), &gateway).await
                } else {
                    match whole(response.into_body()).await.filter(|answer| !answer.is_empty()) {
                        Some(answer) => {
                            relay.write(&answer).await;
                            true
                        }
                        None => false,
                    }
                }
            };
            tokio::select! {
                is_answered = answer => {
                    if !is_answered && wants_answer {
                        relay.refuse(id.as_ref(), LOST).await;
                    }
                }
                () = token.cancelled() => {}
                () = relay.ending.cancelled() => relay.refuse(id.as_ref(), "the gateway is shutting down").await,
            }
            if let Some(id) = &id {
                relay.running().remove(id);
            }
        });
    }

    /// Posts a message of the session; where the gateway does not know the session any more, it is begun anew, once.
    async fn post(
        &self,
        line: Bytes,
    ) -> Result<(http::Response<tidings_upstream::HttpBody>, RunningGateway), &'static str> {
        for is_last in [false, true] {
            // Twice at most: a gateway that forgets a session at once would be told of it for ever.
            let letter = RelayedMessage { verb: http::Method::POST, headers: self.headers(ACCEPT), body: line.clone() };
            match self.door.send(&letter).await {
                // The gateway does not know the session: a new one is opened in the client's name, who need not know.
                // It was refused unread, so sending it again repeats nothing.
                Ok((response, _)) if response.status() == StatusCode::NOT_FOUND && !is_last => {
                    if !self.begin_anew().await {
                        return Err(FORGOTTEN);
                    }
                }
                Ok((response, gateway)) => return Ok((response, gateway)),
                Err(NotAnswered::Lost) => return Err(LOST),
                Err(NotAnswered::Nobody) => return Err(NOBODY),
            }
        }
        Err(FORGOTTEN)
    }

    /// Writes what comes on the stream of a request; tells whether the answer was among it. The gateway may close the stream for
    /// a while: then it has kept the rest.
    async fn follow_answer(&self, mut messages: StreamMessages, id: Option<&RawId>, gateway: &RunningGateway) -> bool {
        loop {
            let mut is_answered = false;
            while let Some(message) = messages.next().await {
                is_answered |= is_answer(&message, id);
                self.write(&message).await;
            }
            // Where the gateway ended, so did the request: what it did is not known, and it is not made again.
            if is_answered || !self.door.is_running(gateway) {
                return is_answered;
            }
            // A stream that just broke named no pause: nothing says that the gateway has kept the rest.
            let Some((last_id, pause)) = messages.last_id.clone().zip(messages.interrupted) else { return false };
            tokio::time::sleep(pause).await;
            // Of one that was killed the end may have been seen before its process was gone.
            if !self.door.is_running(gateway) {
                return false;
            }
            let mut headers = self.headers("text/event-stream");
            headers.push((headers::LAST_EVENT_ID, last_id.clone()));
            match self.door.send(&RelayedMessage { verb: http::Method::GET, headers, body: Bytes::new() }).await {
                // Another gateway does not know the stream, and would give another one.
                Ok((response, now)) if is_stream(&response) && now.pid == gateway.pid => {
                    messages = StreamMessages::of(response.into_body());
                    // The stream that goes on may break before its first event: then it is resumed at the same place.
                    messages.last_id = Some(last_id);
                }
                _ => return false,
            }
        }
    }

    /// Begins the session of a client anew with what is known of it. The client need not know.
    async fn begin_anew(&self) -> bool {
        let Some(old) = self.session().clone() else { return false };
        let Ok((Some(new), _)) = self.open_session(old.initialize.clone()).await else { return false };
        // What the client set since its beginning is kept, for a further restart.
        // The new id before the messages below: they are sent in the new session.
        *self.session() = Some(LegacySession { id: new.id, revision: new.revision, ..old.clone() });
        if old.is_initialized && !self.tell(notification(notifications::INITIALIZED, None)).await {
            return false;
        }
        self.tell_what_is_set(&old).await
    }

    /// Tells a gateway what the client has set in its session, of which it may not know the newest.
    async fn tell_what_is_set(&self, session: &LegacySession) -> bool {
        let mut messages = Vec::new();
        // Ids of our own, which no client uses: nobody waits for these answers.
        let ours = |number: u64| RawId::from_raw(format!("\"tidings-attach-{number}\"").as_bytes());
        let level =
            session.level.iter().filter_map(|params| Some(request(&ours(0)?, "logging/setLevel", Some(params))));
        messages.extend(level);
        for (number, uri) in (1..).zip(&session.follows) {
            let params = format!("{{\"uri\":{}}}", tidings_wire::encode_string(uri));
            messages.extend(ours(number).map(|id| request(&id, "resources/subscribe", Some(params.as_bytes()))));
        }
        for message in messages {
            if !self.tell(message).await {
                return false;
            }
        }
        true
    }

    /// Sends a message of our own in the session of the client; whether the gateway took it.
    async fn tell(&self, message: Bytes) -> bool {
        let letter = RelayedMessage { verb: http::Method::POST, headers: self.headers(ACCEPT), body: message };
        let Ok((response, _)) = self.door.send(&letter).await else { return false };
        // The answer is read, or the connection could not be used again; what it says changes nothing.
        let _ = tokio::time::timeout(PROMPTLY, whole(response.into_body())).await;
        true
    }

    /// Everything that belongs to no request, until the end.
    fn begin_listening(self: &Arc<Self>) {
        let relay = Arc::clone(self);
        let ending = self.ending.clone();
        self.listening.spawn(async move { ending.run_until_cancelled(relay.listen()).await });
    }

    async fn listen(&self) {
        let mut last: Option<ResumePoint> = None;
        let mut heard: Option<RunningGateway> = None;
        loop {
            let session = self.session().as_ref().map(|session| session.id.clone());
            let mut headers = self.headers("text/event-stream");
            // Kept until a later one is known: what was written to a stream that broke before its first event is sent again.
            let resumed =
                last.as_ref().filter(|point| point.session == session && self.door.is_running(&point.gateway));
            if let Some(point) = resumed {
                headers.push((headers::LAST_EVENT_ID, point.event.clone()));
            }
            match self.door.send(&RelayedMessage { verb: http::Method::GET, headers, body: Bytes::new() }).await {
                Ok((response, gateway)) if is_stream(&response) => {
                    // A gateway that was killed may not have written the last that the client set in a session that it had kept.
                    let is_other = heard.as_ref().is_some_and(|before| before.pid != gateway.pid);
                    let set = self.session().clone();
                    if let Some(set) = set.filter(|_| is_other) {
                        self.tell_what_is_set(&set).await;
                    }
                    heard = Some(gateway.clone());
                    let mut messages = StreamMessages::of(response.into_body());
                    while let Some(message) = messages.next().await {
                        self.write(&message).await;
                    }
                    last = messages.last_id.map(|event| ResumePoint { event, session, gateway }).or(last);
                }
                Ok((response, _)) if response.status() == StatusCode::NOT_FOUND => {
                    // Whether it succeeded shows at the next attempt, after the pause below.
                    self.begin_anew().await;
                }
                Ok(_) | Err(NotAnswered::Lost) | Err(NotAnswered::Nobody) => {}
            }
            if self.out.is_closed() {
                return;
            }
            tokio::time::sleep(AGAIN).await;
        }
    }

    /// The client has nothing more to say: what runs may finish in this time, then the session ends.
    pub(super) async fn finish(&self, within: Duration) {
        self.tasks.close();
        // A listen has no end of its own.
        for running in self.running().values().filter(|running| running.is_listen) {
            running.token.cancel();
        }
        if tokio::time::timeout(within, self.tasks.wait()).await.is_err() {
            self.ending.cancel();
            let _ = tokio::time::timeout(GOODBYE, self.tasks.wait()).await;
        }
        self.ending.cancel();
        self.listening.close();
        // Before the session is ended: a listen that still ran would find it gone and begin it anew.
        self.listening.wait().await;
        // The client can not come back to it: the pipe was its only way here.
        if self.session().is_some() {
            let letter =
                RelayedMessage { verb: http::Method::DELETE, headers: self.headers("*/*"), body: Bytes::new() };
            let _ = tokio::time::timeout(GOODBYE, self.door.send(&letter)).await;
        }
    }
}

const LOST: &str = "the gateway was stopped during the call; whether it took effect is not known";
const NOBODY: &str = "no gateway is running; start it again with `tidings serve`";
const FORGOTTEN: &str = "the gateway was restarted and does not know this session; begin a new one";

/// Whether a message answers a request, or a batch.
fn is_answer(message: &Bytes, id: Option<&RawId>) -> bool {
    match id {
        // A batch has no id of its own; of an array nothing else than its answers is sent.
        None => message.first() == Some(&b'['),
        Some(id) => Frame::parse(message.clone(), &LIMITS).is_ok_and(|frame| {
            matches!(frame.kind(), FrameKind::Response | FrameKind::Error) && frame.id().as_ref() == Some(id)
        }),
    }
}
