//! A server makes a task of a call whose client knows no tasks: the gateway asks how far it is until it is over, and the client gets
//! the outcome as the answer to its call.
//!
//! Between the answer that names the task and the outcome nothing of the call is at its server but the task. The call can be
//! cancelled like one that has just arrived; then, and whenever the call ends otherwise, the task is cancelled.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use serde_json::json;
use tidings_hub::calls::{CallHistory, CallId};
use tidings_hub::tasks::TaskKey;
use tidings_proto::outbound::RequestTarget;
use tidings_proto::outcome::{self, ClientAnswer};
use tidings_proto::question::{self, InputRequired};
use tidings_proto::refusal::RequestRefusal;
use tidings_proto::task::{self, TASKS, TaskFacts, TaskInside, TaskSpelling, TaskStatus};
use tidings_proto::{
    Era, FieldView, LocalName, MessageSubject, Method, ServerMessage, TaskMethod, meta, notifications,
};
use tidings_upstream::{CallEvent, CallStream, LinkError};
use tidings_wire::{Frame, FrameKind, FrameLimits, encode_string, notification, request, response};

use super::tasks::TaskPart;
use super::{Exchange, Repetition, Reply, Stage};
use crate::call::RequestRouter;
use crate::call::routing::Routed;
use crate::links::in_flight::TakenBack;
use crate::links::live_link::LiveLink;
use crate::servers::server::Server;

/// How often a server is asked that does not say how often it likes.
const USUAL: Duration = Duration::from_millis(500);
/// How often one is asked at most, and at least.
const LEAST: Duration = Duration::from_millis(50);
const MOST: Duration = Duration::from_secs(30);
/// How long one may take to say how far a task is.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often in a row it may fail to.
const FAILURES: u32 = 5;

/// A call that its server may make a task of.
pub(super) struct FollowedTask {
    /// Set once there is a task.
    task: Option<FollowGuard>,
    /// What is sent in the place of the client's request: the one for the outcome.
    pub(super) outcome: Option<Frame>,
    /// What the rounds before leave to the next one.
    pub(super) history: Option<CallHistory>,
    /// Questions of the extension that were answered; a server shows them until it has taken note.
    answered: HashSet<Box<str>>,
    /// What the client was told in words.
    said: Option<Box<str>>,
    /// The server tells of progress itself.
    has_progress: bool,
    /// The id of the task for a client that knows it, and waits for its outcome.
    pub(super) known_as: Option<Box<str>>,
}

/// A call between the answer that names its task and the outcome.
pub(super) struct Following {
    routed: Routed,
    live: LiveLink,
    /// What the server was asked, and when.
    asked: Option<(CallStream, Instant)>,
    /// When it is asked next.
    due: Instant,
    failures: u32,
    unsent: VecDeque<Bytes>,
    /// Questions that came before anybody asked for the outcome.
    early: Vec<ServerMessage>,
    /// The questions whose answers are on their way to the task.
    updating: Vec<Box<str>>,
}

/// Cancels the task when the call ends before it.
struct FollowGuard {
    router: Arc<RequestRouter>,
    server: Arc<Server>,
    live: LiveLink,
    key: TaskKey,
    /// The call that made it.
    call: CallId,
    is_over: bool,
}

impl Drop for FollowGuard {
    fn drop(&mut self) {
        self.router.tasks.unfollow(&self.key, self.call);
        if !self.is_over {
            self.router.cancel_task(&self.server, &self.live, &self.key.id);
        }
    }
}

impl Following {
    fn new(routed: Routed, live: LiveLink, due: Instant) -> Box<Self> {
        let (asked, failures, unsent, early, updating) = Default::default();
        Box::new(Self { routed, live, asked, due, failures, unsent, early, updating })
    }
}

impl FollowedTask {
    fn new(task: Option<FollowGuard>) -> Box<Self> {
        let (outcome, history, answered, said, has_progress, known_as) = Default::default();
        Box::new(Self { task, outcome, history, answered, said, has_progress, known_as })
    }

