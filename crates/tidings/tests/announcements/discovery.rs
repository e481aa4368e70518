//! How the gateway finds out: by signals, gathered; by polling; and again after a failure.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tidings_testkit::*;

use crate::{ListFollower, add, followers, full, quick};

// S3.2, S3.5; bridging 10
#[tokio::test]
async fn a_flood_of_signals_is_gathered_but_not_for_ever() {
    const FLOOD: Duration = Duration::from_millis(1500);
    let windows = "[notifications]\nlist_quiet = \"150ms\"\nlist_max_wait = \"450ms\"";
    for server in [full().stdio().await, full().modern_only().stdio().await, full().modern_only().http().await] {
        let gateway = Gateway::builder().toml(windows).server("one", &server).serve().await;
        let mut followers = [
            ListFollower::begin(gateway.client().connect().await).await,
            ListFollower::begin(gateway.client().modern().connect().await).await,
        ];
        let listed = server.count("tools/list");
        let begun = Instant::now();
        let mut beat = tokio::time::interval(Duration::from_millis(10));
        server.put_tool(Tool::text_tool("new", "new"));
        let mut signals = 0;
        while begun.elapsed() < FLOOD {
            beat.tick().await;
            signals += server.list_changed("tools");
        }
        for follower in &mut followers {
            assert_eq!(
                follower.client.count("notifications/tools/list_changed"),
                usize::from(!follower.told.is_empty()) + 1
            );
            follower.expect(&["tools"]).await;
        }
        add(&server, "resources", "new");
        for follower in &mut followers {
            follower.expect(&["resources"]).await;
        }
        let lists = server.count("tools/list") - listed;
        let most = usize::try_from(begun.elapsed().as_millis() / 450).unwrap() + 2;
        assert!(lists <= most, "{signals} signals, {lists} listings, at most {most}");
    }
}

