//! `tidings explain --with FILE`: who would gain or lose what under other rules.

use std::path::Path;

use serde_json::{Value, json};
use tidings_config::parse_policy;

use super::ExplainArgs;
use crate::backend::{ApiReply, ask};
use crate::commands::terminal::{BOLD, harmless, styled};
use crate::data::RunningGateway;
use crate::failure::CommandFailure;

/// How many items of one person are shown; `--json` has all of them.
const SHOWN: usize = 20;

pub(super) async fn run(running: &RunningGateway, args: &ExplainArgs<'_>, file: &Path) -> Result<(), CommandFailure> {
    let text = std::fs::read_to_string(file)
        .map_err(|error| CommandFailure::Failed(format!("{}: {error}", file.display())))?;
    // Here first: only here is it known what the file is called.
    parse_policy(&text, file).map_err(|errors| CommandFailure::Failed(errors.to_string()))?;
    let who = (!args.who.is_empty()).then(|| args.who.join(","));
    let wanted = json!({ "policy": text, "as": who, "groups": args.groups.join(","), "item": args.item });
    let compared = match ask(running, http::Method::POST, "explain", Some(&wanted)).await? {
        ApiReply::Done(compared) => compared,
        ApiReply::Refused { detail, .. } => return Err(CommandFailure::Failed(detail)),
    };
    match args.json {
        true => println!("{compared:#}"),
        false => print!("{}", words(&compared, &file.display().to_string())),
    }
    Ok(())
}

fn words(compared: &Value, file: &str) -> String {
    let mut out = String::new();
    if compared["mode"] == "report" {
        out.push_str(&format!("{file} only tries its rules (mode = \"report\"); this is what they would do.\n"));
    }
    let changed = compared["changed"].as_array().map(Vec::as_slice).unwrap_or_default();
    for person in changed {
        out.push_str(&format!("{}\n", styled(BOLD, &harmless(person["who"].as_str().unwrap_or_default()))));
        for (key, verb) in [("gains", "would gain"), ("loses", "would lose")] {
            let items = person[key].as_array().map(Vec::as_slice).unwrap_or_default();
            items.iter().take(SHOWN).for_each(|item| out.push_str(&line(verb, item)));
            if let Some(more) = items.len().checked_sub(SHOWN).filter(|more| *more > 0) {
                out.push_str(&format!("  {verb} {more} more; --json lists them\n"));
            }
        }
    }
    let same: Vec<String> = texts(&compared["unchanged"]);
    match (changed.is_empty(), same.is_empty()) {
        (true, _) => out.push_str("Nobody would gain or lose anything that is listed now.\n"),
        (false, false) => out.push_str(&format!("Nothing would change for {}.\n", same.join(", "))),
        (false, true) => {}
    }
    out
}

fn line(verb: &str, item: &Value) -> String {
    let text = |key: &str| harmless(item[key].as_str().unwrap_or_default());
    let scopes = texts(&item["scopes"]);
    let scopes = if scopes.is_empty() { String::new() } else { format!(", unless the token has {}", scopes.join(" ")) };
    format!("  {verb} {} ({}): {}{scopes}\n", text("item"), text("kind"), texts(&item["to"]).join(", "))
}

fn texts(list: &Value) -> Vec<String> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str).map(harmless).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    // identity 3
    #[test]
    fn gains_and_losses_are_said_by_person() {
        let item = |name: &str, to: &[&str]| json!({ "item": name, "kind": "tool", "to": to });
        let mut scoped = item("crm/put", &["use"]);
        scoped["scopes"] = json!(["crm.write"]);
        let compared = json!({
            "mode": "report",
            "changed": [{ "who": "group:support", "gains": [item("crm/get", &["see", "use"])], "loses": [scoped] }],
            "unchanged": ["token:dan", "*"],
        });
        let said = words(&compared, "new.toml");
        assert!(said.contains("new.toml only tries its rules"), "{said}");
        assert!(said.contains("  would gain crm/get (tool): see, use\n"), "{said}");
        assert!(said.contains("  would lose crm/put (tool): use, unless the token has crm.write\n"), "{said}");
        assert!(said.ends_with("Nothing would change for token:dan, *.\n"), "{said}");
        let nothing = words(&json!({ "mode": "enforce", "changed": [], "unchanged": ["*"] }), "new.toml");
        assert_eq!(nothing, "Nobody would gain or lose anything that is listed now.\n");
    }
}
