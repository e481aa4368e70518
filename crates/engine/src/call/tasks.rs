//! Tasks of clients: the table of those that are known, their ids, and what servers say about them outside of calls.
//!
//! The rules are the hub's ([`tidings_hub::tasks`]). What a client asks about its tasks is `exchange/tasks.rs`; a task that the gateway
//! follows in the place of a client that knows none is `exchange/followed_task.rs`.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, MutexGuard};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::future::join_all;
use serde_json::json;
use tidings_hub::ServerId;
use tidings_hub::calls::CallId;
use tidings_hub::task_questions::{TaskQuestionLimits, TaskQuestions};
use tidings_hub::tasks::{ListedTask, TaskHome, TaskKey, TaskLimits, TaskTable};
use tidings_proto::outcome::ClientAnswer;
use tidings_proto::refusal::RequestRefusal;
use tidings_proto::task::{self, RELATED, TaskFacts, TaskSpelling};
use tidings_proto::{Era, MessageSubject, Method, ServerMessage, TaskMethod, capabilities, notifications};
use tidings_sync::Lock;
use tidings_wire::{Frame, FrameLimits, Patch, RawId, encode_string, string_at};
use tokio::sync::Notify;

use crate::call::RequestRouter;
use crate::call::task_ids::TaskIdSealer;
use crate::client::session::{Caller, Session};
use crate::links::in_flight::Waiter;
use crate::links::live_link::LiveLink;
use crate::plan::seal_key::SealKey;
use crate::servers::server::Server;

/// How many tasks a page of `tasks/list` has.
const PAGE: usize = 50;
/// How long servers are asked how far the tasks of a page are. Then what is known is told.
const LIST_WAIT: Duration = Duration::from_secs(2);
/// How long a server may take to hear that a task is not wanted any more.
const CANCEL_WAIT: Duration = Duration::from_secs(30);

/// Where a task is that a server of 2025-11-25 works on.
const CORE: TaskHome = TaskHome::Server(TaskSpelling::Core);

/// Never held across an await, and no other lock is taken under it.
pub(crate) struct TaskRoom {
    ids: TaskIdSealer,
    state: Lock<TaskState>,
    /// Rings when the questions of some task are others than before.
    pub(crate) changed: Notify,
}

pub(crate) struct TaskState {
    pub(crate) table: TaskTable,
    /// What servers ask in tasks whose clients answer there.
    pub(crate) questions: TaskQuestions,
    /// Who listens to a task. As many as listens name.
    pub(crate) watchers: HashMap<TaskKey, Vec<Arc<TaskBell>>>,
    /// Tasks that the gateway follows itself. As many as there are calls that wait for them.
    followed: HashMap<TaskKey, Followed>,
    followed_calls: HashMap<CallId, TaskKey>,
    /// Progress of tasks whose clients have no way to hear of it.
    pub(crate) dropped_progress: u64,
}

/// Rings for a listen that names tasks.
#[derive(Default)]
pub(crate) struct TaskBell {
    pub(crate) rung: Notify,
    /// The tasks that it rang for.
    pub(crate) tasks: Lock<HashSet<TaskKey>>,
}

struct Followed {
    waiter: Arc<Waiter>,
    /// The request for its outcome, once that was sent.
    awaited: Option<CallId>,
}

impl TaskRoom {
    pub(crate) fn new(key: &SealKey) -> Self {
        let (followed, followed_calls, watchers) = Default::default();
        let table = TaskTable::new(TaskLimits::default());
        let questions = TaskQuestions::new(TaskQuestionLimits::default());
        let state = TaskState { table, questions, watchers, followed, followed_calls, dropped_progress: 0 };
        Self { ids: TaskIdSealer::new(key), state: Lock::new(state), changed: Notify::new() }
    }

