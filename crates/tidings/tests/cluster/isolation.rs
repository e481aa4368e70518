//! A server of which there may be only one, while its replica is cut off.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::json;
use tidings_testkit::{Client, NatsServer, Server, V2025_11_25};

use crate::{Fleet, counting, replica_with};

/// How many processes of a server live.
fn alive(server: &Server) -> usize {
    server.processes().iter().filter(|process| process.alive).count()
}

/// Waits until so many processes of a server live.
async fn wait_alive(server: &Server, wanted: usize) {
    tidings_testkit::within(&format!("{wanted} processes"), async {
        while alive(server) != wanted {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

// cluster: on_isolation
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_stops_is_killed_when_its_replica_is_cut_off_and_never_runs_twice() {
    let Some(nats) = NatsServer::start() else { return };
    let url = nats.url();
    let only = Arc::new(counting("only").stdio().await);
    let kept = counting("kept").stdio().await;
    let begin = |name: &'static str| {
        let builder = replica_with(&url, name, "", &[("kept", &kept)]);
        builder.server_with("only", &only, "on_isolation = \"stop\"\n").serve()
    };
    let replicas = vec![begin("a").await, begin("b").await];
    let fleet = Fleet { nats, replicas };
    for gateway in &fleet.replicas {
        gateway.wait_server("only", "ready", |server| server["state"] == "ready").await;
        gateway.wait_server("kept", "ready", |server| server["state"] == "ready").await;
    }
    // Somebody looks all the time.
    let most = Arc::new(AtomicUsize::new(0));
    let (watched, seen) = (Arc::clone(&only), Arc::clone(&most));
    let watching = tokio::spawn(async move {
        loop {
            seen.fetch_max(alive(&watched), Ordering::Relaxed);
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    });

    fleet.nats.pause();
    wait_alive(&only, 0).await;
    assert_eq!(alive(&kept), 1, "one that is kept goes on");
    let owner = fleet.owner(0, "only").await;
    let why = |server: &serde_json::Value| server["error"].as_str().is_some_and(|error| error.contains("on_isolation"));
    fleet.replicas[owner].wait_server("only", "says why", why).await;
    fleet.nats.resume();
    wait_alive(&only, 1).await;

    // And when its owner is killed, the other one waits.
    let owner = fleet.owner(0, "only").await;
    fleet.replicas[owner].kill().await;
    wait_alive(&only, 0).await;
    wait_alive(&only, 1).await;
    let left = &fleet.replicas[1 - owner];
    left.wait_server("only", "ready", |server| server["state"] == "ready").await;
    let client = Client::legacy(left.url(), V2025_11_25, json!({})).await;
    client.request("tools/call", json!({ "name": "only__echo", "arguments": {} })).await.result();
    watching.abort();
    assert_eq!(most.load(Ordering::Relaxed), 1, "there was never a second one");
}
