//! What happens while a server can not be heard: its content decides.

use tidings_testkit::*;

use crate::*;

fn changing(content: &Content) -> ServerBuilder {
    Server::builder("one").entry_resource(resource("file:///a", content)).resource("file:///b", "b")
}

async fn read(follower: &Follower) {
    follower.client.request("resources/read", json!({"uri": "one+file:///a"})).await.result();
}

/// Waits until what is followed is subscribed again.
async fn wait_subscribed(gateway: &Gateway, server: &Server, before: usize) {
    gateway.wait_server("one", "ready", |status| status["state"] == "ready").await;
    let again = || server.count(SUBSCRIBE) + listened(server).len() > before;
    tidings_testkit::eventually("a new subscription", || again().then_some(())).await;
    tidings_testkit::eventually("a server that tells", || (server.resource_updated("file:///b") > 0).then_some(()))
        .await;
}

// S1.8, bridging 23
#[tokio::test]
async fn after_a_gap_the_content_decides_whether_there_is_something_to_tell() {
    let content = Content::default();
    for server in in_all_ways(|| changing(&content)).await {
        *content.lock().unwrap() = "before".to_owned();
        let gateway = quick().server("one", &server).serve().await;
        let followers = [
            Follower::of(gateway.client(), &["one+file:///a", "one+file:///b"]).await,
            Follower::of(gateway.client().modern(), &["one+file:///a", "one+file:///b"]).await,
        ];
        // Nobody reads /b, and still its content is known.
        read(&followers[0]).await;
        server.wait_for(|r| r.method == "resources/read" && r.param(&["uri"]) == "file:///b").await;
        let asked = server.count(SUBSCRIBE) + listened(&server).len();
        server.kill().await;
        server.revive().await;
        wait_subscribed(&gateway, &server, asked).await;
        for follower in &followers {
            // What the server said when it was there again is all that is told.
            assert_eq!(follower.wait("one+file:///b").await, ["one+file:///b"], "the same content is no news");
        }
        let before: Vec<usize> = followers.iter().map(|follower| follower.told().len()).collect();
        server.kill().await;
        *content.lock().unwrap() = "after".to_owned();
        server.revive().await;
        for (follower, before) in followers.iter().zip(before) {
            let of_a = |r: &ReceivedMessage| r.is_notification(UPDATED) && uri_of(r) == "one+file:///a";
            follower.client.record().wait_for_nth("news of the other content", 1, of_a).await;
            assert!(follower.told().len() > before);
        }
        // And it goes on.
        let told = followers[0].told().len();
        tidings_testkit::eventually("a server that tells", || (server.resource_updated("file:///a") > 0).then_some(()))
            .await;
        followers[0].wait_nth(told + 1).await;
    }
}

// S1.8, bridging 23: the session holds, only the stream on which the server speaks was away.
#[tokio::test]
async fn what_a_forgetful_server_said_while_its_stream_was_closed_is_found_out() {
    let content = Content::default();
    let server = changing(&content).forgetful().http().await;
    let gateway = quick().server("one", &server).serve().await;
    let follower = Follower::of(gateway.client(), &["one+file:///a"]).await;
    read(&follower).await;
    server.close_get_streams();
    *content.lock().unwrap() = "meanwhile".to_owned();
    server.resource_updated("file:///a");
    assert_eq!(follower.wait("one+file:///a").await, ["one+file:///a"]);
    assert_eq!(server.count(SUBSCRIBE), 1, "the subscription stood");
}

// S1.8
#[tokio::test]
async fn a_listen_that_a_server_ends_is_opened_again_and_nothing_is_missed() {
    for on_http in [false, true] {
        let content = Content::default();
        let server = changing(&content).modern_only();
        let server = if on_http { server.http().await } else { server.stdio().await };
        let gateway = quick().server("one", &server).serve().await;
        let follower = Follower::of(gateway.client(), &["one+file:///a"]).await;
        read(&follower).await;
        server.end_listens();
        *content.lock().unwrap() = "meanwhile".to_owned();
        assert_eq!(follower.wait("one+file:///a").await, ["one+file:///a"]);
        assert_eq!(listened(&server).len(), 2);
    }
}

// Issue 4: legacy clients over HTTP that come back with the last event's id miss nothing.
#[tokio::test]
async fn a_client_whose_stream_broke_is_told_when_it_comes_back() {
    for server in in_all_ways(three).await {
        let gateway = quick().server("one", &server).serve().await;
        let client = gateway.client().connect().await;
        let mut stream = client.open_get().await;
        client.request(SUBSCRIBE, json!({"uri": "one+file:///a"})).await.result();
        client.request(SUBSCRIBE, json!({"uri": "one+file:///b"})).await.result();
        update(&server, "file:///a");
        stream.next_method(UPDATED).await;
        let last = stream.last_event_id().unwrap().to_owned();
        drop(stream);
        update(&server, "file:///b");
        gateway.wait_metric("tidings_updates_received_total{server=\"one\"}", |count| count >= 2.0).await;
        let mut stream = client.resume(&last).await;
        let told = stream.next_method(UPDATED).await;
        assert_eq!(uri_of(&told), "one+file:///b");
    }
}
