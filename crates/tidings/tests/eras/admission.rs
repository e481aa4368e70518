//! Which requests are modern, and which error a malformed one gets.

use serde_json::{Value, json};
use tidings_testkit::{Client, Exchange, Gateway, MODERN, Server, V2025_06_18};

const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";

async fn gateway() -> (Server, Gateway) {
    let server = Server::builder("one").echo("echo").stdio().await;
    let gateway = Gateway::builder().server("one", &server).serve().await;
    (server, gateway)
}

fn body(method: &str, meta: Value, rest: Value) -> String {
    let mut params = rest;
    if !meta.is_null() {
        params["_meta"] = meta;
    }
    json!({"jsonrpc": "2.0", "id": "r\u{e9}1", "method": method, "params": params}).to_string()
}

fn meta(version: &str) -> Value {
    json!({VERSION: version, CAPABILITIES: {}})
}

#[track_caller]
fn refused(exchange: &Exchange, status: u16, code: i64) {
    assert_eq!((exchange.status, exchange.error_code()), (status, code), "{exchange:?}");
    let id = exchange.response().value()["id"].clone();
    assert_eq!(id, "r\u{e9}1", "the request's id: {exchange:?}");
}

// bridging 42
#[tokio::test]
async fn methods_of_the_legacy_era_do_not_exist_in_the_modern_one() {
    let (_server, gateway) = gateway().await;
    let client = Client::http(gateway.url()).raw().connect().await;
    for method in ["initialize", "ping", "resources/subscribe", "resources/unsubscribe", "logging/setLevel", "no/such"]
    {
        let params = json!({"uri": "file:///x", "protocolVersion": V2025_06_18, "capabilities": {}, "level": "info"});
        let headers = [("mcp-protocol-version", MODERN), ("mcp-method", method)];
        let reply = client.post_raw(body(method, meta(MODERN), params), &headers).await;
        refused(&reply, 404, -32601);
        assert!(reply.header("mcp-session-id").is_none(), "no session is opened: {reply:?}");
    }
}

