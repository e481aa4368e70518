//! Sessions with connections of their own follow over those, and never over somebody else's.

use tidings_testkit::*;

use crate::*;

// S1.1, S1.5
#[tokio::test]
async fn a_session_with_a_connection_of_its_own_follows_over_that_one() {
    for on_http in [false, true] {
        let server = if on_http { three().http().await } else { three().stdio().await };
        let toml = format!("[servers.one]\n{}isolation = \"session\"\n", server.toml());
        let gateway = quick().toml(&toml).serve().await;
        let first = Follower::of(gateway.client(), &["one+file:///a"]).await;
        let second = Follower::of(gateway.client(), &["one+file:///a"]).await;
        let shared = Follower::of(gateway.client().modern(), &["one+file:///a"]).await;
        let asked: Vec<usize> =
            server.received().iter().filter(|r| r.method == SUBSCRIBE).map(|r| r.connection).collect();
        assert_eq!(asked.len(), 3, "each on its own: {asked:?}");
        if !on_http {
            assert!(asked[0] != asked[1] && asked[1] != asked[2] && asked[0] != asked[2], "{asked:?}");
        }
        assert_eq!(server.resource_updated("file:///a"), 3);
        for follower in [&first, &second, &shared] {
            assert_eq!(follower.wait_nth(1).await, ["one+file:///a"]);
        }
        first.client.delete().await;
        drop(first);
        tidings_testkit::eventually("the end of its connection", || {
            (server.resource_updated("file:///a") == 2).then_some(())
        })
        .await;
        gateway.wait_metric("tidings_resource_followers", |count| count == 2.0).await;
    }
}

// S1.8
#[tokio::test]
async fn the_lost_connection_of_a_session_is_made_again_for_what_it_follows() {
    let content = Content::default();
    let server = Server::builder("one").entry_resource(resource("file:///a", &content)).stdio().await;
    let toml = format!("[servers.one]\n{}isolation = \"session\"\n", server.toml());
    let gateway = quick().toml(&toml).serve().await;
    let follower = Follower::of(gateway.client(), &["one+file:///a"]).await;
    follower.client.request("resources/read", json!({"uri": "one+file:///a"})).await.result();
    server.kill().await;
    *content.lock().unwrap() = "meanwhile".to_owned();
    server.revive().await;
    assert_eq!(follower.wait_nth(1).await, ["one+file:///a"]);
}
