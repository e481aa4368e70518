//! A client that knows one kind of tasks and a server that knows the other: handles, what is told of them, and their outcomes.
//!
//! Of a server of 2025-11-25 the outcome comes from `tasks/result`, which also is where it asks: that request is held open by the
//! gateway (`held_outcome.rs`) once the server says that it wants to know something. Of a server with the extension it comes from
//! `tasks/get`, which is repeated while a client waits in `tasks/result` (`followed_task.rs`).

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use tidings_hub::tasks::{TaskHome, TaskKey, TaskOwner};
use tidings_proto::outcome::ClientAnswer;
use tidings_proto::refusal::RequestRefusal;
use tidings_proto::task::{self, TaskFacts, TaskInside, TaskSpelling, TaskStatus};
use tidings_proto::{Era, TaskMethod, capabilities};
use tidings_wire::{Frame, FrameKind, encode_string, is_object};

use super::followed_task::parsed;
use super::{Calling, Exchange, Reply, Stage};
use crate::call::routing::Routed;
use crate::client::session::Caller;
use crate::links::live_link::LiveLink;

/// How long an answer that came at once is kept for a client that does not say how long it likes, in milliseconds.
const KEPT_FOR: u64 = 10 * 60 * 1_000;
/// How long a client that asks how far a task is waits for the question that the server says it has, or for the outcome.
const NEXT_WORD: Duration = Duration::from_secs(2);

/// The acknowledgement of the extension.
const TAKEN: &[u8] = br#"{"resultType":"complete"}"#;

impl Exchange {
    /// The answer to a call that its client may get as a task of its own kind.
    pub(super) fn crossed_answer(&self, frame: &Frame) -> Option<ClientAnswer> {
        let Stage::Calling(calling) = &self.stage else { return None };
        let Calling { routed, live, call, .. } = &**calling;
        let (at_server, at_client) = (TaskSpelling::of(live.hello.revision.era()), TaskSpelling::of(self.caller.era()));
        let Some(facts) = TaskFacts::created(frame, at_server) else {
            // A server decides by itself whether it makes a task; who knows the extension expects that.
            return (at_client == TaskSpelling::Core).then(|| self.kept_answer(calling, frame));
        };
        let (principal, home) = (Arc::clone(&self.caller.principal().name), TaskHome::Server(at_server));
        let shown = self.router.shown_task(&routed.server, &facts.id, home, &principal);
        let created = facts.as_created(&shown, at_client);
        let owner = TaskOwner { principal, client: self.caller.key(), call: *call, token: None, home };
        let key = TaskKey::new(routed.server.id, &facts.id);
        self.router.tasks.lock().table.created(key, owner, facts, Instant::now());
        Some(ClientAnswer::result(&self.id, created.as_bytes()))
    }

    /// The client asked for a task, and the server answered at once: that is a task which is over.
    fn kept_answer(&self, calling: &Calling, frame: &Frame) -> ClientAnswer {
        let answer = self.translate(frame);
        let result = frame.outcome().filter(|at| frame.kind() == FrameKind::Response && is_object(frame.bytes(), *at));
        let Some(result) = result.filter(|_| answer.error.is_none()) else { return answer };
        let mut random = [0; 16];
        if getrandom::fill(&mut random).is_err() {
            return answer;
        }
        let id: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
        let ttl = self
            .frame
            .param(&["task", "ttl"])
            .and_then(|at| std::str::from_utf8(self.frame.raw(at)).ok()?.parse().ok());
        let has_failed = task::is_failure(frame.bytes(), result);
        let facts = TaskFacts::finished(&id, has_failed, ttl.unwrap_or(KEPT_FOR), SystemTime::now());
        let (server, home) = (&calling.routed.server, TaskHome::Gateway);
        let principal = Arc::clone(&self.caller.principal().name);
        let shown = self.router.shown_task(server, &id, home, &principal);
        let created = facts.as_created(&shown, TaskSpelling::Core);
        let owner = TaskOwner { principal, client: self.caller.key(), call: calling.call, token: None, home };
        let (key, now) = (TaskKey::new(server.id, &id), Instant::now());
        // As the server said it, in memory of its own: it may be kept long.
        let kept = Bytes::copy_from_slice(frame.bytes());
        let mut state = self.router.tasks.lock();
        state.table.created(key.clone(), owner, facts, now);
        if !state.table.keep(&key, kept, now) {
            state.table.forget(&key);
            drop(state);
            return self.refuse(&RequestRefusal::NoRoomForOutcome { server: server.plan.name.clone() });
        }
        drop(state);
        ClientAnswer::result(&self.id, created.as_bytes())
    }

