//! Who did what, and the proof that nobody changed it.

use serde_json::{Value, json};
use tidings_testkit::{Client, Gateway, Server, within};

use crate::{stderr, stdout};

/// The records of a gateway that fit, once there are this many.
async fn records(gateway: &Gateway, count: usize, fits: impl Fn(&Value) -> bool) -> Vec<Value> {
    let look = async {
        loop {
            let (status, body) = gateway.get_as_admin("/api/v1/audit").await;
            assert_eq!(status, 200, "{body}");
            let answer: Value = serde_json::from_str(&body).unwrap();
            let found: Vec<Value> =
                answer["records"].as_array().unwrap().iter().filter(|record| fits(record)).cloned().collect();
            if found.len() >= count {
                return found;
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    within("the records", look).await
}

async fn call(client: &Client, arguments: Value) {
    client.request("tools/call", json!({ "name": "echo", "arguments": arguments })).await;
}

fn is_call(record: &Value) -> bool {
    record["kind"] == "call"
}

// trust (records)
#[tokio::test]
async fn calls_refusals_and_decisions_are_recorded_without_what_was_said() {
    let server = Server::builder("alpha").echo("echo").stdio().await;
    let digest = "0".repeat(64);
    let auth = format!("[auth]\ntokens = [{{ name = \"a\", sha256 = \"{digest}\", servers = [\"*\"] }}]\n");
    let closed = Gateway::builder().toml(&auth).serve().await;
    assert_eq!(closed.get("/metrics").await.0, 401);
    let refused = records(&closed, 1, |record| record["kind"] == "refused").await;
    assert_eq!((&refused[0]["path"], &refused[0]["status"]), (&json!("/metrics"), &json!(401)));
    assert_eq!(refused[0]["peer"], "127.0.0.1");

    let gateway = Gateway::builder().server("alpha", &server).serve().await;
    let legacy = gateway.client().connect().await;
    let modern = gateway.client().modern().connect().await;
    let arguments = json!({ "text": "hush-hush" });
    call(&legacy, arguments.clone()).await;
    call(&modern, arguments.clone()).await;
    legacy.request("tools/call", json!({ "name": "missing", "arguments": {} })).await;
    let calls = records(&gateway, 3, is_call).await;
    for call in &calls[..2] {
        assert_eq!(
            (&call["server"], &call["name"], &call["method"]),
            (&json!("alpha"), &json!("echo"), &json!("tools/call"))
        );
        assert_eq!((&call["principal"], &call["outcome"]), (&json!("local"), &json!("answered")));
        assert_eq!(call["arguments"]["hash"].as_str().unwrap().len(), 64);
        assert!(
            call["client"]["name"].is_string() && call["micros"].is_u64() && call["arguments"]["bytes"].is_u64(),
            "{call}"
        );
    }
    assert_eq!(calls[2]["name"], "missing");
    assert!(!serde_json::to_string(&calls).unwrap().contains("hush"), "{calls:?}");
    let (status, _) = gateway.api("DELETE", "/servers/alpha", Value::Null).await;
    let done = records(&gateway, 1, |record| record["kind"] == "administration").await;
    assert_eq!((&done[0]["request"], &done[0]["status"]), (&json!("DELETE /servers/alpha"), &json!(status)));
    let text = stdout(&gateway.command(&["audit"]).await);
    assert!(text.contains("called echo of alpha: answered"), "{text}");
}

// trust (records)
#[tokio::test]
async fn a_gateway_that_was_killed_is_proved_and_one_that_was_tampered_with_is_not() {
    let server = Server::builder("alpha").echo("echo").stdio().await;
    let gateway = Gateway::builder().server("alpha", &server).toml("[audit]\narguments = true\n").serve().await;
    let client = gateway.client().connect().await;
    for number in 0..20 {
        call(&client, json!({ "text": format!("n{number}") })).await;
    }
    let calls = records(&gateway, 20, is_call).await;
    assert_eq!(calls[0]["given"]["text"], "n0", "as the configuration asks");
    let kept = gateway.command(&["verify", "--checkpoint"]).await;
    assert!(kept.status.success(), "{kept:?}");
    let file = gateway.data().join("kept.jsonl");
    std::fs::write(&file, stdout(&kept)).unwrap();
    let whole = gateway.command(&["verify"]).await;
    assert!(whole.status.success() && stdout(&whole).contains("Nothing was taken out"), "{whole:?}");
    // In the middle of writing.
    for number in 0..50 {
        call(&client, json!({ "text": format!("m{number}") })).await;
    }
    gateway.kill().await;
    let file = file.to_str().unwrap();
    let killed = gateway.command(&["verify", "--against", file, "--json"]).await;
    assert!(killed.status.success(), "{killed:?}");
    let report: Value = serde_json::from_str(&stdout(&killed)).unwrap();
    assert_eq!((&report["faults"], &report["checkpoints"]), (&json!([]), &json!(2)), "{report}");
    // Somebody puts an older copy, or another store, in the place of what was recorded.
    std::fs::remove_file(gateway.data().join("tidings.redb")).unwrap();
    let gone = gateway.command(&["verify"]).await;
    assert!(!gone.status.success() && stderr(&gone).contains("all records are missing"), "{gone:?}");
    let again = gateway.again().await;
    call(&again.client().connect().await, json!({ "text": "x" })).await;
    records(&again, 1, is_call).await;
    let replaced = again.command(&["verify", "--against", file]).await;
    assert!(!replaced.status.success(), "{replaced:?}");
    assert!(stderr(&replaced).contains("is missing"), "{replaced:?}");
    assert!(
        stderr(&replaced).contains("audit: after record 0 the log was found not to be what was signed"),
        "{replaced:?}"
    );
}

// trust (records)
#[tokio::test]
async fn a_client_can_neither_keep_its_calls_out_of_the_records_nor_write_lines_of_its_own() {
    let server = Server::builder("alpha").echo("echo").stdio().await;
    let gateway = Gateway::builder().server("alpha", &server).toml("[audit]\narguments = true\n").serve().await;
    let first = Client::http(gateway.url()).raw().connect().await;
    // More than may wait to be recorded.
    let hello = json!({
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": { "name": "x".repeat(9 << 20), "version": "1" },
    });
    let reply = first.request("initialize", hello).await;
    let session = reply.header("mcp-session-id").unwrap();
    let client = Client::http(gateway.url()).raw().header("mcp-session-id", session).connect().await;
    call(&client, json!({ "text": "y".repeat(100 << 10) })).await;
    let long = "z".repeat(2_000);
    client.request("tools/call", json!({ "name": long })).await;
    let forged = "x\n     9  2026-11-16 09:13:02  PUT /servers/notes by admin: 200";
    client.request("tools/call", json!({ "name": forged })).await;
    let strange = r#"{"name":"echo","arguments":{"n":1e999}}"#;
    client.call("tools/call").params_raw(strange).send().await;
    let calls = records(&gateway, 4, is_call).await;
    assert_eq!(calls.len(), 4);
    for call in &calls {
        assert!(call["client"].as_str().is_some_and(|client| client.len() == 1_024), "{}", call["client"]);
        assert!(call["client_cut"]["bytes"].as_u64().is_some_and(|size| size > 9 << 20), "{}", call["client_cut"]);
    }
    assert_eq!((&calls[0]["given"], &calls[0]["given_cut"]), (&Value::Null, &json!(true)));
    assert!(calls[0]["arguments"]["bytes"].as_u64().is_some_and(|size| size > 100 << 10));
    assert_eq!((calls[1]["name"].as_str().unwrap().len(), &calls[1]["name_cut"]["bytes"]), (1_024, &json!(2_000)));
    assert_eq!(calls[1]["name_cut"]["hash"].as_str().unwrap().len(), 64);
    assert_eq!(calls[3]["given"], r#"{"n":1e999}"#, "as a text that every reader can read");
    let gaps = records(&gateway, 0, |record| record["kind"] == "gap").await;
    assert!(gaps.is_empty(), "{gaps:?}");
    let shown = gateway.command(&["audit"]).await;
    assert!(shown.status.success(), "{shown:?}");
    let text = stdout(&shown);
    assert_eq!(text.lines().filter(|line| line.contains("called")).count(), 4, "{text}");
    assert!(!text.lines().any(|line| line.contains("  PUT ") && !line.contains("called")), "{text}");
}
