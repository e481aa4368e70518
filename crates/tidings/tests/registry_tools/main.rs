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
use tidings_testkit::{Client, Exchange, Gateway, GatewayBuilder, ListFollower, Server, ServerBuilder};

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

/// Two followers of each era.
async fn followers(gateway: &Gateway) -> Vec<ListFollower> {
    vec![
        ListFollower::begin(gateway.client().connect().await).await,
        ListFollower::begin(gateway.client().connect().await).await,
        ListFollower::begin(gateway.client().modern().connect().await).await,
        ListFollower::begin(gateway.client().modern().connect().await).await,
    ]
}
