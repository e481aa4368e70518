//! Announcements through the real gateway: every client is told once, and only of what changed for it.
//!
//! That nothing is said is shown by what is said next: a real change of another kind, and nothing before it.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod alone;
mod begin;
mod changes;
mod discovery;
mod freshness;
mod isolated;
mod listens;
mod observed;
mod own_writes;
mod restarts;
mod unheard;

use tidings_testkit::{
    Gateway, GatewayBuilder, KINDS, ListFollower, Server, ServerBuilder, Tool, V2025_06_18, list_changed, told,
};

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

/// The same server in both eras on both transports.
async fn full_servers() -> Vec<Server> {
    Server::of_every_sort(full).await
}

/// Clients of both eras over HTTP and on stdio, all settled.
async fn followers(gateway: &Gateway) -> Vec<ListFollower> {
    vec![
        ListFollower::begin(gateway.client().connect().await).await,
        ListFollower::begin(gateway.client().revision(V2025_06_18).connect().await).await,
        ListFollower::begin(gateway.client().modern().connect().await).await,
        ListFollower::begin(gateway.stdio().connect().await).await,
        ListFollower::begin(gateway.stdio().modern().connect().await).await,
    ]
}

/// Adds a tool, prompt or resource with this name, and says so.
fn add(server: &Server, kind: &str, name: &str) {
    match kind {
        "tools" => server.put_tool(Tool::text_tool(name, "new")),
        "prompts" => server.put_prompt(Tool::prompt(name, |call| async move { call.ok_message("new") })),
        _ => server.put_resource(Tool::resource(&format!("file:///{name}"), "new")),
    }
    assert!(server.list_changed(kind) > 0, "somebody hears it");
}
