//! `tidings audit`: who did what, from the running gateway or from its store.

use jiff::{Timestamp, Zoned};
use serde_json::Value;
use tidings_store::ChangeRow;

use super::changes::{ChangesArgs, RecordLog, RowPrinter, print_log};
use super::terminal::{DIM, styled};
use crate::cli::Cli;
use crate::failure::CommandFailure;

pub(super) async fn run(cli: &Cli, args: ChangesArgs<'_>) -> Result<(), CommandFailure> {
    print_log(cli, RecordLog::Audit, &args, AuditPrinter).await
}

struct AuditPrinter;

impl RowPrinter for AuditPrinter {
    fn text(&mut self, row: &ChangeRow) -> Result<String, CommandFailure> {
        let record: Value = serde_json::from_slice(&row.json).map_err(CommandFailure::failed)?;
        Ok(line(&record))
    }

    fn nothing(&self, of_all: bool) -> &'static str {
        if of_all { "Nothing was recorded yet." } else { "Nothing was recorded since then." }
    }
}

/// One record on one line.
fn line(record: &Value) -> String {
    let text = |key: &str| record[key].as_str().unwrap_or_default();
    let time: Option<Timestamp> = text("time").parse().ok();
    let time = time.map_or_else(
        || text("time").to_owned(),
        |time| time.to_zoned(Zoned::now().time_zone().clone()).strftime("%Y-%m-%d %H:%M:%S").to_string(),
    );
    let names = |key: &str| {
        let names: Vec<&str> = record[key].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        names.join(", ")
    };
    let what = match text("kind") {
        "call" => call(record),
        "servers" => {
            let parts = [("now there", names("put")), ("gone", names("removed"))];
            let parts = parts.iter().filter(|(_, names)| !names.is_empty());
            format!("servers: {}", parts.map(|(word, names)| format!("{word}: {names}")).collect::<Vec<_>>().join("; "))
        }
        verdict @ ("approved" | "rejected") => format!("{verdict} {}: {}", text("server"), names("names")),
        "administration" => format!("{} by {}: {}", text("request"), text("principal"), record["status"]),
        "refused" => {
            let more = record["more"].as_u64().map(|more| format!(", and {more} more the minute before"));
            let peer = record["peer"].as_str().unwrap_or("somebody");
            format!("refused {peer} at {} ({}){}", text("path"), record["status"], more.unwrap_or_default())
        }
        "gap" => format!("{} records are missing here: they came faster than they could be written", record["lost"]),
        "checkpoint" => {
            format!("checkpoint: changes to {}, audit to {}", record["changes"]["seq"], record["audit"]["seq"])
        }
        other => other.to_owned(),
    };
    format!("{}  {what}\n", styled(DIM, &format!("{:>6}  {time}", record["seq"].to_string())))
}

fn call(record: &Value) -> String {
    let text = |key: &str| record[key].as_str().unwrap_or_default();
    let client = record["client"]["name"].as_str().map(|client| format!(" with {client}")).unwrap_or_default();
    let server = record["server"].as_str().map(|server| format!(" of {server}")).unwrap_or_default();
    let verb = match text("method") {
        "tools/call" => "called",
        "prompts/get" => "got prompt",
        _ => "read",
    };
    let outcome = match text("outcome") {
        "error" => format!("error {}", record["code"]),
        outcome => outcome.to_owned(),
    };
    let millis = record["micros"].as_f64().unwrap_or_default() / 1_000.0;
    format!("{}{client} {verb} {}{server}: {outcome} in {millis:.1} ms", text("principal"), text("name"))
}
