//! A server as a child process, one message per line.

mod fragments;
pub(crate) mod lines;
pub mod marked_processes;
mod outbox;
pub(crate) mod process;
pub(crate) mod sandbox;

use std::pin::pin;
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::future::BoxFuture;
use tidings_sync::Lock;
use tidings_wire::{BudgetShare, Frame, IncomingMessage, MESSAGES, one_line};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::call::call_channel;
use crate::link::{Link, MessageSink, OutgoingRequest};
use crate::pace::UnaskedPace;
use crate::shared_pipe::{SharedPipe, cancellation, excerpt};
use crate::spec::StdioSpec;
use crate::{CallStream, LIMITS, LinkError, MAX_MESSAGE};
use fragments::{LineFragments, LineVerdict};
use outbox::StdioOutbox;
use process::{ChildProcess, ProcessLauncher, StderrTail};

/// How long the pipe of a process that has ended is read on.
const LEFT_OVER: Duration = Duration::from_millis(200);
/// How long a server that is closed may take to read what was said to it before.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// A link to a child process: one task reads its lines, one writes, and calls wait by id.
pub(crate) struct StdioLink {
    pipe: SharedPipe,
    outbox: Arc<StdioOutbox>,
    /// Used by the one task that reads.
    fragments: Lock<LineFragments>,
    stop: CancellationToken,
    /// Its process is not given the time to end by itself.
    kill: CancellationToken,
    /// The reader and the writer. They end when the process or the link does.
    tasks: TaskTracker,
    words: StderrTail,
    epilogue: Option<Arc<dyn ProcessEpilogue>>,
}

/// What is to be done when a process is over that stands for something else.
pub(crate) trait ProcessEpilogue: Send + Sync + 'static {
    /// The error in the terms of what it stood for; `code` is its exit code.
    fn explain(&self, error: LinkError, code: Option<i32>) -> LinkError;

    /// Removes what it left. The link is closed only after that.
    fn clean_up(&self) -> BoxFuture<'_, ()>;
}

impl StdioLink {
    pub(crate) async fn spawn(
        launcher: &Arc<ProcessLauncher>,
        name: &str,
        spec: &StdioSpec,
        epilogue: Option<Arc<dyn ProcessEpilogue>>,
        sink: Arc<dyn MessageSink>,
    ) -> Result<Arc<Self>, LinkError> {
        // What a client of a container engine leaves behind is the container's, and ended with it.
        let marked = epilogue.is_none();
        let mut process = launcher.spawn(name, spec, marked).await?;
        let link = Arc::new(Self {
            pipe: SharedPipe::new(name, sink),
            outbox: Arc::default(),
            fragments: Lock::default(),
            stop: CancellationToken::new(),
            kill: CancellationToken::new(),
            tasks: TaskTracker::new(),
            words: process.words(),
            epilogue,
        });
        let stdin = process.take_stdin();
        let stdout = process.take_stdout();
        // A task of its own: a server that does not read its input must not keep us from reading its output.
        link.tasks.spawn(write(Arc::clone(&link.outbox), stdin, link.stop.clone()));
        link.tasks.spawn(Arc::clone(&link).run(process, stdout));
        // From now on `wait` returns when both have ended.
        link.tasks.close();
        Ok(link)
    }

    async fn run(self: Arc<Self>, mut process: ChildProcess, mut stdout: tokio::process::ChildStdout) {
        // Lines are split off without copying, so the buffer is handed out with them and grows anew.
        let mut buffer = BytesMut::with_capacity(16 << 10);
        let error = tokio::select! {
            error = self.read(&mut stdout, &mut buffer) => error,
            // Its children may hold the pipe open after its end. What it wrote before is still to be read.
            () = process.gone() => {
                let rest = self.read(&mut stdout, &mut buffer);
                tokio::time::timeout(LEFT_OVER, rest).await.unwrap_or(LinkError::Lost)
            }
            () = self.stop.cancelled() => LinkError::Stopped,
        };
        // Whoever calls from now on must fail at once.
        self.stop.cancel();
        self.outbox.close();
        let error = match error {
            // Lost: how the process ended is the reason, so it is waited for before the calls hear of it.
            LinkError::Lost => process.end(&self.kill).await,
            other => {
                // How it ends is no part of what is to be said.
                // At once, because ending the process may take seconds.
                self.pipe.fail(&other);
                process.end(&self.kill).await;
                other
            }
        };
        let error = match &self.epilogue {
            Some(epilogue) => epilogue.explain(error, process.exit_code()),
            None => error,
        };
        self.pipe.fail(&error);
        self.pipe.sink.closed(error);
        if let Some(epilogue) = &self.epilogue {
            epilogue.clean_up().await;
        }
    }

