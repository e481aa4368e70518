//! `tidings approvals`, `approve` and `reject`: definitions that wait for somebody to decide.

use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use tidings_engine::ApprovalVerdict;
use tidings_store::{ChangedItem, FieldChange};

use super::changes::render::ChangePage;
use super::status::ago;
use super::terminal::{BOLD, CAME, DIM, KIND, TerminalPaint, WENT, harmless, plural};
use crate::backend::Backend;
use crate::cli::Cli;
use crate::failure::CommandFailure;

/// The word of a decision, which is the command too.
const fn word(verdict: ApprovalVerdict) -> &'static str {
    match verdict {
        ApprovalVerdict::Approve => "approve",
        ApprovalVerdict::Reject => "reject",
    }
}

/// What was done with an item.
const fn done(verdict: ApprovalVerdict) -> &'static str {
    match verdict {
        ApprovalVerdict::Approve => "Approved",
        ApprovalVerdict::Reject => "Rejected",
    }
}

/// Shows what is held, with how it differs from what was approved.
pub(super) async fn list(cli: &Cli, as_json: bool) -> Result<(), CommandFailure> {
    let backend = Backend::open(cli)?;
    let found = backend.approvals().await;
    backend.close().await;
    let found = found?;
    if as_json {
        println!("{found:#}");
        return Ok(());
    }
    let paint = TerminalPaint::for_stdout();
    let all = rows(&found);
    if all.is_empty() {
        println!("Nothing waits for approval.");
    }
    for row in all {
        print!("{}", shown(row, paint));
    }
    Ok(())
}

/// Decides about what a selection means.
pub(super) async fn decide(
    cli: &Cli,
    verdict: ApprovalVerdict,
    selection: Option<&str>,
    all: bool,
) -> Result<(), CommandFailure> {
    if selection.is_none() && !all {
        let word = word(verdict);
        return Err(CommandFailure::Usage(format!(
            "say what: tidings {word} SERVER, tidings {word} SERVER/NAME, or tidings {word} --all; `tidings approvals` shows what waits"
        )));
    }
    let backend = Backend::open(cli)?;
    let done = decide_with(&backend, verdict, selection).await;
    backend.close().await;
    done
}

async fn decide_with(
    backend: &Backend,
    verdict: ApprovalVerdict,
    selection: Option<&str>,
) -> Result<(), CommandFailure> {
    let found = backend.approvals().await?;
    let (chosen, suspect) = choose(rows(&found), verdict, selection);
    for row in &suspect {
        let (server, name) = (text(row, "server"), text(row, "name"));
        eprintln!(
            "Left out, because it is suspect: {server}/{name}. Look at it, then: tidings approve {server}/{name}"
        );
    }
    if chosen.is_empty() {
        return match selection {
            _ if !suspect.is_empty() => Err(CommandFailure::Failed("nothing was approved".into())),
            Some(what) => {
                let hint = "`tidings approvals` shows what waits";
                Err(CommandFailure::Failed(format!("nothing of \"{}\" waits for approval; {hint}", harmless(what))))
            }
            None => {
                println!("Nothing waits for approval.");
                Ok(())
            }
        };
    }
    let items: Vec<Value> = chosen.iter().map(|row| json!({ "id": row["id"], "digest": row["digest"] })).collect();
    let decided = backend.decide(&json!({ "decision": word(verdict), "items": items })).await?;
    for row in decided["decided"].as_array().into_iter().flatten() {
        println!("{} {}/{}.", done(verdict), text(row, "server"), text(row, "name"));
    }
    if suspect.is_empty() {
        return Ok(());
    }
    Err(CommandFailure::Failed(format!("{} left out", plural(suspect.len() as u64, "suspect definition"))))
}

/// What a selection means: everything of a server, one item, or (without one) everything. What was rejected, or is suspect, is approved
/// only by its own name.
fn choose<'v>(
    rows: &'v [Value],
    verdict: ApprovalVerdict,
    selection: Option<&str>,
) -> (Vec<&'v Value>, Vec<&'v Value>) {
    let is_named = |row: &Value| {
        let name =
            format!("{}/{}", row["server"].as_str().unwrap_or_default(), row["name"].as_str().unwrap_or_default());
        selection == Some(&*name)
    };
    let is_meant = |row: &&Value| selection.is_none_or(|what| row["server"] == what) && row["rejected"] != true;
    let is_suspect = |row: &Value| {
        let mut findings = row["findings"].as_array().into_iter().flatten();
        verdict == ApprovalVerdict::Approve && findings.any(|finding| finding["severity"] == "suspect")
    };
    let named: Vec<&Value> = rows.iter().filter(|row| is_named(row)).collect();
    if !named.is_empty() {
        return (named, Vec::new());
    }
    let (suspect, chosen) = rows.iter().filter(is_meant).partition(|row| is_suspect(row));
    (chosen, suspect)
}

