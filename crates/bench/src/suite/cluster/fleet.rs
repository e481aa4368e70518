//! Replicas of one cluster, each a process, and the NATS server between them.

use std::time::{Duration, Instant};

use serde_json::Value;
use tidings_testkit::NatsServer;

use crate::error::BenchError;
use crate::load::http::LoadConnection;
use crate::process::GatewayProcess;
use crate::suite::BenchContext;

pub(super) const SECRET: &str = "0123456789abcdef0123456789abcdef";

const WITHIN: Duration = Duration::from_secs(30);
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// The replicas. The first one runs every server: it was there alone.
pub(super) struct BenchFleet {
    pub(super) replicas: Vec<GatewayProcess>,
}

impl BenchFleet {
    /// Starts a replica for each address of NATS, and waits until all know each other and the servers of the file.
    pub(super) async fn begin(bench: &BenchContext, nats: &[String], servers: &str) -> Result<Self, BenchError> {
        let mut fleet = Self { replicas: Vec::new() };
        for url in nats {
            fleet.join(bench, url, servers).await?;
        }
        fleet
            .wait("all replicas at the end of the log", |all| all.iter().all(|seen| is_settled(seen, nats.len())))
            .await?;
        Ok(fleet)
    }

    /// Starts one more replica, and waits until it is ready.
    pub(super) async fn join(&mut self, bench: &BenchContext, url: &str, servers: &str) -> Result<(), BenchError> {
        let config = format!(
            "[cluster]\nnats = {url:?}\nsecret = {SECRET:?}\nreplica = \"{}\"\n\
             [notifications]\nlist_quiet = \"0ms\"\n{servers}",
            name(self.replicas.len())
        );
        self.replicas.push(GatewayProcess::start_ready(&bench.gateway, &config, bench.folder.path()).await?);
        Ok(())
    }

    /// The same with three replicas and a server of NATS alone.
    pub(super) async fn three(bench: &BenchContext, nats: &NatsServer, servers: &str) -> Result<Self, BenchError> {
        Self::begin(bench, &[nats.url(), nats.url(), nats.url()], servers).await
    }

    /// The cluster as a replica sees it.
    pub(super) async fn seen_by(&self, place: usize) -> Result<Value, BenchError> {
        let replica = &self.replicas[place];
        let token =
            std::fs::read_to_string(replica.data.join("admin.token")).map_err(BenchError::io("reading the token"))?;
        let request = format!(
            "GET /api/v1/status HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {}\r\n\r\n",
            replica.address,
            token.trim()
        );
        let mut connection = LoadConnection::open(replica.address).await?;
        let answer = connection.exchange(request.as_bytes()).await?;
        let unreadable = || BenchError::unexpected("the API", "how the cluster is", answer.body);
        let status: Value = serde_json::from_slice(answer.body).map_err(|_| unreadable())?;
        Ok(status["cluster"].clone())
    }

    /// Waits until what all replicas see fits; gives the milliseconds that it took.
    pub(super) async fn wait(&self, what: &'static str, fits: impl Fn(&[Value]) -> bool) -> Result<f64, BenchError> {
        let begun = Instant::now();
        loop {
            let mut all = Vec::new();
            for place in 0..self.replicas.len() {
                all.push(self.seen_by(place).await?);
            }
            if fits(&all) {
                return Ok(begun.elapsed().as_secs_f64() * 1e3);
            }
            if begun.elapsed() > WITHIN {
                return Err(BenchError::unexpected("the cluster", what, Value::from(all).to_string().as_bytes()));
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    pub(super) async fn stop(self) {
        for replica in self.replicas {
            replica.stop().await;
        }
    }
}

/// What a replica is called.
pub(super) fn name(place: usize) -> &'static str {
    ["a", "b", "c"][place]
}

/// The replica that runs a server.
pub(super) fn owner<'a>(seen: &'a Value, server: &str) -> Option<&'a str> {
    let owns =
        |one: &&Value| one["servers"].as_array().is_some_and(|servers| servers.iter().any(|name| name == server));
    seen["replicas"].as_array()?.iter().find(owns)?["name"].as_str()
}

fn is_settled(seen: &Value, count: usize) -> bool {
    let replicas = seen["replicas"].as_array().map(Vec::as_slice).unwrap_or_default();
    // One that is killed before it beat again may have answered lists that nobody heard of, and all are told once more.
    let fits = |one: &Value| one["state"] == "connected" && one["applied"] == seen["head"];
    replicas.len() == count && replicas.iter().all(fits)
}
