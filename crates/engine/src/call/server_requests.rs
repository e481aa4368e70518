//! What servers ask of clients, and the clients' answers.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use serde_json::Value;
use tidings_hub::LinkKey;
use tidings_hub::calls::CallId;
use tidings_hub::server_requests::ServerRequest;
use tidings_proto::{MessageSubject, Revision, ServerMessage, capabilities};
use tidings_upstream::SharedLink;
use tidings_wire::{Frame, ObjectEdit, Patch, RawId, encode_string, response, string_at};

use crate::call::RequestRouter;
use crate::client::session::{Caller, Session};
use crate::links::open_links::refusal;
use crate::servers::server::Server;

impl RequestRouter {
    /// A client's answer to a question of a server.
    pub(crate) fn answer(&self, session: &Session, frame: &Frame) {
        // An answer without an id can be to nothing.
        let Some(id) = frame.id() else { return };
        let ask = self.links.in_flight.lock().server_requests.answer(session.key, &id);
        let Some(ask) = ask else {
            tracing::debug!(%id, "answer to no question");
            return;
        };
        // The link may be gone; its server asks again over the next one if it still wants to know.
        if let Some(link) = self.links.table.get(ask.link) {
            link.send(tidings_proto::outcome::answer_of_client(frame, &ask.id));
        }
    }

    /// The session's client can be reached but says nothing any more: what it was asked is refused in its place.
    pub(crate) fn no_more_answers(&self, session: &Session) {
        let unanswered = {
            let mut state = self.links.in_flight.lock();
            // Under the same lock as the questions: one that is opened beside this either sees the flag or is taken out
            // here.
            session.silent.store(true, Ordering::Relaxed);
            state.server_requests.client_gone(session.key)
        };
        for (_, ask) in &unanswered {
            self.links.refuse_server_request(ask);
        }
    }

    /// Puts a server's question to its owner, or refuses it in the owner's place.
    #[allow(clippy::too_many_arguments)]
    pub(crate) fn ask(
        &self,
        owner: Option<&Arc<Session>>,
        server: &Server,
        key: LinkKey,
        link: &SharedLink,
        call: Option<CallId>,
        message: &ServerMessage,
        deliver: &mut dyn FnMut(&Session, Bytes),
    ) {
        let Some(id) = message.id() else { return };
        if message.subject() == MessageSubject::Ping {
            // Answered by the gateway itself: it is about the link, not about any client.
            return link.send(response(&id, b"{}"));
        }
        let method = message.method().into_owned();
        let url_mode = message.param_str(&["mode"]).is_some_and(|mode| mode == "url");
        let able = owner.filter(|session| {
            capabilities::client_can(&session.capabilities, &method, url_mode)
                && (method != "elicitation/create" || session.revision.has_elicitation())
                && (!url_mode || session.revision.has_url_elicitation())
        });
        let Some(session) = able else {
            // Named in the warning, because calls that were given up are the usual reason that no owner is known.
            let abandoned = self.links.in_flight.lock().calls.ghosts_on(key);
            if server.may_log(&self.runtime, method.len()) {
                tracing::warn!(server = %server.plan.name, %method, abandoned, "question refused: nobody is known who could answer it");
            }
            return link.send(refusal(&id, &method));
        };
        let named = (self.pool.passthrough != Some(server.id)).then_some(server.plan.name.as_str());
        let shown = self.links.in_flight.mint();
        let Some(bytes) = question(message, shown, session.revision, named) else {
            // The client's revision has no words for it, so the server has to do without.
            return link.send(refusal(&id, &method));
        };
        let ask = ServerRequest { client: session.key, link: key, id: id.clone(), call, method: method.clone() };
        let opened = {
            let mut state = self.links.in_flight.lock();
            // A client whose input has ended can not answer: the server is told so at once and does not wait.
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
        let (shown, ask) = self.links.in_flight.lock().server_requests.withdraw(key, &id)?;
        let mut patch = Patch::new();
        patch.replace(span, shown.to_string());
        Some((ask, patch.apply(frame.bytes())))
    }
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
                if !revision.has_url_elicitation() {
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
        // A choice of several can not be asked in that revision; leaving it out would ask for less than the server
        // needs.
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
