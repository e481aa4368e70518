//! Whether the clients of a running gateway hear what they are told.

use serde_json::Value;

use super::finding::DoctorFinding;
use crate::backend;
use crate::commands::terminal::plural;
use crate::data::RunningGateway;
use crate::plain_text;

/// So many names are said; the others are counted.
const NAMED: usize = 5;

pub(super) async fn findings(running: Option<&RunningGateway>) -> Vec<DoctorFinding> {
    let Some(running) = running else { return Vec::new() };
    // A gateway that does not say is no finding of its own.
    backend::api(running, "clients").await.map(|found| examine(&found)).unwrap_or_default()
}

fn examine(found: &Value) -> Vec<DoctorFinding> {
    const ABOUT: &str = "clients";
    let all = || found["clients"].as_array().into_iter().flatten();
    let names = |state: &str| -> Vec<String> {
        let of = all().filter(|client| client["state"] == state);
        of.map(|client| plain_text::line(client["name"].as_str().unwrap_or("a client without a name"))).collect()
    };
    let mut findings = Vec::new();
    for (state, what, remedy) in [
        (
            "deaf",
            "were told that lists changed and did not ask for them since",
            "tidings clients; expose = \"search\" or hint = true in [clients.NAME] help clients that do not hear, see docs/clients.md",
        ),
        (
            "unreached",
            "are owed a notice that their connection does not take",
            "tidings clients; a client over HTTP hears only while it has a stream open",
        ),
    ] {
        let names = names(state);
        if names.is_empty() {
            continue;
        }
        let more = match names.len().saturating_sub(NAMED) {
            0 => String::new(),
            more => format!(", and {more} more"),
        };
        let who = format!("{}{more}", names[..names.len().min(NAMED)].join(", "));
        findings.push(DoctorFinding::note(ABOUT, format!("{who} {what}"), remedy));
    }
    let count = all().count() as u64;
    if findings.is_empty() && count > 0 {
        findings.push(DoctorFinding::fine(ABOUT, format!("{}, none of them deaf", plural(count, "client"))));
    }
    findings
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    // reach 3
    #[test]
    fn clients_that_do_not_hear_are_named_with_what_helps() {
        let client = |name: &str, state: &str| json!({ "name": name, "state": state });
        let found =
            json!({ "clients": [client("codex\u{1b}[2J", "deaf"), client("zed", "heard"), client("x", "unreached")] });
        let findings: Vec<Value> = examine(&found).iter().map(DoctorFinding::json).collect();
        assert_eq!(findings.len(), 2, "{findings:?}");
        assert!(findings.iter().all(|finding| finding["level"] == "note"), "{findings:?}");
        let what = findings[0]["what"].as_str().unwrap_or_default();
        assert!(what.starts_with("codex") && !what.contains('\u{1b}') && !what.contains("zed"), "{what}");
        let fine = examine(&json!({ "clients": [client("zed", "heard")] }));
        assert_eq!(fine[0].json()["what"], "1 client, none of them deaf");
        assert!(examine(&json!({ "clients": [] })).is_empty());
    }
}
