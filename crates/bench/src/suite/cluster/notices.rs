//! Three replicas with thousands of clients: how soon all of them are told of a change, and whether what they then read anywhere has it.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use memchr::memmem;
use serde_json::json;
use tidings_testkit::{NatsServer, Server, Tool};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::task::JoinSet;

use super::fleet::BenchFleet;
use crate::echo::EchoEra;
use crate::error::BenchError;
use crate::load::http::LoadConnection;
use crate::load::request::LoadClient;
use crate::report::{BenchSample, ReportRow, RowMeasure, RowTarget};
use crate::suite::BenchContext;
use crate::suite::listen::{each, listen};

/// Listeners at each replica.
const CROWD: usize = 1_000;
/// Changes that all of them are told of, in each repetition.
const CHANGES: usize = 10;
/// Listeners at each replica that list elsewhere as soon as they are told.
const READERS: usize = 100;
/// So that each repetition has ten thousand lists.
const READ_CHANGES: usize = 34;
const WITHIN: Duration = Duration::from_secs(20);
/// Long enough for a second notice to show.
const AFTERWARDS: Duration = Duration::from_millis(300);
const FILTER: &str = r#"{"toolsListChanged":true}"#;
const MARK: &[u8] = b"tools/list_changed";

/// Case 33: from a server's word that its tools changed to the notice at the client.
pub(super) async fn delivery(bench: &BenchContext) -> ReportRow {
    let (mut samples, mut note) = (Vec::new(), None);
    for repetition in 0..bench.repeat {
        eprintln!("a change for 3 × {CROWD} clients … {}/{}", repetition + 1, bench.repeat);
        match measure_delivery(bench).await {
            Ok(sample) => samples.extend(sample),
            Err(error) => note = Some(error.to_string()),
        }
    }
    let what = format!("cluster: 1 change, 3 × {CROWD} clients: signal to notice, p99");
    ReportRow::judge(33, what, RowMeasure::Milliseconds, RowTarget::MillisecondsAtMost(100.0), samples, note)
}

/// Case 34: lists at another replica, asked as soon as a notice came, that do not have what it was about.
pub(super) async fn stale(bench: &BenchContext) -> ReportRow {
    let (mut samples, mut note) = (Vec::new(), None);
    eprintln!("lists at another replica after a notice …");
    match measure_stale(bench).await {
        Ok(sample) => samples.extend(sample),
        Err(error) => note = Some(error.to_string()),
    }
    let lists = 3 * READERS * READ_CHANGES;
    let what = format!("cluster: stale ones of {lists} lists at another replica after a notice");
    ReportRow::judge(34, what, RowMeasure::Count, RowTarget::CountAtMost(0.0), samples, note)
}

/// A server whose only tool tells its version.
async fn changing() -> Server {
    let server = Server::builder("changing").modern_only().http().await;
    set_version(&server, 0);
    server
}

fn set_version(server: &Server, version: usize) {
    server.set_tools(vec![Tool::text_tool(&tool(version), "changing")]);
}

fn tool(version: usize) -> String {
    format!("v{version}")
}

async fn measure_delivery(bench: &BenchContext) -> Result<Option<BenchSample>, BenchError> {
    let server = changing().await;
    let Some(nats) = NatsServer::start() else { return Ok(None) };
    let servers = format!("[servers.changing]\n{}", server.toml());
    let fleet = BenchFleet::three(bench, &nats, &servers).await?;
    server.wait_listening(1).await;
    let mut streams = Vec::new();
    for number in 0..CROWD {
        for replica in &fleet.replicas {
            streams.push(listen(replica.address, number, FILTER).await?);
        }
    }
    let crowd = ToldCrowd::new(streams);
    let mut times = Vec::new();
    for version in 1..=CHANGES {
        set_version(&server, version);
        let begun = Instant::now();
        server.list_changed("tools");
        times.extend(crowd.told(version, begun).await?);
    }
    fleet.stop().await;
    times.sort_by(f64::total_cmp);
    let at = |share: f64| times[((times.len() - 1) as f64 * share).round() as usize];
    Ok(Some(BenchSample {
        baseline: None,
        gateway: Some(at(0.99)),
        full: json!({ "notices": times.len(), "p50_ms": at(0.5), "p99_ms": at(0.99), "last_ms": at(1.0) }),
    }))
}

/// Everybody who listens, on tasks that end with it.
struct ToldCrowd {
    told: Arc<ToldTimes>,
    _readers: JoinSet<()>,
}

struct ToldTimes {
    /// Notices of each reader.
    each: Vec<AtomicUsize>,
    /// When those of the last change came.
    last: Mutex<Vec<Instant>>,
    wake: Notify,
}

