//! What calls cost that wait for their clients. Alone in its process: it reads the size of it.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::future::{BoxFuture, join_all};
use serde_json::{Value, json};
use tidings_engine::{
    CallTimes, Caller, Gateway, GatewayStart, Isolation, ListAnnouncements, ListPages, LocalServer, Names, NoticePace,
    Origin, ParkLimits, Principal, RefreshPace, Reply, ServerPlacement, ServerPlan, Settings, Source, Surroundings,
    WaitLimits,
};
use tidings_proto::meta::{self, ModernMeta};
use tidings_proto::{FieldView, Method, Revision};
use tidings_upstream::{
    CallEvent, CallQueue, CallStream, ConnectedLink, Link, LinkConnector, MessageSink, OutgoingRequest,
    ProcessLauncher, ServerHello, call_channel,
};
use tidings_wire::{Frame, FrameLimits, RawId, request, response};

const CALLS: usize = 10_000;
/// Calls that are begun together: what they need meanwhile is used again by the next ones.
const AT_ONCE: usize = 100;
const MOST_EACH: usize = 4 << 10;
const METHOD: &str = "elicitation/create";

/// A legacy server whose only tool asks before it does anything.
#[derive(Default)]
struct Asking {
    calls: Arc<Mutex<AskingCalls>>,
}

#[derive(Default)]
struct AskingCalls {
    waiting: HashMap<u64, CallQueue>,
    cancelled: usize,
}

struct AskingLink {
    calls: Arc<Mutex<AskingCalls>>,
    /// To let go of it is to end the link.
    _sink: Arc<dyn MessageSink>,
}

impl LocalServer for Asking {
    fn connect(&self, sink: Arc<dyn MessageSink>, _surroundings: Surroundings) -> ConnectedLink {
        let hello = ServerHello {
            revision: Revision::LATEST_LEGACY,
            capabilities: json!({ "tools": {} }),
            info: json!({ "name": "asking", "version": "0" }),
            instructions: None,
            gateways: Vec::new(),
        };
        ConnectedLink { link: Arc::new(AskingLink { calls: Arc::clone(&self.calls), _sink: sink }), hello }
    }
}

fn frame(bytes: Bytes) -> Frame {
    Frame::parse(bytes, &FrameLimits::default()).unwrap()
}

impl Link for AskingLink {
    fn call(&self, outgoing: OutgoingRequest) -> CallStream {
        if outgoing.method != Method::ToolsCall {
            let tools = json!({"tools": [{"name": "ask", "inputSchema": {"type": "object"}}]}).to_string();
            let answer = frame(response(&RawId::from(outgoing.id), tools.as_bytes()));
            return CallStream::new(futures_util::stream::iter([CallEvent::Response(answer)]));
        }
        let (queue, stream) = call_channel();
        let params = json!({"message": "?", "requestedSchema": {"type": "object", "properties": {}}}).to_string();
        let question = request(&RawId::from(outgoing.id), METHOD, Some(params.as_bytes()));
        assert!(queue.push(frame(question).into()).is_none());
        self.calls.lock().unwrap().waiting.insert(outgoing.id, queue);
        stream
    }

    fn cancel(&self, id: u64, _reason: Option<&str>) {
        let mut calls = self.calls.lock().unwrap();
        let known = calls.waiting.remove(&id);
        calls.cancelled += usize::from(known.is_some());
    }

    // Nobody answers here; what it asked is refused before its call is cancelled.
    fn send(&self, _message: Bytes) {}

    fn close(&self) -> BoxFuture<'static, ()> {
        Box::pin(std::future::ready(()))
    }
}

