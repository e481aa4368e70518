//! NATS is gone for a while, or a replica is cut off from it: what is the same afterwards, and how soon.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tidings_testkit::{Client, NatsServer, Server, TcpCable, Tool, V2025_11_25};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::fleet::{BenchFleet, name, owner};
use crate::error::BenchError;
use crate::report::{BenchSample, ReportRow, RowMeasure, RowTarget};
use crate::suite::BenchContext;
use crate::suite::listen::{each, listen};

/// How long NATS is gone.
const GONE: Duration = Duration::from_secs(5);
/// How long a replica is cut off.
const CUT: Duration = Duration::from_secs(30);
/// Changes that it misses meanwhile.
const MISSED: usize = 10;
/// Calls that are under way when NATS goes, at each of the replicas that forward them.
const CALLS: usize = 10;
/// Listeners at each replica.
const LISTENERS: usize = 30;
const WITHIN: Duration = Duration::from_secs(30);
/// Beats carry digests, each half second: whoever differs is known after two.
const BEATS: Duration = Duration::from_millis(1500);
const FILTER: &str = r#"{"toolsListChanged":true}"#;

/// Case 36: NATS is gone for five seconds.
pub(super) async fn restart(bench: &BenchContext) -> [ReportRow; 2] {
    let (mut losses, mut times, mut note) = (Vec::new(), Vec::new(), None);
    for repetition in 0..bench.repeat {
        eprintln!("NATS is gone … {}/{}", repetition + 1, bench.repeat);
        match measure_restart(bench).await {
            Ok(Some((lost, told_ms, full))) => {
                losses.push(BenchSample { baseline: None, gateway: Some(lost as f64), full: full.clone() });
                times.push(BenchSample { baseline: None, gateway: Some(told_ms), full });
            }
            Ok(None) => {}
            Err(error) => note = Some(error.to_string()),
        }
    }
    let what = format!("cluster: NATS gone for {} s: moves, lost changes, broken calls", GONE.as_secs());
    let losses = ReportRow::judge(36, what, RowMeasure::Count, RowTarget::CountAtMost(0.0), losses, note.clone());
    let what = "cluster: NATS back to the last client told of a change meanwhile".to_owned();
    // Beats have to come back, and what could not be written is written again after a second.
    let target = RowTarget::MillisecondsAtMost(3000.0);
    [losses, ReportRow::judge(36, what, RowMeasure::Milliseconds, target, times, note)]
}

async fn measure_restart(bench: &BenchContext) -> Result<Option<(usize, f64, Value)>, BenchError> {
    let (gate, opened) = watch::channel(false);
    let server = Server::builder("one")
        .echo("echo")
        .tool("wait", move |call| {
            let mut opened = opened.clone();
            async move {
                // The gate outlives every call.
                let _ = opened.wait_for(|open| *open).await;
                call.ok_text("waited")
            }
        })
        .stdio()
        .await;
    let Some(mut nats) = NatsServer::start() else { return Ok(None) };
    let fleet = BenchFleet::three(bench, &nats, &format!("[servers.one]\n{}", server.toml())).await?;
    let before = owner_seen(&fleet).await?;
    let crowd = OutageCrowd::gather(&fleet).await?;
    let mut calls = JoinSet::new();
    for place in (0..CALLS * 2).map(|call| 1 + call % 2) {
        let url = format!("http://{}/mcp", fleet.replicas[place].address);
        calls.spawn(async move {
            let client = match place {
                1 => Client::modern(url).await,
                _ => Client::legacy(url, V2025_11_25, json!({})).await,
            };
            client.start("tools/call", json!({ "name": "wait", "arguments": {} })).finish().await.text()
        });
    }
    server.wait_for_method("tools/call", CALLS * 2).await;

    nats.kill();
    let gone = Instant::now();
    tokio::time::sleep(GONE / 5).await;
    server.put_tool(Tool::text_tool("meanwhile", "new"));
    server.list_changed("tools");
    // Their answers are said to a bus that is not there.
    let _ = gate.send(true);
    tokio::time::sleep(GONE.saturating_sub(gone.elapsed())).await;
    nats.run();
    let back = Instant::now();
    let told = crowd.all_told(1).await;
    let told_ms = back.elapsed().as_secs_f64() * 1e3;
    let mut broken = 0;
    while let Some(call) = calls.join_next().await {
        broken += usize::from(!call.is_ok_and(|text| text == "waited"));
    }
    let mut lost = LISTENERS * 3 - told;
    for replica in &fleet.replicas {
        let client = Client::modern(format!("http://{}/mcp", replica.address)).await;
        lost += usize::from(!client.names("tools").await.contains(&"meanwhile".to_owned()));
    }
    let after = owner_seen(&fleet).await?;
    let moves = usize::from(before != after) + server.initializes() - 1;
    fleet.stop().await;
    let full =
        json!({ "moves": moves, "lost": lost, "broken": broken, "told_ms": told_ms, "notices": crowd.notices() });
    Ok(Some((moves + lost + broken, told_ms, full)))
}

