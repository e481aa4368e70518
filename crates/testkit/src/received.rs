//! One message as it arrived, on either side.

use std::fmt;

use bytes::Bytes;
use serde_json::Value;
use tidings_wire::{Frame, FrameKind, FrameLimits, RawId};

/// The method under which a server records that a client went away before its response was complete; the id is the
/// request's.
pub const DISCONNECTED: &str = "testkit/disconnected";

/// A message that arrived, with all that came with it.
#[derive(Clone, Default)]
pub struct ReceivedMessage {
    /// Every byte: the body of the POST, the line, or the data of the event.
    pub raw: Bytes,
    /// The method; empty for responses and for what is no message.
    pub method: String,
    /// What it is; `None` when it is no valid message (a batch, broken JSON, an empty body).
    pub kind: Option<FrameKind>,
    /// The id, with its JSON type.
    pub id: Option<RawId>,
    /// The HTTP verb; empty on stdio.
    pub verb: String,
    /// The HTTP path; empty on stdio.
    pub path: String,
    /// HTTP headers, names in lower case.
    pub headers: Vec<(String, String)>,
    /// On which connection (process, session) of a server, or `0`.
    pub connection: usize,
    /// The id of the event it came in.
    pub event_id: Option<String>,
    /// The stream on which a client got it: `post 1`, `get`, `stdio`.
    pub stream: String,
}

impl ReceivedMessage {
    pub(crate) fn parse(raw: Bytes) -> Self {
        match Frame::parse(raw.clone(), &FrameLimits::default()) {
            Ok(frame) => Self {
                method: frame.method().into_owned(),
                kind: Some(frame.kind()),
                id: frame.id(),
                raw,
                ..Self::default()
            },
            // Kept all the same: tests look at broken messages, too.
            Err(_) => Self { raw, ..Self::default() },
        }
    }

    pub(crate) fn frame(&self) -> Option<Frame> {
        Frame::parse(self.raw.clone(), &FrameLimits::default()).ok()
    }

    /// The raw text.
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.raw).unwrap_or("<not UTF-8>")
    }

    /// The whole message; null when it is not JSON.
    pub fn value(&self) -> Value {
        serde_json::from_slice(&self.raw).unwrap_or_default()
    }

    /// The params; null when there are none.
    pub fn params(&self) -> Value {
        serde_json::from_slice(self.params_raw().as_bytes()).unwrap_or_default()
    }

    /// The raw text of the params; empty when there are none.
    pub fn params_raw(&self) -> String {
        self.span(|frame| frame.params())
    }

    /// The value at a path inside the params; null when there is none.
    pub fn param(&self, path: &[&str]) -> Value {
        serde_json::from_str(&self.param_raw(path)).unwrap_or_default()
    }

    /// The raw text of the value at a path inside the params; empty when there is none.
    pub fn param_raw(&self, path: &[&str]) -> String {
        self.span(|frame| frame.param(path))
    }

    /// The raw text of the result or the error; empty when there is none.
    pub fn outcome_raw(&self) -> String {
        self.span(|frame| frame.outcome())
    }

    /// The result; null when there is none.
    pub fn result(&self) -> Value {
        self.outcome(FrameKind::Response)
    }

    /// The error; null when there is none.
    pub fn error(&self) -> Value {
        self.outcome(FrameKind::Error)
    }

    fn outcome(&self, kind: FrameKind) -> Value {
        if self.kind == Some(kind) {
            serde_json::from_str(&self.outcome_raw()).unwrap_or_default()
        } else {
            Value::Null
        }
    }

    /// An HTTP header.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// Whether it is a response (or an error) to a request.
    pub fn is_response(&self) -> bool {
        matches!(self.kind, Some(FrameKind::Response | FrameKind::Error))
    }

    /// Whether it is a request.
    pub fn is_request(&self) -> bool {
        self.kind == Some(FrameKind::Request)
    }

    /// Whether it is a notification with that method.
    pub fn is_notification(&self, method: &str) -> bool {
        self.kind == Some(FrameKind::Notification) && self.method == method
    }

    fn span(&self, find: impl Fn(&Frame) -> Option<tidings_wire::ByteSpan>) -> String {
        let Some(frame) = self.frame() else { return String::new() };
        find(&frame).map(|span| String::from_utf8_lossy(frame.raw(span)).into_owned()).unwrap_or_default()
    }
}

impl fmt::Debug for ReceivedMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.connection > 0 {
            write!(f, "#{} ", self.connection)?;
        }
        for part in [&self.verb, &self.stream].into_iter().filter(|part| !part.is_empty()) {
            write!(f, "{part} ")?;
        }
        if self.method == DISCONNECTED {
            return write!(f, "{DISCONNECTED} id {:?}", self.id);
        }
        f.write_str(self.text())
    }
}
