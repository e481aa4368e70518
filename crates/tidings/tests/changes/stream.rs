//! `GET /api/v1/changes/stream`.

use serde_json::json;

use crate::{Feed, add, full, quick, request};

// S4.4
#[tokio::test]
async fn a_stream_resumes_without_gap_or_duplicate() {
    let server = full().stdio().await;
    let gateway = quick().server("one", &server).serve().await;
    let mut witness = Feed::all(&gateway).await;
    let mut seen = Vec::new();
    let mut last = 0_u64;
    for round in 0..4 {
        let resumed = request(&gateway, "/changes/stream").header("last-event-id", last.to_string());
        let mut feed = Feed::open(resumed).await;
        // One is live; the other happens while nobody is there, and is replayed next time.
        for part in ["live", "missed"] {
            if round > 0 && part == "live" {
                let replayed = feed.next().await;
                seen.push(replayed["added"][0].clone());
            }
            add(&server, &format!("{part}{round}"));
            let told = witness.next().await;
            if part == "live" {
                let record = feed.next().await;
                assert_eq!(record, told);
                seen.push(record["added"][0].clone());
                last = record["seq"].as_u64().unwrap();
                // The connection breaks here.
                feed = Feed::open(request(&gateway, "/changes/stream")).await;
            }
        }
    }
    let expected: Vec<_> =
        (0..4).flat_map(|round| [json!(format!("live{round}")), json!(format!("missed{round}"))]).collect();
    assert_eq!(seen, expected[..7]);
}

// S4.4
#[tokio::test]
async fn without_a_beginning_a_stream_begins_with_now() {
    let server = full().stdio().await;
    let gateway = quick().server("one", &server).serve().await;
    let mut witness = Feed::all(&gateway).await;
    add(&server, "old");
    let old = witness.next().await;
    let mut now = Feed::open(request(&gateway, "/changes/stream")).await;
    let since = format!("/changes/stream?since={}", old["time"].as_str().unwrap());
    let mut from_time = Feed::open(request(&gateway, &since)).await;
    let mut far = Feed::open(request(&gateway, "/changes/stream?since=2999-01-01T00:00:00Z")).await;
    let mut ahead = Feed::open(request(&gateway, "/changes/stream").header("last-event-id", "999")).await;
    add(&server, "new");
    assert_eq!(from_time.next().await, old);
    for feed in [&mut now, &mut from_time, &mut far, &mut ahead] {
        assert_eq!(feed.next().await["added"], json!(["new"]));
    }
}

// S4.4
#[tokio::test]
async fn streams_end_with_the_gateway() {
    let server = full().stdio().await;
    let gateway = quick().server("one", &server).serve().await;
    let mut feeds = [Feed::all(&gateway).await, Feed::open(request(&gateway, "/changes/stream")).await];
    gateway.begin_terminate();
    for feed in &mut feeds {
        assert!(feed.next_event().await.is_none());
    }
    assert!(gateway.wait_exit().await.success());
}

// S4.4; architecture invariant 5
#[tokio::test]
async fn a_reader_that_does_not_read_costs_only_itself_and_misses_nothing() {
    let server = full().stdio().await;
    let gateway = quick().server("one", &server).serve().await;
    let mut lazy = Feed::all(&gateway).await;
    let mut eager = Feed::all(&gateway).await;
    // More than the sockets between them hold: every record has eight large texts, before and after.
    let long = "word ".repeat(3_000);
    const ROUNDS: usize = 60;
    for round in 0..ROUNDS {
        for tool in 0..8 {
            server.put_tool(crate::described(&format!("t{tool}"), &format!("{round} {long}")));
        }
        server.list_changed("tools");
        assert_eq!(eager.next().await["seq"], json!(round + 1));
    }
    for round in 0..ROUNDS {
        assert_eq!(lazy.next().await["seq"], json!(round + 1));
    }
}
