//! Replicas at a NATS server that does not let everybody in.

use std::time::Duration;

use serde_json::json;
use tidings_testkit::{CertificateAuthority, Client, Gateway, NatsOperator, NatsServer, V2025_11_25};

use crate::{counting, replica_with};

/// The cluster as a replica sees it, once it fits.
async fn cluster(gateway: &Gateway, fits: impl Fn(&serde_json::Value) -> bool) -> serde_json::Value {
    let deadline = tokio::time::Instant::now() + Duration::from_secs(30);
    loop {
        let (_, status) = gateway.api("GET", "/status", json!(null)).await;
        if fits(&status["cluster"]) {
            return status["cluster"].clone();
        }
        let log = gateway.stderr().dump();
        assert!(tokio::time::Instant::now() < deadline, "{status:#}\n{log}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

// cluster: an account of an operator, and certificates on both sides; what proves who they are is never logged.
#[tokio::test(flavor = "multi_thread")]
async fn replicas_come_in_with_credentials_over_tls() {
    let (authority, operator) = (CertificateAuthority::new(), NatsOperator::new());
    authority.issue("nats", "nats");
    authority.issue("replica", "replica");
    let path = |file: &str| authority.path(file);
    let settings = format!(
        "{}tls {{ cert_file: {:?}, key_file: {:?}, ca_file: {:?}, verify: true }}\n",
        operator.server_settings(),
        path("nats.pem"),
        path("nats.key"),
        path("ca.pem")
    );
    let Some(nats) = NatsServer::start_with(&settings) else { return };
    let (credentials, seed) = operator.credentials();
    std::fs::write(path("tidings.creds"), credentials).unwrap();
    let more = format!(
        "credentials = \"${{file:{}}}\"\ntls = {{ ca = {:?}, cert = {:?}, key = {:?} }}\n",
        path("tidings.creds").display(),
        path("ca.pem"),
        path("replica.pem"),
        path("replica.key")
    );
    let files = counting("files").stdio().await;
    let servers = [("files", &files)];
    let a = replica_with(&nats.url(), "a", &more, &servers).env("TIDINGS_LOG", "trace").serve().await;
    let b = replica_with(&nats.url(), "b", &more, &servers).env("TIDINGS_LOG", "trace").serve().await;
    for gateway in [&a, &b] {
        cluster(gateway, |cluster| {
            let replicas = cluster["replicas"].as_array().unwrap();
            replicas.len() == 2 && replicas.iter().all(|one| one["state"] == "connected")
        })
        .await;
        gateway.wait_server("files", "ready", |server| server["state"] == "ready").await;
        let client = Client::legacy(gateway.url(), V2025_11_25, json!({})).await;
        client.request("tools/call", json!({ "name": "echo", "arguments": {} })).await.result();
    }
    for gateway in [&a, &b] {
        let log = gateway.stderr().dump();
        assert!(!log.contains(&seed), "the seed is in the log");
    }
}

// cluster: who is not let in says why, in the log and to people, and never with what.
#[tokio::test(flavor = "multi_thread")]
async fn a_replica_whose_login_is_refused_says_so() {
    let users = "authorization { users = [{ user: anna, password: right }] }\n";
    let Some(nats) = NatsServer::start_with(users) else { return };
    let files = counting("files").stdio().await;
    let gateway = replica_with(&nats.url_with("anna:hunter2"), "a", "", &[("files", &files)]);
    let gateway = gateway.env("TIDINGS_LOG", "trace").without_waiting().serve().await;
    let shown = cluster(&gateway, |cluster| cluster["trouble"].is_string()).await;
    let trouble = shown["trouble"].as_str().unwrap();
    assert!(trouble.contains("NATS refused the login") && trouble.contains("`nats`"), "{trouble}");
    let log = gateway.stderr().dump();
    assert!(log.contains("NATS refused the login") && !log.contains("hunter2"), "{log}");
}
