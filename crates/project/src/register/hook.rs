//! `register.sh`: a program that says what there is. It runs only where that is permitted.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};
use tidings_upstream::ProcessLauncher;

use super::{ProjectRegistration, is_there, ownership};
use crate::folder::{head, problem, relative};
use crate::home::ProjectHome;
use crate::problem::{ProjectFault, ProjectProblem};
use crate::shell::{self, RECORD, UNIT};

/// How long it may take at most.
const PATIENCE: Duration = Duration::from_secs(30);

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
pub(crate) struct RegisterHook {
    path: PathBuf,
    /// Of its content: another script is run at once.
    pub(crate) signature: [u8; 32],
}

/// The hook of a project; `None` without one, or where `register.json` is in its place. A problem where it may not run.
pub(crate) fn hook_of(home: &ProjectHome) -> Result<Option<RegisterHook>, ProjectProblem> {
    let path = home.folders.server.join("register.sh");
    // The declaration wins over the program: it can be read without running anything.
    if !is_there(&path) || is_there(&home.folders.server.join("register.json")) {
        return Ok(None);
    }
    let fail = |fault| problem(&home.root, &path, fault);
    if !home.settings.hooks {
        return Err(fail(ProjectFault::HookOff));
    }
    ownership::check(&path, &home.root).map_err(fail)?;
    let content = head(&path, home.settings.register_limit).map_err(fail)?;
    Ok(Some(RegisterHook { signature: blake3::hash(&content).into(), path }))
}

impl RegisterHook {
    /// Runs it, and reads what it registered; bounded in time and output.
    pub(crate) async fn run(
        &self,
        home: &ProjectHome,
        launcher: Option<&Arc<ProcessLauncher>>,
    ) -> Result<ProjectRegistration, ProjectProblem> {
        let said = shell::run(home, launcher, &self.command(), home.settings.register_limit, PATIENCE).await;
        let said =
            said.map_err(|silent| self.problem(home, ProjectFault::Hook(format!("register.sh {silent}")), None))?;
        if said.status.success() {
            return self.read(home, &said.output);
        }
        let fault = ProjectFault::Hook(format!("register.sh failed ({}): {}", said.status, said.last_words()));
        Err(self.problem(home, fault, line_in(&said.complaint)))
    }

    fn problem(&self, home: &ProjectHome, fault: ProjectFault, line: Option<usize>) -> ProjectProblem {
        ProjectProblem { line, ..problem(&home.root, &self.path, fault) }
    }

    fn command(&self) -> Vec<OsString> {
        match interpreter(&self.path).as_deref() {
            Some("bash") | None => shell::bash(PRELUDE, "register.sh", [self.path.clone().into()]),
            // Any other program prints what it registers.
            Some(_) => vec![self.path.clone().into()],
        }
    }

    /// What it printed: entries of the helpers, or else one JSON object.
    fn read(&self, home: &ProjectHome, output: &[u8]) -> Result<ProjectRegistration, ProjectProblem> {
        let file = relative(&home.root, &self.path);
        let fail = |fault| self.problem(home, fault, None);
        let text =
            std::str::from_utf8(output).map_err(|_| fail(ProjectFault::Hook("register.sh printed no UTF-8".into())))?;
        let mut members = Map::new();
        let mut plain = String::new();
        for (at, part) in text.split(RECORD).enumerate() {
            // Between two marks stands an entry; what is outside of them is plain output.
            let Some((kind, entry)) = part.split_once(UNIT).filter(|_| at % 2 == 1) else {
                plain.push_str(part);
                continue;
            };
            let entry: Value = serde_json::from_str(entry).map_err(|error| {
                fail(ProjectFault::Hook(format!("register.sh registered in {kind} what is not JSON: {error}")))
            })?;
            if let Value::Array(list) = members.entry(kind).or_insert_with(|| Value::Array(Vec::new())) {
                list.push(entry);
            }
        }
        // A script that used the helpers may print other things as well.
        if members.is_empty() && !plain.trim().is_empty() {
            let parsed = serde_json::from_str(&plain).map_err(|error| {
                fail(ProjectFault::Hook(format!("register.sh printed neither registrations nor JSON: {error}")))
            })?;
            let Value::Object(printed) = parsed else {
                return Err(fail(ProjectFault::NotAnObject("what register.sh printed".into())));
            };
            members = printed;
        }
        ProjectRegistration::made(&file, members)
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
    // The helpers are functions of bash.
    Some(if name == "sh" { "bash".into() } else { name.to_owned() })
}

/// The line that a shell names.
fn line_in(complaint: &str) -> Option<usize> {
    let (_, rest) = complaint.split_once("register.sh: line ")?;
    rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}