// bridging 42
#[tokio::test]
async fn methods_of_the_legacy_era_do_not_exist_in_the_modern_one_on_stdio() {
    let server = Server::builder("one").echo("echo").stdio().await;
    let client = Gateway::builder().server("one", &server).stdio().modern().connect().await;
    for method in ["initialize", "ping", "resources/subscribe"] {
        let reply = client.request(method, json!({"uri": "file:///x", "protocolVersion": V2025_06_18})).await;
        assert_eq!(reply.error_code(), -32601, "{method}");
    }
    assert_eq!(client.call_tool("echo", json!({"a": 1})).await.text(), r#"{"a":1}"#);
}

// bridging 48
#[tokio::test]
async fn malformed_modern_requests_are_told_apart_in_order() {
    let (_server, gateway) = gateway().await;
    let client = Client::http(gateway.url()).raw().connect().await;
    let list = |meta: Value| body("tools/list", meta, json!({}));
    let said = |version: &'static str| [("mcp-protocol-version", version), ("mcp-method", "tools/list")];

    refused(&client.post_raw(list(Value::Null), &said(MODERN)).await, 400, -32602);
    refused(&client.post_raw(list(json!({VERSION: MODERN})), &said(MODERN)).await, 400, -32602);
    refused(&client.post_raw(list(json!({VERSION: 7, CAPABILITIES: {}})), &said(MODERN)).await, 400, -32602);
    refused(&client.post_raw(list(meta(MODERN)), &said("2027-01-01")).await, 400, -32020);
    refused(&client.post_raw(list(meta(MODERN)), &said("")).await, 400, -32020);
    let unknown = client.post_raw(list(meta("v999")), &said("v999")).await;
    refused(&unknown, 400, -32022);
    assert_eq!(unknown.error()["data"], json!({"supported": [MODERN], "requested": "v999"}));

    // Several faults: what is missing comes before what differs, and that before what is not supported.
    refused(&client.post_raw(list(json!({VERSION: "v999"})), &said(MODERN)).await, 400, -32602);
    refused(&client.post_raw(list(meta("v999")), &said(MODERN)).await, 400, -32020);
    // A modern method alone says that the request is modern.
    let bare = body("server/discover", Value::Null, json!({}));
    refused(&client.post_raw(bare, &[]).await, 400, -32602);
}

// bridging 0.1
#[tokio::test]
async fn headers_that_contradict_the_body_are_refused() {
    let (server, gateway) = gateway().await;
    let client = Client::http(gateway.url()).raw().connect().await;
    let call = || body("tools/call", meta(MODERN), json!({"name": "echo", "arguments": {"a": 1}}));
    let with = |method: &'static str, name: &'static str| {
        [("mcp-protocol-version", MODERN), ("mcp-method", method), ("mcp-name", name)]
    };
    refused(&client.post_raw(call(), &with("", "echo")).await, 400, -32020);
    refused(&client.post_raw(call(), &with("tools/list", "echo")).await, 400, -32020);
    refused(&client.post_raw(call(), &with("tools/call", "")).await, 400, -32020);
    refused(&client.post_raw(call(), &with("tools/call", "other")).await, 400, -32020);
    refused(&client.post_raw(call(), &with("tools/call", "=?base64?!?=")).await, 400, -32020);
    assert_eq!(server.count("tools/call"), 0, "none of them reached the server");
    for name in ["echo", " echo ", "=?base64?ZWNobw==?="] {
        let reply = client.post_raw(call(), &with("tools/call", name)).await;
        assert_eq!((reply.status, reply.text()), (200, r#"{"a":1}"#.to_owned()), "{name}");
    }
}

// bridging A4, B7: the client of fastmcp-tasks 4.1.2 does not name the task in a header.
#[tokio::test]
async fn a_task_may_go_without_its_header_and_not_with_a_wrong_one() {
    let (_server, gateway) = gateway().await;
    let client = Client::http(gateway.url()).raw().connect().await;
    let declared = json!({VERSION: MODERN, CAPABILITIES: {"extensions": {"io.modelcontextprotocol/tasks": {}}}});
    for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
        let ask = || body(method, declared.clone(), json!({"taskId": "t1.none", "inputResponses": {}}));
        let bare = [("mcp-protocol-version", MODERN), ("mcp-method", method)];
        // Let in, and then nobody here has tasks.
        refused(&client.post_raw(ask(), &bare).await, 404, -32601);
        refused(&client.post_raw(ask(), &[bare[0], bare[1], ("mcp-name", "t1.other")]).await, 400, -32020);
    }
}

// bridging 0.1, A4
#[tokio::test]
async fn requests_of_no_era_and_answers_of_modern_clients_are_refused() {
    let (_server, gateway) = gateway().await;
    let client = Client::http(gateway.url()).raw().connect().await;
    let reply = client.post_raw(body("tools/list", Value::Null, json!({})), &[]).await;
    assert_eq!(reply.status, 400, "{reply:?}");
    let answer = r#"{"jsonrpc":"2.0","id":1,"result":{}}"#;
    let reply = client.post_raw(answer, &[("mcp-protocol-version", MODERN)]).await;
    assert_eq!(reply.status, 400, "{reply:?}");
    let cancelled = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#;
    let reply = client.post_raw(cancelled, &[("mcp-protocol-version", MODERN)]).await;
    assert_eq!(reply.status, 202, "{reply:?}");
}

// bridging 0.1
#[tokio::test]
async fn a_session_has_the_revision_that_was_asked_for_or_the_latest_legacy_one() {
    let (_server, gateway) = gateway().await;
    for (asked, agreed) in [
        ("2024-11-05", "2024-11-05"),
        ("2025-03-26", "2025-03-26"),
        ("2025-06-18", "2025-06-18"),
        ("2025-11-25", "2025-11-25"),
        ("2026-07-28", "2025-11-25"),
        ("1999-01-01", "2025-11-25"),
    ] {
        let client = Client::http(gateway.url()).raw().connect().await;
        let params = json!({"protocolVersion": asked, "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}});
        let reply = client.request("initialize", params).await;
        assert_eq!(reply.result()["protocolVersion"], agreed, "{asked}");
        assert!(reply.header("mcp-session-id").is_some_and(|id| id.bytes().all(|b| b.is_ascii_graphic())));
    }
}
