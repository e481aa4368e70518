//! What is said outside of any call: by servers, on no stream of a call; by clients, as notifications.

use std::sync::Arc;

use bytes::Bytes;
use tidings_hub::LinkKey;
use tidings_hub::calls::LinkCallers;
use tidings_proto::{Era, ListKind, LogLevel, MessageSubject, ServerMessage, notifications};
use tidings_upstream::SharedLink;
use tidings_wire::Frame;

use crate::call::RequestRouter;
use crate::client::session::Session;
use crate::discovery::signals;
use crate::links::live_link::{LinkUser, LiveLink};
use crate::servers::server::Server;
use crate::subscriptions::ServerMessages;

/// How many bytes of a message are logged.
const EXCERPT: usize = 500;

impl ServerMessages for RequestRouter {
    fn heard(&self, server: &Arc<Server>, live: &LiveLink, message: ServerMessage) {
        // What is said over the link of one session or person is for nobody else. Of a link that is gone nobody knows whose it was.
        let Some(user) = self.links.table.user(live.key) else { return };
        if let MessageSubject::ListChanged(_) = message.subject() {
            self.discovery.view_over_is_old(&user, server.id);
        }
        self.unowned(server, live.key, &live.link, &user, message);
    }
}

impl RequestRouter {
    /// A notification of a legacy client that is neither a cancellation nor an answer.
    pub(crate) fn notify(&self, session: &Arc<Session>, frame: &Frame) {
        let method = frame.method();
        match &*method {
            notifications::INITIALIZED => self.notifier.initialized(session),
            notifications::ROOTS_CHANGED => {
                self.forward_to_all(frame.bytes());
                self.pool.own_links.roots_changed(session.key, frame.bytes());
            }
            // With one server there is nobody else that an unknown notification could be meant for.
            _ if self.pool.has_passthrough(&session.principal) => self.forward_to_all(frame.bytes()),
            other => tracing::debug!(method = other, "notification dropped"),
        }
    }

    /// Every link belongs to this client when it is the only one there will ever be.
    fn forward_to_all(&self, message: &Bytes) {
        // With several clients the roots of one must not be told on a link that serves all.
        if self.sessions.only_client().is_none() {
            return;
        }
        for server in self.pool.servers().iter() {
            if let Some(live) = server.live().filter(|live| live.hello.revision.era() == Era::Legacy) {
                live.link.send(message.clone());
            }
        }
    }

