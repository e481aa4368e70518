//! Batches of 2025-03-26 whose connection breaks, and what else a batch must do.

use super::*;

fn batch() -> String {
    json!([call(1, "slow"), call(2, "slow"), call(3, "echo")]).to_string()
}

async fn arrived(server: &Server, count: usize) {
    server.record().wait_for_nth("a slow call", count, |r| r.value()["params"]["name"] == "slow").await;
}

// edges C4, bridging B3
#[tokio::test]
async fn the_calls_of_a_batch_go_on_when_its_connection_breaks() {
    let gate = Gate::new();
    let server = script(&gate).stdio().await;
    let gateway = Gateway::builder().server("alpha", &server).serve().await;
    let client = gateway.client().revision(V2025_03_26).connect().await;
    client.call_tool("echo", json!({})).await.result();
    wait_connections(&gateway, 0).await;
    let post = {
        let (url, session, body) = (gateway.url(), client.session_id().unwrap(), batch());
        tokio::spawn(async move {
            let raw = Client::http(url).raw().header("mcp-session-id", &session).connect().await;
            raw.post_raw(body, &[]).await
        })
    };
    arrived(&server, 2).await;
    wait_connections(&gateway, 1).await;
    post.abort();
    wait_connections(&gateway, 0).await;
    client.call_tool("echo", json!({})).await.result();
    assert_eq!(server.count("notifications/cancelled"), 0);
    gate.open();
    // Its answers are kept: the stream of the batch was the first of the session.
    let resumed = client.resume("1-0").await.finish().await;
    let all = resumed.before.iter().chain(&resumed.response).map(|r| r.text().to_owned()).collect::<Vec<_>>();
    let answers = all.iter().find(|text| text.starts_with('[')).unwrap_or_else(|| panic!("no answers: {all:?}"));
    let answers: Vec<serde_json::Value> = serde_json::from_str(answers).unwrap();
    assert_eq!(answers.len(), 3, "{answers:?}");
    assert_eq!(server.count("notifications/cancelled"), 0);
}

// edges C4
#[tokio::test]
async fn what_a_server_says_during_a_batch_comes_on_its_stream_before_the_answers() {
    let gate = Gate::new();
    let server = script(&gate).stdio().await;
    let gateway = Gateway::builder().server("alpha", &server).serve().await;
    let client = gateway.client().revision(V2025_03_26).connect().await;
    let post = {
        let (url, session, body) = (gateway.url(), client.session_id().unwrap(), batch());
        tokio::spawn(async move {
            let raw = Client::http(url).raw().header("mcp-session-id", &session).connect().await;
            raw.post_raw(body, &[]).await
        })
    };
    arrived(&server, 2).await;
    gate.open();
    let reply = within("the answer", post).await.unwrap();
    assert_eq!((reply.status, reply.header("content-type")), (200, Some("text/event-stream")), "{reply:?}");
    assert_eq!(reply.before_with("notifications/progress").len(), 2, "{reply:?}");
}

// bridging 47: the notification of a batch has its effect, and is not answered.
#[tokio::test]
async fn a_notification_in_a_batch_is_heeded() {
    let gate = Gate::new();
    let server = script(&gate).stdio().await;
    let gateway = Gateway::builder().server("alpha", &server).serve().await;
    let client = gateway.client().revision(V2025_03_26).connect().await;
    let running = client.call("tools/call").id("77").params(json!({"name": "slow"})).start();
    arrived(&server, 1).await;
    let cancelled = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 77}});
    let reply = client.post_raw(json!([call(7, "echo"), cancelled, call(8, "echo")]).to_string(), &[]).await;
    let answers: Vec<serde_json::Value> =
        serde_json::from_str(&reply.body).unwrap_or_else(|e| panic!("{e}: {reply:?}"));
    let mut ids: Vec<_> = answers.iter().map(|answer| answer["id"].as_u64().unwrap()).collect();
    ids.sort_unstable();
    assert_eq!(ids, [7, 8]);
    server.wait_for_method("notifications/cancelled", 1).await;
    assert!(running.finish().await.response.is_none());
}
