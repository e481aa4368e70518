//! The links there are and what is in flight over them, together: what ends on one side is told on the other.

use std::sync::Arc;

use bytes::Bytes;
use tidings_hub::ClientKey;
use tidings_hub::server_requests::ServerRequest;
use tidings_proto::notifications;
use tidings_wire::{RawId, notification};

use crate::client::sessions::SessionTable;
use crate::links::in_flight::{Ended, InFlight};
use crate::links::link_table::LinkTable;
use crate::runtime::EngineRuntime;

pub(crate) struct OpenLinks {
    pub(super) runtime: Arc<EngineRuntime>,
    pub(super) sessions: Arc<SessionTable>,
    pub(crate) in_flight: InFlight,
    pub(crate) table: LinkTable,
}

impl OpenLinks {
    pub(crate) fn new(runtime: Arc<EngineRuntime>, sessions: Arc<SessionTable>) -> Self {
        Self { in_flight: InFlight::new(runtime.settings.limits), runtime, sessions, table: LinkTable::new() }
    }

    /// Tells the server that a call is no longer wanted.
    pub(crate) fn abandon(&self, call: u64, ended: &Ended, reason: Option<&str>) {
        // A cancellation of what was never sent would name an id that the server does not know.
        if let Some(link) = self.table.get(ended.call.link).filter(|_| ended.sent) {
            link.cancel(call, reason);
        }
        for (shown, ask) in &ended.moot {
            self.withdraw_from_client(*shown, ask);
            // Whoever asked may wait for this before it heeds the cancellation.
            self.refuse_server_request(ask);
        }
    }

    /// A client is gone: what it had in flight is given up, what it was asked is refused.
    pub(crate) fn client_gone(&self, client: ClientKey) {
        let gone = self.in_flight.client_gone(client);
        for (call, ended) in &gone.calls {
            self.abandon(call.0, ended, Some("the client is gone"));
        }
        for (_, ask) in &gone.unanswered {
            self.refuse_server_request(ask);
        }
    }

    /// The client need not answer any more.
    pub(crate) fn withdraw_from_client(&self, shown: u64, ask: &ServerRequest) {
        let params = format!("{{\"requestId\":{shown}}}");
        self.sessions.push_to(ask.client, notification(notifications::CANCELLED, Some(params.as_bytes())));
    }

    /// The client is gone: the server must not wait for it.
    pub(crate) fn refuse_server_request(&self, ask: &ServerRequest) {
        if let Some(link) = self.table.get(ask.link) {
            link.send(refusal(&ask.id, &ask.method));
        }
    }
}

/// The refusal that each kind of question has.
pub(crate) fn refusal(id: &RawId, method: &str) -> Bytes {
    tidings_proto::question::refusal(id, method, None)
}
