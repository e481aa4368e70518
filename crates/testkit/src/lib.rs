//! Scripted MCP servers and clients of every revision, and a harness that runs the real gateway between them.
//!
//! ```no_run
//! # use tidings_testkit::*; use serde_json::json;
//! # async fn story() {
//! let alpha = Server::builder("alpha").tool("echo", |call| async move { call.ok_text("hi") }).stdio().await;
//! let gateway = Gateway::builder().server("alpha", &alpha).serve().await;
//! let client = Client::legacy(gateway.url(), V2025_11_25, json!({})).await;
//! let reply = client.request("tools/call", json!({"name": "echo"})).await;
//! assert_eq!(reply.text(), "hi");
//! alpha.wait_for(|r| r.method == "tools/call").await;
//! # }
//! ```
//!
//! Rules of the house: nothing sleeps to wait for something; every wait names its condition, has a deadline and, when it
//! fails, prints all that was received. Everything received is kept as raw bytes. Code here panics freely: a panic is
//! how a test fails.

mod binaries;
mod certificates;
mod client;
mod clock;
mod fault_proxy;
mod gate;
mod gateway;
mod list_follower;
mod nats;
mod nats_operator;
mod podman;
mod postgres;
mod random;
mod received;
mod record;
mod revision;
mod round_robin;
mod server;
mod tcp_cable;
mod tempdir;
mod vitals;

pub use binaries::{relay, tidings};
pub use certificates::CertificateAuthority;
pub use client::{Client, ClientBuilder, ClientReply, Exchange, PendingExchange, RequestBuilder, answer_all, retry_of};
pub use clock::ManualClock;
pub use fault_proxy::{FaultProxy, FaultRates, ProxyFault};
pub use gate::Gate;
pub use gateway::{Gateway, GatewayBuilder, unread_pipe};
pub use list_follower::{KINDS, ListFollower, list_changed, told};
pub use nats::NatsServer;
pub use nats_operator::NatsOperator;
pub use podman::{ImageRegistry, Podman};
pub use postgres::PostgresServer;
pub use random::SplitMix;
pub use received::{DISCONNECTED, ReceivedMessage};
pub use record::{AwaitedRecord, DEADLINE, eventually, within};
pub use revision::{
    LATEST_LEGACY, LEGACY, MODERN, V2024_11_05, V2025_03_26, V2025_06_18, V2025_11_25, V2026_07_28, is_modern,
};
pub use round_robin::RoundRobin;
pub use server::{
    Prompt, Resource, RpcError, ScriptedAnswer, ScriptedCall, ScriptedEntry, ScriptedProcess, Server, ServerBuilder,
    Template, Tool,
};
pub use tcp_cable::TcpCable;
pub use tempdir::TempDir;
pub use vitals::Vitals;