impl ToldCrowd {
    fn new(streams: Vec<TcpStream>) -> Self {
        let each_one = streams.iter().map(|_| AtomicUsize::new(0)).collect();
        let told = Arc::new(ToldTimes { each: each_one, last: Mutex::default(), wake: Notify::new() });
        let mut readers = JoinSet::new();
        for (reader, stream) in streams.into_iter().enumerate() {
            let told = Arc::clone(&told);
            readers.spawn(async move {
                each(stream, MARK, |_, notices| {
                    told.each[reader].fetch_add(notices, Ordering::Relaxed);
                    let mut last = told.last.lock().unwrap_or_else(PoisonError::into_inner);
                    last.push(Instant::now());
                    if last.len() >= told.each.len() {
                        told.wake.notify_one();
                    }
                })
                .await;
            });
        }
        Self { told, _readers: readers }
    }

    /// The milliseconds until each has had this many notices, none more and none less.
    async fn told(&self, notices: usize, begun: Instant) -> Result<Vec<f64>, BenchError> {
        let came = || self.told.last.lock().unwrap_or_else(PoisonError::into_inner).len();
        let all = async {
            while came() < self.told.each.len() {
                self.told.wake.notified().await;
            }
        };
        let _ = tokio::time::timeout(WITHIN, all).await;
        tokio::time::sleep(AFTERWARDS).await;
        let count = |fits: fn(usize, usize) -> bool| {
            self.told.each.iter().filter(|each| fits(each.load(Ordering::Relaxed), notices)).count()
        };
        let (missed, twice) = (count(|had, due| had < due), count(|had, due| had > due));
        if missed + twice > 0 {
            let got = format!("{missed} were told less often, {twice} more often");
            return Err(BenchError::unexpected("a change", "one notice for everybody", got.as_bytes()));
        }
        let times = std::mem::take(&mut *self.told.last.lock().unwrap_or_else(PoisonError::into_inner));
        Ok(times.into_iter().map(|at| at.duration_since(begun).as_secs_f64() * 1e3).collect())
    }
}

async fn measure_stale(bench: &BenchContext) -> Result<Option<BenchSample>, BenchError> {
    let server = changing().await;
    let Some(nats) = NatsServer::start() else { return Ok(None) };
    let servers = format!("[servers.changing]\n{}", server.toml());
    let fleet = BenchFleet::three(bench, &nats, &servers).await?;
    server.wait_listening(1).await;
    let counts = Arc::new(ReadCounts::default());
    let mut readers = JoinSet::new();
    for number in 0..READERS * 3 {
        let at = fleet.replicas[number % 3].address;
        let elsewhere = fleet.replicas[(number + 1) % 3].address;
        readers.spawn(read_when_told(listen(at, number, FILTER).await?, elsewhere, Arc::clone(&counts)));
    }
    for version in 1..=READ_CHANGES {
        counts.version.store(version, Ordering::Relaxed);
        set_version(&server, version);
        server.list_changed("tools");
        let due = version * READERS * 3;
        let all = async {
            while counts.lists.load(Ordering::Relaxed) < due {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        if tokio::time::timeout(WITHIN, all).await.is_err() {
            let got = format!("{} of {due} lists", counts.lists.load(Ordering::Relaxed));
            return Err(BenchError::unexpected("the clients", "a list after each notice", got.as_bytes()));
        }
    }
    fleet.stop().await;
    let stale = counts.stale.load(Ordering::Relaxed);
    let lists = counts.lists.load(Ordering::Relaxed);
    let full = json!({ "lists": lists, "stale": stale, "told_again": counts.again.load(Ordering::Relaxed) });
    Ok(Some(BenchSample { baseline: None, gateway: Some(stale as f64), full }))
}

#[derive(Default)]
struct ReadCounts {
    /// What the server has now. The next version comes when everybody has listed this one.
    version: AtomicUsize,
    lists: AtomicUsize,
    stale: AtomicUsize,
    /// Notices of what was told before: a list was answered unconfirmed.
    again: AtomicUsize,
}

/// Lists at another replica with each notice, at once.
async fn read_when_told(stream: TcpStream, elsewhere: SocketAddr, counts: Arc<ReadCounts>) {
    let (told, mut heard) = tokio::sync::watch::channel(());
    let telling = each(stream, MARK, |_, _| {
        // Whoever reads is there as long as this is.
        let _ = told.send(());
    });
    let reading = async {
        // A reader that fails is missed in the count of lists.
        let Ok(connection) = LoadConnection::open(elsewhere).await else { return };
        let Ok(mut client) = LoadClient::start(connection, EchoEra::Modern, "").await else { return };
        let mut last = 0;
        while heard.changed().await.is_ok() {
            let version = counts.version.load(Ordering::Relaxed);
            let Ok(list) = client.list().await else { return };
            let named = format!("\"{}\"", tool(version));
            let is_stale = memmem::find(list, named.as_bytes()).is_none();
            counts.stale.fetch_add(usize::from(is_stale), Ordering::Relaxed);
            let count = if version > last { &counts.lists } else { &counts.again };
            count.fetch_add(1, Ordering::Relaxed);
            last = version;
        }
    };
    tokio::join!(telling, reading);
}
