//! What one peer may hold of the gateway, and what is given back when it is gone.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use serde_json::json;
use tidings_testkit::*;

// edges G14
#[tokio::test]
async fn the_subscriptions_of_one_client_on_stdio_are_bounded_and_those_within_live() {
    const MOST: usize = 1_024;
    let server = Server::builder("alpha").echo("echo").stdio().await;
    let client = Gateway::builder().server("alpha", &server).quick().stdio().modern().connect().await;
    let listen = || client.start("subscriptions/listen", json!({"notifications": {"toolsListChanged": true}}));
    let mut open = Vec::new();
    for _ in 0..MOST {
        open.push(listen());
    }
    client.record().wait_for_nth("all acknowledgements", MOST, |r| r.method.ends_with("acknowledged")).await;
    for _ in 0..10 {
        let refused = listen().finish().await;
        assert_eq!(refused.error_code(), -32600, "{refused:?}");
        assert!(refused.error()["message"].as_str().is_some_and(|text| text.contains("1024")), "{refused:?}");
    }
    // One that ends makes room for one.
    client.cancel(&open.pop().unwrap()).await;
    let mut again = listen();
    again.next_method("notifications/subscriptions/acknowledged").await;
    assert_eq!(client.call_tool("echo", json!({"a": 1})).await.text(), r#"{"a":1}"#);
}

/// How many connections to this port are open on the side of whoever dialled.
fn connections_to(port: u16) -> usize {
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let remote = format!(":{port:04X}");
    let established = |line: &&str| {
        let mut fields = line.split_whitespace().skip(2);
        fields.next().is_some_and(|address| address.ends_with(&remote)) && fields.next() == Some("01")
    };
    table.lines().filter(established).count()
}

// edges G14
#[tokio::test]
async fn the_connections_to_a_server_that_is_removed_are_closed_at_once() {
    for modern in [false, true] {
        let builder = Server::builder("alpha").echo("echo");
        let server = if modern { builder.modern_only() } else { builder }.http().await;
        let port: u16 = server.url().split(':').nth(2).and_then(|rest| rest.split('/').next()?.parse().ok()).unwrap();
        let gateway = Gateway::builder().server("alpha", &server).serve().await;
        let client = gateway.client().connect().await;
        let calls: Vec<_> =
            (0..8).map(|_| client.start("tools/call", json!({"name": "echo", "arguments": {}}))).collect();
        for call in calls {
            assert_eq!(call.finish().await.text(), "{}");
        }
        assert!(connections_to(port) > 0);
        gateway.rewrite_config("[gateway]\nregistry_tools = false\n");
        eventually("the end of all connections", || (connections_to(port) == 0).then_some(())).await;
    }
}
