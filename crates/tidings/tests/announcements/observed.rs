//! What can be seen of changes from outside: metrics, logs, and lists that can not be had.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;
use tidings_testkit::*;

use crate::{ListFollower, add, full, quick};

fn discoveries(kind: &str, reason: &str, outcome: &str) -> String {
    let labels = format!(r#"server="one",kind="{kind}",reason="{reason}",outcome="{outcome}""#);
    format!("tidings_discoveries_total{{{labels}}}")
}

fn sent(era: &str, kind: &str) -> String {
    format!(r#"tidings_notifications_sent_total{{era="{era}",kind="{kind}"}}"#)
}

fn suppressed(kind: &str, reason: &str) -> String {
    format!(r#"tidings_notifications_suppressed_total{{kind="{kind}",reason="{reason}"}}"#)
}

// S3.6, S3.7
#[tokio::test]
async fn a_change_is_counted_from_the_signal_to_the_notice() {
    for server in [full().stdio().await, full().modern_only().http().await] {
        let gateway = quick().server("one", &server).serve().await;
        let mut followers = [
            ListFollower::begin(gateway.client().connect().await).await,
            ListFollower::begin(gateway.client().modern().connect().await).await,
            ListFollower::begin(gateway.client().modern().connect().await).await,
        ];
        assert_eq!(gateway.metric(&discoveries("tools", "reconnect", "changed")).await, Some(1.0));
        assert_eq!(gateway.metric(&sent("legacy", "tools")).await, Some(1.0), "the first notice");
        add(&server, "tools", "new");
        for follower in &mut followers {
            follower.expect(&["tools"]).await;
        }
        let signals = gateway.metric(r#"tidings_signals_total{server="one",kind="tools"}"#).await;
        assert!(signals >= Some(1.0), "{signals:?}");
        assert_eq!(gateway.metric(&discoveries("tools", "signal", "changed")).await, Some(1.0));
        assert_eq!(gateway.metric(&sent("legacy", "tools")).await, Some(2.0));
        assert_eq!(gateway.metric(&sent("modern", "tools")).await, Some(2.0));
        assert_eq!(gateway.metric(&sent("modern", "prompts")).await, Some(0.0));
        for (era, count) in [("legacy", 1.0), ("modern", 2.0)] {
            for span in ["signal", "commit"] {
                let series = |part: &str| format!(r#"tidings_{span}_to_delivery_seconds_{part}{{era="{era}"}}"#);
                assert_eq!(gateway.metric(&series("count")).await, Some(count), "{era} {span}");
                let sum = gateway.metric(&series("sum")).await;
                assert!(sum > Some(0.0) && sum < Some(count * 30.0), "{era} {span} {sum:?}");
            }
            // The quiet window lies between the signal and the commit.
            let quick = format!(r#"tidings_signal_to_delivery_seconds_bucket{{era="{era}",le="0.01"}}"#);
            assert_eq!(gateway.metric(&quick).await, Some(0.0));
        }
        // Much ado about nothing.
        server.list_changed("prompts");
        gateway.wait_metric(&discoveries("prompts", "signal", "same"), |now| now == 1.0).await;
        assert_eq!(gateway.metric(&sent("legacy", "prompts")).await, Some(1.0));
    }
}

// S0.4, S0.5, S3.6
#[tokio::test]
async fn what_a_client_is_not_told_is_counted() {
    let server = full().modern_only().http().await;
    let gateway = quick().server("one", &server).serve().await;
    let mut sees = ListFollower::begin(gateway.client().modern().connect().await).await;
    let mut blind = ListFollower::begin(gateway.client().revision(V2025_06_18).connect().await).await;
    let silent = gateway.client().revision(V2025_03_26).connect().await;
    silent.list("tools").await;
    gateway.wait_metric("tidings_sessions", |now| now == 2.0).await;
    server.put_tool(Tool::raw(r#"{"name":"echo","inputSchema":{"type":"object"}}"#, |c| async move { c.ok_text("") }));
    server.list_changed("tools");
    sees.expect(&["tools"]).await;
    blind.expect(&["tools"]).await;
    assert_eq!(gateway.metric(&suppressed("tools", "silent_revision")).await, Some(1.0));
    assert_eq!(gateway.metric(&suppressed("tools", "unchanged_view")).await, Some(0.0));
    // Icons are shown to the newer client only.
    let icon = r#"{"name":"echo","inputSchema":{"type":"object"},"icons":[{"src":"https://example.com/i"}]}"#;
    server.put_tool(Tool::raw(icon, |call| async move { call.ok_text("") }));
    server.list_changed("tools");
    sees.expect(&["tools"]).await;
    assert_eq!(gateway.metric(&suppressed("tools", "unchanged_view")).await, Some(1.0));
    assert_eq!(gateway.metric(&suppressed("tools", "silent_revision")).await, Some(2.0));
    assert_eq!(gateway.metric(&suppressed("prompts", "silent_revision")).await, Some(0.0));
    assert_eq!(silent.count("notifications/tools/list_changed"), 0);
}

// S3.6; bridging 2
#[tokio::test]
async fn changes_behind_one_notice_are_counted_as_coalesced() {
    let server = full().stdio().await;
    let gateway = quick().toml("initial = \"never\"").server("one", &server).serve().await;
    // Nothing takes what it is owed while it has no stream.
    let away = gateway.client().connect().await;
    away.list("tools").await;
    let mut present = ListFollower::begin(gateway.client().modern().connect().await).await;
    let coalesced = r#"tidings_notifications_coalesced_total{kind="tools"}"#;
    for (round, expected) in [(0, 0.0), (1, 1.0), (2, 2.0)] {
        add(&server, "tools", &format!("t{round}"));
        present.expect(&["tools"]).await;
        assert_eq!(gateway.metric(coalesced).await, Some(expected));
    }
    let _stream = away.open_get().await;
    away.wait_for_method("notifications/tools/list_changed", 1).await;
    assert_eq!(gateway.metric(&sent("legacy", "tools")).await, Some(1.0));
    let waited = r#"tidings_signal_to_delivery_seconds_sum{era="legacy"}"#;
    let (legacy, modern) = (gateway.metric(waited).await, gateway.metric(&waited.replace("legacy", "modern")).await);
    assert!(legacy > modern.map(|sum| sum / 3.0), "it waited since the first change: {legacy:?} {modern:?}");
}

// interface (metrics)
#[tokio::test]
async fn gauges_show_what_there_is_now() {
    let gate = Gate::new();
    gate.close();
    let held = gate.clone();
    let server = Server::builder("one")
        .tool("wait", move |call| {
            let gate = held.clone();
            async move {
                gate.wait().await;
                call.ok_text("done")
            }
        })
        .stdio()
        .await;
    let dead = Server::builder("dead").http().await;
    dead.kill().await;
    let gateway = quick().server("one", &server).server("dead", &dead).serve().await;
    gateway.wait_metric(r#"tidings_servers{state="ready"}"#, |now| now == 1.0).await;
    assert_eq!(gateway.metric(&discoveries("tools", "reconnect", "changed")).await, Some(1.0));
    assert_eq!(
        gateway.metric(&discoveries("prompts", "reconnect", "same")).await,
        None,
        "it has none, and was not asked"
    );
    let client = gateway.client().connect().await;
    let modern = gateway.client().modern().connect().await;
    assert_eq!(gateway.metric("tidings_sessions").await, Some(1.0));
    assert_eq!(gateway.metric("tidings_listeners").await, Some(0.0));
    let follower = ListFollower::begin(modern).await;
    assert_eq!(gateway.metric("tidings_listeners").await, Some(1.0));
    assert_eq!(gateway.metric("tidings_calls_in_flight").await, Some(0.0));
    let call = client.start("tools/call", json!({"name": "one__wait", "arguments": {}}));
    gate.reached(1).await;
    assert_eq!(gateway.metric("tidings_calls_in_flight").await, Some(1.0));
    gate.open();
    assert_eq!(call.finish().await.text(), "done");
    assert_eq!(gateway.metric("tidings_calls_in_flight").await, Some(0.0));
    drop(follower);
    gateway.wait_metric("tidings_listeners", |now| now == 0.0).await;
    let (_, text) = gateway.get("/metrics").await;
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let name = line.split(['{', ' ']).next().unwrap();
        let family = ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name);
        assert!(text.contains(&format!("# TYPE {family} ")), "{line}");
        assert!(line.rsplit(' ').next().unwrap().parse::<f64>().is_ok(), "{line}");
    }
}

// bridging 12; interface (servers)
#[tokio::test]
async fn a_list_that_can_not_be_had_is_shown_until_it_can() {
    for modern in [false, true] {
        let failing = Arc::new(AtomicBool::new(true));
        let fails = Arc::clone(&failing);
        let server = full().on_raw("prompts/list", move |call| {
            let answer = match fails.load(Ordering::Relaxed) {
                true => ScriptedAnswer::error(-32603, "not now"),
                false => call.ok(json!({"prompts": [{"name": "p"}], "ttlMs": 0, "cacheScope": "private"})),
            };
            async move { answer }
        });
        let server = if modern { server.modern_only().http().await } else { server.stdio().await };
        let gateway = quick().server("one", &server).serve().await;
        let status = gateway.server_status("one").await;
        assert_eq!((&status["state"], &status["tools"]), (&json!("ready"), &json!(1)), "{status}");
        let failed = status["failed_lists"].as_array().unwrap();
        assert_eq!(failed.len(), 1, "{status}");
        assert_eq!(failed[0]["list"], "prompts/list");
        assert_eq!(failed[0]["error"], "prompts/list failed: not now");
        assert!(failed[0]["retry_in"].as_u64().is_some_and(|seconds| seconds <= 30), "{status}");
        assert_eq!(gateway.metric(r#"tidings_failed_lists{server="one"}"#).await, Some(1.0));
        let shown = Command::new(tidings()).arg("servers").arg("--data").arg(gateway.data()).output().unwrap();
        let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
        assert!(shown.contains("prompts/list failed: not now (retry in "), "{shown}");
        gateway.wait_metric(&discoveries("prompts", "retry", "failed"), |now| now >= 1.0).await;
        failing.store(false, Ordering::Relaxed);
        let status = gateway.wait_server("one", "whole", |now| now["failed_lists"] == json!([])).await;
        assert_eq!(status["error"], json!(null));
        gateway.wait_server("one", "listed", |now| now["prompts"] == 1).await;
        assert_eq!(gateway.metric(&discoveries("prompts", "retry", "changed")).await, Some(1.0));
        assert_eq!(gateway.metric(r#"tidings_failed_lists{server="one"}"#).await, Some(0.0));
    }
}

// S3.5, S3.6
#[tokio::test]
async fn a_flood_makes_one_line_per_listing_in_the_log() {
    const SIGNALS: usize = 200;
    let windows = "[notifications]\nlist_quiet = \"300ms\"\nlist_max_wait = \"900ms\"";
    let server = full().stdio().await;
    let gateway = Gateway::builder().arg("--verbose").toml(windows).server("one", &server).serve().await;
    let mut follower = ListFollower::begin(gateway.client().connect().await).await;
    server.put_tool(Tool::text_tool("new", "new"));
    let other = r#"{"name":"echo","description":"now with one","inputSchema":{"type":"object"}}"#;
    server.put_tool(Tool::raw(other, |call| async move { call.ok_text("") }));
    for _ in 0..SIGNALS {
        server.list_changed("tools");
    }
    follower.expect(&["tools"]).await;
    gateway.wait_metric(r#"tidings_signals_total{server="one",kind="tools"}"#, |now| now == SIGNALS as f64).await;
    add(&server, "prompts", "new");
    follower.expect(&["prompts"]).await;
    let last = |line: &String| line.contains("DEBUG") && line.contains("prompts/list");
    gateway.stderr().wait_for_nth("the last line", 2, last).await;
    let lines = gateway.stderr().all();
    let about = |words: &[&str]| lines.iter().filter(|line| words.iter().all(|word| line.contains(word))).count();
    let listings: f64 = {
        let mut sum = 0.0;
        for outcome in ["changed", "same"] {
            sum += gateway.metric(&discoveries("tools", "signal", outcome)).await.unwrap_or_default();
        }
        sum
    };
    let received = about(&["INFO", "received", "notifications/tools/list_changed", "one"]);
    assert!(received as f64 <= listings && received >= 1, "{received} lines for {listings} listings");
    assert!(about(&["INFO", "signals="]) >= 1, "how many they were");
    assert_eq!(about(&["DEBUG", "tools/list", "added=1", "changed=1", "removed=0"]), 1);
}

// S3.3
#[tokio::test]
async fn a_surprise_is_warned_of_once_per_link() {
    let server = full().capabilities(json!({"tools": {}, "prompts": {}, "resources": {}})).stdio().await;
    let gateway = quick().server_with("one", &server, "poll_interval = \"1h\"").serve().await;
    let mut follower = ListFollower::begin(gateway.client().connect().await).await;
    let warning = |line: &String| line.contains("WARN") && line.contains("not declared");
    let warnings = || gateway.stderr().all().iter().filter(|line| warning(line)).count();
    for name in ["a", "b", "c"] {
        add(&server, "tools", name);
        follower.expect(&["tools"]).await;
        gateway.stderr().wait_for("a warning", warning).await;
        assert_eq!(warnings(), 1, "after {name}");
    }
    server.exit(1);
    server.wait_spawned(2).await;
    gateway.wait_server("one", "back", |now| now["state"] == "ready" && now["connects"] == 2).await;
    add(&server, "tools", "d");
    follower.expect(&["tools"]).await;
    gateway.stderr().wait_for_nth("a warning for the new link", 2, warning).await;
    assert_eq!(warnings(), 2);
}

// S2.5
#[tokio::test]
async fn a_line_without_end_on_standard_error_is_cut() {
    let server = full().stdio().await;
    let gateway = quick().server("one", &server).serve().await;
    server.print_stderr(&format!("begin {}", "x".repeat(1 << 20)));
    server.print_stderr("short");
    let line = gateway.stderr().wait_for("the long line", |line| line.contains("begin xxx")).await;
    assert!(line.len() < 9_000 && line.contains("bytes more"), "{} bytes", line.len());
    gateway.stderr().wait_for("the next line", |line| line.contains("INFO short")).await;
}

/// The names of metrics in a text.
fn metrics_in(text: &str) -> std::collections::BTreeSet<String> {
    let words = text.split(|c: char| !(c.is_ascii_lowercase() || c == '_'));
    words.filter(|word| word.starts_with("tidings_")).map(str::to_owned).collect()
}

// reach 7
#[tokio::test]
async fn calls_are_counted_by_server_and_tool_and_the_dashboard_names_what_there_is() {
    let (one, two) = (full().stdio().await, full().modern_only().http().await);
    let gateway = quick().server("one", &one).server("two", &two).serve().await;
    for client in [gateway.client().connect().await, gateway.client().modern().connect().await] {
        client.call_tool("one__echo", json!({})).await.result();
        client.call_tool("two__echo", json!({})).await.result();
        client.request("prompts/get", json!({"name": "two__p"})).await.result();
        client.request("resources/read", json!({"uri": "one+file:///r"})).await.result();
    }
    one.remove_tool("echo");
    let client = gateway.client().connect().await;
    client.call_tool("one__echo", json!({})).await.error();
    let count = async |series: &str| gateway.metric(series).await;
    let calls = r#"tidings_calls_total{server="one",method="tools/call",outcome="#;
    assert_eq!(count(&format!("{calls}\"answered\"}}")).await, Some(2.0));
    assert_eq!(count(&format!("{calls}\"error\"}}")).await, Some(1.0));
    assert_eq!(count(r#"tidings_call_seconds_count{server="two",method="prompts/get"}"#).await, Some(2.0));
    assert_eq!(count(r#"tidings_tool_calls_total{server="two",tool="echo",outcome="answered"}"#).await, Some(2.0));
    assert_eq!(count(r#"tidings_tool_call_seconds_count{server="one",tool="echo"}"#).await, Some(3.0));
    assert_eq!(count(r#"tidings_call_seconds_count{server="one",method="prompts/get"}"#).await, None, "never called");

    let docs = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs");
    let read = |file: &str| std::fs::read_to_string(format!("{docs}/{file}")).unwrap();
    let (_, live) = gateway.get("/metrics").await;
    let (live, documented) = (metrics_in(&live), metrics_in(&read("metrics.md")));
    let shown = metrics_in(&read("grafana/tidings.json"));
    assert!(shown.len() > 10, "{shown:?}");
    for name in &shown {
        assert!(live.contains(name), "{name} is not in /metrics");
        let family = ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name);
        assert!(documented.contains(name) || documented.contains(family), "{name} is not in docs/metrics.md");
    }
}

// reach 4
#[tokio::test]
async fn the_gateway_has_a_card_that_names_no_server() {
    let server = full().stdio().await;
    let gateway = quick().server("hidden", &server).serve().await;
    let (status, card) = gateway.get("/mcp/server-card").await;
    let card: serde_json::Value = serde_json::from_str(&card).unwrap();
    assert_eq!((status, &card["name"]), (200, &json!("dev.tidings/gateway")));
    let remote = &card["remotes"][0];
    assert_eq!((&remote["type"], &remote["url"]), (&json!("streamable-http"), &json!(gateway.url())));
    let hello = Client::http(remote["url"].as_str().unwrap()).modern().connect().await;
    let supported = hello.request("server/discover", json!({})).await.result()["supportedVersions"].clone();
    for version in supported.as_array().unwrap() {
        assert!(remote["supportedProtocolVersions"].as_array().unwrap().contains(version), "{card}");
    }
    let (status, catalogue) = gateway.get("/.well-known/ai-catalog.json").await;
    let catalogue: serde_json::Value = serde_json::from_str(&catalogue).unwrap();
    assert_eq!((status, &catalogue["entries"][0]["type"]), (200, &json!("application/mcp-server-card+json")));
    assert_eq!(catalogue["entries"][0]["url"], format!("{}/server-card", gateway.url()));
    assert!(!format!("{card}{catalogue}").contains("hidden"));
}
