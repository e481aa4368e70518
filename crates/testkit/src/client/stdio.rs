//! The stdio side of a client: a process, its lines in and out.

use std::process::{ExitStatus, Stdio as Pipe};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use tidings_wire::{RawId, one_line};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::sync::{mpsc, watch};

use super::ClientShared;
use super::exchange::{ExchangeEvent, PendingExchange};
use crate::received::ReceivedMessage;
use crate::record::{AwaitedRecord, lock, within};

pub(super) struct StdioTransport {
    input: Mutex<Option<mpsc::UnboundedSender<Bytes>>>,
    pending: Arc<WaitingRequests>,
    stderr: Arc<AwaitedRecord<String>>,
    exit: watch::Receiver<Option<ExitStatus>>,
    pid: u32,
    raw: bool,
}

/// The requests that wait for a response: each hears everything that comes meanwhile.
#[derive(Default)]
pub(super) struct WaitingRequests(Mutex<Vec<(RawId, mpsc::UnboundedSender<ExchangeEvent>)>>);

impl StdioTransport {
    /// Starts the process; what becomes of its standard error is in the command.
    pub(super) fn spawn(shared: &Arc<ClientShared>, mut command: Command, raw: bool) -> Self {
        command.stdin(Pipe::piped()).stdout(Pipe::piped()).kill_on_drop(true);
        let mut child = command.spawn().unwrap_or_else(|e| panic!("starting {command:?}: {e}"));
        let pid = child.id().unwrap_or_default();
        let (input, lines) = mpsc::unbounded_channel();
        let (exit_sender, exit) = watch::channel(None);
        let pending = Arc::new(WaitingRequests::default());
        let stderr = Arc::new(AwaitedRecord::new());
        if let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) {
            shared.spawn(&shared.life, write(stdin, lines));
            // Weak, or the reader would keep the process's input open after `close_stdin`.
            shared.spawn(&shared.life, read(shared.clone(), stdout, input.downgrade(), pending.clone()));
        }
        if let Some(errors) = child.stderr.take() {
            shared.spawn(&shared.life, read_errors(errors, stderr.clone()));
        }
        shared.spawn(&shared.life, reap(child, exit_sender));
        Self { input: Mutex::new(Some(input)), pending, stderr, exit, pid, raw }
    }

    pub(super) fn is_raw(&self) -> bool {
        self.raw
    }

    pub(super) fn pid(&self) -> u32 {
        self.pid
    }

    pub(super) fn stderr(&self) -> &AwaitedRecord<String> {
        &self.stderr
    }

    pub(super) fn write(&self, line: Bytes) {
        if let Some(input) = &*lock(&self.input) {
            let _ = input.send(line);
        }
    }

    pub(super) fn close_stdin(&self) {
        lock(&self.input).take();
    }

    pub(super) async fn wait_exit(&self) -> ExitStatus {
        let mut exit = self.exit.clone();
        let ended = within(&format!("the end of process {}", self.pid), exit.wait_for(Option::is_some)).await;
        ended.ok().and_then(|status| *status).expect("a process that ended has a status")
    }

    pub(super) fn send(&self, message: Bytes, method: &str, id: RawId) -> PendingExchange {
        let (events, receiver) = mpsc::unbounded_channel();
        let what = format!("{method} (id {id}) on stdio");
        // Before it is written, since the answer may be quick.
        self.pending.add(id.clone(), events);
        self.write(message);
        PendingExchange::new(id, what, receiver, None)
    }
}

impl WaitingRequests {
    pub(super) fn add(&self, id: RawId, events: mpsc::UnboundedSender<ExchangeEvent>) {
        lock(&self.0).push((id, events));
    }

    pub(super) fn tell(&self, received: &ReceivedMessage) {
        lock(&self.0).retain(|(id, events)| {
            if received.is_response() {
                let mine = received.id.as_ref() == Some(id);
                if mine {
                    let _ = events.send(ExchangeEvent::Message(received.clone()));
                    let _ = events.send(ExchangeEvent::End);
                }
                !mine
            } else {
                // Nobody listens any more when the handle was dropped.
                events.send(ExchangeEvent::Message(received.clone())).is_ok()
            }
        });
    }

    pub(super) fn end(&self, why: &str) {
        for (_, events) in lock(&self.0).drain(..) {
            let _ = events.send(ExchangeEvent::Failed(why.to_owned()));
        }
    }
}

async fn write(mut stdin: ChildStdin, mut lines: mpsc::UnboundedReceiver<Bytes>) {
    while let Some(line) = lines.recv().await {
        let line = [&one_line(&line)[..], b"\n"].concat();
        if stdin.write_all(&line).await.is_err() || stdin.flush().await.is_err() {
            return;
        }
    }
}

async fn read(
    shared: Arc<ClientShared>,
    stdout: ChildStdout,
    input: mpsc::WeakUnboundedSender<Bytes>,
    pending: Arc<WaitingRequests>,
) {
    let mut reader = BufReader::new(stdout);
    let mut line = Vec::new();
    loop {
        line.clear();
        shared.wait_reading().await;
        if reader.read_until(b'\n', &mut line).await.unwrap_or(0) == 0 {
            pending.end("the process closed its output");
            return;
        }
        if line.last() == Some(&b'\n') {
            line.pop();
        }
        let received =
            ReceivedMessage { stream: "stdio".to_owned(), ..ReceivedMessage::parse(Bytes::copy_from_slice(&line)) };
        // Recorded before whoever waits is told: a test that has its answer finds it in the record.
        let reply = shared.take(&received);
        pending.tell(&received);
        if let (Some(reply), Some(input)) = (reply, input.upgrade()) {
            let _ = input.send(reply);
        }
    }
}

async fn read_errors(stderr: ChildStderr, record: Arc<AwaitedRecord<String>>) {
    let mut lines = BufReader::new(stderr).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        record.push(line);
    }
}

async fn reap(mut child: Child, exit: watch::Sender<Option<ExitStatus>>) {
    if let Ok(status) = child.wait().await {
        exit.send_replace(Some(status));
    }
}
