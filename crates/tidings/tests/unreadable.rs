//! Servers whose messages can not be read, or come in forms that few use: nobody waits for what will not come.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::{Duration, Instant};

use serde_json::json;
use tidings_testkit::*;

/// A call that waits for a server fails within this, where its time-out is five minutes.
const AT_ONCE: Duration = Duration::from_secs(3);

fn silent(name: &str) -> ServerBuilder {
    Server::builder(name).tool("hold", |_| async { ScriptedAnswer::Silent }).echo("echo")
}

async fn arrived(server: &Server, job: &str) -> u64 {
    let call = server.wait_for(|r| r.method == "tools/call" && r.param(&["arguments", "job"]) == job).await;
    call.id.unwrap().as_u64().unwrap()
}

fn hold(client: &Client, job: &str) -> PendingExchange {
    client.start("tools/call", json!({"name": "pipe__hold", "arguments": {"job": job}}))
}

/// Answers that break in the ways that were seen, each with what the caller is told.
fn broken(id: u64) -> Vec<(&'static str, Vec<u8>, &'static str)> {
    let line = |rest: &str| format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},{rest}}}\n").into_bytes();
    let deep = |n: usize| format!("\"result\":{{\"x\":{}{}}}", "[".repeat(n), "]".repeat(n));
    let pretty =
        format!("{{\n  \"jsonrpc\": \"2.0\",\n  \"id\": {id},\n  \"result\": {{\n    \"content\": []\n  }}\n}}\n");
    vec![
        ("NaN", line("\"result\":{\"x\":NaN}"), "invalid JSON"),
        (
            "Latin-1",
            [&line("\"result\":{\"x\":\"caf")[..line("\"result\":{\"x\":\"caf").len() - 2], b"\xe9\"}}\n"].concat(),
            "UTF-8",
        ),
        ("cut", format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"resu\n").into_bytes(), "ends too early"),
        ("pretty", pretty.into_bytes(), "can not be read"),
        ("result twice", line("\"result\":{},\"result\":{}"), "duplicate member \"result\""),
        ("key twice", line("\"result\":{\"content\":[],\"content\":[]}"), "duplicate member \"content\""),
        ("deep", line(&deep(300)), "nested deeper"),
        ("very deep", line(&deep(200_000)), "nested deeper"),
        (
            "id at the end",
            format!("{{\"jsonrpc\":\"2.0\",\"result\":{{\"x\":NaN}},\"id\":{id}}}\n").into_bytes(),
            "invalid JSON",
        ),
    ]
}

// edges A5, G5
#[tokio::test]
async fn an_answer_that_can_not_be_read_fails_its_call_at_once_and_no_other() {
    let server = silent("pipe").stdio().await;
    let gateway = Gateway::builder().server("pipe", &server).serve().await;
    for client in [gateway.client().connect().await, gateway.client().modern().connect().await] {
        let other = hold(&client, &format!("other {}", client.revision()));
        let other_id = arrived(&server, &format!("other {}", client.revision())).await;
        for place in 0..broken(0).len() {
            let job = format!("{place} {}", client.revision());
            let pending = hold(&client, &job);
            let (what, bytes, said) = broken(arrived(&server, &job).await).swap_remove(place);
            let begun = Instant::now();
            server.print_stdout(bytes);
            let reply = pending.finish().await;
            assert!(begun.elapsed() < AT_ONCE, "{what} took {:?}", begun.elapsed());
            assert_eq!(reply.error_code(), -32603, "{what}");
            let text = reply.error()["message"].as_str().unwrap_or_default().to_owned();
            assert!(text.contains(said) && text.contains("pipe"), "{what}: {text}");
        }
        server.print_stdout(format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":{other_id},\"result\":{{\"content\":[],\"resultType\":\"complete\"}}}}\n"
        ));
        assert_eq!(other.finish().await.result()["content"], json!([]));
        // Still there, and the link is the same.
        assert_eq!(client.call_tool("pipe__echo", json!({"a": 1})).await.text(), r#"{"a":1}"#);
    }
    assert_eq!(server.processes().len(), 1);
}

