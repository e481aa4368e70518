//! One call of a tool, from its arguments to its result.

use std::ffi::OsString;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use tidings_proto::meta;
use tidings_wire::RawId;
use tokio::time::Instant;

use super::asks::AskedQuestion;
use super::clock::{CallClock, TimeBounds};
use super::elicit::{self, ElicitOutcome, QuestionWatch};
use super::folder::{CallFolder, ERROR, RESOURCES, STREAM, ToolFolder};
use super::outcome::{self, FinishedScript, ScriptEnd, ScriptFault};
use super::process::{self, RunningScript, ScriptEvent, ScriptJob};
use super::progress_pipe::{LineNotifier, PipedLine, ProgressPipe};
use super::roots::{self, ClientRoot};
use super::script::unstartable;
use super::{ScriptCall, ScriptRunner, embed};
use crate::ProjectTool;
use crate::environment::Variables;

/// Between asking a script to end and ending it.
pub(super) const GRACE: Duration = Duration::from_secs(1);
/// How long a client may take to tell its roots.
const ROOTS: Duration = Duration::from_secs(2);
/// The same for one that answers with another request.
const ROOTS_OF_RETRY: Duration = Duration::from_secs(30);
/// How many callers are remembered that do not.
const RETICENT: usize = 1_024;
/// The longest value that the kernel takes in an environment is 128 KiB with its name.
const LONGEST: usize = 120 << 10;
/// What a tool leaves in files is read up to this size.
const LEFT: u64 = 1 << 20;
/// How much of standard error is shown, unless `MCPBASH_TOOL_STDERR_TAIL_LIMIT` says otherwise.
const TAIL: usize = 4 << 10;

const CANCEL: &str = "cancelled";

impl ScriptRunner {
    pub(super) async fn run_tool(
        &self,
        tool: &ProjectTool,
        params: &Value,
        call: &mut ScriptCall<'_>,
    ) -> Result<Value, ScriptFault> {
        let settings = &self.home.settings;
        let asked = params["timeoutSecs"].as_f64().filter(|seconds| (0.0..1e6).contains(seconds));
        let mut bounds = TimeBounds::new(&tool.timeouts, settings, asked.map(Duration::from_secs_f64));
        if asked.is_some() {
            // A caller may not buy more than the project allows.
            bounds.allowed = bounds.allowed.min(bounds.most);
        }
        // Before the script is started: its environment names them.
        let roots = self.roots(call).await;
        let ToolFolder { folder, mut progress_pipe } = self.folders.tool_folder().map_err(|error| no_folder(&error))?;
        let asks = call.caller.form || call.caller.url;
        // Made before the script runs, so that a question it asks at once is not missed.
        let letterbox = asks.then(|| QuestionWatch::new(&folder)).transpose().map_err(|error| no_folder(&error))?;
        let variables = self.variables(tool, params, &roots, asks, &folder).map_err(|error| no_folder(&error))?;
        let job = ScriptJob {
            command: process::command(&tool.script, &self.home.environment)
                .map_err(|error| unstartable(&tool.script, &error))?,
            variables,
            cwd: self.home.root.clone(),
            output_limit: settings.output_limit,
            stderr_limit: settings.stderr_limit,
            stderr_tail: self.stderr_tail(),
        };
        let running = RunningScript::start(&self.launcher, &self.guard, &job);
        let mut running = running.map_err(|error| unstartable(&tool.script, &error))?;
        let mut conversation = ToolConversation {
            herald: LineNotifier::new(
                token(params),
                self.least_level(),
                settings.progress_per_minute,
                settings.logs_per_minute,
            ),
            clock: CallClock::new(bounds, Instant::now()),
            letterbox,
            question: None,
        };
        let end = self.attend(&mut running, &mut progress_pipe, &mut conversation, &folder, call).await;
        // Before the answer: whatever it said.
        while let Some(line) = progress_pipe.line_now() {
            conversation.herald.say(&line, call.queue, Instant::now());
        }
        let stderr = if self.captures_stderr() { running.stderr_tail() } else { String::new() };
        let result = outcome::judge(&FinishedScript {
            end,
            stdout: &running.output,
            stderr: &stderr,
            // Read after the end, when nobody writes to it any more.
            error: &left(&folder.join(ERROR)),
            bounds,
            hint: tool.timeouts.hint.as_deref(),
            output_schema: tool.definition.get("outputSchema"),
        });
        let result = result.map(|result| self.with_files(result, &left(&folder.join(RESOURCES)), &roots));
        // Kept until the answer is out; removing it takes longer than many scripts run.
        call.spent.push(folder);
        result
    }

