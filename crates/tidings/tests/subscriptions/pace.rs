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
        // And no second one: what comes next is the next change.
        update(&server, "file:///b");
        for follower in [&legacy, &modern] {
            assert_eq!(follower.wait_nth(2).await, ["one+file:///a", "one+file:///b"]);
        }
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_millis(1_000) {
            update(&server, "file:///b");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let soon = legacy.told().len();
        let most = begun.elapsed().as_millis() / 300 + 1;
        for follower in [&legacy, &modern] {
            assert!(follower.told().len() > 2, "told before it went quiet");
            update(&server, "file:///a");
            follower.client.wait_for_method(UPDATED, soon + 1).await;
            let of_b = follower.told().iter().filter(|uri| *uri == "one+file:///b").count() - 1;
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
            let first = |r: &ReceivedMessage| r.is_notification(UPDATED) && uri_of(r) == "one+file:///0";
            slow.client.wait_for(first).await;
            for uri in &uris[1..] {
                update(&server, uri);
            }
            for uri in &shown {
                let fits = |r: &ReceivedMessage| r.is_notification(UPDATED) && uri_of(r) == *uri;
                slow.client.wait_for(fits).await;
            }
            assert!(slow.told().len() < 10_000, "{} notices of 20 resources", slow.told().len());
        }
    }
}

/// More than a queue of notices may grow, and less than one of all of them would.
const SLACK_KIB: u64 = 4 * 1024;
/// How long a busy machine may take for a hundred thousand changes.
const PATIENCE: Duration = Duration::from_secs(120);

// bridging 27
#[tokio::test]
async fn a_hundred_thousand_changes_of_what_a_legacy_client_does_not_read_cost_no_memory() {
    a_hundred_thousand_changes(0, &twenty().modern_only().http().await).await;
}

// bridging 27
#[tokio::test]
async fn a_hundred_thousand_changes_of_what_a_legacy_stdio_client_does_not_read_cost_no_memory() {
    a_hundred_thousand_changes(1, &twenty().stdio().await).await;
}

// bridging 27
#[tokio::test]
async fn a_hundred_thousand_changes_of_what_a_modern_client_does_not_read_cost_no_memory() {
    a_hundred_thousand_changes(2, &twenty().http().await).await;
}

// bridging 27
#[tokio::test]
async fn a_hundred_thousand_changes_of_what_a_modern_stdio_client_does_not_read_cost_no_memory() {
    a_hundred_thousand_changes(3, &twenty().modern_only().stdio().await).await;
}

/// And one more, for the end.
fn twenty() -> ServerBuilder {
    (0..21).fold(Server::builder("one"), |server, n| server.resource(&format!("file:///{n}"), "x"))
}

async fn a_hundred_thousand_changes(nth: usize, server: &Server) {
    let uris: Vec<String> = (0..21).map(|n| format!("file:///{n}")).collect();
    let shown: Vec<String> = uris.iter().map(|uri| format!("one+{uri}")).collect();
    let shown: Vec<&str> = shown.iter().map(String::as_str).collect();
    let config = QUICK.replace("20ms", "0ms").replace("200ms", "0ms");
    let gateway = Gateway::builder().toml(&config).server("one", server).serve().await;
    let slow = Follower::of(all_clients(&gateway).remove(nth), &shown).await;
    let on_stdio = nth % 2 == 1;
    // On stdio the client has a gateway of its own, and so has the one that reads.
    let reader = if on_stdio { gateway.stdio() } else { gateway.client() };
    let reader = Follower::of(reader, &["one+file:///19", "one+file:///20"]).await;
    let process = if on_stdio { slow.client.pid() } else { gateway.pid() };
    slow.client.pause_reading();
    storm(server, &uris[1..20], &reader).await;
    let warm = most_memory(process);
    update(server, "file:///0");
    for _ in 0..10 {
        storm(server, &uris[1..20], &reader).await;
    }
    // What a server says keeps its order: whoever is told of this has heard all before it.
    update(server, "file:///20");
    until_the_last(&reader).await;
    slow.client.resume_reading();
    until_the_last(&slow).await;
    // Also the first one, once, when nothing more could be written, and buried under 95,000 others. What is owed at the same time
    // has no order.
    for uri in &shown {
        let fits = |r: &ReceivedMessage| r.is_notification(UPDATED) && uri_of(r) == *uri;
        slow.client.wait_for(fits).await;
    }
    let most = most_memory(process);
    assert!(most < warm + SLACK_KIB, "{warm} KiB after 9,500 changes, {most} KiB after 104,500");
}

async fn until_the_last(follower: &Follower) {
    let begun = Instant::now();
    while !follower.told().iter().any(|uri| uri == "one+file:///20") {
        assert!(begun.elapsed() < PATIENCE, "the last change is not told");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// The most memory that a process ever had, in KiB.
fn most_memory(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
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
