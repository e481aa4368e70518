//! Definitions that wait for approval, through the real gateway: a held one is there for nobody, every client is told once, and a decision
//! is told to exactly those whose view it changes.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod ci_example;
mod commands;
mod decisions;
mod kept;

use std::path::PathBuf;

use serde_json::{Value, json};
use tidings_testkit::{Client, Gateway, GatewayBuilder, ListFollower, Server, ServerBuilder, Tool, V2025_06_18};

fn quick() -> GatewayBuilder {
    Gateway::builder().quick()
}

/// A tool that says what it is for, and answers with that.
fn described(name: &str, description: &str) -> Tool {
    let raw = json!({"name": name, "description": description, "inputSchema": {"type": "object"}}).to_string();
    let answer = description.to_owned();
    Tool::raw(&raw, move |call| {
        let answer = answer.clone();
        async move { call.ok_text(&answer) }
    })
}

/// A server with two tools, a prompt and a resource that announces its changes.
fn full() -> ServerBuilder {
    Server::builder("one")
        .entry_tool(described("add", "Adds."))
        .entry_tool(described("sub", "Subtracts."))
        .prompt("p", |call| async move { call.ok_message("hi") })
        .resource("file:///r", "r")
}

/// Adds or replaces a tool, and says so.
fn put(server: &Server, tool: Tool) {
    server.put_tool(tool);
    assert!(server.list_changed("tools") > 0, "somebody hears it");
}

/// Clients of both eras.
async fn followers(gateway: &Gateway) -> Vec<ListFollower> {
    vec![
        ListFollower::begin(gateway.client().connect().await).await,
        ListFollower::begin(gateway.client().revision(V2025_06_18).connect().await).await,
        ListFollower::begin(gateway.client().modern().connect().await).await,
    ]
}

/// Each is told of the tools once more, and of nothing else.
async fn expect_tools(followers: &mut [ListFollower]) {
    for follower in followers {
        follower.expect(&["tools"]).await;
    }
}

/// What a client sees of each tool: its name and description.
async fn tools(client: &Client) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    client.list("tools").await.iter().map(|tool| (text(&tool["name"]), text(&tool["description"]))).collect()
}

fn seen(tools: &[(&str, &str)]) -> Vec<(String, String)> {
    tools.iter().map(|(name, description)| ((*name).to_owned(), (*description).to_owned())).collect()
}

/// What is held.
async fn approvals(gateway: &Gateway) -> Vec<Value> {
    let (status, body) = gateway.api("GET", "/approvals", Value::Null).await;
    assert_eq!(status, 200);
    body["approvals"].as_array().unwrap().clone()
}

/// Decides about one held item by its name.
async fn decide(gateway: &Gateway, name: &str, decision: &str) -> (u16, Value) {
    let held = approvals(gateway).await.into_iter().find(|held| held["name"] == name).unwrap();
    let path = format!("/approvals/{}", held["id"].as_str().unwrap());
    gateway.api("POST", &path, json!({ "decision": decision, "digest": held["digest"] })).await
}

fn lock_file(gateway: &Gateway) -> PathBuf {
    gateway.config().with_file_name("tidings.lock")
}

/// The lines of the lock that name an item.
fn lock_lines(gateway: &Gateway) -> Vec<String> {
    let text = std::fs::read_to_string(lock_file(gateway)).unwrap();
    text.lines().filter(|line| line.contains("hash = ")).map(str::to_owned).collect()
}

/// Runs a command, and gives whether it went well with all that it printed.
async fn command(gateway: &Gateway, args: &[&str]) -> (bool, String) {
    let output = gateway.command(args).await;
    let text = [&output.stdout[..], &output.stderr[..]].concat();
    (output.status.success(), String::from_utf8_lossy(&text).into_owned())
}
