//! What is under way when a server is restarted, removed or replaced.

use std::time::Duration;

use serde_json::json;
use tidings_inventory::RegistryRefusal;
use tidings_testkit::{Gate, ScriptedEntry, Server, eventually, within};
use tokio::task::JoinHandle;

use crate::house::{House, Rules, full, keys, put};

/// A server that starts at once the first time, and hangs when it is started again.
async fn restarting(house: &House, gate: &Gate, server: &Server) -> JoinHandle<Result<(), RegistryRefusal>> {
    gate.open();
    house.add(&[("f", server)]).await;
    gate.close();
    let arrived = gate.arrived();
    let registry = house.registry.clone();
    let restarting = tokio::spawn(async move { registry.restart("f").await });
    gate.reached(arrived + 1).await;
    restarting
}

// edges F4
#[tokio::test(flavor = "multi_thread")]
async fn a_restart_is_over_when_its_server_is_removed_or_replaced() {
    let gate = Gate::new();
    let slow = full("slow").hold("initialize", &gate).stdio().await;
    let good = full("good").http().await;
    let house = House::open("").await;
    let restart = restarting(&house, &gate, &slow).await;
    house.remove("f").await;
    let refused = within("the end of the restart", restart).await.unwrap().unwrap_err();
    assert!(matches!(refused, RegistryRefusal::Unknown { .. }), "{refused}");
    let restart = restarting(&house, &gate, &slow).await;
    house.registry.apply(vec![put("f", keys(&good))]).await.unwrap();
    let refused = within("the end of the restart", restart).await.unwrap().unwrap_err();
    assert!(matches!(refused, RegistryRefusal::Overtaken { .. }), "{refused}");
    house.close().await;
}

// edges F4
#[tokio::test(flavor = "multi_thread")]
async fn a_restart_that_hangs_holds_up_no_shutdown() {
    let gate = Gate::new();
    let slow = full("slow").hold("initialize", &gate).stdio().await;
    let house = House::open("").await;
    let restart = restarting(&house, &gate, &slow).await;
    house.close().await;
    let refused = within("the end of the restart", restart).await.unwrap().unwrap_err();
    assert!(matches!(refused, RegistryRefusal::NotRunning), "{refused}");
}

// edges B2
#[tokio::test(flavor = "multi_thread")]
async fn a_second_link_that_was_being_made_across_a_restart_is_not_left_over() {
    let gate = Gate::new();
    // The modern link needs no such request, the legacy one beside it does.
    let both = full("both").modern().hold("initialize", &gate).stdio().await;
    let house = House::open("").await;
    house.add(&[("f", &both)]).await;
    let client = house.client().connect().await;
    let call = client.start("tools/call", json!({"name": "f__echo", "arguments": {}}));
    gate.reached(1).await;
    // It loses its patience, and goes over the modern link.
    call.finish().await.result();
    house.registry.restart("f").await.unwrap();
    let alive = || both.processes().iter().filter(|process| process.alive).count();
    eventually("the end of the first process", || (alive() == 2).then_some(())).await;
    gate.open();
    eventually("the end of the second link's process", || (alive() == 1).then_some(())).await;
    // Whoever needs a second link gets one.
    client.call_tool("f__echo", json!({"a": 1})).await.text();
    eventually("the next one", || (alive() == 2).then_some(())).await;
    house.close().await;
}

// edges B2
#[tokio::test(flavor = "multi_thread")]
async fn a_link_of_its_own_that_is_being_made_ends_with_its_server() {
    let gate = Gate::new();
    let slow = full("slow").hold("initialize", &gate).stdio().await;
    let good = full("good").stdio().await;
    let isolated = |server: &Server| {
        let mut keys = keys(server);
        keys["isolation"] = json!("session");
        put("f", keys)
    };
    let house = House::open("").await;
    gate.open();
    house.registry.apply(vec![isolated(&slow)]).await.unwrap();
    let client = house.client().connect().await;
    gate.close();
    let arrived = gate.arrived();
    let call = client.start("tools/call", json!({"name": "f__echo", "arguments": {}}));
    gate.reached(arrived + 1).await;
    house.registry.apply(vec![isolated(&good)]).await.unwrap();
    slow.wait_all_exited().await;
    let refused = within("the answer to the call", call.finish()).await;
    assert!(refused.error()["message"].as_str().unwrap_or_default().contains("replaced"), "{refused:?}");
    // Nobody waits for an attempt with the old configuration, nor for a pause after it.
    assert_eq!(client.call_tool("f__echo", json!({"a": 1})).await.text(), r#"{"a":1}"#);
    house.close().await;
}

// edges D2
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_tried_and_not_taken_lets_no_notice_go_early() {
    let server = full("f").http().await;
    let next = full("next").http().await;
    let house = House::open_with("", Rules { list_quiet: Duration::from_secs(60), ..Rules::default() }).await;
    house.add(&[("f", &server)]).await;
    let client = house.client().modern().connect().await;
    let wanted = json!({"toolsListChanged": true, "resourcesListChanged": true});
    let mut listen = client.start("subscriptions/listen", json!({ "notifications": wanted }));
    listen.next_method("notifications/subscriptions/acknowledged").await;
    server.put_tool(ScriptedEntry::text_tool("new", "new"));
    server.list_changed("tools");
    // It can be read at once; the notice waits for more of it.
    within("the new tool", async {
        while client.names("tools").await.len() < 2 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    // The next one lists under the same id; beside one that does not start it is not taken.
    let gate = Gate::new();
    let failing = full("g").hold("tools/list", &gate).stdio().await;
    let (registry, batch) = (house.registry.clone(), vec![put("f", keys(&next)), put("g", keys(&failing))]);
    let applying = tokio::spawn(async move { registry.apply(batch).await });
    for method in ["tools/list", "prompts/list", "resources/list"] {
        next.wait_for_method(method, 1).await;
    }
    gate.reached(1).await;
    failing.exit(1);
    within("the refusal", applying).await.unwrap().unwrap_err();
    house.remove("f").await;
    listen.next_method("notifications/resources/list_changed").await;
    assert_eq!(client.count("notifications/tools/list_changed"), 1, "of both changes at once");
    house.close().await;
}
