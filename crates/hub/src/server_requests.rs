//! What servers ask of clients (sampling, elicitation, roots): our ids downstream, theirs upstream.

use std::collections::HashMap;

use tidings_wire::RawId;

use crate::calls::CallId;
use crate::{ClientKey, LinkKey};

/// How many questions one call may have open at a time.
pub const PER_CALL: usize = 64;

/// A question that waits for the client's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerRequest {
    /// The client that the server's request is put to.
    pub client: ClientKey,
    /// Who wants to know.
    pub link: LinkKey,
    /// The id as the server wrote it; the answer goes back under it.
    pub id: RawId,
    /// The call it belongs to; none when the server has only this one client.
    pub call: Option<CallId>,
    /// The method of the server's request.
    pub method: String,
}

/// The table of open questions.
#[derive(Debug, Default)]
pub struct ServerRequests {
    open: HashMap<u64, ServerRequest>,
}

impl ServerRequests {
    /// Registers a question under the id the client will see. `false` when its call has too many open.
    pub fn open(&mut self, shown_id: u64, ask: ServerRequest) -> bool {
        // Questions that belong to no call share one bound per link.
        if self.open.values().filter(|other| other.call == ask.call && other.link == ask.link).count() >= PER_CALL {
            return false;
        }
        self.open.insert(shown_id, ask);
        true
    }

    /// Takes out the question that a client answers. Only the client that was asked may.
    pub fn answer(&mut self, client: ClientKey, id: &RawId) -> Option<ServerRequest> {
        let shown = id.as_u64()?;
        // Ids are consecutive numbers, so another client could guess one.
        if self.open.get(&shown)?.client != client {
            return None;
        }
        self.open.remove(&shown)
    }

    /// Whether the client of a call has a question open, so that the server waits for it and not the other way round.
    pub fn is_asked(&self, call: CallId) -> bool {
        self.open.values().any(|ask| ask.call == Some(call))
    }

    /// The server withdraws a question: the client and the id it knows.
    pub fn withdraw(&mut self, link: LinkKey, id: &RawId) -> Option<(u64, ServerRequest)> {
        // A walk over all: withdrawals are rare, and few questions are open at a time.
        let shown = *self.open.iter().find(|(_, ask)| ask.link == link && ask.id == *id)?.0;
        Some((shown, self.open.remove(&shown)?))
    }

    /// The call is over: its questions are moot.
    pub fn call_over(&mut self, call: CallId) -> Vec<(u64, ServerRequest)> {
        self.take_where(|ask| ask.call == Some(call))
    }

    /// The client is gone: its questions must be answered in its place.
    pub fn client_gone(&mut self, client: ClientKey) -> Vec<(u64, ServerRequest)> {
        self.take_where(|ask| ask.client == client)
    }

    /// The link is gone: nobody waits for these answers.
    pub fn link_gone(&mut self, link: LinkKey) -> Vec<(u64, ServerRequest)> {
        self.take_where(|ask| ask.link == link)
    }

    /// How many are open.
    pub fn len(&self) -> usize {
        self.open.len()
    }

    /// Whether none is open.
    pub fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    fn take_where(&mut self, doomed: impl Fn(&ServerRequest) -> bool) -> Vec<(u64, ServerRequest)> {
        // Nearly every call ends with no question open.
        if self.open.is_empty() {
            return Vec::new();
        }
        self.open.extract_if(|_, ask| doomed(ask)).collect()
    }
}