    /// Stays with a running tool until it ends or is ended.
    async fn attend(
        &self,
        running: &mut RunningScript,
        progress_pipe: &mut ProgressPipe,
        conversation: &mut ToolConversation,
        folder: &CallFolder,
        call: &ScriptCall<'_>,
    ) -> ScriptEnd {
        let settings = &self.home.settings;
        let grace = GRACE.min(settings.shutdown_timeout);
        loop {
            let deadline = conversation.clock.next();
            tokio::select! {
                // A cancellation and a deadline go before anything that the script says.
                biased;
                () = call.stop.cancelled() => {
                    // For those who look before they are told.
                    let _ = folder.write(CANCEL, b"");
                    running.put_down(grace).await;
                    return ScriptEnd::Cancelled;
                }
                () = tokio::time::sleep_until(deadline) => {
                    // Progress or a question may have moved the deadline since the sleep began.
                    if let Some(reason) = conversation.clock.passed(Instant::now()) {
                        let _ = folder.write(CANCEL, b"");
                        running.put_down(grace).await;
                        return ScriptEnd::TimedOut(reason);
                    }
                }
                line = progress_pipe.line() => conversation.hear(&line, call),
                question = next_question(&mut conversation.letterbox, folder) => {
                    conversation.ask(&question, folder, call, self);
                }
                answer = next_answer(&mut conversation.question) => conversation.pass_on(answer, folder),
                event = running.next() => {
                    let over = match event {
                        ScriptEvent::Exited(status) => match running.finish().await {
                            None => return ScriptEnd::Exited(process::exit_code(status)),
                            Some(over) => over,
                        },
                        over => over,
                    };
                    // It broke a bound: there is no grace.
                    running.kill_all().await;
                    return match over {
                        ScriptEvent::TooMuchStderr => ScriptEnd::TooMuchStderr(settings.stderr_limit),
                        ScriptEvent::TooManyProcesses => ScriptEnd::TooManyProcesses(self.guard.limit()),
                        _ => ScriptEnd::TooMuchOutput(settings.output_limit),
                    };
                }
            }
        }
    }

    /// What the tool finds in its environment.
    fn variables(
        &self,
        tool: &ProjectTool,
        params: &Value,
        roots: &[ClientRoot],
        asks: bool,
        folder: &CallFolder,
    ) -> std::io::Result<Variables> {
        let mut all = self.tool_variables.clone();
        let mut set = |name: &str, value: OsString| _ = all.insert(name.into(), value);
        set("MCP_TOOL_NAME", tool.name.as_str().into());
        set("MCP_TOOL_PATH", tool.script.clone().into());
        // Whatever the project says, the kernel would refuse to start the script.
        let threshold = self.home.settings.payload_threshold.min(LONGEST);
        let object = |value: &Value| if value.is_object() { value.to_string() } else { "{}".to_owned() };
        for (stem, text) in [
            ("ARGS", object(&params["arguments"])),
            ("META", object(&params["_meta"])),
            ("METADATA", object(&tool.metadata)),
        ] {
            let in_file = text.len() > threshold;
            if in_file {
                let path = folder.write(&stem.to_ascii_lowercase(), text.as_bytes())?;
                set(&format!("MCP_TOOL_{stem}_FILE"), path.into());
            }
            // Empty, but set: scripts under `set -u` look at both.
            set(&format!("MCP_TOOL_{stem}_JSON"), if in_file { OsString::new() } else { text.into() });
        }
        let stream = folder.join(STREAM);
        set("MCP_PROGRESS_STREAM", stream.clone().into());
        set("MCP_LOG_STREAM", stream.into());
        set("MCP_PROGRESS_TOKEN", token(params).as_ref().map(plain).unwrap_or_default().into());
        set("MCP_TOOL_ERROR_FILE", folder.join(ERROR).into());
        set("MCP_TOOL_RESOURCES_FILE", folder.join(RESOURCES).into());
        set("MCP_CANCEL_FILE", folder.join(CANCEL).into());
        for (name, value) in roots::variables(roots) {
            // Roots by the thousand fit into no environment.
            if value.len() <= LONGEST {
                set(name, value.into());
            }
        }
        set("MCP_ELICIT_SUPPORTED", if asks { "1" } else { "0" }.into());
        if asks {
            set("MCP_ELICIT_REQUEST_FILE", folder.join(elicit::REQUEST).into());
            set("MCP_ELICIT_RESPONSE_FILE", folder.join(elicit::RESPONSE).into());
        }
        Ok(all)
    }

    /// The caller's roots if it tells them, else the project's.
    async fn roots(&self, call: &ScriptCall<'_>) -> Vec<ClientRoot> {
        let of_project = || roots::of_project(&self.home);
        let reticent = |set: &std::collections::HashSet<u64>| set.contains(&call.caller.key);
        let lock = || self.reticent.lock();
        if !call.caller.roots || reticent(&lock()) {
            return of_project();
        }
        let Some(mut question) = self.asks.ask(call.queue, "roots/list", None) else { return of_project() };
        // A client of the modern era answers by sending its request again, which takes longer than an answer on an open stream.
        let patience = if call.caller.comes_back { ROOTS_OF_RETRY } else { ROOTS };
        let answer = tokio::select! {
            // The call is over; the caller of this notices by itself.
            () = call.stop.cancelled() => return Vec::new(),
            answer = tokio::time::timeout(patience, question.answered()) => answer,
        };
        match answer {
            Ok(answer) => answer.ok().and_then(|answer| roots::of_client(&answer)).unwrap_or_else(of_project),
            Err(_) => {
                // The client must not show a question that nobody waits for.
                question.withdraw(call.queue);
                // Slow by its nature: it is asked again with the next call.
                if call.caller.comes_back {
                    return of_project();
                }
                let mut reticent = lock();
                // Forgetting costs each of them one more wait.
                if reticent.len() >= RETICENT {
                    reticent.clear();
                }
                reticent.insert(call.caller.key);
                drop(reticent);
                of_project()
            }
        }
    }