    pub(super) fn part(&self) -> TaskPart {
        if self.outcome.is_some() { TaskPart::Outcome } else { TaskPart::Followed }
    }

    /// The task needs not be cancelled any more.
    pub(super) fn over(&mut self) {
        if let Some(task) = &mut self.task {
            task.is_over = true;
        }
    }
}

/// What a modern server is told that the client can do, with tasks.
pub(super) fn with_tasks(capabilities: &[u8]) -> Vec<u8> {
    let mut all: serde_json::Value = serde_json::from_slice(capabilities).unwrap_or_else(|_| json!({}));
    all["extensions"][TASKS] = json!({});
    all.to_string().into_bytes()
}

pub(super) fn parsed(bytes: Bytes) -> Option<Frame> {
    let limits = FrameLimits { max_bytes: bytes.len(), max_depth: 1_024, ..FrameLimits::default() };
    Frame::parse(bytes, &limits).ok()
}

fn pause(facts: &TaskFacts) -> Duration {
    facts.poll.map_or(USUAL, Duration::from_millis).clamp(LEAST, MOST)
}

impl Exchange {
    /// A client that knows the task waits for its outcome: the task goes on when the client does not.
    pub(super) fn await_task(&mut self, routed: Routed, live: LiveLink, key: TaskKey) {
        let (_, most) = routed.server.timeouts(&self.router.runtime.settings);
        let now = Instant::now();
        let task = FollowGuard {
            router: Arc::clone(&self.router),
            server: Arc::clone(&routed.server),
            live: live.clone(),
            key,
            // It was made by a call that is over.
            call: CallId(0),
            is_over: true,
        };
        let mut followed = FollowedTask::new(Some(task));
        followed.history = Some(CallHistory { last_moment: now + most, progress: None });
        followed.known_as = Some(routed.exposed.as_str().into());
        self.followed = Some(followed);
        self.stage = Stage::Following(Following::new(routed, live, now));
    }

    /// What was said of a task that its client knows, unless the client was told otherwise before.
    fn believed(&self, facts: &TaskFacts) -> Option<TaskFacts> {
        let followed = self.followed.as_ref().filter(|followed| followed.known_as.is_some())?;
        let key = &followed.task.as_ref()?.key;
        let observed = self.router.tasks.lock().table.observed(key, facts.clone(), Instant::now())?;
        Some(observed.facts)
    }

    /// The outcome, for a client that knows the task with its id.
    fn known_outcome(&self, mut answer: ClientAnswer) -> ClientAnswer {
        if let Some(known_as) = self.followed.as_ref().and_then(|followed| followed.known_as.as_deref()) {
            answer.payload = task::with_related(&answer.payload.to_bytes(), known_as).into();
        }
        answer
    }

    /// What becomes of an answer that names a task, or that is refused without one; `None` for every other.
    pub(super) fn task_begun(&mut self, frame: &Frame) -> Option<Result<Option<Reply>, RequestRefusal>> {
        let Stage::Calling(calling) = &self.stage else { return None };
        let era = calling.live.hello.revision.era();
        if calling.task == TaskPart::Followed {
            let facts = TaskFacts::created(frame, TaskSpelling::of(era))?;
            return Some(self.follow_task(&facts));
        }
        let crosses = self.method == Method::ToolsCall && self.caller.era() == Era::Legacy && era == Era::Modern;
        if crosses && self.followed.is_none() && task::is_required_by(frame) {
            return Some(self.call_with_tasks());
        }
        None
    }

    /// The server can not do without tasks, and refused the call before it ran: it is sent again by one who knows them.
    fn call_with_tasks(&mut self) -> Result<Option<Reply>, RequestRefusal> {
        let Some((routed, live, _, history)) = self.take_call_back() else { return Ok(Some(Reply::Cancelled)) };
        let mut followed = FollowedTask::new(None);
        followed.history = Some(history);
        self.followed = Some(followed);
        self.begin(routed, live, Repetition::Possible)
    }

