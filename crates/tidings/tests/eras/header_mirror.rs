//! Tool parameters in headers of a modern server's requests.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use tidings_testkit::{Gateway, ScriptedAnswer, Server, ServerBuilder};

fn tool(header: &str) -> Value {
    json!({"name": "deploy", "inputSchema": {"type": "object", "properties": {
        "region": {"type": "string", "x-mcp-header": header},
        "count": {"type": "integer", "x-mcp-header": "Count"},
    }}})
}

fn regional() -> ServerBuilder {
    Server::builder("new").modern_only()
}

// bridging 46
#[tokio::test]
async fn headers_are_computed_from_the_arguments_of_a_legacy_client() {
    let server = regional().tool_def(tool("Region"), |call| async move { call.ok_text("done") }).http().await;
    let gateway = Gateway::builder().server("new", &server).serve().await;
    let client = gateway.client().connect().await;
    let sent = |nth| server.wait_for_method("tools/call", nth);
    assert_eq!(client.call_tool("deploy", json!({"region": "eu", "count": 3})).await.text(), "done");
    let first = sent(1).await;
    assert_eq!((first.header("mcp-param-region"), first.header("mcp-param-count")), (Some("eu"), Some("3")));
    assert_eq!((first.header("mcp-method"), first.header("mcp-name")), (Some("tools/call"), Some("deploy")));
    assert_eq!(client.call_tool("deploy", json!({"region": "Malmö"})).await.text(), "done");
    let second = sent(2).await;
    assert_eq!(second.header("mcp-param-region"), Some("=?base64?TWFsbcO2?="));
    assert_eq!(second.header("mcp-param-count"), None, "absent as in the body");
}

// bridging 46
#[tokio::test]
async fn refused_headers_are_made_anew_from_a_fresh_list_once() {
    let lists = Arc::new(AtomicUsize::new(0));
    let listed = Arc::clone(&lists);
    let server = regional()
        .on_raw("tools/list", move |call| {
            let header = if listed.fetch_add(1, Ordering::SeqCst) == 0 { "Region" } else { "Zone" };
            let answer = call.ok(json!({"tools": [tool(header)], "ttlMs": 0, "cacheScope": "private"}));
            async move { answer }
        })
        .tool_def(tool("Zone"), |call| async move {
            match call.received().header("mcp-param-zone") {
                Some("eu") => call.ok_text("done"),
                other => ScriptedAnswer::error(-32020, format!("Mcp-Param-Zone is {other:?}")),
            }
        })
        .http()
        .await;
    let gateway = Gateway::builder().server("new", &server).serve().await;
    let client = gateway.client().connect().await;
    assert_eq!(client.call_tool("deploy", json!({"region": "eu"})).await.text(), "done");
    assert_eq!((lists.load(Ordering::SeqCst), server.count("tools/call")), (2, 2), "one refresh, one repetition");
    assert_eq!(client.call_tool("deploy", json!({"region": "eu"})).await.text(), "done");
    assert_eq!((lists.load(Ordering::SeqCst), server.count("tools/call")), (2, 3), "and then it knows");
}

// bridging 46
#[tokio::test]
async fn a_server_that_always_refuses_the_headers_is_asked_twice_and_no_more() {
    let refuse = |_| async { ScriptedAnswer::error(-32020, "never right") };
    let server = regional().tool_def(tool("Region"), refuse).http().await;
    let gateway = Gateway::builder().server("new", &server).serve().await;
    let before = server.count("tools/list");
    for client in [gateway.client().connect().await, gateway.client().modern().connect().await] {
        let place = (server.count("tools/call"), server.count("tools/list"));
        let call = client.call("tools/call").params(json!({"name": "deploy", "arguments": {"region": "eu"}}));
        let reply = call.header("mcp-param-region", "eu").send().await;
        assert_eq!((reply.status, reply.error_code()), (200, -32603), "not the client's fault: {reply:?}");
        let now = (server.count("tools/call"), server.count("tools/list"));
        assert_eq!((now.0 - place.0, now.1 - place.1), (2, 1), "one refresh, one repetition");
    }
    assert_eq!(server.count("tools/list") - before, 2);
}

// bridging A4
#[tokio::test]
async fn a_tool_with_invalid_annotations_is_left_out_of_a_modern_list() {
    let bad = json!({"name": "bad", "inputSchema": {"type": "object", "properties": {
        "x": {"type": "array", "items": {"type": "string", "x-mcp-header": "X"}}}}});
    let ok = |call: tidings_testkit::ScriptedCall| async move { call.ok_text("done") };
    let server = regional().tool_def(tool("Region"), ok).tool_def(bad, ok).http().await;
    let gateway = Gateway::builder().server("new", &server).serve().await;
    assert_eq!(gateway.client().connect().await.names("tools").await, ["deploy"]);
}

// bridging 0.1
#[tokio::test]
async fn a_modern_client_mirrors_parameters_itself_or_is_refused() {
    let server = regional().tool_def(tool("Region"), |call| async move { call.ok_text("done") }).http().await;
    let gateway = Gateway::builder().server("new", &server).serve().await;
    let client = gateway.client().modern().connect().await;
    let call = |header: &'static str| {
        let params = json!({"name": "deploy", "arguments": {"region": "eu", "count": 1}});
        client.call("tools/call").params(params).header("mcp-param-count", "1.0").header("mcp-param-region", header)
    };
    for wrong in ["", "us", "=?base64?!?="] {
        let reply = call(wrong).send().await;
        assert_eq!((reply.status, reply.error_code()), (400, -32020), "{wrong:?}");
    }
    assert_eq!(server.count("tools/call"), 0);
    assert_eq!(call("eu").send().await.text(), "done");
}
