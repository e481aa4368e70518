//! Many changes, few notices; and readers that do not read.

use std::time::{Duration, Instant};

use tidings_testkit::*;

use crate::*;

// S1.4, bridging 19
#[tokio::test]
async fn many_changes_are_one_notice_and_a_resource_that_never_rests_is_told_of_in_time() {
    for server in in_all_ways(three).await {
        let config = QUICK.replace("20ms", "100ms").replace("200ms", "300ms");
        let gateway = Gateway::builder().toml(&config).server("one", &server).serve().await;
        let legacy = Follower::of(gateway.client(), &["one+file:///a", "one+file:///b"]).await;
        let modern = Follower::of(gateway.client().modern(), &["one+file:///a", "one+file:///b"]).await;
        for _ in 0..100 {
            update(&server, "file:///a");
        }
        for follower in [&legacy, &modern] {
            assert_eq!(follower.wait_nth(1).await, ["one+file:///a"]);
        }
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_millis(1_000) {
            update(&server, "file:///b");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let soon = legacy.told().len();
        let most = begun.elapsed().as_millis() / 300 + 1;
        for follower in [&legacy, &modern] {
            assert!(follower.told().len() > 1, "told before it went quiet");
            update(&server, "file:///a");
            follower.client.wait_for_method(UPDATED, soon + 1).await;
            let of_b = follower.told().iter().filter(|uri| *uri == "one+file:///b").count();
            assert!(of_b as u128 <= most + 1, "{of_b} notices in {:?}", begun.elapsed());
        }
    }
}

// bridging 27
#[tokio::test]
async fn who_does_not_read_costs_nothing_and_is_told_of_everything_later() {
    let uris: Vec<String> = (0..20).map(|n| format!("file:///{n}")).collect();
    let build = || uris.iter().fold(Server::builder("one"), |server, uri| server.resource(uri, "x"));
    let shown: Vec<String> = uris.iter().map(|uri| format!("one+{uri}")).collect();
    let shown: Vec<&str> = shown.iter().map(String::as_str).collect();
    for server in [build().stdio().await, build().modern_only().http().await] {
        for nth in 0..4 {
            let config = QUICK.replace("20ms", "0ms").replace("200ms", "0ms");
            let gateway = Gateway::builder().toml(&config).server("one", &server).serve().await;
            let reader = Follower::of(gateway.client(), &["one+file:///19"]).await;
            let slow = Follower::of(all_clients(&gateway).remove(nth), &shown).await;
            slow.client.pause_reading();
            storm(&server, &uris[1..], &reader).await;
            // Once, when nothing more can be written; and then it is buried under the others.
            update(&server, "file:///0");
            storm(&server, &uris[1..], &reader).await;
            slow.client.resume_reading();
            let first = |r: &Received| r.is_notification(UPDATED) && uri_of(r) == "one+file:///0";
            slow.client.wait_for(first).await;
            for uri in &uris[1..] {
                update(&server, uri);
            }
            for uri in &shown {
                let fits = |r: &Received| r.is_notification(UPDATED) && uri_of(r) == *uri;
                slow.client.wait_for(fits).await;
            }
            assert!(slow.told().len() < 10_000, "{} notices of 20 resources", slow.told().len());
        }
    }
}

/// 9,500 changes; whoever reads is told of the last resource again and again.
async fn storm(server: &Server, uris: &[String], reader: &Follower) {
    for round in 0..500 {
        for uri in uris {
            server.resource_updated(uri);
        }
        if round % 5 == 4 {
            tokio::task::yield_now().await;
        }
        if round % 50 == 49 {
            reader.client.wait_for_method(UPDATED, reader.told().len() + 1).await;
        }
    }
}