async fn owner_seen(fleet: &BenchFleet) -> Result<Option<String>, BenchError> {
    Ok(owner(&fleet.seen_by(1).await?, "one").map(str::to_owned))
}

/// Case 37: a replica hears nothing of NATS for half a minute.
pub(super) async fn partition(bench: &BenchContext) -> ReportRow {
    let (mut samples, mut note) = (Vec::new(), None);
    for repetition in 0..bench.repeat {
        eprintln!("a replica is cut off … {}/{}", repetition + 1, bench.repeat);
        match measure_partition(bench).await {
            Ok(sample) => samples.extend(sample),
            Err(error) => note = Some(error.to_string()),
        }
    }
    let what = format!("cluster: a replica cut off for {} s, {MISSED} changes: back to equal digests", CUT.as_secs());
    ReportRow::judge(37, what, RowMeasure::Milliseconds, RowTarget::MillisecondsAtMost(1000.0), samples, note)
}

async fn measure_partition(bench: &BenchContext) -> Result<Option<BenchSample>, BenchError> {
    let server = Server::builder("one").echo("echo").stdio().await;
    let Some(nats) = NatsServer::start() else { return Ok(None) };
    let cable = TcpCable::start(nats.port()).await;
    let addresses = [nats.url(), nats.url(), format!("nats://127.0.0.1:{}", cable.port())];
    let fleet = BenchFleet::begin(bench, &addresses, &format!("[servers.one]\n{}", server.toml())).await?;
    let crowd = OutageCrowd::gather(&fleet).await?;
    cable.pull();
    let mut every = tokio::time::interval(CUT / (MISSED as u32 + 1));
    every.tick().await;
    for version in 1..=MISSED {
        every.tick().await;
        server.put_tool(Tool::text_tool(&format!("v{version}"), "missed"));
        server.list_changed("tools");
    }
    every.tick().await;
    let is_cut = fleet.seen_by(2).await?["replicas"]
        .as_array()
        .is_some_and(|replicas| replicas.iter().any(|one| one["name"] == name(2) && one["state"] == "isolated"));
    if !is_cut {
        return Err(BenchError::unexpected("the replica", "that it is isolated", b""));
    }
    cable.plug();
    let back = Instant::now();
    fleet
        .wait("all at one sequence", |all| {
            let applied = |seen: &Value, place| {
                let replicas = seen["replicas"].as_array()?;
                replicas.iter().find(|one| one["name"] == name(place))?["applied"].as_u64()
            };
            let own: Vec<_> = all.iter().enumerate().map(|(place, seen)| applied(seen, place)).collect();
            own[0].is_some() && own.iter().all(|one| *one == own[0]) && all[2]["head"].as_u64() == own[0]
        })
        .await?;
    let took = back.elapsed().as_secs_f64() * 1e3;
    tokio::time::sleep(BEATS).await;
    let differs = |all: &[Value]| all.iter().all(|seen| seen["trouble"].is_null());
    fleet.wait("no replica whose state differs", differs).await?;
    let told = crowd.all_told(1).await;
    let client = Client::modern(format!("http://{}/mcp", fleet.replicas[2].address)).await;
    let names = client.names("tools").await;
    fleet.stop().await;
    if told < LISTENERS * 3 || !names.contains(&format!("v{MISSED}")) {
        let got = format!("{told} of {} clients were told, and the list has {names:?}", LISTENERS * 3);
        return Err(BenchError::unexpected("the replica that was cut off", "the last change", got.as_bytes()));
    }
    Ok(Some(BenchSample {
        baseline: None,
        gateway: Some(took),
        full: json!({ "ms": took, "notices": crowd.notices() }),
    }))
}

/// Listeners at every replica, and how often each was told.
struct OutageCrowd {
    told: Arc<Vec<AtomicUsize>>,
    _readers: JoinSet<()>,
}

impl OutageCrowd {
    async fn gather(fleet: &BenchFleet) -> Result<Self, BenchError> {
        let told: Arc<Vec<AtomicUsize>> = Arc::new((0..LISTENERS * 3).map(|_| AtomicUsize::new(0)).collect());
        let mut readers = JoinSet::new();
        for place in 0..LISTENERS * 3 {
            let stream = listen(fleet.replicas[place % 3].address, place, FILTER).await?;
            let told = Arc::clone(&told);
            readers.spawn(async move {
                each(stream, b"tools/list_changed", |_, notices| {
                    told[place].fetch_add(notices, Ordering::Relaxed);
                })
                .await;
            });
        }
        Ok(Self { told, _readers: readers })
    }

    /// Waits until everybody was told so often; gives how many were.
    async fn all_told(&self, notices: usize) -> usize {
        let count = || self.told.iter().filter(|told| told.load(Ordering::Relaxed) >= notices).count();
        let all = async {
            while count() < self.told.len() {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        // Who was not is counted.
        let _ = tokio::time::timeout(WITHIN, all).await;
        count()
    }

    fn notices(&self) -> usize {
        self.told.iter().map(|told| told.load(Ordering::Relaxed)).sum()
    }
}
