//! Servers in the process that are not for everybody.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use tidings_engine::{
    AccessScope, CallTimes, Caller, Gateway, GatewayStart, Isolation, ListAnnouncements, ListPages, LocalServer, Names,
    NoticePace, Origin, Principal, RefreshPace, Reply, ServerAudience, ServerPlacement, ServerPlan, Settings, Source,
    Surroundings, WaitLimits,
};
use tidings_proto::meta::{self, ModernMeta};
use tidings_proto::{FieldView, Method, Revision};
use tidings_upstream::{
    CallEvent, CallStream, ConnectedLink, Link, LinkConnector, MessageSink, OutgoingRequest, ProcessLauncher,
    ServerHello,
};
use tidings_wire::{Frame, FrameLimits, RawId, request, response};

/// A server whose only tool says whether its caller is an admin.
struct Registry(ServerAudience);

struct RegistryLink {
    surroundings: Surroundings,
    /// To let go of it is to end the link.
    _sink: Arc<dyn MessageSink>,
}

impl LocalServer for Registry {
    fn connect(&self, sink: Arc<dyn MessageSink>, surroundings: Surroundings) -> ConnectedLink {
        let hello = ServerHello {
            revision: Revision::MODERN,
            capabilities: json!({ "tools": {} }),
            info: json!({ "name": "registry", "version": "0" }),
            instructions: Some("Add servers.".to_owned()),
            gateways: Vec::new(),
        };
        ConnectedLink { link: Arc::new(RegistryLink { surroundings, _sink: sink }), hello }
    }

    fn audience(&self) -> ServerAudience {
        self.0
    }
}

impl Link for RegistryLink {
    fn call(&self, request: OutgoingRequest) -> CallStream {
        let result = match request.method {
            Method::List(_) => json!({"resultType": "complete", "ttlMs": 0, "cacheScope": "private",
                "tools": [{"name": "add", "inputSchema": {"type": "object"}}]}),
            _ => {
                let text = self.surroundings.is_admin(request.id).to_string();
                json!({"resultType": "complete", "content": [{"type": "text", "text": text}]})
            }
        };
        assert!(!self.surroundings.is_admin(request.id + 1), "nobody makes that call");
        let answer = response(&RawId::from(request.id), result.to_string().as_bytes());
        let answer = Frame::parse(answer, &FrameLimits::default()).unwrap();
        CallStream::new(futures_util::stream::iter([CallEvent::Response(answer)]))
    }

    fn cancel(&self, _id: u64, _reason: Option<&str>) {}

    fn send(&self, _message: Bytes) {}

    fn close(&self) -> BoxFuture<'static, ()> {
        Box::pin(std::future::ready(()))
    }
}

fn gateway(audience: ServerAudience) -> Gateway {
    let settings = Settings {
        waits: WaitLimits {
            start: Duration::from_secs(10),
            added: Duration::from_secs(10),
            silence: Duration::from_secs(10),
            call: Duration::from_secs(10),
        },
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
        parks: Default::default(),
        seal_key: Default::default(),
        version: "0",
        path: Default::default(),
    };
    let plan = ServerPlan {
        source: Source::Local(Arc::new(Registry(audience))),
        origin: Origin::BuiltIn,
        name: "registry".into(),
        name_prefix: "registry".into(),
        uri_prefix: "registry".into(),
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

/// One request of somebody.
async fn ask(gateway: &Gateway, who: &Principal, method: Method, mut params: Value) -> Value {
    params["_meta"] = json!({
        meta::PROTOCOL_VERSION: Revision::MODERN.as_str(),
        meta::CLIENT_INFO: { "name": "test", "version": "0" },
        meta::CLIENT_CAPABILITIES: {},
    });
    let id = RawId::from(1);
    let body = request(&id, method.as_str(), Some(params.to_string().as_bytes()));
    let frame = Frame::parse(body, &FrameLimits::default()).unwrap();
    let capabilities = ModernMeta::read(&frame).unwrap().capabilities;
    let caller = gateway.modern_caller(None, Revision::MODERN, who, None, capabilities, None);
    let mut exchange = gateway.request(Caller::Modern(caller), frame, method, id);
    loop {
        if let Reply::Answer(answer) = exchange.next().await {
            return serde_json::from_slice(&answer.payload.to_bytes()).unwrap();
        }
    }
}

fn somebody(servers: &[&str], admin: bool) -> Principal {
    let servers = servers.iter().map(|name| (*name).to_owned()).collect();
    Principal::new("somebody", AccessScope::new(servers, admin, |pattern, name| pattern == name))
}

// issue 6.2, 6.8
#[tokio::test]
async fn what_is_for_admins_is_not_there_for_others_and_knows_its_callers() {
    for (audience, who, sees, admin) in [
        (ServerAudience::Admins, Principal::local(), true, true),
        (ServerAudience::Admins, somebody(&["*"], true), true, true),
        (ServerAudience::Admins, somebody(&[], true), true, true),
        (ServerAudience::Admins, somebody(&["*"], false), false, false),
        (ServerAudience::Admins, somebody(&["registry"], false), false, false),
        (ServerAudience::Everybody, somebody(&[], false), true, false),
        (ServerAudience::ByName, somebody(&["registry"], false), true, false),
        (ServerAudience::ByName, somebody(&["other"], true), false, false),
    ] {
        let gateway = gateway(audience);
        let tools = ask(&gateway, &who, Method::List(tidings_proto::ListKind::Tools), json!({})).await;
        let called = ask(&gateway, &who, Method::ToolsCall, json!({"name": "add", "arguments": {}})).await;
        let found = ask(&gateway, &who, Method::Discover, json!({})).await;
        let context = format!("{audience:?} {who:?}");
        assert_eq!(tools["result"]["tools"].as_array().unwrap().len(), usize::from(sees), "{context}");
        assert_eq!(found["result"]["instructions"].is_string(), sees, "{context}");
        match sees {
            true => assert_eq!(called["result"]["content"][0]["text"], admin.to_string(), "{context}"),
            false => assert!(called["error"].is_object(), "{context} {called}"),
        }
        gateway.shutdown().await;
    }
}
