//! How a server tells that its lists changed: a legacy one by itself, a modern one only to those who listen.

use std::time::Duration;

use serde_json::{Map, json};
use tidings_hub::RetryBackoff;
use tidings_hub::ledger::Topics;
use tidings_proto::{Era, Method, ServerMessage, code};
use tidings_upstream::{CallEvent, CallStream};
use tidings_wire::{Frame, FrameKind};

use crate::links::live_link::{LiveLink, promised};
use crate::links::open_links::OpenLinks;
use crate::servers::server::Server;

/// How long to wait before a stream that ended at once is opened again; twice as long each time.
const REOPEN: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(10);
/// A stream that ends before this has ended at once. One that lasted was cut by somebody on the way: it is opened at once.
const AT_ONCE: Duration = Duration::from_secs(1);
/// The longest wait where the server does not know the method, though it promises to announce: it is polled meanwhile.
const LONGEST_REFUSED: Duration = Duration::from_secs(300);

/// What is to be known of the listening over one link.
pub(crate) trait SignalScope: Send + Sync {
    /// The server is asked to announce changes of its lists by this request.
    fn listens_by(&self, request: u64);

    /// It has agreed to announce these.
    fn cover(&self, topics: Topics);

    /// Something about the listening is another now.
    fn wake(&self);
}

impl SignalScope for Server {
    fn listens_by(&self, request: u64) {
        self.listens_by(request);
    }

    fn cover(&self, topics: Topics) {
        self.cover(topics);
    }

    fn wake(&self) {
        self.wake();
    }
}

/// The listening side of one link.
pub(crate) struct Signals {
    stream: Option<CallStream>,
    opened: tokio::time::Instant,
    /// How many streams in a row ended at once.
    short: u32,
    /// When a stream that ended is opened again.
    reopen: Option<tokio::time::Instant>,
    /// The server said that it does not know the method.
    is_unknown: bool,
    /// The era has no such stream, or the server promises nothing.
    is_needless: bool,
}

impl Signals {
    /// Opens the stream where the era has one and the server promises something.
    pub(crate) fn open(links: &OpenLinks, scope: &dyn SignalScope, live: &LiveLink) -> Self {
        let promised = promised(&live.hello);
        let listens = live.hello.revision.era() == Era::Modern && !promised.is_empty();
        let stream = listens.then(|| listen(links, scope, live, promised));
        Self {
            stream,
            opened: tokio::time::Instant::now(),
            short: 0,
            reopen: None,
            is_unknown: false,
            is_needless: !listens,
        }
    }

    /// Whether there is a stream to hear from.
    pub(crate) fn is_open(&self) -> bool {
        self.stream.is_some()
    }

    /// The next message on the stream, which is opened again whenever it ends. Whatever was not heard is listed when a stream is
    /// acknowledged, which is a signal too.
    pub(crate) async fn next(&mut self, links: &OpenLinks, scope: &dyn SignalScope, live: &LiveLink) -> ServerMessage {
        loop {
            let Some(stream) = &mut self.stream else {
                if self.is_needless {
                    // Never completes, so that it can stand in a select beside the other events of the link.
                    return std::future::pending().await;
                }
                // Kept: whoever waits here may be called away and come back.
                let pause = self.pause();
                let reopen = *self.reopen.get_or_insert_with(|| tokio::time::Instant::now() + pause);
                tokio::time::sleep_until(reopen).await;
                self.reopen = None;
                // Measured from the request: a server that takes long to refuse has not kept a stream open.
                self.opened = tokio::time::Instant::now();
                self.stream = Some(listen(links, scope, live, promised(&live.hello)));
                continue;
            };
            match stream.next().await {
                CallEvent::Message(message) => return message,
                CallEvent::Response(frame) => {
                    // An error is an answer to this request and not to the next one: it is asked again, later and later.
                    // Kept until the next answer: the pause before the next attempt depends on it.
                    self.is_unknown = error_code(&frame) == Some(code::METHOD_NOT_FOUND);
                    let is_refused = frame.kind() == FrameKind::Error;
                    self.ended(scope, is_refused);
                }
                CallEvent::Failed(_) | CallEvent::Unsent(_) | CallEvent::Refused { .. } => self.ended(scope, false),
                CallEvent::Accepted
                | CallEvent::Opened
                | CallEvent::Interrupted(_)
                | CallEvent::Broken
                | CallEvent::Redirect(_)
                | CallEvent::LoginWanted(_) => {}
            }
        }
    }
}

impl Signals {
    /// How long to wait before the stream is opened again.
    fn pause(&self) -> Duration {
        if self.short == 0 {
            return Duration::ZERO;
        }
        let longest = if self.is_unknown { LONGEST_REFUSED } else { LONGEST };
        RetryBackoff { first: REOPEN, longest }.after(self.short)
    }

    fn ended(&mut self, scope: &dyn SignalScope, is_refused: bool) {
        let is_short = is_refused || self.opened.elapsed() < AT_ONCE;
        self.short = if is_short { self.short + 1 } else { 0 };
        self.stream = None;
        // Nothing is announced any more, so these lists are polled until the next acknowledgement.
        scope.cover(Topics::default());
        // Nobody needs to wait for an acknowledgement.
        scope.wake();
    }
}

fn listen(links: &OpenLinks, scope: &dyn SignalScope, live: &LiveLink, topics: Topics) -> CallStream {
    let mut filter = Map::new();
    for topic in topics.iter() {
        filter.insert(topic.flag().to_owned(), true.into());
    }
    let outgoing = links.own_request(&live.hello, Method::Listen, json!({ "notifications": filter }));
    // Before it is sent: the acknowledgement is recognised by this id.
    scope.listens_by(outgoing.id);
    live.link.call(outgoing)
}

fn error_code(frame: &Frame) -> Option<i64> {
    let error = frame.outcome().filter(|_| frame.kind() == FrameKind::Error)?;
    let code = tidings_wire::get(frame.bytes(), error, "code")?;
    std::str::from_utf8(frame.raw(code)).ok()?.parse().ok()
}

/// What an acknowledgement honours.
pub(crate) fn honoured(frame: &Frame) -> Topics {
    crate::notify::notices::wanted(frame)
}
