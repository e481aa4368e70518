//! The load client: so many keep-alive connections, each sending its next request when the last is
//! answered. Written by hand on bare sockets, so that it costs little beside what it measures.

pub(crate) mod http;
pub(crate) mod request;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;

use crate::echo::EchoEra;
use crate::error::BenchError;
use crate::load::http::LoadConnection;
use crate::load::request::{LoadClient, LoadOperation};

/// Options of the `load` part.
#[derive(clap::Args)]
pub(crate) struct LoadOptions {
    /// The endpoint; its path is always /mcp.
    #[arg(long)]
    to: SocketAddr,
    /// The era the clients speak.
    #[arg(long, value_enum)]
    era: EchoEra,
    /// What they ask for.
    #[arg(long, value_enum, default_value = "call")]
    operation: LoadOperation,
    /// How many clients ask at once.
    #[arg(long, default_value_t = 16)]
    clients: usize,
    /// Seconds that count.
    #[arg(long, default_value_t = 4.0)]
    seconds: f64,
    /// Seconds before those.
    #[arg(long, default_value_t = 1.0)]
    warm_up: f64,
    /// Open no session: for an endpoint that answers everything alike.
    #[arg(long)]
    no_session: bool,
    /// A token to show with each request.
    #[arg(long)]
    bearer: Option<String>,
}

/// What one run of the load client saw.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct LoadReport {
    pub(crate) requests: usize,
    pub(crate) requests_per_second: f64,
    pub(crate) p50_us: f64,
    pub(crate) p99_us: f64,
}

/// Runs the loop and prints the report as one line of JSON.
pub(crate) async fn run(options: &LoadOptions) -> Result<(), BenchError> {
    let mut clients = Vec::with_capacity(options.clients);
    for _ in 0..options.clients {
        let connection = LoadConnection::open(options.to).await?;
        clients.push(if options.no_session {
            LoadClient::without_session(connection, options.era, "echo")
        } else {
            LoadClient::start_with_token(connection, options.era, "echo", options.bearer.as_deref()).await?
        });
    }

    // All sessions are open by now: a handshake is no part of a call.
    let counted_from = Instant::now() + Duration::from_secs_f64(options.warm_up);
    let until = counted_from + Duration::from_secs_f64(options.seconds);
    let mut running = JoinSet::new();
    for client in clients {
        running.spawn(ask_until(client, options.operation, counted_from, until));
    }
    let mut latencies = Vec::new();
    while let Some(finished) = running.join_next().await {
        let seen = finished.map_err(|source| BenchError::Io { doing: "running a client", source: source.into() })?;
        latencies.append(&mut seen?);
    }
    let report = LoadReport::of(latencies, options.seconds);
    println!("{}", serde_json::json!(report));
    Ok(())
}

async fn ask_until(
    mut client: LoadClient,
    operation: LoadOperation,
    counted_from: Instant,
    until: Instant,
) -> Result<Vec<Duration>, BenchError> {
    // Room for a usual run: growing the list would delay a request that is measured.
    let mut latencies = Vec::with_capacity(1 << 16);
    loop {
        let sent = Instant::now();
        client.ask(operation).await?;
        let answered = Instant::now();
        if answered >= until {
            return Ok(latencies);
        }
        // A request counts by when it was sent; one that began in the warm-up does not.
        if sent >= counted_from {
            latencies.push(answered - sent);
        }
    }
}

impl LoadReport {
    fn of(mut latencies: Vec<Duration>, seconds: f64) -> Self {
        latencies.sort_unstable();
        let at = |share: f64| {
            let last = latencies.len().saturating_sub(1);
            let index = (last as f64 * share).round() as usize;
            latencies.get(index).map_or(f64::NAN, |latency| latency.as_secs_f64() * 1e6)
        };
        Self {
            requests: latencies.len(),
            requests_per_second: latencies.len() as f64 / seconds,
            p50_us: at(0.50),
            p99_us: at(0.99),
        }
    }
}
