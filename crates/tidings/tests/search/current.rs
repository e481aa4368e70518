//! The index is never behind what a client has been told.

use serde_json::json;
use tidings_testkit::{Server, Tool, within};

use crate::{call, exposing, followers, found, office, office_servers, tool};

// S3.1, S3.8; architecture invariant 1
#[tokio::test]
async fn what_was_just_announced_is_found() {
    for server in office_servers().await {
        let gateway = exposing("both").server("office", &server).serve().await;
        let followers = followers(&gateway).await;
        let base: Vec<usize> = followers.iter().map(|follower| follower.count("tools")).collect();
        let told = |round: usize| followers.iter().zip(base.iter().map(move |count| count + round));

        server.put_tool(tool("water_plants", "Waters the greenery on every floor."));
        server.list_changed("tools");
        for (follower, nth) in told(1) {
            follower.heard("tools", nth).await;
            assert_eq!(found(&follower.client, "greenery").await, ["water_plants"]);
        }
        server.put_tool(tool("water_plants", "Sprinkles the orchids."));
        server.list_changed("tools");
        for (follower, nth) in told(2) {
            follower.heard("tools", nth).await;
            assert_eq!(found(&follower.client, "orchid").await, ["water_plants"]);
            assert!(found(&follower.client, "greenery").await.is_empty(), "the old words are gone");
        }
        server.set_tools(vec![]);
        server.list_changed("tools");
        for (follower, nth) in told(3) {
            follower.heard("tools", nth).await;
            assert!(found(&follower.client, "orchid").await.is_empty(), "also the last tool can go");
            assert!(found(&follower.client, "office").await.is_empty());
        }
        server.assert_clean();
    }
}

// S3.1
#[tokio::test]
async fn without_announcements_a_new_tool_is_found_all_the_same() {
    let server = office().http().await;
    let gateway = exposing("search").server("office", &server).serve().await;
    let client = gateway.client().connect().await;
    server.put_tool(tool("water_plants", "Waters the greenery."));
    server.list_changed("tools");
    within("the new tool to be found", async { while found(&client, "greenery").await.is_empty() {} }).await;
    assert_eq!(call(&client, "water_plants", json!({"text": "now"})).await.text(), "water_plants: now");
}

// S3.6
#[tokio::test]
async fn the_log_counts_what_was_added_changed_and_removed() {
    let server = office().stdio().await;
    let gateway = exposing("search").arg("-v").server("office", &server).serve().await;
    let updated = |counts: &'static str| {
        move |line: &String| line.contains("DEBUG") && line.contains("tool index updated") && line.contains(counts)
    };
    server.put_tool(tool("water_plants", "Waters the greenery."));
    server.put_tool(tool("book_room", "Reserves a room."));
    server.remove_tool("send_message");
    server.remove_tool("createInvoice");
    server.list_changed("tools");
    gateway.stderr().wait_for("the counts", updated("added=1 changed=1 removed=2")).await;
}

#[tokio::test]
async fn a_session_with_its_own_connection_finds_its_own_tools() {
    let server = Server::builder("one")
        .on_raw("tools/list", |call| {
            let name = format!("own_{}", call.received().connection);
            let tool = json!({"name": name, "description": "Belongs to one.", "inputSchema": {"type": "object"}});
            let answer = call.ok(json!({"tools": [tool]}));
            async move { answer }
        })
        .entry_tool(Tool::text_tool("x", "x"))
        .stdio()
        .await;
    let gateway = exposing("both").server_with("one", &server, "isolation = \"session\"").serve().await;
    let (ann, bob) = (gateway.client().connect().await, gateway.client().connect().await);
    let mut seen = Vec::new();
    for client in [&ann, &bob, &ann] {
        let listed: Vec<String> =
            client.names("tools").await.into_iter().filter(|name| name.starts_with("own_")).collect();
        assert_eq!(listed.len(), 1);
        assert_eq!(found(client, "belongs to").await, listed);
        seen.extend(listed);
    }
    assert!(seen[0] != seen[1] && seen[0] == seen[2], "{seen:?}");
}
