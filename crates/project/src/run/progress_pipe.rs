//! What a running script says: lines of JSON in a pipe, as notifications for its caller, as they come.

use std::io;
use std::path::Path;

use bytes::{Bytes, BytesMut};
use serde_json::Value;
use tidings_proto::{LogLevel, notifications};
use tidings_upstream::CallQueue;
use tidings_wire::{Frame, FrameLimits, RawId, notification};
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe;
use tokio::time::{Duration, Instant};

const LIMITS: FrameLimits = FrameLimits { max_bytes: tidings_upstream::MAX_MESSAGE, max_depth: 256, max_batch: 1 };
/// A longer line is not read.
const LONGEST: usize = 1 << 20;
const MINUTE: Duration = Duration::from_secs(60);

/// A message that was made here.
pub(crate) fn framed(bytes: Bytes) -> Option<Frame> {
    Frame::parse(bytes, &LIMITS).map_err(|error| tracing::debug!(%error, "not a message")).ok()
}

/// The reading end of the pipe.
pub(crate) struct ProgressPipe {
    pipe: pipe::Receiver,
    /// Keeps it open where one end can not be both.
    _held: Option<pipe::Sender>,
    buffer: BytesMut,
    /// In the middle of a line that is too long.
    skipping: bool,
}

impl ProgressPipe {
    /// Opens it for writing too, so that it never ends and nobody who opens it has to wait.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        // POSIX leaves open what opening a FIFO for both does; on Linux it neither waits nor ends.
        #[cfg(target_os = "linux")]
        let (pipe, _held) = (pipe::OpenOptions::new().read_write(true).open_receiver(path)?, None);
        #[cfg(not(target_os = "linux"))]
        let (pipe, _held) = {
            // The reader first: without one, opening a FIFO for writing fails.
            let pipe = pipe::OpenOptions::new().open_receiver(path)?;
            (pipe, Some(pipe::OpenOptions::new().open_sender(path)?))
        };
        Ok(Self { pipe, _held, buffer: BytesMut::new(), skipping: false })
    }

    /// The next line. May be dropped and called again.
    pub(crate) async fn line(&mut self) -> Bytes {
        loop {
            if let Some(line) = self.take_line() {
                return line;
            }
            self.buffer.reserve(4 << 10);
            // A broken pipe is quiet for ever; the call goes on without progress.
            if self.pipe.read_buf(&mut self.buffer).await.is_err() {
                return std::future::pending().await;
            }
        }
    }

    /// A line that is there already: what was said before the end.
    pub(crate) fn line_now(&mut self) -> Option<Bytes> {
        loop {
            if let Some(line) = self.take_line() {
                return Some(line);
            }
            self.buffer.reserve(4 << 10);
            match self.pipe.try_read_buf(&mut self.buffer) {
                Ok(1..) => {}
                Ok(0) | Err(_) => return None,
            }
        }
    }

    fn take_line(&mut self) -> Option<Bytes> {
        while let Some(at) = memchr(&self.buffer) {
            let line = self.buffer.split_to(at + 1).freeze();
            // This was the end of the line that was too long.
            if !std::mem::take(&mut self.skipping) {
                return Some(line);
            }
        }
        if self.buffer.len() > LONGEST {
            self.buffer.clear();
            self.skipping = true;
        }
        None
    }
}

fn memchr(bytes: &[u8]) -> Option<usize> {
    bytes.iter().position(|byte| *byte == b'\n')
}

/// What a line was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PipedLine {
    /// How far it is.
    Progress,
    /// Something else, or nothing.
    Other,
}

/// Turns lines into notifications of one call.
pub(crate) struct LineNotifier {
    token: Option<RawId>,
    level: LogLevel,
    progress: MinuteRate,
    logs: MinuteRate,
}

impl LineNotifier {
    /// `level`: the least that is passed on.
    pub(crate) fn new(token: Option<RawId>, level: LogLevel, progress_per_minute: u32, logs_per_minute: u32) -> Self {
        Self { token, level, progress: MinuteRate::new(progress_per_minute), logs: MinuteRate::new(logs_per_minute) }
    }

