//! Every process that a task starts. Each has its own process group and a deadline, and none
//! outlives the task: guards end them on every way out, and a reaper does so when xtask itself is
//! killed.

mod background;
mod reaper;

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

pub(crate) use background::Background;
pub(crate) use reaper::{REAPER_ARGUMENT, reap_until_parent_ends};

use crate::failure::Failure;
use crate::invocation::Invocation;
use background::Group;
use reaper::Reaper;

const POLL: Duration = Duration::from_millis(20);
// After the process itself ended: how long its output is still read.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// How a process came to its end, with what it printed.
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    pub(crate) output: String,
}

/// Whether the lines of a process are shown while it runs.
#[derive(Clone, Copy)]
pub(crate) enum Echo<'a> {
    Silent,
    Plain,
    /// Each behind this name, where several run at a time.
    Named(&'a str),
}

/// Starts processes and answers for their end.
pub(crate) struct Children {
    reaper: Reaper,
}

impl Children {
    pub(crate) fn new() -> Result<Self, Failure> {
        Ok(Self { reaper: Reaper::start()? })
    }

    /// Runs to the end with the task's own output; anything but success is a failure.
    pub(crate) fn run(&self, invocation: &Invocation) -> Result<(), Failure> {
        let status = self.wait(invocation, invocation.command().stdin(Stdio::null()))?;
        if status.success() { Ok(()) } else { Err(ended(invocation, status)) }
    }

    /// Runs to the end with its output in `log`; the status is the caller's to judge.
    pub(crate) fn run_logged(&self, invocation: &Invocation, log: &Path) -> Result<ExitStatus, Failure> {
        let (out, err) = log_handles(log)?;
        let mut command = invocation.command();
        self.wait(invocation, command.stdin(Stdio::null()).stdout(out).stderr(err))
    }

    /// Whether a quick question to a program succeeds; one that can not be started does not.
    pub(crate) fn succeeds(&self, invocation: &Invocation) -> bool {
        let mut command = invocation.command();
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        self.wait(invocation, &mut command).is_ok_and(|status| status.success())
    }

    /// Runs to the end and keeps standard output and error; `echo` says whether they are also shown as they come.
    pub(crate) fn capture(&self, invocation: &Invocation, echo: Echo<'_>) -> Result<Ended, Failure> {
        let mut command = invocation.command();
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut group = self.spawn(invocation, &mut command)?;
        // A thread for each pipe: a child that fills one while only the other is read would never go on.
        let (lines, received) = mpsc::channel();
        if let Some(out) = group.child().stdout.take() {
            forward_lines(out, lines.clone());
        }
        if let Some(err) = group.child().stderr.take() {
            forward_lines(err, lines);
        }

        let deadline = Instant::now() + invocation.time_allowed();
        let mut output = String::new();
        let mut status = None;
        let mut listen_until = deadline;
        loop {
            match received.recv_timeout(POLL) {
                Ok(line) => {
                    match echo {
                        Echo::Silent => {}
                        Echo::Plain => println!("{line}"),
                        Echo::Named(name) => println!("{name}: {line}"),
                    }
                    output.push_str(&line);
                    output.push('\n');
                }
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {}
            }
            if status.is_none() {
                status = poll(invocation, group.child())?;
                if status.is_some() {
                    // What it started may hold the pipes open, and has no end of its own.
                    listen_until = Instant::now() + LAST_WORDS;
                }
            }
            if Instant::now() > listen_until {
                break;
            }
        }
        let status = match status {
            Some(status) => status,
            // The pipes are closed, but the process may live on until the deadline.
            None => wait_until(invocation, group.child(), deadline)?,
        };
        Ok(Ended { status, output })
    }

    /// Starts a process that runs until the guard goes, with its output in `log`.
    pub(crate) fn background(&self, invocation: &Invocation, log: &Path) -> Result<Background<'_>, Failure> {
        let (out, err) = log_handles(log)?;
        let mut command = invocation.command();
        let group = self.spawn(invocation, command.stdin(Stdio::null()).stdout(out).stderr(err))?;
        Ok(Background::new(group, log))
    }

    fn wait(&self, invocation: &Invocation, command: &mut Command) -> Result<ExitStatus, Failure> {
        let mut group = self.spawn(invocation, command)?;
        let deadline = Instant::now() + invocation.time_allowed();
        wait_until(invocation, group.child(), deadline)
    }

    fn spawn(&self, invocation: &Invocation, command: &mut Command) -> Result<Group<'_>, Failure> {
        let child = command.process_group(0).spawn().map_err(|source| start(invocation, source))?;
        Ok(Group::new(child, &self.reaper))
    }
}

fn wait_until(invocation: &Invocation, child: &mut Child, deadline: Instant) -> Result<ExitStatus, Failure> {
    loop {
        if let Some(status) = poll(invocation, child)? {
            return Ok(status);
        }
        if Instant::now() > deadline {
            let after = invocation.time_allowed();
            return Err(Failure::TimedOut { command: invocation.to_string(), after });
        }
        thread::sleep(POLL);
    }
}

fn poll(invocation: &Invocation, child: &mut Child) -> Result<Option<ExitStatus>, Failure> {
    child.try_wait().map_err(|source| start(invocation, source))
}

fn start(invocation: &Invocation, source: std::io::Error) -> Failure {
    Failure::Start { command: invocation.to_string(), source }
}

/// A command that ended otherwise than it should.
pub(crate) fn ended(invocation: &Invocation, status: ExitStatus) -> Failure {
    Failure::Ended { command: invocation.to_string(), status }
}

fn log_handles(log: &Path) -> Result<(File, File), Failure> {
    let out = File::create(log).map_err(Failure::file(log))?;
    let err = out.try_clone().map_err(Failure::file(log))?;
    Ok((out, err))
}

/// The thread ends with the pipe; the receiver decides how long that matters.
fn forward_lines(pipe: impl Read + Send + 'static, lines: Sender<String>) {
    thread::spawn(move || {
        for line in BufReader::new(pipe).split(b'\n').map_while(Result::ok) {
            if lines.send(String::from_utf8_lossy(&line).into_owned()).is_err() {
                return;
            }
        }
    });
}
