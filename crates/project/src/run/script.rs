//! A script that is only run for what it prints.

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::time::Duration;

use bytes::BytesMut;

use super::outcome::ScriptFault;
use super::process::{self, RunningScript, ScriptEvent, ScriptJob};
use super::tool::GRACE;
use super::{ScriptCall, ScriptRunner, cancelled};
use crate::environment::Variables;

/// How much of standard error is kept for messages.
const TAIL: usize = 4 << 10;

/// What a script printed, and how it ended.
pub(super) struct ScriptOutput {
    pub(super) code: i32,
    pub(super) stdout: BytesMut,
    pub(super) stderr: String,
}

impl ScriptOutput {
    /// What it said about its failure.
    pub(super) fn complaint(&self, otherwise: &str) -> String {
        let said = self.stderr.trim();
        if said.is_empty() { otherwise.to_owned() } else { said.to_owned() }
    }
}

impl ScriptRunner {
    /// Runs a file with these arguments.
    pub(super) async fn run_script(
        &self,
        script: &Path,
        arguments: &[OsString],
        variables: Variables,
        within: Duration,
        call: &ScriptCall<'_>,
    ) -> Result<ScriptOutput, ScriptFault> {
        let mut command =
            process::command(script, &self.home.environment).map_err(|error| unstartable(script, &error))?;
        command.extend_from_slice(arguments);
        self.run_command(command, variables, &self.home.root, within, call).await
    }

    /// Runs a command in a folder.
    pub(super) async fn run_command(
        &self,
        command: Vec<OsString>,
        variables: Variables,
        cwd: &Path,
        within: Duration,
        call: &ScriptCall<'_>,
    ) -> Result<ScriptOutput, ScriptFault> {
        let settings = &self.home.settings;
        let name = command.first().cloned().unwrap_or_default();
        let job = ScriptJob {
            command,
            variables,
            cwd: cwd.to_owned(),
            output_limit: settings.resource_limit,
            stderr_limit: settings.stderr_limit,
            stderr_tail: TAIL,
        };
        let running = RunningScript::start(&self.launcher, &self.guard, &job);
        let mut running = running.map_err(|error| unstartable(Path::new(&name), &error))?;
        let name = Path::new(&name).file_name().unwrap_or_default().to_string_lossy().into_owned();
        let event = tokio::select! {
            biased;
            () = call.stop.cancelled() => {
                // Waited for: when the caller hears of the end, nothing of the script is left.
                running.put_down(GRACE).await;
                return Err(cancelled());
            }
            event = running.next() => event,
            () = tokio::time::sleep(within) => {
                running.put_down(GRACE).await;
                return Err(ScriptFault::internal(format!("{name}: no answer within {} s", within.as_secs_f64())));
            }
        };
        let event = match event {
            // What it printed before its end is read first; that may still be too much.
            ScriptEvent::Exited(status) => running.finish().await.unwrap_or(ScriptEvent::Exited(status)),
            other => other,
        };
        let too_much = match event {
            ScriptEvent::Exited(status) => {
                let stdout = std::mem::take(&mut running.output);
                return Ok(ScriptOutput { code: process::exit_code(status), stdout, stderr: running.stderr_tail() });
            }
            ScriptEvent::TooMuchOutput => format!("{name}: more than {} bytes of output", settings.resource_limit),
            ScriptEvent::TooMuchStderr => format!("{name}: more than {} bytes of errors", settings.stderr_limit),
            ScriptEvent::TooManyProcesses => format!("{name}: too many processes"),
        };
        running.kill_all().await;
        Err(ScriptFault::internal(too_much))
    }
}

/// What to say of something that does not start, with the file and what to do.
pub(super) fn unstartable(script: &Path, error: &io::Error) -> ScriptFault {
    let why = match error.kind() {
        io::ErrorKind::NotFound => {
            format!("{}: it, or the interpreter that its first line names, is missing", script.display())
        }
        io::ErrorKind::PermissionDenied => format!("{}: may not be run; `chmod +x` it", script.display()),
        _ => format!("{}: {error}", script.display()),
    };
    ScriptFault::internal(why)
}
