//! The edges of the gateway: what HTTP lets through, and how a run ends.

use std::time::Duration;

use serde_json::{Value, json};
use tidings_testkit::{Client, Exchange, Gate, Gateway, MODERN, Server, ServerBuilder, V2025_06_18, within};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

async fn gateway() -> (Server, Gateway) {
    let server = Server::builder("one").echo("echo").stdio().await;
    let gateway = Gateway::builder().server("one", &server).serve().await;
    (server, gateway)
}

async fn nobody(gateway: &Gateway) -> Client {
    Client::http(gateway.url()).raw().connect().await
}

fn ping() -> String {
    json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}).to_string()
}

/// Sends bytes and reads the status line; what comes later does not matter.
async fn status_of(gateway: &Gateway, head: &str) -> u16 {
    let address = gateway.base_url().trim_start_matches("http://").to_owned();
    let mut stream = TcpStream::connect(&address).await.expect("a connection");
    stream.write_all(head.replace("@HOST@", &address).as_bytes()).await.expect("bytes are taken");
    let mut answer = [0; 12];
    within("a status line", stream.read_exact(&mut answer)).await.expect("an answer");
    std::str::from_utf8(&answer[9..]).ok().and_then(|status| status.parse().ok()).unwrap_or_default()
}

// bridging A4 (Origin)
#[tokio::test]
async fn pages_of_other_sites_are_kept_out() {
    let (server, gateway) = gateway().await;
    let client = gateway.client().connect().await;
    let placed = server.record().len();
    for (header, value) in [
        ("origin", "https://evil.example"),
        ("origin", "null"),
        ("host", "evil.example"),
        ("host", "evil.example:7337"),
    ] {
        for verb in ["POST", "GET", "DELETE"] {
            let reply = client.send_http(verb, ping(), &[(header, value)]).await;
            assert_eq!(reply.status, 403, "{verb} with {header}: {value}");
        }
        let page = Client::http(format!("{}/healthz", gateway.base_url())).raw().connect().await;
        assert_eq!(page.send_http("GET", "", &[(header, value)]).await.status, 403, "the other pages too");
    }
    assert_eq!(server.record().len(), placed);
    for (header, value) in [("origin", "http://localhost:1"), ("origin", "http://[::1]:3"), ("host", "localhost")] {
        assert_eq!(client.post_raw(ping(), &[(header, value)]).await.status, 200, "{header}: {value}");
    }
}

// bridging 0.1, A4
#[tokio::test]
async fn verbs_are_those_of_the_era() {
    let (_server, gateway) = gateway().await;
    let client = nobody(&gateway).await;
    for verb in ["PUT", "PATCH", "OPTIONS", "HEAD"] {
        let reply = client.send_http(verb, "", &[]).await;
        assert_eq!((reply.status, reply.header("allow")), (405, Some("GET, POST, DELETE")), "{verb}");
    }
    for verb in ["GET", "DELETE"] {
        let reply = client.send_http(verb, "", &[("mcp-protocol-version", MODERN)]).await;
        assert_eq!((reply.status, reply.header("allow")), (405, Some("POST")), "{verb}");
    }
}

// bridging 0.1, A4
#[tokio::test]
async fn media_types_are_checked_before_the_body_is() {
    let (_server, gateway) = gateway().await;
    let client = gateway.client().connect().await;
    for content in ["", "text/plain", "application/jsonx", "application/x-www-form-urlencoded"] {
        assert_eq!(client.post_raw("{", &[("content-type", content)]).await.status, 415, "{content:?}");
    }
    for accept in ["", "application/json", "text/event-stream", "text/html", "application/*"] {
        assert_eq!(client.post_raw("{", &[("accept", accept)]).await.status, 406, "{accept:?}");
    }
    for accept in ["*/*", "text/event-stream;q=0.5, application/json", "application/*, text/*"] {
        assert_eq!(client.post_raw(ping(), &[("accept", accept)]).await.status, 200, "{accept:?}");
    }
    let charset = [("content-type", "Application/JSON; charset=utf-8")];
    assert_eq!(client.post_raw(ping(), &charset).await.status, 200);
    let get = client.send_http("GET", "", &[("accept", "application/json")]).await;
    assert_eq!(get.status, 406);
}

