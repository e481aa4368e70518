//! Servers that are removed: what runs on them, who follows them, what they leave.

use std::time::{Duration, Instant};

use serde_json::json;
use tidings_testkit::{Server, ServerBuilder};

use crate::house::{House, KINDS, all_expect, full, keys, put};

/// A server with a tool that never answers.
fn stuck() -> ServerBuilder {
    full("stuck").tool("wait", |call| async move {
        call.cancelled().await;
        call.ok_text("late")
    })
}

// S4.1, S3.4
#[tokio::test(flavor = "multi_thread")]
async fn calls_on_a_server_that_is_removed_are_answered_at_once_with_the_reason() {
    let house = House::open("").await;
    for server in Server::of_every_sort(stuck).await {
        house.add(&[("s", &server)]).await;
        let clients = [house.client().connect().await, house.client().modern().connect().await];
        let calls: Vec<_> = clients
            .iter()
            .map(|client| client.start("tools/call", json!({"name": "s__wait", "arguments": {}})))
            .collect();
        server.wait_for_method("tools/call", clients.len()).await;
        let begun = Instant::now();
        house.remove("s").await;
        for call in calls {
            let answer = call.finish().await;
            let text = answer.error()["message"].as_str().unwrap_or_default().to_owned();
            assert!(text.contains("was removed"), "{:?}", answer.error());
        }
        assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
        assert_eq!(house.gateway.in_flight(), 0);
        for client in &clients {
            let answer = client.call_tool("s__wait", json!({})).await;
            assert!(answer.error().is_object(), "it is gone");
            assert!(client.names("tools").await.is_empty());
        }
        if !server.is_http() {
            server.wait_all_exited().await;
        }
    }
    house.close().await;
}

// bridging 14, and "URI leaves after ack"
#[tokio::test(flavor = "multi_thread")]
async fn whoever_follows_a_resource_of_it_is_told_once_and_goes_on_when_it_comes_back() {
    const URI: &str = "s+file:///r";
    const UPDATED: &str = "notifications/resources/updated";
    let house = House::open("").await;
    let server = full("s").http().await;
    house.add(&[("s", &server)]).await;
    let mut followers = house.followers().await;
    let client = house.client().connect().await;
    let _stream = client.open_get().await;
    let legacy = &client;
    assert!(legacy.request("resources/subscribe", json!({ "uri": URI })).await.result().is_object());
    let modern = house.client().modern().connect().await;
    let mut listen =
        modern.start("subscriptions/listen", json!({ "notifications": { "resourceSubscriptions": [URI] } }));
    listen.next_method("notifications/subscriptions/acknowledged").await;

    house.remove("s").await;
    all_expect(&mut followers, &KINDS).await;
    for client in [legacy, &modern] {
        let told = client.wait_for_method(UPDATED, 1).await;
        assert_eq!(told.params()["uri"], URI);
        assert!(client.request("resources/read", json!({ "uri": URI })).await.error().is_object(), "reads fail");
    }
    house.add(&[("s", &server)]).await;
    all_expect(&mut followers, &KINDS).await;
    server.wait_for_method("resources/subscribe", 2).await;
    server.put_resource(tidings_testkit::Tool::resource("file:///r", "other"));
    server.resource_updated("file:///r");
    for client in [legacy, &modern] {
        client.wait_for_method(UPDATED, 2).await;
    }
    assert!(legacy.request("resources/unsubscribe", json!({ "uri": URI })).await.result().is_object());
    house.remove("s").await;
    modern.wait_for_method(UPDATED, 3).await;
    assert_eq!(legacy.count(UPDATED), 2, "it follows no longer");
    all_expect(&mut followers, &KINDS).await;
    house.close().await;
}

// S1.1, S3.4
#[tokio::test(flavor = "multi_thread")]
async fn connections_of_single_sessions_end_with_the_server() {
    let house = House::open("").await;
    let server = full("s").stdio().await;
    let mut own = keys(&server);
    own["isolation"] = json!("session");
    house.registry.apply(vec![put("s", own)]).await.unwrap();
    let clients = [house.client().connect().await, house.client().connect().await];
    for client in &clients {
        assert!(client.call_tool("s__echo", json!({})).await.result().is_object());
        assert_eq!(client.names("tools").await, ["s__echo"]);
    }
    assert_eq!(server.processes().iter().filter(|process| process.alive).count(), 3);
    house.remove("s").await;
    server.wait_all_exited().await;
    for client in &clients {
        assert!(client.names("tools").await.is_empty());
    }
    house.close().await;
}