fn rows(found: &Value) -> &[Value] {
    found["approvals"].as_array().map(Vec::as_slice).unwrap_or_default()
}

fn text(row: &Value, key: &str) -> String {
    harmless(row[key].as_str().unwrap_or_default())
}

/// One held item: what it is, what is suspect about it, and how it differs.
fn shown(row: &Value, paint: TerminalPaint) -> String {
    let state = match (row["rejected"] == true, row["reason"] == "new") {
        (true, _) => "rejected",
        (false, true) => "new",
        (false, false) => "changed",
    };
    let name = format!("{}/{}", text(row, "server"), text(row, "name"));
    let mut out = format!(
        "{}  {}  {}\n",
        paint.styled(BOLD, &name),
        paint.styled(KIND, &text(row, "kind")),
        paint.styled(DIM, &format!("{state}, held for {}", ago(&row["since"]))),
    );
    for finding in row["findings"].as_array().into_iter().flatten() {
        let style = if finding["severity"] == "suspect" { WENT } else { DIM };
        let line = format!("! {}: {}", text(finding, "severity"), text(finding, "text"));
        out.push_str(&format!("  {}\n", paint.styled(style, &line)));
    }
    match (row["approved"].as_object(), row["definition"].as_object()) {
        (Some(before), Some(now)) => out.push_str(&ChangePage::new(paint).definition(&difference(row, before, now))),
        (None, Some(now)) => {
            if row["reason"] == "changed" {
                out.push_str("  the definition that was approved is not known here, only its hash\n");
            }
            let description = now.get("description").and_then(Value::as_str).unwrap_or_default();
            for line in description.lines().map(harmless) {
                out.push_str(&format!("      {}\n", paint.styled(CAME, &format!("+ {line}"))));
            }
        }
        _ => {}
    }
    out.push('\n');
    out
}

/// The members that differ, as the change feed shows them.
fn difference(row: &Value, before: &Map<String, Value>, now: &Map<String, Value>) -> ChangedItem {
    let mut fields: Vec<&String> = before.keys().chain(now.keys()).collect();
    fields.sort();
    fields.dedup();
    fields.retain(|field| before.get(*field) != now.get(*field));
    let raw = |value: Option<&Value>| RawValue::from_string(value?.to_string()).ok();
    let diff = |field: &&String| FieldChange {
        field: (*field).clone(),
        before: raw(before.get(*field)),
        after: raw(now.get(*field)),
        truncated: false,
    };
    ChangedItem {
        name: row["name"].as_str().unwrap_or_default().to_owned(),
        diff: fields.iter().map(diff).collect(),
        fields: fields.into_iter().cloned().collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(server: &str, name: &str, rejected: bool, suspect: bool) -> Value {
        let findings = if suspect { json!([{ "severity": "suspect", "code": "x", "text": "bad" }]) } else { json!([]) };
        json!({ "server": server, "name": name, "kind": "tools", "reason": "changed", "rejected": rejected, "since": 0,
            "findings": findings, "approved": { "name": name, "description": "Adds." },
            "definition": { "name": name, "description": "Adds all." } })
    }

    #[test]
    fn what_is_rejected_or_suspect_is_approved_by_its_own_name_only() {
        let rows = [
            held("a", "one", false, false),
            held("a", "two", true, false),
            held("a", "three", false, true),
            held("b", "one", false, false),
        ];
        let names = |(chosen, left): (Vec<&Value>, Vec<&Value>)| {
            let name = |row: &&Value| format!("{}/{}", text(row, "server"), text(row, "name"));
            (chosen.iter().map(name).collect::<Vec<_>>(), left.iter().map(name).collect::<Vec<_>>())
        };
        let chosen = |verdict, selection| names(choose(&rows, verdict, selection));
        assert_eq!(
            chosen(ApprovalVerdict::Approve, None),
            (vec!["a/one".into(), "b/one".into()], vec!["a/three".into()])
        );
        assert_eq!(chosen(ApprovalVerdict::Approve, Some("b")).0, ["b/one"]);
        assert_eq!(chosen(ApprovalVerdict::Approve, Some("a/two")).0, ["a/two"]);
        assert_eq!(chosen(ApprovalVerdict::Approve, Some("a/three")).0, ["a/three"]);
        assert_eq!(chosen(ApprovalVerdict::Reject, Some("a")).0, ["a/one", "a/three"]);
        assert_eq!(chosen(ApprovalVerdict::Approve, Some("c")), (vec![], vec![]));
    }

    #[test]
    fn a_held_item_is_shown_with_what_is_suspect_and_how_it_differs() {
        let shown = shown(&held("a", "add", false, true), TerminalPaint { colours: false, width: None });
        for part in
            ["a/add  tools  changed, held for", "! suspect: bad", "~ add (description)", "- Adds.", "+ Adds all."]
        {
            assert!(shown.contains(part), "{part}: {shown}");
        }
    }
}
