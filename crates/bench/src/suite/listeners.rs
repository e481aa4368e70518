//! Case 10: thousands of clients that listen, and one change for all of them.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use memchr::memmem;
use serde_json::json;
use tidings_testkit::{Server, Tool};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::Bench;
use crate::echo::MODERN_REVISION;
use crate::error::BenchError;
use crate::machine::resident_mb;
use crate::process::Gateway;
use crate::report::{Measure, Row, Sample, Target};

const LISTENERS: usize = 5_000;
const IDLE: Duration = Duration::from_secs(2);
const WITHIN: Duration = Duration::from_secs(20);
/// Long enough for a second notification to show.
const AFTERWARDS: Duration = Duration::from_secs(2);

/// Resident memory of each, and whether one change reaches all of them once.
pub(super) async fn row(bench: &Bench) -> Row {
    let mut samples = Vec::new();
    let mut note = None;
    for repetition in 0..bench.repeat {
        eprintln!("listeners … {}/{}", repetition + 1, bench.repeat);
        match measure(bench).await {
            Ok(measured) => {
                if measured.reached != LISTENERS || measured.notices != LISTENERS {
                    let Measured { reached, notices, .. } = measured;
                    note = Some(format!("{reached} of {LISTENERS} were told, {notices} times"));
                }
                samples.push(Sample {
                    baseline: None,
                    gateway: Some(measured.kibibytes),
                    full: json!({ "reached": measured.reached, "last_ms": measured.last_ms }),
                });
            }
            Err(error) => note = Some(error.to_string()),
        }
    }
    let what = format!("{LISTENERS} idle subscriptions/listen, each");
    Row::judge(10, what, Measure::Kibibytes, Target::KibibytesAtMost(16.0), samples, note)
}

struct Measured {
    kibibytes: f64,
    reached: usize,
    notices: usize,
    last_ms: f64,
}

async fn measure(bench: &Bench) -> Result<Measured, BenchError> {
    let server = Server::builder("changing").echo("echo").modern_only().http().await;
    let config = format!("[servers.changing]\n{}", server.toml());
    let gateway = Gateway::start_ready(&bench.gateway, &config, bench.folder.path()).await?;
    let measured = measure_running(&gateway, &server).await;
    gateway.stop().await;
    measured
}

async fn measure_running(gateway: &Gateway, server: &Server) -> Result<Measured, BenchError> {
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
    Ok(Measured { kibibytes, reached, notices, last_ms })
}

/// Opens a stream and reads its acknowledgement.
pub(super) async fn listen(to: SocketAddr, number: usize) -> Result<TcpStream, BenchError> {
    let doing = BenchError::io("opening a listener");
    let open = async {
        let mut stream = TcpStream::connect(to).await?;
        let body = format!(
            r#"{{"jsonrpc":"2.0","id":{number},"method":"subscriptions/listen","params":{{"_meta":{{"io.modelcontextprotocol/protocolVersion":"{MODERN_REVISION}","io.modelcontextprotocol/clientCapabilities":{{}}}},"notifications":{{"toolsListChanged":true}}}}}}"#
        );
        let request = format!(
            "POST /mcp HTTP/1.1\r\nhost: {to}\r\ncontent-type: application/json\r\n\
             accept: application/json, text/event-stream\r\nmcp-protocol-version: {MODERN_REVISION}\r\n\
             mcp-method: subscriptions/listen\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(request.as_bytes()).await?;
        let mut received = Vec::new();
        while memmem::find(&received, b"subscriptions/acknowledged").is_none() {
            if stream.read_buf(&mut received).await? == 0 {
                let text = String::from_utf8_lossy(&received).into_owned();
                return Err(std::io::Error::other(format!("no acknowledgement: {text}")));
            }
        }
        Ok(stream)
    };
    tokio::time::timeout(WITHIN, open).await.unwrap_or_else(|_| Err(std::io::ErrorKind::TimedOut.into())).map_err(doing)
}

/// Counts the notifications of a stream: streams that had one, and all of them.
pub(super) async fn count(mut stream: TcpStream, counts: Arc<(AtomicUsize, AtomicUsize)>) {
    let mut received = Vec::new();
    let mut seen = 0;
    while stream.read_buf(&mut received).await.is_ok_and(|read| read > 0) {
        let now = memmem::find_iter(&received, b"tools/list_changed").count();
        if now > seen && seen == 0 {
            counts.0.fetch_add(1, Ordering::Relaxed);
        }
        counts.1.fetch_add(now - seen, Ordering::Relaxed);
        seen = now;
    }
}
