//! HTTP+SSE, the transport of revision 2024-11-05: servers that have nothing else, and clients that have nothing else.
//!
//! The same with parts that others wrote is `conformance/sse_peers.py`.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod clients;
mod probing;
mod resets;
mod upstream;

use std::time::Duration;

use serde_json::{Value, json};
use tidings_testkit::*;

const UPDATED: &str = "notifications/resources/updated";
const CANCELLED: &str = "notifications/cancelled";

/// Short windows, so that a test need not wait.
fn quick() -> GatewayBuilder {
    Gateway::builder().toml(
        "[notifications]\nlist_quiet = \"20ms\"\nlist_max_wait = \"200ms\"\nresource_quiet = \"20ms\"\nresource_max_wait = \"200ms\"",
    )
}

/// A server with something of everything; `slow` runs until the gate opens or it is cancelled, and says progress first.
fn of_everything(gate: &Gate) -> ServerBuilder {
    let gate = gate.clone();
    Server::builder("one")
        .echo("echo")
        .tool("slow", move |call| {
            let gate = gate.clone();
            async move {
                call.progress(1);
                tokio::select! {
                    () = gate.wait() => call.ok_text("done"),
                    () = call.cancelled() => call.ok_text("too late"),
                }
            }
        })
        .tool("ask", |call| async move {
            let answer = call.sample(json!({"messages": [], "maxTokens": 5})).await;
            call.ok_text(&answer.map_or_else(|error| error.code.to_string(), |result| result["model"].to_string()))
        })
        .resource("file:///a", "a")
}

/// Such a server behind a gateway that knows its transport. `keys`: what else its configuration says.
async fn served_with(gate: &Gate, keys: &str) -> (Server, Gateway) {
    let server = of_everything(gate).sse().await;
    let gateway = quick().server_with("one", &server, keys).serve().await;
    (server, gateway)
}

async fn served(gate: &Gate) -> (Server, Gateway) {
    served_with(gate, "").await
}

/// A client that is asked says who it is.
fn answers(client: &Client, name: &'static str) {
    client.on_request(move |request| match request.method.as_str() {
        "sampling/createMessage" => {
            ClientReply::Result(json!({"role": "assistant", "model": name, "content": {"type": "text", "text": ""}}))
        }
        _ => ClientReply::Error(-32601, "not asked".to_owned()),
    });
}

/// Calls until one works.
async fn works_again(client: &Client) {
    within("a call that works", async {
        while !client.call_tool("echo", json!({})).await.response().error().is_null() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
}

fn able() -> Value {
    json!({ "sampling": {} })
}

fn tool(name: &str, who: &str) -> Value {
    json!({ "name": name, "arguments": { "who": who } })
}
