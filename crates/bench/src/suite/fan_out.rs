//! Case 14: one resource, ten thousand subscribers, against a bare server that writes the same bytes to as many streams.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;
use tidings_testkit::Server;
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::task::JoinSet;

use super::BenchContext;
use super::listen::{each, listen, listen_bare};
use crate::error::BenchError;
use crate::fan::PUBLISH;
use crate::load::http::LoadConnection;
use crate::machine::resident_mb;
use crate::process::{GatewayProcess, PartProcess};
use crate::report::{BenchSample, ReportRow, RowMeasure, RowTarget, median};

const SUBSCRIBERS: usize = 10_000;
/// Changes in each repetition; the median counts.
const CHANGES: usize = 7;
const URI: &str = "file:///shared";
const IDLE: Duration = Duration::from_secs(2);
const WITHIN: Duration = Duration::from_secs(20);
/// Long enough for a second notification to show.
const AFTERWARDS: Duration = Duration::from_secs(1);
/// What every notice has in it, once.
const MARK: &[u8] = b"resources/updated";

/// Last delivery, and memory of each.
pub(super) async fn rows(bench: &BenchContext) -> [ReportRow; 2] {
    let (mut times, mut sizes) = (Vec::new(), Vec::new());
    let mut note = None;
    for repetition in 0..bench.repeat {
        eprintln!("fan-out … {}/{}", repetition + 1, bench.repeat);
        match measure(bench).await {
            Ok(FanOutResult { gateway, floor, kibibytes, all }) => {
                times.push(BenchSample { baseline: Some(floor), gateway: Some(gateway), full: all });
                sizes.push(BenchSample { baseline: None, gateway: Some(kibibytes), full: json!({ "kib": kibibytes }) });
            }
            Err(error) => note = Some(error.to_string()),
        }
    }
    let what = format!("1 change, {SUBSCRIBERS} subscriptions/listen: last delivery");
    let delivery =
        ReportRow::judge(14, what, RowMeasure::Milliseconds, RowTarget::RatioAtMost(2.0), times, note.clone());
    let what = format!("{SUBSCRIBERS} subscribers of one resource, each");
    [delivery, ReportRow::judge(14, what, RowMeasure::Kibibytes, RowTarget::KibibytesAtMost(16.0), sizes, note)]
}

struct FanOutResult {
    gateway: f64,
    floor: f64,
    kibibytes: f64,
    all: serde_json::Value,
}

async fn measure(bench: &BenchContext) -> Result<FanOutResult, BenchError> {
    // The gateway first: the floor writes the very bytes that the gateway wrote.
    let (event, gateway, kibibytes) = through_the_gateway(bench).await?;
    let floor = through_the_floor(&event).await?;
    let middle = |times: &[f64]| median(times.iter().copied()).unwrap_or(f64::NAN);
    Ok(FanOutResult {
        gateway: middle(&gateway),
        floor: middle(&floor),
        kibibytes,
        all: json!({ "gateway_ms": gateway, "floor_ms": floor, "event_bytes": event.len() }),
    })
}

/// One event as it was written, the times, and what each subscriber costs.
async fn through_the_gateway(bench: &BenchContext) -> Result<(Vec<u8>, Vec<f64>, f64), BenchError> {
    let server = Server::builder("shared").resource(URI, "x").modern_only().http().await;
    let config = format!("[notifications]\nresource_quiet = \"0ms\"\n[servers.shared]\n{}", server.toml());
    let gateway = GatewayProcess::start_ready(&bench.gateway, &config, bench.folder.path()).await?;
    let measured = measure_gateway(&gateway, &server).await;
    gateway.stop().await;
    measured
}

async fn measure_gateway(gateway: &GatewayProcess, server: &Server) -> Result<(Vec<u8>, Vec<f64>, f64), BenchError> {
    let filter = json!({ "resourceSubscriptions": [URI] }).to_string();
    let resident = || {
        let unreadable = || BenchError::unexpected("the kernel", "VmRSS of the gateway", b"");
        gateway.pid().and_then(resident_mb).ok_or_else(unreadable)
    };
    // Whatever the first subscription costs once is not a subscriber's.
    let first = listen(gateway.address, SUBSCRIBERS, &filter).await?;
    let before = resident()?;
    let mut streams = Vec::with_capacity(SUBSCRIBERS);
    for number in 0..SUBSCRIBERS {
        streams.push(listen(gateway.address, number, &filter).await?);
    }
    // Kept until the others are there, so that the subscription at the server does not end in between.
    drop(first);
    tokio::time::sleep(IDLE).await;
    let idle = resident()?;
    let crowd = FanOutCrowd::new(streams);
    let mut times = Vec::new();
    for change in 0..CHANGES {
        let since = Instant::now();
        server.resource_updated(URI);
        times.push(crowd.told(change + 1, since).await?);
    }
    // What telling them costs for good belongs to them too.
    let kibibytes = (resident()?.max(idle) - before) * 1024.0 / SUBSCRIBERS as f64;
    Ok((crowd.event(), times, kibibytes))
}

