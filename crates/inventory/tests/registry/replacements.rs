//! Servers that are configured otherwise, restarted, or switched off and on.

use serde_json::json;
use tidings_engine::ServerState;
use tidings_inventory::RefusalClass;
use tidings_testkit::{Gate, Server, Tool};

use crate::house::{House, KINDS, Rules, all_expect, full, keys, put, shell};

fn alive(server: &Server) -> usize {
    server.processes().iter().filter(|process| process.alive).count()
}

// S4.1
#[tokio::test(flavor = "multi_thread")]
async fn a_server_is_replaced_in_one_step_and_the_old_one_serves_until_then() {
    let house = House::open("").await;
    let gate = Gate::new();
    let old = full("old").stdio().await;
    let new = Server::builder("new").echo("echo").echo("second").hold("tools/list", &gate).stdio().await;
    house.add(&[("s", &old)]).await;
    let mut followers = house.followers().await;
    let registry = house.registry.clone();
    let change = put("s", keys(&new));
    let replacing = tokio::spawn(async move { registry.apply(vec![change]).await });
    new.wait_for_method("tools/list", 1).await;
    for follower in &followers {
        assert!(follower.client.call_tool("s__echo", json!({})).await.result().is_object());
    }
    gate.open();
    replacing.await.unwrap().unwrap();
    all_expect(&mut followers, &KINDS).await;
    old.wait_all_exited().await;
    for follower in &followers {
        assert_eq!(follower.client.names("tools").await, ["s__echo", "s__second"]);
        assert!(follower.client.call_tool("s__second", json!({})).await.result().is_object());
    }
    assert_eq!(new.count("tools/call"), followers.len());
    house.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_put_as_it_is_or_can_not_take_its_place_leaves_the_old_one_alone() {
    let house = House::open("").await;
    let server = full("s").stdio().await;
    house.add(&[("s", &server)]).await;
    let mut followers = house.followers().await;
    house.add(&[("s", &server)]).await;
    let refused = house.registry.apply(vec![put("s", shell("exit 1"))]).await.unwrap_err();
    assert_eq!(refused.kind(), RefusalClass::Failed);
    assert_eq!(house.registry.kept("s").await, Some(keys(&server)));
    assert_eq!(server.processes().len(), 1);
    server.put_tool(Tool::text_tool("more", "more"));
    server.list_changed("tools");
    all_expect(&mut followers, &["tools"]).await;
    assert_eq!(server.processes().len(), 1, "it was never touched");
    house.close().await;
}

// Invariant 9
#[tokio::test(flavor = "multi_thread")]
async fn a_restart_ends_the_process_answers_its_calls_and_returns_when_it_is_ready() {
    let house = House::open("").await;
    let stuck = full("s").tool("wait", |call| async move {
        call.cancelled().await;
        call.ok_text("late")
    });
    let server = stuck.stdio().await;
    house.add(&[("s", &server)]).await;
    let mut followers = house.followers().await;
    let call = followers[0].client.start("tools/call", json!({"name": "s__wait", "arguments": {}}));
    server.wait_for_method("tools/call", 1).await;
    house.registry.restart("s").await.unwrap();
    let answer = call.finish().await;
    assert!(answer.error()["message"].as_str().unwrap().contains("was restarted"), "{:?}", answer.error());
    assert_eq!((server.processes().len(), alive(&server)), (2, 1));
    assert!(followers[0].client.call_tool("s__echo", json!({})).await.result().is_object());
    let state = house.gateway.catalogue().borrow().servers[0].clone();
    assert_eq!((state.state, state.connects), (ServerState::Ready, 2));
    // It offers what it offered: nobody is told.
    server.put_tool(Tool::text_tool("more", "more"));
    server.list_changed("tools");
    all_expect(&mut followers, &["tools"]).await;
    house.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_that_fails_says_why_and_a_failing_server_of_the_file_is_tried_at_once() {
    let rules = Rules::default();
    let house =
        House::open_with("[servers.s]\ncommand = \"sh\"\nargs = [\"-c\", \"test -e ./ok || exit 7\"]\n", rules).await;
    let refused = house.registry.restart("s").await.unwrap_err();
    assert!(refused.to_string().contains("exit status: 7"), "{refused}");
    assert_eq!(house.servers(), ["s"], "one of the file is kept as failing");
    house.close().await;
}

// S4.6
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_switched_off_is_gone_for_everybody_and_stays_off_until_it_is_switched_on() {
    let (of_file, added) = (full("file").stdio().await, full("added").stdio().await);
    let house = House::open(&format!("[servers.file]\n{}", of_file.toml())).await;
    house.add(&[("added", &added)]).await;
    let mut followers = house.followers().await;
    for (name, server) in [("file", &of_file), ("added", &added)] {
        house.registry.set_enabled(name, false).await.unwrap();
        all_expect(&mut followers, &KINDS).await;
        server.wait_all_exited().await;
        assert!(!house.registry.state().server(name).unwrap().enabled);
        assert_eq!(house.registry.restart(name).await.unwrap_err().kind(), RefusalClass::Conflict);
    }
    drop(followers);
    let house = house.close().await.open().await;
    assert!(house.servers().is_empty());
    let mut followers = house.followers().await;
    for name in ["file", "added"] {
        house.registry.set_enabled(name, true).await.unwrap();
        all_expect(&mut followers, &KINDS).await;
    }
    assert_eq!(house.registry.state().servers.iter().filter(|entry| entry.switched).count(), 0);
    house.close().await;
}
