//! `register.sh`: a program that says what there is. It runs only where that is permitted.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use serde_json::{Map, Value};
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process::Command;

use super::{Registration, is_there, ownership};
use crate::folder::{head, problem, relative};
use crate::home::Home;
use crate::problem::{Fault, Problem};

/// How long it may take at most.
const PATIENCE: Duration = Duration::from_secs(30);
/// How much of what it complains about is kept.
const COMPLAINT: usize = 16 << 10;
/// Stand around what a helper of the shell registers, in what the script prints; no text has them.
const RECORD: char = '\u{1e}';
const UNIT: char = '\u{1f}';

/// The functions that a shell script registers with. They print to the same place as the script, between marks.
const PRELUDE: &str = r#"
exec 9>&1
_tidings_entry() { printf '\036%s\037%s\036' "$1" "$2" >&9; }
for _tidings_kind in tools:tools resources:resources resources_templates:resourceTemplates prompts:prompts completion:completions; do
  eval "mcp_${_tidings_kind%%:*}_manual_begin() { :; }
        mcp_${_tidings_kind%%:*}_manual_abort() { :; }
        mcp_${_tidings_kind%%:*}_manual_finalize() { :; }
        mcp_${_tidings_kind%%:*}_register_manual() { _tidings_entry ${_tidings_kind##*:} \"\$1\"; }"
done
mcp_register_tool() { _tidings_entry tools "$1"; }
mcp_register_resource() { _tidings_entry resources "$1"; }
mcp_register_resource_template() { _tidings_entry resourceTemplates "$1"; }
mcp_register_prompt() { _tidings_entry prompts "$1"; }
mcp_register_completion() { _tidings_entry completions "$1"; }
for _tidings_level in debug info notice warning error; do
  eval "mcp_logging_${_tidings_level}() { printf '%s\n' \"\$*\" >&2; }"
done
unset _tidings_kind _tidings_level
. "$1"
"#;

/// A `register.sh` that may run.
#[derive(Clone, Debug)]
pub(crate) struct Hook {
    path: PathBuf,
    /// Of its content: another script is run at once.
    pub(crate) signature: [u8; 32],
}

/// The hook of a project; `None` without one, or where `register.json` is in its place. A problem where it may not run.
pub(crate) fn hook_of(home: &Home) -> Result<Option<Hook>, Problem> {
    let path = home.folders.server.join("register.sh");
    if !is_there(&path) || is_there(&home.folders.server.join("register.json")) {
        return Ok(None);
    }
    let fail = |fault| problem(&home.root, &path, fault);
    if !home.settings.hooks {
        return Err(fail(Fault::HookOff));
    }
    ownership::check(&path, &home.root).map_err(fail)?;
    let content = head(&path, home.settings.register_limit).map_err(fail)?;
    Ok(Some(Hook { signature: blake3::hash(&content).into(), path }))
}

impl Hook {
    /// Runs it.
    pub(crate) async fn run(&self, home: &Home) -> Result<Registration, Problem> {
        let outcome = tokio::time::timeout(PATIENCE, self.output(home)).await;
        let late = || Fault::Hook(format!("register.sh took more than {} s", PATIENCE.as_secs()));
        let output = outcome.map_err(|_| self.problem(home, late(), None))??;
        self.read(home, &output)
    }

    fn problem(&self, home: &Home, fault: Fault, line: Option<usize>) -> Problem {
        Problem { line, ..problem(&home.root, &self.path, fault) }
    }

    async fn output(&self, home: &Home) -> Result<Vec<u8>, Problem> {
        let fail = |reason: String| self.problem(home, Fault::Hook(reason), None);
        let mut child = self.command(home).spawn().map_err(|error| fail(format!("can not be started: {error}")))?;
        // Ends what it started, too, however this future ends.
        let _group = Group::of(&child);
        let limit = home.settings.register_limit;
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let mut complaints = std::pin::pin!(drained(stderr));
        let mut complaint = None;
        let output = {
            let mut output = std::pin::pin!(bounded(stdout, limit + 1));
            loop {
                tokio::select! {
                    output = &mut output => break output,
                    said = &mut complaints, if complaint.is_none() => complaint = Some(said),
                }
            }
        };
        if output.len() > limit {
            return Err(fail(format!("register.sh printed more than {limit} bytes")));
        }
        let status = child.wait().await.map_err(|error| fail(error.to_string()))?;
        if status.success() {
            return Ok(output);
        }
        let complaint = match complaint {
            Some(complaint) => complaint,
            None => complaints.await,
        };
        let complaint = String::from_utf8_lossy(&complaint);
        let last = complaint.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("it said nothing").trim();
        let fault = Fault::Hook(format!("register.sh failed ({status}): {last}"));
        Err(self.problem(home, fault, line_in(&complaint)))
    }

    fn command(&self, home: &Home) -> Command {
        let mut command = match interpreter(&self.path).as_deref() {
            Some("bash") | None => {
                let mut command = Command::new("bash");
                command.args(["--noprofile", "--norc", "-c", PRELUDE, "register.sh"]).arg(&self.path);
                command
            }
            // Any other program prints what it registers.
            Some(_) => Command::new(&self.path),
        };
        let folders = &home.folders;
        command
            .env_clear()
            .envs(home.environment.iter())
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
            .process_group(0)
            .kill_on_drop(true);
        command
    }

    /// What it printed: entries of the helpers, or else one JSON object.
    fn read(&self, home: &Home, output: &[u8]) -> Result<Registration, Problem> {
        let file = relative(&home.root, &self.path);
        let fail = |fault| self.problem(home, fault, None);
        let text = std::str::from_utf8(output).map_err(|_| fail(Fault::Hook("register.sh printed no UTF-8".into())))?;
        let mut members = Map::new();
        let mut plain = String::new();
        for (at, part) in text.split(RECORD).enumerate() {
            let Some((kind, entry)) = part.split_once(UNIT).filter(|_| at % 2 == 1) else {
                plain.push_str(part);
                continue;
            };
            let entry: Value = serde_json::from_str(entry).map_err(|error| {
                fail(Fault::Hook(format!("register.sh registered in {kind} what is not JSON: {error}")))
            })?;
            if let Value::Array(list) = members.entry(kind).or_insert_with(|| Value::Array(Vec::new())) {
                list.push(entry);
            }
        }
        if members.is_empty() && !plain.trim().is_empty() {
            let parsed = serde_json::from_str(&plain).map_err(|error| {
                fail(Fault::Hook(format!("register.sh printed neither registrations nor JSON: {error}")))
            })?;
            let Value::Object(printed) = parsed else {
                return Err(fail(Fault::NotAnObject("what register.sh printed".into())));
            };
            members = printed;
        }
        Registration::made(&file, members)
    }
}

/// The program that a script asks for.
fn interpreter(path: &Path) -> Option<String> {
    let first = head(path, 256).ok()?;
    let line = std::str::from_utf8(first.split(|byte| *byte == b'\n').next()?).ok()?;
    let mut words = line.strip_prefix("#!")?.split_whitespace();
    let program = words.next()?;
    let name = program.rsplit('/').next()?;
    let name = if name == "env" { words.find(|word| !word.starts_with('-'))? } else { name };
    Some(if name == "sh" { "bash".into() } else { name.to_owned() })
}

/// The line that a shell names.
fn line_in(complaint: &str) -> Option<usize> {
    let (_, rest) = complaint.split_once("register.sh: line ")?;
    rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
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

/// A process group, ended with this value.
struct Group(Option<rustix::process::Pid>);

impl Group {
    fn of(child: &tokio::process::Child) -> Self {
        Self(child.id().and_then(|id| rustix::process::Pid::from_raw(id.cast_signed())))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(group) = self.0 {
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        }
    }
}