    async fn read(&self, stdout: &mut tokio::process::ChildStdout, buffer: &mut BytesMut) -> LinkError {
        let mut searched = 0;
        let mut pace = UnaskedPace::default();
        // One server's messages take at most their share of the memory for all.
        let share = Arc::new(BudgetShare::default());
        let mut lease = MESSAGES.lease();
        loop {
            while let Some(at) = buffer[searched..].iter().position(|&b| b == b'\n') {
                let mut line = buffer.split_to(searched + at + 1);
                // The line break frames the message and is no part of it.
                line.truncate(searched + at);
                searched = 0;
                // The line takes its share of the budget with it, and the buffer begins with none.
                if let Some(pause) = pace.count(self.line(&lease.take().attach(line.freeze()))) {
                    tokio::time::sleep(pause).await;
                }
            }
            // A long line comes in many pieces: each is searched once.
            searched = buffer.len();
            if buffer.len() > MAX_MESSAGE {
                return LinkError::Protocol(format!("a message exceeds {MAX_MESSAGE} bytes"));
            }
            if let Err(full) = lease.grow_within(buffer.len(), Some(&share)) {
                return LinkError::Protocol(full.to_string());
            }
            match stdout.read_buf(buffer).await {
                Ok(0) | Err(_) => return LinkError::Lost,
                Ok(_) => {}
            }
        }
    }

    /// Handles a line; gives the number of things in it that nobody asked for.
    fn line(&self, line: &Bytes) -> usize {
        if line.iter().all(u8::is_ascii_whitespace) {
            return 0;
        }
        match IncomingMessage::parse(line.clone(), &LIMITS) {
            Ok(IncomingMessage::Single(frame)) => {
                self.fragments().end();
                self.route(frame)
            }
            Ok(IncomingMessage::Batch(parts)) => {
                self.fragments().end();
                let mut unasked = 0;
                for part in parts {
                    match part {
                        Ok(frame) => unasked += self.route(frame),
                        Err(error) => self.pipe.unreadable(error.id.as_ref(), &error, line),
                    }
                }
                unasked
            }
            Err(error) => {
                let verdict = self.fragments().line(line, &error.fault);
                match verdict {
                    LineVerdict::Answer(id) => self.pipe.unreadable(Some(&id), &error, line),
                    LineVerdict::SomeAnswer => self.pipe.unreadable(None, &error, line),
                    LineVerdict::Fragment => {}
                    // Many servers print to standard output what belongs on standard error.
                    LineVerdict::Chatter => {
                        let text = excerpt(line);
                        if self.pipe.may_warn(&text) {
                            tracing::warn!(server = %self.pipe.name(), %error, line = %text, "not a message");
                        }
                        self.pipe.sink.remark(format!("prints on standard output what is no message: {text}"));
                        self.words.add(format!("{text} (on standard output, where only protocol belongs)"));
                    }
                }
                1
            }
        }
    }

    fn route(&self, frame: Frame) -> usize {
        self.pipe.route(frame, |message| self.send(message))
    }

    fn fragments(&self) -> MutexGuard<'_, LineFragments> {
        self.fragments.lock()
    }
}

impl Link for StdioLink {
    fn call(&self, request: OutgoingRequest) -> CallStream {
        let (queue, stream) = call_channel();
        // Before the bytes go out: the answer may come before `push` has returned.
        if let Err(error) = self.pipe.calls().open(request.id, request.method, queue) {
            return CallStream::unsent(error);
        }
        if let Err(error) = self.outbox.push(&one_line(&request.bytes)) {
            self.pipe.calls().withdraw(request.id);
            let is_over = error == LinkError::Stopped;
            return if is_over { CallStream::unsent(error) } else { CallStream::failed(error) };
        }
        stream
    }

    fn cancel(&self, id: u64, reason: Option<&str>) {
        // Before the cancellation is sent, so that an answer which crosses it counts as late.
        self.pipe.calls().abandon(id);
        self.send(cancellation(id, reason));
    }

    fn send(&self, message: Bytes) {
        if let Err(error) = self.outbox.push(&one_line(&message))
            && self.pipe.may_warn("")
        {
            tracing::warn!(server = %self.pipe.name(), %error, "message dropped");
        }
    }

    fn shares_one_stream(&self) -> bool {
        true
    }

    fn last_words(&self) -> Option<String> {
        self.words.last()
    }

    fn close(&self) -> BoxFuture<'static, ()> {
        self.stop.cancel();
        let tasks = self.tasks.clone();
        Box::pin(async move { tasks.wait().await })
    }

    fn kill(&self) -> BoxFuture<'static, ()> {
        self.kill.cancel();
        self.close()
    }
}

async fn write(outbox: Arc<StdioOutbox>, mut stdin: tokio::process::ChildStdin, stop: CancellationToken) {
    let mut work = pin!(async {
        while let Some(bytes) = outbox.take().await {
            if stdin.write_all(&bytes).await.is_err() {
                break;
            }
        }
    });
    tokio::select! {
        () = &mut work => {}
        () = stop.cancelled() => {
            // What was said before, such as cancellations of the calls that ran, still goes out.
            outbox.close();
            let _ = tokio::time::timeout(LAST_WORDS, work).await;
        }
    }
    // Dropping the pipe is the server's signal to end.
}
