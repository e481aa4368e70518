//! What can not be followed is refused with the reason, or read from time to time where that is wanted.

use tidings_testkit::*;

use crate::*;

fn mute(content: &Content) -> ServerBuilder {
    Server::builder("one")
        .entry_resource(resource("file:///a", content))
        .capabilities(json!({"resources": {"listChanged": true}}))
}

// S1.2
#[tokio::test]
async fn a_server_without_subscriptions_is_refused_by_name_and_left_out_of_the_acknowledgement() {
    let content = Content::default();
    for server in in_all_ways(|| mute(&content)).await {
        let gateway = quick().server("one", &server).serve().await;
        for client in all_clients(&gateway) {
            let follower = Follower::new(client).await;
            let mut asked = follower.ask(&["one+file:///a"]);
            if follower.is_modern() {
                assert_eq!(asked.next_method(ACKNOWLEDGED).await.params()["notifications"], json!({}));
            } else {
                let refused = asked.finish().await;
                assert_eq!(refused.error_code(), -32602);
                assert!(message(&refused).contains("server \"one\""), "{}", message(&refused));
                assert!(message(&refused).contains("does not offer subscriptions"), "{}", message(&refused));
            }
        }
        assert_eq!(server.count(SUBSCRIBE), 0);
    }
}

// Issue 4: polled only where configured.
#[tokio::test]
async fn a_server_without_subscriptions_is_read_from_time_to_time_where_that_is_configured() {
    let content = Content::default();
    for server in in_all_ways(|| mute(&content)).await {
        *content.lock().unwrap() = "before".to_owned();
        let toml = format!("[servers.one]\n{}poll_interval = \"50ms\"\n", server.toml());
        let gateway = quick().toml(&toml).serve().await;
        let followers = [
            Follower::of(gateway.client(), &["one+file:///a"]).await,
            Follower::of(gateway.client().modern(), &["one+file:///a"]).await,
        ];
        server.wait_for_method("resources/read", 3).await;
        *content.lock().unwrap() = "after".to_owned();
        for follower in &followers {
            assert_eq!(follower.wait_nth(1).await, ["one+file:///a"]);
        }
        let (_, shown) = gateway.get_as_admin("/api/v1/subscriptions").await;
        assert!(shown.contains("\"polled\""), "it is said: {shown}");
        let reads = server.count("resources/read");
        server.wait_for_method("resources/read", reads + 3).await;
        assert!(followers.iter().all(|follower| follower.told().len() == 1), "the same content is no news");
    }
}

// bridging 17
#[tokio::test]
async fn the_servers_own_refusal_reaches_the_client_in_its_terms() {
    for server in [three().stdio().await, three().http().await] {
        let gateway = quick().server("one", &server).serve().await;
        let client = gateway.client().connect().await;
        let refused = client.request(SUBSCRIBE, json!({"uri": "one+file:///none"})).await;
        assert_eq!(refused.error_code(), -32002);
        assert_eq!(refused.error()["data"]["uri"], "one+file:///none");
        let unknown = client.request(SUBSCRIBE, json!({"uri": "nobody+file:///none"})).await;
        assert_eq!(unknown.error_code(), -32002);
        let wrong = client.request(SUBSCRIBE, json!({"uri": 1})).await;
        assert_eq!(wrong.error_code(), -32602);
        let modern = gateway.client().modern().connect().await;
        let wrong = modern.request(LISTEN, json!({"notifications": {"resourceSubscriptions": "file:///a"}})).await;
        assert_eq!(wrong.error_code(), -32602);
        let (_, shown) = gateway.get_as_admin("/api/v1/subscriptions").await;
        let shown: Value = serde_json::from_str(&shown).unwrap();
        assert_eq!(shown["subscriptions"], json!([]), "nothing is left behind");
    }
}
