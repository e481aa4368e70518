//! What a client asks about its tasks, and calls that become tasks.

use std::sync::Arc;
use std::time::Instant;

use tidings_hub::tasks::{TaskHome, TaskKey, TaskOwner};
use tidings_proto::outbound::{RequestTarget, TaskChange};
use tidings_proto::outcome::ClientAnswer;
use tidings_proto::refusal::RequestRefusal;
use tidings_proto::task::{self, TaskFacts, TaskSpelling, TaskSupport};
use tidings_proto::{Era, ListKind, LocalName, Method, PublicName, TaskMethod, meta};
use tidings_wire::Frame;

use super::{Calling, Exchange, Repetition, Reply, Stage};
use crate::call::routing::Routed;
use crate::links::live_link::LiveLink;

/// What a request has to do with tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TaskPart {
    /// Nothing: nearly every one.
    None,
    /// Its answer may name a task, which the client asks about itself.
    Client,
    /// Its answer may name a task, which the gateway follows in the client's place.
    Followed,
    /// It asks for the outcome of such a task.
    Outcome,
    /// Its client knows tasks, in this spelling, and its server knows those of the other one, if any.
    Crossed(TaskSpelling),
}

impl TaskPart {
    /// What the server is told of it, in the core.
    pub(super) fn change(self, method: Method, to: Era) -> TaskChange {
        match self {
            Self::Client if method == Method::ToolsCall && to == Era::Legacy => TaskChange::Keep,
            Self::Followed | Self::Crossed(TaskSpelling::Extension) if to == Era::Legacy => TaskChange::Set,
            _ if method == Method::ToolsCall => TaskChange::Remove,
            // A member of this name means something else there, such as in a vendor's method.
            _ => TaskChange::Keep,
        }
    }
}

impl Exchange {
    pub(super) fn task_part(&self, routed: &Routed, live: &LiveLink) -> TaskPart {
        match self.method {
            Method::Task(_) => return TaskPart::Client,
            Method::ToolsCall => {}
            _ => return TaskPart::None,
        }
        if let Some(followed) = &self.followed {
            return followed.part();
        }
        let to = live.hello.revision;
        let wants_task = || self.caller.revision().has_execution() && self.frame.param(&["task"]).is_some();
        let has_core = || to.has_execution() && task::declares_core(&live.hello.capabilities);
        match (self.caller.era(), to.era()) {
            (Era::Modern, Era::Modern) => TaskPart::Client,
            (Era::Legacy, Era::Legacy) if has_core() && wants_task() => TaskPart::Client,
            // Also over a legacy link of a server that was listed in the modern era: the client was shown that it may.
            (Era::Legacy, _) if wants_task() && self.may_be_task(routed) => TaskPart::Crossed(TaskSpelling::Core),
            (_, Era::Legacy) if has_core() && self.requires_task(routed) => match self.caller.era() {
                Era::Modern if task::declares_extension(&self.caller.capabilities(&self.frame)) => {
                    TaskPart::Crossed(TaskSpelling::Extension)
                }
                _ => TaskPart::Followed,
            },
            _ => TaskPart::None,
        }
    }

    /// Whether how the call is sent depends on a list that its server, which is alone, may still give: a tool can be one that is
    /// run as a task only.
    pub(super) fn needs_list(&self, routed: &Routed, live: &LiveLink) -> bool {
        self.method == Method::ToolsCall
            && !routed.is_listed
            && live.hello.revision.has_execution()
            && task::declares_core(&live.hello.capabilities)
            && self.router.catalogue.starting()
    }

    /// Whether a client of 2025-11-25 was shown that the server's tools can be tasks, because the server has the extension.
    fn may_be_task(&self, routed: &Routed) -> bool {
        let catalogue = self.router.catalogue.current();
        catalogue.snapshot.offer(routed.server.id).is_some_and(|offer| offer.makes_tasks)
    }

    /// Whether the tool can be run as a task only.
    fn requires_task(&self, routed: &Routed) -> bool {
        let catalogue = self.router.catalogue.current();
        let offer = catalogue.snapshot.offer(routed.server.id);
        let tool = offer.and_then(|offer| offer.list(ListKind::Tools).get(&routed.target.local));
        tool.is_some_and(|tool| TaskSupport::of_tool(&tool.raw) == TaskSupport::Required)
    }

    /// Whether answers may hold ids of tasks that the client is to be shown.
    pub(super) fn shows_tasks(&self) -> bool {
        matches!(&self.stage, Stage::Calling(calling) if calling.task == TaskPart::Client)
    }

