//! Child processes that never outlive the gateway.
//!
//! Each child leads its own process group, which is ended as a whole. Two things hold even when the gateway is killed
//! without warning: the child starts through a re-execution of this program that asks the kernel to kill it when its
//! parent dies, and a watchdog process, whose input closes when the gateway is gone, kills every group that is left.
//!
//! Short-lived children are started without that re-execution, which costs more than they do. All children carry the
//! launcher's mark, by which those are found that left their group: by the watchdog, and when a server ends.

use std::collections::VecDeque;
use std::io::{BufRead, Write};
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tidings_sync::Lock;
use tokio::io::BufReader;
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::LinkError;
use crate::error;
use crate::log_budget::{LineAdmission, LogBudget};
use crate::spec::StdioSpec;
use crate::stdio::lines::BoundedLines;
use crate::stdio::marked_processes;
use crate::stdio::marked_processes::StragglerSweep;
use crate::stdio::sandbox;

/// How long a server may take to end after its input closed, and again after SIGTERM.
const GRACE: Duration = Duration::from_millis(1_500);
/// How many bytes of a line on standard error are logged; the rest is cut.
const LINE: usize = 8 << 10;
/// How many bytes of its standard error are logged each second, and how long is waited after a piece that is not.
const STDERR: usize = 64 << 10;
const BREATH: Duration = Duration::from_millis(5);
/// How many lines of standard error are kept for error messages, and how many characters of each.
const LAST_WORDS: usize = 8;
const WORDS: usize = 2_000;
/// How long a process that was being started when the gateway died takes to become what it is.
const SETTLED: Duration = Duration::from_millis(100);
/// How long the last lines of a process that has ended are waited for.
const LAST_LINES: Duration = Duration::from_millis(200);
/// Counts how deep gateways are nested, and how deep they may be: a server that starts its own gateway would never end.
const DEPTH: &str = "TIDINGS_DEPTH";
const DEEPEST: u32 = 4;

/// How long the commands of the watchdog may take.
const LAST_COMMANDS: Duration = Duration::from_secs(30);

type Spawned = oneshot::Sender<std::io::Result<Child>>;

/// Starts child processes, each in a group of its own that ends with the gateway.
pub struct ProcessLauncher {
    helper: Option<PathBuf>,
    jobs: mpsc::Sender<(Command, Spawned)>,
    watchdog: Lock<Option<std::process::ChildStdin>>,
    mark: String,
    servers: AtomicU64,
    stragglers: StragglerSweep,
}

impl ProcessLauncher {
    /// `helper` is this program, which must route its hidden subcommands to [`exec_helper`] and [`watchdog_helper`].
    /// Without it (in tests of parts) children only get their process group. Must be called inside a runtime.
    pub fn new(helper: Option<PathBuf>) -> Arc<Self> {
        let (jobs, inbox) = mpsc::channel::<(Command, Spawned)>();
        let runtime = tokio::runtime::Handle::current();
        // The kernel's parent-death signal follows the *thread* that forked, so one thread that lives as long as the
        // process does all the forking.
        std::thread::Builder::new()
            .name("spawner".into())
            .spawn(move || {
                // Spawning registers the pipes with the runtime, which this thread is no part of.
                let _context = runtime.enter();
                for (mut command, reply) in inbox {
                    // Whoever asked may have gone away; then the child is dropped, and killed with that.
                    let _ = reply.send(command.spawn());
                }
            })
            .map_or_else(|error| tracing::error!(%error, "no thread to start servers from"), drop);
        // Process ids are reused, so the time is part of the mark.
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        let mark = format!("{}-{:x}", std::process::id(), now.as_nanos());
        let (servers, stragglers) = (AtomicU64::new(1), StragglerSweep::default());
        Arc::new(Self { helper, jobs, watchdog: Lock::new(None), mark, servers, stragglers })
    }

    /// The program that [`exec_helper`] and [`watchdog_helper`] are reached through.
    pub fn helper(&self) -> Option<&Path> {
        self.helper.as_deref()
    }

    /// What children that are started by others must have in [`marked_processes::MARK`], followed by a dot and what tells them apart.
    pub fn mark(&self) -> &str {
        &self.mark
    }

