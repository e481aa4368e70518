//! Requests in flight: our ids upstream, theirs downstream.
//!
//! A call leaves the table exactly once, by its answer, its cancellation, its deadline or the loss of its link;
//! whoever takes it out decides the outcome, and everybody who comes later finds nothing. A call that was given up while
//! its server may still work on it leaves a ghost behind ([`CallTable::leave_ghost`]): nobody waits for it, but what the
//! server says beside the streams of calls may still be about it.

mod ghosts;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tidings_wire::RawId;

use crate::{ClientKey, IdMap, LinkKey};
use ghosts::GhostCalls;

/// The id of a request upstream, and its progress token. Never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId(pub u64);

/// How many calls are tracked at a time. A request beyond a bound is refused before anything of it is sent.
#[derive(Clone, Copy, Debug)]
pub struct CallLimits {
    /// Calls in flight for one client.
    pub per_client: usize,
    /// Calls in flight altogether.
    pub total: usize,
    /// Abandoned calls that are remembered for one link. Beyond it the link has no certain owner until it ends.
    pub ghosts_per_link: usize,
}

impl Default for CallLimits {
    fn default() -> Self {
        Self { per_client: 1_024, total: 65_536, ghosts_per_link: 4_096 }
    }
}

/// A request that is about to be sent.
#[derive(Clone, Debug)]
pub struct NewCall {
    /// The client that is to have the answer.
    pub client: ClientKey,
    /// The client's id, where the client can name the call by it.
    pub id: Option<RawId>,
    /// Whose client that is.
    pub principal: Arc<str>,
    /// The link that the request is written to.
    pub link: LinkKey,
    /// Whether the server can speak about it outside a stream that is the call's alone: then it leaves a ghost behind
    /// when it is given up.
    pub heard_beside: bool,
    /// The client's progress token.
    pub token: Option<RawId>,
    /// How long it may stay silent.
    pub timeout: Duration,
    /// How long it may run, progress or not.
    pub max_timeout: Duration,
    /// The round before it, where the client's request takes several calls.
    pub after: Option<CallHistory>,
}

/// What one round of a client's request leaves to the next.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CallHistory {
    /// When the client's request is given up, however many rounds it takes.
    pub last_moment: Instant,
    /// The progress that its client was told of.
    pub progress: Option<f64>,
}

/// A request in flight.
#[derive(Clone, Debug)]
pub struct TrackedCall {
    /// The client that is to have the answer.
    pub client: ClientKey,
    /// The client's id, where the client can name the call by it.
    pub id: Option<RawId>,
    /// The link that the request was written to.
    pub link: LinkKey,
    /// The client's progress token.
    pub token: Option<RawId>,
    /// When it is given up.
    pub deadline: Instant,
    /// Whether its client was asked something: meanwhile progress does not move the deadline.
    is_held: bool,
    heard_beside: bool,
    timeout: Duration,
    last_moment: Instant,
    progress: Option<f64>,
}

impl TrackedCall {
    /// For the next round of the same request.
    pub fn history(&self) -> CallHistory {
        CallHistory { last_moment: self.last_moment, progress: self.progress }
    }
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
        /// The bound that was reached.
        limit: usize,
    },
}

/// Whose calls a link has ever carried.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum LinkCallers {
    /// Nobody has called yet.
    #[default]
    Nobody,
    /// All calls were this principal's.
    One(Arc<str>),
    /// Different principals have called.
    Several,
}

impl LinkCallers {
    fn add(&mut self, principal: &Arc<str>) {
        match self {
            Self::Nobody => *self = Self::One(Arc::clone(principal)),
            // The pointer first: calls of one client share the name, and this runs for every call.
            Self::One(known) if Arc::ptr_eq(known, principal) || known == principal => {}
            // For good: what the server says by itself may be about any of them.
            Self::One(_) => *self = Self::Several,
            Self::Several => {}
        }
    }
}

/// What is known of one link.
#[derive(Debug, Default)]
struct LinkCalls {
    /// Between [`CallTable::link_opened`] and [`CallTable::link_gone`]. Only then are ghosts kept: after that nobody would
    /// remove them.
    open: bool,
    running: BTreeSet<CallId>,
    ghosts: GhostCalls,
    callers: LinkCallers,
}

/// What one client has in flight.
#[derive(Debug, Default)]
struct ClientCalls {
    count: usize,
    /// Those that the client can name. In order and not by a hash: clients choose these ids, and a hash that they can not make
    /// collide costs more than the few comparisons.
    named: BTreeMap<RawId, CallId>,
}