fn gateway(server: Asking, input_wait: Duration) -> Gateway {
    let long = Duration::from_secs(600);
    let settings = Settings {
        waits: WaitLimits { start: long, added: long, silence: long, call: long },
        pages: ListPages { size: 10, longest_bound: None },
        view: FieldView::default(),
        names: Names::Auto,
        list_pace: RefreshPace { quiet: Duration::ZERO, max_wait: Duration::ZERO },
        resource_pace: NoticePace::default(),
        poll_interval: Duration::ZERO,
        clients: Default::default(),
        announcements: ListAnnouncements { initially: false, silent: Vec::new(), hints: false },
        own_links: Default::default(),
        limits: Default::default(),
        parks: ParkLimits { per_principal: CALLS + AT_ONCE, ttl: input_wait, ..ParkLimits::default() },
        seal_key: Default::default(),
        version: "0",
        path: Default::default(),
    };
    let plan = ServerPlan {
        source: Source::Local(Arc::new(server)),
        origin: Origin::File,
        name: "asking".into(),
        name_prefix: "asking".into(),
        uri_prefix: "asking".into(),
        transparent_uris: true,
        isolation: Isolation::Auto,
        call_times: CallTimes::default(),
        poll_interval: None,
        listed: true,
        permits: Arc::new(|_| true),
        trusts_annotations: false,
        approval: None,
        placement: ServerPlacement::default(),
        identity: None,
    };
    let connector = LinkConnector::new(ProcessLauncher::new(None)).unwrap();
    Gateway::start(GatewayStart::new(settings, vec![plan], connector))
}

/// One request of a modern client that can be asked; gives the bytes of the request too.
async fn ask(gateway: &Gateway, mut params: Value) -> (Value, usize) {
    params["name"] = json!("ask");
    params["_meta"] = json!({
        meta::PROTOCOL_VERSION: Revision::MODERN.as_str(),
        meta::CLIENT_INFO: { "name": "test", "version": "0" },
        meta::CLIENT_CAPABILITIES: { "elicitation": { "form": {} } },
    });
    let id = RawId::from(1);
    let body = request(&id, Method::ToolsCall.as_str(), Some(params.to_string().as_bytes()));
    let len = body.len();
    let frame = frame(body);
    let capabilities = ModernMeta::read(&frame).unwrap().capabilities;
    let caller = gateway.modern_caller(None, Revision::MODERN, &Principal::local(), None, capabilities, None);
    let mut exchange = gateway.request(Caller::Modern(caller), frame, Method::ToolsCall, id);
    loop {
        if let Reply::Answer(answer) = exchange.next().await {
            return (serde_json::from_slice(&answer.payload.to_bytes()).unwrap(), len);
        }
    }
}

/// Begins calls until this many wait. Gives the bytes that are theirs: the request, and what they were asked.
async fn park(gateway: &Gateway, calls: usize) -> usize {
    let mut own = 0;
    for begun in (0..calls).step_by(AT_ONCE) {
        let together =
            (begun..calls.min(begun + AT_ONCE)).map(|number| ask(gateway, json!({"arguments": {"number": number}})));
        for (answer, len) in join_all(together).await {
            assert_eq!(answer["result"]["resultType"], "input_required", "{answer}");
            own += len + answer["result"]["inputRequests"].to_string().len();
        }
    }
    own
}

/// Resident memory of this process, in bytes.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.split_whitespace().next().unwrap().parse::<usize>().unwrap() << 10
}

// issue 13: what 10,000 parked calls cost
#[tokio::test]
async fn ten_thousand_calls_that_wait_are_small() {
    let server = Asking::default();
    let calls = Arc::clone(&server.calls);
    let gateway = gateway(server, Duration::from_secs(600));
    gateway.settled().await;
    // What the first ones cost once is not theirs.
    park(&gateway, AT_ONCE).await;
    let before = resident();
    let own = park(&gateway, CALLS).await;
    assert_eq!(calls.lock().unwrap().waiting.len(), CALLS + AT_ONCE, "all wait at once");
    let each = (resident().saturating_sub(before)).saturating_sub(own) / CALLS;
    println!("{each} bytes for each, beside {} of its own", own / CALLS);
    assert!(each <= MOST_EACH, "a call that waits costs {each} bytes");
    gateway.shutdown().await;
}

// bridging 38, issue 13
#[tokio::test]
async fn calls_whose_clients_do_not_come_back_are_all_cancelled_and_none_is_left() {
    let server = Asking::default();
    let calls = Arc::clone(&server.calls);
    let gateway = gateway(server, Duration::from_secs(1));
    gateway.settled().await;
    park(&gateway, AT_ONCE).await;
    let within = Instant::now() + Duration::from_secs(60);
    while calls.lock().unwrap().cancelled < AT_ONCE || gateway.in_flight() > 0 {
        assert!(Instant::now() < within, "{} of them were cancelled", calls.lock().unwrap().cancelled);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(calls.lock().unwrap().waiting.is_empty());
    gateway.shutdown().await;
}
