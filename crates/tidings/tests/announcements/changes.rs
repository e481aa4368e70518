//! Real changes are told once, to those who can see them; everything else is not told.

use serde_json::json;
use tidings_testkit::*;

use crate::{ListFollower, add, followers, full, full_servers, list_changed, quick, told};

// S0.3, S3.1, S3.7; bridging 9
#[tokio::test]
async fn a_change_is_told_once_and_can_be_read_at_once() {
    for server in full_servers().await {
        let gateway = quick().server("one", &server).serve().await;
        let mut followers = followers(&gateway).await;
        for round in 0..3 {
            for (kind, name, uri) in [("tools", "t", ""), ("prompts", "q", ""), ("resources", "u", "file:///")] {
                let name = format!("{name}{round}");
                add(&server, kind, &name);
                for follower in &mut followers {
                    follower.expect(&[kind]).await;
                    let names = follower.client.names(kind).await;
                    assert!(names.contains(&format!("{uri}{name}")), "{kind} {names:?}");
                }
            }
        }
        server.assert_clean();
    }
}

// S0.2; bridging 3
#[tokio::test]
async fn the_same_content_in_another_order_is_no_change() {
    let tool = |raw: &str| Tool::raw(raw, |call| async move { call.ok_text("") });
    let one = r#"{"name":"a","description":"d","inputSchema":{"type":"object","properties":{}}}"#;
    let same = r#"{ "inputSchema": {"properties":{}, "type":"object"}, "name": "a", "description": "\u0064" }"#;
    let b = r#"{"name":"b","inputSchema":{"type":"object"}}"#;
    for server in full_servers().await {
        server.set_tools(vec![tool(one), tool(b)]);
        let gateway = quick().server("one", &server).serve().await;
        let mut followers = followers(&gateway).await;
        server.set_tools(vec![tool(b), tool(same)]);
        let listed = server.count("tools/list");
        server.list_changed("tools");
        server.list_changed("prompts");
        server.wait_for_method("tools/list", listed + 1).await;
        add(&server, "resources", "new");
        for follower in &mut followers {
            follower.expect(&["resources"]).await;
            follower.client.list("tools").await;
        }
        // Now a word changes.
        server.set_tools(vec![tool(b), tool(&one.replace("\"d\"", "\"e\""))]);
        server.list_changed("tools");
        for follower in &mut followers {
            follower.expect(&["tools"]).await;
        }
    }
}

// bridging 6
#[tokio::test]
async fn changes_while_there_is_no_stream_are_told_once_per_kind_when_there_is_one() {
    for server in [full().http().await, full().modern_only().stdio().await] {
        let gateway = quick().toml("initial = \"never\"").server("one", &server).serve().await;
        let mut witness = ListFollower::quietly(gateway.client().connect().await).await;
        let away = gateway.client().connect().await;
        for round in 0..5 {
            let kind = ["tools", "resources"][round % 2];
            add(&server, kind, &format!("n{round}"));
            witness.expect(&[kind]).await;
        }
        assert!(told(&away).is_empty(), "it has no stream");
        let mut back = ListFollower::quietly(away).await;
        back.expect(&["tools", "resources"]).await;
        add(&server, "prompts", "last");
        for follower in [&mut back, &mut witness] {
            follower.expect(&["prompts"]).await;
        }
    }
}

// bridging 7
#[tokio::test]
async fn icons_are_told_only_to_those_who_see_them() {
    let icon = |src: &str| {
        let raw = json!({"name": "i", "inputSchema": {"type": "object"}, "icons": [{ "src": src }]}).to_string();
        Tool::raw(&raw, |call| async move { call.ok_text("") })
    };
    let server = full().entry_tool(icon("https://example.com/1")).stdio().await;
    let gateway = quick().server("one", &server).serve().await;
    let mut old = ListFollower::begin(gateway.client().revision(V2025_06_18).connect().await).await;
    let mut new = ListFollower::begin(gateway.client().connect().await).await;
    let mut modern = ListFollower::begin(gateway.client().modern().connect().await).await;
    server.put_tool(icon("https://example.com/2"));
    server.list_changed("tools");
    new.expect(&["tools"]).await;
    modern.expect(&["tools"]).await;
    add(&server, "resources", "new");
    for follower in [&mut old, &mut new, &mut modern] {
        follower.expect(&["resources"]).await;
    }
}

// S3.1
#[tokio::test]
async fn also_the_last_tool_can_go() {
    let builders = [|| Server::builder("one").echo("only"), || Server::builder("one").echo("only").modern_only()];
    for build in builders {
        for server in [build().stdio().await, build().http().await] {
            let gateway = quick().server("one", &server).serve().await;
            let mut followers = followers(&gateway).await;
            server.remove_tool("only");
            server.list_changed("tools");
            for follower in &mut followers {
                follower.expect(&["tools"]).await;
                assert!(follower.client.list("tools").await.is_empty());
            }
        }
    }
}

// bridging 34
#[tokio::test]
async fn of_two_streams_only_the_newest_carries_notices() {
    let server = full().stdio().await;
    let gateway = quick().server("one", &server).serve().await;
    let mut follower = ListFollower::begin(gateway.client().connect().await).await;
    let mut newest = follower.client.open_get().await;
    for round in 0..3 {
        add(&server, "tools", &format!("n{round}"));
        newest.next_method(&list_changed("tools")).await;
        follower.expect(&["tools"]).await;
    }
    drop(newest);
    let mut third = follower.client.open_get().await;
    add(&server, "prompts", "n");
    third.next_method(&list_changed("prompts")).await;
    follower.expect(&["prompts"]).await;
}
