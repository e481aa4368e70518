//! A list is never older than a signal that arrived before it was asked for; the quiet window is for announcements.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tidings_testkit::*;

use crate::{add, full};

/// Nobody waits this long in a test: what comes sooner did not wait for the window.
const LONG: &str = "[notifications]\nlist_quiet = \"60s\"\nlist_max_wait = \"90s\"";

fn named(name: &str) -> Value {
    json!({"name": name, "inputSchema": {"type": "object"}})
}

/// A server whose tool `grow` adds a tool; and says so before it answers, or not.
fn growing(says_so: bool) -> ServerBuilder {
    let tools = Arc::new(Mutex::new(vec![named("grow")]));
    let listed = Arc::clone(&tools);
    full()
        .on_raw("tools/list", move |call| {
            let answer = call.ok(json!({"tools": *listed.lock().unwrap(), "ttlMs": 0, "cacheScope": "private"}));
            async move { answer }
        })
        .tool("grow", move |call| {
            tools.lock().unwrap().push(named(call.argument("name").as_str().unwrap()));
            if says_so {
                call.notify("notifications/tools/list_changed", json!({}));
            }
            async move { call.ok_text("grown") }
        })
}

async fn clients(gateway: &Gateway) -> Vec<(&'static str, Client)> {
    vec![
        ("http_legacy", gateway.client().connect().await),
        ("http_modern", gateway.client().modern().connect().await),
        ("stdio_legacy", gateway.stdio().connect().await),
        ("stdio_modern", gateway.stdio().modern().connect().await),
    ]
}

// edges C6
#[tokio::test]
async fn a_list_asked_for_right_after_a_call_shows_what_the_call_changed() {
    for server in Server::of_every_sort(|| growing(true)).await {
        let gateway = Gateway::builder().toml(LONG).server("one", &server).serve().await;
        for (who, client) in clients(&gateway).await {
            for number in 0..3 {
                let name = format!("{who}_{number}");
                assert_eq!(client.call_tool("grow", json!({ "name": name })).await.text(), "grown");
                assert!(client.names("tools").await.contains(&name), "{name}");
            }
        }
    }
}

// edges C6: over HTTP the word of it has a stream of its own, and may come later than the answer, or never.
#[tokio::test]
async fn a_call_may_change_a_list_without_a_word() {
    for server in [growing(false).http().await, growing(false).modern_only().http().await] {
        let gateway = Gateway::builder().toml(LONG).server("one", &server).serve().await;
        for (who, client) in clients(&gateway).await {
            assert_eq!(client.call_tool("grow", json!({ "name": who })).await.text(), "grown");
            assert!(client.names("tools").await.contains(&who.to_owned()), "{who}");
            let listed = server.count("tools/list");
            client.names("tools").await;
            client.names("tools").await;
            assert_eq!(server.count("tools/list"), listed, "nothing happened, so nobody is asked");
        }
    }
}

// edges C6; S3.2
#[tokio::test]
async fn lists_that_are_asked_for_in_a_burst_do_not_make_more_notices() {
    let windows = "[notifications]\nlist_quiet = \"3s\"\nlist_max_wait = \"30s\"";
    for server in [growing(true).stdio().await, growing(true).modern_only().http().await] {
        let gateway = Gateway::builder().toml(windows).server("one", &server).serve().await;
        let mut followers = [
            ListFollower::begin(gateway.client().connect().await).await,
            ListFollower::begin(gateway.client().modern().connect().await).await,
        ];
        let client = gateway.client().connect().await;
        for number in 0..10 {
            let name = format!("new_{number}");
            client.call_tool("grow", json!({ "name": name })).await;
            assert!(client.names("tools").await.contains(&name));
        }
        for follower in &mut followers {
            follower.expect(&["tools"]).await;
            assert_eq!(follower.client.names("tools").await.len(), 11);
        }
        add(&server, "resources", "new");
        for follower in &mut followers {
            follower.expect(&["resources"]).await;
        }
    }
}

// edges C6
#[tokio::test]
async fn only_lists_of_the_server_that_changed_wait_and_not_for_ever() {
    const MOST: Duration = Duration::from_secs(2);
    let windows = "[notifications]\nlist_quiet = \"1s\"\nlist_max_wait = \"2s\"";
    let gate = Gate::new();
    gate.open();
    let slow = full().hold("tools/list", &gate).stdio().await;
    let other = full().stdio().await;
    let gateway = Gateway::builder().toml(windows).server("slow", &slow).server("other", &other).serve().await;
    let mut server_signals = 0_u32;
    for client in [gateway.client().connect().await, gateway.client().modern().connect().await] {
        gate.open();
        let before = client.names("tools").await;
        let listed = gate.arrived();
        gate.close();
        slow.list_changed("tools");
        let signals = server_signals + 1;
        server_signals = signals;
        let series = r#"tidings_signals_total{server="slow",kind="tools"}"#;
        gateway.wait_metric(series, |now| now >= f64::from(signals)).await;
        let asked = Instant::now();
        let list = client.start("tools/list", json!({}));
        gate.reached(listed + 1).await;
        assert_eq!(client.call_tool("other__echo", json!({"text": "hi"})).await.result()["isError"], Value::Null);
        assert_eq!(client.call_tool("slow__echo", json!({"text": "hi"})).await.result()["isError"], Value::Null);
        assert_eq!(client.names("resources").await.len(), 2, "of this list nothing was said");
        assert!(asked.elapsed() < MOST, "neither calls nor other lists wait: {:?}", asked.elapsed());
        let answered = list.finish().await;
        assert!(asked.elapsed() >= MOST, "answered after {:?}", asked.elapsed());
        let names: Vec<_> =
            answered.result()["tools"].as_array().unwrap().iter().map(|tool| tool["name"].clone()).collect();
        assert_eq!(names, before, "with what is known");
        gate.open();
        gate.reached(listed + 1).await;
    }
}

// edges C6
#[tokio::test]
async fn a_tool_that_a_call_has_just_made_can_be_called() {
    let (server, other) = (growing(true).stdio().await, full().stdio().await);
    let gateway = Gateway::builder().toml(LONG).server("one", &server).server("two", &other).serve().await;
    for (who, client) in clients(&gateway).await {
        client.call_tool("one__grow", json!({ "name": who })).await;
        let reply = client.call_tool(&format!("one__{who}"), json!({})).await.response().value();
        let from_server = reply["error"]["message"].as_str().is_none_or(|text| !text.contains("unknown tool"));
        assert!(from_server, "it got there: {reply}");
        assert!(server.received().iter().any(|r| r.method == "tools/call" && r.params()["name"] == who));
    }
}
