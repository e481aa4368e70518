//! The streams on which a legacy client is told: which of several, and what one that comes back is given.

use tidings_testkit::*;

use crate::*;

async fn subscribe(client: &Client, uri: &str) {
    client.request(SUBSCRIBE, json!({ "uri": uri })).await.result();
}

// edges C1, bridging 34
#[tokio::test]
async fn when_the_newest_stream_closes_the_one_before_is_told() {
    let server = three().http().await;
    let gateway = quick().server("one", &server).serve().await;
    let client = gateway.client().connect().await;
    let mut oldest = client.open_get().await;
    subscribe(&client, "one+file:///a").await;
    for _ in 0..3 {
        let mut newest = client.open_get().await;
        update(&server, "file:///a");
        newest.next_method(UPDATED).await;
        drop(newest);
        // Until the gateway has seen that it is gone, it may be given something; the next one is not.
        let told = client.count(UPDATED);
        let told_oldest = oldest.so_far().before_with(UPDATED).len();
        let next = async {
            loop {
                update(&server, "file:///a");
                tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            }
        };
        tokio::select! {
            _ = oldest.next_method(UPDATED) => {}
            () = next => {}
        }
        let all = oldest.so_far().before_with(UPDATED).len() - told_oldest;
        assert_eq!(client.count(UPDATED) - told, all, "and nothing is told on two streams");
    }
    // Lists, too.
    server.put_resource(Resource::resource("file:///new", "new"));
    server.list_changed("resources");
    oldest.next_method("notifications/resources/list_changed").await;
}

// edges C2, S1.3, bridging 18
#[tokio::test]
async fn what_was_kept_of_a_resource_is_not_given_after_its_unsubscription() {
    for server in in_all_ways(three).await {
        let gateway = quick().server("one", &server).serve().await;
        let client = gateway.client().connect().await;
        let mut stream = client.open_get().await;
        subscribe(&client, "one+file:///a").await;
        subscribe(&client, "one+file:///b").await;
        update(&server, "file:///b");
        stream.next_method(UPDATED).await;
        let last = stream.last_event_id().unwrap().to_owned();
        update(&server, "file:///a");
        stream.next_method(UPDATED).await;
        drop(stream);
        client.request(UNSUBSCRIBE, json!({"uri": "one+file:///a"})).await.result();
        update(&server, "file:///b");
        let mut stream = client.resume(&last).await;
        assert_eq!(uri_of(&stream.next_method(UPDATED).await), "one+file:///b", "not the one that was kept");
    }
}

// edges C3
#[tokio::test]
async fn an_event_id_that_is_ahead_of_the_stream_costs_no_notice() {
    let server = three().stdio().await;
    let gateway = quick().server("one", &server).serve().await;
    for ahead in ["0-1000", "0-18446744073709551615", "7-3"] {
        let client = gateway.client().connect().await;
        let mut stream = client.resume(ahead).await;
        subscribe(&client, "one+file:///a").await;
        for _ in 0..2 {
            update(&server, "file:///a");
            assert_eq!(uri_of(&stream.next_method(UPDATED).await), "one+file:///a");
        }
    }
}

// S1.3, bridging 18: what a slow reader gets, it gets before the answer to its unsubscription.
#[tokio::test]
async fn who_reads_slowly_is_told_nothing_after_the_end_of_its_subscription() {
    for server in in_all_ways(three).await {
        let gateway = quick().server("one", &server).serve().await;
        let witness = Follower::of(gateway.client(), &["one+file:///a"]).await;
        let slow = Follower::of(gateway.stdio(), &["one+file:///a", "one+file:///b"]).await;
        slow.client.pause_reading();
        for round in 1..4 {
            update(&server, "file:///a");
            witness.wait_nth(round).await;
        }
        let ended = slow.client.start(UNSUBSCRIBE, json!({"uri": "one+file:///a"}));
        update(&server, "file:///a");
        witness.wait_nth(4).await;
        update(&server, "file:///b");
        slow.client.resume_reading();
        let id = ended.id().clone();
        slow.wait("one+file:///b").await;
        let all = slow.client.received();
        let answered = all.iter().position(|r| r.is_response() && r.id.as_ref() == Some(&id)).unwrap();
        let late = all[answered..].iter().filter(|r| r.is_notification(UPDATED)).map(uri_of);
        assert!(late.into_iter().all(|uri| uri == "one+file:///b"), "{all:?}");
    }
}

// edges C1, A5
#[tokio::test]
async fn a_change_that_a_server_says_on_the_stream_of_a_call_is_told_though_nobody_waits_for_the_call() {
    let about = |uri: &str| json!({ "uri": uri });
    let script = || {
        three()
            // Goes on after it was cancelled, as servers may.
            .tool("late", move |call| async move {
                call.progress(1);
                call.cancelled().await;
                call.notify(UPDATED, about("file:///a"));
                call.ok_text("late")
            })
            // A request of the gateway's own.
            .on_raw("prompts/list", move |call| async move {
                call.notify(UPDATED, about("file:///b"));
                call.result_raw(r#"{"prompts":[]}"#)
            })
            .prompt("p", |call| async move { call.ok_text("p") })
    };
    let server = script().http().await;
    let gateway = quick().server("one", &server).serve().await;
    let client = gateway.client().connect().await;
    let mut told = client.open_get().await;
    subscribe(&client, "one+file:///a").await;
    subscribe(&client, "one+file:///b").await;
    server.wait_for_method(SUBSCRIBE, 2).await;
    let call = json!({"name": "one__late", "arguments": {}, "_meta": {"progressToken": "late"}});
    let mut pending = client.start("tools/call", call);
    // From here on the gateway has the stream of the call; of one that was cancelled before that there is nothing to read on.
    pending.next_method("notifications/progress").await;
    client.cancel(&pending).await;
    assert_eq!(told.next_method(UPDATED).await.params()["uri"], "one+file:///a");
    server.list_changed("prompts");
    assert_eq!(told.next_method(UPDATED).await.params()["uri"], "one+file:///b");
}
