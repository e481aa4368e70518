//! `tidings audit`: who did what, from the running gateway or from its store.

use jiff::{Timestamp, Zoned};
use serde_json::Value;
use tidings_store::ChangeRow;

use super::changes::{ChangesArgs, RecordLog, RowPrinter, print_log};
use super::terminal::{DIM, TerminalPaint, harmless};
use crate::cli::Cli;
use crate::failure::CommandFailure;

pub(super) async fn run(cli: &Cli, args: ChangesArgs<'_>) -> Result<(), CommandFailure> {
    print_log(cli, RecordLog::Audit, &args, AuditPrinter { paint: TerminalPaint::for_stdout() }).await
}

struct AuditPrinter {
    paint: TerminalPaint,
}

impl RowPrinter for AuditPrinter {
    fn text(&mut self, row: &ChangeRow) -> Result<String, CommandFailure> {
        Ok(match serde_json::from_slice(&row.json) {
            Ok(record) => line(self.paint, &record),
            // The next ones can be read all the same.
            Err(_) => numbered(self.paint, &row.seq.to_string(), "", &String::from_utf8_lossy(&row.json)),
        })
    }

    fn nothing(&self, of_all: bool) -> &'static str {
        if of_all { "Nothing was recorded yet." } else { "Nothing was recorded since then." }
    }
}

/// One record on one line.
fn line(paint: TerminalPaint, record: &Value) -> String {
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
        verdict @ ("approved" | "rejected") => {
            let unknown =
                if record["unanswered"] == true { "; the cluster did not say whether that holds" } else { "" };
            format!("{verdict} {}: {}{unknown}", text("server"), names("names"))
        }
        "policy" => match record["rules"].as_u64() {
            Some(rules) => format!("policy: {rules} rules, mode {}", text("mode")),
            None => "policy: none any more".to_owned(),
        },
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
    numbered(paint, &record["seq"].to_string(), &time, &what)
}

/// A line of ours. Almost all of it is what somebody else said, and none of that may begin a line of its own.
fn numbered(paint: TerminalPaint, seq: &str, time: &str, what: &str) -> String {
    format!("{}  {}\n", paint.styled(DIM, &harmless(&format!("{seq:>6}  {time}"))), harmless(what))
}

fn call(record: &Value) -> String {
    let text = |key: &str| record[key].as_str().unwrap_or_default();
    let client = match (record["client"]["name"].as_str(), record["client_cut"]["bytes"].as_u64()) {
        (Some(client), _) => format!(" with {client}"),
        (None, Some(size)) => format!(" with a client that says {size} bytes of itself"),
        (None, None) => String::new(),
    };
    let cut = record["name_cut"]["bytes"].as_u64().map(|size| format!("… ({size} bytes)")).unwrap_or_default();
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
    format!("{}{client} {verb} {}{cut}{server}: {outcome} in {millis:.1} ms", text("principal"), text("name"))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use bytes::Bytes;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_decision_that_the_cluster_did_not_answer_does_not_look_like_one_that_holds() {
        let mut record = json!({ "seq": 1, "kind": "approved", "server": "notes", "names": ["add", "list"] });
        let paint = TerminalPaint { colours: false, width: None };
        assert!(line(paint, &record).ends_with("approved notes: add, list\n"), "{record}");
        record["unanswered"] = true.into();
        let shown = line(paint, &record);
        assert!(shown.ends_with("approved notes: add, list; the cluster did not say whether that holds\n"), "{shown}");
    }

    #[test]
    fn a_record_is_one_line_whatever_others_said_in_it() {
        let forged = "x\n     9  2026-11-16 09:13:02  PUT /servers/notes by admin: 200\u{1b}[2J\u{202e}";
        let mut records: Vec<String> = ["call", "servers", "approved", "administration", "refused", forged]
            .map(|kind| {
                json!({
                    "seq": 1, "kind": kind, "time": forged, "name": forged, "principal": forged, "server": forged,
                    "client": { "name": forged }, "method": forged, "outcome": forged, "put": [forged], "removed": [forged],
                    "names": [forged], "request": forged, "status": forged, "peer": forged, "path": forged, "code": forged,
                })
                .to_string()
            })
            .into();
        // One that can not be read is shown, and the command goes on.
        records.push("{\"seq\":7,\"n\":1e999}\n     9  PUT".to_owned());
        let mut printer = AuditPrinter { paint: TerminalPaint { colours: false, width: None } };
        for record in records {
            let row = ChangeRow { seq: 7, time: 0, json: Bytes::from(record) };
            let shown = printer.text(&row).unwrap();
            let printed = crate::plain_text::with_styles(&shown).into_owned();
            assert!(printed.ends_with('\n') && printed.lines().count() == 1, "{printed}");
            assert!(!printed.trim_end().contains(|c: char| c.is_control() || c == '\u{202e}'), "{printed:?}");
        }
    }
}
