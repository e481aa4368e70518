//! `tidings verify`: proves that no record was taken out, altered or moved.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use tidings_store::{
    AuditLimits, AuditLog, Checkpoint, LogReport, SinkSettings, Store, StoreError, VerifyReport, verify,
};

use super::terminal::harmless;
use crate::backend::{ApiReply, ask};
use crate::cli::Cli;
use crate::data::{DataDir, RunningGateway};
use crate::failure::CommandFailure;

/// What was typed after `tidings verify`.
pub(super) struct VerifyArgs<'a> {
    pub(super) against: Option<&'a Path>,
    pub(super) key: Option<&'a str>,
    pub(super) checkpoint: bool,
    pub(super) json: bool,
}

pub(super) async fn run(cli: &Cli, args: VerifyArgs<'_>) -> Result<(), CommandFailure> {
    let data = DataDir::find(cli.data.as_deref())?;
    if args.checkpoint {
        let checkpoint = sign(&data).await?;
        println!("{checkpoint}");
        return Ok(());
    }
    let given = args.against.map(checkpoints).transpose()?.unwrap_or_default();
    let report = match data.running() {
        Some(running) => {
            let body = json!({ "checkpoints": given, "key": args.key });
            let answer = post(&running, "audit/verify", &body).await?;
            serde_json::from_value(answer).map_err(CommandFailure::failed)?
        }
        None => match existing(&data)? {
            Some(store) => verify(&store, &given, args.key).map_err(CommandFailure::failed)?,
            None if given.is_empty() => VerifyReport::without_store(data.path()),
            None => return Err(CommandFailure::Failed("there is no store, and so none of the records".to_owned())),
        },
    };
    if args.json {
        println!("{}", serde_json::to_string_pretty(&report).map_err(CommandFailure::failed)?);
    } else {
        print!("{}", words(&report));
    }
    if report.holds() {
        return Ok(());
    }
    let faults: Vec<String> = report.faults.iter().map(|fault| harmless(fault)).collect();
    Err(CommandFailure::Failed(format!(
        "the records are not proved to be as they were written:\n  {}",
        faults.join("\n  ")
    )))
}

fn words(report: &VerifyReport) -> String {
    let log = |name: &str, log: &LogReport| {
        let compacted = match log.compacted_to {
            0 => String::new(),
            to => format!("; those up to {to} were compacted, and left their hash"),
        };
        let unchained = match log.unchained {
            0 => String::new(),
            count => format!("; {count} were written before there was a chain"),
        };
        format!("{name:<12} {} records up to number {}{compacted}{unchained}\n", log.records, log.last)
    };
    let keys: String = report.keys.iter().map(|key| format!("{:<12} {}\n", "signed by", harmless(key))).collect();
    let uncompared = match report.uncompared {
        0 => String::new(),
        count => format!("; {count} name what was compacted, and no later one speaks for it"),
    };
    let verdict = if report.holds() { "Nothing was taken out, altered or moved.\n" } else { "" };
    format!(
        "{}{}{:<12} {}{uncompared}\n{keys}{verdict}",
        log("changes", &report.changes),
        log("audit", &report.audit),
        "checkpoints",
        report.checkpoints
    )
}

/// The checkpoints in a file: one to a line, among other lines if need be.
fn checkpoints(path: &Path) -> Result<Vec<Checkpoint>, CommandFailure> {
    let text = std::fs::read(path).map_err(|error| CommandFailure::Failed(format!("{}: {error}", path.display())))?;
    let found: Vec<Checkpoint> = text.split(|byte| *byte == b'\n').filter_map(Checkpoint::read).collect();
    if found.is_empty() {
        let text = format!("{}: there is no checkpoint in it; `tidings verify --checkpoint` makes one", path.display());
        return Err(CommandFailure::Failed(text));
    }
    Ok(found)
}

fn existing(data: &DataDir) -> Result<Option<Store>, CommandFailure> {
    Store::existing(data.path()).map_err(|error| match error {
        StoreError::InUse(_) => CommandFailure::Failed(format!(
            "{error}, probably a `tidings stdio`, and no `tidings serve` is running to ask; try again when it has ended"
        )),
        error => CommandFailure::failed(error),
    })
}

async fn post(running: &RunningGateway, path: &str, body: &Value) -> Result<Value, CommandFailure> {
    match ask(running, http::Method::POST, path, Some(body)).await? {
        ApiReply::Done(value) => Ok(value),
        ApiReply::Refused { detail, .. } => {
            Err(CommandFailure::Failed(format!("the gateway at {} refused: {detail}", running.url)))
        }
    }
}

/// Has a checkpoint signed by whoever has the store.
async fn sign(data: &DataDir) -> Result<String, CommandFailure> {
    if let Some(running) = data.running() {
        return Ok(post(&running, "audit/checkpoints", &json!({})).await?.to_string());
    }
    let store = existing(data)?.ok_or_else(|| CommandFailure::Failed("nothing was recorded yet".to_owned()))?;
    if !store.is_signed() {
        return Err(CommandFailure::Failed(
            "chain.key of the data directory can not be read; nothing can be signed".to_owned(),
        ));
    }
    // What is kept is for the gateway to decide, which knows the configuration.
    let limits = AuditLimits { max_age: Duration::MAX, max_records: u64::MAX, max_bytes: u64::MAX, max_waiting: 0 };
    let (log, _queue) = AuditLog::start::<()>(store, limits, SinkSettings::default());
    let checkpoint = log.checkpoint().await.map_err(CommandFailure::failed)?;
    log.close().await;
    serde_json::to_string(&checkpoint).map_err(CommandFailure::failed)
}