    /// A request about a task whose outcome only the gateway has.
    pub(super) fn kept_task(&self, which: TaskMethod, routed: &Routed, key: &TaskKey) -> Result<Reply, RequestRefusal> {
        let shown = routed.exposed.as_str();
        let known = {
            let state = self.router.tasks.lock();
            let now = Instant::now();
            state.table.facts(key, now).cloned().zip(state.table.kept(key, now).cloned())
        };
        let unknown = || RequestRefusal::UnknownTask(shown.to_owned());
        let (facts, kept) = known.ok_or_else(unknown)?;
        // The server was spoken to in the era that can answer at once though a task was asked for: either may have been.
        let frame = parsed(kept).ok_or_else(unknown)?;
        let from = frame.outcome().and_then(|at| frame.get(at, "resultType")).map_or(Era::Legacy, |_| Era::Modern);
        let answer = match (TaskSpelling::of(self.caller.era()), which) {
            (TaskSpelling::Core, TaskMethod::Get) => {
                ClientAnswer::result(&self.id, facts.as_told(shown, TaskSpelling::Core, None).as_bytes())
            }
            (TaskSpelling::Core, TaskMethod::Result) => {
                let mut answer = self.translate_outcome(routed, from, &frame);
                answer.payload = task::with_related(&answer.payload.to_bytes(), shown).into();
                answer
            }
            (TaskSpelling::Core, _) => return Err(is_over(shown, facts.status)),
            (TaskSpelling::Extension, TaskMethod::Get) => self.in_full(routed, facts, from, &frame)?,
            (TaskSpelling::Extension, _) => ClientAnswer::result(&self.id, TAKEN),
        };
        Ok(Reply::Answer(answer))
    }

    /// A request about a task of the other kind than the client's.
    pub(super) async fn crossed_request(
        &mut self,
        which: TaskMethod,
        routed: Routed,
        live: LiveLink,
        key: TaskKey,
    ) -> Result<Option<Reply>, RequestRefusal> {
        match (TaskSpelling::of(self.caller.era()), which) {
            (TaskSpelling::Extension, TaskMethod::Get) => self.tell_core_task(&routed, &live, &key).await.map(Some),
            (TaskSpelling::Extension, TaskMethod::Update) => Ok(Some(self.answer_core_task(&key))),
            (TaskSpelling::Extension, _) => self.cancel_core_task(&routed, &live, &key).await.map(Some),
            (TaskSpelling::Core, TaskMethod::Get) => self.tell_extension_task(&routed, &live, &key).await.map(Some),
            (TaskSpelling::Core, TaskMethod::Result) => {
                self.await_task(routed, live, key);
                Ok(None)
            }
            (TaskSpelling::Core, _) => self.cancel_extension_task(&routed, &live, &key).await.map(Some),
        }
    }

    /// Asks the server of a task in the gateway's own name. `None` when the client wants no answer any more.
    async fn ask_server(
        &mut self,
        which: TaskMethod,
        routed: &Routed,
        live: &LiveLink,
        key: &TaskKey,
    ) -> Result<Option<Frame>, RequestRefusal> {
        let (silent, _) = routed.server.timeouts(&self.router.runtime.settings);
        let server = || routed.server.plan.name.clone();
        let asked = live.link.call(self.router.own_task_request(live, which, &key.id)).answer();
        tokio::select! {
            biased;
            // Nothing else rings for a request that is not in flight itself.
            () = self.waiter.rung() => Ok(None),
            answer = tokio::time::timeout(silent, asked) => match answer {
                Ok(Ok(frame)) => Ok(Some(frame)),
                Ok(Err(error)) => Err(RequestRefusal::ServerDown { server: server(), reason: error.to_string() }),
                Err(_) => Err(RequestRefusal::TimedOut { server: server(), seconds: silent.as_secs() }),
            },
        }
    }

