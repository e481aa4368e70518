//! The set of servers from outside: over the HTTP API and on the command line.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod api;
mod commands;
mod files;
mod shown;

use serde_json::json;
use tidings_testkit::{Client, Gateway, GatewayBuilder, Pending, Server};

fn quick() -> GatewayBuilder {
    Gateway::builder().quick()
}

/// A server with one tool and nothing else.
async fn server(tool: &str) -> Server {
    Server::builder(tool).echo(tool).stdio().await
}

/// A modern client that hears of every list.
struct Listener {
    client: Client,
    _stream: Pending,
}

impl Listener {
    async fn begin(gateway: &Gateway) -> Self {
        let client = gateway.client().modern().connect().await;
        let flags = json!({"toolsListChanged": true, "promptsListChanged": true, "resourcesListChanged": true});
        let mut stream = client.start("subscriptions/listen", json!({ "notifications": flags }));
        stream.next_method("notifications/subscriptions/acknowledged").await;
        Self { client, _stream: stream }
    }

    /// Waits for the nth notice that the tools changed, and fails if there were more.
    async fn told(&self, nth: usize) {
        self.client.wait_for_method("notifications/tools/list_changed", nth).await;
        assert_eq!(self.client.count("notifications/tools/list_changed"), nth);
    }
}