// S3.5, bridging 10: measured by what happens, not by how long it takes.
#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_one_server_slows_no_other() {
    let windows = "[gateway]\nnames = \"prefix\"\n[notifications]\nlist_quiet = \"50ms\"\nlist_max_wait = \"200ms\"";
    for flooding in [full().stdio().await, full().modern_only().http().await] {
        let calm = Server::builder("calm").echo("echo").stdio().await;
        let gateway = Gateway::builder().toml(windows).server("flood", &flooding).server("calm", &calm).serve().await;
        let mut followers = [
            ListFollower::begin(gateway.client().connect().await).await,
            ListFollower::begin(gateway.client().modern().connect().await).await,
        ];
        let (listed, listed_calm) = (flooding.count("tools/list"), calm.count("tools/list"));
        let begun = Instant::now();
        let mut signals = 0;
        let flood = async {
            loop {
                signals += flooding.list_changed("tools");
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        let others = async {
            // A flood before, while and after the other changes.
            for round in 0..5 {
                for n in 0..20 {
                    let answer = followers[0].client.call_tool("calm__echo", json!({ "text": n.to_string() })).await;
                    answer.result();
                }
                calm.put_tool(Tool::text_tool(&format!("new{round}"), "new"));
                calm.list_changed("tools");
                for follower in &mut followers {
                    follower.expect(&["tools"]).await;
                    let shown = follower.client.names("tools").await;
                    assert!(shown.contains(&format!("calm__new{round}")), "{shown:?}");
                }
            }
        };
        tokio::select! {
            () = flood => {}
            () = others => {}
        }
        assert!(signals > 5, "there was a flood");
        // A client that asks for a list has a server looked at that has signalled since, so there is one more for each question.
        let asked = 5 * 2;
        let lists = flooding.count("tools/list") - listed;
        let most = usize::try_from(begun.elapsed().as_millis() / 200).unwrap() + 2 + asked;
        assert!(lists <= most, "{signals} signals, {lists} listings, at most {most}");
        let lists = calm.count("tools/list") - listed_calm;
        assert!(lists <= 5 * 2, "the calm one is asked for its own changes only: {lists}");
    }
}

/// A server whose tool list is read first and given when the gate lets it.
fn slow_list(tools: &Arc<Mutex<Vec<Value>>>, gate: &Gate) -> ServerBuilder {
    let (tools, gate) = (Arc::clone(tools), gate.clone());
    full().on_raw("tools/list", move |call| {
        let read = tools.lock().unwrap().clone();
        let gate = gate.clone();
        async move {
            gate.wait().await;
            call.ok(json!({"tools": read, "ttlMs": 0, "cacheScope": "private"}))
        }
    })
}

fn named(name: &str) -> Value {
    json!({"name": name, "inputSchema": {"type": "object"}})
}

// S3.2; bridging 11
#[tokio::test]
async fn a_signal_during_a_listing_makes_exactly_one_more() {
    for modern in [false, true] {
        let tools = Arc::new(Mutex::new(vec![named("a")]));
        let gate = Gate::new();
        gate.open();
        let server = slow_list(&tools, &gate);
        let server = if modern { server.modern_only().http().await } else { server.stdio().await };
        let gateway = quick().server("one", &server).serve().await;
        let mut followers = [
            ListFollower::begin(gateway.client().connect().await).await,
            ListFollower::begin(gateway.client().modern().connect().await).await,
        ];
        let listed = gate.arrived();
        gate.close();
        server.list_changed("tools");
        gate.reached(listed + 1).await;
        // It has read the list already, so this change is only in the next one.
        tools.lock().unwrap().push(named("b"));
        for _ in 0..5 {
            server.list_changed("tools");
        }
        gate.open();
        for follower in &mut followers {
            follower.expect(&["tools"]).await;
            assert_eq!(follower.client.names("tools").await, ["a", "b"]);
        }
        add(&server, "resources", "new");
        for follower in &mut followers {
            follower.expect(&["resources"]).await;
        }
        assert_eq!(gate.arrived(), listed + 2, "one for the first signal, one for all that came meanwhile");
    }
}

// bridging 12
#[tokio::test]
async fn a_listing_that_fails_leaves_the_old_list_and_is_tried_again() {
    for modern in [false, true] {
        let failing = Arc::new(AtomicBool::new(false));
        let tools = Arc::new(Mutex::new(vec![named("a")]));
        let (fails, listed) = (Arc::clone(&failing), Arc::clone(&tools));
        let server = full().on_raw("tools/list", move |call| {
            let answer = match fails.load(Ordering::Relaxed) {
                true => ScriptedAnswer::error(-32603, "not now"),
                false => call.ok(json!({"tools": *listed.lock().unwrap(), "ttlMs": 0, "cacheScope": "private"})),
            };
            async move { answer }
        });
        let server = if modern { server.modern_only().http().await } else { server.stdio().await };
        let gateway = quick().server("one", &server).serve().await;
        let mut followers = followers(&gateway).await;
        failing.store(true, Ordering::Relaxed);
        tools.lock().unwrap().push(named("b"));
        server.list_changed("tools");
        gateway.stderr().wait_for("the failure in the log", |line| line.contains("listing failed")).await;
        add(&server, "prompts", "new");
        for follower in &mut followers {
            follower.expect(&["prompts"]).await;
            assert_eq!(follower.client.names("tools").await, ["a"]);
        }
        // It recovers, and says nothing.
        failing.store(false, Ordering::Relaxed);
        for follower in &mut followers {
            follower.expect(&["tools"]).await;
            assert_eq!(follower.client.names("tools").await, ["a", "b"]);
        }
    }
}

// S3.3; bridging 13
#[tokio::test]
async fn a_server_that_announces_nothing_is_polled() {
    for modern in [false, true] {
        let server = full().capabilities(json!({"tools": {}, "prompts": {}, "resources": {"listChanged": true}}));
        let server = if modern { server.modern_only().http().await } else { server.stdio().await };
        let gateway = quick().server_with("one", &server, "poll_interval = \"50ms\"").serve().await;
        let mut followers = followers(&gateway).await;
        let resources = server.count("resources/list");
        server.put_tool(Tool::text_tool("new", "new"));
        for follower in &mut followers {
            follower.expect(&["tools"]).await;
        }
        let polled = server.count("tools/list");
        server.wait_for_method("tools/list", polled + 3).await;
        assert_eq!(server.count("resources/list"), resources, "what is announced is not polled");
        server.put_prompt(Tool::prompt("new", |call| async move { call.ok_message("") }));
        for follower in &mut followers {
            follower.expect(&["prompts"]).await;
        }
    }
}

// S3.3; bridging 13
#[tokio::test]
async fn an_unexpected_signal_is_honoured_with_a_warning() {
    let build = || full().capabilities(json!({"tools": {}, "prompts": {}, "resources": {}}));
    for server in [build().stdio().await, build().http().await] {
        let gateway = quick().server_with("one", &server, "poll_interval = \"1h\"").serve().await;
        let mut follower = ListFollower::begin(gateway.client().connect().await).await;
        add(&server, "tools", "new");
        follower.expect(&["tools"]).await;
        gateway.stderr().wait_for("a warning", |line| line.contains("WARN") && line.contains("not declared")).await;
    }
}

// S3.2
#[tokio::test]
async fn what_changes_before_a_modern_server_has_acknowledged_is_not_missed() {
    let gate = Gate::new();
    for server in [
        full().modern_only().hold("subscriptions/listen", &gate).http().await,
        full().modern_only().hold("subscriptions/listen", &gate).stdio().await,
    ] {
        gate.close();
        let gateway = quick().server_with("one", &server, "poll_interval = \"1h\"").serve().await;
        let mut follower = ListFollower::begin(gateway.client().connect().await).await;
        server.put_tool(Tool::text_tool("new", "new"));
        assert_eq!(server.list_changed("tools"), 0, "nobody can hear it yet");
        gate.open();
        follower.expect(&["tools"]).await;
        assert_eq!(follower.client.names("tools").await, ["echo", "new"]);
        add(&server, "prompts", "new");
        follower.expect(&["prompts"]).await;
    }
}
