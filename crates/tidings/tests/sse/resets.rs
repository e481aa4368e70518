//! Streams that end, sessions that are forgotten, servers that come back: each is a new link, and nobody misses what changed.

use super::*;

#[tokio::test]
async fn a_stream_that_ends_costs_the_calls_on_it_and_what_changed_meanwhile_is_told() {
    let gate = Gate::new();
    let (server, gateway) = served(&gate).await;
    let client = gateway.stdio().connect().await;
    assert_eq!(client.names("tools").await.len(), 3);
    client.request("resources/subscribe", json!({"uri": "file:///a"})).await.result();
    let pending = client.start("tools/call", tool("slow", "x"));
    server.wait_for_method("tools/call", 1).await;
    server.put_tool(Tool::text_tool("new", "new"));
    server.close_get_streams();
    let reply = pending.finish().await;
    assert!(reply.response().error()["message"].as_str().unwrap().contains("closed the connection"), "{reply:?}");
    // At once: the link is over, and nothing of this call was sent over it, so the next one carries it.
    assert_eq!(client.call_tool("echo", json!({})).await.text(), "{}");
    // The client may have come before the server was listed for the first time: then it was told of that too.
    for nth in 1.. {
        client.wait_for_method("notifications/tools/list_changed", nth).await;
        if client.names("tools").await.contains(&"new".to_owned()) {
            break;
        }
    }
    assert_eq!(client.call_tool("new", json!({})).await.text(), "new");
    // Followed again over the next link, and what may have been missed is told.
    server.wait_for_method("resources/subscribe", 2).await;
    server.resource_updated("file:///a");
    client.wait_for_method(UPDATED, 1).await;
    assert_eq!(server.count("tools/call"), 3, "nothing was sent twice");
    server.assert_clean();
}

#[tokio::test]
async fn a_server_that_is_killed_in_the_middle_and_comes_back_is_used_again() {
    let gate = Gate::new();
    let (server, gateway) = served(&gate).await;
    let client = gateway.client().connect().await;
    for _ in 0..3 {
        let calls = server.count("tools/call");
        let pending = client.start("tools/call", tool("slow", "x"));
        server.wait_for_method("tools/call", calls + 1).await;
        server.kill().await;
        assert!(!pending.finish().await.response().error().is_null());
        server.revive().await;
        works_again(&client).await;
    }
    server.assert_clean();
}

/// The stream is open and the session is not known any more: the call was refused and not run, so the next link carries it.
#[tokio::test]
async fn a_call_that_is_refused_with_its_session_goes_over_the_next_link() {
    for status in [404, 400] {
        let server = Server::builder("one").echo("echo").refuses_sessions_with(status).sse().await;
        let gateway = quick().server("one", &server).serve().await;
        let client = gateway.client().connect().await;
        assert_eq!(client.call_tool("echo", json!({"n": 1})).await.text(), r#"{"n":1}"#);
        server.forget_sessions();
        assert_eq!(client.call_tool("echo", json!({"n": 2})).await.text(), r#"{"n":2}"#, "{status}");
        assert_eq!(server.initializes(), 2, "{status}");
        server.assert_clean();
    }
}

#[tokio::test]
async fn the_end_of_the_gateway_ends_the_stream_after_the_cancellations() {
    let gate = Gate::new();
    let (server, gateway) = served(&gate).await;
    let client = gateway.client().connect().await;
    let pending = client.start("tools/call", tool("slow", "x"));
    server.wait_for_method("tools/call", 1).await;
    client.cancel(&pending).await;
    gateway.terminate().await;
    server.wait_for(|received| received.method == DISCONNECTED).await;
    let order: Vec<String> = server.received().iter().map(|r| r.method.clone()).collect();
    let place = |method: &str| order.iter().position(|m| m == method).unwrap();
    assert!(place(CANCELLED) < place(DISCONNECTED), "{order:?}");
}
