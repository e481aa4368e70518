//! What changed: the feed over HTTP, on the command line, and in the notifications of those who ask.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod api;
mod clients;
mod command;
mod deaf;
mod departures;
mod feed;
mod notify;
mod page;
mod restarts;
mod stream;
mod summaries;

use std::collections::VecDeque;

use serde_json::{Value, json};
use tidings_testkit::{Gateway, GatewayBuilder, Server, ServerBuilder, Tool, within};
use tidings_wire::sse;

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

/// A tool with this description.
fn described(name: &str, description: &str) -> Tool {
    let raw = json!({"name": name, "description": description, "inputSchema": {"type": "object"}}).to_string();
    Tool::raw(&raw, |call| async move { call.ok_text("") })
}

/// Adds or replaces a tool, and says so.
fn put(server: &Server, tool: Tool) {
    server.put_tool(tool);
    assert!(server.list_changed("tools") > 0, "somebody hears it");
}

/// Adds a tool, and says so.
fn add(server: &Server, name: &str) {
    put(server, Tool::text_tool(name, "new"));
}

fn token(gateway: &Gateway) -> String {
    std::fs::read_to_string(gateway.data().join("admin.token")).unwrap().trim().to_owned()
}

fn request(gateway: &Gateway, path: &str) -> reqwest::RequestBuilder {
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    client.get(format!("{}/api/v1{path}", gateway.base_url())).bearer_auth(token(gateway))
}

/// A page of the API: its status and what it says.
async fn get(gateway: &Gateway, path: &str) -> (u16, Value) {
    answer(request(gateway, path)).await
}

async fn answer(request: reqwest::RequestBuilder) -> (u16, Value) {
    within("the answer of the API", async {
        let response = request.send().await.unwrap();
        let status = response.status().as_u16();
        (status, serde_json::from_slice(&response.bytes().await.unwrap()).unwrap_or_default())
    })
    .await
}

/// The feed as it goes.
struct Feed {
    response: reqwest::Response,
    decoder: sse::SseDecoder,
    events: VecDeque<sse::SseEvent>,
}

impl Feed {
    /// Everything there is, and everything that comes.
    async fn all(gateway: &Gateway) -> Self {
        Self::open(request(gateway, "/changes/stream?since=0")).await
    }

    async fn open(request: reqwest::RequestBuilder) -> Self {
        let response = within("the stream", request.send()).await.unwrap();
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Self { response, decoder: sse::SseDecoder::new(1 << 20), events: VecDeque::new() }
    }

    /// The next event; `None` when the gateway ends the stream.
    async fn next_event(&mut self) -> Option<sse::SseEvent> {
        within("an event of the feed", async {
            while self.events.is_empty() {
                self.decoder.push(&self.response.chunk().await.unwrap()?);
                while let Some(event) = self.decoder.next_event().unwrap() {
                    self.events.push_back(event);
                }
            }
            self.events.pop_front()
        })
        .await
    }

    async fn next(&mut self) -> Value {
        let event = self.next_event().await.expect("the stream goes on");
        let record: Value = serde_json::from_slice(&event.data).unwrap();
        assert_eq!(event.id.unwrap(), record["seq"].to_string());
        record
    }
}
