//! Cases 24 to 28: the screens of the page, with ten thousand changes, a thousand servers and five thousand clients; and what it costs.

mod cost;
mod fill;
mod ledger;
mod visitor;

pub(super) use cost::{calls, idle};
pub(crate) use fill::{FillOptions, fill};
pub(super) use ledger::rows as ledger;
pub(crate) use ledger::{LedgerOptions, weigh};

use serde_json::{Value, json};
use tidings_testkit::Server;
use tokio::net::TcpStream;

use self::visitor::{PageVisitor, ScreenTimes};
use super::BenchContext;
use super::listeners::listen;
use crate::error::BenchError;
use crate::process::{GatewayProcess, run_part};
use crate::report::{BenchSample, ReportRow, RowMeasure, RowTarget};

const CHANGES: usize = 10_000;
const SERVERS: usize = 1_000;
const CLIENTS: usize = 5_000;

/// What a screen takes, and what a filter of the feed takes: the slowest of each; and what the dearest of all computes.
pub(super) async fn rows(bench: &BenchContext) -> Vec<ReportRow> {
    eprintln!("the page …");
    let (mut screens, mut filters, mut cpu, mut note) = (Vec::new(), Vec::new(), Vec::new(), None);
    match measure(bench).await {
        Ok(measured) => {
            screens.push(slowest(measured.iter().filter(|screen| !screen.is_filter), |times| times.p99));
            filters.push(slowest(measured.iter().filter(|screen| screen.is_filter), |times| times.p99));
            cpu.push(slowest(measured.iter().filter(|screen| !screen.is_filter), |times| times.cpu));
        }
        Err(error) => note = Some(error.to_string()),
    }
    let what = |which: &str| format!("the page, {CHANGES} changes, {SERVERS} servers, {CLIENTS} clients: {which}");
    let row = |case, which: &str, most, samples, note| {
        let target = RowTarget::MillisecondsAtMost(most);
        ReportRow::judge(case, what(which), RowMeasure::Milliseconds, target, samples, note)
    };
    vec![
        row(24, "the slowest screen, p99", 10.0, screens, note.clone()),
        row(24, "CPU time of the dearest screen", 10.0, cpu, note.clone()),
        row(25, "the slowest filter, p99", 100.0, filters, note),
    ]
}

/// One address of the page, and how long it takes.
struct MeasuredScreen {
    path: String,
    is_filter: bool,
    times: ScreenTimes,
}

fn slowest<'a>(screens: impl Iterator<Item = &'a MeasuredScreen>, number: impl Fn(&ScreenTimes) -> f64) -> BenchSample {
    let (mut worst, mut full) = (0.0, Vec::new());
    for screen in screens {
        worst = number(&screen.times).max(worst);
        full.push(json!({ "path": screen.path, "times": screen.times }));
    }
    BenchSample { baseline: None, gateway: Some(worst), full: Value::from(full) }
}

async fn measure(bench: &BenchContext) -> Result<Vec<MeasuredScreen>, BenchError> {
    let data = bench.folder.path().join("page-data");
    // In a process of its own, which has let go of the store when it has ended.
    let changes = CHANGES.to_string();
    run_part("fill", &["--data".to_owned(), data.display().to_string(), "--changes".to_owned(), changes]).await?;
    let server = Server::builder("one").echo("echo").modern_only().http().await;
    let one = |number: usize| format!("[servers.s{number:04}]\n{}\n", server.toml());
    let config: String = (0..SERVERS).map(one).collect();
    let gateway = GatewayProcess::start_ready_in(&bench.gateway, &config, bench.folder.path(), data).await?;
    let measured = measure_running(&gateway).await;
    gateway.stop().await;
    measured
}

async fn measure_running(gateway: &GatewayProcess) -> Result<Vec<MeasuredScreen>, BenchError> {
    let mut streams: Vec<TcpStream> = Vec::with_capacity(CLIENTS);
    for number in 0..CLIENTS {
        streams.push(listen(gateway.address, number).await?);
    }
    let mut visitor = PageVisitor::enter(gateway).await?;
    let client = visitor.first_client(gateway).await?;
    let screens = [
        "/",
        "/?before=5000",
        "/changes/9999",
        "/clients",
        "/clients?from=2500",
        &format!("/clients/{client}"),
        "/follows",
        "/servers",
        "/servers?from=500",
        "/servers/s0500",
        "/tools",
        "/tools?from=500",
        "/tools?q=echo",
        "/approvals",
        "/calls",
        "/connect",
    ];
    let filters = ["/?severity=suspect", "/?server=s0001", "/?q=nowhere", "/servers?q=s05", "/clients?state=current"];
    let mut measured = Vec::new();
    for (paths, is_filter) in [(&screens[..], false), (&filters[..], true)] {
        for path in paths {
            let times = visitor.time(gateway, path).await?;
            measured.push(MeasuredScreen { path: (*path).to_owned(), is_filter, times });
        }
    }
    drop(streams);
    Ok(measured)
}
