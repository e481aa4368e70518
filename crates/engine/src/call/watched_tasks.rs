//! Listens that name tasks: the gateway asks how far each is, as often as its server likes, and at once when the server says that
//! something changed; the client is told what differs from before.
//!
//! What it asks is a `tasks/get` of the client itself, so a task is told in the same words whichever kind its server knows. A listener
//! that does not read is asked nothing for: the next question waits until it has taken the last word.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tidings_hub::tasks::TaskKey;
use tidings_proto::outcome::ClientAnswer;
use tidings_proto::task::{self, TaskFacts, TaskSpelling, TaskStatus};
use tidings_proto::{Method, TaskMethod, code, meta};
use tidings_wire::{
    ByteSpan, Frame, FrameLimits, ObjectEdit, Patch, RawId, elements, encode_string, request, string_at,
};
use tokio::sync::mpsc;

use crate::call::RequestRouter;
use crate::call::exchange::{Exchange, Reply};
use crate::call::tasks::TaskBell;
use crate::client::session::{Caller, ModernCaller};

/// How many tasks one listen may name; more are not honoured.
const MOST: usize = 256;
/// How often a server is asked that does not say how often it likes.
const USUAL: Duration = Duration::from_millis(500);
/// How often one is asked at most, and at least.
const LEAST: Duration = Duration::from_millis(50);
const LONGEST: Duration = Duration::from_secs(30);

struct WatchedTask {
    shown: String,
    key: TaskKey,
    due: Instant,
    /// What the listener knows of it.
    told: Option<Said>,
    failures: u32,
}

/// What makes a difference to a listener.
#[derive(PartialEq, Eq)]
struct Said {
    status: TaskStatus,
    message: Option<Box<str>>,
    questions: Option<Bytes>,
}

/// Takes the bell out again when the listener leaves.
struct TaskWatch {
    router: Arc<RequestRouter>,
    bell: Arc<TaskBell>,
    watched: Vec<WatchedTask>,
}

impl Drop for TaskWatch {
    fn drop(&mut self) {
        let mut state = self.router.tasks.lock();
        state.watchers.retain(|_, bells| {
            bells.retain(|bell| !Arc::ptr_eq(bell, &self.bell));
            !bells.is_empty()
        });
    }
}

/// The tasks that a listen names, each once. `None` where they are not a list of strings.
pub(crate) fn wanted_tasks(frame: &Frame) -> Option<Vec<String>> {
    let Some(list) = frame.param(&["notifications", "taskIds"]) else { return Some(Vec::new()) };
    if frame.raw(list).first() != Some(&b'[') {
        return None;
    }
    let ids: Option<Vec<String>> =
        elements(frame.bytes(), list).map(|at| string_at(frame.bytes(), at).map(|id| id.into_owned())).collect();
    let mut seen = HashSet::new();
    ids.map(|ids| ids.into_iter().filter(|id| seen.insert(id.clone())).collect())
}

impl RequestRouter {
    /// Listens to those of the tasks that are the caller's; gives them, and what is to be told of them.
    pub(crate) fn watch_tasks(
        self: &Arc<Self>,
        caller: &Caller,
        frame: &Frame,
        ids: Vec<String>,
    ) -> (Vec<String>, Option<mpsc::Receiver<Bytes>>) {
        let Caller::Modern(caller) = caller else { return (Vec::new(), None) };
        let declared = frame.slice(caller.capabilities);
        let knows = serde_json::from_slice(&declared).is_ok_and(|declared| task::declares_extension(&declared));
        let servers = self.pool.servers();
        let open = |shown: String| {
            let opened = self.tasks.ids().open(&shown, &caller.principal.name)?;
            let server = servers.named(&opened.server, false)?;
            let key = TaskKey::new(server.id, &opened.id);
            // What its client was told last, with the handle or by an answer: what differs from that is news.
            let known = self.tasks.lock().table.facts(&key, Instant::now()).cloned();
            let told = known.map(|facts| Said { status: facts.status, message: facts.message, questions: None });
            let (due, failures) = (Instant::now(), 0);
            caller.principal.may_use(&server.plan).then_some(WatchedTask { shown, key, due, told, failures })
        };
        let watched: Vec<WatchedTask> = ids.into_iter().filter(|_| knows).filter_map(open).take(MOST).collect();
        if watched.is_empty() {
            return (Vec::new(), None);
        }
        let honoured = watched.iter().map(|task| task.shown.clone()).collect();
        let bell = Arc::new(TaskBell::default());
        {
            let mut state = self.tasks.lock();
            for task in &watched {
                state.watchers.entry(task.key.clone()).or_default().push(Arc::clone(&bell));
            }
        }
        // One at a time: what a slow reader has not taken is not asked for again.
        let (sender, told) = mpsc::channel(1);
        let watch = TaskWatch { router: Arc::clone(self), bell, watched };
        self.runtime.spawn(watch.run(Arc::clone(caller), Bytes::copy_from_slice(&declared), sender));
        (honoured, Some(told))
    }
}

