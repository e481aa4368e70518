//! `tidings explain`: whether somebody may see, use and follow an item, and which rule of `[policy]` decides.

mod changes;

use std::path::Path;

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;

use super::terminal::{BOLD, harmless, styled};
use crate::backend::api;
use crate::cli::Cli;
use crate::data::DataDir;
use crate::failure::CommandFailure;

/// Who, and what.
pub(super) struct ExplainArgs<'a> {
    pub(super) who: &'a [String],
    pub(super) groups: &'a [String],
    pub(super) with: Option<&'a Path>,
    pub(super) item: Option<&'a str>,
    pub(super) json: bool,
}

pub(super) async fn run(cli: &Cli, args: &ExplainArgs<'_>) -> Result<(), CommandFailure> {
    let Some(running) = DataDir::find(cli.data.as_deref())?.running() else {
        return Err(CommandFailure::Failed(
            "no gateway is running, and only one that runs knows what its servers have: tidings serve".into(),
        ));
    };
    if let Some(file) = args.with {
        return changes::run(&running, args, file).await;
    }
    let encoded = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
    let (who, groups) = (args.who.join(","), args.groups.join(","));
    let path = format!(
        "explain?as={}&groups={}&item={}",
        encoded(&who),
        encoded(&groups),
        encoded(args.item.unwrap_or_default())
    );
    let explained = api(&running, &path).await?;
    match args.json {
        true => println!("{explained:#}"),
        false => print!("{}", words(&explained)),
    }
    Ok(())
}

fn words(explained: &Value) -> String {
    let text = |value: &Value| harmless(value.as_str().unwrap_or_default());
    let mut out = format!("{} for {}\n", styled(BOLD, &text(&explained["item"])), text(&explained["as"]));
    out.push_str(match explained["policy"].as_str() {
        Some("none") => "  There are no rules: the configuration has no [policy].\n",
        Some("report") => "  The rules are only tried (mode = \"report\"): nothing is kept from anybody.\n",
        _ => "",
    });
    match (&explained["server_known"], &explained["listed"]) {
        (Value::Bool(false), _) => {
            out.push_str("  No server of this name has listed anything yet: judged by its name.\n")
        }
        (_, Value::Bool(false)) => out.push_str("  Its server lists no such item: judged by its name, in each list.\n"),
        _ => {}
    }
    for decision in explained["decisions"].as_array().into_iter().flatten() {
        for verb in ["see", "use", "follow"] {
            // Only resources are followed.
            if verb == "follow" && matches!(decision["kind"].as_str(), Some("tool" | "prompt")) {
                continue;
            }
            let verdict = &decision[verb];
            let may = if verdict["allowed"] == true { "may" } else { "may not" };
            let by = match verdict["by"].as_str() {
                Some("default") => "no rule is about it, so the default decides".to_owned(),
                Some("servers") => "this server is not among those of the token".to_owned(),
                Some("built in") => "the server is built in, and rules are not about it".to_owned(),
                Some("scope") => {
                    format!("without the scope {}, rule \"{}\"", text(&verdict["scope"]), text(&verdict["rule"]))
                }
                Some("rule") => format!("rule \"{}\"", text(&verdict["rule"])),
                _ => format!("rule \"{}\", by another spelling of the URI", text(&verdict["rule"])),
            };
            out.push_str(&format!("  {may} {verb} the {}: {by}\n", text(&decision["kind"])));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    // identity 3
    #[test]
    fn the_deciding_rule_is_named() {
        let verdict =
            |allowed: bool, by: &str, rule: Option<&str>| json!({ "allowed": allowed, "by": by, "rule": rule });
        let said = words(&json!({
            "as": "group:support", "item": "crm/delete", "policy": "enforce", "server_known": true, "listed": true,
            "decisions": [{ "kind": "tool", "see": verdict(true, "default", None), "use": verdict(false, "rule", Some("no harm")),
                            "follow": verdict(true, "default", None) }],
        }));
        assert!(said.contains("may see the tool: no rule is about it"), "{said}");
        assert!(said.contains("may not use the tool: rule \"no harm\""), "{said}");
        assert!(!said.contains("follow"), "{said}");
    }
}
