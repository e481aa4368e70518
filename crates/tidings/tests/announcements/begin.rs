//! What a client is told at its beginning, and which clients are told nothing.

use serde_json::json;
use tidings_testkit::*;

use crate::{KINDS, ListFollower, add, full, full_servers, quick, told};

// S0.1, S0.6; bridging 1
#[tokio::test]
async fn a_fresh_session_gets_each_notice_once_also_when_there_is_nothing() {
    let empty = Server::builder("one").capabilities(json!({})).stdio().await;
    let some = full().stdio().await;
    let gateways = [
        quick().serve().await,
        quick().server("one", &empty).serve().await,
        quick().server("one", &some).serve().await,
    ];
    for gateway in gateways {
        for revision in [V2024_11_05, V2025_06_18, V2025_11_25] {
            // The second of each finds everything warm.
            let clients = [
                gateway.client().revision(revision).connect().await,
                gateway.client().revision(revision).connect().await,
                gateway.stdio().revision(revision).connect().await,
            ];
            for client in clients {
                let mut follower = ListFollower::quietly(client).await;
                follower.client.list("tools").await;
                follower.client.list("tools").await;
                follower.expect(&KINDS).await;
                follower.client.list("resources").await;
                assert_eq!(told(&follower.client), follower.told);
                if !follower.client.is_on_http() {
                    follower.client.close_stdin();
                    assert!(follower.client.wait_exit().await.success());
                    assert_eq!(told(&follower.client), follower.told, "also at its end");
                }
            }
        }
    }
}

// S0.1; bridging 1
#[tokio::test]
async fn notices_wait_for_the_servers_and_come_before_the_end_of_a_short_conversation() {
    let gate = Gate::new();
    let server = full().hold("tools/list", &gate).stdio().await;
    // With prefixes, so that the handshake does not wait for the server to introduce itself.
    let gateway = quick().toml("[gateway]\nnames = \"prefix\"").server("one", &server);
    let client = gateway.stdio().connect().await;
    gate.reached(1).await;
    assert!(told(&client).is_empty(), "the first lists are not there yet");
    client.close_stdin();
    gate.open();
    assert!(client.wait_exit().await.success());
    assert_eq!(told(&client), KINDS.map(|kind| (kind, 1)).into());
}

// bridging 2
#[tokio::test]
async fn nothing_is_said_at_the_beginning_when_so_configured() {
    let server = full().stdio().await;
    let gateway = quick().toml("initial = \"never\"").server("one", &server).serve().await;
    for client in [gateway.client().connect().await, gateway.stdio().connect().await] {
        client.list("tools").await;
        client.list("tools").await;
        let mut follower = ListFollower::quietly(client).await;
        server.wait_for_method("tools/list", 1).await;
        add(&server, "resources", if follower.client.is_on_http() { "one" } else { "two" });
        follower.expect(&["resources"]).await;
    }
}

// S2.1, bridging 2
#[tokio::test]
async fn what_changes_after_the_first_list_is_told_even_if_the_client_was_not_ready_for_it() {
    let server = full().stdio().await;
    let gateway = quick().toml("initial = \"never\"").server("one", &server);
    let client = gateway.stdio().raw().connect().await;
    let hello = json!({
        "protocolVersion": V2025_11_25, "capabilities": {}, "clientInfo": { "name": "eager", "version": "1" },
    });
    client.request("initialize", hello).await.result();
    let seen = client.names("tools").await;
    add(&server, "tools", "new");
    server.wait_for_method("tools/list", 2).await;
    eventually_listed(&client, seen.len() + 1).await;
    assert!(told(&client).is_empty(), "it is not ready yet");
    client.notify("notifications/initialized", json!({})).await;
    client.wait_for_method("notifications/tools/list_changed", 1).await;
}

async fn eventually_listed(client: &Client, tools: usize) {
    within("the new list", async { while client.names("tools").await.len() < tools {} }).await;
}

// S0.4; bridging 4
#[tokio::test]
async fn a_session_of_2025_03_26_is_promised_nothing_and_told_nothing() {
    let server = full().stdio().await;
    let gateway = quick().server("one", &server).serve().await;
    for builder in [gateway.client(), gateway.stdio()] {
        let client = builder.revision(V2025_03_26).connect().await;
        assert!(!client.initialize_result().to_string().contains("listChanged"));
        let silent = ListFollower::quietly(client).await;
        let mut other = ListFollower::begin(gateway.client().connect().await).await;
        for kind in KINDS {
            add(&server, kind, &format!("{kind}{}", silent.client.is_on_http()));
            other.expect(&[kind]).await;
        }
        // Its own process or stream has passed everything on by the time it answers.
        silent.client.list("tools").await;
        if silent.client.is_on_http() {
            // The end of the session: its stream has carried all it ever will.
            assert_eq!(silent.client.delete().await / 100, 2);
        } else {
            silent.client.close_stdin();
            silent.client.wait_exit().await;
        }
        assert!(told(&silent.client).is_empty(), "{:?}", silent.client.received());
    }
}

// S0.5; bridging 5
#[tokio::test]
async fn sessions_of_two_revisions_do_not_affect_each_other() {
    for server in full_servers().await {
        let gateway = quick().server("one", &server).serve().await;
        let silent = ListFollower::quietly(gateway.client().revision(V2025_03_26).connect().await).await;
        let mut loud = ListFollower::begin(gateway.client().connect().await).await;
        add(&server, "tools", "new");
        loud.expect(&["tools"]).await;
        assert!(silent.client.names("tools").await.contains(&"new".to_owned()), "it sees what it is not told of");
        add(&server, "prompts", "new");
        loud.expect(&["prompts"]).await;
        assert!(told(&silent.client).is_empty());
    }
}

// S0.5
#[tokio::test]
async fn which_revisions_are_told_nothing_is_configured() {
    let server = full().stdio().await;
    let gateway = quick().toml("suppress = [\"2025-11-25\"]").server("one", &server).serve().await;
    let silent = ListFollower::quietly(gateway.client().connect().await).await;
    assert!(!silent.client.initialize_result().to_string().contains("listChanged"));
    let mut told_now = ListFollower::begin(gateway.client().revision(V2025_03_26).connect().await).await;
    assert_eq!(told_now.client.initialize_result()["capabilities"]["tools"], json!({"listChanged": true}));
    add(&server, "tools", "new");
    told_now.expect(&["tools"]).await;
    assert!(told(&silent.client).is_empty());
}
