//! Which log messages are asked of servers: the least level that anybody wants.

use bytes::Bytes;
use tidings_proto::{Era, LogLevel, Method};
use tidings_upstream::OutgoingRequest;
use tidings_wire::{RawId, request};

use crate::client::session::Session;
use crate::links::live_link::{LinkUser, LiveLink};
use crate::links::open_links::OpenLinks;

impl OpenLinks {
    /// The least level anybody wants, told to every legacy server that logs.
    pub(crate) fn update_level(&self) {
        self.lower_or_set(self.sessions.least_level(), true);
    }

    /// A modern request wants log messages of a legacy server: its level can only be lowered for all.
    pub(crate) fn want_level(&self, level: LogLevel) {
        self.lower_or_set(Some(level), false);
    }

    /// What links that several use were told.
    pub(crate) fn shared_level(&self) -> Option<LogLevel> {
        *self.shared_level.lock()
    }

    fn lower_or_set(&self, level: Option<LogLevel>, may_raise: bool) {
        {
            let mut current = self.shared_level.lock();
            let lower = current.is_none_or(|now| level.is_some_and(|level| level < now));
            // Nobody wants a level any more: a legacy server can not be told that, so it stays as it is.
            if level.is_none() || *current == level || !(may_raise || lower) {
                return;
            }
            *current = level;
        }
        for (live, user) in self.table.all() {
            if !matches!(user, LinkUser::Session(_)) {
                self.apply_level(&live, &user);
            }
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
            LinkUser::Everybody | LinkUser::Principal => self.shared_level(),
        };
        let logs = tidings_proto::capabilities::declares(&live.hello.capabilities, "logging");
        let Some(level) = level.filter(|_| logs && live.hello.revision.era() == Era::Legacy) else { return };
        let id = self.in_flight.mint();
        let params = format!("{{\"level\":\"{}\"}}", level.as_str());
        let bytes: Bytes = request(&RawId::from(id), Method::SetLevel.as_str(), Some(params.as_bytes()));
        let call =
            live.link.call(OutgoingRequest { id, method: Method::SetLevel, bytes, name: None, params: Vec::new() });
        let limit = self.runtime.settings.timeout;
        self.runtime.spawn(async move {
            // Not heeded: a server that refuses the level logs what it likes, and messages are filtered anyway.
            let _ = tokio::time::timeout(limit, call.answer()).await;
        });
    }
}
