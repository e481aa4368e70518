//! What clients do to a gateway by leaving, ending and coming back.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod attach;
mod batches;
mod channel;
mod disconnects;
mod endings;
mod restarts;

use std::time::Duration;

use serde_json::json;
use tidings_testkit::*;

/// A server whose tool `slow` speaks once, if it may, and then waits for the gate; it ends its waiting when it is cancelled.
fn script(gate: &Gate) -> ServerBuilder {
    let held = gate.clone();
    let slow = move |call: ScriptedCall| {
        let gate = held.clone();
        async move {
            call.progress(1);
            tokio::select! {
                () = gate.wait() => call.ok_text("done"),
                () = call.cancelled() => ScriptedAnswer::Silent,
            }
        }
    };
    Server::builder("alpha").tool("slow", slow).echo("echo").resource("test://r", "one")
}

/// Waits longer than testkit does for anything.
async fn soon<T>(what: &str, limit: Duration, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(limit, future).await.unwrap_or_else(|_| panic!("gave up after {limit:?} waiting for {what}"))
}

/// How many connections of clients the gateway holds, also such as it has not noticed the end of.
fn connections(gateway: &Gateway) -> usize {
    let port: u16 = gateway.base_url().rsplit(':').next().unwrap().parse().unwrap();
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let held = |line: &&str| {
        let mut fields = line.split_whitespace().skip(1);
        let (local, state) = (fields.next().unwrap(), fields.nth(1).unwrap());
        // Established, or closed by the other side only.
        local.ends_with(&format!(":{port:04X}")) && ["01", "08"].contains(&state)
    };
    table.lines().skip(1).filter(held).count()
}

async fn wait_connections(gateway: &Gateway, count: usize) {
    eventually(&format!("{count} connections"), || (connections(gateway) == count).then_some(())).await;
}

fn call(id: u32, name: &str) -> serde_json::Value {
    let params = json!({"name": name, "arguments": {"id": id}, "_meta": {"progressToken": id}});
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})
}