    /// Takes the call out without an outcome, and without a moment at which a cancellation would not find it.
    fn take_call_back(&mut self) -> Option<(Routed, LiveLink, CallId, CallHistory)> {
        let Stage::Calling(calling) = &self.stage else { return None };
        let TakenBack { waiter, moot, history } = self.router.links.in_flight.take_back(calling.call)?;
        (self.waiter, self.is_arriving) = (waiter, self.caller.names_its_calls());
        for (shown, ask) in &moot {
            self.router.links.withdraw_from_client(*shown, ask);
        }
        let Stage::Calling(calling) = std::mem::replace(&mut self.stage, Stage::Over) else { return None };
        Some((calling.routed, calling.live, calling.call, history))
    }

    fn follow_task(&mut self, facts: &TaskFacts) -> Result<Option<Reply>, RequestRefusal> {
        let Stage::Calling(calling) = &self.stage else { return Ok(None) };
        let key = TaskKey::new(calling.routed.server.id, &facts.id);
        // Made first: also a call that is cancelled in this moment leaves no task behind.
        let task = FollowGuard {
            router: Arc::clone(&self.router),
            server: Arc::clone(&calling.routed.server),
            live: calling.live.clone(),
            key: key.clone(),
            call: calling.call,
            is_over: false,
        };
        let Some((routed, live, call, history)) = self.take_call_back() else { return Ok(Some(Reply::Cancelled)) };
        if live.hello.revision.era() == Era::Legacy {
            // In the extension nothing is said about a task that was not asked for.
            self.router.tasks.follow(&key, call, &self.waiter);
        }
        let followed = self.followed.get_or_insert_with(|| FollowedTask::new(None));
        followed.task = Some(task);
        followed.history = Some(history);
        self.stage = Stage::Following(Following::new(routed, live, Instant::now() + pause(facts)));
        self.heard_of_task(facts, None)
    }

    /// Asks how far the task is, until it is over. May be dropped at any time: it goes on where it was.
    pub(super) async fn advance_task(&mut self) -> Result<Option<Reply>, RequestRefusal> {
        let (Stage::Following(following), Some(followed)) = (&mut self.stage, &mut self.followed) else {
            return Ok(None);
        };
        if let Some(message) = following.unsent.pop_front() {
            return Ok(Some(Reply::Message(message)));
        }
        if followed.history.is_some_and(|history| history.last_moment <= Instant::now()) {
            let server = &following.routed.server;
            let (_, most) = server.timeouts(&self.router.runtime.settings);
            return Err(RequestRefusal::TimedOut { server: server.plan.name.clone(), seconds: most.as_secs() });
        }
        match &mut following.asked {
            None => {
                tokio::select! {
                    biased;
                    () = self.waiter.rung() => return self.task_rung(),
                    () = tokio::time::sleep_until(following.due.into()) => {}
                }
                self.ask_task().await
            }
            Some((stream, since)) => {
                let late = *since + PATIENCE;
                let event = tokio::select! {
                    biased;
                    () = self.waiter.rung() => return self.task_rung(),
                    event = stream.next() => event,
                    () = tokio::time::sleep_until(late.into()) => CallEvent::Failed(LinkError::Lost),
                };
                match event {
                    CallEvent::Response(frame) => {
                        following.asked = None;
                        following.failures = 0;
                        following.updating.clear();
                        self.task_told(&frame)
                    }
                    CallEvent::Failed(error) | CallEvent::Refused { error, .. } => {
                        following.asked = None;
                        following.failures += 1;
                        // Whether the answers arrived is not known: the server says what it still wants to know.
                        for key in following.updating.drain(..) {
                            followed.answered.remove(&key);
                        }
                        following.due = Instant::now() + USUAL * following.failures;
                        match following.failures < FAILURES {
                            true => Ok(None),
                            false => Err(RequestRefusal::ServerDown {
                                server: following.routed.server.plan.name.clone(),
                                reason: format!(
                                    "works on a task and does not say how far it is: {}",
                                    error.for_clients()
                                ),
                            }),
                        }
                    }
                    _ => Ok(None),
                }
            }
        }
    }

