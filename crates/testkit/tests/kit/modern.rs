use serde_json::json;
use tidings_testkit::*;

#[tokio::test]
async fn discover_and_call_on_both_transports() {
    for server in crate::both(|| Server::builder("alpha").modern_only().instructions("be kind").echo("echo")).await {
        let client = Client::of(&server).modern().connect().await;
        let found = client.request("server/discover", json!({})).await.result();
        assert_eq!(found["supportedVersions"], json!([MODERN]));
        assert_eq!(found["instructions"], "be kind");
        assert_eq!(client.call_tool("echo", json!({"é": 1})).await.text(), r#"{"é":1}"#);
        assert_eq!(client.request("ping", json!({})).await.error_code(), -32601);
        server.assert_clean();
    }
}

#[tokio::test]
async fn names_that_fit_no_header_are_wrapped() {
    let server = Server::builder("alpha").modern_only().echo("größe").http().await;
    let client = Client::modern(server.url()).await;
    assert_eq!(client.call_tool("größe", json!({})).await.text(), "{}");
    let call = server.wait_for_method("tools/call", 1).await;
    assert!(call.header("mcp-name").is_some_and(|name| name.starts_with("=?base64?")), "{:?}", call.headers);
    server.assert_clean();
}

#[tokio::test]
async fn wrong_requests_get_the_right_status_and_code() {
    let server = Server::builder("alpha").modern().echo("echo").http().await;
    let client = Client::modern(server.url()).await;
    let reply = client.call("tools/list").header("mcp-protocol-version", "2025-11-25").send().await;
    assert_eq!((reply.status, reply.error_code()), (400, -32020));
    let reply = client.call("tools/list").header("mcp-method", "").send().await;
    assert_eq!((reply.status, reply.error_code()), (400, -32020));
    let params = json!({"_meta": {
        "io.modelcontextprotocol/protocolVersion": "v999", "io.modelcontextprotocol/clientCapabilities": {}}});
    let reply = client.call("tools/list").params(params).header("mcp-protocol-version", "v999").send().await;
    assert_eq!((reply.status, reply.error_code()), (400, -32022));
    let params = json!({"_meta": {"io.modelcontextprotocol/protocolVersion": MODERN}});
    let reply = client.call("tools/list").params(params).bare().send().await;
    assert_eq!((reply.status, reply.error_code()), (400, -32602));
    assert_eq!(client.request("resources/subscribe", json!({})).await.status, 404);
    assert_eq!(client.send_http("GET", "", &[]).await.status, 405);
    assert_eq!(server.faults().len(), 4, "{:?}", server.faults());
}

#[tokio::test]
async fn input_is_required_and_given() {
    let script = || {
        Server::builder("alpha").modern_only().tool("ask", |call| async move {
            if call.request_state().is_null() {
                let ask = json!({"method": "elicitation/create", "params": {"message": "name?"}});
                return call.input_required(json!({"inputRequests": {"k": ask}, "requestState": "s1"}));
            }
            call.ok_text(&format!("{} {}", call.request_state(), call.input_responses()["k"]["action"]))
        })
    };
    for server in crate::both(script).await {
        let client = Client::of(&server).modern().connect().await;
        let first = client.call_tool("ask", json!({})).await.result();
        assert_eq!(first["resultType"], "input_required");
        let retry = json!({"name": "ask", "arguments": {}, "requestState": first["requestState"],
            "inputResponses": {"k": {"action": "accept"}}});
        assert_eq!(client.request("tools/call", retry).await.text(), r#""s1" "accept""#);
        server.assert_clean();
    }
}

#[tokio::test]
async fn closing_the_response_cancels_over_http() {
    let cancelled = Gate::new();
    let told = cancelled.clone();
    let server = Server::builder("alpha")
        .modern_only()
        .tool("wait", move |call| {
            let told = told.clone();
            async move {
                call.open_stream();
                call.cancelled().await;
                told.wait().await;
                ScriptedAnswer::Silent
            }
        })
        .silent_on("prompts/list")
        .http()
        .await;
    let client = Client::modern(server.url()).await;
    for mut pending in [client.start("tools/call", json!({"name": "wait"})), client.start("prompts/list", json!({}))] {
        let id = pending.id().clone();
        if id.as_u64() == Some(1) {
            assert_eq!(pending.status().await, 200);
        } else {
            server.wait_for_method("prompts/list", 1).await;
        }
        drop(pending);
        server.wait_for(|r| r.method == DISCONNECTED && r.id.as_ref() == Some(&id)).await;
    }
    cancelled.reached(1).await;
}

#[tokio::test]
async fn log_messages_need_a_level() {
    let script = || {
        Server::builder("alpha")
            .modern_only()
            .tool("t", |call| async move { call.ok_text(&call.log("error", 1).to_string()) })
    };
    for server in crate::both(script).await {
        let client = Client::of(&server).modern().connect().await;
        assert_eq!(client.call_tool("t", json!({})).await.text(), "false");
        let client = Client::of(&server).modern().log_level("warning").connect().await;
        assert_eq!(client.call_tool("t", json!({})).await.text(), "true");
    }
}
