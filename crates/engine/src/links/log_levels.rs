//! Which log messages are asked of servers: the least level that anybody wants who may use the server.

use bytes::Bytes;
use tidings_proto::{Era, LogLevel, Method};
use tidings_upstream::OutgoingRequest;
use tidings_wire::{RawId, request};

use crate::client::session::Session;
use crate::links::live_link::{LinkUser, LiveLink};
use crate::links::open_links::OpenLinks;

impl OpenLinks {
    /// The least level that anybody wants, told to every legacy server that logs and that they may use.
    pub(crate) fn update_level(&self) {
        let wanted = self.sessions.wanted_levels();
        // Nobody wants a level any more: a legacy server can not be told that, so it stays as it is.
        if wanted.is_empty() {
            return;
        }
        for (live, user) in self.table.all().into_iter().filter(|(_, user)| !matches!(user, LinkUser::Session(_))) {
            let level = match user.person() {
                Some(person) => self.sessions.level_of_principal(person),
                None => live.leads_to.least(&wanted),
            };
            self.tell_level(&live, level, &user);
        }
    }

    /// A modern request wants log messages of a legacy server: the level of its link can only be lowered, for all who use it.
    pub(crate) fn want_level(&self, live: &LiveLink, level: LogLevel) {
        if live.told.get().is_none_or(|told| level < told) {
            self.tell_level(live, Some(level), &LinkUser::Everybody);
        }
    }

    /// A session wants another level: its own links are told that, all others the least that anybody wants.
    pub(crate) fn session_level_changed(&self, session: &Session) {
        for (live, user) in self.table.all() {
            if user.session().is_some_and(|owner| owner.key == session.key) {
                self.apply_level(&live, &user);
            }
        }
        self.update_level();
    }

    /// Tells a legacy server the level that is wanted over a link.
    pub(crate) fn apply_level(&self, live: &LiveLink, user: &LinkUser) {
        let level = match user {
            LinkUser::Session(_) => user.session().and_then(|session| session.level()),
            LinkUser::Person(name) => self.sessions.level_of_principal(name),
            LinkUser::Everybody | LinkUser::Principal(_) => live.leads_to.least(&self.sessions.wanted_levels()),
        };
        self.tell_level(live, level, user);
    }

    fn tell_level(&self, live: &LiveLink, level: Option<LogLevel>, user: &LinkUser) {
        let Some(level) = level else { return };
        // Known also where the server is told nothing: messages are filtered by it.
        let is_new = live.told.set(level) || matches!(user, LinkUser::Session(_));
        let logs = tidings_proto::capabilities::declares(&live.hello.capabilities, "logging");
        if !is_new || !logs || live.hello.revision.era() != Era::Legacy {
            return;
        }
        let id = self.in_flight.mint();
        let params = format!("{{\"level\":\"{}\"}}", level.as_str());
        let bytes: Bytes = request(&RawId::from(id), Method::SetLevel.as_str(), Some(params.as_bytes()));
        let call = live.link.call(OutgoingRequest {
            id,
            method: Method::SetLevel,
            bytes,
            name: None,
            params: Vec::new(),
            trace: None,
        });
        let limit = self.runtime.settings.waits.silence;
        self.runtime.spawn(async move {
            // Not heeded: a server that refuses the level logs what it likes, and messages are filtered anyway.
            let _ = tokio::time::timeout(limit, call.answer()).await;
        });
    }
}
