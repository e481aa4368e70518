//! Following one request to its end.

use std::fmt;
use std::time::Duration;

use serde_json::Value;
use tidings_wire::{FrameKind, RawId};
use tokio::sync::mpsc;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::received::ReceivedMessage;
use crate::record::DEADLINE;

/// What comes back for a request, bit by bit.
#[derive(Debug)]
pub(super) enum ExchangeEvent {
    Head {
        status: u16,
        headers: Vec<(String, String)>,
    },
    Message(ReceivedMessage),
    /// An event without a message: an id, a time to wait before coming back.
    Hint {
        id: Option<String>,
        retry: Option<u64>,
    },
    /// A body that is no message.
    Body(ReceivedMessage),
    End,
    Failed(String),
}

/// A request on its way. Over HTTP dropping it closes the connection.
pub struct PendingExchange {
    id: RawId,
    what: String,
    events: mpsc::UnboundedReceiver<ExchangeEvent>,
    exchange: Exchange,
    ended: bool,
    guard: Option<DropGuard>,
    /// How long the next bit may take.
    patience: Duration,
}

/// A request with all that came back for it.
#[derive(Clone, Default)]
pub struct Exchange {
    /// The messages before the response, in order. On stdio everything that came while it was pending.
    pub before: Vec<ReceivedMessage>,
    /// The response; `None` when there was none.
    pub response: Option<ReceivedMessage>,
    /// The HTTP status; 0 on stdio.
    pub status: u16,
    /// The HTTP headers.
    pub headers: Vec<(String, String)>,
    /// A body that is no single message: plain text, a batch.
    pub body: String,
    /// The id of the last event.
    pub last_event_id: Option<String>,
    /// How long the server asked to wait before coming back, in milliseconds.
    pub retry: Option<u64>,
    /// Why the connection failed, if it did.
    pub failure: Option<String>,
}

impl PendingExchange {
    pub(super) fn new(
        id: RawId,
        what: String,
        events: mpsc::UnboundedReceiver<ExchangeEvent>,
        until: Option<CancellationToken>,
    ) -> Self {
        let guard = until.map(CancellationToken::drop_guard);
        Self { id, what, events, exchange: Exchange::default(), ended: false, guard, patience: DEADLINE }
    }

    /// The request's id.
    pub fn id(&self) -> &RawId {
        &self.id
    }

    /// What came back so far.
    pub fn so_far(&self) -> &Exchange {
        &self.exchange
    }

    /// The id of the last event so far.
    pub fn last_event_id(&self) -> Option<&str> {
        self.exchange.last_event_id.as_deref()
    }

    /// HTTP: waits for the head of the response; 0 when the connection failed.
    pub async fn status(&mut self) -> u16 {
        while self.exchange.status == 0 && !self.ended {
            self.step().await;
        }
        self.exchange.status
    }

    /// The next message, the response included; `None` when no more can come.
    pub async fn next(&mut self) -> Option<ReceivedMessage> {
        while !self.ended {
            if let Some(message) = self.step().await {
                return Some(message);
            }
        }
        None
    }

    /// The next message with that method; others are passed over (they stay in [`PendingExchange::so_far`]).
    pub async fn next_method(&mut self, method: &str) -> ReceivedMessage {
        while let Some(message) = self.next().await {
            if message.method == method {
                return message;
            }
        }
        panic!("{} ended without {method}: {:?}", self.what, self.exchange)
    }

    /// Waits for the response, or for the end without one.
    pub async fn finish(mut self) -> Exchange {
        while !self.ended && self.exchange.response.is_none() {
            self.step().await;
        }
        if let Some(guard) = self.guard.take() {
            // The rest of the stream may still be read.
            guard.disarm();
        }
        std::mem::take(&mut self.exchange)
    }

    /// The same where so much is under way that each bit of the answer may take longer than [`DEADLINE`].
    pub async fn finish_within(mut self, patience: Duration) -> Exchange {
        self.patience = patience;
        self.finish().await
    }

    /// Takes one event, which may bring a message.
    async fn step(&mut self) -> Option<ReceivedMessage> {
        let patience = self.patience;
        let event = match tokio::time::timeout(patience, self.events.recv()).await {
            // A closed channel means that the task that read the answer has ended.
            Ok(event) => event.unwrap_or(ExchangeEvent::End),
            Err(_) => panic!("gave up after {patience:?} waiting for {}: so far {:?}", self.what, self.exchange),
        };
        match event {
            ExchangeEvent::Head { status, headers } => {
                (self.exchange.status, self.exchange.headers) = (status, headers)
            }
            ExchangeEvent::Hint { id, retry } => {
                // As in the HTML standard: an event without an id leaves the last one as it was.
                self.exchange.last_event_id = id.or(self.exchange.last_event_id.take());
                self.exchange.retry = retry.or(self.exchange.retry);
            }
            ExchangeEvent::Body(body) => self.exchange.body = body.text().to_owned(),
            ExchangeEvent::Message(message) => {
                if message.event_id.is_some() {
                    self.exchange.last_event_id.clone_from(&message.event_id);
                }
                if message.is_response() {
                    self.exchange.response = Some(message.clone());
                } else {
                    self.exchange.before.push(message.clone());
                }
                return Some(message);
            }
            ExchangeEvent::End => self.ended = true,
            ExchangeEvent::Failed(reason) => {
                self.ended = true;
                self.exchange.failure = Some(reason);
            }
        }
        None
    }
}

impl fmt::Debug for PendingExchange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {:?}", self.what, self.exchange)
    }
}

impl Exchange {
    /// The response; fails the test when there is none.
    pub fn response(&self) -> &ReceivedMessage {
        self.response.as_ref().unwrap_or_else(|| panic!("no response: {self:?}"))
    }

    /// The result; fails on an error.
    pub fn result(&self) -> Value {
        serde_json::from_str(&self.result_raw()).unwrap_or_else(|e| panic!("{e}; try result_raw: {self:?}"))
    }

    /// The raw text of the result; fails on an error.
    pub fn result_raw(&self) -> String {
        let response = self.response();
        assert_eq!(response.kind, Some(FrameKind::Response), "no result: {self:?}");
        response.outcome_raw()
    }

    /// The error; fails on a result.
    pub fn error(&self) -> Value {
        let response = self.response();
        assert_eq!(response.kind, Some(FrameKind::Error), "no error: {self:?}");
        response.error()
    }

    /// The code of the error; fails the test when there is none.
    pub fn error_code(&self) -> i64 {
        self.error()["code"].as_i64().unwrap_or_else(|| panic!("no code: {self:?}"))
    }

    /// The text of the first content block (or content, or message) of the result.
    pub fn text(&self) -> String {
        let result = self.result();
        let places = ["/content/0/text", "/contents/0/text", "/messages/0/content/text"];
        let found = places.iter().find_map(|place| result.pointer(place)?.as_str().map(str::to_owned));
        found.unwrap_or_else(|| panic!("no text: {self:?}"))
    }

    /// An HTTP header.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// The messages before the response that have that method.
    pub fn before_with(&self, method: &str) -> Vec<&ReceivedMessage> {
        self.before.iter().filter(|message| message.method == method).collect()
    }
}

impl fmt::Debug for Exchange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "status {} {:?}", self.status, self.headers)?;
        for message in &self.before {
            write!(f, "\n  before: {message:?}")?;
        }
        match &self.response {
            Some(response) => write!(f, "\n  response: {response:?}")?,
            None => write!(f, "\n  no response; body {:?}; failure {:?}", self.body, self.failure)?,
        }
        Ok(())
    }
}
