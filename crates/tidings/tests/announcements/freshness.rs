//! How long a list is fresh, by its server's word: when it is looked at again, and what clients are told.

use std::time::{Duration, Instant};

use serde_json::json;
use tidings_testkit::*;

use crate::{full, quick};

/// A modern server whose tools are fresh for this long. It announces nothing but its resources.
fn fresh_for(ttl_ms: u64) -> ServerBuilder {
    full()
        .on_raw("tools/list", move |call| async move {
            call.ok(json!({"tools": [{"name": "a", "inputSchema": {"type": "object"}}], "ttlMs": ttl_ms, "cacheScope": "public"}))
        })
        .capabilities(json!({"tools": {}, "prompts": {}, "resources": {"listChanged": true}}))
        .modern_only()
}

// S3.3; bridging 13
#[tokio::test]
async fn a_list_that_is_not_announced_is_looked_at_when_it_is_no_longer_fresh() {
    let begun = Instant::now();
    let server = fresh_for(1_500).http().await;
    let gateway = quick().server_with("one", &server, "poll_interval = \"1h\"").serve().await;
    let listed = server.count("tools/list");
    server.wait_for_method("tools/list", listed + 2).await;
    let took = begun.elapsed();
    assert!(took >= Duration::from_millis(3_000), "not before: {took:?}");
    assert_eq!(server.count("prompts/list"), 1, "nothing was said of these");
    gateway
        .wait_metric(r#"tidings_discoveries_total{server="one",kind="tools",reason="poll",outcome="same"}"#, |now| {
            now >= 2.0
        })
        .await;
}

// S3.3
#[tokio::test]
async fn an_interval_of_zero_turns_polling_off() {
    let server = fresh_for(1).http().await;
    let other = fresh_for(1).http().await;
    let gateway = quick()
        .server_with("one", &server, "poll_interval = \"0s\"")
        .server_with("other", &other, "poll_interval = \"1h\"")
        .serve()
        .await;
    // The other one, which is like it, is polled twice meanwhile.
    let listed = other.count("tools/list");
    other.wait_for_method("tools/list", listed + 2).await;
    assert_eq!(server.count("tools/list"), 1);
    drop(gateway);
}

// bridging (caching)
#[tokio::test]
async fn clients_are_told_how_long_a_list_is_still_fresh() {
    const TTL: u64 = 600_000;
    let server = fresh_for(TTL).capabilities(json!({"tools": {"listChanged": true}})).http().await;
    let gateway = quick().server("one", &server).serve().await;
    let client = gateway.client().modern().connect().await;
    let ttl = || async { client.request("tools/list", json!({})).await.result()["ttlMs"].as_u64().unwrap() };
    let first = ttl().await;
    assert!(first > TTL - 60_000 && first <= TTL, "{first}");
    let aged = within("the list to age", async {
        loop {
            let now = ttl().await;
            if now + 50 < first {
                return now;
            }
        }
    })
    .await;
    // It says the same again: fresh again, and nobody is told of anything.
    server.list_changed("tools");
    within("the list to be fresh again", async { while ttl().await <= aged {} }).await;
}
