//! How a server tells that its lists changed: a legacy one by itself, a modern one only to those who listen.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, json};
use tidings_hub::ledger::{Topic, Topics};
use tidings_proto::{Era, Method};
use tidings_upstream::{CallEvent, CallStream, Hello};
use tidings_wire::{Frame, Kind};

use crate::gateway::Inner;
use crate::servers::server::{LiveLink, Server};

/// How long to wait before a stream that ended is opened again; twice as long each time that it ends at once.
const REOPEN: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(10);
/// A stream that ends before this has ended at once.
const AT_ONCE: Duration = Duration::from_secs(1);

/// The listening side of one link.
pub(crate) struct Signals {
    stream: Option<CallStream>,
    opened: tokio::time::Instant,
    /// How many streams in a row ended at once.
    short: u32,
    /// When a stream that ended is opened again.
    reopen: Option<tokio::time::Instant>,
    /// Set when the server does not know the method: it is asked no more.
    hopeless: bool,
}

impl Signals {
    /// Opens the stream where the era has one and the server promises something.
    pub(crate) fn open(gateway: &Arc<Inner>, server: &Server, live: &LiveLink) -> Self {
        let promised = promised(&live.hello);
        let listens = live.hello.revision.era() == Era::Modern && !promised.is_empty();
        let stream = listens.then(|| listen(gateway, server, live, promised));
        Self { stream, opened: tokio::time::Instant::now(), short: 0, reopen: None, hopeless: !listens }
    }

    /// Whether there is a stream to hear from.
    pub(crate) fn is_open(&self) -> bool {
        self.stream.is_some()
    }

    /// Passes signals on for as long as the link lives. Whatever was not heard is listed when a stream is acknowledged, which
    /// is a signal too.
    pub(crate) async fn run(&mut self, gateway: &Arc<Inner>, server: &Arc<Server>, live: &LiveLink) {
        loop {
            let Some(stream) = &mut self.stream else {
                if self.hopeless {
                    return std::future::pending().await;
                }
                // Kept: whoever waits here may be called away and come back.
                let pause = REOPEN.saturating_mul(1 << self.short.saturating_sub(1).min(16)).min(LONGEST);
                let reopen = *self.reopen.get_or_insert_with(|| tokio::time::Instant::now() + pause);
                tokio::time::sleep_until(reopen).await;
                self.reopen = None;
                self.opened = tokio::time::Instant::now();
                self.stream = Some(listen(gateway, server, live, promised(&live.hello)));
                continue;
            };
            match stream.next().await {
                CallEvent::Message(frame) => gateway.unowned(server, live.key, &live.link, None, frame),
                CallEvent::Response(frame) => {
                    self.hopeless = frame.kind() == Kind::Error;
                    self.ended(server);
                }
                CallEvent::Failed(_) => self.ended(server),
                CallEvent::Accepted
                | CallEvent::Opened
                | CallEvent::Interrupted(_)
                | CallEvent::Broken
                | CallEvent::Redirect(_) => {}
            }
        }
    }
}

impl Signals {
    fn ended(&mut self, server: &Server) {
        self.short = if self.opened.elapsed() < AT_ONCE { self.short + 1 } else { 0 };
        self.stream = None;
        server.cover(Topics::default());
        // Nobody needs to wait for an acknowledgement.
        server.wake();
    }
}

fn listen(gateway: &Inner, server: &Server, live: &LiveLink, topics: Topics) -> CallStream {
    let mut filter = Map::new();
    for topic in topics.iter() {
        filter.insert(topic.flag().to_owned(), true.into());
    }
    let outgoing = gateway.own_request(&live.hello, Method::Listen, json!({ "notifications": filter }));
    server.listens_by(outgoing.id);
    live.link.call(outgoing)
}

/// What a server says it announces.
pub(crate) fn promised(hello: &Hello) -> Topics {
    let mut topics = Topics::default();
    for (name, topic) in [("tools", Topic::Tools), ("prompts", Topic::Prompts), ("resources", Topic::Resources)] {
        let declared = hello.capabilities.get(name).and_then(|c| c.get("listChanged"));
        if declared.and_then(serde_json::Value::as_bool) == Some(true) {
            topics.insert(topic);
        }
    }
    topics
}

/// What an acknowledgement honours.
pub(crate) fn honoured(frame: &Frame) -> Topics {
    crate::notify::announce::wanted(frame)
}