// edges G5
#[tokio::test]
async fn an_answer_without_an_id_is_the_sole_calls_or_is_said_in_the_status() {
    let server = silent("pipe").stdio().await;
    let gateway = Gateway::builder().server("pipe", &server).serve().await;
    let client = gateway.client().connect().await;
    let nobodys = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}"#;
    for (what, line, code) in [
        ("null", nobodys, -32700),
        ("none", r#"{"jsonrpc":"2.0","error":{"code":-32700,"message":"Parse error"}}"#, -32700),
        ("cut before its id", r#"{"jsonrpc":"2.0","resu"#, -32603),
        ("broken id", r#"{"jsonrpc":"2.0","id":{},"result":{}}"#, -32603),
    ] {
        let pending = hold(&client, what);
        arrived(&server, what).await;
        server.print_stdout(format!("{line}\n"));
        let begun = Instant::now();
        let reply = pending.finish().await;
        assert!(begun.elapsed() < AT_ONCE, "{what} took {:?}", begun.elapsed());
        assert_eq!(reply.error_code(), code, "{what}: {reply:?}");
    }
    let pending = hold(&client, "string");
    let id = arrived(&server, "string").await;
    server.print_stdout(format!("{{\"jsonrpc\":\"2.0\",\"id\":\"{id}\",\"result\":{{\"content\":[]}}}}\n"));
    assert_eq!(
        pending.finish().await.result()["content"],
        json!([]),
        "a number that was made a string is still its id"
    );
    // Two could be meant: neither fails, and it is said.
    let pending = [hold(&client, "one"), hold(&client, "two")];
    arrived(&server, "one").await;
    arrived(&server, "two").await;
    server.print_stdout(format!("{nobodys}\n"));
    let is_said =
        |status: &serde_json::Value| status["warning"].as_str().is_some_and(|text| text.contains("Parse error"));
    let status = gateway.wait_server("pipe", "said to answer nobody", is_said).await;
    assert_eq!(status["state"], "ready");
    drop(pending);
}

// edges G14
#[tokio::test]
async fn a_page_of_html_on_standard_output_is_said_while_it_connects() {
    let server = silent("pipe").silent_on("server/discover").silent_on("initialize").stdio().await;
    let gateway = Gateway::builder().server("pipe", &server).without_waiting().serve().await;
    server.wait_spawned(1).await;
    server.wait_for_method("server/discover", 1).await;
    server.print_stdout("<!DOCTYPE html>\n<html>\n");
    let is_said = |status: &serde_json::Value| status["warning"].as_str().is_some_and(|text| text.contains("html"));
    let status = gateway.wait_server("pipe", "said to print HTML", is_said).await;
    assert_eq!(status["state"], "connecting");
    let shown = gateway.command(&["servers"]).await;
    assert!(String::from_utf8_lossy(&shown.stdout).contains("standard output"), "{shown:?}");
}

fn progress(call: &ScriptedCall, value: u32) -> String {
    let token = call.params()["_meta"]["progressToken"].clone();
    json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": token, "progress": value}})
        .to_string()
}

fn result(call: &ScriptedCall) -> String {
    let result = r#"{"content":[{"type":"text","text":"done"}]}"#;
    format!(r#"{{"jsonrpc":"2.0","id":{},"result":{result}}}"#, call.id())
}

// edges A4
#[tokio::test]
async fn a_batch_in_an_event_is_taken_apart_in_order() {
    let server = Server::builder("old")
        .revisions(&[V2025_03_26])
        .tool("stream", |call| async move {
            call.open_stream();
            ScriptedAnswer::Raw(format!("[{},{},{}]", progress(&call, 1), progress(&call, 2), result(&call)).into())
        })
        .tool("split", |call| async move {
            call.notify_raw(format!("[{},{}]", progress(&call, 1), progress(&call, 2)));
            ScriptedAnswer::Raw(format!("[{}]", result(&call)).into())
        })
        .tool("plain", |call| async move {
            ScriptedAnswer::Raw(format!("[{},{},{}]", progress(&call, 1), progress(&call, 2), result(&call)).into())
        })
        .http()
        .await;
    let gateway = Gateway::builder().server("old", &server).quick().serve().await;
    for client in [gateway.client().connect().await, gateway.client().modern().connect().await] {
        for tool in ["stream", "split", "plain"] {
            let params = json!({"name": format!("old__{tool}"), "arguments": {}});
            let reply = client.call("tools/call").params(params).progress_token("7").start().finish().await;
            assert_eq!(reply.text(), "done", "{tool}");
            let seen: Vec<_> = reply.before.iter().map(|m| m.param(&["progress"])).collect();
            assert_eq!(seen, [json!(1), json!(2)], "{tool}");
        }
    }
    // On the stream that the server speaks on by itself.
    let client = gateway.client().modern().connect().await;
    server.put_tool(Tool::tool("new", |call| async move { call.ok_text("new") }));
    server.notify_raw(concat!(
        r#"[{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}},"#,
        r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}]"#
    ));
    within("the new tool", async {
        while !client.names("tools").await.iter().any(|name| name.ends_with("new")) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
}

// edges A5
#[tokio::test]
async fn an_event_of_another_name_is_ignored() {
    let server = Server::builder("old")
        .tool("named", |call| async move {
            let headers = vec![("content-type".to_owned(), "text/event-stream".to_owned())];
            let (progress, result) = (progress(&call, 1), result(&call));
            let body = format!(
                "event: ping\ndata: not json\n\nevent: endpoint\ndata: {result}x\n\ndata: {progress}\n\nevent: message\ndata: {result}\n\n"
            );
            ScriptedAnswer::Http { status: 200, headers, body: body.into() }
        })
        .http()
        .await;
    let gateway = Gateway::builder().server("old", &server).serve().await;
    let client = gateway.client().connect().await;
    let params = json!({"name": "old__named", "arguments": {}});
    let reply = client.call("tools/call").params(params).progress_token("7").start().finish().await;
    assert_eq!((reply.text().as_str(), reply.before.len()), ("done", 1), "{reply:?}");
}
