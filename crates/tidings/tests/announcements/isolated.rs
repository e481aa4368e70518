//! Sessions with connections of their own are told of what changes on those, and of nothing else.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tidings_testkit::*;

use crate::{ListFollower, add, full, quick};

const ISOLATED: &str = "isolation = \"session\"\npoll_interval = \"1h\"";

/// A server with a tool that adds another one, for the connection that it is called on alone.
fn personal() -> ServerBuilder {
    let named = |name: &str| -> Value { json!({"name": name, "inputSchema": {"type": "object"}}) };
    let grown: Arc<Mutex<BTreeSet<usize>>> = Arc::default();
    let listed = Arc::clone(&grown);
    full()
        .on_raw("tools/list", move |call| {
            let mine = listed.lock().unwrap().contains(&call.received().connection);
            let tools: Vec<Value> =
                ["grow", "mine"][..if mine { 2 } else { 1 }].iter().map(|name| named(name)).collect();
            let answer = call.ok(json!({ "tools": tools }));
            async move { answer }
        })
        .tool("grow", move |call| {
            grown.lock().unwrap().insert(call.received().connection);
            call.notify("notifications/tools/list_changed", json!({}));
            let answer = call.ok_text("grown");
            async move { answer }
        })
}

// S3.1; bridging 9
#[tokio::test]
async fn a_change_on_its_own_connection_is_told_to_that_session_alone() {
    for server in [personal().stdio().await, personal().http().await] {
        let gateway = quick().server_with("one", &server, ISOLATED).serve().await;
        let mut one = ListFollower::begin(gateway.client().connect().await).await;
        let mut other = ListFollower::begin(gateway.client().connect().await).await;
        for follower in [&one, &other] {
            assert_eq!(follower.client.names("tools").await, ["grow"]);
        }
        one.client.call_tool("grow", json!({})).await.result();
        one.expect(&["tools"]).await;
        assert_eq!(one.client.names("tools").await, ["grow", "mine"]);
        // What changes for all is told to all, and nothing was told to the other before.
        add(&server, "prompts", "new");
        for follower in [&mut one, &mut other] {
            follower.expect(&["prompts"]).await;
            assert!(follower.client.names("prompts").await.contains(&"new".to_owned()));
        }
        assert_eq!(other.client.names("tools").await, ["grow"]);
    }
}

// S3.4
#[tokio::test]
async fn a_session_of_its_own_is_told_of_shared_servers_and_not_of_noise() {
    let personal = personal().stdio().await;
    let shared = full().stdio().await;
    let gateway = quick().server_with("one", &personal, ISOLATED).server("two", &shared).serve().await;
    let mut follower = ListFollower::begin(gateway.client().connect().await).await;
    assert_eq!(follower.client.names("tools").await, ["one__grow", "two__echo"]);
    let listed = personal.count("tools/list");
    personal.list_changed("tools");
    // Over the shared connection and over the session's own.
    personal.wait_for_method("tools/list", listed + 2).await;
    add(&shared, "tools", "new");
    follower.expect(&["tools"]).await;
    assert_eq!(follower.client.names("tools").await, ["one__grow", "two__echo", "two__new"]);
    // Its process dies and comes back the same.
    personal.exit(1);
    personal.wait_spawned(4).await;
    add(&shared, "resources", "new");
    follower.expect(&["resources"]).await;
}

// bridging 12
#[tokio::test]
async fn a_list_that_fails_on_its_own_connection_stays_and_is_asked_for_again() {
    let server = full().stdio().await;
    let gateway = quick().server_with("one", &server, ISOLATED).serve().await;
    let mut follower = ListFollower::begin(gateway.client().connect().await).await;
    assert_eq!(follower.client.names("tools").await, ["echo"]);
    // Fails over the shared connection and over the session's own.
    server.fail_next("tools/list", 2);
    let failed = server.count("tools/list") + 2;
    server.list_changed("tools");
    server.wait_for_method("tools/list", failed).await;
    add(&server, "prompts", "new");
    follower.expect(&["prompts"]).await;
    assert_eq!(follower.client.names("tools").await, ["echo"]);
    server.fail_next("tools/list", 2);
    add(&server, "tools", "new");
    follower.expect(&["tools"]).await;
    assert_eq!(follower.client.names("tools").await, ["echo", "new"]);
}
