//! Running what a project offers: tools, prompts, providers and completions as processes.
//!
//! Every call has its worker, its private folder, its process group and its clock. What a script says while it runs goes to
//! the caller at once and before the answer; a question of it goes the same way and its answer comes by
//! [`ScriptRunner::answer`]. Dropping the stream of a call ends its script.
//!
//! Nothing here knows how a project is read or listed.

mod asks;
mod clock;
mod completion;
mod content;
mod elicit;
mod embed;
mod folder;
mod guard;
mod outcome;
mod process;
mod progress_pipe;
mod prompt;
mod providers;
mod resource;
mod roots;
mod script;
mod tool;
mod workers;

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tidings_proto::LogLevel;
use tidings_sync::Lock;
use tidings_upstream::{CallEvent, CallQueue, CallStream, LinkError, ProcessLauncher, call_channel};
use tidings_wire::{Frame, RawId, response};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::environment::{self, JsonTool, Variables};
use crate::{ProjectCompletion, ProjectHome, ProjectPrompt, ProjectTool};
use asks::OpenQuestions;
use folder::{CallFolder, CallFolders};
use guard::ScriptGuard;
use workers::WorkerPool;

pub use crate::environment::ScriptKit;
pub use outcome::{CANCELLED, ScriptFault};
pub use resource::ResourceReading;

/// How long the folder of a call outlives its answer.
const TIDY_AFTER: Duration = Duration::from_millis(1);

/// Who makes a call, and what it can be asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScriptCaller {
    /// Tells callers apart: each has its turn.
    pub key: u64,
    /// Whether it fills in forms.
    pub form: bool,
    /// Whether it visits addresses.
    pub url: bool,
    /// Whether it tells its roots.
    pub roots: bool,
    /// Whether it answers by sending its request again; then its key is of one request only.
    pub comes_back: bool,
}

/// Runs the scripts of one project.
pub struct ScriptRunner {
    home: Arc<ProjectHome>,
    launcher: Arc<ProcessLauncher>,
    tool_variables: Variables,
    provider_variables: Variables,
    workers: Arc<WorkerPool>,
    folders: CallFolders,
    guard: Arc<ScriptGuard>,
    asks: Arc<OpenQuestions>,
    /// The least that clients want to hear of, once one has said.
    level: Lock<Option<LogLevel>>,
    /// Callers that say they have roots and do not tell them.
    reticent: Lock<HashSet<u64>>,
    web: providers::WebProvider,
    tasks: TaskTracker,
    stop: CancellationToken,
}

/// What is to be run.
enum ScriptTask {
    Tool(Arc<ProjectTool>, Value),
    Prompt(Arc<ProjectPrompt>, Value),
    Resource(ResourceReading),
    Completion(Arc<ProjectCompletion>, Value),
}

/// The call that something is run for.
struct ScriptCall<'a> {
    caller: ScriptCaller,
    queue: &'a CallQueue,
    stop: &'a CancellationToken,
    /// Folders that are removed after the answer: nobody should wait for that.
    spent: Vec<CallFolder>,
}

impl ScriptRunner {
    /// A runner of this project. Must be called inside a runtime; nothing is started yet.
    pub fn new(home: Arc<ProjectHome>, launcher: Arc<ProcessLauncher>, kit: &ScriptKit) -> Arc<Self> {
        let json = JsonTool::find(&home.environment, kit);
        let temporary = home.environment.raw("TMPDIR").filter(|dir| !dir.is_empty()).map(PathBuf::from);
        let processes = home.environment.get("TIDINGS_TOOL_PROCESSES").and_then(|text| text.trim().parse().ok());
        let (tasks, stop) = (TaskTracker::new(), CancellationToken::new());
        let processes = processes.unwrap_or(guard::PROCESSES).max(1);
        Arc::new(Self {
            tool_variables: environment::base(&home, &home.settings.tool_environment, kit, &json),
            provider_variables: environment::for_providers(&home, kit, &json),
            workers: WorkerPool::new(home.settings.workers),
            folders: CallFolders::new(temporary.unwrap_or_else(folder::usual_place)),
            guard: ScriptGuard::new(launcher.mark(), processes, tasks.clone(), stop.clone()),
            asks: Arc::default(),
            level: Lock::default(),
            reticent: Lock::default(),
            web: providers::WebProvider::default(),
            tasks,
            stop,
            home,
            launcher,
        })
    }

