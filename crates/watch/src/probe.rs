//! A client of the watch server, for tests.

use std::sync::Arc;

use serde_json::{Value, json};
use tidings_proto::Method;
use tidings_testkit::within;
use tidings_upstream::in_process::CallsOnlySink;
use tidings_upstream::{CallEvent, CallStream, OutgoingRequest, SharedLink};
use tidings_wire::{RawId, request};

use super::link::WatchLink;
use super::{Patience, WatchServer, WatchedSource};

/// A link, as the gateway has it.
pub(super) struct ProbeLink {
    server: WatchServer,
    pub(super) link: SharedLink,
}

/// A `subscriptions/listen` of a test, after its acknowledgement.
pub(super) struct OpenProbeListen {
    stream: CallStream,
    pub(super) acknowledged: Value,
}

impl ProbeLink {
    pub(super) fn of(source: impl WatchedSource) -> Self {
        Self::of_all(vec![Arc::new(source)])
    }

    pub(super) fn of_all(sources: Vec<Arc<dyn WatchedSource>>) -> Self {
        let server = WatchServer::new(sources.into_iter().map(|source| (source, Patience::default())).collect());
        let link = Arc::new(WatchLink::new(Arc::clone(&server.shared), Arc::new(CallsOnlySink)));
        Self { server, link }
    }

    fn call(&self, method: Method, params: &Value) -> CallStream {
        let bytes = request(&RawId::from(7), method.as_str(), Some(params.to_string().as_bytes()));
        self.link.call(OutgoingRequest { id: 7, method, bytes, name: None, params: Vec::new(), trace: None })
    }

    pub(super) async fn ask(&self, method: &str, params: Value) -> Value {
        let stream = self.call(Method::parse(method).unwrap(), &params);
        let frame = within("an answer", stream.answer()).await.unwrap();
        serde_json::from_slice(frame.bytes()).unwrap()
    }

    pub(super) async fn uris(&self) -> Vec<String> {
        let list = self.ask("resources/list", json!({})).await;
        let items = list["result"]["resources"].as_array().unwrap().clone();
        items.iter().map(|item| item["uri"].as_str().unwrap().to_owned()).collect()
    }

    pub(super) async fn text(&self, uri: &str) -> Result<String, String> {
        let answer = self.ask("resources/read", json!({ "uri": uri })).await;
        match answer["result"]["contents"][0]["text"].as_str() {
            Some(text) => Ok(text.to_owned()),
            None => Err(answer["error"]["message"].as_str().unwrap_or_default().to_owned()),
        }
    }

    pub(super) async fn listen(&self, uris: &[&str], list: bool) -> OpenProbeListen {
        let mut stream = self.call(
            Method::Listen,
            &json!({ "notifications": { "resourcesListChanged": list, "resourceSubscriptions": uris } }),
        );
        let CallEvent::Message(first) = within("an acknowledgement", stream.next()).await else {
            panic!("not acknowledged");
        };
        let first: Value = serde_json::from_slice(first.bytes()).unwrap();
        assert_eq!(first["method"], "notifications/subscriptions/acknowledged");
        assert_eq!(first["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], 7);
        OpenProbeListen { stream, acknowledged: first["params"]["notifications"].clone() }
    }

    /// Whether anything is being watched.
    pub(super) fn is_watching(&self) -> bool {
        self.server.shared.sources().iter().any(|(watched, _)| watched.is_watched())
    }
}

impl OpenProbeListen {
    /// The URI of the next update, or "list".
    pub(super) async fn next(&mut self) -> String {
        let event = within("a notification", self.stream.next()).await;
        Self::shown(event)
    }

    /// The result that ends it.
    pub(super) async fn end(&mut self) -> Value {
        match within("the end", self.stream.next()).await {
            CallEvent::Response(frame) => serde_json::from_slice(frame.bytes()).unwrap(),
            other => panic!("{other:?}"),
        }
    }

    fn shown(event: CallEvent) -> String {
        let CallEvent::Message(frame) = event else { panic!("the stream ended: {event:?}") };
        let message: Value = serde_json::from_slice(frame.bytes()).unwrap();
        match message["method"].as_str() {
            Some("notifications/resources/list_changed") => "list".to_owned(),
            Some("notifications/resources/updated") => message["params"]["uri"].as_str().unwrap().to_owned(),
            other => panic!("{other:?}"),
        }
    }

    /// Waits until this was announced, whatever comes before it.
    pub(super) async fn until(&mut self, wanted: &str) {
        while self.next().await != wanted {}
    }

    /// What has come by now.
    pub(super) async fn soon(&mut self, patience: std::time::Duration) -> Option<String> {
        tokio::time::timeout(patience, self.stream.next()).await.ok().map(Self::shown)
    }

    /// Asserts that nothing comes, which only time can show.
    pub(super) async fn nothing(&mut self) {
        let heard = self.soon(std::time::Duration::from_millis(300)).await;
        assert_eq!(heard, None);
    }
}
