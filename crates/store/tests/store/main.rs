//! The change log over its two shelves, and the file through crashes, damage and company.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bounds;
mod chain;
mod company;
mod following;
mod last_lists;
mod numbers;
mod search;
mod sessions;

use std::path::Path;
use std::time::Duration;

use jiff::Timestamp;
use tidings_store::{ChangeLog, ChangeQuery, ChangeRecord, ChangeRow, LogLimits, QueryStart, Store};

/// A change that adds one tool, at this time.
fn added_at(name: &str, time: Timestamp) -> ChangeRecord {
    ChangeRecord {
        seq: 0,
        time,
        commit: None,
        server: "one".into(),
        kind: "tools".into(),
        added: vec![name.into()],
        removed: Vec::new(),
        changed: Vec::new(),
        while_down: false,
        held: false,
        severity: None,
        remarks: Vec::new(),
        omitted: 0,
        lost: 0,
    }
}

fn added(name: &str) -> ChangeRecord {
    added_at(name, Timestamp::now())
}

/// A log over a directory. The thread of a log before it may hold the file for a moment more.
fn log(directory: &Path, limits: LogLimits) -> ChangeLog {
    impatient(directory, limits, Duration::from_secs(10))
}

fn impatient(directory: &Path, limits: LogLimits, patience: Duration) -> ChangeLog {
    let directory = directory.to_owned();
    ChangeLog::start(move || Store::open(&directory, patience), limits)
}

fn in_memory(limits: LogLimits) -> ChangeLog {
    ChangeLog::start(Store::in_memory, limits)
}

const ALL: ChangeQuery = ChangeQuery { from: QueryStart::After(0), limit: usize::MAX, max_bytes: usize::MAX };

/// Waits until this many changes were written since the log was opened.
async fn wait_written(log: &ChangeLog, after: u64, count: usize) -> Vec<ChangeRow> {
    let mut tail = log.follow(Some(after)).await.unwrap();
    let mut rows = Vec::new();
    while rows.len() < count {
        rows.extend(tail.next().await.unwrap());
    }
    rows
}

fn name(row: &ChangeRow) -> String {
    let record: ChangeRecord = serde_json::from_slice(&row.json).unwrap();
    assert_eq!(record.seq, row.seq);
    record.added[0].clone()
}

fn names(rows: &[ChangeRow]) -> Vec<String> {
    rows.iter().map(name).collect()
}
