//! Several replicas on a real NATS server: one owner per server, the truth once, and no call twice.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod access;
mod approvals;
mod direct;
mod doctor;
mod forwarding;
mod isolation;
mod lists;
mod logins;
mod ownership;
mod placement;
mod registry;
mod seated_watches;
mod sessions;
mod storm;
mod watches;

use std::time::Duration;

use serde_json::{Value, json};
use tidings_testkit::{Gateway, GatewayBuilder, NatsServer, Server, ServerBuilder};

const SECRET: &str = "0123456789abcdef0123456789abcdef";

/// Replicas of one cluster, and the bus between them.
struct Fleet {
    nats: NatsServer,
    replicas: Vec<Gateway>,
}

/// A server with one tool that counts by being called.
fn counting(name: &str) -> ServerBuilder {
    Server::builder(name)
        .echo("echo")
        .prompt("p", |call| async move { call.ok_message("hi") })
        .resource("file:///r", "r")
}

async fn replica(nats: &NatsServer, name: &str, servers: &[(&str, &Server)]) -> Gateway {
    replica_with(&nats.url(), name, "", servers).serve().await
}

/// A replica with more keys in `[cluster]`, or other sections after it.
fn replica_with(url: &str, name: &str, more: &str, servers: &[(&str, &Server)]) -> GatewayBuilder {
    let cluster = format!("[cluster]\nnats = {url:?}\nsecret = {SECRET:?}\nreplica = {name:?}\n{more}");
    let mut builder = Gateway::builder().quick().toml(&cluster).env("RUST_LOG", "info");
    for (name, server) in servers {
        builder = builder.server(name, server);
    }
    builder
}

impl Fleet {
    /// Starts replicas, and waits until all know each other and every server has an owner.
    async fn begin(count: usize, servers: &[(&str, &Server)]) -> Option<Self> {
        let nats = NatsServer::start()?;
        let names = ["a", "b", "c"];
        let starting = names[..count].iter().map(|name| replica(&nats, name, servers));
        let replicas = futures_util::future::join_all(starting).await;
        let fleet = Self { nats, replicas };
        fleet.settle(&servers.iter().map(|(name, _)| *name).collect::<Vec<_>>()).await;
        Some(fleet)
    }

    /// Waits until all know each other and every server has an owner.
    async fn settle(&self, servers: &[&str]) {
        let count = self.replicas.len();
        for place in 0..count {
            self.wait(place, "all are there", |cluster| {
                let replicas = cluster["replicas"].as_array().unwrap();
                let owned: usize = replicas.iter().map(|one| one["servers"].as_array().unwrap().len()).sum();
                let connected = replicas.iter().filter(|one| one["state"] == "connected").count();
                // Nobody knows what one that is killed answered after its last beat, and so all would be told once more of what came later.
                let applied = replicas.iter().all(|one| one["applied"] == cluster["head"]);
                connected == count && owned == servers.len() && applied
            })
            .await;
            for name in servers {
                self.replicas[place].wait_server(name, "ready", |server| server["state"] == "ready").await;
            }
        }
    }

    /// The cluster as a replica sees it.
    async fn cluster(&self, place: usize) -> Value {
        let (code, status) = self.replicas[place].api("GET", "/status", json!(null)).await;
        assert_eq!(code, 200, "{status}");
        status["cluster"].clone()
    }

    async fn wait(&self, place: usize, what: &str, fits: impl Fn(&Value) -> bool) -> Value {
        let deadline = tokio::time::Instant::now() + Duration::from_secs(30);
        loop {
            let cluster = self.cluster(place).await;
            if fits(&cluster) {
                return cluster;
            }
            let log = self.replicas[place].stderr().dump();
            assert!(tokio::time::Instant::now() < deadline, "{what}: {cluster:#}\n{log}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// The place of the replica that runs a server, as this one sees it.
    async fn owner(&self, place: usize, server: &str) -> usize {
        let cluster = self.cluster(place).await;
        let owner = owner_in(&cluster, server).unwrap_or_else(|| panic!("nobody runs {server}: {cluster:#}"));
        ["a", "b", "c"].iter().position(|name| *name == owner).unwrap()
    }
}

/// The replica that runs a server.
fn owner_in(cluster: &Value, server: &str) -> Option<String> {
    let replicas = cluster["replicas"].as_array()?;
    let owns = |one: &&Value| one["servers"].as_array().is_some_and(|servers| servers.contains(&json!(server)));
    Some(replicas.iter().find(owns)?["name"].as_str()?.to_owned())
}