    pub(crate) const fn ids(&self) -> &TaskIdSealer {
        &self.ids
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, TaskState> {
        self.state.lock()
    }

    /// The request that waits for the outcome of a task, by the word of the server. It may be over.
    pub(crate) fn awaited_by(&self, server: ServerId, id: &str) -> Option<CallId> {
        let (key, state) = (TaskKey::new(server, id), self.lock());
        state.followed.get(&key).map_or_else(|| state.table.awaited_by(&key), |followed| followed.awaited)
    }

    /// From now on what is said about a task rings this bell. `call`: the one that made it, by which progress names it.
    pub(crate) fn follow(&self, key: &TaskKey, call: CallId, waiter: &Arc<Waiter>) {
        let mut state = self.lock();
        state.followed.insert(key.clone(), Followed { waiter: Arc::clone(waiter), awaited: None });
        state.followed_calls.insert(call, key.clone());
    }

    pub(crate) fn outcome_awaited(&self, key: &TaskKey, call: CallId) {
        let mut state = self.lock();
        match state.followed.get_mut(key) {
            Some(followed) => followed.awaited = Some(call),
            None => state.table.awaited(key, call),
        }
    }

    pub(crate) fn unfollow(&self, key: &TaskKey, call: CallId) {
        let mut state = self.lock();
        if state.followed_calls.remove(&call).is_some() {
            state.followed.remove(key);
        }
    }

    /// Gives a message about a task to whoever follows it. Gives it back when nobody does.
    fn give(&self, key: &TaskKey, message: ServerMessage) -> Option<ServerMessage> {
        let followed = {
            let state = self.lock();
            state.followed.get(key).map(|followed| (Arc::clone(&followed.waiter), followed.awaited.is_some()))
        };
        match followed {
            // Whoever waits for the outcome will have it; only a question can not wait for that.
            Some((_, true)) if message.subject() != MessageSubject::Question => None,
            // More than it can hold is dropped: how far the task is will be asked for.
            Some((waiter, _)) => waiter.give(message).and(None),
            None => Some(message),
        }
    }
}

impl TaskState {
    /// From now on whoever holds the request for the outcome of a task gets what is asked for it.
    pub(crate) fn hold(&mut self, key: &TaskKey, waiter: &Arc<Waiter>) {
        self.followed.insert(key.clone(), Followed { waiter: Arc::clone(waiter), awaited: None });
    }

    pub(crate) fn let_go(&mut self, key: &TaskKey) {
        self.followed.remove(key);
    }

    /// A server says that something of a task changed.
    fn ring(&self, key: &TaskKey) {
        for bell in self.watchers.get(key).into_iter().flatten() {
            bell.tasks.lock().insert(key.clone());
            bell.rung.notify_one();
        }
    }
}

impl RequestRouter {
    /// The id under which a principal knows a task.
    pub(crate) fn shown_task(&self, server: &Server, id: &str, home: TaskHome, principal: &str) -> String {
        self.tasks.ids.seal(&server.plan.name, id, home, principal)
    }

    /// Whether some server that the caller may use runs calls as tasks.
    fn has_tasks(&self, caller: &Caller) -> bool {
        let catalogue = self.catalogue.current();
        self.pool.servers().iter().filter(|server| caller.principal().may_use(&server.plan)).any(|server| {
            let hello = catalogue.server(server.id).and_then(|status| status.hello.as_ref());
            hello.is_some_and(|hello| task::declares_any(&hello.capabilities))
        })
    }

    /// Refuses who can not know of tasks.
    pub(crate) fn check_tasks(&self, caller: &Caller, frame: &Frame) -> Result<(), RequestRefusal> {
        let unknown = || Err(RequestRefusal::UnknownMethod(frame.method().into_owned()));
        match caller {
            Caller::Legacy(session) if !session.revision.has_execution() => unknown(),
            // A session was told once what there is, perhaps before the servers were there.
            _ if !self.has_tasks(caller) && !self.catalogue.starting() => unknown(),
            Caller::Modern(_) if !task::declares_extension(&caller.capabilities(frame)) => {
                Err(RequestRefusal::TasksUndeclared)
            }
            Caller::Legacy(_) | Caller::Modern(_) => Ok(()),
        }
    }

