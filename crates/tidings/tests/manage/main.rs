//! The set of servers from outside: over the HTTP API and on the command line.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod api;
mod commands;
mod files;
mod shown;
mod slow;

use tidings_testkit::{Gateway, GatewayBuilder, ListFollower, Server};

fn quick() -> GatewayBuilder {
    Gateway::builder().quick()
}

/// A server with one tool and nothing else.
async fn server(tool: &str) -> Server {
    Server::builder(tool).echo(tool).stdio().await
}

/// A modern client that hears of every list.
async fn listener(gateway: &Gateway) -> ListFollower {
    ListFollower::begin(gateway.client().modern().connect().await).await
}
