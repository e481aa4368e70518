use serde_json::json;
use tidings_testkit::*;

#[tokio::test]
async fn plain_json_unless_something_precedes_the_answer() {
    let server = Server::builder("alpha")
        .echo("echo")
        .tool("stream", |call| async move {
            call.open_stream();
            call.ok_text("x")
        })
        .http()
        .await;
    for revision in LEGACY {
        let client = Client::legacy(server.url(), revision, json!({})).await;
        let plain = client.call_tool("echo", json!({})).await;
        assert_eq!(plain.header("content-type"), Some("application/json"));
        let stream = client.call_tool("stream", json!({})).await;
        assert_eq!(stream.header("content-type"), Some("text/event-stream"));
        assert!(stream.last_event_id.is_some());
    }
}

#[tokio::test]
async fn a_closed_stream_is_resumed() {
    let gate = Gate::new();
    let held = gate.clone();
    let server = Server::builder("alpha")
        .tool("long", move |call| {
            let gate = held.clone();
            async move {
                call.progress(1);
                call.close_stream(Some(10));
                gate.wait().await;
                call.progress(2);
                call.ok_text("done")
            }
        })
        .http()
        .await;
    let client = Client::legacy(server.url(), V2025_11_25, json!({})).await;
    let reply = client.call("tools/call").params(json!({"name": "long"})).progress_token("5").send().await;
    assert!(reply.response.is_none() && reply.before.len() == 1 && reply.retry == Some(10), "{reply:?}");
    gate.open();
    let last = reply.last_event_id.expect("an event id");
    let rest = client.resume(&last).await.finish().await;
    assert_eq!(rest.before_with("notifications/progress").len(), 1);
    assert_eq!(rest.text(), "done");
    server.assert_clean();
}

#[tokio::test]
async fn a_legacy_disconnect_is_no_cancellation() {
    let gate = Gate::new();
    let held = gate.clone();
    let server = Server::builder("alpha")
        .tool("long", move |call| {
            let gate = held.clone();
            async move {
                call.progress(1);
                gate.wait().await;
                assert!(!call.is_cancelled());
                call.ok_text("done")
            }
        })
        .http()
        .await;
    let client = Client::legacy(server.url(), V2025_06_18, json!({})).await;
    let mut pending = client.call("tools/call").params(json!({"name": "long"})).progress_token("5").start();
    pending.next_method("notifications/progress").await;
    let last = pending.last_event_id().expect("an event id").to_owned();
    drop(pending);
    server.wait_for(|r| r.method == DISCONNECTED).await;
    gate.open();
    assert_eq!(client.resume(&last).await.finish().await.text(), "done");
}

#[tokio::test]
async fn the_newest_get_stream_wins_and_streams_can_be_closed() {
    let server = Server::builder("alpha").echo("echo").http().await;
    let client = Client::legacy(server.url(), V2025_06_18, json!({})).await;
    let mut first = client.open_get().await;
    let mut second = client.open_get().await;
    server.list_changed("tools");
    second.next_method("notifications/tools/list_changed").await;
    assert!(first.next().await.is_none());
    server.close_get_streams();
    assert!(second.next().await.is_none());
    server.list_changed("tools");
    let mut third = client.open_get().await;
    third.next_method("notifications/tools/list_changed").await;
    assert_eq!(client.count("notifications/tools/list_changed"), 2);
}