    /// A runner of the same project that is closed by itself. All of them share the workers.
    pub fn another(&self) -> Arc<Self> {
        let (tasks, stop) = (TaskTracker::new(), CancellationToken::new());
        Arc::new(Self {
            home: Arc::clone(&self.home),
            launcher: Arc::clone(&self.launcher),
            tool_variables: self.tool_variables.clone(),
            provider_variables: self.provider_variables.clone(),
            workers: Arc::clone(&self.workers),
            folders: CallFolders::new(self.folders.parent()),
            guard: ScriptGuard::new(self.launcher.mark(), self.guard.limit(), tasks.clone(), stop.clone()),
            asks: Arc::default(),
            level: Lock::default(),
            reticent: Lock::default(),
            web: providers::WebProvider::default(),
            tasks,
            stop,
        })
    }

    /// Runs a tool. `params` are those of `tools/call`.
    pub fn call_tool(
        self: &Arc<Self>,
        id: u64,
        tool: Arc<ProjectTool>,
        params: Value,
        caller: ScriptCaller,
    ) -> CallStream {
        self.begin(id, caller, ScriptTask::Tool(tool, params))
    }

    /// Renders a prompt. `params` are those of `prompts/get`.
    pub fn get_prompt(
        self: &Arc<Self>,
        id: u64,
        prompt: Arc<ProjectPrompt>,
        params: Value,
        caller: ScriptCaller,
    ) -> CallStream {
        self.begin(id, caller, ScriptTask::Prompt(prompt, params))
    }

    /// Reads a resource through its provider; the stream ends with the content or an error.
    pub fn read_resource(self: &Arc<Self>, id: u64, reading: ResourceReading, caller: ScriptCaller) -> CallStream {
        self.begin(id, caller, ScriptTask::Resource(reading))
    }

    /// Completes an argument. `params` are those of `completion/complete`.
    pub fn complete(
        self: &Arc<Self>,
        id: u64,
        completion: Arc<ProjectCompletion>,
        params: Value,
        caller: ScriptCaller,
    ) -> CallStream {
        self.begin(id, caller, ScriptTask::Completion(completion, params))
    }

    /// A client answered a question of a script.
    pub fn answer(&self, frame: &Frame) {
        self.asks.answer(frame);
    }

    /// The least that clients want to hear of. Until one says so, `MCPBASH_LOG_LEVEL` holds.
    pub fn set_level(&self, level: LogLevel) {
        *self.level.lock() = Some(level);
    }

    /// The project's own provider of a URI, by its scheme.
    pub(crate) fn own_provider(&self, uri: &str) -> Option<String> {
        let scheme = uri.split_once(':').map(|(scheme, _)| scheme)?;
        crate::make::ProviderNames(&self.home).has_own(scheme).then(|| scheme.to_owned())
    }

    /// How often a followed resource is read.
    pub(crate) fn resource_poll(&self) -> Option<std::time::Duration> {
        self.home.settings.resource_poll
    }

    /// How long a followed resource may take to be read.
    pub(crate) fn subscribe_timeout(&self) -> std::time::Duration {
        self.home.settings.subscribe_timeout
    }

    /// Fails, with a code and words for the caller, where the project's policy does not let a tool run.
    pub async fn permit(&self, tool: &ProjectTool) -> Result<(), ScriptFault> {
        crate::policy::check(&self.home, &self.launcher, tool).await
    }

