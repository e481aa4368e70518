//! Calls at replicas that do not run the server.

use serde_json::json;
use tidings_testkit::V2025_11_25;

use crate::{Fleet, counting};

// cluster: never twice
#[tokio::test]
async fn a_call_that_is_lost_with_its_owner_is_never_repeated() {
    let one = counting("one").tool("hang", |_| async move { std::future::pending().await }).stdio().await;
    let Some(fleet) = Fleet::begin(2, &[("one", &one)]).await else { return };
    let owner = fleet.owner(0, "one").await;
    let client = fleet.replicas[1 - owner].client().modern().connect().await;
    let pending = client.start("tools/call", json!({"name": "hang"}));
    one.wait_for_method("tools/call", 1).await;
    let begun = std::time::Instant::now();
    fleet.replicas[owner].kill().await;
    let lost = pending.finish().await;
    assert!(begun.elapsed() < std::time::Duration::from_secs(4), "{:?}", begun.elapsed());
    let text = lost.error().to_string();
    assert!(text.contains("was lost with the call; it may have run"), "{text}");
    assert_eq!(one.count("tools/call"), 1);
}

// cluster: one translation, at the owner
#[tokio::test]
async fn progress_prompts_resources_and_large_answers_cross_replicas() {
    let one = counting("one")
        .tool("steps", |call| async move {
            call.progress(1);
            call.progress(2);
            call.ok_text("done")
        })
        .stdio()
        .await;
    let Some(fleet) = Fleet::begin(2, &[("one", &one)]).await else { return };
    let owner = fleet.owner(0, "one").await;
    let there = &fleet.replicas[1 - owner];
    for client in [there.client().modern().connect().await, there.client().revision(V2025_11_25).connect().await] {
        let steps = client.call("tools/call").params(json!({"name": "steps"})).progress_token("7").send().await;
        assert_eq!(steps.text(), "done");
        assert_eq!(client.count("notifications/progress"), 2, "{:?}", client.received());
        assert_eq!(
            client.request("prompts/get", json!({"name": "p"})).await.result()["messages"][0]["content"]["text"],
            "hi"
        );
        assert_eq!(client.request("resources/read", json!({"uri": "file:///r"})).await.text(), "r");
        let large = "x".repeat(700 << 10);
        assert!(client.call_tool("echo", json!({"text": large})).await.text().len() > large.len());
    }
}

// cluster: follow
#[tokio::test]
async fn a_resource_is_followed_from_a_replica_that_does_not_run_its_server() {
    let one = counting("one").stdio().await;
    let Some(fleet) = Fleet::begin(2, &[("one", &one)]).await else { return };
    let owner = fleet.owner(0, "one").await;
    let there = &fleet.replicas[1 - owner];
    let legacy = there.client().revision(V2025_11_25).connect().await;
    let _stream = legacy.open_get().await;
    let agreed = legacy.request("resources/subscribe", json!({"uri": "file:///r"})).await;
    assert_eq!(agreed.result(), json!({}));
    let modern = there.client().modern().connect().await;
    let wanted = json!({"notifications": {"resourceSubscriptions": ["file:///r"]}});
    let mut listen = modern.start("subscriptions/listen", wanted.clone());
    let acknowledged = listen.next_method("notifications/subscriptions/acknowledged").await;
    assert_eq!(acknowledged.params()["notifications"], wanted["notifications"]);
    for nth in 1..=3 {
        assert!(one.resource_updated("file:///r") > 0);
        for client in [&legacy, &modern] {
            client.wait_for_method("notifications/resources/updated", nth).await;
            assert_eq!(client.count("notifications/resources/updated"), nth, "once");
        }
    }
}
