//! The feed outlives the gateway.

use serde_json::json;

use crate::{Feed, add, full, get, quick, request};

// S4.4, S4.6
#[tokio::test]
async fn the_feed_goes_on_after_an_end_and_after_a_crash() {
    let server = full().stdio().await;
    let mut gateway = quick().server("one", &server).serve().await;
    let mut last = 0;
    for round in 0..4_u64 {
        let resumed = request(&gateway, "/changes/stream").header("last-event-id", last.to_string());
        let mut feed = Feed::open(resumed).await;
        add(&server, &format!("t{round}"));
        let record = feed.next().await;
        assert_eq!((&record["seq"], &record["added"]), (&json!(round + 1), &json!([format!("t{round}")])));
        last = round + 1;
        if round % 2 == 0 {
            assert!(gateway.terminate().await.success());
        } else {
            gateway.kill().await;
        }
        gateway = gateway.again().await;
        let (_, body) = get(&gateway, "/changes").await;
        assert_eq!(body["last"], json!(last));
        assert_eq!(body["changes"].as_array().unwrap().len() as u64, last);
    }
}

// S4.4
#[tokio::test]
async fn a_second_process_on_the_data_directory_runs_without_the_store_and_says_so() {
    let server = full().stdio().await;
    let gateway = quick().server("one", &server).serve().await;
    let mut feed = Feed::all(&gateway).await;
    let client = gateway.stdio().connect().await;
    client.stderr().wait_for("a word about the store", |line| line.contains("another process keeps the store")).await;
    add(&server, "new");
    assert_eq!(feed.next().await["added"], json!(["new"]));
    client.wait_for_method("notifications/tools/list_changed", 2).await;
    client.close_stdin();
    assert!(client.wait_exit().await.success());
    add(&server, "newer");
    assert_eq!(feed.next().await["seq"], json!(2), "only the gateway's own changes are in its log");
}

// S4.4
#[tokio::test]
async fn a_broken_store_is_moved_aside_and_the_gateway_runs() {
    let server = full().stdio().await;
    let gateway = quick().server("one", &server).serve().await;
    let mut feed = Feed::all(&gateway).await;
    add(&server, "before");
    feed.next().await;
    gateway.terminate().await;
    std::fs::write(gateway.data().join("tidings.redb"), "no database").unwrap();
    let gateway = gateway.again().await;
    gateway.stderr().wait_for("a report", |line| line.contains("the store was broken")).await;
    let mut feed = Feed::open(request(&gateway, "/changes/stream").header("last-event-id", "1")).await;
    add(&server, "after");
    let record = feed.next().await;
    assert_eq!(record["added"], json!(["after"]));
    assert!(record["seq"].as_u64() > Some(1));
}