    /// Takes charge of a process group that was started by others with the launcher's mark: it dies with the gateway, however
    /// that ends.
    pub fn adopt(self: &Arc<Self>, group: Pid) -> AdoptedGroup {
        match cfg!(target_os = "linux") {
            // Found by its mark; that there is somebody to look for it is enough.
            true => self.with_watchdog(|_| Ok(())),
            false => self.tell_watchdog(&format!("+{}", group.as_raw_nonzero())),
        }
        AdoptedGroup { launcher: Arc::clone(self), group }
    }

    /// Starts a server. `marked`: whether all that it starts ends with it, wherever that went.
    pub(crate) async fn spawn(
        self: &Arc<Self>,
        name: &str,
        spec: &StdioSpec,
        marked: bool,
    ) -> Result<ChildProcess, LinkError> {
        let fail = |reason: String| LinkError::Spawn { program: spec.program.clone(), reason };
        // Told apart here: the system has the same words for a missing folder and a missing program.
        if let Some(cwd) = spec.cwd.as_deref().filter(|cwd| !cwd.is_dir()) {
            return Err(fail(format!("there is no folder {}; make it, or correct `cwd`", cwd.display())));
        }
        if which(&spec.program, spec.cwd.as_deref()).is_none() {
            return Err(fail(error::NOT_FOUND.into()));
        }
        if let Some(sandbox) = &spec.sandbox {
            // The helper takes the rights away; without it they would all stay.
            if self.helper.is_none() {
                return Err(fail("there is nobody to put it into its sandbox".into()));
            }
            sandbox.prepare().map_err(|error| fail(format!("its folder {}: {error}", sandbox.folder.display())))?;
        }
        let depth = std::env::var(DEPTH).ok().and_then(|depth| depth.parse().ok()).unwrap_or(0);
        // A gateway in its own configuration would start itself until the machine is full.
        if depth >= DEEPEST {
            return Err(fail(format!(
                "gateways are nested {depth} deep ({DEPTH}); does a server start its own gateway?"
            )));
        }
        let (reply, spawned) = oneshot::channel();
        let mark = marked.then(|| format!("{}.server-{}", self.mark, self.servers.fetch_add(1, Ordering::Relaxed)));
        self.jobs
            .send((self.command(spec, depth, mark.as_deref()), reply))
            .map_err(|_| fail("the spawner has ended".into()))?;
        let mut child = spawned.await.map_err(|e| fail(e.to_string()))?.map_err(|e| fail(e.to_string()))?;
        let group = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        if let Some(group) = group {
            // After the start: the group does not exist before it, and until now the parent-death signal holds.
            self.tell_watchdog(&format!("+{}", group.as_raw_nonzero()));
        }
        let words = StderrTail::default();
        let stderr = child.stderr.take();
        let stderr = stderr.map(|stderr| tokio::spawn(log_lines(name.to_owned(), stderr, words.clone())));
        Ok(ChildProcess { child, group, mark, words, stderr, code: None, launcher: Arc::clone(self) })
    }

