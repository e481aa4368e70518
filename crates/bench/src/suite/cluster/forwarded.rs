//! Calls that arrive at a replica which does not run the server, against calls at the one that does: small ones, and one answer of 64 MiB.

use std::time::Instant;

use serde_json::json;
use tidings_testkit::NatsServer;

use super::fleet::BenchFleet;
use crate::echo::{EchoEra, MODERN_REVISION};
use crate::error::BenchError;
use crate::load::http::LoadConnection;
use crate::process::{PartProcess, run_part, this_program};
use crate::report::{BenchSample, ReportRow, RowMeasure, RowTarget, median};
use crate::suite::BenchContext;
use crate::suite::throughput::{call_p50, upstream};

/// An answer with all that is around the text may have 64 MiB.
const LARGE: usize = (64 << 20) - (16 << 10);
const LARGE_CALLS: usize = 3;

/// How the server of a small call is reached.
#[derive(Clone, Copy)]
enum CalledServer {
    /// Behind a URL. A modern one is called by every replica itself.
    Http,
    /// A process of its owner, which every call has to come to.
    Process,
}

/// Case 31: what a small call costs beyond one at the owner, against one request and answer at NATS.
pub(super) async fn small(bench: &BenchContext) -> Vec<ReportRow> {
    let mut rows = Vec::new();
    for (era, called) in [
        (EchoEra::Legacy, CalledServer::Http),
        (EchoEra::Modern, CalledServer::Http),
        (EchoEra::Modern, CalledServer::Process),
    ] {
        let (mut samples, mut note) = (Vec::new(), None);
        match measure_small(bench, era, called).await {
            Ok(measured) => samples = measured,
            Err(error) => note = Some(error.to_string()),
        }
        let where_it_is = match called {
            CalledServer::Http => "",
            CalledServer::Process => ", of a process",
        };
        let what = format!("cluster: a call at another replica, p50 beyond the owner's, {}{where_it_is}", era.word());
        rows.push(ReportRow::judge(31, what, RowMeasure::MedianMicros, RowTarget::RatioAtMost(2.0), samples, note));
    }
    rows
}

async fn measure_small(
    bench: &BenchContext,
    era: EchoEra,
    called: CalledServer,
) -> Result<Vec<BenchSample>, BenchError> {
    let server = upstream(era, 0).await?;
    let Some(nats) = NatsServer::start() else { return Ok(Vec::new()) };
    let servers = match called {
        CalledServer::Http => format!("[servers.echo]\nurl = \"http://{}/mcp\"\n", server.address),
        CalledServer::Process => {
            let program = this_program()?;
            format!("[servers.echo]\ncommand = {program:?}\nargs = [\"stdio-server\", \"--era\", \"{}\"]\n", era.word())
        }
    };
    let fleet = BenchFleet::begin(bench, &[nats.url(), nats.url()], &servers).await?;
    let [owner, other] = [fleet.replicas[0].address, fleet.replicas[1].address];
    let mut samples = Vec::new();
    for repetition in 0..bench.repeat {
        eprintln!("forwarded calls, {} … {}/{}", era.word(), repetition + 1, bench.repeat);
        let trip = bus_trip(&nats).await?;
        // In turns, because whoever runs second finds the machine in another state.
        let (direct, forwarded) = if repetition % 2 == 0 {
            let direct = call_p50(bench, era, owner).await?;
            (direct, call_p50(bench, era, other).await?)
        } else {
            let forwarded = call_p50(bench, era, other).await?;
            (call_p50(bench, era, owner).await?, forwarded)
        };
        samples.push(BenchSample {
            baseline: Some(trip),
            gateway: Some(forwarded - direct),
            full: json!({ "trip_us": trip, "direct_us": direct, "forwarded_us": forwarded }),
        });
    }
    fleet.stop().await;
    Ok(samples)
}

/// One request and its answer at NATS, in microseconds.
async fn bus_trip(nats: &NatsServer) -> Result<f64, BenchError> {
    let printed = run_part("trip", &["--nats".to_owned(), nats.url()]).await?;
    let number = std::str::from_utf8(&printed).ok().and_then(|text| text.trim().parse().ok());
    number.ok_or_else(|| BenchError::unexpected("the trip part", "microseconds", &printed))
}

/// Case 32: an answer of 64 MiB.
pub(super) async fn large(bench: &BenchContext) -> ReportRow {
    let (mut samples, mut note) = (Vec::new(), None);
    match measure_large(bench).await {
        Ok(measured) => samples = measured,
        Err(error) => note = Some(error.to_string()),
    }
    let what = "cluster: an answer of 64 MiB at another replica".to_owned();
    ReportRow::judge(32, what, RowMeasure::Milliseconds, RowTarget::RatioAtMost(4.0), samples, note)
}

async fn measure_large(bench: &BenchContext) -> Result<Vec<BenchSample>, BenchError> {
    let args = ["--era", "modern", "--answer-bytes", &LARGE.to_string()].map(str::to_owned);
    let server = PartProcess::start("upstream", &args).await?;
    let Some(nats) = NatsServer::start() else { return Ok(Vec::new()) };
    // Without the last line it would be called by both replicas themselves, and nothing would cross.
    let servers = format!("[servers.echo]\nurl = \"http://{}/mcp\"\nisolation = \"session\"\n", server.address);
    let fleet = BenchFleet::begin(bench, &[nats.url(), nats.url()], &servers).await?;
    let mut samples = Vec::new();
    for repetition in 0..bench.repeat {
        eprintln!("64 MiB … {}/{}", repetition + 1, bench.repeat);
        let mut times = [Vec::new(), Vec::new()];
        for call in 0..LARGE_CALLS * 2 {
            let place = (call + repetition) % 2;
            times[place].push(call_large(fleet.replicas[place].address).await?);
        }
        let [direct, forwarded] = &times;
        samples.push(BenchSample {
            baseline: median(direct.iter().copied()),
            gateway: median(forwarded.iter().copied()),
            full: json!({ "direct_ms": direct, "forwarded_ms": forwarded }),
        });
    }
    fleet.stop().await;
    Ok(samples)
}

/// The milliseconds from the request to the last byte.
async fn call_large(to: std::net::SocketAddr) -> Result<f64, BenchError> {
    let body = format!(
        r#"{{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{{"name":"echo","arguments":{{}},"_meta":{{"io.modelcontextprotocol/protocolVersion":"{MODERN_REVISION}","io.modelcontextprotocol/clientCapabilities":{{}}}}}}}}"#
    );
    let request = format!(
        "POST /mcp HTTP/1.1\r\nhost: {to}\r\naccept: application/json, text/event-stream\r\ncontent-type: application/json\r\n\
         mcp-protocol-version: {MODERN_REVISION}\r\nmcp-method: tools/call\r\nmcp-name: echo\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut connection = LoadConnection::open(to).await?;
    let begun = Instant::now();
    let answer = connection.exchange(request.as_bytes()).await?;
    let took = begun.elapsed().as_secs_f64() * 1e3;
    if answer.status != 200 || answer.body.len() < LARGE {
        return Err(BenchError::unexpected("a replica", "64 MiB", answer.body));
    }
    Ok(took)
}
