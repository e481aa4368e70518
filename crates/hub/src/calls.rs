//! Requests in flight: our ids upstream, theirs downstream.
//!
//! A call leaves the table exactly once, by its answer, its cancellation, its deadline or the loss of its link;
//! whoever takes it out decides the outcome, and everybody who comes later finds nothing.

use std::collections::{BTreeSet, HashMap};
use std::time::{Duration, Instant};

use tidings_wire::RawId;

use crate::{ClientKey, IdMap, LinkKey};

/// The id of a request upstream, and its progress token. Never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId(pub u64);

/// Bounds of the table.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Calls in flight for one client.
    pub per_client: usize,
    /// Calls in flight altogether.
    pub total: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { per_client: 1_024, total: 65_536 }
    }
}

/// A request that is about to be sent.
#[derive(Clone, Debug)]
pub struct NewCall {
    /// Who asks.
    pub client: ClientKey,
    /// The client's id, where the client can name the call by it.
    pub id: Option<RawId>,
    /// Where it goes.
    pub link: LinkKey,
    /// The client's progress token.
    pub token: Option<RawId>,
    /// How long it may stay silent.
    pub timeout: Duration,
    /// How long it may run, progress or not.
    pub max_timeout: Duration,
}

/// A request in flight.
#[derive(Clone, Debug)]
pub struct Call {
    /// Who asked.
    pub client: ClientKey,
    /// The client's id, where the client can name the call by it.
    pub id: Option<RawId>,
    /// Where it runs.
    pub link: LinkKey,
    /// The client's progress token.
    pub token: Option<RawId>,
    /// When it is given up.
    pub deadline: Instant,
    timeout: Duration,
    last_moment: Instant,
    progress: Option<f64>,
}

/// Why a request can not be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BeginError {
    /// The client has a request with this id in flight.
    #[error("a request with this id is already in flight")]
    DuplicateId,
    /// A bound is reached.
    #[error("too many requests in flight ({limit})")]
    TooMany {
        /// Which one.
        limit: usize,
    },
}

/// The table of calls.
#[derive(Debug, Default)]
pub struct Calls {
    limits: Limits,
    next: u64,
    calls: IdMap<CallId, Call>,
    by_client_id: HashMap<(ClientKey, RawId), CallId>,
    per_client: IdMap<ClientKey, usize>,
    by_link: IdMap<LinkKey, BTreeSet<CallId>>,
}

impl Calls {
    /// An empty table whose ids begin at `first`.
    pub fn new(limits: Limits, first: u64) -> Self {
        Self { limits, next: first, ..Self::default() }
    }

    /// An id for something the gateway itself asks, from the same sequence.
    pub fn mint(&mut self) -> CallId {
        let id = CallId(self.next);
        self.next += 1;
        id
    }

    /// Registers a request. This comes before its bytes are written, so that no answer can overtake it.
    pub fn begin(&mut self, call: NewCall, now: Instant) -> Result<CallId, BeginError> {
        if call.id.as_ref().is_some_and(|id| self.find(call.client, id).is_some()) {
            return Err(BeginError::DuplicateId);
        }
        if self.per_client.get(&call.client).is_some_and(|count| *count >= self.limits.per_client) {
            return Err(BeginError::TooMany { limit: self.limits.per_client });
        }
        if self.calls.len() >= self.limits.total {
            return Err(BeginError::TooMany { limit: self.limits.total });
        }
        let id = self.mint();
        if let Some(theirs) = &call.id {
            self.by_client_id.insert((call.client, theirs.clone()), id);
        }
        *self.per_client.entry(call.client).or_default() += 1;
        self.by_link.entry(call.link).or_default().insert(id);
        let last_moment = now + call.max_timeout;
        self.calls.insert(
            id,
            Call {
                client: call.client,
                id: call.id,
                link: call.link,
                token: call.token,
                deadline: (now + call.timeout).min(last_moment),
                timeout: call.timeout,
                last_moment,
                progress: None,
            },
        );
        Ok(id)
    }

    /// Takes a call out: it was answered, lost or given up. `None` when somebody else was first.
    pub fn finish(&mut self, id: CallId) -> Option<Call> {
        let call = self.calls.remove(&id)?;
        if let Some(theirs) = &call.id {
            self.by_client_id.remove(&(call.client, theirs.clone()));
        }
        if let Some(count) = self.per_client.get_mut(&call.client) {
            *count -= 1;
            if *count == 0 {
                self.per_client.remove(&call.client);
            }
        }
        if let Some(ids) = self.by_link.get_mut(&call.link) {
            ids.remove(&id);
            if ids.is_empty() {
                self.by_link.remove(&call.link);
            }
        }
        Some(call)
    }

    /// The call a client means by its own id.
    pub fn find(&self, client: ClientKey, id: &RawId) -> Option<CallId> {
        self.by_client_id.get(&(client, id.clone())).copied()
    }

    /// Takes out the call that a client cancels.
    pub fn cancel(&mut self, client: ClientKey, id: &RawId) -> Option<(CallId, Call)> {
        let found = self.find(client, id)?;
        Some((found, self.finish(found)?))
    }

    /// Takes out everything a client has in flight.
    pub fn client_gone(&mut self, client: ClientKey) -> Vec<(CallId, Call)> {
        if !self.per_client.contains_key(&client) {
            return Vec::new();
        }
        let owned = self.calls.iter().filter(|(_, call)| call.client == client);
        let ids: Vec<CallId> = owned.map(|(id, _)| *id).collect();
        ids.into_iter().filter_map(|id| Some((id, self.finish(id)?))).collect()
    }

    /// How many calls a client has in flight.
    pub fn count_of(&self, client: ClientKey) -> usize {
        self.per_client.get(&client).copied().unwrap_or(0)
    }

    /// A call in flight.
    pub fn get(&self, id: CallId) -> Option<&Call> {
        self.calls.get(&id)
    }

    /// Progress was made: the token to deliver it under, if it is owed to the client, and the new deadline.
    /// Values must rise; what does not rise is not delivered but still shows that the server is alive.
    pub fn progress(&mut self, id: CallId, value: f64, now: Instant) -> Option<RawId> {
        let call = self.calls.get_mut(&id)?;
        call.deadline = (now + call.timeout).min(call.last_moment);
        if call.progress.is_some_and(|last| value.partial_cmp(&last) != Some(std::cmp::Ordering::Greater)) {
            return None;
        }
        call.progress = Some(value);
        call.token.clone()
    }

    /// The only call on a link, if there is exactly one: only then is it known whose a server's message is.
    pub fn sole_on(&self, link: LinkKey) -> Option<CallId> {
        let ids = self.by_link.get(&link)?;
        if ids.len() == 1 { ids.first().copied() } else { None }
    }

    /// Everything in flight on a link.
    pub fn on(&self, link: LinkKey) -> impl Iterator<Item = CallId> {
        self.by_link.get(&link).into_iter().flatten().copied()
    }

    /// How many calls are in flight.
    pub fn len(&self) -> usize {
        self.calls.len()
    }

    /// Whether nothing is in flight.
    pub fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }
}
