//! Logs go to standard error: standard output belongs to the protocol, or to what was asked for.
//!
//! Writing a log line can not fail, wait or panic: whoever reads standard error may have gone away, or may never read. A
//! process that serves hands its lines to a thread, through a queue that is bounded in bytes; a command that ends soon
//! writes them itself. The gateway of a data directory also keeps its lines there, in a file that does not grow for ever;
//! `tidings logs` shows it.

mod kept;

use std::collections::VecDeque;
use std::fmt;
use std::io::{self, IsTerminal as _, Write as _};
use std::sync::{Arc, Condvar, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use tidings_sync::Lock;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

use crate::cli::{Cli, CliCommand};
use crate::plain_text;
use kept::KeptLog;
pub(crate) use kept::{file_of, older};

/// How much may wait to be written. Lines that do not fit are left out, and counted.
const MAX_WAITING: usize = 1 << 20;
/// How long the end of the process waits for the last lines.
const LAST_LINES: Duration = Duration::from_millis(500);

/// The queue of a process that serves; a process that does not has none.
static QUEUE: OnceLock<Arc<LineQueue>> = OnceLock::new();

/// The file of the gateway that owns its data directory.
static KEPT: OnceLock<Lock<KeptLog>> = OnceLock::new();

/// From now on every line is also kept in the data directory. A file that can not be written is not worth an end.
pub(crate) fn keep_in(directory: &std::path::Path) {
    if let Ok(log) = KeptLog::open(file_of(directory)) {
        let _ = KEPT.set(Lock::new(log));
    }
}

fn keep(line: &[u8]) {
    if let Some(log) = KEPT.get() {
        log.lock().write(line);
    }
}

pub(crate) fn start(cli: &Cli) {
    let serving =
        matches!(cli.command, Some(CliCommand::Serve { .. } | CliCommand::Stdio { .. } | CliCommand::Project { .. }));
    if serving {
        start_queue();
    }
    let level = match (serving, cli.verbose) {
        // A command shows what was asked for; only what goes wrong belongs beside it.
        (true, 0) => "info",
        (false, 0) => "error",
        (_, 1) => "debug",
        (_, _) => "trace",
    };
    // The HTTP libraries log every connection at the levels that are of use for Tidings itself; that of NATS calls each attempt to connect an
    // error, ten times a second, where the bus says once why there is no connection.
    let default = format!("{level},hyper=warn,reqwest=warn,rustls=warn,hyper_util=warn,async_nats=off");
    let filter = EnvFilter::try_from_env("TIDINGS_LOG").unwrap_or_else(|_| EnvFilter::new(default));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(StandardError)
        .with_ansi(io::stderr().is_terminal())
        .with_target(false)
        // It would print its own errors with `eprintln!`, which panics on a closed pipe.
        .log_internal_errors(false)
        .init();
}

/// Writes text for people to standard error, in order with the log. What can not be written is lost.
pub(crate) fn say(text: fmt::Arguments<'_>) {
    write(plain_text::lines(&text.to_string()).as_bytes());
}

/// Waits until what was said is written, but not for long.
pub(crate) fn flush() {
    match QUEUE.get() {
        Some(queue) => queue.flush(LAST_LINES),
        None => drop(io::stderr().flush()),
    }
}

fn write(text: &[u8]) {
    match QUEUE.get() {
        Some(queue) => queue.push(text),
        None => drop(io::stderr().write_all(text)),
    }
}

/// Where `tracing` writes: standard error, where a reader that is gone must not end anything.
struct StandardError;

impl<'a> MakeWriter<'a> for StandardError {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        Self
    }
}

impl io::Write for StandardError {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        match std::str::from_utf8(text) {
            // Colours of the log are its own: it spells out the escapes of what it is told.
            Ok(line) if line.contains(plain_text::is_unseen) => write(plain_text::unseen_spelled(line).as_bytes()),
            _ => write(text),
        }
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Lines on their way to standard error.
#[derive(Default)]
struct LineQueue {
    state: Lock<WaitingLines>,
    /// Rings when something waits, and when everything is written.
    bell: Condvar,
}

#[derive(Default)]
struct WaitingLines {
    lines: VecDeque<Box<[u8]>>,
    bytes: usize,
    left_out: u64,
    /// The thread has taken lines, and is not back.
    writing: bool,
}

fn start_queue() {
    let queue = Arc::new(LineQueue::default());
    let writer = Arc::clone(&queue);
    // Without a thread, lines are written where they arise.
    if std::thread::Builder::new().name("log".into()).spawn(move || writer.write_for_ever()).is_ok() {
        let _ = QUEUE.set(queue);
    }
}

impl LineQueue {
    fn waiting(&self) -> MutexGuard<'_, WaitingLines> {
        self.state.lock()
    }

    fn push(&self, line: &[u8]) {
        let mut waiting = self.waiting();
        // The newest is dropped and not the oldest, which may say how it began.
        if waiting.bytes + line.len() > MAX_WAITING {
            waiting.left_out += 1;
            return;
        }
        waiting.bytes += line.len();
        waiting.lines.push_back(line.into());
        // All of them: the thread that writes and whoever flushes wait at the same bell.
        self.bell.notify_all();
    }

    /// The next line, when there is one.
    fn next(&self) -> (Box<[u8]>, u64) {
        let mut waiting = self.waiting();
        waiting.writing = false;
        loop {
            if let Some(line) = waiting.lines.pop_front() {
                waiting.bytes -= line.len();
                waiting.writing = true;
                return (line, std::mem::take(&mut waiting.left_out));
            }
            // Everything is written: whoever flushes goes on.
            self.bell.notify_all();
            waiting = self.bell.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn write_for_ever(&self) {
        loop {
            let (line, left_out) = self.next();
            // Nobody is left to be told when this fails; the next reader, if there is one, gets the next line.
            let mut out = io::stderr().lock();
            if left_out > 0 {
                let _ = writeln!(out, "({left_out} log lines were left out: nobody reads them fast enough)");
            }
            let _ = out.write_all(&line);
            // Standard error is let go before the file is written, which may take longer.
            drop(out);
            keep(&line);
        }
    }

    fn flush(&self, patience: Duration) {
        let until = Instant::now() + patience;
        let mut waiting = self.waiting();
        // A line that the thread has taken is not in the queue and not yet written either.
        while waiting.writing || !waiting.lines.is_empty() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            waiting = self.bell.wait_timeout(waiting, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}