    /// Passes a line on, if it is something that a caller may be told.
    pub(crate) fn say(&mut self, line: &[u8], queue: &CallQueue, now: Instant) -> PipedLine {
        let Ok(mut message) = serde_json::from_slice::<Value>(line) else { return PipedLine::Other };
        let method = message["method"].as_str().unwrap_or_default().to_owned();
        let params = message["params"].take();
        match (method.as_str(), params) {
            (notifications::PROGRESS, Value::Object(mut params)) => {
                // It extends the time also where the caller did not ask for progress.
                let Some(token) = &self.token else { return PipedLine::Progress };
                if params.get("progress").is_some_and(Value::is_number) && self.progress.admits(now) {
                    // Scripts write null for what they do not know; the protocol leaves it out.
                    params.retain(|_, value| !value.is_null());
                    params.insert("progressToken".into(), serde_json::from_str(token.as_str()).unwrap_or_default());
                    push(queue, &method, &params.into());
                }
                PipedLine::Progress
            }
            (notifications::MESSAGE, params) => {
                let level = params["level"].as_str().and_then(LogLevel::parse);
                if level.is_some_and(|level| level >= self.level) && !params["data"].is_null() && self.logs.admits(now)
                {
                    push(queue, &method, &params);
                }
                PipedLine::Other
            }
            _ => PipedLine::Other,
        }
    }
}

/// What a slow caller has no room for is dropped; its answer has a place of its own.
fn push(queue: &CallQueue, method: &str, params: &Value) {
    if let Some(frame) = framed(notification(method, Some(params.to_string().as_bytes()))) {
        let _ = queue.push(frame.into());
    }
}

/// At most so many in a minute.
struct MinuteRate {
    limit: u32,
    since: Option<Instant>,
    count: u32,
}

impl MinuteRate {
    fn new(limit: u32) -> Self {
        Self { limit, since: None, count: 0 }
    }

    fn admits(&mut self, now: Instant) -> bool {
        let since = *self.since.get_or_insert(now);
        if now.saturating_duration_since(since) >= MINUTE {
            self.since = Some(now);
            self.count = 0;
        }
        self.count = self.count.saturating_add(1);
        self.count <= self.limit
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use serde_json::json;
    use tidings_upstream::{CallEvent, CallStream, call_channel};

    use super::*;

    fn told(stream: &mut CallStream) -> Option<Value> {
        match stream.next().now_or_never()? {
            CallEvent::Message(frame) => serde_json::from_slice(frame.bytes()).ok(),
            _ => None,
        }
    }

    fn herald() -> LineNotifier {
        LineNotifier::new(RawId::from_raw(b"17"), LogLevel::Info, 2, 2)
    }

    #[tokio::test]
    async fn progress_carries_the_callers_token_and_no_nulls() {
        // S2.3
        let (queue, mut stream) = call_channel();
        let line = br#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"forged","progress":50,"total":null,"message":"half"}}"#;
        assert_eq!(herald().say(line, &queue, Instant::now()), PipedLine::Progress);
        let params = json!({"progressToken": 17, "progress": 50, "message": "half"});
        assert_eq!(told(&mut stream).unwrap()["params"], params);
    }

    #[tokio::test]
    async fn more_than_the_rate_is_dropped_until_the_minute_is_over() {
        // S0.9
        let (queue, mut stream) = call_channel();
        let (mut herald, start) = (herald(), Instant::now());
        let mut say = |number: u64, at| {
            let line = format!(r#"{{"method":"notifications/progress","params":{{"progress":{number}}}}}"#);
            assert_eq!(herald.say(line.as_bytes(), &queue, at), PipedLine::Progress);
        };
        (1..=3).for_each(|number| say(number, start));
        say(4, start + MINUTE);
        let heard: Vec<Value> =
            std::iter::from_fn(|| told(&mut stream)).map(|m| m["params"]["progress"].clone()).collect();
        assert_eq!(heard, [1, 2, 4]);
    }

    #[tokio::test]
    async fn logs_below_the_level_and_what_is_no_notification_are_not_passed_on() {
        let (queue, mut stream) = call_channel();
        let mut herald = herald();
        for line in [
            r#"{"method":"notifications/message","params":{"level":"debug","data":"x"}}"#,
            r#"{"method":"notifications/message","params":{"level":"loud","data":"x"}}"#,
            r#"{"method":"notifications/tools/list_changed"}"#,
            r#"{"method":"sampling/createMessage","id":1,"params":{}}"#,
            "not json \u{fffd}",
        ] {
            assert_eq!(herald.say(line.as_bytes(), &queue, Instant::now()), PipedLine::Other);
        }
        assert_eq!(told(&mut stream), None);
        herald.say(
            br#"{"method":"notifications/message","params":{"level":"error","logger":"l","data":{"a":1}}}"#,
            &queue,
            Instant::now(),
        );
        assert_eq!(told(&mut stream).unwrap()["params"], json!({"level": "error", "logger": "l", "data": {"a": 1}}));
    }
}
