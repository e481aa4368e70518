//! The event-stream framing, in and out.

use bytes::{BufMut, Bytes, BytesMut};

/// One event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Event {
    /// The `id` field of this event, if it had one.
    pub id: Option<String>,
    /// The `event` field; empty means `message`.
    pub event: String,
    /// The `data` lines, joined.
    pub data: Bytes,
    /// The `retry` field in milliseconds.
    pub retry: Option<u64>,
}

/// The stream broke its bound: one event is larger than the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an event exceeds the limit of {limit} bytes")]
pub struct EventTooLong {
    /// The limit.
    pub limit: usize,
}

/// Turns chunks of bytes, cut anywhere, into events.
#[derive(Debug)]
pub struct Decoder {
    buffer: BytesMut,
    searched: usize,
    current: Event,
    data: BytesMut,
    has_data: bool,
    skip_newline: bool,
    limit: usize,
}

impl Decoder {
    /// A decoder that refuses events larger than `limit`.
    pub fn new(limit: usize) -> Self {
        Self {
            buffer: BytesMut::new(),
            searched: 0,
            current: Event::default(),
            data: BytesMut::new(),
            has_data: false,
            skip_newline: false,
            limit,
        }
    }

    /// Takes a chunk.
    pub fn push(&mut self, chunk: &[u8]) {
        self.buffer.extend_from_slice(chunk);
    }

    /// The next whole event. An event with an id or a retry but no data is reported too: it primes a resumption.
    pub fn next_event(&mut self) -> Result<Option<Event>, EventTooLong> {
        while let Some(line) = self.line() {
            if line.is_empty() {
                if let Some(event) = self.dispatch() {
                    return Ok(Some(event));
                }
            } else {
                self.field(&line);
            }
            self.check()?;
        }
        self.check()?;
        Ok(None)
    }

    fn check(&self) -> Result<(), EventTooLong> {
        if self.buffer.len().max(self.data.len()) > self.limit {
            Err(EventTooLong { limit: self.limit })
        } else {
            Ok(())
        }
    }

    fn line(&mut self) -> Option<Bytes> {
        if self.skip_newline && !self.buffer.is_empty() {
            // The second half of a CRLF that was cut in two.
            if self.buffer[0] == b'\n' {
                let _ = self.buffer.split_to(1);
            }
            self.skip_newline = false;
        }
        let Some(found) = memchr::memchr2(b'\n', b'\r', &self.buffer[self.searched..]) else {
            self.searched = self.buffer.len();
            return None;
        };
        let end = self.searched + found;
        self.searched = 0;
        let line = self.buffer.split_to(end).freeze();
        let ending = self.buffer.split_to(1);
        self.skip_newline = ending[0] == b'\r';
        Some(line)
    }

    fn field(&mut self, line: &[u8]) {
        let (name, value) = match memchr::memchr(b':', line) {
            Some(0) => return,
            Some(colon) => {
                let value = &line[colon + 1..];
                (&line[..colon], value.strip_prefix(b" ").unwrap_or(value))
            }
            None => (line, &[][..]),
        };
        match name {
            b"data" => {
                if self.has_data {
                    self.data.put_u8(b'\n');
                }
                self.data.put_slice(value);
                self.has_data = true;
            }
            b"event" => self.current.event = String::from_utf8_lossy(value).into_owned(),
            b"id" if !value.contains(&0) => self.current.id = Some(String::from_utf8_lossy(value).into_owned()),
            b"retry" => self.current.retry = std::str::from_utf8(value).ok().and_then(|v| v.parse().ok()),
            _ => {}
        }
    }

    fn dispatch(&mut self) -> Option<Event> {
        let mut event = std::mem::take(&mut self.current);
        event.data = self.data.split().freeze();
        let meant = self.has_data || event.id.is_some() || event.retry.is_some();
        self.has_data = false;
        meant.then_some(event)
    }
}

/// Writes one event. `data` must be on one line (see [`crate::one_line`]).
pub fn encode(id: Option<&str>, retry: Option<u64>, data: &[u8]) -> Bytes {
    let mut out = BytesMut::with_capacity(data.len() + 64);
    // Priming events have no name, so that clients do not take the empty data for a message.
    if !data.is_empty() {
        out.put_slice(b"event: message\n");
    }
    if let Some(id) = id {
        out.put_slice(b"id: ");
        out.put_slice(id.as_bytes());
        out.put_u8(b'\n');
    }
    if let Some(retry) = retry {
        out.put_slice(b"retry: ");
        out.put_slice(retry.to_string().as_bytes());
        out.put_u8(b'\n');
    }
    out.put_slice(b"data: ");
    out.put_slice(data);
    out.put_slice(b"\n\n");
    out.freeze()
}
