//! Running the project's own hooks: bounded in time and output, and nothing of them outlives us.

use std::ffi::OsString;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tidings_upstream::{AdoptedGroup, ProcessLauncher, marked_processes};
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process::{Child, Command};

use crate::environment;
use crate::home::ProjectHome;

/// How much of what a hook complains about is kept.
const COMPLAINT: usize = 16 << 10;
/// What tells hooks from scripts, for whoever looks after processes that are left.
const MARK: &str = "hook";

/// Stand around what helpers of the shell report, in what a script prints; no text has them.
pub(crate) const RECORD: char = '\u{1e}';
pub(crate) const UNIT: char = '\u{1f}';

/// What a hook said.
#[derive(Debug)]
pub(crate) struct HookOutput {
    pub(crate) status: ExitStatus,
    pub(crate) output: Vec<u8>,
    /// The beginning of what it wrote to standard error.
    pub(crate) complaint: String,
}

impl HookOutput {
    /// What it complained about last.
    pub(crate) fn last_words(&self) -> &str {
        self.complaint.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("it said nothing").trim()
    }
}

/// Why there is nothing to be heard.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum HookSilence {
    #[error("can not be started: {0}")]
    NotStarted(String),
    #[error("took more than {} s", .0.as_secs())]
    TooLong(Duration),
    #[error("printed more than {0} bytes")]
    TooMuch(usize),
}

/// A command of bash that finds `script` as `$0` would be and `arguments` from `$1` on.
pub(crate) fn bash(script: &str, name: &str, arguments: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    // The user's start-up files must not decide what a hook does.
    let mut command: Vec<OsString> = ["bash", "--noprofile", "--norc", "-c", script, name].map(Into::into).into();
    command.extend(arguments);
    command
}

/// Runs a hook with the environment that the project was given, in the project's folder.
pub(crate) async fn run(
    home: &ProjectHome,
    launcher: Option<&Arc<ProcessLauncher>>,
    command: &[OsString],
    limit: usize,
    patience: Duration,
) -> Result<HookOutput, HookSilence> {
    match tokio::time::timeout(patience, heard(home, launcher, command, limit)).await {
        Ok(outcome) => outcome,
        Err(_) => Err(HookSilence::TooLong(patience)),
    }
}

async fn heard(
    home: &ProjectHome,
    launcher: Option<&Arc<ProcessLauncher>>,
    command: &[OsString],
    limit: usize,
) -> Result<HookOutput, HookSilence> {
    let failed = |error: std::io::Error| HookSilence::NotStarted(error.to_string());
    let mut child = started(home, launcher, command).map_err(failed)?;
    // Ends what it started, too, however this future ends.
    let _group = ScriptGroup::of(&child, launcher);
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let mut complaints = std::pin::pin!(drained(stderr));
    let mut complaint = None;
    let output = {
        // One byte more than allowed tells too much from exactly enough.
        let mut output = std::pin::pin!(bounded(stdout, limit + 1));
        loop {
            tokio::select! {
                output = &mut output => break output,
                // Read at the same time: a script that fills one pipe while we wait for the other would never end.
                said = &mut complaints, if complaint.is_none() => complaint = Some(said),
            }
        }
    };
    if output.len() > limit {
        return Err(HookSilence::TooMuch(limit));
    }
    let status = child.wait().await.map_err(failed)?;
    let complaint = match complaint {
        Some(complaint) => complaint,
        None => complaints.await,
    };
    Ok(HookOutput { status, output, complaint: String::from_utf8_lossy(&complaint).into_owned() })
}

fn started(
    home: &ProjectHome,
    launcher: Option<&Arc<ProcessLauncher>>,
    command: &[OsString],
) -> std::io::Result<Child> {
    let (program, arguments) = command.split_first().ok_or_else(|| std::io::Error::other("nothing to run"))?;
    let folders = &home.folders;
    let mut command = Command::new(program);
    command
        .args(arguments)
        .env_clear()
        .envs(environment::inherited(home, &home.settings.tool_environment))
        .env("MCPBASH_PROJECT_ROOT", &home.root)
        .env("MCPBASH_TOOLS_DIR", &folders.tools)
        .env("MCPBASH_RESOURCES_DIR", &folders.resources)
        .env("MCPBASH_PROMPTS_DIR", &folders.prompts)
        .env("MCPBASH_SERVER_DIR", &folders.server)
        .env("MCPBASH_PROVIDERS_DIR", &folders.providers)
        .current_dir(&home.root)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        // A group of its own, so that whatever the hook starts can be ended with it.
        .process_group(0)
        .kill_on_drop(true);
    if let Some(launcher) = launcher {
        command.env(marked_processes::MARK, format!("{}.{MARK}", launcher.mark()));
    }
    command.spawn()
}

/// Reads up to a limit, and then no more: a script that prints for ever is ended by what follows.
async fn bounded(pipe: Option<impl AsyncRead + Unpin>, limit: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Some(pipe) = pipe {
        let _ = pipe.take(limit as u64).read_to_end(&mut bytes).await;
    }
    bytes
}

/// Reads to the end and keeps the beginning.
async fn drained(pipe: Option<impl AsyncRead + Unpin>) -> Vec<u8> {
    let (mut kept, mut buffer) = (Vec::new(), [0; 4096]);
    let Some(mut pipe) = pipe else { return kept };
    while let Ok(read @ 1..) = pipe.read(&mut buffer).await {
        let room = COMPLAINT.saturating_sub(kept.len()).min(read);
        kept.extend_from_slice(&buffer[..room]);
    }
    kept
}

/// A process group, ended with this value, or with the gateway, however that ends.
struct ScriptGroup(Option<Pid>, Option<AdoptedGroup>);

impl ScriptGroup {
    fn of(child: &Child, launcher: Option<&Arc<ProcessLauncher>>) -> Self {
        let group = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        Self(group, group.zip(launcher).map(|(group, launcher)| launcher.adopt(group)))
    }
}

impl Drop for ScriptGroup {
    fn drop(&mut self) {
        if let Some(group) = self.0 {
            let _ = kill_process_group(group, Signal::KILL);
        }
        // Only after the kill: until then the watchdog would end the group if the gateway died.
        drop(self.1.take());
    }
}
