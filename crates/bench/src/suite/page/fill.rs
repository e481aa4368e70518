//! The `fill` part: a change log with many changes, written before a gateway has it.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde_json::Value;
use serde_json::value::RawValue;
use tidings_store::{ChangeLog, ChangeQuery, ChangeRecord, ChangedItem, FieldChange, LogLimits, QueryStart, Store};

use super::SERVERS;
use crate::error::BenchError;

/// How many records may wait to be written while the log is filled.
const AHEAD: usize = 1_000;
/// How long filling may take.
const FILLING: Duration = Duration::from_secs(120);

/// Options of the `fill` part.
#[derive(clap::Args)]
pub(crate) struct FillOptions {
    /// The data directory.
    #[arg(long)]
    data: PathBuf,
    /// How many changes.
    #[arg(long)]
    changes: usize,
    /// Without what the tools said: a hundred thousand changes with it are more than a log keeps.
    #[arg(long)]
    bare: bool,
}

/// Fills the change log of a data directory that no gateway has.
pub(crate) async fn fill(options: &FillOptions) -> Result<(), BenchError> {
    fill_log(&options.data, options.changes, options.bare).await
}

/// Writes the change log of a data directory.
async fn fill_log(data: &Path, changes: usize, bare: bool) -> Result<(), BenchError> {
    std::fs::create_dir_all(data).map_err(BenchError::io("making a data directory"))?;
    let store = Store::open(data, Duration::ZERO);
    let log = ChangeLog::start(move || store, LogLimits::default());
    let deadline = Instant::now() + FILLING;
    for number in 0..changes {
        log.append(record(number, bare)?, None);
        if number % AHEAD == AHEAD - 1 {
            // What does not fit would be lost.
            while written(&log).await < number as u64 {
                if Instant::now() > deadline {
                    return Err(BenchError::unexpected("the change log", "that it is written", b""));
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
    }
    log.close().await;
    Ok(())
}

async fn written(log: &ChangeLog) -> u64 {
    let newest = ChangeQuery { from: QueryStart::Newest, limit: 1, max_bytes: 1 };
    log.read(newest).await.map_or(0, |found| found.last)
}

/// A change of two texts of a tool; every tenth adds and removes tools besides.
fn record(number: usize, bare: bool) -> Result<ChangeRecord, BenchError> {
    let diff = if bare { Vec::new() } else { texts(number)? };
    let tenth = number.is_multiple_of(10);
    Ok(ChangeRecord {
        seq: 0,
        time: Timestamp::now(),
        commit: Some(1_000_000 + number as u64),
        server: format!("s{:04}", number % SERVERS),
        kind: "tools".to_owned(),
        added: if tenth { vec!["create_issue".to_owned()] } else { Vec::new() },
        removed: if tenth { vec!["old_search".to_owned()] } else { Vec::new() },
        changed: vec![ChangedItem {
            name: "search".to_owned(),
            fields: vec!["description".to_owned(), "title".to_owned()],
            diff,
        }],
        while_down: false,
        held: false,
        severity: Some(["wording", "suspect", "breaking", "quiet"][number % 4].to_owned()),
        remarks: Vec::new(),
        omitted: 0,
        lost: 0,
    })
}

/// Two members, before and after.
fn texts(number: usize) -> Result<Vec<FieldChange>, BenchError> {
    let text = |which: &str| {
        let words =
            format!("Searches the {which} {number} of the project for what is asked, with the words of the question. ");
        words + &"Gives the best first, at most as many as are wanted. ".repeat(4)
    };
    let raw = |text: String| {
        let unreadable =
            |error: serde_json::Error| BenchError::unexpected("a text", "JSON", error.to_string().as_bytes());
        RawValue::from_string(Value::from(text).to_string()).map(Some).map_err(unreadable)
    };
    let field = |field: &str| {
        let (before, after) = (raw(text("notes"))?, raw(text("files"))?);
        Ok(FieldChange { field: field.to_owned(), before, after, truncated: false })
    };
    ["description", "title"].into_iter().map(field).collect()
}
