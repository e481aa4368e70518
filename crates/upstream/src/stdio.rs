//! A server as a child process, one message per line.

mod calls;
mod fragments;
pub(crate) mod lines;
pub mod marked_processes;
mod outbox;
pub(crate) mod process;

use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::future::BoxFuture;
use tidings_proto::{MessageSubject, ServerMessage, code, notifications};
use tidings_wire::{
    Frame, FrameError, FrameKind, IncomingMessage, MESSAGES, RawId, encode_string, error_response, notification,
    one_line,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::call::call_channel;
use crate::link::{Link, MessageSink, OutgoingRequest};
use crate::log_budget::{LineAdmission, LogBudget};
use crate::pace::{UnaskedPace, is_unasked};
use crate::spec::StdioSpec;
use crate::{CallEvent, CallStream, LIMITS, LinkError, MAX_MESSAGE};
use calls::StdioCalls;
use fragments::{LineFragments, LineVerdict};
use outbox::StdioOutbox;
use process::{ChildProcess, ProcessLauncher, StderrTail};

/// How many bytes of warnings about one server are logged each second.
const NOISE: usize = 24 << 10;
/// How long the pipe of a process that has ended is read on.
const LEFT_OVER: Duration = Duration::from_millis(200);
/// How long a server that is closed may take to read what was said to it before.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// A link to a child process: one task reads its lines, one writes, and calls wait by id.
pub(crate) struct StdioLink {
    name: String,
    outbox: Arc<StdioOutbox>,
    calls: Mutex<StdioCalls>,
    /// Used by the one task that reads.
    fragments: Mutex<LineFragments>,
    stop: CancellationToken,
    /// The reader and the writer. They end when the process or the link does.
    tasks: TaskTracker,
    /// For warnings about what it prints.
    noise: LogBudget,
    sink: Arc<dyn MessageSink>,
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
            name: name.to_owned(),
            outbox: Arc::default(),
            calls: Mutex::default(),
            fragments: Mutex::default(),
            stop: CancellationToken::new(),
            tasks: TaskTracker::new(),
            noise: LogBudget::new(NOISE),
            sink,
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
            LinkError::Lost => process.end().await,
            other => {
                // How it ends is no part of what is to be said.
                // At once, because ending the process may take seconds.
                self.fail(&other);
                process.end().await;
                other
            }
        };
        let error = match &self.epilogue {
            Some(epilogue) => epilogue.explain(error, process.exit_code()),
            None => error,
        };
        self.fail(&error);
        self.sink.closed(error);
        if let Some(epilogue) = &self.epilogue {
            epilogue.clean_up().await;
        }
    }

    async fn read(&self, stdout: &mut tokio::process::ChildStdout, buffer: &mut BytesMut) -> LinkError {
        let mut searched = 0;
        let mut pace = UnaskedPace::default();
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
            if let Err(full) = lease.grow_to(buffer.len()) {
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
                        Err(error) => self.unreadable(error.id.as_ref(), &error, line),
                    }
                }
                unasked
            }
            Err(error) => {
                let verdict = self.fragments().line(line, &error.fault);
                match verdict {
                    LineVerdict::Answer(id) => self.unreadable(Some(&id), &error, line),
                    LineVerdict::SomeAnswer => self.unreadable(None, &error, line),
                    LineVerdict::Fragment => {}
                    // Many servers print to standard output what belongs on standard error.
                    LineVerdict::Chatter => {
                        let text = excerpt(line);
                        if self.may_warn(&text) {
                            tracing::warn!(server = %self.name, %error, line = %text, "not a message");
                        }
                        self.sink.remark(format!("prints on standard output what is no message: {text}"));
                        self.words.add(format!("{text} (on standard output, where only protocol belongs)"));
                    }
                }
                1
            }
        }
    }

    /// Whether a warning about something the server said may be written; says how many were not.
    fn may_warn(&self, text: &str) -> bool {
        match self.noise.admit(text.len()) {
            LineAdmission::LeaveOut { .. } => false,
            LineAdmission::Write { left_out } => {
                if left_out > 0 {
                    tracing::warn!(server = %self.name, left_out, "warnings about this server were left out");
                }
                true
            }
        }
    }

    /// An answer that can not be read: whoever waits for it fails now and not when its time is over.
    fn unreadable(&self, id: Option<&RawId>, error: &FrameError, line: &[u8]) {
        let text = excerpt(line);
        if self.may_warn(&text) {
            tracing::warn!(server = %self.name, %error, line = %text, "an answer can not be read");
        }
        let number = id.and_then(calls::number);
        let waiting = match (number, id) {
            (Some(number), _) => self.lock().answered(number),
            // An id that is no number of ours was never given to a call.
            (None, Some(_)) => None,
            // Without a readable id it can only be given to somebody if there is only one who waits.
            (None, None) => self.lock().take_sole(),
        };
        match (waiting, number) {
            (Some(queue), _) => {
                let reason = LinkError::Protocol(format!("its answer can not be read: {error}"));
                queue.finish(CallEvent::Failed(reason));
            }
            // The call was given up; the table of calls wants to know that the server is done with it.
            (None, Some(late)) => self.sink.answered_late(late),
            (None, None) => self.sink.remark(format!("sent an answer that can not be read ({error}): {text}")),
        }
    }

    /// Gives a message to whom it belongs; gives the number of things in it that nobody asked for.
    fn route(&self, frame: Frame) -> usize {
        if matches!(frame.kind(), FrameKind::Response | FrameKind::Error) {
            let id = frame.id().and_then(|id| calls::number(&id));
            let queue = match (id, frame.id()) {
                (Some(id), _) => self.lock().answered(id),
                (None, Some(_)) => None,
                // An error about a request whose id the server did not read.
                (None, None) => self.lock().take_sole(),
            };
            let is_late = match queue {
                // The stream was dropped and the call not cancelled yet: for the server it is over all the same.
                Some(queue) => !queue.answer(frame),
                None if frame.id().is_none() => {
                    self.sink.remark(format!("sent an error that answers nobody: {}", excerpt(frame.bytes())));
                    false
                }
                None => {
                    tracing::debug!(server = %self.name, id = ?frame.id(), "late or unknown answer dropped");
                    true
                }
            };
            if let Some(id) = id.filter(|_| is_late) {
                self.sink.answered_late(id);
            }
            return 0;
        }
        let message = ServerMessage::from(frame);
        let unasked = usize::from(is_unasked(message.subject()));
        self.pass_on(message);
        unasked
    }

    /// Gives a message that is no answer to the call it belongs to, or to the gateway.
    fn pass_on(&self, message: ServerMessage) {
        // By the token where there is one; only otherwise must the gateway guess from what is in flight.
        let owner = progress_owner(&message).or_else(|| self.sink.owner(&message));
        let refused = match owner {
            None => return self.sink.unowned(message),
            Some(id) => match self.lock().get(id) {
                Some(queue) => queue.push(message),
                // Progress after the answer, or of a call that was cancelled.
                None => Some(message),
            },
        };
        if let Some(message) = refused
            // A question that is dropped in silence would make the server wait for ever.
            && message.subject().is_request()
        {
            let text = "the client does not keep up";
            self.send(error_response(message.id().as_ref(), code::INTERNAL_ERROR, text, None));
        }
    }

    fn fail(&self, error: &LinkError) {
        let open = self.lock().close(error);
        for queue in open {
            queue.finish(CallEvent::Failed(error.clone()));
        }
    }

    fn lock(&self) -> MutexGuard<'_, StdioCalls> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fragments(&self) -> MutexGuard<'_, LineFragments> {
        self.fragments.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The beginning of a line, for whoever looks for the cause.
fn excerpt(line: &[u8]) -> String {
    String::from_utf8_lossy(&line[..line.len().min(200)]).trim_end().to_owned()
}

/// Progress names its call by the token, which is the call's id.
fn progress_owner(message: &ServerMessage) -> Option<u64> {
    if message.subject() != MessageSubject::Progress {
        return None;
    }
    RawId::from_raw(message.raw(message.param(&["progressToken"])?))?.as_u64()
}

impl Link for StdioLink {
    fn call(&self, request: OutgoingRequest) -> CallStream {
        let (queue, stream) = call_channel();
        // Before the bytes go out: the answer may come before `push` has returned.
        if let Err(error) = self.lock().open(request.id, request.method, queue) {
            return CallStream::failed(error);
        }
        if let Err(error) = self.outbox.push(&one_line(&request.bytes)) {
            self.lock().withdraw(request.id);
            return CallStream::failed(error);
        }
        stream
    }

    fn cancel(&self, id: u64, reason: Option<&str>) {
        // Before the cancellation is sent, so that an answer which crosses it counts as late.
        self.lock().abandon(id);
        let reason = reason.map(|r| format!(",\"reason\":{}", encode_string(r))).unwrap_or_default();
        let params = format!("{{\"requestId\":{id}{reason}}}");
        self.send(notification(notifications::CANCELLED, Some(params.as_bytes())));
    }

    fn send(&self, message: Bytes) {
        if let Err(error) = self.outbox.push(&one_line(&message))
            && self.may_warn("")
        {
            tracing::warn!(server = %self.name, %error, "message dropped");
        }
    }

    fn last_words(&self) -> Option<String> {
        self.words.last()
    }

    fn close(&self) -> BoxFuture<'static, ()> {
        self.stop.cancel();
        let tasks = self.tasks.clone();
        Box::pin(async move { tasks.wait().await })
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
