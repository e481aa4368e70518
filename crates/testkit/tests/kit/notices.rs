use serde_json::json;
use tidings_testkit::*;

fn script() -> ServerBuilder {
    Server::builder("alpha").modern().echo("echo").resource("file:///a", "A").resource("file:///b", "B")
}

#[tokio::test]
async fn legacy_clients_hear_notices_and_their_resources() {
    for server in crate::both(script).await {
        let one = Client::of(&server).connect().await;
        let two = Client::of(&server).connect().await;
        one.request("resources/subscribe", json!({"uri": "file:///a"})).await.result();
        // Before the stream is there: it waits.
        assert_eq!(server.list_changed("tools"), 2);
        let mut streams = Vec::new();
        if server.is_http() {
            streams.push(one.open_get().await);
            streams.push(two.open_get().await);
        }
        assert_eq!(server.resource_updated("file:///a"), 1);
        assert_eq!(server.resource_updated("file:///b"), 0);
        assert_eq!(server.notify_raw(r#"{"jsonrpc":"2.0", "method":"notifications/x"}"#), 2);
        for client in [&one, &two] {
            client.wait_for(|m| m.text() == r#"{"jsonrpc":"2.0", "method":"notifications/x"}"#).await;
            assert_eq!(client.count("notifications/tools/list_changed"), 1);
        }
        assert_eq!(one.count("notifications/resources/updated"), 1);
        assert_eq!(two.count("notifications/resources/updated"), 0);
        one.request("resources/unsubscribe", json!({"uri": "file:///a"})).await.result();
        assert_eq!(server.resource_updated("file:///a"), 0);
        server.assert_clean();
    }
}

#[tokio::test]
async fn modern_clients_hear_what_they_listen_for() {
    for server in crate::both(script).await {
        let client = Client::of(&server).modern().connect().await;
        let filter =
            json!({"toolsListChanged": true, "promptsListChanged": true, "resourceSubscriptions": ["file:///a"]});
        let mut tools =
            client.call("subscriptions/listen").id("\"1\"").params(json!({"notifications": filter})).start();
        let ack = tools.next().await.expect("an acknowledgement");
        assert_eq!(ack.method, "notifications/subscriptions/acknowledged");
        assert_eq!(
            ack.param(&["notifications"]),
            json!({"toolsListChanged": true, "resourceSubscriptions": ["file:///a"]})
        );
        server.wait_listening(1).await;
        assert_eq!(server.list_changed("resources"), 0);
        assert_eq!(server.list_changed("tools"), 1);
        assert_eq!(server.resource_updated("file:///a"), 1);
        let notice = tools.next().await.expect("a notice");
        assert_eq!(notice.param_raw(&["_meta", "io.modelcontextprotocol/subscriptionId"]), "\"1\"");
        assert_eq!(tools.next_method("notifications/resources/updated").await.param(&["uri"]), "file:///a");
        server.end_listens();
        let reply = tools.finish().await;
        assert_eq!(reply.result()["_meta"]["io.modelcontextprotocol/subscriptionId"], "1");
        server.assert_clean();
    }
}

#[tokio::test]
async fn a_listen_ends_when_the_client_leaves() {
    for server in crate::both(script).await {
        let client = Client::of(&server).modern().connect().await;
        let mut listen = client.start("subscriptions/listen", json!({"notifications": {"toolsListChanged": true}}));
        listen.next_method("notifications/subscriptions/acknowledged").await;
        server.wait_listening(1).await;
        if server.is_http() {
            drop(listen);
        } else {
            client.cancel(&listen).await;
        }
        eventually("the listen to be gone", || (server.list_changed("tools") == 0).then_some(())).await;
    }
}
