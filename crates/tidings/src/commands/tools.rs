//! `tidings tools`: what there is, or what fits a query.

use serde_json::Value;

use super::show::{BOLD, DIM, styled};
use crate::backend::Backend;
use crate::cli::Cli;
use crate::failure::Failure;

/// Names longer than this do not push the descriptions of all others to the right.
const WIDEST: usize = 36;
/// How much of a description is shown on its line.
const SHOWN: usize = 100;

pub(super) async fn run(cli: &Cli, query: &[String], as_json: bool) -> Result<(), Failure> {
    let query = query.join(" ").trim().to_owned();
    let query = (!query.is_empty()).then_some(query);
    let backend = Backend::open(cli)?;
    let found = backend.tools(query.clone()).await;
    backend.close().await;
    let found = found?;
    if as_json {
        println!("{found:#}");
        return Ok(());
    }
    let tools = found["tools"].as_array().map(Vec::as_slice).unwrap_or_default();
    match (&query, tools.is_empty()) {
        (Some(query), true) => {
            return Err(Failure::Failed(format!("no tool fits \"{query}\"; `tidings tools` lists all")));
        }
        (None, true) => eprintln!("There are no tools. `tidings servers` shows whether the servers are up."),
        _ => {}
    }
    let width = tools.iter().map(|tool| text(tool, "name").chars().count()).max().unwrap_or(0).min(WIDEST);
    for tool in tools {
        let name = text(tool, "name");
        println!("{}  {}", styled(BOLD, &format!("{name:width$}")), summary(text(tool, "description")));
        if query.is_some() {
            println!("{:width$}  {}", "", styled(DIM, &how_to_call(tool)));
        }
    }
    Ok(())
}

fn text<'a>(tool: &'a Value, member: &str) -> &'a str {
    tool[member].as_str().unwrap_or_default()
}

/// The first line of a description, cut where it gets long.
fn summary(description: &str) -> String {
    let line = description.trim().lines().next().unwrap_or_default().trim_end();
    if line.chars().count() <= SHOWN {
        return line.to_owned();
    }
    let cut: String = line.chars().take(SHOWN).collect();
    let whole_words = cut.rsplit_once(' ').map_or(cut.as_str(), |(words, _)| words);
    format!("{}…", whole_words.trim_end_matches([',', '.', ';', ':']))
}

/// Where a tool comes from and what it wants; what may be left out has a question mark.
fn how_to_call(tool: &Value) -> String {
    let schema = &tool["inputSchema"];
    let required = schema["required"].as_array().map(Vec::as_slice).unwrap_or_default();
    let is_required = |name: &String| required.iter().any(|known| known == name.as_str());
    let names = schema["properties"].as_object().into_iter().flat_map(|properties| properties.keys());
    let (must, may): (Vec<&String>, Vec<&String>) = names.partition(|name| is_required(name));
    let mut arguments: Vec<String> = must.into_iter().cloned().collect();
    arguments.extend(may.into_iter().map(|name| format!("{name}?")));
    let server = text(tool, "server");
    if arguments.is_empty() {
        return format!("of {server}, without arguments");
    }
    format!("of {server}, with {}", arguments.join(", "))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_summary_is_one_line_and_ends_between_words() {
        assert_eq!(summary("\n Sends a letter. \nAnd more."), "Sends a letter.");
        let long = summary(&"wordy ".repeat(50));
        assert!(long.ends_with("wordy…") && long.chars().count() <= SHOWN + 1, "{long}");
        assert_eq!(summary(&"x".repeat(200)).chars().count(), SHOWN + 1);
        assert_eq!(summary(""), "");
    }

    #[test]
    fn required_arguments_come_first() {
        let schema = json!({"properties": {"a": {}, "b": {}, "c": {}}, "required": ["c"]});
        assert_eq!(how_to_call(&json!({"server": "s", "inputSchema": schema})), "of s, with c, a?, b?");
        assert_eq!(how_to_call(&json!({"server": "s", "inputSchema": {}})), "of s, without arguments");
    }
}
