//! `tidings stdio --attach`.

use std::time::Duration;

use super::*;

fn attached(gateway: &Gateway) -> ClientBuilder {
    let data = gateway.data().to_string_lossy().into_owned();
    Client::stdio(tidings().to_string_lossy(), ["stdio", "--attach", "--data", &data].map(str::to_owned).to_vec())
}

// edges F18
#[tokio::test(flavor = "multi_thread")]
async fn a_client_on_stdio_joins_the_running_gateway_in_either_era() {
    let gate = Gate::new();
    let server = script(&gate).stdio().await;
    let gateway = Gateway::builder().quick().server("alpha", &server).serve().await;
    for revision in [V2024_11_05, V2025_03_26, V2025_06_18, V2025_11_25, MODERN] {
        gate.close();
        let client = attached(&gateway).revision(revision).connect().await;
        assert_eq!(client.revision(), revision);
        assert!(client.names("tools").await.contains(&"echo".to_owned()), "{revision}");
        assert_eq!(client.call_tool("echo", json!({"a": 1})).await.text(), r#"{"a":1}"#, "{revision}");
        // Progress comes before the answer, a cancellation reaches the server.
        let mut running = client.call("tools/call").params(json!({"name": "slow"})).progress_token("5").start();
        running.next_method("notifications/progress").await;
        let cancelled = server.count("notifications/cancelled");
        client.cancel(&running).await;
        server.wait_for_method("notifications/cancelled", cancelled + 1).await;
        let waiting = client.start("tools/call", json!({"name": "slow"}));
        gate.open();
        assert_eq!(waiting.finish().await.text(), "done", "{revision}");
        client.close_stdin();
        assert!(client.wait_exit().await.success(), "{revision}: {}", client.stderr().dump());
    }
    assert_eq!(server.processes().len(), 1, "no server was started a second time");
    server.assert_clean();
}

// edges F18
#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_joined_hears_what_changes_and_answers_what_is_asked() {
    let ask = |call: ScriptedCall| async move {
        let answer =
            call.elicit(json!({"message": "who?", "requestedSchema": {"type": "object", "properties": {}}})).await;
        call.ok_text(answer.unwrap()["action"].as_str().unwrap())
    };
    let server = script(&Gate::new()).tool("ask", ask).stdio().await;
    let gateway = Gateway::builder().quick().server("alpha", &server).serve().await;
    let client = attached(&gateway).capabilities(json!({"elicitation": {}})).connect().await;
    client.on_request(|_| ClientReply::Result(json!({"action": "decline"})));
    for kind in ["tools", "prompts", "resources"] {
        client.wait_for_method(&format!("notifications/{kind}/list_changed"), 1).await;
    }
    assert_eq!(client.call_tool("ask", json!({})).await.text(), "decline");
    client.request("resources/subscribe", json!({"uri": "test://r"})).await.result();
    server.put_resource(ScriptedEntry::resource("test://r", "two"));
    server.resource_updated("test://r");
    client.wait_for_method("notifications/resources/updated", 1).await;
    server.put_tool(ScriptedEntry::text_tool("new", "new"));
    server.list_changed("tools");
    client.wait_for_method("notifications/tools/list_changed", 2).await;
    let listens = attached(&gateway).modern().connect().await;
    let mut listen = listens.start("subscriptions/listen", json!({"notifications": {"toolsListChanged": true}}));
    listen.next_method("notifications/subscriptions/acknowledged").await;
    server.put_tool(ScriptedEntry::text_tool("newer", "newer"));
    server.list_changed("tools");
    listen.next_method("notifications/tools/list_changed").await;
    listens.close_stdin();
    assert!(listens.wait_exit().await.success());
}

// edges F18, F19
#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_joined_goes_on_when_the_gateway_is_restarted() {
    let gate = Gate::new();
    let server = script(&gate).stdio().await;
    let gateway = Gateway::builder().quick().server("alpha", &server).serve().await;
    let client = attached(&gateway).connect().await;
    let modern = attached(&gateway).modern().connect().await;
    // It has found the gateway when that answers: a process that looks for it only after the kill finds none.
    modern.names("tools").await;
    client.wait_for_method("notifications/tools/list_changed", 1).await;
    // By now the session is in the store. What it follows is not when the gateway is killed.
    tokio::time::sleep(Duration::from_millis(400)).await;
    client.request("resources/subscribe", json!({"uri": "test://r"})).await.result();
    let running = client.start("tools/call", json!({"name": "slow"}));
    server.wait_for_method("tools/call", 1).await;
    gateway.kill().await;
    let lost = running.finish().await.error()["message"].to_string();
    assert!(lost.contains("whether it took effect is not known"), "{lost}");
    let gateway = gateway.again().await;
    for client in [&client, &modern] {
        assert_eq!(client.call_tool("echo", json!({"b": 2})).await.text(), r#"{"b":2}"#);
    }
    server.wait_for_method("resources/subscribe", 2).await;
    // What is followed is read once, as soon as the server has agreed: what it says from then on is told.
    server.wait_for_method("resources/read", 2).await;
    let told = client.count("notifications/resources/updated");
    server.put_resource(ScriptedEntry::resource("test://r", "two"));
    server.resource_updated("test://r");
    client.wait_for_method("notifications/resources/updated", told + 1).await;
    client.close_stdin();
    assert!(client.wait_exit().await.success());
    drop(gateway);
}

// edges F18
#[tokio::test]
async fn without_a_running_gateway_it_says_so_and_what_to_do() {
    let data = TempDir::new();
    let output = tokio::process::Command::new(tidings())
        .args(["stdio", "--attach", "--data", &data.path().to_string_lossy()])
        .stdin(std::process::Stdio::null())
        .output()
        .await
        .unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("no gateway is running") && text.contains("tidings serve"), "{text}");
    assert!(output.stdout.is_empty());
}