    /// A message of a server that came on no stream of a call. `user`: who has the link.
    pub(crate) fn unowned(
        &self,
        server: &Arc<Server>,
        key: LinkKey,
        link: &SharedLink,
        user: &LinkUser,
        message: ServerMessage,
    ) {
        let subject = message.subject();
        let came_past_owner = || self.links.table.watch(key).is_some_and(|watch| server.leads_past_owner(&watch));
        if server.is_elsewhere() && is_for_owner(&message) && came_past_owner() {
            // Said to this replica, which called it itself. Who runs it looks at its lists, and has who follows its resources.
            if let Some(fleet) = &self.runtime.fleet {
                fleet.tell_owner(&server.plan.name, message.bytes().clone());
            }
            return;
        }
        // On stdio there is one session, so it is certain whose a message is.
        let owner = user.session().or_else(|| self.sessions.only_session());
        let about_lists = matches!(subject, MessageSubject::ListChanged(_) | MessageSubject::Acknowledged);
        if !server.presence.is_admitted() && !subject.is_request() && !about_lists {
            // Nobody knows of it yet, and perhaps nobody ever will.
            return;
        }
        // A queue that drops by its own rule: nobody waits for a client here.
        let push = &mut |session: &Session, bytes| session.sink.push(bytes);
        match subject {
            MessageSubject::Ping => self.ask(owner.as_ref(), server, key, link, None, &message, push),
            MessageSubject::Question => {
                // A question that names its task has an owner, whatever else is in flight.
                let Ok((asker, message)) = self.asker_of_task(server, message) else { return };
                if asker.is_some() {
                    return self.ask(asker.as_ref(), server, key, link, None, &message, push);
                }
                // Some servers ask on their standalone stream what they need for a call.
                let Some(message) = self.links.in_flight.give_to_sole(key, message) else { return };
                self.ask(owner.as_ref(), server, key, link, None, &message, push);
            }
            // What a server says to one person is about what that person sees, which is looked at over the same link.
            MessageSubject::ListChanged(_) if user.person().is_some() => {}
            MessageSubject::ListChanged(topic) => server.signalled(topic, self.runtime.telemetry.as_deref()),
            MessageSubject::Cancelled => {
                if let Some((ask, bytes)) = self.take_withdrawn(key, &message) {
                    self.sessions.push_to(ask.client, bytes);
                } else if !self.parks.withdraw(key, &message) && !self.withdraw_from_task(key, &message) {
                    // It may be about a question that its call has not shown yet.
                    self.links.in_flight.give_to_sole(key, message);
                }
            }
            MessageSubject::Acknowledged if self.subscriptions.take_acknowledgement(server, &message) => {}
            // Nor is what it agreed to announce to one person announced to everybody.
            MessageSubject::Acknowledged if user.person().is_some() => {}
            MessageSubject::Acknowledged => {
                server.cover(signals::honoured(&message));
                // What changed before this was not announced.
                server.unheard_lists(&ListKind::ALL);
            }
            MessageSubject::Updated => {
                server.meters.update();
                if let Some(uri) = message.param_str(&["uri"]) {
                    self.subscriptions.resource_changed(key, &uri);
                }
            }
            // The token names the call; without one, the call is over.
            MessageSubject::Progress => {
                if let Some(message) = self.links.in_flight.give_progress(key, message) {
                    self.task_progress(server, message);
                }
            }
            MessageSubject::TaskStatus => self.task_status(server, &message),
            MessageSubject::Log => {
                let Some(message) = self.links.in_flight.give_to_sole(key, message) else { return };
                match owner {
                    Some(session)
                        if session.wants(log_level(&message), None) && self.pool.shows(&session.principal, server) =>
                    {
                        session.sink.push(message.into_frame().into_bytes());
                    }
                    Some(_) => {}
                    None if user.person().is_some() => self.log_to_person(server, user, &message),
                    None if server.may_log(&self.runtime, EXCERPT.min(message.bytes().len())) => {
                        tracing::info!(target: "tidings::server", server = %server.plan.name, "{}", excerpt(&message));
                    }
                    None => {}
                }
            }
            MessageSubject::ElicitationComplete if owner.is_none() => {}
            MessageSubject::ElicitationComplete | MessageSubject::Other => {
                let Some(message) = self.links.in_flight.give_to_sole(key, message) else { return };
                for session in owner.map_or_else(|| self.may_hear(server, key, user), |owner| vec![owner]) {
                    session.sink.push(message.bytes().clone());
                }
            }
        }
    }

    /// A log message on the link of one person that belongs to no call: all their sessions may read it.
    fn log_to_person(&self, server: &Server, user: &LinkUser, message: &ServerMessage) {
        let sessions = user.person().map(|person| self.sessions.of_principal(person)).unwrap_or_default();
        let wanting = sessions.iter().filter(|session| session.wants(log_level(message), None));
        for session in wanting.filter(|session| self.pool.shows(&session.principal, server)) {
            session.sink.push(message.bytes().clone());
        }
    }

    /// Who may hear a notification that names no call: it may be about the work of anybody who has called over the link.
    fn may_hear(&self, server: &Server, key: LinkKey, user: &LinkUser) -> Vec<Arc<Session>> {
        let callers = self.links.in_flight.lock().calls.callers_on(key);
        let is_theirs = |session: &Arc<Session>| match &callers {
            // Nobody else has ever called over it.
            _ if user.person().is_some_and(|person| session.principal.name != *person) => false,
            LinkCallers::Nobody => true,
            LinkCallers::One(principal) => session.principal.name == *principal,
            // Sent to nobody rather than to somebody it is not about.
            LinkCallers::Several => false,
        };
        if callers == LinkCallers::Several {
            tracing::debug!(server = %server.plan.name, "notification dropped: it may be about anybody's call");
        }
        let permitted = |session: &Arc<Session>| self.pool.shows(&session.principal, server);
        self.sessions.all().into_iter().filter(is_theirs).filter(permitted).collect()
    }
}

/// Whether the replica that runs a server has to hear this, whoever heard it.
pub(crate) fn is_for_owner(message: &ServerMessage) -> bool {
    matches!(message.subject(), MessageSubject::ListChanged(_) | MessageSubject::Updated)
}

/// The level of a log message.
pub(crate) fn log_level(frame: &Frame) -> Option<LogLevel> {
    frame.param_str(&["level"]).and_then(|level| LogLevel::parse(&level))
}

fn excerpt(frame: &Frame) -> String {
    let raw = frame.params().map(|span| frame.raw(span)).unwrap_or_default();
    String::from_utf8_lossy(&raw[..raw.len().min(EXCERPT)]).into_owned()
}
