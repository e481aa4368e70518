//! Cases 27 and 28: what the page costs a gateway at which nobody looks, and calls while somebody does. Against `[page] enabled = false`.

use std::time::Duration;

use serde_json::json;

use super::BenchContext;
use super::visitor::PageVisitor;
use crate::echo::EchoEra;
use crate::error::BenchError;
use crate::machine::private_mb;
use crate::process::GatewayProcess;
use crate::report::{BenchSample, ReportRow, RowMeasure, RowTarget};
use crate::suite::throughput::{ThroughputLoad, compare, upstream};

const WITHOUT: &str = "[page]\nenabled = false\n";
/// The allocator gives back what the start needed only after a while.
const IDLE: Duration = Duration::from_secs(2);

/// Case 27: memory of an idle gateway without the page, and with it.
pub(in crate::suite) async fn idle(bench: &BenchContext) -> ReportRow {
    let (mut samples, mut note) = (Vec::new(), None);
    for repetition in 0..bench.repeat {
        eprintln!("the page: idle … {}/{}", repetition + 1, bench.repeat);
        match (idle_mb(bench, WITHOUT).await, idle_mb(bench, "").await) {
            (Ok(without), Ok(with)) => samples.push(BenchSample {
                baseline: Some(without),
                gateway: Some(with),
                full: json!({ "without_mb": without, "with_mb": with }),
            }),
            (Err(error), _) | (_, Err(error)) => note = Some(error.to_string()),
        }
    }
    let what = "the page: an idle gateway without it, and with it; the process's own memory".to_owned();
    ReportRow::judge(27, what, RowMeasure::Megabytes, RowTarget::ExtraMegabytesAtMost(0.5), samples, note)
}

async fn idle_mb(bench: &BenchContext, settings: &str) -> Result<f64, BenchError> {
    let upstream = upstream(EchoEra::Modern, 0).await?;
    let config = format!("{settings}[servers.echo]\nurl = \"http://{}/mcp\"\n", upstream.address);
    let gateway = GatewayProcess::start_ready(&bench.gateway, &config, bench.folder.path()).await?;
    tokio::time::sleep(IDLE).await;
    let own = gateway.pid().and_then(private_mb);
    gateway.stop().await;
    own.ok_or_else(|| BenchError::unexpected("the kernel", "RssAnon of the gateway", b""))
}

/// Case 28: `tools/call` without the page, and with it open in a browser.
pub(in crate::suite) async fn calls(bench: &BenchContext) -> Result<Vec<ReportRow>, BenchError> {
    let mut rows = Vec::new();
    for era in [EchoEra::Legacy, EchoEra::Modern] {
        let upstream = upstream(era, 0).await?;
        let config = |settings: &str| format!("{settings}[servers.echo]\nurl = \"http://{}/mcp\"\n", upstream.address);
        let start =
            async |config: String| GatewayProcess::start_ready(&bench.gateway, &config, bench.folder.path()).await;
        let without = start(config(WITHOUT)).await?;
        let with = start(config("")).await?;
        let open = PageVisitor::enter(&with).await?.follow(&with).await?;
        let load = ThroughputLoad {
            case: 28,
            what: format!("tools/call, 16 clients, without the page, and with it open, {}", era.word()),
            era,
            operation: "call",
            clients: 16,
            baseline_has_sessions: true,
            bearer: None,
            turns: 1,
            measure: RowMeasure::RequestsPerSecond,
            target: RowTarget::RatioAtLeast(0.99),
        };
        rows.push(compare(bench, load, without.address, Ok(&with)).await);
        drop(open);
        without.stop().await;
        with.stop().await;
    }
    Ok(rows)
}
