//! `isolation = "principal"`: one connection for each person, shared by their clients of both eras, and nobody else's.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tidings_testkit::{Gateway, GatewayBuilder, ListFollower, Server, ServerBuilder};

use crate::policies::people;
use crate::with_token;

const PERSONAL: &str = "isolation = \"principal\"\npoll_interval = \"1h\"\n";

/// A server with a tool that adds another one, and one that changes a resource: for the connection that they are called on alone.
fn personal() -> ServerBuilder {
    let named = |name: &str| -> Value { json!({"name": name, "inputSchema": {"type": "object"}}) };
    let grown: Arc<Mutex<BTreeSet<usize>>> = Arc::default();
    let listed = Arc::clone(&grown);
    Server::builder("notes")
        .resource("file:///r", "text")
        .on_raw("tools/list", move |call| {
            let mine = listed.lock().unwrap().contains(&call.received().connection);
            let tools: Vec<Value> =
                ["grow", "touch", "mine"][..if mine { 3 } else { 2 }].iter().map(|name| named(name)).collect();
            let answer = call.ok(json!({ "tools": tools }));
            async move { answer }
        })
        .tool("grow", move |call| {
            grown.lock().unwrap().insert(call.received().connection);
            call.notify("notifications/tools/list_changed", json!({}));
            let answer = call.ok_text("grown");
            async move { answer }
        })
        .tool("touch", move |call| {
            call.notify("notifications/resources/updated", json!({"uri": "file:///r"}));
            let answer = call.ok_text("touched");
            async move { answer }
        })
}

/// Short windows, and patience with whoever lists: a machine may have much to do.
pub(crate) fn patient(toml: &str) -> GatewayBuilder {
    let pace =
        "list_quiet = \"20ms\"\nlist_max_wait = \"10s\"\nresource_quiet = \"20ms\"\nresource_max_wait = \"200ms\"\n";
    Gateway::builder().toml(toml).toml(&format!("[notifications]\n{pace}"))
}

async fn gateway(server: &Server) -> Gateway {
    let toml = people(&[("ada", "support"), ("dan", "dev")]);
    patient(&toml).server_with("notes", server, PERSONAL).serve().await
}

/// A legacy and a modern client of one person, who follow all lists.
async fn clients(gateway: &Gateway, who: &str) -> [ListFollower; 2] {
    let legacy = ListFollower::begin(with_token(gateway.client(), who).connect().await).await;
    let modern = ListFollower::begin(with_token(gateway.client().modern(), who).connect().await).await;
    [legacy, modern]
}

// identity 5
#[tokio::test]
async fn a_change_for_one_person_is_told_to_their_clients_of_both_eras_and_to_nobody_else() {
    for server in [personal().stdio().await, personal().http().await] {
        let gateway = gateway(&server).await;
        let (mut adas, mut dans) = (clients(&gateway, "ada").await, clients(&gateway, "dan").await);
        for follower in adas.iter().chain(&dans) {
            assert_eq!(follower.client.names("tools").await, ["grow", "touch"]);
        }
        // One for everybody, and one for each person, however many clients they have.
        assert_eq!(server.initializes(), 3);
        adas[1].client.call_tool("grow", json!({})).await.result();
        for follower in &mut adas {
            follower.expect(&["tools"]).await;
            assert_eq!(follower.client.names("tools").await, ["grow", "touch", "mine"]);
        }
        dans[0].client.call_tool("grow", json!({})).await.result();
        for follower in &mut dans {
            // The first that they are told.
            follower.expect(&["tools"]).await;
            assert_eq!(follower.client.names("tools").await, ["grow", "touch", "mine"]);
        }
        assert_eq!(adas[0].count("tools"), adas[0].told["tools"]);
        assert_eq!(server.initializes(), 3);
    }
}

// identity 5
#[tokio::test]
async fn what_changes_for_one_person_is_told_to_those_of_their_clients_that_follow_it() {
    let server = personal().stdio().await;
    let gateway = gateway(&server).await;
    let updated = "notifications/resources/updated";
    let mut followers = Vec::new();
    for who in ["ada", "dan"] {
        let legacy = with_token(gateway.client(), who).connect().await;
        let stream = legacy.open_get().await;
        legacy.request("resources/subscribe", json!({"uri": "file:///r"})).await.result();
        let modern = with_token(gateway.client().modern(), who).connect().await;
        let mut listen =
            modern.start("subscriptions/listen", json!({"notifications": {"resourceSubscriptions": ["file:///r"]}}));
        let honoured = listen.next_method("notifications/subscriptions/acknowledged").await.params();
        assert_eq!(honoured["notifications"]["resourceSubscriptions"], json!(["file:///r"]));
        followers.push((legacy, modern, stream, listen));
    }
    // Each person's clients are one follower for the server.
    assert_eq!(server.count("resources/subscribe"), 2);
    for (nth, (legacy, modern, ..)) in followers.iter().enumerate() {
        legacy.call_tool("touch", json!({})).await.result();
        legacy.wait_for_method(updated, 1).await;
        modern.wait_for_method(updated, 1).await;
        for (other, ..) in &followers[nth + 1..] {
            assert_eq!(other.count(updated), 0);
        }
    }
    for (legacy, modern, ..) in &followers {
        assert_eq!((legacy.count(updated), modern.count(updated)), (1, 1));
    }
}

// identity 5
#[tokio::test]
async fn the_connection_of_a_person_who_is_idle_is_closed_and_made_again_when_they_ask() {
    let server = personal().stdio().await;
    let toml = people(&[("ada", "support")]) + "[gateway]\nsession_link_idle = \"300ms\"\n";
    let gateway = patient(&toml).server_with("notes", &server, PERSONAL).serve().await;
    let ada = with_token(gateway.client().modern(), "ada").connect().await;
    ada.call_tool("grow", json!({})).await.result();
    assert_eq!(server.processes().len(), 2);
    tidings_testkit::eventually("the end of her connection", || {
        (server.processes().iter().filter(|process| process.alive).count() == 1).then_some(())
    })
    .await;
    // Another connection, for which nothing was added.
    assert_eq!(ada.names("tools").await, ["grow", "touch"]);
    assert_eq!(ada.call_tool("touch", json!({})).await.text(), "touched");
    // It may have been closed once more between the two.
    assert!(server.processes().len() >= 3);
}
