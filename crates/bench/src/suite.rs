//! The suite: starts the parts, runs each case and gathers the rows.

mod admission;
mod busy_file;
mod cluster;
mod commits;
mod fan_out;
mod idle_watch;
mod listen;
mod listeners;
mod memory;
mod page;
mod policy;
mod registry;
mod scripts;
mod search;
mod signals;
mod startup;
mod throughput;
mod trust;
mod updates;

pub(crate) use page::{FillOptions, LedgerOptions, fill, weigh};

use std::path::{Path, PathBuf};

use crate::error::BenchError;
use crate::machine::MachineFacts;
use crate::process::this_program;
use crate::report::{self, ReportRow};

/// With more of the CPU than this in other hands, even ratios are noise.
const BUSY: f64 = 0.1;

/// Options of the whole run.
#[derive(clap::Args)]
pub(crate) struct SuiteOptions {
    /// Run one case only: 1 calls, 2 latency, 3 long list, 4 memory, 5 start, 6 search, 7 commits, 8 signals, 9 flood,
    /// 10 listeners, 11 add, 12 remove, 13 reload, 14 fan-out, 15 updates, 16 busy file, 17 idle watches,
    /// 20 script projects, 21 audit and quotas, 22 approvals, 23 verify; of the page 24 screens, 25 filters, 26 what is
    /// remembered, 27 idle, 28 calls; 29 rules, 30 tokens; of a cluster (needs nats-server) 31 forwarded calls, 32 answers of 64 MiB,
    /// 33 notices, 34 stale lists, 35 a killed replica, 36 NATS gone, 37 a replica cut off, 38 a replica that joins.
    #[arg(long, value_parser = clap::value_parser!(u8).range(1..=38))]
    only: Option<u8>,
    /// Seconds of each load run.
    #[arg(long, default_value_t = 4.0)]
    seconds: f64,
    /// Repetitions of each case.
    #[arg(long, default_value_t = 3)]
    repeat: usize,
    /// The gateway to measure [default: `tidings` beside this program].
    #[arg(long)]
    gateway: Option<PathBuf>,
    /// A folder or a git directory of mcp-bash, to be compared with.
    #[arg(long, value_name = "DIR")]
    mcp_bash: Option<PathBuf>,
    /// Where to write the numbers.
    #[arg(long, default_value = "target/bench.json")]
    json: PathBuf,
    /// Write the table and the machine's facts as a page.
    #[arg(long)]
    markdown: Option<PathBuf>,
    /// Exit with 0 even when a target is missed.
    #[arg(long)]
    pub(crate) no_fail: bool,
}

/// What every case needs.
struct BenchContext {
    gateway: PathBuf,
    seconds: f64,
    repeat: usize,
    folder: ScratchFolder,
}

/// A folder for configurations, logs and data, removed at the end.
struct ScratchFolder(PathBuf);

impl ScratchFolder {
    fn make() -> Result<Self, BenchError> {
        let folder = std::env::temp_dir().join(format!("tidings-bench-{}", std::process::id()));
        std::fs::create_dir_all(&folder).map_err(BenchError::io("making a scratch folder"))?;
        Ok(Self(folder))
    }

    fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for ScratchFolder {
    fn drop(&mut self) {
        // What is left behind lies in the system's temporary folder.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Runs the cases, prints and writes what they found; says whether every target holds.
pub(crate) async fn run(options: &SuiteOptions) -> Result<bool, BenchError> {
    let gateway = match &options.gateway {
        Some(path) => path.clone(),
        None => this_program()?.with_file_name("tidings"),
    };
    let bench = BenchContext {
        gateway,
        seconds: options.seconds,
        repeat: options.repeat.max(1),
        folder: ScratchFolder::make()?,
    };
    let machine = MachineFacts::read().await;
    if machine.busy_before > BUSY {
        eprintln!("warning: others use {:.0} % of the CPU; the numbers will say little", machine.busy_before * 100.0);
    }
    let rows = tokio::select! {
        rows = cases(&bench, options) => rows?,
        // Dropping the cases ends every process they started.
        _ = tokio::signal::ctrl_c() => return Err(BenchError::Interrupted),
    };

    println!("{}", report::table(&rows));
    let json = report::json(&machine, &rows, bench.seconds, bench.repeat);
    write(&options.json, &format!("{json:#}\n"))?;
    if let Some(path) = &options.markdown {
        let page = report::markdown(&machine, &rows, bench.seconds, bench.repeat);
        write(path, &page)?;
    }
    Ok(rows.iter().all(|row| row.ok))
}

async fn cases(bench: &BenchContext, options: &SuiteOptions) -> Result<Vec<ReportRow>, BenchError> {
    let wanted = |case| options.only.is_none_or(|only| only == case);
    let mut rows = Vec::new();
    if wanted(1) || wanted(2) {
        rows.extend(throughput::calls(bench, wanted(1), wanted(2)).await?);
    }
    if wanted(3) {
        rows.extend(throughput::lists(bench).await?);
    }
    if wanted(4) {
        rows.extend(memory::idle(bench).await);
    }
    if wanted(5) {
        rows.push(startup::one_hanging(bench).await?);
    }
    if wanted(6) {
        rows.extend(search::rows(bench));
    }
    if wanted(7) {
        rows.push(commits::row(bench));
    }
    if wanted(8) {
        rows.push(signals::latency(bench).await);
    }
    if wanted(9) {
        rows.push(signals::flood(bench).await);
    }
    if wanted(10) {
        rows.push(listeners::row(bench).await);
    }
    if wanted(20) {
        rows.extend(scripts::rows(bench, options.mcp_bash.as_deref()).await?);
    }
    if wanted(21) {
        rows.extend(throughput::records(bench).await?);
    }
    if wanted(22) {
        rows.push(trust::approvals(bench).await);
    }
    if wanted(23) {
        rows.push(trust::proof(bench).await);
    }
    if wanted(11) || wanted(12) {
        rows.extend(registry::add_and_remove(bench, wanted(11), wanted(12)).await);
    }
    if wanted(13) {
        rows.push(registry::reload(bench).await);
    }
    if wanted(14) {
        rows.extend(fan_out::rows(bench).await);
    }
    if wanted(15) {
        rows.push(updates::row(bench).await);
    }
    if wanted(16) {
        rows.push(busy_file::row(bench).await);
    }
    if wanted(17) {
        rows.extend(idle_watch::rows(bench).await);
    }
    if wanted(24) || wanted(25) {
        rows.extend(page::rows(bench).await);
    }
    if wanted(26) {
        rows.extend(page::ledger(bench).await);
    }
    if wanted(27) {
        rows.push(page::idle(bench).await);
    }
    if wanted(28) {
        rows.extend(page::calls(bench).await?);
    }
    if wanted(29) {
        rows.extend(policy::rows(bench));
    }
    if wanted(30) {
        rows.extend(admission::rows(bench).await?);
    }
    rows.extend(cluster::rows(bench, wanted).await);
    rows.sort_by_key(|row| row.case);
    Ok(rows)
}

fn write(path: &Path, text: &str) -> Result<(), BenchError> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(BenchError::io("making the report's folder"))?;
    }
    std::fs::write(path, text).map_err(BenchError::io("writing a report"))
}