    /// A request about a task goes to the server that works on it.
    pub(super) async fn task_request(&mut self, which: TaskMethod) -> Result<Option<Reply>, RequestRefusal> {
        let router = Arc::clone(&self.router);
        router.check_tasks(&self.caller, &self.frame)?;
        if which == TaskMethod::List {
            let answer = router.list_tasks(&self.caller, &self.frame, &self.id).await?;
            return Ok(Some(Reply::Answer(answer)));
        }
        let shown = self.frame.param_str(&["taskId"]);
        let shown = shown.ok_or_else(|| RequestRefusal::InvalidParams("params.taskId must be a string".into()))?;
        let unknown = || RequestRefusal::UnknownTask(shown.to_string());
        let principal = self.caller.principal();
        let opened = router.tasks.ids().open(&shown, &principal.name).ok_or_else(unknown)?;
        if router.catalogue.starting() {
            router.catalogue.wait_settled().await;
        }
        let servers = router.pool.servers();
        let server = servers.named(&opened.server, false).filter(|server| principal.may_use(&server.plan));
        let server = Arc::clone(server.ok_or_else(unknown)?);
        let key = TaskKey::new(server.id, &opened.id);
        let target = RequestTarget { member: "taskId", in_ref: false, local: LocalName::new(opened.id) };
        let routed = Routed {
            server,
            target,
            exposed: PublicName::new(&*shown),
            is_listed: true,
            headers: None,
            tried: None,
            lacking: None,
        };
        let TaskHome::Server(spelling) = opened.home else { return self.kept_task(which, &routed, &key).map(Some) };
        let live = router.pool.link_for(&self.caller, &self.frame, &routed.server).await?;
        // What one era of a server knows as a task the other does not know at all.
        if spelling != TaskSpelling::of(live.hello.revision.era()) {
            return Err(unknown());
        }
        if spelling != TaskSpelling::of(self.caller.era()) {
            // Boxed: it is rare, and every request has room for the future of this one.
            return Box::pin(self.crossed_request(which, routed, live, key)).await;
        }
        let begun = self.begin(routed, live, Repetition::Possible);
        if let (TaskMethod::Result, Stage::Calling(calling)) = (which, &self.stage) {
            router.tasks.outcome_awaited(&key, calling.call);
        }
        begun
    }

    /// Takes note of what an answer says about a task. Gives the answer in its place where the server says what can not be any more.
    pub(super) fn task_answer(&mut self, frame: &Frame) -> Option<ClientAnswer> {
        if let Some(followed) = &mut self.followed {
            followed.over();
            return None;
        }
        let Stage::Calling(calling) = &self.stage else { return None };
        if let TaskPart::Crossed(_) = calling.task {
            return self.crossed_answer(frame);
        }
        let Calling { routed, live, call, task: TaskPart::Client, .. } = &**calling else { return None };
        let spelling = TaskSpelling::of(live.hello.revision.era());
        let now = Instant::now();
        match self.method {
            Method::ToolsCall => {
                let facts = TaskFacts::created(frame, spelling)?;
                let key = TaskKey::new(routed.server.id, &facts.id);
                let token = meta::progress_token(&self.frame)
                    // A modern client hears nothing of a call that was answered.
                    .filter(|_| spelling == TaskSpelling::Core);
                let principal = Arc::clone(&self.caller.principal().name);
                let home = TaskHome::Server(spelling);
                let owner = TaskOwner { principal, client: self.caller.key(), call: *call, token, home };
                self.router.tasks.lock().table.created(key, owner, facts, now);
                None
            }
            Method::Task(which @ (TaskMethod::Get | TaskMethod::Cancel)) => {
                let key = TaskKey::new(routed.server.id, routed.target.local.as_str());
                let said = TaskFacts::told(frame, spelling)?;
                let mut state = self.router.tasks.lock();
                let observed = state.table.observed(&key, said, now)?;
                let facts = match which {
                    // In the core a task that was cancelled is cancelled from that answer on.
                    TaskMethod::Cancel if !observed.facts.status.is_terminal() => state.table.cancelled(&key, now)?,
                    _ if observed.overruled => observed.facts,
                    _ => return None,
                };
                let told = facts.as_told(routed.exposed.as_str(), spelling, None);
                Some(ClientAnswer::result(&self.id, told.as_bytes()))
            }
            _ => None,
        }
    }
}