    fn with_files(&self, mut result: Value, named: &[u8], roots: &[ClientRoot]) -> Value {
        if named.trim_ascii().is_empty() {
            return result;
        }
        let allowed: Vec<PathBuf> =
            roots.iter().map(|root| root.path.clone()).chain([self.home.root.clone()]).collect();
        let blocks = embed::blocks(named, &self.home.root, &allowed, self.home.settings.resource_limit);
        if let Some(content) = result["content"].as_array_mut() {
            content.extend(blocks);
        }
        result
    }

    fn stderr_tail(&self) -> usize {
        let text = self.home.environment.get("MCPBASH_TOOL_STDERR_TAIL_LIMIT");
        text.and_then(|text| text.trim().parse().ok()).unwrap_or(TAIL).min(LEFT as usize)
    }

    fn captures_stderr(&self) -> bool {
        self.home.environment.get("MCPBASH_TOOL_STDERR_CAPTURE").is_none_or(|text| text.trim() != "false")
    }
}

/// What goes on between a running tool and its caller.
struct ToolConversation {
    herald: LineNotifier,
    clock: CallClock,
    letterbox: Option<QuestionWatch>,
    question: Option<AskedQuestion>,
}

impl ToolConversation {
    fn hear(&mut self, line: &[u8], call: &ScriptCall<'_>) {
        let now = Instant::now();
        if self.herald.say(line, call.queue, now) == PipedLine::Progress {
            self.clock.progress(now);
        }
    }

    fn ask(&mut self, question: &Value, folder: &CallFolder, call: &ScriptCall<'_>, runner: &ScriptRunner) {
        // A new question means that the script gave up the old one.
        if let Some(old) = self.question.take() {
            old.withdraw(call.queue);
        }
        let answer = match elicit::read(question, &call.caller) {
            ElicitOutcome::Answer(answer) => answer,
            ElicitOutcome::Ask(params) => match runner.asks.ask(call.queue, "elicitation/create", Some(&params)) {
                Some(asked) => {
                    self.clock.pause(Instant::now());
                    self.question = Some(asked);
                    return;
                }
                // Nobody can be asked any more; the script hears that, instead of waiting.
                None => elicit::answered(Err(Value::Null)),
            },
        };
        self.clock.resume(Instant::now());
        respond(folder, &answer);
    }

    fn pass_on(&mut self, answer: Result<Value, Value>, folder: &CallFolder) {
        self.question = None;
        self.clock.resume(Instant::now());
        respond(folder, &elicit::answered(answer));
    }
}

fn respond(folder: &CallFolder, answer: &Value) {
    if let Err(error) = folder.put(elicit::RESPONSE, answer.to_string().as_bytes()) {
        tracing::warn!(%error, "an answer did not reach its script");
    }
}

async fn next_question(letterbox: &mut Option<QuestionWatch>, folder: &CallFolder) -> Value {
    match letterbox {
        Some(letterbox) => letterbox.next(folder).await,
        None => std::future::pending().await,
    }
}

async fn next_answer(question: &mut Option<AskedQuestion>) -> Result<Value, Value> {
    match question {
        Some(question) => question.answered().await,
        None => std::future::pending().await,
    }
}

/// The token as a script writes it: without quotes.
fn plain(token: &RawId) -> String {
    // A number has no quotes.
    serde_json::from_str::<String>(token.as_str()).unwrap_or_else(|_| token.as_str().to_owned())
}

fn token(params: &Value) -> Option<RawId> {
    let token = params["_meta"].get(meta::PROGRESS_TOKEN)?;
    RawId::from_raw(token.to_string().as_bytes())
}

/// What a tool left in a file; nothing else that it may have put there is opened.
fn left(path: &Path) -> Vec<u8> {
    let mut text = Vec::new();
    // Not through a link: a script must not have other files read in its place.
    if path.symlink_metadata().is_ok_and(|found| found.is_file() && found.len() > 0)
        && let Ok(file) = std::fs::File::open(path)
    {
        let _ = file.take(LEFT).read_to_end(&mut text);
    }
    text
}

fn no_folder(error: &std::io::Error) -> ScriptFault {
    ScriptFault::internal(format!("no folder for the call can be made (TMPDIR): {error}"))
}
