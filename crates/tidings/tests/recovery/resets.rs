//! Connections that break now and then: each costs the call that it carried, and nobody else anything.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

/// Closes the connection of every so many requests, and counts.
fn hangs_up(builder: ServerBuilder, every: usize, closed: &Arc<AtomicUsize>) -> ServerBuilder {
    let (requests, closed) = (AtomicUsize::new(1), Arc::clone(closed));
    builder.on_http(move |received| {
        let at_risk = received.verb == "POST" && !matches!(&*received.method, "initialize" | "server/discover");
        (at_risk && requests.fetch_add(1, Ordering::Relaxed) % every == 0).then(|| {
            closed.fetch_add(1, Ordering::Relaxed);
            ScriptedAnswer::HangUp
        })
    })
}

// edges A3, G2
#[tokio::test(flavor = "multi_thread")]
async fn with_one_connection_in_a_hundred_broken_no_more_calls_fail_than_were_on_them() {
    const CLIENTS: usize = 20;
    const CALLS: usize = 100;
    for era in ["legacy", "modern"] {
        let (runs, closed) = (Runs::default(), Arc::default());
        let server = hangs_up(worker(&runs, &Gate::new()), 100, &closed);
        let server = if era == "modern" { server.modern_only() } else { server }.http().await;
        let gateway = Gateway::builder().server("one", &server).serve().await;
        let mut crowd = Vec::new();
        for number in 0..CLIENTS {
            let client = gateway.client();
            let client = if number % 2 == 0 { client } else { client.modern() }.connect().await;
            crowd.push(tokio::spawn(async move {
                let (mut failed, mut longest) = (0, Duration::ZERO);
                let mut since: Option<Instant> = None;
                for call in 0..CALLS {
                    let reply = client.call_tool("work", json!({"job": format!("{number}.{call}")})).await;
                    if worked(&reply) {
                        longest = longest.max(since.take().map_or(Duration::ZERO, |since| since.elapsed()));
                    } else {
                        failed += 1;
                        since.get_or_insert_with(Instant::now);
                    }
                }
                (failed, longest)
            }));
        }
        let (mut failed, mut longest) = (0, Duration::ZERO);
        for one in crowd {
            let (its, outage) = one.await.unwrap();
            (failed, longest) = (failed + its, longest.max(outage));
        }
        let injected = closed.load(Ordering::Relaxed);
        eprintln!("{era}: {failed} of {} calls failed, {injected} connections broken, {longest:?}", CLIENTS * CALLS);
        assert!(injected >= CLIENTS * CALLS / 100, "{era}: {injected}");
        assert!(failed * 2 <= injected * 3, "{era}: {failed} calls failed for {injected} broken connections");
        assert!(longest < Duration::from_secs(1), "{era}: {longest:?}");
        assert_eq!(server.received().iter().filter(|received| received.verb == "DELETE").count(), 0, "{era}");
        assert!(era == "modern" || server.initializes() == 1, "{era}: the session stays");
        runs.assert_none_ran_twice();
    }
}

/// A call that breaks while another runs, and while somebody follows: neither notices.
// edges A3
#[tokio::test]
async fn a_call_that_breaks_fails_alone_and_ends_no_session() {
    let (runs, gate, closed) = (Runs::default(), Gate::new(), Arc::default());
    let breaks = Arc::clone(&closed);
    let server = worker(&runs, &gate).on_http(move |received: &ReceivedMessage| {
        let breaks_here = received.param(&["arguments", "job"]) == "breaks";
        breaks_here.then(|| {
            AtomicUsize::fetch_add(&breaks, 1, Ordering::Relaxed);
            ScriptedAnswer::HangUp
        })
    });
    let server = server.http().await;
    let gateway = Gateway::builder().server("one", &server).serve().await;
    let client = gateway.client().connect().await;
    let running = client.start("tools/call", json!({"name": "work", "arguments": {"job": "long", "hold": true}}));
    gate.reached(1).await;
    for _ in 0..5 {
        let reply = client.call_tool("work", json!({"job": "breaks"})).await;
        assert_eq!(reply.error_code(), -32603, "{reply:?}");
        assert_eq!(gateway.server_status("one").await["state"], "ready", "a check was answered");
    }
    gate.open();
    assert_eq!(running.finish().await.text(), "long");
    assert_eq!(closed.load(Ordering::Relaxed), 5, "sent once each");
    assert_eq!(server.initializes(), 1);
    assert_eq!(server.received().iter().filter(|received| received.verb == "DELETE").count(), 0);
}