    /// The variables that a tool is started with, but for those of the single call.
    pub fn tool_environment(&self) -> impl Iterator<Item = (&std::ffi::OsStr, &std::ffi::OsStr)> {
        self.tool_variables.iter().map(|(name, value)| (name.as_os_str(), value.as_os_str()))
    }

    /// Ends every script and waits until nothing of them is left.
    pub async fn close(&self) {
        self.stop.cancel();
        self.tasks.close();
        // Never shorter than the grace of a script, or it would be killed while it may still end by itself.
        let patience = self.home.settings.shutdown_timeout.max(tool::GRACE * 2);
        if tokio::time::timeout(patience, self.tasks.wait()).await.is_err() {
            tracing::warn!(project = %self.home.root.display(), "scripts did not end in time; they are killed");
        }
        // What left its process group is found by its mark.
        self.guard.sweep_all().await;
    }

    fn begin(self: &Arc<Self>, id: u64, caller: ScriptCaller, task: ScriptTask) -> CallStream {
        let (queue, stream) = call_channel();
        let stop = self.stop.child_token();
        // Held by the stream: whoever drops it has cancelled the call.
        let abandoned = stop.clone().drop_guard();
        let runner = Arc::clone(self);
        self.tasks.spawn(async move {
            let mut call = ScriptCall { caller, queue: &queue, stop: &stop, spent: Vec::new() };
            let answer = runner.perform(task, &mut call).await;
            let spent = call.spent;
            // The answer first; tidying up may take longer than the call.
            queue.finish(event(id, answer));
            if !spent.is_empty() {
                // Later and elsewhere: first the answer goes out.
                tokio::time::sleep(TIDY_AFTER).await;
                let tidy_up = move || {
                    drop(spent);
                    // The next call finds a folder that is ready.
                    runner.folders.prepare();
                };
                let _ = tokio::task::spawn_blocking(tidy_up).await;
            }
        });
        stream.keeping(abandoned)
    }

    async fn perform(&self, task: ScriptTask, call: &mut ScriptCall<'_>) -> Result<Value, ScriptFault> {
        let _slot = tokio::select! {
            biased;
            () = call.stop.cancelled() => return Err(cancelled()),
            turn = self.workers.turn(call.caller.key) => turn.map_err(|crowded| ScriptFault::internal(crowded.to_string()))?,
        };
        match task {
            // Boxed, because the futures are large and only one of them is used.
            ScriptTask::Tool(tool, params) => Box::pin(self.run_tool(&tool, &params, call)).await,
            ScriptTask::Prompt(prompt, params) => Box::pin(self.render(&prompt, &params, call)).await,
            ScriptTask::Resource(reading) => Box::pin(self.read(&reading, call)).await,
            ScriptTask::Completion(completion, params) => Box::pin(self.suggest(&completion, &params, call)).await,
        }
    }

    fn least_level(&self) -> LogLevel {
        let asked = *self.level.lock();
        asked.unwrap_or_else(|| {
            let text = self.home.environment.get("MCPBASH_LOG_LEVEL").unwrap_or("info").trim().to_ascii_lowercase();
            match text.as_str() {
                "true" | "1" => LogLevel::Debug,
                other => LogLevel::parse(other).unwrap_or(LogLevel::Info),
            }
        })
    }
}

fn cancelled() -> ScriptFault {
    ScriptFault::new(CANCELLED, "Tool cancelled")
}

fn event(id: u64, answer: Result<Value, ScriptFault>) -> CallEvent {
    let bytes = match answer {
        Ok(result) => response(&RawId::from(id), result.to_string().as_bytes()),
        Err(fault) => fault.respond(id),
    };
    // Only something enormous, or nested without end, is no message.
    let frame = progress_pipe::framed(bytes).or_else(|| {
        progress_pipe::framed(
            ScriptFault::internal("the result is too large or nested too deep to be sent").respond(id),
        )
    });
    frame.map_or(CallEvent::Failed(LinkError::Lost), CallEvent::Response)
}
