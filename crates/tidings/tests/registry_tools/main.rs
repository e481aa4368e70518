//! `mcp_registry_*` through the real gateway: what they change is true for everybody, and nothing else is told.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod adding;
mod browsing;
mod containers;
mod exec;
mod failures;
mod launching;
mod offered;
mod rights;
mod seen;

use serde_json::{Value, json};
use tidings_testkit::{Client, Exchange, Gateway, GatewayBuilder, Pending, Server, ServerBuilder, is_modern};

/// A gateway with the tools, and short windows.
fn with_tools(more: &str) -> GatewayBuilder {
    Gateway::builder().toml(&format!("[gateway]\nregistry_tools = true\n{more}")).quick()
}

/// A server with something of every kind.
fn clock() -> ServerBuilder {
    Server::builder("clock")
        .tool("now", |call| async move { call.ok_text("noon") })
        .prompt("ask", |call| async move { call.ok_message("what time is it") })
        .resource("file:///zones", "all")
}

/// What a tool says: its structured content, which the text repeats.
async fn call(client: &Client, tool: &str, arguments: Value) -> Value {
    said(&client.call_tool(&format!("mcp_registry_{tool}"), arguments).await)
}

fn said(answer: &Exchange) -> Value {
    let result = answer.result();
    assert_ne!(result["isError"], true, "{answer:?}");
    let said: Value = serde_json::from_str(&answer.text()).unwrap();
    assert_eq!(result["structuredContent"], said);
    said
}

/// Why a tool refuses.
async fn refusal(client: &Client, tool: &str, arguments: Value) -> String {
    let answer = client.call_tool(&format!("mcp_registry_{tool}"), arguments).await;
    assert_eq!(answer.result()["isError"], true, "{answer:?}");
    answer.text()
}

/// The arguments that launch a scripted server.
fn launch_arguments(prefix: &str, server: &Server) -> Value {
    let (command, args) = server.command();
    json!({"command": command, "args": args, "prefix": prefix})
}

async fn launch(client: &Client, prefix: &str, server: &Server) -> Value {
    call(client, "launch_stdio", launch_arguments(prefix, server)).await
}

/// The names of a list without those of the registry.
async fn listed(client: &Client, kind: &str) -> Vec<String> {
    let mut names = client.names(kind).await;
    names.retain(|name| !name.starts_with("mcp_registry_"));
    names.sort();
    names
}

/// A client that hears what is announced to it.
struct Follower {
    client: Client,
    _stream: Option<Pending>,
}

const KINDS: [&str; 3] = ["tools", "prompts", "resources"];

impl Follower {
    async fn begin(client: Client) -> Self {
        if is_modern(&client.revision()) {
            let flags = json!({"toolsListChanged": true, "promptsListChanged": true, "resourcesListChanged": true});
            let mut listen = client.start("subscriptions/listen", json!({ "notifications": flags }));
            listen.next_method("notifications/subscriptions/acknowledged").await;
            return Self { client, _stream: Some(listen) };
        }
        let on_http = client.received().iter().all(|received| received.stream != "stdio");
        let stream = if on_http { Some(client.open_get().await) } else { None };
        let follower = Self { client, _stream: stream };
        for kind in KINDS {
            follower.heard(kind, 1).await;
        }
        follower
    }

    /// Two of each era.
    async fn some(gateway: &Gateway) -> Vec<Self> {
        vec![
            Self::begin(gateway.client().connect().await).await,
            Self::begin(gateway.client().connect().await).await,
            Self::begin(gateway.client().modern().connect().await).await,
            Self::begin(gateway.client().modern().connect().await).await,
        ]
    }

    fn counts(&self) -> [usize; 3] {
        KINDS.map(|kind| self.client.count(&format!("notifications/{kind}/list_changed")))
    }

    async fn heard(&self, kind: &str, nth: usize) {
        self.client.wait_for_method(&format!("notifications/{kind}/list_changed"), nth).await;
    }

    /// Waits for one more of every kind.
    async fn heard_all(&self, before: [usize; 3]) {
        for (kind, count) in KINDS.into_iter().zip(before) {
            self.heard(kind, count + 1).await;
        }
    }
}
