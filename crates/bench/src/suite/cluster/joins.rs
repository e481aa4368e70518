//! A replica joins a cluster whose log is long.

use std::time::{Duration, Instant};

use futures_util::{StreamExt as _, TryStreamExt as _};
use serde_json::json;
use tidings_cluster::{AppendId, BusKeys, FleetBus as _, NatsBus, NatsSettings};
use tidings_hub::fleet::entry::FleetEntry;
use tidings_hub::fleet::state_keeping::KEPT_EVERY;
use tidings_hub::fleet::{LogSequence, ReplicaId};
use tidings_testkit::{NatsServer, Server};

use super::fleet::{BenchFleet, SECRET};
use crate::error::BenchError;
use crate::report::{BenchSample, ReportRow, RowMeasure, RowTarget};
use crate::suite::BenchContext;

const ENTRIES: u64 = 100_000;
/// How many are written at a time.
const UNDER_WAY: usize = 64;
const KEPT_WITHIN: Duration = Duration::from_secs(60);

/// Case 38: from the start of a process to its being ready, at a long log.
pub(super) async fn long_log(bench: &BenchContext) -> ReportRow {
    let (mut samples, mut note) = (Vec::new(), None);
    for repetition in 0..bench.repeat {
        eprintln!("a replica joins … {}/{}", repetition + 1, bench.repeat);
        match measure(bench).await {
            Ok(sample) => samples.extend(sample),
            Err(error) => note = Some(error.to_string()),
        }
    }
    let what = format!("cluster: a replica joins at {ENTRIES} entries, from its start to ready");
    ReportRow::judge(38, what, RowMeasure::Milliseconds, RowTarget::MillisecondsAtMost(2000.0), samples, note)
}

async fn measure(bench: &BenchContext) -> Result<Option<BenchSample>, BenchError> {
    let server = Server::builder("one").echo("echo").stdio().await;
    let Some(nats) = NatsServer::start() else { return Ok(None) };
    let servers = format!("[servers.one]\n{}", server.toml());
    let mut fleet = BenchFleet::begin(bench, &[nats.url()], &servers).await?;
    let short = time_join(&mut fleet, bench, &nats, &servers).await?;
    fill(&nats).await.map_err(|error| BenchError::unexpected("NATS", "entries", error.to_string().as_bytes()))?;
    let long = time_join(&mut fleet, bench, &nats, &servers).await?;
    fleet.stop().await;
    let full = json!({ "entries": ENTRIES, "ms": long, "ms_at_a_short_log": short });
    Ok(Some(BenchSample { baseline: None, gateway: Some(long), full }))
}

/// Starts a second replica, and ends it when it is ready. Gives the milliseconds until then.
async fn time_join(
    fleet: &mut BenchFleet,
    bench: &BenchContext,
    nats: &NatsServer,
    servers: &str,
) -> Result<f64, BenchError> {
    let begun = Instant::now();
    fleet.join(bench, &nats.url(), servers).await?;
    let took = begun.elapsed().as_secs_f64() * 1e3;
    let seen = fleet.seen_by(1).await?;
    if let Some(late) = fleet.replicas.pop() {
        late.stop().await;
    }
    if !seen["trouble"].is_null() || seen["head"].as_u64().is_none_or(|head| head == 0) {
        return Err(BenchError::unexpected("the replica", "that it follows the log", seen.to_string().as_bytes()));
    }
    Ok(took)
}

/// Makes the log long, and waits until a state of its last entries is kept.
async fn fill(nats: &NatsServer) -> Result<(), Box<dyn std::error::Error>> {
    let settings = NatsSettings {
        servers: vec![nats.url()],
        access: Default::default(),
        name: "tidings".to_owned(),
        replica: ReplicaId { name: "writer".into(), incarnation: 1 },
        copies: 1,
        keys: BusKeys::derive(&[SECRET])?,
    };
    let (bus, _arrivals) = NatsBus::connect(settings).await?;
    // Nobody owes anything by these.
    let nothing = FleetEntry::Echo { from: LogSequence(0), to: LogSequence(0) };
    let write = |n: u64| {
        let (bus, nothing) = (&bus, &nothing);
        async move { bus.append(&AppendId(format!("nothing-{n}")), nothing, None).await }
    };
    futures_util::stream::iter(0..ENTRIES)
        .map(write)
        .buffer_unordered(UNDER_WAY)
        .try_for_each(|_| std::future::ready(Ok(())))
        .await?;
    let kept = async {
        loop {
            let kept = bus.kept_state().await?.map_or(0, |kept| kept.position);
            if kept + KEPT_EVERY > bus.head().await?.position {
                return Ok::<_, tidings_cluster::BusError>(());
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    };
    tokio::time::timeout(KEPT_WITHIN, kept).await??;
    bus.close().await;
    Ok(())
}
