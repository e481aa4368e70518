//! What servers ask of clients, and the clients' answers.

use std::sync::Arc;

use bytes::Bytes;
use tidings_hub::LinkKey;
use tidings_hub::calls::CallId;
use tidings_hub::server_requests::ServerRequest;
use tidings_proto::question::{self, Needs, Unable};
use tidings_proto::{MessageSubject, ServerMessage, task};
use tidings_upstream::SharedLink;
use tidings_wire::{Frame, Patch, RawId, response};

use crate::call::RequestRouter;
use crate::client::session::{Caller, Session};
use crate::servers::server::Server;

impl RequestRouter {
    /// A client's answer to a question of a server.
    pub(crate) fn answer(&self, session: &Session, frame: &Frame) {
        // An answer without an id can be to nothing.
        let Some(id) = frame.id() else { return };
        let ask = self.links.in_flight.question_answered(session.key, &id);
        let Some(ask) = ask else {
            if self.drives.answer(session.key, &id, frame) {
                return;
            }
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
        let unanswered = self.links.in_flight.client_silent(session.key, &session.progress.silent);
        for (_, ask) in &unanswered {
            self.links.refuse_server_request(ask);
        }
        self.drives.client_silent(session.key);
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
        let Some(session) = owner else {
            // Named in the warning, because calls that were given up are the usual reason that no owner is known.
            let abandoned = self.links.in_flight.lock().calls.ghosts_on(key);
            if server.may_log(&self.runtime, method.len()) {
                tracing::warn!(
                    server = %server.plan.name, %method, abandoned,
                    "question refused: nobody is known who could answer it; `isolation = \"session\"` gives each session a connection of its own"
                );
            }
            return link.send(question::refusal(&id, &method, None));
        };
        let refused = |unable: Unable| {
            if server.may_log(&self.runtime, method.len()) {
                let (server, revision, lacks) = (&server.plan.name, session.revision, unable.capability);
                tracing::warn!(%server, %method, %revision, lacks, "question refused: its client can not be asked this");
            }
            link.send(question::refusal(&id, &method, Some(unable)));
        };
        if let Err(unable) = session.abilities().allow(Needs::of_frame(message)) {
            return refused(unable);
        }
        let alone = self.pool.is_passthrough(&session.principal, server);
        let named = (!alone).then_some(server.plan.name.as_str());
        let shown = self.links.in_flight.mint();
        let bytes = match question::to_session(message, shown, session.revision, named) {
            Ok(bytes) if task::related(message).is_some() => {
                self.related_outward(server, session, &bytes).unwrap_or(bytes)
            }
            Ok(bytes) => bytes,
            // The client's revision has no words for it, so the server has to do without.
            Err(unable) => return refused(unable),
        };
        let ask = ServerRequest { client: session.key, link: key, id: id.clone(), call, method: method.clone() };
        if self.links.in_flight.ask(shown, ask, &session.progress.silent) {
            deliver(session, bytes);
        } else {
            // A client whose input has ended can not answer: the server is told so at once and does not wait.
            link.send(question::refusal(&id, &method, None));
        }
    }

    /// The server withdraws a question: takes it out, and gives the notification as its client knows it.
    pub(crate) fn take_withdrawn(&self, key: LinkKey, frame: &Frame) -> Option<(ServerRequest, Bytes)> {
        let span = frame.param(&["requestId"])?;
        let id = RawId::from_raw(frame.raw(span))?;
        let (shown, ask) = self.links.in_flight.question_withdrawn(key, &id)?;
        let mut patch = Patch::new();
        patch.replace(span, shown.to_string());
        Some((ask, patch.apply(frame.bytes())))
    }
}

/// The session that owns a call, if it has one.
pub(crate) fn owner_of(caller: &Caller) -> Option<&Arc<Session>> {
    match caller {
        Caller::Legacy(session) => Some(session),
        Caller::Modern(_) => None,
    }
}
