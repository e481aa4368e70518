//! Where servers run: by their labels, and not where they do not start.

use serde_json::{Value, json};
use tidings_testkit::{Client, NatsServer, TempDir, V2025_11_25};

use crate::{Fleet, counting, owner_in, replica_with};

fn labels(labels: &[&str]) -> String {
    format!("labels = {labels:?}\n")
}

// cluster: a server asks for what its replica must have, and says so where none has it.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_runs_only_where_its_labels_are() {
    let Some(nats) = NatsServer::start() else { return };
    let url = nats.url();
    let (model, plain) = (counting("model").stdio().await, counting("plain").stdio().await);
    let begin = |name: &'static str, has: &[&str]| {
        let more = labels(has);
        let builder = replica_with(&url, name, &more, &[("plain", &plain)]);
        builder.server_with("model", &model, "placement = [\"gpu\", \"fast\"]\n").without_waiting().serve()
    };
    // Neither of them has both.
    let replicas = vec![begin("a", &["gpu"]).await, begin("b", &["fast"]).await];
    let mut fleet = Fleet { nats, replicas };
    for gateway in &fleet.replicas {
        gateway.wait_server("plain", "ready", |server| server["state"] == "ready").await;
        let says = |server: &Value| {
            let error = server["error"].as_str().unwrap_or_default();
            server["state"] == "failing" && error.contains("no replica has all of its `placement` (\"fast\", \"gpu\")")
        };
        gateway.wait_server("model", "says that it can not run", says).await;
    }
    let said = fleet.replicas[0].command(&["servers"]).await;
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    assert!(said.contains("no replica has all of its `placement`"), "{said}");
    assert!(model.processes().is_empty(), "it was started");

    // One comes that has; the others are told of it.
    fleet.replicas.push(begin("c", &["fast", "gpu", "more"]).await);
    for place in 0..3 {
        fleet.wait(place, "c runs it", |cluster| owner_in(cluster, "model").as_deref() == Some("c")).await;
        fleet.replicas[place].wait_server("model", "ready", |server| server["state"] == "ready").await;
        let client = Client::legacy(fleet.replicas[place].url(), V2025_11_25, json!({})).await;
        client.request("tools/call", json!({ "name": "model__echo", "arguments": {} })).await.result();
    }
}

// cluster: a program that is missing on one machine is not missing on all.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_does_not_start_at_its_owner_moves() {
    let Some(nats) = NatsServer::start() else { return };
    let url = nats.url();
    let files = counting("files").stdio().await;
    // The same command everywhere, and a folder that only some of them have.
    let folder = TempDir::new();
    let (program, args) = files.command();
    let script = folder.write(
        "start.sh",
        format!("#!/bin/sh\ntest -e {}/$WHERE || exit 3\nexec {program} {}\n", folder.path().display(), args[0]),
    );
    let begin = |name: &'static str| {
        let server = format!("[servers.files]\ncommand = \"sh\"\nargs = [{script:?}]\ninherit_env = [\"WHERE\"]\n");
        replica_with(&url, name, &server, &[]).env("WHERE", name).without_waiting().serve()
    };
    folder.write("b", "");
    let mut fleet = Fleet { nats, replicas: Vec::new() };
    fleet.replicas.push(begin("a").await);
    // With nobody else there it stays, and is tried again.
    for nth in 1..=2 {
        fleet.replicas[0].stderr().wait_for_nth("an attempt", nth, |line| line.contains("server failed")).await;
    }
    assert_eq!(fleet.owner(0, "files").await, 0);

    fleet.replicas.push(begin("b").await);
    for place in 0..2 {
        fleet.wait(place, "b runs it", |cluster| owner_in(cluster, "files").as_deref() == Some("b")).await;
        fleet.replicas[place].wait_server("files", "ready", |server| server["state"] == "ready").await;
        let client = Client::legacy(fleet.replicas[place].url(), V2025_11_25, json!({})).await;
        client.request("tools/call", json!({ "name": "echo", "arguments": {} })).await.result();
    }
    assert_eq!(files.processes().len(), 1, "it was started once where it can run");
}
