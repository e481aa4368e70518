//! Changes while the gateway can not hear the server: found when it can again, or by asking.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::json;
use tidings_testkit::*;

use crate::{ListFollower, add, full, quick};

/// The answer of a server that has no stream, or not now.
fn refused(request: &ReceivedMessage, status: u16) -> Option<ScriptedAnswer> {
    (request.verb == "GET").then(|| ScriptedAnswer::Http { status, headers: Vec::new(), body: "no stream".into() })
}

// S3.2
#[tokio::test]
async fn what_a_legacy_server_says_while_its_stream_is_closed_is_not_missed() {
    let server = full().forgetful().http().await;
    let gateway = quick().server_with("one", &server, "poll_interval = \"1h\"").serve().await;
    let mut follower = ListFollower::begin(gateway.client().connect().await).await;
    let opened = || server.received().iter().filter(|request| request.verb == "GET").count();
    eventually("the stream", || (opened() == 1).then_some(())).await;
    add(&server, "prompts", "new");
    follower.expect(&["prompts"]).await;
    server.close_get_streams();
    add(&server, "tools", "new");
    // When it is open again, nobody repeats what was said in between.
    follower.expect(&["tools"]).await;
    assert_eq!(follower.client.names("tools").await, ["echo", "new"]);
    eventually("the stream again", || (opened() == 2).then_some(())).await;
    add(&server, "resources", "new");
    follower.expect(&["resources"]).await;
}

// S3.2
#[tokio::test]
async fn what_changes_before_the_stream_of_a_legacy_server_is_open_is_not_missed() {
    let blocked = Arc::new(AtomicBool::new(true));
    let blocks = Arc::clone(&blocked);
    // The stream fails to open at first, so the first lists are read without it.
    let server = full().forgetful().on_http(move |request| {
        let fails = blocks.load(Ordering::Relaxed);
        refused(request, 503).filter(|_| fails)
    });
    let server = server.http().await;
    let gateway = quick().server_with("one", &server, "poll_interval = \"1h\"").serve().await;
    let mut follower = ListFollower::begin(gateway.client().connect().await).await;
    add(&server, "tools", "new");
    blocked.store(false, Ordering::Relaxed);
    follower.expect(&["tools"]).await;
    assert_eq!(follower.client.names("tools").await, ["echo", "new"]);
}

// S3.3
#[tokio::test]
async fn a_legacy_server_without_a_stream_is_polled_whatever_it_declares() {
    let server = full().on_http(|request| refused(request, 405)).http().await;
    let gateway = quick().server_with("one", &server, "poll_interval = \"50ms\"").serve().await;
    let mut follower = ListFollower::begin(gateway.client().connect().await).await;
    for kind in ["tools", "prompts", "resources"] {
        add(&server, kind, "new");
        follower.expect(&[kind]).await;
    }
}

// S3.2; bridging 12
#[tokio::test]
async fn signals_about_other_lists_do_not_put_off_a_retry() {
    let server = full().stdio().await;
    let gateway = quick().server("one", &server).serve().await;
    let mut follower = ListFollower::begin(gateway.client().connect().await).await;
    server.fail_next("tools/list", 1);
    server.put_tool(Tool::text_tool("new", "new"));
    server.list_changed("tools");
    gateway.stderr().wait_for("the failure in the log", |line| line.contains("listing failed")).await;
    let noise = async {
        let mut beat = tokio::time::interval(Duration::from_millis(100));
        loop {
            beat.tick().await;
            server.list_changed("prompts");
        }
    };
    tokio::select! {
        () = noise => {}
        () = follower.expect(&["tools"]) => {}
    }
    assert_eq!(follower.client.names("tools").await, ["echo", "new"]);
}

// S3.3
#[tokio::test]
async fn polling_does_not_put_off_listening_again() {
    for server in [full().modern_only().stdio().await, full().modern_only().http().await] {
        let gateway = quick().server_with("one", &server, "poll_interval = \"100ms\"").serve().await;
        let mut follower = ListFollower::begin(gateway.client().modern().connect().await).await;
        server.wait_listening(1).await;
        server.end_listens();
        server.wait_listening(1).await;
        add(&server, "tools", "new");
        follower.expect(&["tools"]).await;
    }
}

/// Longer than a server that is asked again every second needs for a storm.
const WHILE: Duration = Duration::from_secs(6);

// S3.2
#[tokio::test]
async fn a_modern_server_that_ends_each_stream_at_once_is_listed_less_and_less() {
    let server = full().modern_only().on_raw("subscriptions/listen", |call| async move {
        let meta = json!({ "io.modelcontextprotocol/subscriptionId": call.id().as_u64() });
        let agreed = json!({ "notifications": { "toolsListChanged": true }, "_meta": meta });
        call.notify("notifications/subscriptions/acknowledged", agreed);
        call.ok(json!({ "_meta": meta }))
    });
    let server = server.http().await;
    let gateway = quick().server_with("one", &server, "poll_interval = \"1h\"").serve().await;
    tokio::time::sleep(WHILE).await;
    // After 1, 2 and 4 seconds.
    let (opened, listed) = (server.count("subscriptions/listen"), server.count("tools/list"));
    assert!((2..=4).contains(&opened), "{opened} streams");
    assert!(listed <= opened + 1, "listed {listed} times for {opened} streams");
    drop(gateway);
}

// S3.2
#[tokio::test]
async fn a_legacy_server_that_closes_each_stream_at_once_is_listed_less_and_less() {
    let closes = |request: &ReceivedMessage| {
        let headers = vec![("content-type".to_owned(), "text/event-stream".to_owned())];
        (request.verb == "GET").then(|| ScriptedAnswer::Http { status: 200, headers, body: "retry: 10\n\n".into() })
    };
    let server = full().on_http(closes).http().await;
    let gateway = quick().server_with("one", &server, "poll_interval = \"1h\"").serve().await;
    tokio::time::sleep(WHILE).await;
    let opened = server.received().iter().filter(|request| request.verb == "GET").count();
    let listed = server.count("tools/list");
    assert!((2..=5).contains(&opened), "{opened} streams");
    assert!(listed <= opened + 1, "listed {listed} times for {opened} streams");
    drop(gateway);
}
