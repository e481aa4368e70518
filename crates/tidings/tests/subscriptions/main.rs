//! Resource subscriptions through the real gateway: every era on either side, over every transport.
//!
//! That nothing is said of one resource is shown by what is said of another, later.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod capabilities;
mod clean_up;
mod gaps;
mod isolated;
mod listens;
mod order;
mod pace;
mod refusals;
mod sharing;
mod shown;
mod spelling;
mod streams;
mod watched;

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tidings_testkit::{
    Client, ClientBuilder, Exchange, Gateway, GatewayBuilder, PendingExchange, ReceivedMessage, Resource, Server,
    ServerBuilder, is_modern,
};

const UPDATED: &str = "notifications/resources/updated";
const ACKNOWLEDGED: &str = "notifications/subscriptions/acknowledged";
const LISTEN: &str = "subscriptions/listen";
const SUBSCRIBE: &str = "resources/subscribe";
const UNSUBSCRIBE: &str = "resources/unsubscribe";

/// Short windows, and URIs that are mapped.
const QUICK: &str =
    "[gateway]\nnames = \"prefix\"\n[notifications]\nresource_quiet = \"20ms\"\nresource_max_wait = \"200ms\"";

fn quick() -> GatewayBuilder {
    Gateway::builder().toml(QUICK)
}

/// What a server has to read, to be changed by the test.
type Content = Arc<Mutex<String>>;

fn resource(uri: &str, content: &Content) -> Resource {
    let content = Arc::clone(content);
    Resource::raw(&json!({"uri": uri, "name": uri}).to_string(), move |call| {
        let answer = call.ok_contents(&content.lock().unwrap());
        async move { answer }
    })
}

/// A server with three resources that can be followed.
fn three() -> ServerBuilder {
    Server::builder("one").resource("file:///a", "a").resource("file:///b", "b").resource("file:///c", "c")
}

/// The same server in both eras on both transports.
async fn in_all_ways(server: impl Fn() -> ServerBuilder) -> Vec<Server> {
    Server::of_every_sort(server).await
}

/// Clients of both eras over HTTP and on stdio.
fn all_clients(gateway: &Gateway) -> Vec<ClientBuilder> {
    vec![gateway.client(), gateway.stdio(), gateway.client().modern(), gateway.stdio().modern()]
}

/// A client that follows resources, in the way of its era and transport.
struct Follower {
    client: Client,
    listens: Vec<PendingExchange>,
    _stream: Option<PendingExchange>,
}

impl Follower {
    async fn new(client: ClientBuilder) -> Self {
        let client = client.connect().await;
        let on_http = client.received().iter().all(|received| received.stream != "stdio");
        let stream = if on_http && !is_modern(&client.revision()) { Some(client.open_get().await) } else { None };
        Self { client, listens: Vec::new(), _stream: stream }
    }

    /// A client that follows these already.
    async fn of(client: ClientBuilder, uris: &[&str]) -> Self {
        let mut follower = Self::new(client).await;
        for uri in uris {
            follower.follow(uri).await;
        }
        follower
    }

    fn is_modern(&self) -> bool {
        is_modern(&self.client.revision())
    }

    /// Asks, and does not wait.
    fn ask(&self, uris: &[&str]) -> PendingExchange {
        match self.is_modern() {
            true => self.client.start(LISTEN, json!({"notifications": {"resourceSubscriptions": uris}})),
            false => self.client.start(SUBSCRIBE, json!({ "uri": uris[0] })),
        }
    }

    async fn follow(&mut self, uri: &str) {
        let mut asked = self.ask(&[uri]);
        if self.is_modern() {
            let acknowledged = asked.next_method(ACKNOWLEDGED).await;
            assert_eq!(acknowledged.params()["notifications"], json!({"resourceSubscriptions": [uri]}));
            self.listens.push(asked);
        } else {
            assert_eq!(asked.finish().await.result(), json!({}));
        }
    }

    /// Follows what it followed as the `nth` no longer.
    async fn leave(&mut self, uri: &str, nth: usize) {
        if self.is_modern() {
            let listen = self.listens.remove(nth);
            if self.client.received().iter().any(|r| r.stream == "stdio") {
                self.client.cancel(&listen).await;
            }
        } else {
            assert_eq!(self.client.request(UNSUBSCRIBE, json!({ "uri": uri })).await.result(), json!({}));
        }
    }

    /// What it was told, in order.
    fn told(&self) -> Vec<String> {
        let updates = self.client.received();
        updates.iter().filter(|r| r.is_notification(UPDATED)).map(uri_of).collect()
    }

    /// Waits for an update of a URI, and gives everything that it was told until then.
    async fn wait(&self, uri: &str) -> Vec<String> {
        self.client.wait_for(|r| r.is_notification(UPDATED) && uri_of(r) == uri).await;
        self.told()
    }

    /// Waits for so many updates.
    async fn wait_nth(&self, nth: usize) -> Vec<String> {
        self.client.wait_for_method(UPDATED, nth).await;
        self.told()
    }
}

fn uri_of(received: &ReceivedMessage) -> String {
    received.params()["uri"].as_str().unwrap_or_default().to_owned()
}

/// The URIs of all listens for resources that a server was sent, in order.
fn listened(server: &Server) -> Vec<Value> {
    let listens = server.received().into_iter().filter(|r| r.method == LISTEN);
    listens.map(|r| r.param(&["notifications", "resourceSubscriptions"])).filter(Value::is_array).collect()
}

/// Changes a resource, and says so to those who follow it.
fn update(server: &Server, uri: &str) {
    assert!(server.resource_updated(uri) > 0, "somebody hears of {uri}");
}

fn message(exchange: &Exchange) -> String {
    exchange.error()["message"].as_str().unwrap_or_default().to_owned()
}
