//! Requests that nobody waits for any more: bounded while they run, forgotten when their time is over.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tidings_testkit::*;

fn value_of(gateway: &Gateway, line: &str) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{}/status", gateway.pid())).unwrap();
    let line = status.lines().find(|l| l.starts_with(line)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

async fn in_flight(status: &Client) -> usize {
    let body = status.send_http("GET", "", &[]).await.body;
    let status: Value = serde_json::from_str(&body).unwrap_or_else(|e| panic!("{e}: {body}"));
    status["requests_in_flight"].as_u64().unwrap() as usize
}

/// A server that never answers, and counts what it got and what was taken back.
#[derive(Clone, Default)]
struct Void {
    arrived: Arc<AtomicUsize>,
    cancelled: Arc<AtomicUsize>,
}

impl Void {
    async fn start(&self) -> Server {
        let void = self.clone();
        let tool = move |call: ScriptedCall| {
            let void = void.clone();
            async move {
                void.arrived.fetch_add(1, Ordering::SeqCst);
                call.cancelled().await;
                void.cancelled.fetch_add(1, Ordering::SeqCst);
                ScriptedAnswer::Silent
            }
        };
        Server::builder("void").tool("void", tool).stdio().await
    }

    async fn wait(&self, what: &str, counter: &AtomicUsize, count: usize) {
        eventually(&format!("{count} {what}"), || (counter.load(Ordering::SeqCst) >= count).then_some(())).await;
    }
}

/// How many may be in flight: what memory they leave behind depends on how many there were at a time, and that must not
/// depend on how busy the machine is.
const AT_A_TIME: usize = 2_000;

/// Requests that nobody waits for any more, on connections that are gone.
async fn abandon(clients: &[Client], void: &Void, status: &Client, count: usize) {
    for batch in 0..count / 250 {
        while in_flight(status).await > AT_A_TIME - 250 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let before = void.arrived.load(Ordering::SeqCst);
        let client = &clients[batch % clients.len()];
        let pending: Vec<_> = (0..250).map(|_| client.start("tools/call", json!({"name": "void"}))).collect();
        void.wait("arrivals", &void.arrived, before + 250).await;
        drop(pending);
    }
}

async fn wait_idle(status: &Client) {
    within("the end of all requests", async {
        while in_flight(status).await > 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
}

async fn status_of(gateway: &Gateway) -> Client {
    let token = std::fs::read_to_string(gateway.data().join("admin.token")).unwrap();
    let url = format!("{}/api/v1/status", gateway.base_url());
    Client::http(url).raw().header("authorization", &format!("Bearer {token}")).connect().await
}

// S2.5
#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_abandoned_requests_are_bounded_and_then_forgotten() {
    let void = Void::default();
    let server = void.start().await;
    let gateway = Gateway::builder().server("void", &server).toml("[gateway]\ntimeout = \"1s\"").serve().await;
    let mut clients = Vec::new();
    for _ in 0..20 {
        clients.push(gateway.client().connect().await);
    }
    let status = status_of(&gateway).await;
    let mut memory = vec![value_of(&gateway, "VmRSS")];
    let mut total = 0;
    for wave in [10_000, 5_000] {
        abandon(&clients, &void, &status, wave).await;
        wait_idle(&status).await;
        total += wave;
        void.wait("cancellations", &void.cancelled, total).await;
        memory.push(value_of(&gateway, "VmRSS"));
    }
    assert!(memory[1] < memory[0] + 80_000, "kB: {memory:?}");
    assert!(memory[2] < memory[1] + 20_000, "kB: {memory:?}");
}

// S2.5
#[tokio::test(flavor = "multi_thread")]
async fn one_client_alone_gets_no_further_than_its_bound() {
    let void = Void::default();
    let server = void.start().await;
    let gateway = Gateway::builder().server("void", &server).serve().await;
    let status = status_of(&gateway).await;
    let (greedy, other) = (gateway.client().connect().await, gateway.client().connect().await);
    let start = |client: &Client| client.start("tools/call", json!({"name": "void"}));
    let running: Vec<_> = (0..1_024).map(|_| start(&greedy)).collect();
    void.wait("arrivals", &void.arrived, 1_024).await;
    for _ in 0..50 {
        let text = start(&greedy).finish().await.error()["message"].to_string();
        assert!(text.contains("too many requests in flight"), "{text}");
    }
    let patient = start(&other);
    void.wait("arrivals", &void.arrived, 1_025).await;
    assert_eq!(in_flight(&status).await, 1_025);
    // Everything of a client goes with it.
    assert_eq!(greedy.delete().await, 204);
    void.wait("cancellations", &void.cancelled, 1_024).await;
    assert_eq!((in_flight(&status).await, void.arrived.load(Ordering::SeqCst)), (1, 1_025));
    drop((running, patient));
}

/// The memory of a process, in kB.
fn memory_of(pid: u32) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|l| l.starts_with("VmRSS")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

// S2.5; edges B1: the server never answers, so every one of them stays something that it may still speak about.
#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_thousand_cancelled_requests_leave_nothing_that_grows() {
    const ALL: usize = 100_000;
    const BATCH: usize = 500;
    let void = Void::default();
    let server = void.start().await;
    let client = Gateway::builder().server("void", &server).stdio().connect().await;
    let mut memory = Vec::new();
    for batch in 1..=ALL / BATCH {
        let pending: Vec<_> = (0..BATCH).map(|_| client.start("tools/call", json!({"name": "void"}))).collect();
        void.wait("arrivals", &void.arrived, batch * BATCH).await;
        for call in &pending {
            client.cancel(call).await;
        }
        void.wait("cancellations", &void.cancelled, batch * BATCH).await;
        server.record().clear();
        if (batch * BATCH).is_multiple_of(20_000) {
            memory.push(memory_of(client.pid()));
        }
    }
    assert_eq!(void.cancelled.load(Ordering::SeqCst), ALL);
    // The first fifth fills every table that there is.
    assert!(memory[4] < memory[0] + 20_000, "kB: {memory:?}");
    assert_eq!(client.request("ping", json!({})).await.result(), json!({}));
    eprintln!("kB after every 20,000: {memory:?}");
}
