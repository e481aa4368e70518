//! Servers that are added.

use serde_json::json;
use tidings_engine::Names;
use tidings_testkit::{Gate, Server};

use crate::house::{House, KINDS, Rules, all_expect, full, keys, put};

// S4.1, bridging 14
#[tokio::test(flavor = "multi_thread")]
async fn a_server_of_any_sort_is_there_when_the_call_returns_and_everybody_is_told_once_of_each_kind() {
    let house = House::open("").await;
    let mut followers = house.followers().await;
    for (number, server) in Server::of_every_sort(|| full("new")).await.iter().enumerate() {
        let name = format!("s{number}");
        house.add(&[(&name, server)]).await;
        // What is committed can be used at once, whether or not the notice has come.
        for follower in &followers {
            let answer = follower.client.call_tool(&format!("{name}__echo"), json!({"text": "hi"})).await;
            assert!(answer.result().is_object());
        }
        all_expect(&mut followers, &KINDS).await;
        for follower in &followers {
            assert_eq!(follower.client.names("tools").await.len(), number + 1);
        }
    }
    house.close().await;
}

// bridging 16, S4.4
#[tokio::test(flavor = "multi_thread")]
async fn five_servers_in_one_batch_are_one_notice_of_each_kind() {
    let house = House::open("").await;
    let mut followers = house.followers().await;
    let mut servers = Vec::new();
    for _ in 0..5 {
        servers.push(full("new").http().await);
    }
    let named: Vec<(String, &Server)> = servers.iter().enumerate().map(|(n, s)| (format!("s{n}"), s)).collect();
    let named: Vec<(&str, &Server)> = named.iter().map(|(name, server)| (name.as_str(), *server)).collect();
    house.add(&named).await;
    all_expect(&mut followers, &KINDS).await;
    house.remove("s4").await;
    all_expect(&mut followers, &KINDS).await;
    let added: Vec<String> = house.feed.all().iter().map(|change| change.server.name.to_string()).collect();
    assert_eq!(added.iter().filter(|server| *server == "s0").count(), 3, "one record for each list: {added:?}");
    let gone = house
        .feed
        .all()
        .into_iter()
        .rev()
        .take(3)
        .all(|change| &*change.server.name == "s4" && change.removed.len() == 1);
    assert!(gone, "{:?}", house.feed.all());
    house.close().await;
}

// S4.1: a slow server holds up neither calls nor lists of others, and is not half there
#[tokio::test(flavor = "multi_thread")]
async fn nobody_sees_a_server_before_it_has_listed() {
    let old = full("old").http().await;
    let house = House::open(&format!("[servers.old]\n{}", old.toml())).await;
    let mut followers = house.followers().await;
    let gate = Gate::new();
    let slow = full("slow").hold("resources/list", &gate).http().await;
    let registry = house.registry.clone();
    let change = put("slow", keys(&slow));
    let adding = tokio::spawn(async move { registry.apply(vec![change]).await });
    slow.wait_for_method("resources/list", 1).await;
    slow.notify("notifications/message", json!({"level": "error", "data": "not for anybody"}));
    assert_eq!(house.servers(), ["old"]);
    for follower in &followers {
        assert_eq!(follower.client.names("tools").await, ["old__echo"]);
        let answer = follower.client.call_tool("slow__echo", json!({})).await;
        assert!(answer.error().is_object(), "it is not there yet");
    }
    gate.open();
    adding.await.unwrap().unwrap();
    all_expect(&mut followers, &KINDS).await;
    for follower in &followers {
        assert!(!follower.client.received().iter().any(|r| r.text().contains("not for anybody")));
    }
    house.close().await;
}

// interface.md, names
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_was_alone_keeps_its_bare_names_also_when_it_comes_back() {
    let (first, second) = (full("first").http().await, full("second").http().await);
    let rules = Rules { names: Names::Auto, ..Rules::default() };
    let house = House::open_with("", rules).await;
    house.add(&[("first", &first)]).await;
    let closed = house.close().await;
    // Stored servers count as well as those of the file.
    let house = closed.open().await;
    let client = house.client().connect().await;
    assert_eq!(client.names("tools").await, ["echo"]);
    house.add(&[("second", &second)]).await;
    assert_eq!(client.names("tools").await, ["echo", "second__echo"]);
    house.remove("first").await;
    assert_eq!(client.names("tools").await, ["second__echo"]);
    house.add(&[("first", &first)]).await;
    assert_eq!(client.names("tools").await, ["echo", "second__echo"]);
    house.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_is_planned_once() {
    let house = House::open("").await;
    let (one, two) = (full("one").http().await, full("two").http().await);
    let before = house.plans.made();
    house.add(&[("one", &one), ("two", &two)]).await;
    assert_eq!(house.plans.made() - before, 2, "one plan for each server");
    house.remove("one").await;
    assert_eq!(house.plans.made() - before, 2, "who goes needs no plan");
    house.close().await;
}