// bridging 0.1
#[tokio::test]
async fn bodies_that_are_no_message_are_refused() {
    let (_server, gateway) = gateway().await;
    let client = gateway.client().connect().await;
    let deep = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"ping","params":{}{}}}"#, "[".repeat(300), "]".repeat(300));
    for (body, code) in [
        ("{", -32700),
        ("", -32700),
        ("\u{feff}{}", -32700),
        (r#"{"jsonrpc":"2.0","id":1,"method":"ping"} x"#, -32700),
        ("7", -32600),
        ("{}", -32600),
        (r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#, -32600),
        (deep.as_str(), -32700),
    ] {
        let reply = client.post_raw(body.to_owned(), &[]).await;
        let shown = &body[..body.len().min(60)];
        assert_eq!(reply.status, 400, "{shown}: {reply:?}");
        let answer: Value = reply.response.as_ref().map(|r| r.value()).unwrap_or_default();
        assert_eq!(answer["error"]["code"], code, "{shown}: {reply:?}");
    }
    assert_eq!(client.post_raw(ping(), &[]).await.status, 200, "the session is none the worse");
}

// bridging A4, interface
#[tokio::test]
async fn sizes_are_limited() {
    let (_server, gateway) = gateway().await;
    let head = "POST /mcp HTTP/1.1\r\nhost: @HOST@\r\naccept: */*\r\ncontent-type: application/json\r\n";
    let long = format!("{head}content-length: {}\r\n\r\n", (64 << 20) + 1);
    assert_eq!(status_of(&gateway, &long).await, 413, "a body is not awaited that is announced as too long");
    let wide = format!("{head}x-wide: {}\r\n\r\n", "x".repeat(64 << 10));
    assert_eq!(status_of(&gateway, &wide).await, 431);
    let client = gateway.client().connect().await;
    let text = "x".repeat(4 << 20);
    let reply = client.call_tool("echo", json!({ "text": text })).await;
    assert_eq!(reply.text().len(), text.len() + r#"{"text":""}"#.len(), "megabytes are fine");
}

// bridging A4 (DELETE, session id, GET)
#[tokio::test]
async fn a_session_ends_with_delete_and_nothing_works_without_one() {
    let (_server, gateway) = gateway().await;
    let client = gateway.client().connect().await;
    let other = gateway.client().connect().await;
    let mut stream = client.open_get().await;
    for _ in 0..3 {
        assert!(stream.next().await.is_some(), "a fresh session is told of every list once");
    }
    assert_eq!(client.delete().await, 204);
    assert!(stream.next().await.is_none(), "its stream ends");
    assert_eq!(client.post_raw(ping(), &[]).await.status, 404);
    assert_eq!(client.send_http("GET", "", &[]).await.status, 404);
    assert_eq!(client.delete().await, 404);
    assert_eq!(other.post_raw(ping(), &[]).await.status, 200, "another session lives on");

    let nobody = nobody(&gateway).await;
    assert_eq!(nobody.send_http("GET", "", &[]).await.status, 400);
    assert_eq!(nobody.send_http("DELETE", "", &[]).await.status, 400);
    assert_eq!(nobody.post_raw(ping(), &[]).await.status, 400);
    assert_eq!(nobody.post_raw(ping(), &[("mcp-session-id", "made-up")]).await.status, 404);
    for version in ["2023-01-01", "nonsense"] {
        let reply = other.post_raw(ping(), &[("mcp-protocol-version", version)]).await;
        assert_eq!(reply.status, 400, "{version}");
    }
    let other_id = other.session_id().unwrap_or_default();
    let without = nobody.post_raw(ping(), &[("mcp-session-id", &other_id)]).await;
    assert_eq!(without.status, 200, "the version header may be absent");
}

/// A tool that says something, waits at a gate, and answers.
fn held(gate: &Gate) -> ServerBuilder {
    let gate = gate.clone();
    Server::builder("one").echo("echo").tool("hold", move |call| {
        let gate = gate.clone();
        async move {
            if call.argument("talk") == true {
                call.progress(1);
            }
            gate.wait().await;
            call.ok_text("finished")
        }
    })
}

fn hold(client: &Client, talk: bool) -> tidings_testkit::PendingExchange {
    let params = json!({"name": "hold", "arguments": {"talk": talk}});
    client.call("tools/call").params(params).progress_token("1").start()
}

#[track_caller]
fn finished(exchange: &Exchange) {
    assert_eq!(exchange.text(), "finished", "{exchange:?}");
}

// bridging 26, interface (start and end)
#[tokio::test]
async fn sigterm_lets_running_calls_finish_and_ends_listening_with_a_result() {
    let gate = Gate::new();
    let server = held(&gate).stdio().await;
    let gateway = Gateway::builder().server("one", &server).serve().await;
    let legacy = gateway.client().connect().await;
    let modern = gateway.client().modern().connect().await;
    let mut stream = legacy.open_get().await;
    let mut listen = modern.call("subscriptions/listen").params(json!({"notifications": {}})).start();
    listen.next_method("notifications/subscriptions/acknowledged").await;
    let mut calls = Vec::new();
    for client in [&legacy, &modern] {
        for talk in [false, true] {
            let mut call = hold(client, talk);
            if talk {
                call.next_method("notifications/progress").await;
            }
            calls.push(call);
        }
    }
    gate.reached(4).await;

    for _ in 0..3 {
        assert!(stream.next().await.is_some(), "a fresh session is told of every list once");
    }
    gateway.begin_terminate();
    let end = listen.finish().await;
    assert_eq!(end.result()["resultType"], "complete", "{end:?}");
    assert!(end.result()["_meta"].get("io.modelcontextprotocol/subscriptionId").is_some(), "{end:?}");
    assert!(stream.next().await.is_none(), "nothing more can come on it");
    gate.open();
    for call in calls {
        finished(&call.finish().await);
    }
    let status = gateway.wait_exit().await;
    assert!(status.success(), "{status}");
    server.wait_all_exited().await;
}

// interface (start and end)
#[tokio::test]
async fn nothing_new_begins_after_sigterm() {
    let gate = Gate::new();
    let server = held(&gate).stdio().await;
    let gateway = Gateway::builder().server("one", &server).serve().await;
    let client = gateway.client().connect().await;
    let running = hold(&client, false);
    gate.reached(1).await;
    gateway.begin_terminate();
    gateway.stderr().wait_for("the announcement", |line| line.contains("stopping")).await;
    within("the door to close", async {
        while client.post_raw(ping(), &[]).await.failure.is_none() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    gate.open();
    finished(&running.finish().await);
    assert!(gateway.wait_exit().await.success());
}

// interface (start and end)
#[tokio::test]
async fn at_the_end_of_input_running_requests_are_finished_and_stdout_holds_only_protocol() {
    for revision in [V2025_06_18, MODERN] {
        let gate = Gate::new();
        let server = held(&gate).stdio().await;
        let client = Gateway::builder().server("one", &server).stdio().revision(revision).connect().await;
        let (first, second) = (hold(&client, false), hold(&client, true));
        gate.reached(2).await;
        server.print_stderr("words for people");
        client.stderr().wait_for("the server's words", |line| line.contains("words for people")).await;
        let last = client.call("tools/call").params(json!({"name": "echo", "arguments": {}})).start();
        client.close_stdin();
        gate.open();
        finished(&first.finish().await);
        finished(&second.finish().await);
        assert_eq!(last.finish().await.text(), "{}", "sent just before the end");
        let status = client.wait_exit().await;
        assert_eq!(status.code(), Some(0), "{revision}");
        server.wait_all_exited().await;
        let lines = client.received();
        assert!(lines.iter().all(|line| line.kind.is_some()), "{revision}: {lines:?}");
    }
}

// bridging 26 (stdio)
#[tokio::test]
async fn at_the_end_of_input_listening_ends_with_a_result_and_a_cancellation() {
    let server = Server::builder("one").echo("echo").stdio().await;
    let client = Gateway::builder().server("one", &server).stdio().modern().connect().await;
    let mut listen = client.call("subscriptions/listen").id("\"l\"").params(json!({"notifications": {}})).start();
    listen.next_method("notifications/subscriptions/acknowledged").await;
    client.close_stdin();
    let end = listen.finish().await;
    assert_eq!(end.result()["_meta"]["io.modelcontextprotocol/subscriptionId"], "l");
    let cancelled = client.wait_for_method("notifications/cancelled", 1).await;
    assert_eq!(cancelled.params(), json!({"requestId": "l"}));
    assert_eq!(client.wait_exit().await.code(), Some(0));
}
