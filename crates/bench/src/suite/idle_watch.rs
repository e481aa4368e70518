//! Case 17: what a watched file, table or API costs while nothing changes.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::routing::get;
use serde_json::json;
use tidings_testkit::{Client, Gateway, Pending, PostgresServer, TempDir};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use super::Bench;
use crate::error::BenchError;
use crate::machine::sleeps;
use crate::report::{Measure, Row, Sample, Target};

/// How often the counters are looked at: what happens between two looks is one wake-up. A long timer of the runtime wakes up
/// once more within the 64 ms before its time.
const LOOK: Duration = Duration::from_millis(100);
const SETTLE: Duration = Duration::from_secs(3);
const WATCHED: Duration = Duration::from_secs(20);

/// Wake-ups of a gateway that follows each, beyond those of one that follows nothing.
pub(super) async fn rows(bench: &Bench) -> Vec<Row> {
    let kinds = ["file", "table", "API"];
    let mut samples = kinds.map(|_| Vec::new());
    let mut note = None;
    for repetition in 0..bench.repeat {
        eprintln!("idle watches … {}/{}", repetition + 1, bench.repeat);
        match measure(bench).await {
            Ok((nothing, watches)) => {
                for (samples, (wakes, polls)) in samples.iter_mut().zip(watches) {
                    samples.push(Sample {
                        baseline: Some(nothing as f64),
                        gateway: Some(wakes as f64 - polls as f64),
                        full: json!({ "wakes": wakes, "polls": polls, "without": nothing }),
                    });
                }
            }
            Err(error) => note = Some(error.to_string()),
        }
    }
    kinds
        .into_iter()
        .zip(samples)
        .map(|(kind, samples)| {
            let what = format!("idle watched {kind}, {} s: wake-ups but the poll", WATCHED.as_secs());
            Row::judge(17, what, Measure::Count, Target::ExtraCountAtMost(0.0), samples, note.clone())
        })
        .collect()
}

/// Wake-ups without a watch; and with a file, a table, a URL: wake-ups and polls.
async fn measure(bench: &Bench) -> Result<(usize, [(usize, usize); 3]), BenchError> {
    let folder = TempDir::new();
    let file = folder.write("idle.txt", "idle");
    let unexpected = |expected| BenchError::unexpected("the machine", expected, b"");
    let started = tokio::task::spawn_blocking(PostgresServer::start).await.ok().flatten();
    let postgres = started.ok_or_else(|| unexpected("PostgreSQL; install it with: apt-get install postgresql"))?;
    let api = Api::start().await?;
    let table = format!("postgres = {:?}\nquery = \"select 1 as one\"\nchannel = \"idle\"", postgres.url());
    let gateways = [
        Followed::start(bench, None).await,
        Followed::start(bench, Some(&format!("file = {file:?}"))).await,
        Followed::start(bench, Some(&table)).await,
        Followed::start(bench, Some(&format!("http = \"http://{}/\"\nevery = \"2s\"", api.address))).await,
    ];
    tokio::time::sleep(SETTLE).await;
    let polls = api.asked.load(Ordering::Relaxed);
    let mut counters = gateways.each_ref().map(|followed| Wakes::new(followed.gateway.pid()));
    let end = tokio::time::Instant::now() + WATCHED;
    let mut every = tokio::time::interval(LOOK);
    while tokio::time::Instant::now() < end {
        every.tick().await;
        counters.iter_mut().for_each(Wakes::look);
    }
    let polls = api.asked.load(Ordering::Relaxed) - polls;
    let [nothing, file, table, url] = counters.map(|counter| counter.wakes);
    Ok((nothing, [(file, 0), (table, 0), (url, polls)]))
}

/// A gateway and a client of it, which listens; to the watch where there is one.
struct Followed {
    gateway: Gateway,
    _client: Client,
    _listen: Pending,
}

impl Followed {
    async fn start(bench: &Bench, watch: Option<&str>) -> Self {
        let toml = watch.map(|keys| format!("[watch.idle]\n{keys}\n")).unwrap_or_default();
        let gateway = Gateway::builder().binary(&bench.gateway).toml(&format!("[gateway]\n{toml}")).serve().await;
        let client = gateway.client().modern().connect().await;
        let uris: &[&str] = if watch.is_some() { &["watch://idle"] } else { &[] };
        let filter = json!({ "toolsListChanged": true, "resourceSubscriptions": uris });
        let mut listen = client.start("subscriptions/listen", json!({ "notifications": filter }));
        listen.next_method("notifications/subscriptions/acknowledged").await;
        Self { gateway, _client: client, _listen: listen }
    }
}

/// Moments in which some thread of a process woke up.
struct Wakes {
    pid: u32,
    sleeps: u64,
    awake: bool,
    wakes: usize,
}

impl Wakes {
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
struct Api {
    address: std::net::SocketAddr,
    asked: Arc<AtomicUsize>,
    task: JoinHandle<()>,
}

impl Api {
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

impl Drop for Api {
    fn drop(&mut self) {
        self.task.abort();
    }
}
