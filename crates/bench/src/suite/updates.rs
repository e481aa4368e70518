//! Case 15: many resources, many more updates. What is kept is bounded by the subscriptions, also for those who do not read.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::json;
use tidings_testkit::Server;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::BenchContext;
use super::listen::{each, listen};
use crate::error::BenchError;
use crate::machine::resident_mb;
use crate::process::GatewayProcess;
use crate::report::{BenchSample, ReportRow, RowMeasure, RowTarget};

const CLIENTS: usize = 100;
/// Of each client, and nobody else's.
const URIS: usize = 100;
/// Updates of every resource: the first is the baseline.
const ROUNDS: usize = 10;
/// Every so-manieth client does not read, until the end.
const STALLED: usize = 4;
const WITHIN: Duration = Duration::from_secs(60);

/// Memory after 100,000 updates against memory after 10,000.
pub(super) async fn row(bench: &BenchContext) -> ReportRow {
    let mut samples = Vec::new();
    let mut note = None;
    for repetition in 0..bench.repeat {
        eprintln!("updates … {}/{}", repetition + 1, bench.repeat);
        match measure(bench).await {
            Ok(after) => samples.push(BenchSample {
                baseline: after.first().copied(),
                gateway: after.last().copied(),
                full: json!({ "resident_mb": after }),
            }),
            Err(error) => note = Some(error.to_string()),
        }
    }
    let what = format!(
        "{} resources over {CLIENTS} clients: memory after {} and {} updates",
        CLIENTS * URIS,
        CLIENTS * URIS,
        CLIENTS * URIS * ROUNDS
    );
    ReportRow::judge(15, what, RowMeasure::Megabytes, RowTarget::RatioAtMost(1.1), samples, note)
}

/// Memory after each round.
async fn measure(bench: &BenchContext) -> Result<Vec<f64>, BenchError> {
    let server = Server::builder("many").template("file:///{path}", |_| Some("x".to_owned())).http().await;
    let config = format!("[notifications]\nresource_quiet = \"0ms\"\n[servers.many]\n{}", server.toml());
    let gateway = GatewayProcess::start_ready(&bench.gateway, &config, bench.folder.path()).await?;
    let measured = measure_running(&gateway, &server).await;
    gateway.stop().await;
    measured
}

fn uris() -> impl Iterator<Item = String> {
    (0..CLIENTS).flat_map(uris_of)
}

fn uris_of(client: usize) -> impl Iterator<Item = String> {
    (0..URIS).map(move |number| format!("file:///{client}/{number}"))
}

async fn measure_running(gateway: &GatewayProcess, server: &Server) -> Result<Vec<f64>, BenchError> {
    let mut streams = Vec::with_capacity(CLIENTS);
    for client in 0..CLIENTS {
        let filter = json!({ "resourceSubscriptions": uris_of(client).collect::<Vec<_>>() }).to_string();
        streams.push(listen(gateway.address, client, &filter).await?);
    }
    let heard: Heard = Arc::default();
    let mut readers = JoinSet::new();
    let mut stalled = Vec::new();
    for (client, stream) in streams.into_iter().enumerate() {
        match client % STALLED {
            0 => stalled.push((client, stream)),
            _ => drop(readers.spawn(hear(client, stream, Arc::clone(&heard)))),
        }
    }
    let reading = CLIENTS - stalled.len();
    let mut after = Vec::new();
    for _ in 0..ROUNDS {
        // Each round has to be heard by itself: a notice of the round before does not count.
        heard.lock().unwrap_or_else(PoisonError::into_inner).clear();
        for uri in uris() {
            if server.resource_updated(&uri) == 0 {
                return Err(BenchError::unexpected("the server", "a subscription to each resource", uri.as_bytes()));
            }
        }
        all_heard(&heard, reading * URIS).await?;
        let unreadable = || BenchError::unexpected("the kernel", "VmRSS of the gateway", b"");
        after.push(gateway.pid().and_then(resident_mb).ok_or_else(unreadable)?);
    }
    // Whoever did not read finds everything of its own when it does.
    heard.lock().unwrap_or_else(PoisonError::into_inner).clear();
    let late = stalled.len();
    for (client, stream) in stalled {
        readers.spawn(hear(client, stream, Arc::clone(&heard)));
    }
    all_heard(&heard, late * URIS).await?;
    Ok(after)
}

/// The URIs that were announced to the client they belong to.
type Heard = Arc<Mutex<HashSet<String>>>;

async fn hear(client: usize, stream: TcpStream, heard: Heard) {
    let mark = format!(r#""uri":"file:///{client}/"#);
    each(stream, mark.as_bytes(), |received, _| {
        let text = String::from_utf8_lossy(received);
        let numbers = text.split(&mark).skip(1).filter_map(|rest| rest.split('"').next());
        heard.lock().unwrap_or_else(PoisonError::into_inner).extend(numbers.map(|number| format!("{client}/{number}")));
    })
    .await;
}

async fn all_heard(heard: &Heard, wanted: usize) -> Result<(), BenchError> {
    let since = Instant::now();
    loop {
        let so_far = heard.lock().unwrap_or_else(PoisonError::into_inner).len();
        if so_far >= wanted {
            return Ok(());
        }
        if since.elapsed() > WITHIN {
            let got = format!("{so_far} of {wanted}");
            return Err(BenchError::unexpected("a round", "a notice of each resource", got.as_bytes()));
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
