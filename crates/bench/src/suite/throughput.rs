//! Cases 1 to 3: requests per second and latency under load, in turns with a baseline.

use std::net::SocketAddr;

use serde_json::json;

use super::BenchContext;
use crate::echo::EchoEra;
use crate::error::BenchError;
use crate::load::LoadReport;
use crate::load::http::LoadConnection;
use crate::load::request::LoadClient;
use crate::process::{GatewayProcess, PartProcess, run_part};
use crate::report::{BenchSample, ReportRow, RowMeasure, RowTarget};

const LIST_BYTES: usize = 100_000;
/// Turns of a repetition where both sides are gateways and little lies between them: how fast the machine is changes within seconds by more
/// than that, so short turns that follow each other are compared.
pub(super) const MANY_TURNS: usize = 6;
/// How much shorter such a turn is than a repetition of one.
const SHORTER: f64 = 0.375;
/// Seconds before a turn that do not count.
const WARM_UP: f64 = 1.0;

/// A load that is put on both sides.
pub(super) struct ThroughputLoad {
    pub(super) case: u8,
    pub(super) what: String,
    pub(super) era: EchoEra,
    pub(super) operation: &'static str,
    pub(super) clients: usize,
    /// Whether the baseline is an MCP endpoint, and opens sessions.
    pub(super) baseline_has_sessions: bool,
    /// The token that clients show to both sides.
    pub(super) bearer: Option<String>,
    /// How often each side has its turn in a repetition.
    pub(super) turns: usize,
    pub(super) measure: RowMeasure,
    pub(super) target: RowTarget,
}

/// Cases 1 and 2: `tools/call` of a small echo, for each era.
pub(super) async fn calls(bench: &BenchContext, throughput: bool, latency: bool) -> Result<Vec<ReportRow>, BenchError> {
    let mut rows = Vec::new();
    for era in [EchoEra::Legacy, EchoEra::Modern] {
        let upstream = upstream(era, 0).await?;
        let to = upstream.address.to_string();
        let floor = PartProcess::start("floor", &["--to".into(), to]).await?;
        let gateway = gateway(bench, &upstream).await;
        for load in call_loads(era) {
            let wanted = match load.case {
                1 => throughput,
                _ => latency,
            };
            if wanted {
                rows.push(compare(bench, load, floor.address, gateway.as_ref()).await);
            }
        }
        if let Ok(gateway) = gateway {
            gateway.stop().await;
        }
    }
    Ok(rows)
}

fn call_loads(era: EchoEra) -> [ThroughputLoad; 2] {
    let word = era.word();
    [
        ThroughputLoad {
            case: 1,
            what: format!("tools/call, 16 clients, {word}"),
            era,
            operation: "call",
            clients: 16,
            baseline_has_sessions: true,
            bearer: None,
            turns: 1,
            measure: RowMeasure::RequestsPerSecond,
            target: RowTarget::RatioAtLeast(0.67),
        },
        ThroughputLoad {
            case: 2,
            what: format!("tools/call, 1 client, p50, {word}"),
            era,
            operation: "call",
            clients: 1,
            baseline_has_sessions: true,
            bearer: None,
            turns: 1,
            measure: RowMeasure::MedianMicros,
            target: RowTarget::RatioAtMost(1.5),
        },
    ]
}

/// Case 21: `tools/call` with audit and quotas, against a gateway without.
pub(super) async fn records(bench: &BenchContext) -> Result<Vec<ReportRow>, BenchError> {
    let mut rows = Vec::new();
    for era in [EchoEra::Legacy, EchoEra::Modern] {
        let upstream = upstream(era, 0).await?;
        let with = |settings: &str| format!("{settings}\n[servers.echo]\nurl = \"http://{}/mcp\"\n", upstream.address);
        let start =
            async |config: String| GatewayProcess::start_ready(&bench.gateway, &config, bench.folder.path()).await;
        let off = start(with("[audit]\nenabled = false")).await?;
        let on = start(with("[quotas]\ncalls = 4096")).await;
        let load = ThroughputLoad {
            case: 21,
            what: format!("tools/call, 16 clients, audit and quotas off, and on, {}", era.word()),
            era,
            operation: "call",
            clients: 16,
            baseline_has_sessions: true,
            bearer: None,
            turns: MANY_TURNS,
            measure: RowMeasure::RequestsPerSecond,
            target: RowTarget::RatioAtLeast(0.97),
        };
        rows.push(compare(bench, load, off.address, on.as_ref()).await);
        off.stop().await;
        if let Ok(on) = on {
            on.stop().await;
        }
    }
    Ok(rows)
}

