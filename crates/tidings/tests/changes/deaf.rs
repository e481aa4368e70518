//! Clients that do not hear: who is shown as deaf, and the hint on the results of their calls.

use serde_json::{Value, json};
use tidings_testkit::*;

use crate::{add, full, get, put, quick};

/// A client that can be told, of either era, with what keeps its stream open. It has asked for its tools.
async fn told(gateway: &Gateway, modern: bool) -> (Client, PendingExchange) {
    let client = gateway.client().name(if modern { "new" } else { "old" });
    let (client, stream) = match modern {
        false => {
            let client = client.connect().await;
            let stream = client.open_get().await;
            client.wait_for_method("notifications/tools/list_changed", 1).await;
            (client, stream)
        }
        true => {
            let client = client.modern().connect().await;
            let filter = json!({ "notifications": { "toolsListChanged": true } });
            let mut stream = client.start("subscriptions/listen", filter);
            stream.next_method("notifications/subscriptions/acknowledged").await;
            (client, stream)
        }
    };
    client.names("tools").await;
    (client, stream)
}

async fn shown(gateway: &Gateway, name: &str) -> Value {
    let (_, found) = get(gateway, "/clients").await;
    let all = found["clients"].as_array().unwrap();
    all.iter().find(|client| client["name"] == name).cloned().unwrap_or_else(|| panic!("{name}: {found}"))
}

/// Changes the tools, and waits until a client was told.
async fn change(server: &Server, client: &Client, name: &str) {
    let before = client.count("notifications/tools/list_changed");
    add(server, name);
    client.wait_for_method("notifications/tools/list_changed", before + 1).await;
}

// reach 8.3
#[tokio::test]
async fn a_client_that_was_told_and_only_calls_is_deaf_at_the_third_call() {
    let server = full().stdio().await;
    let gateway = quick().server("one", &server).serve().await;
    for modern in [false, true] {
        let name = if modern { "new" } else { "old" };
        let (client, _stream) = told(&gateway, modern).await;
        change(&server, &client, &format!("for_{name}")).await;
        for calls in 0..3 {
            let waiting = shown(&gateway, name).await;
            let list = &waiting["lists"][0];
            assert_eq!((&waiting["state"], &list["calls_since"]), (&json!("waiting"), &json!(calls)), "{waiting}");
            assert!(list["commit"].is_u64() && list["state"] == "waiting", "{waiting}");
            client.call_tool("echo", json!({})).await.result();
        }
        let deaf = shown(&gateway, name).await;
        assert_eq!((&deaf["state"], &deaf["lists"][0]["state"]), (&json!("deaf"), &json!("deaf")), "{deaf}");
        assert!(deaf["reason"].as_str().unwrap().contains("it called 3 times or more since"), "{deaf}");
        let (_, sessions) = get(&gateway, "/sessions").await;
        assert!(sessions["sessions"].as_array().unwrap().iter().any(|one| one["state"] == "deaf"), "{sessions}");
        gateway.wait_metric(r#"tidings_clients{state="deaf"}"#, |count| count == 1.0).await;
        let text = |output: std::process::Output| String::from_utf8_lossy(&output.stdout).into_owned();
        let listed = text(gateway.command(&["clients"]).await);
        assert!(listed.lines().next().is_some_and(|line| line.contains("deaf") && line.contains(name)), "{listed}");
        let status = text(gateway.command(&["status"]).await);
        assert!(status.contains("1 deaf: tidings clients"), "{status}");
        // Whoever asks again has heard, however late.
        client.names("tools").await;
        assert_eq!(shown(&gateway, name).await["state"], "heard");
        change(&server, &client, &format!("again_{name}")).await;
        client.names("tools").await;
        for _ in 0..5 {
            client.call_tool("echo", json!({})).await.result();
        }
        assert_eq!(shown(&gateway, name).await["state"], "heard");
    }
}

// reach 8.3
#[tokio::test]
async fn a_modern_client_that_does_not_listen_is_not_asking_and_never_deaf() {
    let server = full().stdio().await;
    let gateway = quick().server("one", &server).serve().await;
    let client = gateway.client().name("asker").modern().connect().await;
    client.names("tools").await;
    let (other, _stream) = told(&gateway, false).await;
    change(&server, &other, "new").await;
    for _ in 0..5 {
        client.call_tool("echo", json!({})).await.result();
    }
    let asking = shown(&gateway, "asker").await;
    assert_eq!((&asking["state"], &asking["kind"]), (&json!("not asking"), &json!("requests")), "{asking}");
    assert_eq!(get(&gateway, &format!("/clients/{}", asking["id"])).await.1["state"], "not asking");
    let (_, filtered) = get(&gateway, "/clients?state=not%20asking").await;
    assert_eq!(filtered["clients"].as_array().unwrap().len(), 1, "{filtered}");
    // When it listens it is known what it asked for before.
    let mut stream = client.start("subscriptions/listen", json!({ "notifications": { "toolsListChanged": true } }));
    stream.next_method("notifications/subscriptions/acknowledged").await;
    change(&server, &client, "newer").await;
    let waiting = shown(&gateway, "asker").await;
    assert_eq!((&waiting["state"], &waiting["kind"]), (&json!("waiting"), &json!("listen")), "{waiting}");
    assert_eq!(waiting["lists"][1]["state"], "not asking", "of prompts it is not told: {waiting}");
}

fn hint_of(exchange: &Exchange) -> Option<Value> {
    let result = exchange.result();
    let content = result["content"].as_array().unwrap();
    let says = content.last().is_some_and(|block| {
        block["text"].as_str().is_some_and(|text| text.starts_with("[From the Tidings gateway, not from the tool]"))
    });
    let hint = result["_meta"].get("dev.tidings/stale").cloned();
    assert_eq!(hint.is_some(), says, "{result}");
    hint
}

// reach 8.3
#[tokio::test]
async fn the_result_of_a_call_says_once_for_each_change_that_the_list_is_old() {
    let structured = |call: ScriptedCall| async move {
        call.ok(json!({ "content": [{ "type": "text", "text": "{}" }], "structuredContent": {} }))
    };
    let failing = |call: ScriptedCall| async move {
        call.ok(json!({ "content": [{ "type": "text", "text": "no" }], "isError": true }))
    };
    let server = full().tool("structured", structured).tool("failing", failing).stdio().await;
    let gateway = quick().toml("[gateway]\nhint = true\n").server("one", &server).serve().await;
    for modern in [false, true] {
        let (client, _stream) = told(&gateway, modern).await;
        let echo = async || hint_of(&client.call_tool("echo", json!({})).await);
        assert_eq!(echo().await, None, "nothing changed");
        change(&server, &client, &format!("first_{modern}")).await;
        for name in ["structured", "failing"] {
            let result = client.call_tool(name, json!({})).await.result();
            assert!(result["_meta"].get("dev.tidings/stale").is_none(), "{name}: {result}");
            assert_eq!(result["content"].as_array().unwrap().len(), 1, "{name}: {result}");
        }
        client.request("tools/call", json!({ "name": "never" })).await.error();
        let first = echo().await.expect("the first result that may have one");
        assert_eq!(first["lists"], json!(["tools"]));
        assert_eq!(echo().await, None, "once");
        change(&server, &client, &format!("second_{modern}")).await;
        let second = echo().await.expect("another change");
        assert!(second["change"].as_u64() > first["change"].as_u64(), "{first} {second}");
        assert_eq!(echo().await, None);
        // Whoever asks for the list needs none.
        change(&server, &client, &format!("third_{modern}")).await;
        client.names("tools").await;
        assert_eq!(echo().await, None);
        // A change of something else is none of the tools.
        server.put_prompt(Prompt::prompt(&format!("p_{modern}"), |call| async move { call.ok_message("x") }));
        server.list_changed("prompts");
        gateway
            .wait_metric(r#"tidings_signals_total{server="one",kind="prompts"}"#, |count| {
                count > f64::from(u8::from(modern))
            })
            .await;
        assert_eq!(echo().await, None);
    }
}

