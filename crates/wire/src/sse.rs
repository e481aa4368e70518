//! The event-stream framing, in and out.

use std::sync::Arc;

use bytes::{Buf, BufMut, Bytes, BytesMut};

use crate::message_budget::{BudgetExhausted, BudgetLease, BudgetShare, MESSAGES, MessageBudget};

/// May stand once, before the first line.
const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// How much longer a line may be than the data it carries: a field name, and at the start the byte order mark.
const LINE_OVERHEAD: usize = b"event: ".len() + BYTE_ORDER_MARK.len();

/// An event of a `text/event-stream`, with the fields that MCP uses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SseEvent {
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
pub enum EventTooLong {
    /// An event may have so many bytes.
    #[error("an event exceeds the limit of {limit} bytes")]
    OverLimit {
        /// The bound that it breaks, in bytes.
        limit: usize,
    },
    /// There is no room for it in the memory of all messages.
    #[error(transparent)]
    NoRoom(BudgetExhausted),
}

/// Turns chunks of bytes, cut anywhere, into events.
#[derive(Debug)]
pub struct SseDecoder {
    buffer: BytesMut,
    searched: usize,
    current: SseEvent,
    data: BytesMut,
    has_data: bool,
    skip_newline: bool,
    at_start: bool,
    limit: usize,
    /// What the event that is gathered takes of the memory for all messages.
    lease: BudgetLease,
}

impl SseDecoder {
    /// A decoder that refuses events whose content is larger than `limit`. Comments and other ignored lines count only
    /// line by line.
    pub fn new(limit: usize) -> Self {
        Self::with_budget(limit, &MESSAGES)
    }

    /// The same, with another budget than that of the process.
    pub fn with_budget(limit: usize, budget: &'static MessageBudget) -> Self {
        Self {
            buffer: BytesMut::new(),
            searched: 0,
            current: SseEvent::default(),
            data: BytesMut::new(),
            has_data: false,
            skip_newline: false,
            at_start: true,
            limit,
            lease: budget.lease(),
        }
    }

    /// Takes a chunk, which may end in the middle of a line or of a character.
    pub fn push(&mut self, chunk: &[u8]) {
        self.buffer.extend_from_slice(chunk);
    }

    /// The next whole event. An event with an id or a retry but no data is reported too: it primes a resumption. An
    /// error is final.
    pub fn next_event(&mut self) -> Result<Option<SseEvent>, EventTooLong> {
        self.next_event_within(None)
    }

    /// The same for the stream of a peer that may take only its share of the memory for messages.
    pub fn next_event_within(&mut self, share: Option<&Arc<BudgetShare>>) -> Result<Option<SseEvent>, EventTooLong> {
        loop {
            // Counted together: each of them may be sent many times before the event ends.
            if self.data.len() + self.current.event.len() + self.current.id.as_ref().map_or(0, String::len) > self.limit
            {
                return Err(EventTooLong::OverLimit { limit: self.limit });
            }
            let Some(line) = self.line()? else {
                // What is left is one event that is not whole yet.
                let gathered = self.buffer.len() + self.data.len();
                return self.lease.grow_within(gathered, share).map(|()| None).map_err(EventTooLong::NoRoom);
            };
            if !line.is_empty() {
                self.field(&line);
            } else if let Some(event) = self.dispatch() {
                return Ok(Some(event));
            }
        }
    }

    /// How much of the memory for all messages the event takes that is not whole yet.
    pub fn taken(&self) -> usize {
        self.lease.taken()
    }

    fn line(&mut self) -> Result<Option<Bytes>, EventTooLong> {
        if self.skip_newline && !self.buffer.is_empty() {
            // The second half of a CRLF that was cut in two.
            if self.buffer[0] == b'\n' {
                self.buffer.advance(1);
            }
            self.skip_newline = false;
        }
        let found = memchr::memchr2(b'\n', b'\r', &self.buffer[self.searched..]);
        let end = found.map_or(self.buffer.len(), |found| self.searched + found);
        // Only this line, never the whole buffer: a chunk may hold many events. It stays there, so the error does too.
        if end > self.limit.saturating_add(LINE_OVERHEAD) {
            return Err(EventTooLong::OverLimit { limit: self.limit });
        }
        if found.is_none() {
            // The next chunk is searched from here: a long line that comes in small pieces would cost the square of
            // its length.
            self.searched = end;
            return Ok(None);
        }
        self.searched = 0;
        let mut line = self.buffer.split_to(end).freeze();
        // A `\r` alone ends a line as well; whether a `\n` follows may be known only with the next chunk.
        self.skip_newline = self.buffer[0] == b'\r';
        self.buffer.advance(1);
        if std::mem::take(&mut self.at_start) && line.starts_with(BYTE_ORDER_MARK) {
            line.advance(BYTE_ORDER_MARK.len());
        }
        Ok(Some(line))
    }

    fn field(&mut self, line: &[u8]) {
        let (name, value) = match memchr::memchr(b':', line) {
            // A line that begins with a colon is a comment; servers send them to keep the connection alive.
            Some(0) => return,
            Some(colon) => {
                let value = &line[colon + 1..];
                // One space after the colon belongs to the framing, more to the value.
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
            // The standard says to ignore such an id.
            b"id" if !value.contains(&0) => self.current.id = Some(String::from_utf8_lossy(value).into_owned()),
            // The standard has a value that is not all digits ignored, so the one before it stays.
            b"retry" => self.current.retry = milliseconds(value).or(self.current.retry),
            _ => {}
        }
    }

    fn dispatch(&mut self) -> Option<SseEvent> {
        let mut event = std::mem::take(&mut self.current);
        event.data = self.lease.take().attach(self.data.split().freeze());
        // Unlike a browser, which drops an event without data: servers prime a resumption with the id alone.
        let meant = self.has_data || event.id.is_some() || event.retry.is_some();
        self.has_data = false;
        meant.then_some(event)
    }
}

/// Digits only; `parse` alone would take a sign.
fn milliseconds(value: &[u8]) -> Option<u64> {
    let digits = value.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(value).ok().filter(|_| digits)?.parse().ok()
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
    // Also where it is empty: 2025-11-25 has a stream begin with an event of an id and an empty data field.
    out.put_slice(b"data: ");
    out.put_slice(data);
    out.put_slice(b"\n\n");
    out.freeze()
}