    /// Somebody said something beside the answers, or nobody wants the call any more.
    fn task_rung(&mut self) -> Result<Option<Reply>, RequestRefusal> {
        if self.waiter.is_given_up() {
            return Ok(Some(Reply::Cancelled));
        }
        let mut asks = false;
        for message in self.waiter.take_aside() {
            match message.subject() {
                MessageSubject::Progress => self.pass_progress(&message),
                MessageSubject::TaskStatus => {
                    // What it says is asked for once more, because only the answer to that has everything.
                    if let Stage::Following(following) = &mut self.stage {
                        following.due = Instant::now();
                    }
                }
                MessageSubject::Question => {
                    if let Stage::Following(following) = &mut self.stage {
                        following.early.push(message);
                        asks = true;
                    }
                }
                _ => {}
            }
        }
        if asks { self.ask_outcome() } else { Ok(None) }
    }

    async fn ask_task(&mut self) -> Result<Option<Reply>, RequestRefusal> {
        let Stage::Following(following) = &self.stage else { return Ok(None) };
        let (server, before) = (Arc::clone(&following.routed.server), following.live.hello.revision.era());
        let live = match self.router.links.table.has(following.live.key) {
            true => None,
            false => Some(self.router.pool.link_for(&self.caller, &self.frame, &server).await),
        };
        let (Stage::Following(following), Some(followed)) = (&mut self.stage, &self.followed) else { return Ok(None) };
        match live {
            None => {}
            Some(Ok(live)) if live.hello.revision.era() == before => following.live = live,
            Some(Ok(_)) => {
                let reason = "came back without the revision in which it made the task".to_owned();
                return Err(RequestRefusal::ServerDown { server: server.plan.name.clone(), reason });
            }
            Some(Err(refusal)) => {
                following.failures += 1;
                following.due = Instant::now() + USUAL * following.failures;
                return if following.failures < FAILURES { Ok(None) } else { Err(refusal) };
            }
        }
        let Some(task) = &followed.task else { return Ok(None) };
        let outgoing = self.router.own_task_request(&following.live, TaskMethod::Get, &task.key.id);
        following.asked = Some((following.live.link.call(outgoing), Instant::now()));
        Ok(None)
    }

    /// The server has said how far the task is, or has taken the answers to its questions.
    fn task_told(&mut self, frame: &Frame) -> Result<Option<Reply>, RequestRefusal> {
        let Stage::Following(following) = &mut self.stage else { return Ok(None) };
        let era = following.live.hello.revision.era();
        if frame.kind() == FrameKind::Error {
            // It does not know the task any more: there is nothing to wait for, and nothing to cancel.
            if let Some(followed) = &mut self.followed {
                followed.over();
            }
            let Stage::Following(following) = &self.stage else { return Ok(None) };
            return Ok(Some(Reply::Answer(self.translate_from(&following.routed, era, frame))));
        }
        match TaskFacts::told(frame, TaskSpelling::of(era)) {
            Some(facts) => self.heard_of_task(&facts, Some(frame)),
            // The answer to `tasks/update` says nothing.
            None => {
                following.due = Instant::now() + LEAST;
                Ok(None)
            }
        }
    }

