//! Everything of a client goes when it goes.

use tidings_testkit::*;

use crate::*;

/// Waits until the server was told that nobody follows its resource any more.
async fn wait_released(gateway: &Gateway, server: &Server) {
    gateway.wait_metric("tidings_followed_resources", |count| count == 0.0).await;
    if server.count(SUBSCRIBE) > 0 {
        server.wait_for_method(UNSUBSCRIBE, server.count(SUBSCRIBE)).await;
    } else {
        let none_left = || async { server.resource_updated("file:///a") == 0 };
        eventually_true("the end of the listen", none_left).await;
    }
    assert_eq!(gateway.metric("tidings_resource_followers").await, Some(0.0));
}

async fn eventually_true<F: Future<Output = bool>>(what: &str, holds: impl Fn() -> F) {
    let wait = async {
        while !holds().await {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(10), wait).await.unwrap_or_else(|_| panic!("no {what}"));
}

// S1.1
#[tokio::test]
async fn a_server_is_released_when_the_last_client_is_gone() {
    for nth in 0..4 {
        let server = in_all_ways(three).await.remove(nth);
        let gateway = quick().server("one", &server).serve().await;
        let ended = Follower::of(gateway.client(), &["one+file:///a"]).await;
        let left = Follower::of(gateway.client().modern(), &["one+file:///a"]).await;
        let mut unsubscribed = Follower::of(gateway.client(), &["one+file:///a"]).await;
        assert_eq!(gateway.metric("tidings_resource_followers").await, Some(3.0));
        ended.client.delete().await;
        drop(left);
        gateway.wait_metric("tidings_resource_followers", |count| count == 1.0).await;
        update(&server, "file:///a");
        assert_eq!(unsubscribed.wait_nth(1).await, ["one+file:///a"], "who stays is told");
        unsubscribed.leave("one+file:///a", 0).await;
        wait_released(&gateway, &server).await;
        server.assert_clean();
    }
}

// S1.1
#[tokio::test]
async fn a_client_that_goes_before_it_is_answered_leaves_nothing_behind() {
    let gate = Gate::new();
    let server = three().hold(SUBSCRIBE, &gate).stdio().await;
    let gateway = quick().server("one", &server).serve().await;
    let legacy = Follower::new(gateway.client()).await;
    let asked = legacy.ask(&["one+file:///a"]);
    let modern = Follower::new(gateway.client().modern()).await;
    let listen = modern.ask(&["one+file:///a"]);
    gate.reached(1).await;
    gateway.wait_metric("tidings_resource_followers", |count| count == 2.0).await;
    drop(listen);
    legacy.client.cancel(&asked).await;
    gateway.wait_metric("tidings_resource_followers", |count| count == 0.0).await;
    gate.open();
    wait_released(&gateway, &server).await;
    server.assert_clean();
}

// S1.1
#[tokio::test]
async fn subscribing_twice_is_one_subscription_and_leaving_what_is_not_followed_is_no_error() {
    let server = three().http().await;
    let gateway = quick().server("one", &server).serve().await;
    let mut follower = Follower::of(gateway.client(), &["one+file:///a", "one+file:///a", "ONE+file:///b"]).await;
    update(&server, "file:///a");
    assert_eq!(follower.wait_nth(1).await, ["one+file:///a"]);
    update(&server, "file:///b");
    assert_eq!(follower.wait_nth(2).await[1], "ONE+file:///b", "as the client spells it");
    follower.leave("one+file:///a", 0).await;
    follower.leave("one+file:///a", 0).await;
    follower.leave("one+file:///b", 0).await;
    wait_released(&gateway, &server).await;
}