// reach 3, reach 8.3
#[tokio::test]
async fn a_hint_is_given_to_those_clients_that_are_to_have_one() {
    for (settings, hinted) in [
        ("[clients.old]\nhint = true\n[clients.new]\nversion = \"<1\"\nhint = true\n", ["old"].as_slice()),
        ("[clients.new]\nhint = true\n", &["new"]),
        ("[gateway]\nhint = true\n[clients.old]\nhint = false\n", &["new"]),
    ] {
        let server = full().stdio().await;
        let gateway = quick().toml(settings).server("one", &server).serve().await;
        for modern in [false, true] {
            let name = if modern { "new" } else { "old" };
            let (client, _stream) = told(&gateway, modern).await;
            change(&server, &client, &format!("more_{modern}")).await;
            let hint = hint_of(&client.call_tool("echo", json!({})).await);
            assert_eq!(hint.is_some(), hinted.contains(&name), "{settings} {name}");
        }
    }
}

// reach 8.3
#[tokio::test]
async fn a_client_without_a_stream_is_unreached_and_is_hinted_all_the_same() {
    let server = full().stdio().await;
    let gateway = quick().toml("[gateway]\nhint = true\n").server("one", &server).serve().await;
    let silent = gateway.client().name("silent").connect().await;
    silent.names("tools").await;
    let (other, _stream) = told(&gateway, false).await;
    change(&server, &other, "new").await;
    let hint = hint_of(&silent.call_tool("echo", json!({})).await).expect("it is owed a notice");
    assert_eq!(hint["lists"], json!(["tools"]));
    assert_eq!(hint_of(&silent.call_tool("echo", json!({})).await), None);
    gateway.wait_metric(r#"tidings_clients{state="unreached"}"#, |count| count == 1.0).await;
    assert_eq!(shown(&gateway, "silent").await["state"], "unreached");
}

// reach 8.3
#[tokio::test]
async fn without_the_setting_no_result_says_anything() {
    let server = full().stdio().await;
    let gateway = quick().server("one", &server).serve().await;
    let (client, _stream) = told(&gateway, false).await;
    put(&server, Tool::text_tool("new", "new"));
    client.wait_for_method("notifications/tools/list_changed", 2).await;
    assert_eq!(hint_of(&client.call_tool("echo", json!({})).await), None);
}