    /// `told`: the answer in which it was said, where that has everything.
    fn heard_of_task(&mut self, facts: &TaskFacts, told: Option<&Frame>) -> Result<Option<Reply>, RequestRefusal> {
        let believed = self.believed(facts);
        let facts = believed.as_ref().unwrap_or(facts);
        self.tell_status(facts);
        let (Stage::Following(following), Some(followed)) = (&mut self.stage, &mut self.followed) else {
            return Ok(None);
        };
        following.due = Instant::now() + pause(facts);
        let era = following.live.hello.revision.era();
        if facts.status.is_terminal() {
            followed.over();
        }
        match (facts.status, era, told) {
            (TaskStatus::Working, ..) => Ok(None),
            (TaskStatus::Cancelled, ..) => {
                let words = facts.message.as_deref().map(|text| format!(": {text}")).unwrap_or_default();
                let server = &following.routed.server.plan.name;
                let text = match followed.known_as.is_some() {
                    true => format!("the task was cancelled{words}"),
                    false => format!("server \"{server}\" cancelled the task that it had made of the call{words}"),
                };
                let answer = outcome::failed_tool(&self.id, &text, self.caller.era());
                Ok(Some(Reply::Answer(self.known_outcome(answer))))
            }
            // In the core the request for the outcome is also where the server asks.
            (_, Era::Legacy, _) => self.ask_outcome(),
            // The handle does not have what is inside.
            (_, Era::Modern, None) => {
                following.due = Instant::now();
                Ok(None)
            }
            (TaskStatus::InputRequired, Era::Modern, Some(frame)) => self.ask_for_task(frame),
            (_, Era::Modern, Some(frame)) => self.task_outcome(frame),
        }
    }