    fn command(&self, spec: &StdioSpec, depth: u32, mark: Option<&str>) -> Command {
        let mut command = match &self.helper {
            Some(helper) => {
                let mut command = Command::new(helper);
                command.arg("__exec").arg(std::process::id().to_string());
                if let Some(sandbox) = &spec.sandbox {
                    command.arg(sandbox::OPTION).arg(serde_json::json!(sandbox).to_string());
                }
                command.arg(&spec.program);
                command
            }
            None => Command::new(&spec.program),
        };
        command
            .args(&spec.args)
            // A command sees a small environment and not the keys of others (ADR 32).
            .env_clear()
            .envs(spec.inherit_env.variables())
            // After what is inherited, so that the description wins.
            .envs(spec.env.iter().map(|(k, v)| (k, v)))
            .envs(spec.sandbox.iter().flat_map(|sandbox| sandbox.variables(&spec.env)))
            .env(DEPTH, (depth + 1).to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            // For a start that is given up before anything looks after the child.
            .kill_on_drop(true);
        if let Some(cwd) = &spec.cwd {
            command.current_dir(cwd);
        }
        if let Some(mark) = mark {
            // Last: neither what is inherited nor the description may change the mark.
            command.env(marked_processes::MARK, mark);
        }
        command
    }

    /// Has a command run if this process is killed, for what is not in a process group of ours.
    pub(crate) fn at_death(&self, command: &[String]) {
        self.tell_watchdog(&format!("!{}", serde_json::json!(command)));
    }

    /// Takes back a command that was to run when the gateway dies.
    pub(crate) fn not_at_death(&self, command: &[String]) {
        self.tell_watchdog(&format!("~{}", serde_json::json!(command)));
    }

    /// Looks after a short-lived child that leads a group of its own: it ends with the guard, or with this process.
    pub(crate) fn guard(self: &Arc<Self>, child: &Child) -> Option<GroupGuard> {
        let group = child.id().and_then(|id| Pid::from_raw(id.cast_signed()))?;
        self.tell_watchdog(&format!("+{}", group.as_raw_nonzero()));
        Some(GroupGuard { group, launcher: Arc::clone(self) })
    }

    fn tell_watchdog(&self, line: &str) {
        self.with_watchdog(|pipe| writeln!(pipe, "{line}"));
    }

    fn with_watchdog(&self, tell: impl FnOnce(&mut std::process::ChildStdin) -> std::io::Result<()>) {
        let Some(helper) = &self.helper else { return };
        let mut watchdog = self.watchdog.lock();
        // Started with the first child: a gateway without processes needs none.
        if watchdog.is_none() {
            *watchdog = start_watchdog(helper, &self.mark);
        }
        if let Some(pipe) = watchdog.as_mut()
            // A short line for a process that does nothing but read: this does not block.
            && tell(pipe).is_err()
        {
            tracing::warn!("the watchdog has ended; it is started again with the next server");
            *watchdog = None;
        }
    }
}

/// A group that the watchdog looks after until this is dropped.
pub struct AdoptedGroup {
    launcher: Arc<ProcessLauncher>,
    group: Pid,
}

impl Drop for AdoptedGroup {
    fn drop(&mut self) {
        if !cfg!(target_os = "linux") {
            self.launcher.tell_watchdog(&format!("-{}", self.group.as_raw_nonzero()));
        }
    }
}

fn start_watchdog(helper: &Path, mark: &str) -> Option<std::process::ChildStdin> {
    use std::os::unix::process::CommandExt as _;
    let started = std::process::Command::new(helper)
        .arg("__watchdog")
        .arg(mark)
        // The watchdog must not carry a mark itself, or it would kill itself first.
        .env_remove(marked_processes::MARK)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        // In a group of its own, so that a signal to the terminal's group does not end it before its work is done.
        .process_group(0)
        .spawn();
    match started {
        Ok(mut child) => {
            let pipe = child.stdin.take();
            // It ends by itself when the pipe closes; waiting only collects its status.
            std::thread::spawn(move || child.wait());
            pipe
        }
        Err(error) => {
            tracing::warn!(%error, "no watchdog: servers that ignore the end of their input may outlive a kill");
            None
        }
    }
}

/// The hidden subcommand `__exec PARENT [--sandbox JSON] PROGRAM ARGS…`: asks to die with the parent, then becomes the program.
pub fn exec_helper(mut args: impl Iterator<Item = std::ffi::OsString>) -> std::io::Error {
    use std::os::unix::process::CommandExt as _;
    let invalid = |text: &str| std::io::Error::new(std::io::ErrorKind::InvalidInput, text);
    let Some(parent) = args.next().and_then(|a| a.to_str()?.parse::<i32>().ok()) else {
        return invalid("no parent");
    };
    let Some(mut program) = args.next() else { return invalid("no program") };
    let mut confined = None;
    if program == sandbox::OPTION {
        let sandbox = args.next().and_then(|text| serde_json::from_str::<sandbox::SandboxSpec>(text.to_str()?).ok());
        let (Some(sandbox), Some(next)) = (sandbox, args.next()) else { return invalid("no sandbox, or no program") };
        (confined, program) = (Some(sandbox), next);
    }
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::set_parent_process_death_signal(Some(Signal::KILL)) {
        return error.into();
    }
    // The parent may have died before the signal was asked for.
    if rustix::process::getppid().map(|p| p.as_raw_nonzero().get()) != Some(parent) {
        return invalid("the parent has ended");
    }
    let args: Vec<std::ffi::OsString> = args.collect();
    if let Some(sandbox) = confined
        && let Err(error) = sandbox::enter(&sandbox, Path::new(&program), &args)
    {
        return error;
    }
    // Replaces this process, so the child has the pid that the parent knows.
    std::process::Command::new(program).args(args).exec()
}

/// The hidden subcommand `__watchdog MARK`: when its input ends, kills every process group that was announced and not
/// withdrawn, runs the commands that were, and kills every process that carries the mark.
pub fn watchdog_helper(mut args: impl Iterator<Item = std::ffi::OsString>) {
    let mark = args.next().and_then(|mark| mark.into_string().ok());
    let mut groups = std::collections::HashSet::new();
    let mut commands = std::collections::HashSet::new();
    for line in std::io::stdin().lock().lines() {
        let Ok(line) = line else { break };
        if let Some(group) = line.strip_prefix('+').and_then(|g| g.parse::<i32>().ok()) {
            groups.insert(group);
        } else if let Some(group) = line.strip_prefix('-').and_then(|g| g.parse::<i32>().ok()) {
            groups.remove(&group);
        } else if let Some(command) = line.strip_prefix('!') {
            commands.insert(command.to_owned());
        } else if let Some(command) = line.strip_prefix('~') {
            commands.remove(command);
        }
    }
    for group in groups {
        if let Some(pid) = Pid::from_raw(group) {
            let _ = kill_process_group(pid, Signal::KILL);
        }
    }
    run_last(commands.iter().filter_map(|command| serde_json::from_str(command).ok()));
    let Some(mark) = mark.filter(|mark| !mark.is_empty()) else { return };
    // The mark of another launcher may begin with the same digits.
    let is_ours = |found: &str| found.strip_prefix(mark.as_str()).is_some_and(|rest| rest.starts_with('.'));
    marked_processes::kill_marked(is_ours);
    // One may have been forked, and not yet marked, when the gateway died.
    std::thread::sleep(SETTLED);
    marked_processes::kill_marked(is_ours);
}

/// Runs commands side by side, and kills those that do not end.
fn run_last(commands: impl Iterator<Item = Vec<String>>) {
    let start = |command: Vec<String>| {
        let (program, args) = command.split_first()?;
        let mut last = std::process::Command::new(program);
        last.args(args).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().ok()
    };
    let mut running: Vec<_> = commands.filter_map(start).collect();
    let since = std::time::Instant::now();
    while since.elapsed() < LAST_COMMANDS {
        running.retain_mut(|child| matches!(child.try_wait(), Ok(None)));
        if running.is_empty() {
            return;
        }
        // By polling: the watchdog has no runtime, and its parent is dead.
        std::thread::sleep(Duration::from_millis(20));
    }
    running.iter_mut().for_each(|child| drop(child.kill()));
}

/// The end of what a process says beside the protocol.
#[derive(Clone, Default)]
pub(crate) struct StderrTail(Arc<Lock<VecDeque<String>>>);

impl StderrTail {
    pub(crate) fn add(&self, mut text: String) {
        if let Some((end, _)) = text.char_indices().nth(WORDS) {
            text.truncate(end);
            text.push('…');
        }
        let mut words = self.0.lock();
        if words.len() == LAST_WORDS {
            words.pop_front();
        }
        words.push_back(text);
    }

