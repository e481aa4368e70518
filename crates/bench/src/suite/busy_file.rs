//! Case 16: a watched file that never rests.

use std::time::{Duration, Instant};

use serde_json::json;
use tidings_testkit::{Client, Gateway, TempDir};

use super::BenchContext;
use crate::report::{BenchSample, ReportRow, RowMeasure, RowTarget};

const NOTICE: &str = "notifications/resources/updated";
const CHANGES: usize = 1_000;
const PER_SECOND: u32 = 100;
/// What the configuration says by default.
const MAX_WAIT: Duration = Duration::from_secs(2);
/// Longer than any window: whatever the changes cause has happened.
const AFTERWARDS: Duration = Duration::from_secs(3);

/// Notices of a file that is written a hundred times a second.
pub(super) async fn row(bench: &BenchContext) -> ReportRow {
    let mut samples = Vec::new();
    let mut note = None;
    for repetition in 0..bench.repeat {
        eprintln!("busy file … {}/{}", repetition + 1, bench.repeat);
        let BusyFileResult { notices, last_told, last_read } = measure(bench).await;
        if !last_told || !last_read {
            note = Some(format!("the last change: announced {last_told}, read {last_read}"));
        }
        samples.push(BenchSample {
            baseline: None,
            gateway: Some(notices as f64),
            full: json!({ "notices": notices }),
        });
    }
    let seconds = CHANGES as f64 / f64::from(PER_SECOND);
    // One for each longest wait, and one for what was written after the last of them.
    let most = seconds / MAX_WAIT.as_secs_f64() + 1.0;
    let what = format!("a file written {PER_SECOND} times a second for {seconds} s: notices");
    ReportRow::judge(16, what, RowMeasure::Count, RowTarget::CountAtMost(most), samples, note)
}

struct BusyFileResult {
    notices: usize,
    last_told: bool,
    last_read: bool,
}

async fn measure(bench: &BenchContext) -> BusyFileResult {
    let folder = TempDir::new();
    let file = folder.write("busy.txt", "0");
    let toml = format!("[watch.busy]\nfile = {file:?}\n");
    let gateway = Gateway::builder().binary(&bench.gateway).toml(&toml).serve().await;
    let client = gateway.client().modern().connect().await;
    let filter = json!({ "notifications": { "resourceSubscriptions": ["watch://busy"] } });
    let mut listen = client.start("subscriptions/listen", filter);
    listen.next_method("notifications/subscriptions/acknowledged").await;
    let mut every = tokio::time::interval(Duration::from_secs(1) / PER_SECOND);
    for change in 1..=CHANGES {
        every.tick().await;
        folder.write("busy.txt", change.to_string());
    }
    // Notices that are here by now tell of earlier writes: the last one waits for a quiet moment or the longest wait.
    let before_the_last = client.count(NOTICE);
    let written = Instant::now();
    while client.count(NOTICE) == before_the_last && written.elapsed() < AFTERWARDS {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let last_told = client.count(NOTICE) > before_the_last;
    let last_read = reads(&client, &CHANGES.to_string()).await;
    tokio::time::sleep(AFTERWARDS).await;
    BusyFileResult { notices: client.count(NOTICE), last_told, last_read }
}

async fn reads(client: &Client, text: &str) -> bool {
    let read = client.request("resources/read", json!({ "uri": "watch://busy" })).await.result();
    read["contents"][0]["text"] == text
}