impl TaskWatch {
    async fn run(mut self, caller: Arc<ModernCaller>, declared: Bytes, sender: mpsc::Sender<Bytes>) {
        let router = Arc::clone(&self.router);
        tokio::select! {
            biased;
            () = sender.closed() => {}
            () = router.runtime.stop.cancelled() => {}
            () = self.watch(&caller, &declared, &sender) => {}
        }
    }

    async fn watch(&mut self, caller: &ModernCaller, declared: &[u8], sender: &mpsc::Sender<Bytes>) {
        let bell = Arc::clone(&self.bell);
        loop {
            let next = self.watched.iter().enumerate().min_by_key(|(_, task)| task.due);
            let Some((place, due)) = next.map(|(place, task)| (place, task.due)) else {
                // All are over. The listen goes on without them.
                return std::future::pending().await;
            };
            tokio::select! {
                biased;
                () = bell.rung.notified() => {
                    let rung = std::mem::take(&mut *bell.tasks.lock());
                    for task in self.watched.iter_mut().filter(|task| rung.contains(&task.key)) {
                        task.due = Instant::now();
                    }
                    continue;
                }
                () = tokio::time::sleep_until(due.into()) => {}
            }
            let Some(task) = self.watched.get_mut(place) else { continue };
            let answer = ask(&self.router, caller, declared, &task.shown).await;
            match answer {
                Some(ClientAnswer { payload, error: None }) => {
                    if let Some((facts, members, said)) = read(payload.to_bytes()) {
                        let pause = facts.poll.map_or(USUAL, Duration::from_millis).clamp(LEAST, LONGEST);
                        (task.due, task.failures) = (Instant::now() + pause, 0);
                        let is_news = task.told.as_ref() != Some(&said);
                        task.told = Some(said);
                        if facts.status.is_terminal() {
                            self.watched.swap_remove(place);
                        }
                        if is_news && sender.send(members).await.is_err() {
                            return;
                        }
                    } else {
                        task.due = Instant::now() + LONGEST;
                    }
                }
                // Its server does not know it any more, and never will again.
                Some(ClientAnswer { error: Some(code::INVALID_PARAMS), .. }) => _ = self.watched.swap_remove(place),
                Some(_) | None => {
                    task.failures = task.failures.saturating_add(1);
                    task.due = Instant::now() + (USUAL * task.failures).min(LONGEST);
                }
            }
        }
    }
}

/// What the client would be answered if it asked now.
async fn ask(router: &Arc<RequestRouter>, caller: &ModernCaller, declared: &[u8], shown: &str) -> Option<ClientAnswer> {
    let meta = format!(
        r#"{{"{}":"{}","{}":{}}}"#,
        meta::PROTOCOL_VERSION,
        caller.revision.as_str(),
        meta::CLIENT_CAPABILITIES,
        std::str::from_utf8(declared).ok()?
    );
    let params = format!(r#"{{"taskId":{},"_meta":{meta}}}"#, encode_string(shown));
    let id = RawId::from(1);
    let method = Method::Task(TaskMethod::Get);
    let frame = Frame::parse(request(&id, method.as_str(), Some(params.as_bytes())), &FrameLimits::default()).ok()?;
    let caller = ModernCaller {
        key: router.sessions.new_client(),
        names_its_calls: false,
        revision: caller.revision,
        principal: caller.principal.clone(),
        log_level: None,
        profile: None,
        capabilities: frame.param(&["_meta", meta::CLIENT_CAPABILITIES])?,
    };
    let mut exchange = Exchange::new(Arc::clone(router), Caller::Modern(Arc::new(caller)), frame, method, id);
    loop {
        match exchange.next().await {
            Reply::Answer(answer) | Reply::Forbidden { answer, .. } => return Some(answer),
            Reply::Cancelled => return None,
            Reply::Opened | Reply::Message(_) | Reply::Interrupted(_) => {}
        }
    }
}

/// What an answer says of a task: its facts, its members as a notification has them, and what of it makes a difference.
fn read(answer: Bytes) -> Option<(TaskFacts, Bytes, Said)> {
    let limits = FrameLimits { max_bytes: answer.len(), max_depth: 1_024, ..FrameLimits::default() };
    let frame = Frame::parse(answer, &limits).ok()?;
    let facts = TaskFacts::told(&frame, TaskSpelling::Extension)?;
    let result = frame.outcome()?;
    let bytes = frame.slice(result);
    let whole = ByteSpan::new(0, bytes.len());
    let mut edit = ObjectEdit::new(&bytes, whole);
    let questions = edit.get("inputRequests").map(|at| Bytes::copy_from_slice(at.of(&bytes)));
    edit.remove("resultType").remove("_meta");
    let mut patch = Patch::new();
    edit.finish(&mut patch);
    let said = Said { status: facts.status, message: facts.message.clone(), questions };
    Some((facts, patch.apply(&bytes), said))
}