    /// Answers `tasks/list`: the principal's own tasks. Those that are not over are asked for, because what was heard last may be old.
    pub(crate) async fn list_tasks(
        &self,
        caller: &Caller,
        frame: &Frame,
        id: &RawId,
    ) -> Result<ClientAnswer, RequestRefusal> {
        let after = match frame.param(&["cursor"]) {
            None => None,
            Some(at) => {
                let cursor = string_at(frame.bytes(), at).and_then(|text| text.parse::<u64>().ok());
                Some(cursor.ok_or(RequestRefusal::InvalidCursor)?)
            }
        };
        let principal = &caller.principal().name;
        let page = self.tasks.lock().table.list(principal, after, PAGE, Instant::now());
        let told = join_all(page.tasks.into_iter().map(|task| self.task_now(caller, frame, task))).await;
        let tasks: Vec<String> = told.into_iter().flatten().collect();
        let next = page.next.map(|next| format!(r#","nextCursor":"{next}""#)).unwrap_or_default();
        let result = format!(r#"{{"tasks":[{}]{next}}}"#, tasks.join(","));
        Ok(ClientAnswer::result(id, result.as_bytes()))
    }

    /// A task as an entry of the list; `None` when its server is not there for the caller any more.
    async fn task_now(&self, caller: &Caller, request: &Frame, task: ListedTask) -> Option<String> {
        let ListedTask { key, home, mut facts } = task;
        let server = self.pool.server(key.server).filter(|server| caller.principal().may_use(&server.plan))?;
        let asked = async {
            let TaskHome::Server(spelling) = home else { return None };
            let live = self.pool.link_for(caller, request, &server).await.ok()?;
            if TaskSpelling::of(live.hello.revision.era()) != spelling {
                return None;
            }
            let outgoing = self.own_task_request(&live, TaskMethod::Get, &key.id);
            let frame = live.link.call(outgoing).answer().await.ok()?;
            Some((TaskFacts::told(&frame, spelling)?, frame))
        };
        // What is over may be called otherwise in the extension, which only its own words tell.
        let is_certain = facts.status.is_terminal() && home != TaskHome::Server(TaskSpelling::Extension);
        if !is_certain
            && let Ok(Some((said, frame))) = tokio::time::timeout(LIST_WAIT, asked).await
            && let Some(observed) = self.tasks.lock().table.observed(&key, said, Instant::now())
        {
            facts = task::as_core(observed.facts, &frame);
        }
        let shown = self.shown_task(&server, &key.id, home, &caller.principal().name);
        Some(format!("{{{}}}", facts.members(&shown, TaskSpelling::Core)))
    }

    /// A request about a task in the gateway's own name.
    pub(crate) fn own_task_request(
        &self,
        live: &LiveLink,
        which: TaskMethod,
        id: &str,
    ) -> tidings_upstream::OutgoingRequest {
        self.links.own_request(&live.hello, Method::Task(which), json!({ "taskId": id }))
    }

    /// Nobody wants a task any more. Its server is told in a task of its own: whoever gave it up does not wait for that.
    pub(crate) fn cancel_task(self: &Arc<Self>, server: &Arc<Server>, live: &LiveLink, id: &str) {
        let declared = &live.hello.capabilities;
        // In the core a server may have no way to hear it.
        let can = live.hello.revision.era() == Era::Modern
            || declared.get("tasks").is_some_and(|tasks| capabilities::declares(tasks, "cancel"));
        if !can {
            return;
        }
        let (router, server, live, id) = (Arc::clone(self), Arc::clone(server), live.clone(), id.to_owned());
        self.runtime.spawn(async move {
            let live = match router.links.table.has(live.key) {
                true => live,
                false => match router.pool.live_link(&server).await {
                    Ok(live) => live,
                    Err(_) => return,
                },
            };
            let outgoing = router.own_task_request(&live, TaskMethod::Cancel, &id);
            let told = live.link.call(outgoing).answer();
            tokio::select! {
                _ = tokio::time::timeout(CANCEL_WAIT, told) => {}
                () = router.runtime.stop.cancelled() => {}
            }
        });
    }

    /// A server says how far a task is.
    pub(crate) fn task_status(&self, server: &Server, message: &ServerMessage) {
        let Some(id) = message.param_str(&["taskId"]) else { return };
        let key = TaskKey::new(server.id, &id);
        self.tasks.lock().ring(&key);
        let Some(message) = self.tasks.give(&key, message.clone()) else { return };
        // Modern clients are told on a listen, which names the tasks; this is the word of the core.
        if !message.has_method(notifications::TASK_STATUS) {
            return;
        }
        let said = message.params().and_then(|at| TaskFacts::read(message.bytes(), at, TaskSpelling::Core));
        let Some(said) = said else { return };
        let told = {
            let mut state = self.tasks.lock();
            let observed = state.table.observed(&key, said, Instant::now());
            observed.filter(|observed| !observed.overruled).and_then(|_| state.table.owner(&key).cloned())
        };
        let Some(owner) = told else { return };
        let session = self.sessions.get(owner.client).filter(|session| session.principal.name == owner.principal);
        let Some(session) = session else { return };
        let Some(params) = message.params() else { return };
        let shown = self.shown_task(server, &key.id, CORE, &owner.principal);
        let mut patch = Patch::new();
        let mut edit = message.edit(params);
        edit.set("taskId", encode_string(&shown));
        edit.finish(&mut patch);
        session.sink.push(patch.apply(message.bytes()));
    }

    /// Progress of a call that was answered with a task: the server goes on to tell of it by the same token.
    pub(crate) fn task_progress(&self, server: &Server, message: ServerMessage) {
        let Some(at) = message.param(&["progressToken"]) else { return };
        let Some(call) = RawId::from_raw(message.raw(at)).and_then(|token| token.as_u64()).map(CallId) else { return };
        let (key, owner) = {
            let state = self.tasks.lock();
            match (state.followed_calls.get(&call), state.table.progress_of(call)) {
                (Some(key), _) => (key.clone(), None),
                (None, Some((key, owner))) => (key.clone(), Some(owner.clone())),
                (None, None) => return,
            }
        };
        // A token is a small number: a server must not reach the calls of others by guessing.
        if key.server != server.id {
            return;
        }
        let Some(owner) = owner else {
            self.tasks.give(&key, message);
            return;
        };
        let session = self.sessions.get(owner.client).filter(|session| session.principal.name == owner.principal);
        let (Some(session), Some(token)) = (session, owner.token) else {
            self.tasks.lock().dropped_progress += 1;
            return;
        };
        let mut patch = Patch::new();
        patch.replace(at, token.as_str().to_owned());
        let bytes = patch.apply(message.bytes());
        session.sink.push(self.related_outward(server, &session, &bytes).unwrap_or(bytes));
    }

    /// The session whose task a question is about, where nobody waits for the outcome at the moment. A task that the gateway follows
    /// gets the question itself.
    pub(crate) fn asker_of_task(
        &self,
        server: &Server,
        message: ServerMessage,
    ) -> Result<(Option<Arc<Session>>, ServerMessage), ()> {
        let Some(id) = task::related(&message) else { return Ok((None, message)) };
        let key = TaskKey::new(server.id, &id);
        let Some(message) = self.tasks.give(&key, message.clone()) else { return Err(()) };
        let owner = self.tasks.lock().table.owner(&key).cloned();
        let session = owner.and_then(|owner| {
            self.sessions.get(owner.client).filter(|session| session.principal.name == owner.principal)
        });
        Ok((session, message))
    }

    /// A message that says which task it belongs to, in words that a session knows; `None` when it says nothing of the kind.
    pub(crate) fn related_outward(&self, server: &Server, session: &Session, message: &Bytes) -> Option<Bytes> {
        let limits = FrameLimits { max_bytes: message.len(), max_depth: 1_024, ..FrameLimits::default() };
        let frame = Frame::parse(message.clone(), &limits).ok()?;
        let id = task::related(&frame)?;
        let mut patch = Patch::new();
        let mut meta = frame.edit(frame.param(&["_meta"])?);
        let is_followed = self.tasks.lock().followed.contains_key(&TaskKey::new(server.id, &id));
        // Of a task that is followed in its place a client knows nothing.
        if session.revision.has_execution() && !is_followed {
            let shown = self.shown_task(server, &id, CORE, &session.principal.name);
            meta.set(RELATED, format!(r#"{{"taskId":{}}}"#, encode_string(&shown)));
        } else {
            meta.remove(RELATED);
        }
        meta.finish(&mut patch);
        Some(patch.apply(frame.bytes()))
    }
}
