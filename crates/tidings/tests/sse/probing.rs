//! A URL of which only the address is known.

use super::*;

#[tokio::test]
async fn a_server_that_takes_no_messages_at_its_url_is_found_to_speak_http_and_sse() {
    let gate = Gate::new();
    let server = of_everything(&gate).sse().await;
    let gateway = quick().toml(&format!("[servers.one]\nurl = {:?}\n", server.url())).serve().await;
    let client = gateway.stdio().connect().await;
    assert_eq!(client.call_tool("echo", json!({})).await.text(), "{}");
    assert_eq!(gateway.server_status("one").await["transport"], "sse");
    // What the link is decides who a question belongs to: with two calls under way it can not be known.
    let pending = client.start("tools/call", tool("slow", "x"));
    server.wait_for_method("tools/call", 2).await;
    assert_eq!(client.call_tool("ask", json!({})).await.text(), "-32601");
    client.cancel(&pending).await;
    server.wait_for_method(CANCELLED, 1).await;
    server.put_tool(Tool::text_tool("new", "new"));
    server.list_changed("tools");
    client.wait_for_method("notifications/tools/list_changed", 1).await;
    // The server is asked anew after each loss, in the same way.
    server.kill().await;
    server.revive().await;
    works_again(&client).await;
    server.assert_clean();
}

#[tokio::test]
async fn where_there_is_neither_the_first_answer_is_the_error() {
    let server = Server::builder("one").on_http(|_| Some(ScriptedAnswer::http(404, "nothing here"))).http().await;
    let gateway = quick().server("one", &server).without_waiting().serve().await;
    let is_told = |status: &Value| status["error"].as_str().is_some_and(|error| error.contains("404"));
    let status = gateway.wait_server("one", "the error", is_told).await;
    let error = status["error"].as_str().unwrap();
    assert!(error.contains("nothing here") && error.contains("/mcp") && error.contains("/sse"), "{error}");
    let verbs: Vec<String> = server.received().iter().map(|received| received.verb.clone()).collect();
    assert_eq!(verbs[..3], ["POST", "POST", "GET"], "{verbs:?}");
}
