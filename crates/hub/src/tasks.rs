//! Tasks that servers work on for clients: whose each is, what was last heard of it, and how long that is remembered.
//!
//! A task lives at its server; a client names it by an id that says which server that is, so a task that is forgotten here can
//! still be asked for. What is lost with it is its place in the list of its principal, the word that it changed, and a cancellation
//! that its server did not take note of. So bounds are kept by forgetting: first what is over, then what is oldest. A task whose
//! outcome is kept here goes after the others that are over: nobody else may have it.
//!
//! A status that is terminal is never left, whatever a server says later, and a task that its client cancelled stays cancelled.
//!
//! Not here: how an id is sealed, and who asks servers (`engine/call/tasks.rs`).

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tidings_proto::task::{TaskFacts, TaskSpelling, TaskStatus};
use tidings_wire::RawId;

use crate::calls::CallId;
use crate::{ClientKey, ServerId};

/// A task, as its server calls it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TaskKey {
    /// Who works on it.
    pub server: ServerId,
    /// Its id there.
    pub id: Arc<str>,
}

impl TaskKey {
    /// The task of a server with this id.
    pub fn new(server: ServerId, id: &str) -> Self {
        Self { server, id: id.into() }
    }
}

/// Who can be asked about a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TaskHome {
    /// The server that works on it, in the words that it knows.
    Server(TaskSpelling),
    /// The gateway alone: the server had answered at once, and its client had asked for a task.
    Gateway,
}

/// Whose a task is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskOwner {
    /// Who may see it.
    pub principal: Arc<str>,
    /// The client that is told when it changes.
    pub client: ClientKey,
    /// The call that made it: progress names it by this, also after the call was answered.
    pub call: CallId,
    /// What that client calls the call in progress, if it wants any.
    pub token: Option<RawId>,
    /// Where the task is.
    pub home: TaskHome,
}

/// Bounds on what is known of tasks.
#[derive(Clone, Copy, Debug)]
pub struct TaskLimits {
    /// Of one principal.
    pub per_principal: usize,
    /// Altogether.
    pub total: usize,
    /// Bytes of outcomes that are kept, altogether.
    pub kept_bytes: usize,
    /// How long a task is known at most, whatever its server says.
    pub longest: Duration,
}

impl Default for TaskLimits {
    fn default() -> Self {
        Self { per_principal: 1_024, total: 16_384, kept_bytes: 64 << 20, longest: Duration::from_secs(24 * 60 * 60) }
    }
}

/// What is known of one task.
#[derive(Clone, Debug)]
struct KnownTask {
    owner: TaskOwner,
    facts: TaskFacts,
    /// Its client cancelled it.
    latched: bool,
    until: Instant,
    place: u64,
    kept: Option<Bytes>,
    /// The request of a client that waits for its outcome.
    awaited: Option<CallId>,
}

/// What was heard of a task, after what is known already was taken into account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObservedTask {
    /// As clients may be told it.
    pub facts: TaskFacts,
    /// Whether that differs from what was known before.
    pub changed: bool,
    /// Whether the server said something else.
    pub overruled: bool,
}

/// An entry of the list of a principal's tasks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedTask {
    /// What its server calls it.
    pub key: TaskKey,
    /// Who can be asked about it.
    pub home: TaskHome,
    /// What was last heard of it.
    pub facts: TaskFacts,
}

/// A page of the list of a principal's tasks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskPage {
    /// In the order in which they were made.
    pub tasks: Vec<ListedTask>,
    /// Behind which place the next page begins, if there is one.
    pub next: Option<u64>,
}

/// The tasks that are known.
#[derive(Debug)]
pub struct TaskTable {
    limits: TaskLimits,
    known: HashMap<TaskKey, KnownTask>,
    /// By principal and age.
    places: HashMap<Arc<str>, BTreeMap<u64, TaskKey>>,
    /// By the calls that made them, while they may tell of progress.
    calls: HashMap<CallId, TaskKey>,
    /// By the end of their time.
    due: BTreeMap<(Instant, u64), TaskKey>,
    next_place: u64,
    kept_bytes: usize,
}

