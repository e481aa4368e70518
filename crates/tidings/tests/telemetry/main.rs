//! Traces and measures over OTLP: from a client through the gateway to a server, and what becomes of a collector that is down.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod collector;
mod sink;
mod traces;

use tidings_testkit::{Gateway, GatewayBuilder, Server, ServerBuilder};

/// The client's own span, and the one of the HTTP request that carried it.
const THEIRS: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
const CARRIER: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
const SECRET: &str = "hunter2-in-arguments";

/// A gateway that sends what it has at once.
fn traced(telemetry: &str) -> GatewayBuilder {
    let gateway = Gateway::builder().quick().toml(telemetry).env("OTEL_BSP_SCHEDULE_DELAY", "20");
    gateway.env("OTEL_METRIC_EXPORT_INTERVAL", "50")
}

/// A server whose tool answers, one whose tool fails, and one that refuses.
fn script() -> ServerBuilder {
    Server::builder("one")
        .echo("echo")
        .tool("fails", |call| async move {
            call.ok(serde_json::json!({"content": [{"type": "text", "text": "no"}], "isError": true}))
        })
        .tool("refuses", |call| async move { call.error(-32602, "not like that", None) })
        .resource("file:///r", "r")
}
