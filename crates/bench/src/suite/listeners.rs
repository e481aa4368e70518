//! Case 10: thousands of clients that listen, and one change for all of them.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::json;
use tidings_testkit::{Server, Tool};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::BenchContext;
use super::listen::each;
use crate::error::BenchError;
use crate::machine::resident_mb;
use crate::process::GatewayProcess;
use crate::report::{BenchSample, ReportRow, RowMeasure, RowTarget};

const LISTENERS: usize = 5_000;
const IDLE: Duration = Duration::from_secs(2);
/// The lists they are told of.
const FILTER: &str = r#"{"toolsListChanged":true}"#;
const WITHIN: Duration = Duration::from_secs(20);
/// Long enough for a second notification to show.
const AFTERWARDS: Duration = Duration::from_secs(2);

/// Resident memory of each, and whether one change reaches all of them once.
pub(super) async fn row(bench: &BenchContext) -> ReportRow {
    let mut samples = Vec::new();
    let mut note = None;
    for repetition in 0..bench.repeat {
        eprintln!("listeners … {}/{}", repetition + 1, bench.repeat);
        match measure(bench).await {
            Ok(measured) => {
                if measured.reached != LISTENERS || measured.notices != LISTENERS {
                    let ListenersResult { reached, notices, .. } = measured;
                    note = Some(format!("{reached} of {LISTENERS} were told, {notices} times"));
                }
                samples.push(BenchSample {
                    baseline: None,
                    gateway: Some(measured.kibibytes),
                    full: json!({ "reached": measured.reached, "last_ms": measured.last_ms }),
                });
            }
            Err(error) => note = Some(error.to_string()),
        }
    }
    let what = format!("{LISTENERS} idle subscriptions/listen, each");
    ReportRow::judge(10, what, RowMeasure::Kibibytes, RowTarget::KibibytesAtMost(16.0), samples, note)
}

struct ListenersResult {
    kibibytes: f64,
    reached: usize,
    notices: usize,
    last_ms: f64,
}

async fn measure(bench: &BenchContext) -> Result<ListenersResult, BenchError> {
    let server = Server::builder("changing").echo("echo").modern_only().http().await;
    let config = format!("[servers.changing]\n{}", server.toml());
    let gateway = GatewayProcess::start_ready(&bench.gateway, &config, bench.folder.path()).await?;
    let measured = measure_running(&gateway, &server).await;
    gateway.stop().await;
    measured
}

async fn measure_running(gateway: &GatewayProcess, server: &Server) -> Result<ListenersResult, BenchError> {
    let resident = || {
        let unreadable = || BenchError::unexpected("the kernel", "VmRSS of the gateway", b"");
        gateway.pid().and_then(resident_mb).ok_or_else(unreadable)
    };
    server.wait_listening(1).await;
    // Whatever a first connection costs once is not a listener's.
    drop(listen(gateway.address, 0).await?);
    let before = resident()?;
    let mut streams = Vec::with_capacity(LISTENERS);
    for number in 0..LISTENERS {
        streams.push(listen(gateway.address, number).await?);
    }
    tokio::time::sleep(IDLE).await;
    let kibibytes = (resident()? - before) * 1024.0 / LISTENERS as f64;

    let counts = Arc::new((AtomicUsize::new(0), AtomicUsize::new(0)));
    let mut readers = JoinSet::new();
    for stream in streams {
        readers.spawn(count(stream, Arc::clone(&counts)));
    }
    let started = tokio::time::Instant::now();
    server.put_tool(Tool::text_tool("changing", "now"));
    server.list_changed("tools");
    let all = async {
        while counts.0.load(Ordering::Relaxed) < LISTENERS {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    let _ = tokio::time::timeout(WITHIN, all).await;
    let last_ms = started.elapsed().as_secs_f64() * 1e3;
    tokio::time::sleep(AFTERWARDS).await;
    let (reached, notices) = (counts.0.load(Ordering::Relaxed), counts.1.load(Ordering::Relaxed));
    Ok(ListenersResult { kibibytes, reached, notices, last_ms })
}

/// Opens a stream on which the tools are announced, and reads its acknowledgement.
pub(super) async fn listen(to: SocketAddr, number: usize) -> Result<TcpStream, BenchError> {
    super::listen::listen(to, number, FILTER).await
}

/// Counts the notifications of a stream: streams that had one, and all of them.
pub(super) async fn count(stream: TcpStream, counts: Arc<(AtomicUsize, AtomicUsize)>) {
    let mut first = true;
    each(stream, b"tools/list_changed", |_, notices| {
        if std::mem::take(&mut first) {
            counts.0.fetch_add(1, Ordering::Relaxed);
        }
        counts.1.fetch_add(notices, Ordering::Relaxed);
    })
    .await;
}