impl TaskTable {
    /// An empty table with these bounds.
    pub fn new(limits: TaskLimits) -> Self {
        let (known, places, calls, due) = Default::default();
        Self { limits, known, places, calls, due, next_place: 0, kept_bytes: 0 }
    }

    /// How many tasks are known.
    pub fn len(&self) -> usize {
        self.known.len()
    }

    /// Whether no task is known.
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// How many bytes of outcomes are kept.
    pub const fn kept_bytes(&self) -> usize {
        self.kept_bytes
    }

    /// A server made a task of a call. A server that gives one id twice has given up the task that had it.
    pub fn created(&mut self, key: TaskKey, owner: TaskOwner, facts: TaskFacts, now: Instant) {
        self.expire(now);
        self.forget(&key);
        let of_principal = self.places.get(&owner.principal).map_or(0, BTreeMap::len);
        if of_principal >= self.limits.per_principal {
            self.forget_one_of(&Arc::clone(&owner.principal));
        } else if self.known.len() >= self.limits.total {
            self.forget_one();
        }
        let place = self.next_place;
        self.next_place += 1;
        let ttl = facts.ttl.map_or(self.limits.longest, Duration::from_millis).min(self.limits.longest);
        self.places.entry(Arc::clone(&owner.principal)).or_default().insert(place, key.clone());
        if owner.token.is_some() && !facts.status.is_terminal() {
            self.calls.insert(owner.call, key.clone());
        }
        let until = now + ttl;
        // With the place, because several may end at the same moment.
        self.due.insert((until, place), key.clone());
        self.known.insert(key, KnownTask { owner, facts, latched: false, until, place, kept: None, awaited: None });
    }

    /// A server told of a task. `None` when that is not known here: then what the server says is all there is.
    pub fn observed(&mut self, key: &TaskKey, facts: TaskFacts, now: Instant) -> Option<ObservedTask> {
        self.expire(now);
        let known = self.known.get_mut(key)?;
        let before = &known.facts;
        // A cancelled task stays so; an outcome that was told once is not taken back.
        let overruled = before.status.is_terminal() && facts.status != before.status;
        if overruled {
            return Some(ObservedTask { facts: before.clone(), changed: false, overruled });
        }
        let changed = (before.status, &before.message) != (facts.status, &facts.message);
        known.facts = facts;
        let facts = known.facts.clone();
        if facts.status.is_terminal() {
            let call = known.owner.call;
            self.calls.remove(&call);
        }
        Some(ObservedTask { facts, changed, overruled })
    }

    /// Its client cancelled it, and is told that it is cancelled from now on. `None` when it is not known; a task that was over
    /// before stays what it was.
    pub fn cancelled(&mut self, key: &TaskKey, now: Instant) -> Option<TaskFacts> {
        self.expire(now);
        let known = self.known.get_mut(key)?;
        if !known.facts.status.is_terminal() {
            known.facts.status = TaskStatus::Cancelled;
            known.latched = true;
            let call = known.owner.call;
            self.calls.remove(&call);
        }
        self.known.get(key).map(|known| known.facts.clone())
    }

    /// Whether its client cancelled it, whatever its server says.
    pub fn is_latched(&self, key: &TaskKey) -> bool {
        self.known.get(key).is_some_and(|known| known.latched)
    }

    /// Keeps the outcome of a task that its server does not keep, until the task's time is over. Tells whether there is room.
    pub fn keep(&mut self, key: &TaskKey, outcome: Bytes, now: Instant) -> bool {
        self.expire(now);
        if self.known.get(key).is_none_or(|known| known.kept.is_some()) {
            return false;
        }
        if self.kept_bytes.saturating_add(outcome.len()) > self.limits.kept_bytes {
            return false;
        }
        self.kept_bytes += outcome.len();
        if let Some(known) = self.known.get_mut(key) {
            known.kept = Some(outcome);
        }
        true
    }

    /// What was last heard of a task.
    pub fn facts(&self, key: &TaskKey, now: Instant) -> Option<&TaskFacts> {
        self.known.get(key).filter(|known| now < known.until).map(|known| &known.facts)
    }

