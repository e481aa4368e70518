//! A script that is only run for what it prints.

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::time::Duration;

use bytes::BytesMut;

use super::environment::Variables;
use super::outcome::Fault;
use super::process::{self, Event, Job, Running};
use super::tool::GRACE;
use super::{Call, Runner, cancelled};

/// How much of standard error is kept for messages.
const TAIL: usize = 4 << 10;

/// What a script printed, and how it ended.
pub(super) struct Ran {
    pub(super) code: i32,
    pub(super) stdout: BytesMut,
    pub(super) stderr: String,
}

impl Ran {
    /// What it said about its failure.
    pub(super) fn complaint(&self, otherwise: &str) -> String {
        let said = self.stderr.trim();
        if said.is_empty() { otherwise.to_owned() } else { said.to_owned() }
    }
}

impl Runner {
    /// Runs a file with these arguments.
    pub(super) async fn run_script(
        &self,
        script: &Path,
        arguments: &[OsString],
        variables: Variables,
        within: Duration,
        call: &Call<'_>,
    ) -> Result<Ran, Fault> {
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
        call: &Call<'_>,
    ) -> Result<Ran, Fault> {
        let settings = &self.home.settings;
        let name = command.first().cloned().unwrap_or_default();
        let job = Job {
            command,
            variables,
            cwd: cwd.to_owned(),
            output_limit: settings.resource_limit,
            stderr_limit: settings.stderr_limit,
            stderr_tail: TAIL,
        };
        let running = Running::start(&self.launcher, &self.guard, &job);
        let mut running = running.map_err(|error| unstartable(Path::new(&name), &error))?;
        let name = Path::new(&name).file_name().unwrap_or_default().to_string_lossy().into_owned();
        let event = tokio::select! {
            biased;
            () = call.stop.cancelled() => {
                running.put_down(GRACE).await;
                return Err(cancelled());
            }
            event = running.next() => event,
            () = tokio::time::sleep(within) => {
                running.put_down(GRACE).await;
                return Err(Fault::internal(format!("{name}: no answer within {} s", within.as_secs_f64())));
            }
        };
        let event = match event {
            Event::Exited(status) => running.finish().await.unwrap_or(Event::Exited(status)),
            other => other,
        };
        let too_much = match event {
            Event::Exited(status) => {
                let stdout = std::mem::take(&mut running.output);
                return Ok(Ran { code: process::exit_code(status), stdout, stderr: running.stderr_tail() });
            }
            Event::TooMuchOutput => format!("{name}: more than {} bytes of output", settings.resource_limit),
            Event::TooMuchStderr => format!("{name}: more than {} bytes of errors", settings.stderr_limit),
            Event::TooManyProcesses => format!("{name}: too many processes"),
        };
        running.kill_all().await;
        Err(Fault::internal(too_much))
    }
}

/// What to say of something that does not start, with the file and what to do.
pub(super) fn unstartable(script: &Path, error: &io::Error) -> Fault {
    let why = match error.kind() {
        io::ErrorKind::NotFound => {
            format!("{}: it, or the interpreter that its first line names, is missing", script.display())
        }
        io::ErrorKind::PermissionDenied => format!("{}: may not be run; `chmod +x` it", script.display()),
        _ => format!("{}: {error}", script.display()),
    };
    Fault::internal(why)
}
