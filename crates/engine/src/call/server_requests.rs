//! What servers say outside the stream of a call, and what they ask of clients.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use serde_json::Value;
use tidings_hub::calls::{CallId, LinkCallers};
use tidings_hub::server_requests::ServerRequest;
use tidings_hub::{ClientKey, LinkKey};
use tidings_proto::{ListKind, LogLevel, Revision, capabilities, code};
use tidings_upstream::SharedLink;
use tidings_wire::{
    Frame, FrameKind, ObjectEdit, Patch, RawId, encode_string, error_response, notification, response, string_at,
};

use crate::client::session::{Caller, Session};
use crate::discovery::signals;
use crate::gateway::{Gateway, Inner};
use crate::servers::server::Server;

/// How many bytes of a message are logged.
const EXCERPT: usize = 500;

impl Gateway {
    /// A client's answer to a question of a server.
    pub fn answer(&self, session: &Session, frame: &Frame) {
        let Some(id) = frame.id() else { return };
        let ask = self.0.in_flight.lock().server_requests.answer(session.key, &id);
        let Some(ask) = ask else {
            tracing::debug!(%id, "answer to no question");
            return;
        };
        if let Some(link) = self.0.link(ask.link) {
            link.send(tidings_proto::outcome::answer_of_client(frame, &ask.id));
        }
    }

    /// The session's client can be reached but says nothing any more: what it was asked is refused in its place.
    pub fn no_more_answers(&self, session: &Session) {
        let unanswered = {
            let mut state = self.0.in_flight.lock();
            session.silent.store(true, Ordering::Relaxed);
            state.server_requests.client_gone(session.key)
        };
        for (_, ask) in &unanswered {
            self.0.refuse_server_request(ask);
        }
    }

    /// A notification of a legacy client that is neither a cancellation nor an answer.
    pub fn notify(&self, session: &Arc<Session>, frame: &Frame) {
        let method = frame.method();
        match &*method {
            "notifications/initialized" => self.initialized(session),
            "notifications/roots/list_changed" => {
                self.0.forward_to_all(frame.bytes());
                self.0.roots_changed(session, frame.bytes());
            }
            _ if self.0.passthrough.is_some() => self.0.forward_to_all(frame.bytes()),
            other => tracing::debug!(method = other, "notification dropped"),
        }
    }
}

impl Inner {
    /// Every link belongs to this client when it is the only one there will ever be.
    fn forward_to_all(&self, message: &Bytes) {
        if !self.has_only_client() {
            return;
        }
        for server in self.servers().iter() {
            if let Some(live) = server.live().filter(|live| live.hello.revision < Revision::MODERN) {
                live.link.send(message.clone());
            }
        }
    }

    /// A message of a server that came on no stream of a call. `own`: the session that alone uses the link.
    pub(crate) fn unowned(
        self: &Arc<Self>,
        server: &Arc<Server>,
        key: LinkKey,
        link: &SharedLink,
        own: Option<Arc<Session>>,
        frame: Frame,
    ) {
        let method = frame.method().into_owned();
        let owner = own.or_else(|| self.only_session());
        let about_lists =
            !ListKind::announced_by(&method).is_empty() || method == "notifications/subscriptions/acknowledged";
        if !server.is_admitted() && frame.kind() != FrameKind::Request && !about_lists {
            // Nobody knows of it yet, and perhaps nobody ever will.
            return;
        }
        if frame.kind() == FrameKind::Request {
            // Some servers ask on their standalone stream what they need for a call.
            let Some(frame) = (if method == "ping" { Some(frame) } else { self.in_flight.give_to_sole(key, frame) })
            else {
                return;
            };
            return self.ask(owner.as_ref(), server, key, link, None, &frame, &mut |session, bytes| {
                session.sink.push(bytes);
            });
        }
        let kinds = ListKind::announced_by(&method);
        if !kinds.is_empty() {
            server.signalled(kinds);
            return;
        }
        match method.as_str() {
            "notifications/cancelled" => {
                if let Some((ask, bytes)) = self.take_withdrawn(key, &frame) {
                    self.push_to(ask.client, bytes);
                }
            }
            "notifications/subscriptions/acknowledged" if self.take_acknowledgement(server, &frame) => {}
            "notifications/subscriptions/acknowledged" => {
                server.cover(signals::honoured(&frame));
                // What changed before this was not announced.
                server.unheard_lists(&ListKind::ALL);
            }
            "notifications/resources/updated" => {
                server.meters.update();
                if let Some(uri) = frame.param_str(&["uri"]) {
                    self.resource_changed(key, &uri);
                }
            }
            // The token names the call; without one, the call is over.
            "notifications/progress" => self.in_flight.give_progress(key, frame),
            "notifications/message" => {
                let Some(frame) = self.in_flight.give_to_sole(key, frame) else { return };
                match owner {
                    Some(session) if session.wants(log_level(&frame), None) => session.sink.push(frame.into_bytes()),
                    Some(_) => {}
                    None if server.may_log(self, EXCERPT.min(frame.bytes().len())) => {
                        tracing::info!(target: "tidings::server", server = %server.plan.name, "{}", excerpt(&frame));
                    }
                    None => {}
                }
            }
            "notifications/elicitation/complete" if owner.is_none() => {}
            _ => {
                let Some(frame) = self.in_flight.give_to_sole(key, frame) else { return };
                for session in owner.map_or_else(|| self.may_hear(server, key), |owner| vec![owner]) {
                    session.sink.push(frame.bytes().clone());
                }
            }
        }
    }