/// Case 3: a long `tools/list` from the catalogue, against a fixed body of the same size.
pub(super) async fn lists(bench: &BenchContext) -> Result<Vec<ReportRow>, BenchError> {
    let mut rows = Vec::new();
    for era in [EchoEra::Legacy, EchoEra::Modern] {
        let upstream = upstream(era, LIST_BYTES).await?;
        let mut gateway = gateway(bench, &upstream).await;
        let mut bytes = LIST_BYTES;
        if let Ok(running) = &gateway {
            match list_size(running.address, era).await {
                Ok(size) => bytes = size,
                Err(error) => gateway = Err(error),
            }
        }
        // After the gateway's own list is known, so that both bodies are of one size.
        let fixed = PartProcess::start("static", &["--bytes".into(), bytes.to_string()]).await?;
        let load = ThroughputLoad {
            case: 3,
            what: format!("tools/list of {} KB, 16 clients, {}", bytes / 1000, era.word()),
            era,
            operation: "list",
            clients: 16,
            baseline_has_sessions: false,
            bearer: None,
            turns: 1,
            measure: RowMeasure::RequestsPerSecond,
            target: RowTarget::RatioAtLeast(0.8),
        };
        rows.push(compare(bench, load, fixed.address, gateway.as_ref()).await);
        if let Ok(gateway) = gateway {
            gateway.stop().await;
        }
    }
    Ok(rows)
}

/// The size of the gateway's answer; a list cut short would make the comparison worthless.
async fn list_size(address: SocketAddr, era: EchoEra) -> Result<usize, BenchError> {
    let connection = LoadConnection::open(address).await?;
    let mut client = LoadClient::start(connection, era, "echo").await?;
    let body = client.list().await?;
    if body.len() < LIST_BYTES {
        return Err(BenchError::unexpected("tools/list", "100 KB", body));
    }
    Ok(body.len())
}

/// The echo server; a client of one era has a server of the same era behind it.
pub(super) async fn upstream(era: EchoEra, list_bytes: usize) -> Result<PartProcess, BenchError> {
    let args = ["--era".to_owned(), era.word().to_owned(), "--list-bytes".to_owned(), list_bytes.to_string()];
    PartProcess::start("upstream", &args).await
}

async fn gateway(bench: &BenchContext, upstream: &PartProcess) -> Result<GatewayProcess, BenchError> {
    let config = format!("[servers.echo]\nurl = \"http://{}/mcp\"\n", upstream.address);
    GatewayProcess::start_ready(&bench.gateway, &config, bench.folder.path()).await
}

/// Baseline and gateway in turns; who begins changes with each.
pub(super) async fn compare(
    bench: &BenchContext,
    load: ThroughputLoad,
    baseline: SocketAddr,
    gateway: Result<&GatewayProcess, &BenchError>,
) -> ReportRow {
    let mut samples = Vec::new();
    let mut note = gateway.err().map(ToString::to_string);
    for repetition in 0..bench.repeat {
        eprintln!("{} … {}/{}", load.what, repetition + 1, bench.repeat);
        let mut reports = [Vec::new(), Vec::new()];
        for turn in 0..load.turns {
            // In turns, because whoever runs second finds the machine in another state.
            let order = if (repetition + turn) % 2 == 0 { [0, 1] } else { [1, 0] };
            for side in order {
                let address = match (side, gateway) {
                    (0, _) => baseline,
                    (_, Ok(gateway)) => gateway.address,
                    // The baseline is measured all the same; the note says why the gateway is missing.
                    (_, Err(_)) => continue,
                };
                let sessions = side == 1 || load.baseline_has_sessions;
                match put_load(bench, &load, address, sessions).await {
                    Ok(report) => reports[side].push(report),
                    Err(error) => note = Some(error.to_string()),
                }
            }
        }
        let [baseline, gateway] = &reports;
        samples.push(BenchSample {
            baseline: load.number(baseline),
            gateway: load.number(gateway),
            full: json!({ "baseline": baseline, "gateway": gateway }),
        });
    }
    ReportRow::judge(load.case, load.what, load.measure, load.target, samples, note)
}

/// The median of one client's calls of the echo server, in microseconds.
pub(super) async fn call_p50(bench: &BenchContext, era: EchoEra, address: SocketAddr) -> Result<f64, BenchError> {
    let [_, load] = call_loads(era);
    Ok(put_load(bench, &load, address, true).await?.p50_us)
}

async fn put_load(
    bench: &BenchContext,
    load: &ThroughputLoad,
    address: SocketAddr,
    sessions: bool,
) -> Result<LoadReport, BenchError> {
    let share = if load.turns == 1 { 1.0 } else { SHORTER };
    let mut args = vec![
        "--to".to_owned(),
        address.to_string(),
        "--era".to_owned(),
        load.era.word().to_owned(),
        "--operation".to_owned(),
        load.operation.to_owned(),
        "--clients".to_owned(),
        load.clients.to_string(),
        "--seconds".to_owned(),
        (bench.seconds * share).to_string(),
        "--warm-up".to_owned(),
        (WARM_UP * share).to_string(),
    ];
    if !sessions {
        args.push("--no-session".to_owned());
    }
    if let Some(bearer) = &load.bearer {
        args.extend(["--bearer".to_owned(), bearer.clone()]);
    }
    let output = run_part("load", &args).await?;
    serde_json::from_slice(&output).map_err(|_| BenchError::unexpected("the load client", "a report", &output))
}

impl ThroughputLoad {
    /// The mean of the turns; nothing unless all of them were taken.
    fn number(&self, turns: &[LoadReport]) -> Option<f64> {
        let number = |report: &LoadReport| match self.measure {
            RowMeasure::MedianMicros => report.p50_us,
            _ => report.requests_per_second,
        };
        (turns.len() == self.turns).then(|| turns.iter().map(number).sum::<f64>() / turns.len() as f64)
    }
}
