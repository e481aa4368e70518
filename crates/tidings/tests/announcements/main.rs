//! Announcements through the real gateway: every client is told once, and only of what changed for it.
//!
//! That nothing is said is shown by what is said next: a real change of another kind, and nothing before it.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod begin;
mod changes;
mod discovery;
mod freshness;
mod isolated;
mod listens;
mod observed;
mod restarts;
mod unheard;

use std::collections::BTreeMap;

use serde_json::json;
use tidings_testkit::{Client, Gateway, GatewayBuilder, Pending, Server, ServerBuilder, Tool, V2025_06_18, is_modern};

const KINDS: [&str; 3] = ["tools", "prompts", "resources"];

fn quick() -> GatewayBuilder {
    Gateway::builder().quick()
}

/// A server with one of each kind that announces its changes.
fn full() -> ServerBuilder {
    Server::builder("one")
        .echo("echo")
        .prompt("p", |call| async move { call.ok_message("hi") })
        .resource("file:///r", "r")
}

/// The same server in both eras on both transports.
async fn full_servers() -> Vec<Server> {
    Server::of_every_sort(full).await
}

/// Clients of both eras over HTTP and on stdio, all settled.
async fn followers(gateway: &Gateway) -> Vec<Follower> {
    vec![
        Follower::begin(gateway.client().connect().await).await,
        Follower::begin(gateway.client().revision(V2025_06_18).connect().await).await,
        Follower::begin(gateway.client().modern().connect().await).await,
        Follower::begin(gateway.stdio().connect().await).await,
        Follower::begin(gateway.stdio().modern().connect().await).await,
    ]
}

fn method(kind: &str) -> String {
    format!("notifications/{kind}/list_changed")
}

/// How often a client was told of each kind.
fn told(client: &Client) -> BTreeMap<&'static str, usize> {
    KINDS.into_iter().map(|kind| (kind, client.count(&method(kind)))).filter(|(_, count)| *count > 0).collect()
}

/// Whether a client that has received something speaks HTTP.
fn on_http(client: &Client) -> bool {
    client.received().iter().all(|received| received.stream != "stdio")
}

/// A client that follows all lists, in the way of its era and transport, and what it should have been told so far.
struct Follower {
    client: Client,
    told: BTreeMap<&'static str, usize>,
    _stream: Option<Pending>,
}

impl Follower {
    /// Follows; a legacy client waits for its first notices.
    async fn begin(client: Client) -> Self {
        if is_modern(&client.revision()) {
            let flags = json!({"toolsListChanged": true, "promptsListChanged": true, "resourcesListChanged": true});
            let mut listen = client.start("subscriptions/listen", json!({ "notifications": flags }));
            let acknowledged = listen.next_method("notifications/subscriptions/acknowledged").await;
            assert_eq!(acknowledged.params()["notifications"], flags);
            return Self { client, told: BTreeMap::new(), _stream: Some(listen) };
        }
        let mut follower = Self::quietly(client).await;
        follower.expect(&KINDS).await;
        follower
    }

    /// A legacy client with its stream open, whatever comes.
    async fn quietly(client: Client) -> Self {
        let stream = if on_http(&client) { Some(client.open_get().await) } else { None };
        Self { client, told: BTreeMap::new(), _stream: stream }
    }

    /// Waits for one more notice of each of these, and fails if there was any other.
    async fn expect(&mut self, kinds: &[&'static str]) {
        for kind in kinds {
            *self.told.entry(kind).or_default() += 1;
        }
        for kind in kinds {
            self.client.wait_for_method(&method(kind), self.told[kind]).await;
        }
        assert_eq!(told(&self.client), self.told, "{} {:?}", self.client.revision(), self.client.received());
    }
}

/// Adds a tool, prompt or resource with this name, and says so.
fn add(server: &Server, kind: &str, name: &str) {
    match kind {
        "tools" => server.put_tool(Tool::text_tool(name, "new")),
        "prompts" => server.put_prompt(Tool::prompt(name, |call| async move { call.ok_message("new") })),
        _ => server.put_resource(Tool::resource(&format!("file:///{name}"), "new")),
    }
    assert!(server.list_changed(kind) > 0, "somebody hears it");
}