async fn through_the_floor(event: &[u8]) -> Result<Vec<f64>, BenchError> {
    let fan = PartProcess::start("fan", &[]).await?;
    let mut streams = Vec::with_capacity(SUBSCRIBERS);
    for number in 0..SUBSCRIBERS {
        streams.push(listen_bare(fan.address, &format!("data: {number}\n\n")).await?);
    }
    tokio::time::sleep(IDLE).await;
    let crowd = FanOutCrowd::new(streams);
    let mut publisher = LoadConnection::open(fan.address).await?;
    let mut times = Vec::new();
    for change in 0..CHANGES {
        let since = Instant::now();
        publish(&mut publisher, fan.address, event).await?;
        times.push(crowd.told(change + 1, since).await?);
    }
    Ok(times)
}

async fn publish(connection: &mut LoadConnection, to: SocketAddr, event: &[u8]) -> Result<(), BenchError> {
    let mut request =
        format!("POST {PUBLISH} HTTP/1.1\r\nhost: {to}\r\ncontent-length: {}\r\n\r\n", event.len()).into_bytes();
    request.extend_from_slice(event);
    connection.exchange(&request).await?;
    Ok(())
}

/// Everybody who reads, on tasks that end with it.
struct FanOutCrowd {
    told: Arc<TellingTimes>,
    _readers: JoinSet<()>,
}

#[derive(Default)]
struct TellingTimes {
    /// Notices of each reader.
    each: Vec<AtomicUsize>,
    all: AtomicUsize,
    wake: Notify,
    event: std::sync::OnceLock<Vec<u8>>,
}

impl FanOutCrowd {
    fn new(streams: Vec<TcpStream>) -> Self {
        let told = Arc::new(TellingTimes {
            each: streams.iter().map(|_| AtomicUsize::new(0)).collect(),
            ..TellingTimes::default()
        });
        let mut readers = JoinSet::new();
        for (reader, stream) in streams.into_iter().enumerate() {
            let told = Arc::clone(&told);
            readers.spawn(async move {
                each(stream, MARK, |received, notices| {
                    told.each[reader].fetch_add(notices, Ordering::Relaxed);
                    told.event.get_or_init(|| event_of(received));
                    let all = told.all.fetch_add(notices, Ordering::Relaxed) + notices;
                    // One wake-up per change; waking at each of ten thousand notices would be measured, too.
                    if all.is_multiple_of(SUBSCRIBERS) {
                        told.wake.notify_one();
                    }
                })
                .await;
            });
        }
        Self { told, _readers: readers }
    }

    /// The milliseconds until everybody has had this many notices, none more and none less.
    async fn told(&self, notices: usize, since: Instant) -> Result<f64, BenchError> {
        let all = async {
            while self.told.all.load(Ordering::Relaxed) < notices * SUBSCRIBERS {
                self.told.wake.notified().await;
            }
        };
        let _ = tokio::time::timeout(WITHIN, all).await;
        let took = since.elapsed().as_secs_f64() * 1e3;
        tokio::time::sleep(AFTERWARDS).await;
        let count = |fits: fn(usize, usize) -> bool| {
            self.told.each.iter().filter(|each| fits(each.load(Ordering::Relaxed), notices)).count()
        };
        let (missed, twice) = (count(|had, due| had < due), count(|had, due| had > due));
        if missed + twice > 0 {
            let got = format!("{missed} were told less often, {twice} more often");
            return Err(BenchError::unexpected("a change", "one notice for everybody", got.as_bytes()));
        }
        Ok(took)
    }

    fn event(&self) -> Vec<u8> {
        self.told.event.get().cloned().unwrap_or_default()
    }
}

/// The event in a chunk of a response, without the chunk's own frame.
fn event_of(received: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(received);
    let begin = text.find("data:").unwrap_or(0);
    let end = text[begin..].find("\n\n").map_or(text.len(), |end| begin + end + 2);
    text[begin..end].as_bytes().to_vec()
}