/// All calls in flight, found by our id, by the client's id and by link. It has one owner, behind one lock.
#[derive(Debug, Default)]
pub struct CallTable {
    limits: CallLimits,
    next: u64,
    calls: IdMap<CallId, TrackedCall>,
    per_client: IdMap<ClientKey, ClientCalls>,
    by_link: IdMap<LinkKey, LinkCalls>,
}

impl CallTable {
    /// An empty table whose ids begin at `first`.
    pub fn new(limits: CallLimits, first: u64) -> Self {
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
        // Cancellation names calls by the client's id, so two with the same would be one too many.
        if let Some(known) = self.per_client.get(&call.client) {
            if call.id.as_ref().is_some_and(|id| known.named.contains_key(id)) {
                return Err(BeginError::DuplicateId);
            }
            if known.count >= self.limits.per_client {
                return Err(BeginError::TooMany { limit: self.limits.per_client });
            }
        }
        if self.calls.len() >= self.limits.total {
            return Err(BeginError::TooMany { limit: self.limits.total });
        }
        let id = self.mint();
        let of_client = self.per_client.entry(call.client).or_default();
        of_client.count += 1;
        if let Some(theirs) = &call.id {
            of_client.named.insert(theirs.clone(), id);
        }
        // Also after `link_gone`, for whoever found the link just before: that entry is not open, and goes with the
        // call.
        let on_link = self.by_link.entry(call.link).or_default();
        on_link.running.insert(id);
        on_link.callers.add(&call.principal);
        // Progress moves the deadline, never beyond this.
        let last_moment = now + call.max_timeout;
        let last_moment = call.after.map_or(last_moment, |before| before.last_moment.min(last_moment));
        self.calls.insert(
            id,
            TrackedCall {
                client: call.client,
                id: call.id,
                link: call.link,
                token: call.token,
                deadline: (now + call.timeout).min(last_moment),
                is_held: false,
                heard_beside: call.heard_beside,
                timeout: call.timeout,
                last_moment,
                progress: call.after.and_then(|before| before.progress),
            },
        );
        Ok(id)
    }

    /// Takes a call out: it was answered, lost or given up. `None` when somebody else was first.
    pub fn finish(&mut self, id: CallId) -> Option<TrackedCall> {
        let call = self.calls.remove(&id)?;
        if let Some(of_client) = self.per_client.get_mut(&call.client) {
            of_client.count -= 1;
            // With the entry go its names, so the id needs no removal of its own.
            if of_client.count == 0 {
                self.per_client.remove(&call.client);
            } else if let Some(theirs) = &call.id {
                of_client.named.remove(theirs);
            }
        }
        if let Some(on_link) = self.by_link.get_mut(&call.link) {
            on_link.running.remove(&id);
            // `link_gone` came first and left the entry for its last calls.
            if on_link.running.is_empty() && !on_link.open {
                self.by_link.remove(&call.link);
            }
        }
        Some(call)
    }

    /// A call that was taken out was given up after it was sent: its server may still work on it, ask for it or log for
    /// it. Until it is answered or its link ends, nobody else can be taken for the owner of what the server says. Tells
    /// how many ghosts the link has now; `None` when this one needs not be remembered, or can not.
    pub fn leave_ghost(&mut self, id: CallId, call: &TrackedCall) -> Option<usize> {
        let on_link = self.by_link.get_mut(&call.link).filter(|on_link| on_link.open && call.heard_beside)?;
        on_link.ghosts.add(id, call.client, self.limits.ghosts_per_link)
    }

    /// The server has answered a call that nobody waits for any more. Tells whether it was remembered.
    pub fn ghost_answered(&mut self, link: LinkKey, id: CallId) -> bool {
        self.by_link.get_mut(&link).is_some_and(|on_link| on_link.ghosts.remove(id))
    }

    /// Whether an abandoned call is still remembered.
    pub fn has_ghost(&self, link: LinkKey, id: CallId) -> bool {
        self.by_link.get(&link).is_some_and(|on_link| on_link.ghosts.contains(id))
    }

    /// How many abandoned calls of a link are remembered.
    pub fn ghosts_on(&self, link: LinkKey) -> usize {
        self.by_link.get(&link).map_or(0, |on_link| on_link.ghosts.len())
    }

    /// The handshake of a link is over. From now until [`Self::link_gone`] abandoned calls are remembered for it.
    pub fn link_opened(&mut self, link: LinkKey) {
        self.by_link.entry(link).or_default().open = true;
    }

    /// A link is gone, and with it everything that its server still worked on. Calls that run on it are to be taken out
    /// by whoever waits for them.
    pub fn link_gone(&mut self, link: LinkKey) {
        let Some(on_link) = self.by_link.get_mut(&link) else { return };
        on_link.open = false;
        // A new link is a new conversation: nothing of the old calls can be heard on it.
        on_link.ghosts = GhostCalls::default();
        if on_link.running.is_empty() {
            self.by_link.remove(&link);
        }
    }