    /// How far the server says that a task is, as clients may be told it. The answer, where that is an error.
    async fn heard_of_server(
        &mut self,
        routed: &Routed,
        live: &LiveLink,
        key: &TaskKey,
    ) -> Result<Result<(TaskFacts, Frame), Reply>, RequestRefusal> {
        let Some(frame) = self.ask_server(TaskMethod::Get, routed, live, key).await? else {
            return Ok(Err(Reply::Cancelled));
        };
        let era = live.hello.revision.era();
        if frame.kind() == FrameKind::Error {
            return Ok(Err(Reply::Answer(self.translate_from(routed, era, &frame))));
        }
        let said = TaskFacts::told(&frame, TaskSpelling::of(era)).ok_or_else(|| RequestRefusal::ServerDown {
            server: routed.server.plan.name.clone(),
            reason: "does not say how far a task is".to_owned(),
        })?;
        let observed = self.router.tasks.lock().table.observed(key, said.clone(), Instant::now());
        Ok(Ok((observed.map_or(said, |observed| observed.facts), frame)))
    }

    /// `tasks/get` of the extension, at a server of 2025-11-25.
    async fn tell_core_task(
        &mut self,
        routed: &Routed,
        live: &LiveLink,
        key: &TaskKey,
    ) -> Result<Reply, RequestRefusal> {
        let (mut facts, _) = match self.heard_of_server(routed, live, key).await? {
            Ok(heard) => heard,
            Err(reply) => return Ok(reply),
        };
        let shown = routed.exposed.as_str();
        // Whoever holds the request for the outcome has it in a moment, or the questions: neither is asked for twice.
        let next_word: BoxFuture<'_, ()> = match facts.status {
            TaskStatus::Completed | TaskStatus::Failed => Box::pin(self.router.tasks.settled(key)),
            TaskStatus::InputRequired => {
                let declared = Bytes::copy_from_slice(self.declared());
                self.router.hold_outcome(&routed.server, live, key, self.caller.principal(), declared)?;
                Box::pin(self.router.tasks.asked(key))
            }
            TaskStatus::Working | TaskStatus::Cancelled => Box::pin(std::future::ready(())),
        };
        tokio::select! {
            biased;
            () = self.waiter.rung() => return Ok(Reply::Cancelled),
            _ = tokio::time::timeout(NEXT_WORD, next_word) => {}
        }
        let kept = self.router.tasks.lock().table.kept(key, Instant::now()).cloned();
        let outcome = match (facts.status, kept.and_then(parsed)) {
            (TaskStatus::Cancelled, _) => None,
            // Also where the server has said something older in the meantime.
            (_, Some(frame)) => Some(frame),
            (TaskStatus::Completed | TaskStatus::Failed, None) => {
                match self.ask_server(TaskMethod::Result, routed, live, key).await? {
                    Some(frame) => Some(frame),
                    None => return Ok(Reply::Cancelled),
                }
            }
            (TaskStatus::Working | TaskStatus::InputRequired, None) => None,
        };
        if let Some(outcome) = outcome {
            return self.in_full(routed, facts, Era::Legacy, &outcome).map(Reply::Answer);
        }
        let mut questions = String::new();
        if !facts.status.is_terminal() {
            let open = self.router.tasks.lock().questions.shown(key, Instant::now());
            // The extension has no other word for a task whose questions are answered, or not known yet.
            facts.status = if open.is_empty() { TaskStatus::Working } else { TaskStatus::InputRequired };
            let entry =
                |(key, raw): &(Box<str>, Bytes)| format!("{}:{}", encode_string(key), String::from_utf8_lossy(raw));
            questions = format!("{{{}}}", open.iter().map(entry).collect::<Vec<_>>().join(","));
        }
        let inside = (facts.status == TaskStatus::InputRequired).then_some(TaskInside::Questions(questions.as_bytes()));
        let told = facts.as_told(shown, TaskSpelling::Extension, inside.as_ref());
        Ok(Reply::Answer(ClientAnswer::result(&self.id, told.as_bytes())))
    }

    /// A task that is over, with its outcome inside.
    fn in_full(
        &self,
        routed: &Routed,
        mut facts: TaskFacts,
        from: Era,
        outcome: &Frame,
    ) -> Result<ClientAnswer, RequestRefusal> {
        let answer = self.translate_outcome(routed, from, outcome);
        let frame = parsed(answer.payload.to_bytes());
        let Some((frame, at)) = frame.as_ref().and_then(|frame| Some((frame, frame.outcome()?))) else {
            let reason = "says that a task is over and not what came of it".to_owned();
            return Err(RequestRefusal::ServerDown { server: routed.server.plan.name.clone(), reason });
        };
        // In the extension a tool that failed has completed; only what is no result at all has failed.
        let inside = match answer.error {
            None => {
                facts.status = TaskStatus::Completed;
                TaskInside::Result(frame.raw(at))
            }
            Some(_) => {
                facts.status = TaskStatus::Failed;
                TaskInside::Error(frame.raw(at))
            }
        };
        let told = facts.as_told(routed.exposed.as_str(), TaskSpelling::Extension, Some(&inside));
        Ok(ClientAnswer::result(&self.id, told.as_bytes()))
    }

    /// `tasks/update` of the extension, at a server of 2025-11-25: its questions are answered.
    fn answer_core_task(&self, key: &TaskKey) -> Reply {
        let responses = self.input_responses();
        let replies = self.router.tasks.lock().questions.answered(key, &responses, Instant::now());
        self.router.reply_to_tasks(replies);
        Reply::Answer(ClientAnswer::result(&self.id, TAKEN))
    }

    /// `tasks/cancel` of the extension, at a server of 2025-11-25.
    async fn cancel_core_task(
        &mut self,
        routed: &Routed,
        live: &LiveLink,
        key: &TaskKey,
    ) -> Result<Reply, RequestRefusal> {
        let can = live.hello.capabilities.get("tasks").is_some_and(|tasks| capabilities::declares(tasks, "cancel"));
        if can {
            let Some(frame) = self.ask_server(TaskMethod::Cancel, routed, live, key).await? else {
                return Ok(Reply::Cancelled);
            };
            if frame.kind() == FrameKind::Error {
                // It is over, which the extension does not mind; or nobody knows it.
                return Ok(match self.heard_of_server(routed, live, key).await? {
                    Ok(_) => Reply::Answer(ClientAnswer::result(&self.id, TAKEN)),
                    Err(reply) => reply,
                });
            }
        }
        // A server that can not be told goes on; for its client the task is cancelled all the same.
        self.router.tasks.lock().table.cancelled(key, Instant::now());
        Ok(Reply::Answer(ClientAnswer::result(&self.id, TAKEN)))
    }

    /// `tasks/get` of 2025-11-25, at a server with the extension.
    async fn tell_extension_task(
        &mut self,
        routed: &Routed,
        live: &LiveLink,
        key: &TaskKey,
    ) -> Result<Reply, RequestRefusal> {
        let (facts, frame) = match self.heard_of_server(routed, live, key).await? {
            Ok(heard) => heard,
            Err(reply) => return Ok(reply),
        };
        let facts = task::as_core(facts, &frame);
        let told = facts.as_told(routed.exposed.as_str(), TaskSpelling::Core, None);
        Ok(Reply::Answer(ClientAnswer::result(&self.id, told.as_bytes())))
    }

    /// `tasks/cancel` of 2025-11-25, at a server with the extension: from the answer on the task is cancelled, whatever its server does.
    async fn cancel_extension_task(
        &mut self,
        routed: &Routed,
        live: &LiveLink,
        key: &TaskKey,
    ) -> Result<Reply, RequestRefusal> {
        let (mut facts, frame) = match self.heard_of_server(routed, live, key).await? {
            Ok(heard) => heard,
            Err(reply) => return Ok(reply),
        };
        let shown = routed.exposed.as_str();
        if facts.status.is_terminal() {
            return Err(is_over(shown, task::as_core(facts, &frame).status));
        }
        let Some(frame) = self.ask_server(TaskMethod::Cancel, routed, live, key).await? else {
            return Ok(Reply::Cancelled);
        };
        if frame.kind() == FrameKind::Error {
            return Ok(Reply::Answer(self.translate_from(routed, Era::Modern, &frame)));
        }
        self.router.tasks.lock().table.cancelled(key, Instant::now());
        facts.status = TaskStatus::Cancelled;
        let told = facts.as_told(shown, TaskSpelling::Core, None);
        Ok(Reply::Answer(ClientAnswer::result(&self.id, told.as_bytes())))
    }

    /// What a modern client declares in this request, raw.
    fn declared(&self) -> &[u8] {
        match &self.caller {
            Caller::Modern(caller) => self.frame.raw(caller.capabilities),
            Caller::Legacy(_) => b"{}",
        }
    }
}

/// Revision 2025-11-25 refuses to cancel what is over.
fn is_over(shown: &str, status: TaskStatus) -> RequestRefusal {
    RequestRefusal::InvalidParams(format!("task {shown} is {} already", status.as_str()))
}
