//! A script as a process: it leads its own group, its output is read up to a bound, and nothing of it is left.

use std::ffi::OsString;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use rustix::process::{Pid, Signal, kill_process_group};
use tidings_upstream::{AdoptedGroup, ProcessLauncher, marked_processes};
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process::{Child, ChildStderr, ChildStdout, Command};

use super::guard::{GuardedScript, ScriptGuard};
use crate::GivenEnvironment;
use crate::environment::{Variables, in_path};

/// How long the pipes of a process that has ended are read on, when something that left its group holds them.
const LEFT_OVER: Duration = Duration::from_millis(200);

/// Everything that is needed to start a script: program, arguments, folder, environment and bounds of its output.
pub(crate) struct ScriptJob {
    pub(crate) command: Vec<OsString>,
    pub(crate) variables: Variables,
    pub(crate) cwd: PathBuf,
    pub(crate) output_limit: usize,
    pub(crate) stderr_limit: usize,
    /// How many of the last bytes of standard error are kept.
    pub(crate) stderr_tail: usize,
}

/// What happened to a running script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ScriptEvent {
    /// The process ended by itself; its children may still be there.
    Exited(ExitStatus),
    /// It wrote more than it may.
    TooMuchOutput,
    /// It wrote more to standard error than is allowed.
    TooMuchStderr,
    /// It started more processes than it may.
    TooManyProcesses,
}

/// A running script. Dropping it ends its whole process group.
pub(crate) struct RunningScript {
    child: Child,
    group: Pid,
    mark: String,
    stdout: Option<ChildStdout>,
    stderr: Option<ChildStderr>,
    pub(crate) output: BytesMut,
    errors: OutputTail,
    output_limit: usize,
    watched: GuardedScript,
    guard: Arc<ScriptGuard>,
    _adopted: AdoptedGroup,
    over: bool,
}

/// The last bytes of something long.
struct OutputTail {
    bytes: BytesMut,
    keep: usize,
    seen: usize,
    limit: usize,
}

impl RunningScript {
    pub(crate) fn start(
        launcher: &Arc<ProcessLauncher>,
        guard: &Arc<ScriptGuard>,
        job: &ScriptJob,
    ) -> io::Result<Self> {
        let mark = guard.next_mark();
        let (program, arguments) = job.command.split_first().ok_or_else(|| io::Error::other("nothing to run"))?;
        let mut child = Command::new(program)
            .args(arguments)
            .env_clear()
            .envs(&job.variables)
            // By this mark, processes are found that left the group.
            .env(marked_processes::MARK, &mark)
            .current_dir(&job.cwd)
            // The gateway's own input is the protocol, when it runs on stdio.
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // A new group that it leads: signals to the group reach whatever it starts.
            .process_group(0)
            .kill_on_drop(true)
            .spawn()?;
        let group = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        let group = group.ok_or_else(|| io::Error::other("it ended before it began"))?;
        Ok(Self {
            group,
            stdout: child.stdout.take(),
            stderr: child.stderr.take(),
            child,
            output: BytesMut::new(),
            errors: OutputTail { bytes: BytesMut::new(), keep: job.stderr_tail, seen: 0, limit: job.stderr_limit },
            output_limit: job.output_limit,
            watched: guard.watch(&mark),
            guard: Arc::clone(guard),
            mark,
            _adopted: launcher.adopt(group),
            over: false,
        })
    }

    /// Reads what it writes until something happens. May be dropped and called again.
    pub(crate) async fn next(&mut self) -> ScriptEvent {
        loop {
            tokio::select! {
                // In this order: what was printed before the end is read before the end is seen.
                biased;
                () = self.watched.overrun() => return ScriptEvent::TooManyProcesses,
                read = read_into(&mut self.stdout, &mut self.output) => {
                    if !read {
                        self.stdout = None;
                    } else if self.output.len() > self.output_limit {
                        return ScriptEvent::TooMuchOutput;
                    }
                }
                read = read_into(&mut self.stderr, &mut self.errors.bytes) => {
                    if !read {
                        self.stderr = None;
                    } else if self.errors.took() {
                        return ScriptEvent::TooMuchStderr;
                    }
                }
                // A shell says 127 of what could not be run; in a raw status the exit code is the second byte.
                status = self.child.wait() => return ScriptEvent::Exited(status.unwrap_or_else(|_| ExitStatus::from_raw(127 << 8))),
            }
        }
    }

    /// After its end: whatever it started goes as well, then what it wrote is read to the end. Says if that was too much.
    pub(crate) async fn finish(&mut self) -> Option<ScriptEvent> {
        // The script is over by itself; what it left in its group is not wanted any more.
        self.signal(Signal::KILL);
        // From here on its number may become another group's: `drop` must not signal it any more.
        self.over = true;
        self.guard.ended(&self.mark);
        let rest = async {
            while self.stdout.is_some() || self.stderr.is_some() {
                tokio::select! {
                    read = read_into(&mut self.stdout, &mut self.output) => {
                        if !read { self.stdout = None; }
                        if self.output.len() > self.output_limit { return Some(ScriptEvent::TooMuchOutput); }
                    }
                    read = read_into(&mut self.stderr, &mut self.errors.bytes) => {
                        if !read { self.stderr = None; }
                        if self.errors.took() { return Some(ScriptEvent::TooMuchStderr); }
                    }
                }
            }
            None
        };
        tokio::time::timeout(LEFT_OVER, rest).await.ok().flatten()
    }

