//! Servers that go and come back: told of only if they come back different.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;
use tidings_testkit::*;

use crate::{ListFollower, add, followers, full, full_servers, quick};

/// Ends a server, changes it, and waits until the gateway has it again.
async fn restart(server: &Server, gateways: usize, change: impl FnOnce(&Server)) {
    let listed = server.count("resources/templates/list");
    server.kill().await;
    change(server);
    server.revive().await;
    server.wait_for_method("resources/templates/list", listed + gateways).await;
}

// S3.4; bridging 12
#[tokio::test]
async fn a_server_that_comes_back_is_told_of_only_if_it_is_different() {
    for server in full_servers().await {
        let gateway = quick().server("one", &server).serve().await;
        let mut followers = followers(&gateway).await;
        // The gateway and one for each client on stdio.
        restart(&server, 3, |_| {}).await;
        for follower in &followers {
            assert_eq!(follower.client.names("tools").await, ["echo"]);
        }
        add(&server, "resources", "new");
        for follower in &mut followers {
            follower.expect(&["resources"]).await;
        }
        restart(&server, 3, |server| server.put_tool(Tool::text_tool("new", "new"))).await;
        for follower in &mut followers {
            follower.expect(&["tools"]).await;
            assert_eq!(follower.client.names("tools").await, ["echo", "new"]);
        }
        // Signals work again.
        add(&server, "prompts", "new");
        for follower in &mut followers {
            follower.expect(&["prompts"]).await;
        }
    }
}

// S3.4
#[tokio::test]
async fn the_lists_of_a_server_that_is_down_are_still_there_and_nobody_is_told() {
    for server in full_servers().await {
        let other = Server::builder("two").echo("other").stdio().await;
        let gateway = quick().server("one", &server).server("two", &other).serve().await;
        let mut followers = followers(&gateway).await;
        server.kill().await;
        gateway.stderr().wait_for("the failure in the log", |line| line.contains("server failed")).await;
        add(&other, "tools", "new");
        for follower in &mut followers {
            follower.expect(&["tools"]).await;
            assert_eq!(follower.client.names("tools").await, ["one__echo", "two__other", "two__new"]);
            assert_eq!(follower.client.names("prompts").await, ["one__p"]);
        }
    }
}

// S3.4; bridging 12
#[tokio::test]
async fn a_server_that_comes_back_without_its_list_keeps_the_old_one() {
    let failing = Arc::new(AtomicBool::new(false));
    let fails = Arc::clone(&failing);
    let server = full()
        .on_raw("tools/list", move |call| {
            let answer = match fails.load(Ordering::Relaxed) {
                true => ScriptedAnswer::error(-32603, "not yet"),
                false => call.ok(json!({"tools": [{"name": "a", "inputSchema": {"type": "object"}}]})),
            };
            async move { answer }
        })
        .stdio()
        .await;
    let gateway = quick().server("one", &server).serve().await;
    let mut follower = ListFollower::begin(gateway.client().connect().await).await;
    failing.store(true, Ordering::Relaxed);
    restart(&server, 1, |_| {}).await;
    add(&server, "resources", "new");
    follower.expect(&["resources"]).await;
    assert_eq!(follower.client.names("tools").await, ["a"]);
}