    pub(crate) fn last(&self) -> Option<String> {
        let words = self.0.lock();
        (!words.is_empty()).then(|| words.iter().cloned().collect::<Vec<_>>().join("\n"))
    }
}

/// Kills a group when dropped.
pub(crate) struct GroupGuard {
    group: Pid,
    launcher: Arc<ProcessLauncher>,
}

impl Drop for GroupGuard {
    fn drop(&mut self) {
        // Before it is withdrawn: if we die in between, the watchdog kills it once more, which does no harm.
        let _ = kill_process_group(self.group, Signal::KILL);
        self.launcher.tell_watchdog(&format!("-{}", self.group.as_raw_nonzero()));
    }
}

/// A running child with its whole process group.
pub(crate) struct ChildProcess {
    child: Child,
    group: Option<Pid>,
    /// What all that it starts carries in the environment, until it has been looked for.
    mark: Option<String>,
    words: StderrTail,
    /// Reads its standard error to the end.
    stderr: Option<JoinHandle<()>>,
    code: Option<i32>,
    launcher: Arc<ProcessLauncher>,
}

impl ChildProcess {
    pub(crate) fn words(&self) -> StderrTail {
        self.words.clone()
    }

    pub(crate) fn take_stdin(&mut self) -> ChildStdin {
        self.child.stdin.take().expect("standard input is piped and taken once")
    }

    pub(crate) fn take_stdout(&mut self) -> ChildStdout {
        self.child.stdout.take().expect("standard output is piped and taken once")
    }

