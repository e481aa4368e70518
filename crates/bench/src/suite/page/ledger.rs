//! Case 26: what is remembered of who was told, in a process that holds nothing else.

use std::time::Instant;

use serde::{Deserialize, Serialize};
use serde_json::json;
use tidings_hub::deliveries::{COMMITS, Deliveries, EVENTS};
use tidings_hub::ledger::{FollowerId, LedgerCommit, Topic, Topics};

use super::{BenchContext, CLIENTS};
use crate::error::BenchError;
use crate::machine::private_mb;
use crate::process::run_part;
use crate::report::{BenchSample, ReportRow, RowMeasure, RowTarget};

/// So many crowds of clients: one would be a few pages of memory.
const CROWDS: usize = 40;

/// Options of the `ledger` part.
#[derive(clap::Args)]
pub(crate) struct LedgerOptions {
    /// How many clients.
    #[arg(long, default_value_t = CLIENTS)]
    clients: usize,
}

#[derive(Deserialize, Serialize)]
struct LedgerWeight {
    bytes_per_client: f64,
    full_mb: f64,
}

/// Fills it and prints what it weighs.
pub(crate) async fn weigh(options: &LedgerOptions) -> Result<(), BenchError> {
    let weight = weighed(options.clients)?;
    println!("{}", json!(weight));
    Ok(())
}

fn weighed(clients: usize) -> Result<LedgerWeight, BenchError> {
    let own = || {
        let unreadable = || BenchError::unexpected("the kernel", "RssAnon of this process", b"");
        private_mb(std::process::id()).ok_or_else(unreadable)
    };
    let begun = Instant::now();
    let crowd = || {
        let mut deliveries = Deliveries::new(begun);
        (0..clients as u64).for_each(|id| deliveries.came(FollowerId(id), 0, Topics::ALL, false));
        deliveries
    };
    let before = own()?;
    let mut crowds: Vec<Deliveries> = (0..CROWDS).map(|_| crowd()).collect();
    let bytes_per_client = (own()? - before) * f64::from(1 << 20) / (CROWDS * clients) as f64;
    // One of them remembers as much as it ever will.
    let before = own()?;
    let done = LedgerCommit { owing: [clients as u64, 0, 0], ..LedgerCommit::default() };
    if let Some(deliveries) = crowds.first_mut() {
        (0..COMMITS as u64).for_each(|number| _ = deliveries.committed(begun, number, &done, [1, 0, 0]));
        (0..EVENTS + clients).for_each(|at| deliveries.listed(FollowerId((at % clients) as u64), Topic::Tools, begun));
    }
    let full_mb = own()? - before + bytes_per_client * clients as f64 / f64::from(1 << 20);
    Ok(LedgerWeight { bytes_per_client, full_mb })
}

/// What each client takes, and the whole when it is full.
pub(in crate::suite) async fn rows(bench: &BenchContext) -> [ReportRow; 2] {
    let (mut each, mut whole, mut note) = (Vec::new(), Vec::new(), None);
    for repetition in 0..bench.repeat {
        eprintln!("the page: what is remembered … {}/{}", repetition + 1, bench.repeat);
        let sample = |number: f64, weight: &LedgerWeight| BenchSample {
            baseline: None,
            gateway: Some(number),
            full: json!(weight),
        };
        match run_part("ledger", &[]).await.and_then(|output| read(&output)) {
            Ok(weight) => {
                each.push(sample(weight.bytes_per_client, &weight));
                whole.push(sample(weight.full_mb, &weight));
            }
            Err(error) => note = Some(error.to_string()),
        }
    }
    let what = format!("the page: what is remembered of each of {CLIENTS} clients");
    let each = ReportRow::judge(26, what, RowMeasure::Bytes, RowTarget::BytesAtMost(64.0), each, note.clone());
    let what = format!("the page: all that is remembered, {EVENTS} events and {COMMITS} commits");
    [each, ReportRow::judge(26, what, RowMeasure::Megabytes, RowTarget::MegabytesAtMost(28.0), whole, note)]
}

fn read(output: &[u8]) -> Result<LedgerWeight, BenchError> {
    serde_json::from_slice(output).map_err(|_| BenchError::unexpected("the ledger part", "its weight", output))
}