    /// Who may hear a notification that names no call: it may be about the work of anybody who has called over the link.
    fn may_hear(&self, server: &Server, key: LinkKey) -> Vec<Arc<Session>> {
        let callers = self.in_flight.lock().calls.callers_on(key);
        let is_theirs = |session: &&Arc<Session>| match &callers {
            LinkCallers::Nobody => true,
            LinkCallers::One(principal) => session.principal.name == *principal,
            LinkCallers::Several => false,
        };
        if callers == LinkCallers::Several {
            tracing::debug!(server = %server.plan.name, "notification dropped: it may be about anybody's call");
        }
        let permitted = |session: &&Arc<Session>| session.principal.may_use(server);
        self.sessions().values().filter(is_theirs).filter(permitted).cloned().collect()
    }

    fn only_session(&self) -> Option<Arc<Session>> {
        if !self.has_only_client() {
            return None;
        }
        self.sessions().values().next().cloned()
    }

    /// Puts a server's question to its owner, or refuses it in the owner's place.
    #[allow(clippy::too_many_arguments)]
    pub(crate) fn ask(
        self: &Arc<Self>,
        owner: Option<&Arc<Session>>,
        server: &Server,
        key: LinkKey,
        link: &SharedLink,
        call: Option<CallId>,
        frame: &Frame,
        deliver: &mut dyn FnMut(&Session, Bytes),
    ) {
        let Some(id) = frame.id() else { return };
        let method = frame.method().into_owned();
        if method == "ping" {
            return link.send(response(&id, b"{}"));
        }
        let url_mode = frame.param_str(&["mode"]).is_some_and(|mode| mode == "url");
        let able = owner.filter(|session| {
            capabilities::client_can(&session.capabilities, &method, url_mode)
                && (method != "elicitation/create" || session.revision >= Revision::V2025_06_18)
                && (!url_mode || session.revision >= Revision::V2025_11_25)
        });
        let Some(session) = able else {
            let abandoned = self.in_flight.lock().calls.ghosts_on(key);
            if server.may_log(self, method.len()) {
                tracing::warn!(server = %server.plan.name, %method, abandoned, "question refused: nobody is known who could answer it");
            }
            return link.send(refusal(&id, &method));
        };
        let named = (self.passthrough != Some(server.id)).then_some(server.plan.name.as_str());
        let shown = self.in_flight.mint();
        let Some(bytes) = question(frame, shown, session.revision, named) else {
            return link.send(refusal(&id, &method));
        };
        let ask = ServerRequest { client: session.key, link: key, id: id.clone(), call, method: method.clone() };
        let opened = {
            let mut state = self.in_flight.lock();
            !session.silent.load(Ordering::Relaxed) && state.server_requests.open(shown, ask)
        };
        if opened {
            deliver(session, bytes);
        } else {
            link.send(refusal(&id, &method));
        }
    }

