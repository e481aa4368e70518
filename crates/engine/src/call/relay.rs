//! Messages of a server that belong to a call, on their way to the caller.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use tidings_hub::LinkKey;
use tidings_hub::calls::CallId;
use tidings_proto::{Era, FieldView, LogLevel, MessageSubject, ServerMessage};
use tidings_upstream::SharedLink;
use tidings_wire::{Frame, Patch, RawId};

use crate::call::RequestRouter;
use crate::call::server_requests::owner_of;
use crate::call::unsolicited::log_level;
use crate::client::person_view::ViewOwner;
use crate::client::session::Caller;
use crate::links::live_link::LinkUser;
use crate::links::told_level::ToldLevel;
use crate::plan::Isolation;
use crate::servers::server::Server;

/// What is known about the call a message belongs to.
pub(crate) struct Relay<'a> {
    pub(crate) router: &'a RequestRouter,
    pub(crate) caller: &'a Caller,
    pub(crate) server: &'a Arc<Server>,
    pub(crate) link: &'a SharedLink,
    pub(crate) key: LinkKey,
    pub(crate) call: CallId,
    /// What the link was told to log.
    pub(crate) told: &'a ToldLevel,
}

impl Relay<'_> {
    /// The message as the caller gets it; `None` when it is not for the caller, or was dealt with here.
    pub(crate) fn message(&self, message: &ServerMessage) -> Option<Bytes> {
        match message.subject() {
            MessageSubject::Ping | MessageSubject::Question => self.question(message),
            MessageSubject::Progress => self.progress(message),
            MessageSubject::Log => {
                self.caller.wants(log_level(message), self.level_of_all()).then(|| message.bytes().clone())
            }
            MessageSubject::Cancelled => self.withdrawal(message),
            MessageSubject::Updated | MessageSubject::TaskStatus => {
                // A notification about a resource or a task concerns everybody who follows it, whichever stream brought it.
                self.router.unowned(self.server, self.key, self.link, &LinkUser::Everybody, message.clone());
                None
            }
            MessageSubject::ListChanged(_) => {
                // The link may serve this session or person only, and then the shared catalogue knows nothing of its lists.
                let discovery = &self.router.discovery;
                match (self.caller, self.server.plan.isolation) {
                    (_, Isolation::Principal) => {
                        let person = discovery.people.of(&self.caller.principal().name);
                        discovery.own_view_is_old(&ViewOwner::Person(person), self.server.id);
                        return None;
                    }
                    (Caller::Legacy(session), Isolation::Session) => {
                        discovery.own_view_is_old(&ViewOwner::Session(Arc::clone(session)), self.server.id);
                    }
                    (Caller::Modern(_), Isolation::Session) | (_, Isolation::Auto) => {}
                }
                self.router.unowned(self.server, self.key, self.link, &LinkUser::Everybody, message.clone());
                None
            }
            // A modern client is asked within the request, so there is nothing that could complete later.
            MessageSubject::ElicitationComplete if self.caller.era() == Era::Modern => None,
            MessageSubject::ElicitationComplete | MessageSubject::Acknowledged | MessageSubject::Other => {
                Some(message.bytes().clone())
            }
        }
    }

    /// What the link was told because of everybody who uses it.
    fn level_of_all(&self) -> Option<LogLevel> {
        let is_own = self.server.plan.isolation == Isolation::Session && self.caller.era() == Era::Legacy;
        if is_own { None } else { self.told.get() }
    }

    fn question(&self, message: &ServerMessage) -> Option<Bytes> {
        // Stays empty where the question is refused in the client's place, or is the gateway's to answer.
        let mut out = None;
        self.router.ask(
            owner_of(self.caller),
            self.server,
            self.key,
            self.link,
            Some(self.call),
            message,
            &mut |_, bytes| out = Some(bytes),
        );
        out
    }

    /// A question of this call is withdrawn where it was asked.
    fn withdrawal(&self, frame: &Frame) -> Option<Bytes> {
        let (ask, bytes) = self.router.take_withdrawn(self.key, frame)?;
        if ask.call == Some(self.call) {
            return Some(bytes);
        }
        // Asked by another call of the same link: it is withdrawn where it was shown.
        self.router.sessions.push_to(ask.client, bytes);
        None
    }

    fn progress(&self, frame: &Frame) -> Option<Bytes> {
        let token_span = frame.param(&["progressToken"])?;
        // Our token is the id of the call; a server that uses another one is talking about another call.
        if RawId::from_raw(frame.raw(token_span))?.as_u64() != Some(self.call.0) {
            return None;
        }
        let value = std::str::from_utf8(frame.raw(frame.param(&["progress"])?)).ok()?.parse::<f64>().ok()?;
        let token = self.router.links.in_flight.lock().calls.progress(self.call, value, Instant::now())?;
        let mut patch = Patch::new();
        let mut edit = frame.edit(frame.params()?);
        edit.set("progressToken", token.as_str().to_owned());
        // Older revisions do not have the member, and strict clients refuse what they do not know.
        if self.router.runtime.settings.view == FieldView::Strict && !self.caller.revision().has_progress_text() {
            edit.remove("message");
        }
        edit.finish(&mut patch);
        Some(patch.apply(frame.bytes()))
    }
}