    /// The outcome that is kept here.
    pub fn kept(&self, key: &TaskKey, now: Instant) -> Option<&Bytes> {
        self.known.get(key).filter(|known| now < known.until)?.kept.as_ref()
    }

    /// Whose a task is.
    pub fn owner(&self, key: &TaskKey) -> Option<&TaskOwner> {
        self.known.get(key).map(|known| &known.owner)
    }

    /// The task that progress of this call is about.
    pub fn progress_of(&self, call: CallId) -> Option<(&TaskKey, &TaskOwner)> {
        let key = self.calls.get(&call)?;
        Some((key, self.owner(key)?))
    }

    /// A request waits for the outcome: what the server asks for the task goes there.
    pub fn awaited(&mut self, key: &TaskKey, call: CallId) {
        if let Some(known) = self.known.get_mut(key) {
            known.awaited = Some(call);
        }
    }

    /// The request that began to wait for the outcome last. It may be over.
    pub fn awaited_by(&self, key: &TaskKey) -> Option<CallId> {
        self.known.get(key)?.awaited
    }

    /// The tasks of a principal that are behind a place, oldest first.
    pub fn list(&mut self, principal: &str, after: Option<u64>, most: usize, now: Instant) -> TaskPage {
        self.expire(now);
        let Some(places) = self.places.get(principal) else { return TaskPage::default() };
        let from = after.map_or(0, |after| after.saturating_add(1));
        let mut found = places.range(from..).filter_map(|(place, key)| Some((*place, key, self.known.get(key)?)));
        let page: Vec<_> = found.by_ref().take(most).collect();
        // One more is looked for: a page that is full may still be the last.
        let next = page.last().map(|(place, ..)| *place).filter(|_| found.next().is_some());
        let listed = |key: &TaskKey, known: &KnownTask| ListedTask {
            key: key.clone(),
            home: known.owner.home,
            facts: known.facts.clone(),
        };
        let tasks = page.into_iter().map(|(_, key, known)| listed(key, known)).collect();
        TaskPage { tasks, next }
    }

    /// Forgets what belongs to a server that is not there any more.
    pub fn server_gone(&mut self, server: ServerId) {
        let gone: Vec<TaskKey> = self.known.keys().filter(|key| key.server == server).cloned().collect();
        for key in gone {
            self.forget(&key);
        }
    }

    fn expire(&mut self, now: Instant) {
        while let Some((_, key)) = self.due.first_key_value().filter(|((until, _), _)| *until <= now) {
            let key = key.clone();
            self.forget(&key);
        }
    }

    /// Makes room for another task of a principal.
    fn forget_one_of(&mut self, principal: &Arc<str>) {
        let Some(places) = self.places.get(principal) else { return };
        let is_over = |key: &&TaskKey| self.known.get(*key).is_some_and(|known| known.facts.status.is_terminal());
        let has_kept = |key: &&TaskKey| self.known.get(*key).is_some_and(|known| known.kept.is_some());
        let elsewhere = places.values().find(|key| is_over(key) && !has_kept(key));
        let over = elsewhere.or_else(|| places.values().find(is_over));
        if let Some(key) = over.or_else(|| places.values().next()).cloned() {
            self.forget(&key);
        }
    }

    /// Makes room: whoever has the most gives.
    fn forget_one(&mut self) {
        let most =
            self.places.iter().max_by_key(|(_, places)| places.len()).map(|(principal, _)| Arc::clone(principal));
        if let Some(principal) = most {
            self.forget_one_of(&principal);
        }
    }

    /// Nothing is known of a task any more.
    pub fn forget(&mut self, key: &TaskKey) {
        let Some(known) = self.known.remove(key) else { return };
        self.due.remove(&(known.until, known.place));
        self.kept_bytes -= known.kept.map_or(0, |kept| kept.len());
        if self.calls.get(&known.owner.call) == Some(key) {
            self.calls.remove(&known.owner.call);
        }
        if let Some(places) = self.places.get_mut(&known.owner.principal) {
            places.remove(&known.place);
            if places.is_empty() {
                self.places.remove(&known.owner.principal);
            }
        }
    }
}