    /// Whose calls a link has carried so far.
    pub fn callers_on(&self, link: LinkKey) -> LinkCallers {
        self.by_link.get(&link).map(|on_link| on_link.callers.clone()).unwrap_or_default()
    }

    /// The call that a client means by its own id, as in a cancellation; `None` once it is over.
    pub fn find(&self, client: ClientKey, id: &RawId) -> Option<CallId> {
        self.per_client.get(&client)?.named.get(id).copied()
    }

    /// Takes out the call that a client cancels.
    pub fn cancel(&mut self, client: ClientKey, id: &RawId) -> Option<(CallId, TrackedCall)> {
        let found = self.find(client, id)?;
        Some((found, self.finish(found)?))
    }

    /// Takes out everything a client has in flight.
    pub fn client_gone(&mut self, client: ClientKey) -> Vec<(CallId, TrackedCall)> {
        // The common case when a client leaves; the table of all calls is only walked when it has some.
        if !self.per_client.contains_key(&client) {
            return Vec::new();
        }
        let owned = self.calls.iter().filter(|(_, call)| call.client == client);
        let ids: Vec<CallId> = owned.map(|(id, _)| *id).collect();
        ids.into_iter().filter_map(|id| Some((id, self.finish(id)?))).collect()
    }

    /// How many calls a client has in flight.
    pub fn count_of(&self, client: ClientKey) -> usize {
        self.per_client.get(&client).map_or(0, |of_client| of_client.count)
    }

    /// A call that is still in flight; `None` once somebody has taken it out.
    pub fn get(&self, id: CallId) -> Option<&TrackedCall> {
        self.calls.get(&id)
    }

    /// Progress was made: the token to deliver it under, if it is owed to the client, and the new deadline.
    /// Values must rise; what does not rise is not delivered but still shows that the server is alive.
    pub fn progress(&mut self, id: CallId, value: f64, now: Instant) -> Option<RawId> {
        let call = self.calls.get_mut(&id)?;
        // Before the value is looked at: a server that repeats one value is alive all the same.
        if !call.is_held {
            call.deadline = (now + call.timeout).min(call.last_moment);
        }
        // `partial_cmp`, so that NaN does not rise either.
        if call.progress.is_some_and(|last| value.partial_cmp(&last) != Some(std::cmp::Ordering::Greater)) {
            return None;
        }
        call.progress = Some(value);
        call.token.clone()
    }

    /// The server of a call waits for the client: until [`Self::resume`] only the end of all its time ends it. Tells that end.
    pub fn hold(&mut self, id: CallId) -> Option<Instant> {
        let call = self.calls.get_mut(&id)?;
        call.deadline = call.last_moment;
        call.is_held = true;
        Some(call.last_moment)
    }

    /// The server has what it waited for, and has its usual time again.
    pub fn resume(&mut self, id: CallId, now: Instant) {
        if let Some(call) = self.calls.get_mut(&id) {
            call.is_held = false;
            call.deadline = (now + call.timeout).min(call.last_moment);
        }
    }

    /// The client has an answer to its request, though the call goes on: it can not name the call by that id any more, and may
    /// use the id again.
    pub fn release_id(&mut self, id: CallId) {
        let Some(call) = self.calls.get_mut(&id) else { return };
        // Taken out of the call, too: its end must not remove the id when another call has it by then.
        if let (Some(theirs), Some(of_client)) = (call.id.take(), self.per_client.get_mut(&call.client)) {
            of_client.named.remove(&theirs);
        }
    }

    /// The only call on a link, if there is exactly one: only then is it known whose a server's message is. A call that
    /// another client has abandoned counts too, because its server may still be at work on it.
    pub fn sole_on(&self, link: LinkKey) -> Option<CallId> {
        let on_link = self.by_link.get(&link)?;
        // With two calls running, guessing whose it is could show one client what belongs to another.
        let sole = on_link.running.first().copied().filter(|_| on_link.running.len() == 1)?;
        let client = self.calls.get(&sole)?.client;
        on_link.ghosts.are_all_of(client).then_some(sole)
    }

    /// Everything in flight on a link.
    pub fn on(&self, link: LinkKey) -> impl Iterator<Item = CallId> {
        self.by_link.get(&link).into_iter().flat_map(|on_link| on_link.running.iter().copied())
    }

    /// Calls in flight of all clients, without abandoned ones.
    pub fn len(&self) -> usize {
        self.calls.len()
    }

    /// Whether nothing is in flight.
    pub fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }
}
