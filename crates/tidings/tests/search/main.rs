//! `retrieve_tools` and `call_tool` through the real gateway: what is found is true now, and can be called.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod calling;
mod current;
mod exposure;
mod finding;
mod learning;
mod meaning;
mod outside;

use serde_json::{Value, json};
use tidings_testkit::{
    Client, Exchange, Gateway, GatewayBuilder, ListFollower, Server, ServerBuilder, Tool, V2025_06_18,
};

/// A gateway with this `expose`, and short windows.
fn exposing(expose: &str) -> GatewayBuilder {
    Gateway::builder().toml(&format!("[gateway]\nexpose = \"{expose}\"")).quick()
}

fn tool(name: &str, description: &str) -> Tool {
    let definition = json!({"name": name, "description": description,
        "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}}});
    let answer = name.to_owned();
    Tool::raw(&definition.to_string(), move |call| {
        let text = format!("{answer}: {}", call.argument("text").as_str().unwrap_or_default());
        async move { call.ok_text(&text) }
    })
}

/// A server with a few tools of the office.
fn office() -> ServerBuilder {
    Server::builder("office")
        .entry_tool(tool("send_message", "Sends a short note to a colleague."))
        .entry_tool(tool("createInvoice", "Bills a customer for goods or services."))
        .entry_tool(tool("list_holidays", "Public holidays of a country and year."))
        .entry_tool(tool("book_room", "Reserves a meeting room for some hours."))
}

/// The same server in both eras on both transports.
async fn office_servers() -> Vec<Server> {
    Server::of_every_sort(office).await
}

/// Clients of both eras over HTTP and on stdio.
async fn clients(gateway: &Gateway) -> Vec<Client> {
    vec![
        gateway.client().connect().await,
        gateway.client().revision(V2025_06_18).connect().await,
        gateway.client().modern().connect().await,
        gateway.stdio().connect().await,
        gateway.stdio().modern().connect().await,
    ]
}

/// What a search gives, by the text that every revision has; fails when the structured content says something else.
async fn retrieve(client: &Client, query: &str) -> Vec<Value> {
    let answer = client.call_tool("retrieve_tools", json!({ "query": query })).await;
    let said: Value = serde_json::from_str(&answer.text()).unwrap();
    assert_eq!(answer.result()["structuredContent"], said);
    said["tools"].as_array().unwrap().clone()
}

fn names(tools: &[Value]) -> Vec<&str> {
    tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect()
}

async fn found(client: &Client, query: &str) -> Vec<String> {
    names(&retrieve(client, query).await).into_iter().map(str::to_owned).collect()
}

/// A call through `call_tool`, begun.
fn start<'a>(client: &'a Client, name: &str, arguments: Value) -> tidings_testkit::RequestBuilder<'a> {
    let mut params = json!({"name": "call_tool", "arguments": {"name": name}});
    params["arguments"]["arguments"] = arguments;
    client.call("tools/call").params(params)
}

async fn call(client: &Client, name: &str, arguments: Value) -> Exchange {
    start(client, name, arguments).send().await
}

/// The text of a result that says it failed.
fn failure(answer: &Exchange) -> String {
    assert_eq!(answer.result()["isError"], true, "{answer:?}");
    answer.text()
}

/// One follower of each sort.
async fn followers(gateway: &Gateway) -> Vec<ListFollower> {
    let mut followers = Vec::new();
    for client in clients(gateway).await {
        followers.push(ListFollower::begin(client).await);
    }
    followers
}