    /// The extension has the outcome inside the task.
    fn task_outcome(&mut self, frame: &Frame) -> Result<Option<Reply>, RequestRefusal> {
        let Stage::Following(following) = &self.stage else { return Ok(None) };
        let bytes = match TaskInside::read(frame) {
            Some(TaskInside::Result(raw)) => response(&self.id, raw),
            Some(TaskInside::Error(raw)) => {
                format!(r#"{{"jsonrpc":"2.0","id":{},"error":{}}}"#, self.id, String::from_utf8_lossy(raw)).into()
            }
            Some(TaskInside::Questions(_)) | None => Bytes::new(),
        };
        let Some(frame) = parsed(bytes) else {
            let reason = "says that a task is over and not what came of it".to_owned();
            return Err(RequestRefusal::ServerDown { server: following.routed.server.plan.name.clone(), reason });
        };
        following.routed.server.call_answered();
        let answer = self.translate_from(&following.routed, Era::Modern, &frame);
        Ok(Some(Reply::Answer(self.known_outcome(answer))))
    }

    /// In the core: asks for the outcome, which is waited for. What the server wants to know comes with it.
    fn ask_outcome(&mut self) -> Result<Option<Reply>, RequestRefusal> {
        let Stage::Following(following) = std::mem::replace(&mut self.stage, Stage::Over) else { return Ok(None) };
        let Following { mut routed, live, early, unsent, .. } = *following;
        let Some(followed) = &mut self.followed else { return Ok(None) };
        let Some(key) = followed.task.as_ref().map(|task| task.key.clone()) else { return Ok(None) };
        let params = json!({ "taskId": &*key.id }).to_string();
        followed.outcome =
            parsed(request(&self.id, Method::Task(TaskMethod::Result).as_str(), Some(params.as_bytes())));
        routed.target = RequestTarget { member: "taskId", in_ref: false, local: LocalName::new(&*key.id) };
        let begun = self.begin(routed, live, Repetition::Used)?;
        if let Stage::Calling(calling) = &mut self.stage {
            self.router.tasks.outcome_awaited(&key, calling.call);
            calling.aside.extend(early);
        }
        // Words about a task that is over are late in any case.
        drop(unsent);
        Ok(begun)
    }

    /// The extension asks inside the task: what was not answered yet is put to the client, and the answers go to the task.
    fn ask_for_task(&mut self, frame: &Frame) -> Result<Option<Reply>, RequestRefusal> {
        let (Some(followed), Some(result)) = (&self.followed, frame.outcome()) else { return Ok(None) };
        let mut requests = question::input_requests(frame, result);
        requests.retain(|request| !followed.answered.contains(&request.key));
        if requests.is_empty() {
            return Ok(None);
        }
        let Some(history) = followed.history else { return Ok(None) };
        let Stage::Following(following) = std::mem::replace(&mut self.stage, Stage::Over) else { return Ok(None) };
        let Following { routed, live, unsent, .. } = *following;
        self.drive_task(routed, live, unsent, history, InputRequired { requests, state: None })
    }

    /// Whether the answers of a round go to a task.
    pub(super) fn has_task(&self) -> bool {
        self.followed.as_ref().is_some_and(|followed| followed.task.is_some())
    }

    /// Gives the task the answers of its round.
    pub(super) fn update_task(&mut self, routed: Routed, live: LiveLink, responses: Option<Vec<u8>>) {
        let Some(followed) = &mut self.followed else { return };
        let Some(task) = &followed.task else { return };
        let given: serde_json::Value =
            responses.and_then(|raw| serde_json::from_slice(&raw).ok()).unwrap_or_else(|| json!({}));
        let given_keys = given.as_object().into_iter().flat_map(|all| all.keys());
        let keys: Vec<Box<str>> = given_keys.map(|key| key.as_str().into()).collect();
        followed.answered.extend(keys.iter().cloned());
        let params = json!({ "taskId": &*task.key.id, "inputResponses": given });
        let outgoing = self.router.links.own_request(&live.hello, Method::Task(TaskMethod::Update), params);
        let asked = Some((live.link.call(outgoing), Instant::now()));
        let mut following = Following::new(routed, live, Instant::now());
        (following.asked, following.updating) = (asked, keys);
        self.stage = Stage::Following(following);
    }

    /// The words about a task become progress of its call, as long as the server tells of none itself.
    fn tell_status(&mut self, facts: &TaskFacts) {
        let (Some(followed), Some(words)) = (&mut self.followed, &facts.message) else { return };
        if followed.has_progress || followed.said.as_ref() == Some(words) {
            return;
        }
        followed.said = Some(words.clone());
        let progress = followed.history.and_then(|history| history.progress).unwrap_or(0.0) + 1.0;
        let words = encode_string(words);
        self.send_progress(progress, &format!(r#","message":{words}"#));
    }

    fn pass_progress(&mut self, message: &Frame) {
        let raw = |name: &str| message.param(&[name]).and_then(|at| std::str::from_utf8(message.raw(at)).ok());
        let Some(progress) = raw("progress").and_then(|raw| raw.parse::<f64>().ok()) else { return };
        let Some(followed) = &mut self.followed else { return };
        followed.has_progress = true;
        let more: String =
            ["total", "message"].into_iter().filter_map(|name| Some(format!(r#","{name}":{}"#, raw(name)?))).collect();
        self.send_progress(progress, &more);
    }

    /// Tells the client, if it wants to hear of progress and this is any.
    fn send_progress(&mut self, progress: f64, more: &str) {
        let (Stage::Following(following), Some(followed)) = (&mut self.stage, &mut self.followed) else { return };
        let Some(token) = meta::progress_token(&self.frame) else { return };
        let Some(history) = &mut followed.history else { return };
        if history.progress.is_some_and(|before| progress <= before) {
            return;
        }
        history.progress = Some(progress);
        let strict = self.router.runtime.settings.view == FieldView::Strict;
        let wordless = strict && !self.caller.revision().has_progress_text();
        let params = match wordless {
            // Older revisions do not have the member, and strict clients refuse what they do not know.
            true => format!(r#"{{"progressToken":{token},"progress":{progress}}}"#),
            false => format!(r#"{{"progressToken":{token},"progress":{progress}{more}}}"#),
        };
        following.unsent.push_back(notification(notifications::PROGRESS, Some(params.as_bytes())));
    }
}