    /// The server withdraws a question: takes it out, and gives the notification as its client knows it.
    pub(crate) fn take_withdrawn(&self, key: LinkKey, frame: &Frame) -> Option<(ServerRequest, Bytes)> {
        let span = frame.param(&["requestId"])?;
        let id = RawId::from_raw(frame.raw(span))?;
        let (shown, ask) = self.in_flight.lock().server_requests.withdraw(key, &id)?;
        let mut patch = Patch::new();
        patch.replace(span, shown.to_string());
        Some((ask, patch.apply(frame.bytes())))
    }

    /// Sends outside of any call.
    pub(crate) fn push_to(&self, client: ClientKey, message: Bytes) {
        let session = self.sessions().get(&client).cloned();
        if let Some(session) = session {
            session.sink.push(message);
        }
    }

    /// The client need not answer any more.
    pub(crate) fn withdraw_from_client(&self, shown: u64, ask: &ServerRequest) {
        let params = format!("{{\"requestId\":{shown}}}");
        self.push_to(ask.client, notification("notifications/cancelled", Some(params.as_bytes())));
    }

    /// The client is gone: the server must not wait for it.
    pub(crate) fn refuse_server_request(&self, ask: &ServerRequest) {
        if let Some(link) = self.link(ask.link) {
            link.send(refusal(&ask.id, &ask.method));
        }
    }
}

/// The refusal that each kind of question has.
pub(crate) fn refusal(id: &RawId, method: &str) -> Bytes {
    match method {
        "elicitation/create" => response(id, br#"{"action":"cancel"}"#),
        _ => {
            let text = format!("no client of this gateway can answer {method} here");
            error_response(Some(id), code::METHOD_NOT_FOUND, &text, None)
        }
    }
}

/// The level of a log message.
pub(crate) fn log_level(frame: &Frame) -> Option<LogLevel> {
    frame.param_str(&["level"]).and_then(|level| LogLevel::parse(&level))
}

fn excerpt(frame: &Frame) -> String {
    let raw = frame.params().map(|span| frame.raw(span)).unwrap_or_default();
    String::from_utf8_lossy(&raw[..raw.len().min(EXCERPT)]).into_owned()
}

/// A question in the client's terms; `None` when its revision can not express it.
fn question(frame: &Frame, shown: u64, revision: Revision, server: Option<&str>) -> Option<Bytes> {
    let bytes = frame.bytes();
    let mut patch = Patch::new();
    patch.replace(frame.id_span()?, shown.to_string());
    if let Some(params) = frame.params() {
        let mut edit = ObjectEdit::new(bytes, params);
        match &*frame.method() {
            // Through a gateway `thisServer` would mean all of them.
            "sampling/createMessage" if edit.get("includeContext").is_some() => {
                edit.set("includeContext", "\"none\"");
            }
            "elicitation/create" => {
                if let (Some(server), Some(text)) = (server, edit.get("message").and_then(|at| string_at(bytes, at))) {
                    edit.set("message", encode_string(&format!("[{server}] {text}")));
                }
                if revision < Revision::V2025_11_25 {
                    edit.remove("mode");
                    if let Some(schema) = edit.get("requestedSchema") {
                        edit.set("requestedSchema", early_schema(schema.of(bytes))?);
                    }
                }
            }
            _ => {}
        }
        edit.finish(&mut patch);
    }
    Some(patch.apply(bytes))
}

/// A form for 2025-06-18: titled choices in its own spelling, no multiple choice. The schema is passed as it is when
/// it has neither.
fn early_schema(raw: &[u8]) -> Option<Vec<u8>> {
    let mut schema: Value = serde_json::from_slice(raw).ok()?;
    let mut changed = false;
    for property in schema.get_mut("properties")?.as_object_mut()?.values_mut() {
        let property = property.as_object_mut()?;
        if property.get("type").is_some_and(|kind| kind == "array") {
            return None;
        }
        if let Some(Value::Array(choices)) = property.remove("oneOf") {
            let pick =
                |name: &str| choices.iter().map(|c| c.get(name).cloned().unwrap_or_default()).collect::<Vec<_>>();
            property.insert("enumNames".into(), pick("title").into());
            property.insert("enum".into(), pick("const").into());
            changed = true;
        }
    }
    Some(if changed { schema.to_string().into_bytes() } else { raw.to_vec() })
}

/// The session that owns a call, if it has one.
pub(crate) fn owner_of(caller: &Caller) -> Option<&Arc<Session>> {
    match caller {
        Caller::Legacy(session) => Some(session),
        Caller::Modern(_) => None,
    }
}
