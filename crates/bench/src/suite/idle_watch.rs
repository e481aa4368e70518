//! Case 17: what a watched file, table or API costs while nothing changes.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::routing::get;
use serde_json::json;
use tidings_testkit::{Client, Gateway, PendingExchange, PostgresServer, TempDir};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use super::BenchContext;
use crate::error::BenchError;
use crate::machine::sleeps;
use crate::process::this_program;
use crate::report::{BenchSample, ReportRow, RowMeasure, RowTarget};

/// How often the counters are looked at: what happens between two looks is one wake-up. A long timer of the runtime wakes up
/// once more within the 64 ms before its time.
const LOOK: Duration = Duration::from_millis(100);
/// Clocks that run while there is something to do stand still after this.
const SETTLE: Duration = Duration::from_secs(6);
const WATCHED: Duration = Duration::from_secs(20);
const EVERY: Duration = Duration::from_secs(2);

/// Wake-ups of a gateway that follows each, against one that follows nothing; a URL against that and a program that only polls.
pub(super) async fn rows(bench: &BenchContext) -> Vec<ReportRow> {
    let kinds = ["file", "table", "URL"];
    let mut samples = kinds.map(|_| Vec::new());
    let mut note = None;
    for repetition in 0..bench.repeat {
        eprintln!("idle watches … {}/{}", repetition + 1, bench.repeat);
        match measure(bench).await {
            Ok(measured) => {
                for (samples, (floor, wakes)) in samples.iter_mut().zip(measured) {
                    samples.push(BenchSample {
                        baseline: Some(floor as f64),
                        gateway: Some(wakes as f64),
                        full: json!({ "floor": floor, "wakes": wakes }),
                    });
                }
            }
            Err(error) => note = Some(error.to_string()),
        }
    }
    let row = |(kind, samples)| {
        let what = format!("idle watched {kind}, {} s: wake-ups", WATCHED.as_secs());
        ReportRow::judge(17, what, RowMeasure::Count, RowTarget::ExtraCountAtMost(1.0), samples, note.clone())
    };
    kinds.into_iter().zip(samples).map(row).collect()
}

/// For a file, a table and a URL: wake-ups of the floor, and of the gateway.
async fn measure(bench: &BenchContext) -> Result<[(usize, usize); 3], BenchError> {
    let folder = TempDir::new();
    let file = folder.write("idle.txt", "idle");
    let unexpected = |expected| BenchError::unexpected("the machine", expected, b"");
    let started = tokio::task::spawn_blocking(PostgresServer::start).await.ok().flatten();
    let postgres = started.ok_or_else(|| unexpected("PostgreSQL; install it with: apt-get install postgresql"))?;
    let api = CountingUrl::start().await?;
    let table = format!("postgres = {:?}\nquery = \"select 1 as one\"\nchannel = \"idle\"", postgres.url());
    let url = format!("http = \"http://{}/\"\nevery = \"{}ms\"", api.address, EVERY.as_millis());
    let gateways = [
        // Nobody posts, and nobody follows it.
        IdleGateway::start(bench, "webhook = \"idle\"\nsecret = \"s\"", false).await,
        IdleGateway::start(bench, &format!("file = {file:?}"), true).await,
        IdleGateway::start(bench, &table, true).await,
        IdleGateway::start(bench, &url, true).await,
    ];
    let poller = poller(api.address)?;
    let poller_id = poller.id().ok_or_else(|| unexpected("a process that polls"))?;
    tokio::time::sleep(SETTLE).await;
    let ids = gateways.each_ref().map(|followed| followed.gateway.pid());
    let mut counters: Vec<WakeUps> = ids.into_iter().chain([poller_id]).map(WakeUps::new).collect();
    let asked = api.asked.load(Ordering::Relaxed);
    let end = tokio::time::Instant::now() + WATCHED;
    let mut every = tokio::time::interval(LOOK);
    while tokio::time::Instant::now() < end {
        every.tick().await;
        counters.iter_mut().for_each(WakeUps::look);
    }
    let polls = api.asked.load(Ordering::Relaxed) - asked;
    // Both of them, give or take one at either end.
    let due = 2 * WATCHED.as_secs() / EVERY.as_secs();
    if (polls as u64) < due - 4 {
        let got = format!("{polls} of {due} polls");
        return Err(BenchError::unexpected("the watch and the floor", "to poll", got.as_bytes()));
    }
    let wakes: Vec<usize> = counters.iter().map(|counter| counter.wakes).collect();
    let [nothing, file, table, url, poller] = wakes[..] else { return Err(unexpected("five processes")) };
    Ok([(nothing, file), (nothing, table), (nothing + poller, url)])
}

/// A program that polls as often as the watch.
fn poller(to: std::net::SocketAddr) -> Result<tokio::process::Child, BenchError> {
    let times = 4 * WATCHED.as_secs() / EVERY.as_secs();
    tokio::process::Command::new(this_program()?)
        .args([
            "poll",
            "--to",
            &to.to_string(),
            "--every",
            &EVERY.as_millis().to_string(),
            "--times",
            &times.to_string(),
        ])
        .stdin(std::process::Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .map_err(BenchError::io("starting the floor"))
}

/// A gateway and a client of it, which listens; also to the watch, if it is to be followed.
struct IdleGateway {
    gateway: Gateway,
    _client: Client,
    _listen: PendingExchange,
}

impl IdleGateway {
    async fn start(bench: &BenchContext, keys: &str, followed: bool) -> Self {
        let toml = format!("[watch.idle]\n{keys}\n");
        let gateway = Gateway::builder().binary(&bench.gateway).toml(&toml).serve().await;
        let client = gateway.client().modern().connect().await;
        let uris: &[&str] = if followed { &["watch://idle"] } else { &[] };
        let filter = json!({ "toolsListChanged": true, "resourceSubscriptions": uris });
        let mut listen = client.start("subscriptions/listen", json!({ "notifications": filter }));
        listen.next_method("notifications/subscriptions/acknowledged").await;
        Self { gateway, _client: client, _listen: listen }
    }
}

/// Moments in which some thread of a process woke up.
struct WakeUps {
    pid: u32,
    sleeps: u64,
    awake: bool,
    wakes: usize,
}

impl WakeUps {
    fn new(pid: u32) -> Self {
        Self { pid, sleeps: sleeps(pid).unwrap_or_default(), awake: false, wakes: 0 }
    }

    fn look(&mut self) {
        let sleeps = sleeps(self.pid).unwrap_or_default();
        let awake = sleeps != self.sleeps;
        // One that lasts over several looks is one.
        if awake && !self.awake {
            self.wakes += 1;
        }
        (self.sleeps, self.awake) = (sleeps, awake);
    }
}

/// A URL that counts how often it is asked. Ends when dropped.
struct CountingUrl {
    address: std::net::SocketAddr,
    asked: Arc<AtomicUsize>,
    task: JoinHandle<()>,
}

impl CountingUrl {
    async fn start() -> Result<Self, BenchError> {
        let listener = TcpListener::bind("127.0.0.1:0").await.map_err(BenchError::io("listening"))?;
        let address = listener.local_addr().map_err(BenchError::io("reading the listening address"))?;
        let asked = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&asked);
        let answer = move || {
            counter.fetch_add(1, Ordering::Relaxed);
            async { "idle" }
        };
        let router = Router::new().route("/", get(answer));
        let task = tokio::spawn(async move {
            // Ends with its owner.
            let _ = axum::serve(listener, router).await;
        });
        Ok(Self { address, asked, task })
    }
}

impl Drop for CountingUrl {
    fn drop(&mut self) {
        self.task.abort();
    }
}