    /// Asks it to end, and ends it after the grace with all that it started.
    pub(crate) async fn put_down(&mut self, grace: Duration) {
        self.signal(Signal::TERM);
        // It may have stopped itself, or wait for somebody to read.
        self.signal(Signal::CONT);
        let gone = async {
            loop {
                // What it still says is read, so that it does not wait for us; nobody needs it.
                tokio::select! {
                    _ = self.child.wait() => return,
                    read = read_into(&mut self.stdout, &mut self.output) => {
                        if !read { self.stdout = None; }
                        if self.output.len() > self.output_limit { self.output.clear(); }
                    }
                    read = read_into(&mut self.stderr, &mut self.errors.bytes) => {
                        if !read { self.stderr = None; }
                        self.errors.took();
                    }
                }
            }
        };
        if tokio::time::timeout(grace, gone).await.is_err() {
            self.signal(Signal::KILL);
            let _ = self.child.wait().await;
        }
        self.kill_all().await;
    }

    /// Ends it at once with all that it started.
    pub(crate) async fn kill_all(&mut self) {
        self.signal(Signal::KILL);
        self.over = true;
        let _ = self.child.wait().await;
        self.guard.sweep(&self.mark).await;
    }

    /// The end of what it wrote to standard error.
    pub(crate) fn stderr_tail(&self) -> String {
        let tail = &self.errors.bytes[self.errors.bytes.len().saturating_sub(self.errors.keep)..];
        // Where it was cut, a character may be torn.
        let torn = if self.errors.seen > tail.len() {
            tail.iter().take(3).take_while(|b| (**b & 0xc0) == 0x80).count()
        } else {
            0
        };
        String::from_utf8_lossy(&tail[torn..]).into_owned()
    }

    fn signal(&self, signal: Signal) {
        let _ = kill_process_group(self.group, signal);
    }
}

impl Drop for RunningScript {
    fn drop(&mut self) {
        if !self.over {
            self.signal(Signal::KILL);
            self.guard.ended(&self.mark);
        }
    }
}

impl OutputTail {
    /// New bytes are in. Whether that is too much.
    fn took(&mut self) -> bool {
        // What stood there before was counted; bytes in front that are not needed any more go when there are many.
        let kept = self.bytes.len();
        if kept > self.keep.saturating_mul(2).max(8 << 10) {
            let spare = kept - self.keep;
            self.seen += spare;
            let _ = self.bytes.split_to(spare);
        }
        self.seen + self.bytes.len() > self.limit
    }
}

/// Reads a piece; `false` at the end. Never ready when there is nothing to read from.
async fn read_into(from: &mut Option<impl AsyncRead + Unpin>, to: &mut BytesMut) -> bool {
    let Some(from) = from else { return std::future::pending().await };
    to.reserve(16 << 10);
    matches!(from.read_buf(to).await, Ok(1..))
}

/// How a file is started: by itself, or by what its first line names, or by a shell.
pub(crate) fn command(script: &Path, environment: &GivenEnvironment) -> io::Result<Vec<OsString>> {
    let found = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", script.display()));
    let metadata = script.metadata().map_err(found)?;
    if metadata.permissions().mode() & 0o111 != 0 {
        return Ok(vec![script.into()]);
    }
    let mut start = Vec::new();
    io::Read::read_to_end(&mut io::Read::take(std::fs::File::open(script).map_err(found)?, 256), &mut start)
        .map_err(found)?;
    let first = start.split(|byte| *byte == b'\n').next().and_then(|line| std::str::from_utf8(line).ok()).unwrap_or("");
    // Not executable, but it says what it wants to be run by: archives and some file systems lose the bit.
    if let Some(line) = first.strip_prefix("#!").map(str::trim).filter(|line| !line.is_empty()) {
        let (interpreter, argument) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let argument = Some(argument.trim()).filter(|argument| !argument.is_empty());
        let words = [interpreter].into_iter().chain(argument).map(OsString::from);
        return Ok(words.chain([script.into()]).collect());
    }
    match script.extension().and_then(|extension| extension.to_str()) {
        // Most scripts are written for bash, whatever they are called.
        Some("sh") if in_path(environment, "bash").is_none() => Ok(vec!["sh".into(), script.into()]),
        Some("sh" | "bash") => Ok(vec!["bash".into(), script.into()]),
        _ => Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            format!("{}: not executable, and its first line names no interpreter; `chmod +x` it", script.display()),
        )),
    }
}

/// The exit code as a shell counts it.
pub(crate) fn exit_code(status: ExitStatus) -> i32 {
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default())
}