    /// Waits until it has ended, by itself or by somebody else.
    pub(crate) async fn gone(&mut self) {
        // Only that it ended matters; how is asked in `end`, and tokio remembers it.
        let _ = self.child.wait().await;
    }

    /// Ends it: its input is closed already; then SIGTERM, then SIGKILL, to the whole group. Says how it ended. Nothing of that is waited for once `kill`
    /// is cancelled.
    pub(crate) async fn end(&mut self, kill: &CancellationToken) -> LinkError {
        // Its input is closed by now, which is how the protocol asks a server to end; a signal comes only if that was
        // not enough.
        let mut status = self.ends_within(GRACE, kill).await;
        if status.is_none() && !kill.is_cancelled() {
            self.signal(Signal::TERM);
            status = self.ends_within(GRACE, kill).await;
        }
        // Also after a normal end: grandchildren may be left.
        self.signal(Signal::KILL);
        if status.is_none() {
            status = Some(self.child.wait().await);
        }
        // Withdrawn only after it is dead; a reused number must not be killed by the watchdog.
        if let Some(group) = self.group.take() {
            self.launcher.tell_watchdog(&format!("-{}", group.as_raw_nonzero()));
        }
        if let Some(mark) = self.mark.take() {
            // Those that left the group.
            self.launcher.stragglers.end(mark).await;
        }
        if let Some(stderr) = self.stderr.take() {
            // What it wrote last may not have been read yet.
            let _ = tokio::time::timeout(LAST_LINES, stderr).await;
        }
        let status = status.and_then(Result::ok);
        self.code = status.and_then(|status| status.code());
        LinkError::Exited { status: status.map(|s| s.to_string()), last_words: self.words.last() }
    }

    async fn ends_within(&mut self, time: Duration, kill: &CancellationToken) -> Option<std::io::Result<ExitStatus>> {
        tokio::select! {
            ended = self.child.wait() => Some(ended),
            () = tokio::time::sleep(time) => None,
            () = kill.cancelled() => None,
        }
    }

    /// Its exit code, once it has ended by itself.
    pub(crate) fn exit_code(&self) -> Option<i32> {
        self.code
    }

    fn signal(&self, signal: Signal) {
        if let Some(group) = self.group {
            let _ = kill_process_group(group, signal);
        }
    }
}

impl Drop for ChildProcess {
    fn drop(&mut self) {
        if let Some(mark) = self.mark.take() {
            // Dropped without having been ended: rare, and worth a look at all processes.
            marked_processes::kill_marked(|found| found == mark);
        }
        if let Some(group) = self.group.take() {
            let _ = kill_process_group(group, Signal::KILL);
            self.launcher.tell_watchdog(&format!("-{}", group.as_raw_nonzero()));
        }
    }
}

async fn log_lines(name: String, stderr: tokio::process::ChildStderr, words: StderrTail) {
    let budget = LogBudget::new(STDERR);
    let mut lines = BoundedLines::new(BufReader::with_capacity(64 << 10, stderr), LINE);
    loop {
        if budget.is_exhausted() {
            // Not looked at line by line, and not faster than any honest server writes.
            let Some(skipped) = lines.skip().await else { break };
            budget.skip(skipped);
            tokio::time::sleep(BREATH).await;
            continue;
        }
        lines.take_tail().into_iter().for_each(|text| words.add(text));
        let Some(text) = lines.next().await else { break };
        if let LineAdmission::Write { left_out } = budget.admit(text.len()) {
            say_left_out(&name, left_out);
            tracing::info!(target: "tidings::server", server = %name, "{text}");
        }
        // Also what was left out of the log: the last words before a crash matter most.
        words.add(text);
    }
    lines.take_tail().into_iter().for_each(|text| words.add(text));
    say_left_out(&name, budget.take_left_out());
}

fn say_left_out(name: &str, lines: u64) {
    if lines > 0 {
        tracing::warn!(server = name, lines, "lines of its standard error were left out of the log");
    }
}

/// The file a command means, so that a missing one is told apart from one that fails.
pub(crate) fn which(program: &str, cwd: Option<&Path>) -> Option<PathBuf> {
    if program.contains('/') {
        let path = cwd.map_or_else(|| PathBuf::from(program), |dir| dir.join(program));
        return path.exists().then_some(path);
    }
    // Folders in the PATH are no programs.
    std::env::split_paths(&std::env::var_os("PATH")?).map(|dir| dir.join(program)).find(|path| path.is_file())
}
