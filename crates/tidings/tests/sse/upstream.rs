//! A server that speaks HTTP+SSE only, for clients of either era.

use super::*;

#[tokio::test]
async fn calls_progress_and_questions_pass_and_many_run_at_once() {
    let gate = Gate::new();
    let (server, gateway) = served(&gate).await;
    let client = gateway.client().capabilities(able()).connect().await;
    answers(&client, "me");
    assert_eq!(client.names("tools").await, ["echo", "slow", "ask"]);
    assert_eq!(client.call_tool("echo", json!({"a": [1, null]})).await.text(), r#"{"a":[1,null]}"#);
    assert_eq!(client.call_tool("ask", json!({})).await.text(), "\"me\"");
    let read = client.request("resources/read", json!({"uri": "file:///a"})).await.result();
    assert_eq!(read["contents"][0]["text"], "a");

    let token = |raw: &str| client.call("tools/call").params(tool("slow", raw)).progress_token(raw).start();
    let (mut first, mut second) = (token("\"one\""), token("2"));
    assert_eq!(first.next_method("notifications/progress").await.param(&["progressToken"]), "one");
    assert_eq!(second.next_method("notifications/progress").await.param(&["progressToken"]), 2);
    gate.open();
    assert_eq!((first.finish().await.text(), second.finish().await.text()), ("done".into(), "done".into()));

    let modern = gateway.client().modern().connect().await;
    assert_eq!(modern.call_tool("echo", json!({"b": 1})).await.text(), r#"{"b":1}"#);
    assert_eq!(gateway.server_status("one").await["transport"], "sse");
    let tried = |received: &&ReceivedMessage| received.verb == "POST" && received.path != "/messages";
    assert_eq!(server.received().iter().filter(tried).count(), 0, "what is known is not tried");
    assert_eq!(server.count("server/discover"), 0);
    server.assert_clean();
}

#[tokio::test]
async fn a_cancelled_call_is_cancelled_there_and_never_before_it_arrived() {
    let gate = Gate::new();
    let (server, gateway) = served(&gate).await;
    for client in [gateway.client(), gateway.client().modern(), gateway.stdio()] {
        let client = client.connect().await;
        let before = server.count(CANCELLED);
        let modern = is_modern(&client.revision());
        let pending = client.start("tools/call", tool("slow", "x"));
        let is_slow = |received: &ReceivedMessage| received.param(&["name"]) == "slow";
        let call = server.record().wait_for_nth("the call", before + 1, is_slow).await;
        match modern {
            true => drop(pending),
            false => client.cancel(&pending).await,
        }
        let told = server.wait_for_method(CANCELLED, before + 1).await;
        assert_eq!(told.param_raw(&["requestId"]), call.id.unwrap().as_str());
        assert_eq!(client.call_tool("echo", json!({})).await.text(), "{}", "the link stays");
    }
    assert_eq!(server.count("initialize"), 2, "one link of the gateway and one of `tidings stdio`");
    server.assert_clean();
}

/// Whether the server has read a call is known when it has answered its POST. One that does so late is told after a moment, and
/// again then.
#[tokio::test]
async fn a_post_that_is_answered_late_holds_up_nobody() {
    let (gate, posts) = (Gate::new(), Gate::new());
    let server = of_everything(&gate).sse_posts(&posts).sse().await;
    let gateway = quick().server("one", &server).serve().await;
    let client = gateway.client().connect().await;
    let pending = client.start("tools/call", tool("slow", "x"));
    posts.reached(1).await;
    assert_eq!(client.call_tool("echo", json!({})).await.text(), "{}", "its answer is on the stream");
    client.cancel(&pending).await;
    server.wait_for_method(CANCELLED, 1).await;
    posts.open();
    server.wait_for_method(CANCELLED, 2).await;
    server.assert_clean();
}

#[tokio::test]
async fn changes_of_lists_and_resources_are_told() {
    let gate = Gate::new();
    let (server, gateway) = served(&gate).await;
    let client = gateway.stdio().connect().await;
    assert_eq!(client.names("tools").await.len(), 3);
    client.request("resources/subscribe", json!({"uri": "file:///a"})).await.result();
    server.wait_for_method("resources/subscribe", 1).await;
    server.resource_updated("file:///a");
    assert_eq!(client.wait_for_method(UPDATED, 1).await.param(&["uri"]), "file:///a");
    server.put_tool(Tool::text_tool("new", "new"));
    server.list_changed("tools");
    client.wait_for_method("notifications/tools/list_changed", 1).await;
    assert_eq!(client.call_tool("new", json!({})).await.text(), "new");
    client.request("resources/unsubscribe", json!({"uri": "file:///a"})).await.result();
    server.wait_for_method("resources/unsubscribe", 1).await;
    server.assert_clean();
}

#[tokio::test]
async fn each_session_may_have_a_stream_of_its_own_and_its_questions_find_their_way() {
    let gate = Gate::new();
    let (server, gateway) = served_with(&gate, "isolation = \"session\"").await;
    let mut clients = Vec::new();
    for name in ["a", "b"] {
        let client = gateway.client().capabilities(able()).connect().await;
        answers(&client, name);
        clients.push((name, client));
    }
    for (name, client) in &clients {
        // With a call of its own in the way: the stream says whose question it is, not the number of calls.
        assert_eq!(client.call_tool("ask", json!({})).await.text(), format!("{name:?}"));
    }
    let sessions: std::collections::BTreeSet<usize> =
        server.received().iter().filter(|r| r.method == "tools/call").map(|r| r.connection).collect();
    assert_eq!(sessions.len(), 2);
    server.assert_clean();
}

#[tokio::test]
async fn an_endpoint_of_another_origin_is_refused_and_gets_no_credentials() {
    let elsewhere = Server::builder("other").echo("echo").sse().await;
    let foreign = elsewhere.url().replace("/sse", "/messages");
    let server = Server::builder("one").echo("echo").sse_endpoint(&foreign).sse().await;
    for keys in ["", "era = \"legacy\"\n"] {
        // Also where the transport is found by probing.
        let url = server.url();
        let table = match keys.is_empty() {
            true => format!("[servers.one]\n{}headers = {{ Authorization = \"Bearer s3cret\" }}\n", server.toml()),
            false => format!("[servers.one]\nurl = {url:?}\n{keys}headers = {{ Authorization = \"Bearer s3cret\" }}\n"),
        };
        let gateway = quick().toml(&table).without_waiting().serve().await;
        let refused = |status: &Value| status["error"].as_str().is_some_and(|error| error.contains("another origin"));
        gateway.wait_server("one", "the refusal", refused).await;
    }
    assert!(elsewhere.received().is_empty(), "{:?}", elsewhere.received());
}
