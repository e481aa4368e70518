//! `tidings tools`: what there is, what fits a query, or all about one tool.

mod details;
mod seen_as;

use serde_json::Value;

use super::terminal::{BOLD, DIM, TerminalPaint, WIDEST_NAME, cut, harmless};
use crate::backend::Backend;
use crate::cli::Cli;
use crate::failure::CommandFailure;
pub(super) use seen_as::run_as;

/// How much of a description is shown on its line where there is no terminal to say.
const SHOWN: usize = 100;

pub(super) async fn run(
    cli: &Cli,
    query: &[String],
    limit: Option<usize>,
    as_json: bool,
) -> Result<(), CommandFailure> {
    let query = query.join(" ").trim().to_owned();
    let query = (!query.is_empty()).then_some(query);
    let backend = Backend::open(cli)?;
    let found = look(&backend, query.as_deref()).await;
    backend.close().await;
    let (named, mut found) = found?;
    let mut tools = found["tools"].as_array_mut().map(std::mem::take).unwrap_or_default();
    let left = tools.len().saturating_sub(limit.unwrap_or(usize::MAX));
    tools.truncate(limit.unwrap_or(usize::MAX));
    if as_json {
        found["tools"] = tools.into();
        println!("{found:#}");
        return Ok(());
    }
    let paint = TerminalPaint::for_stdout();
    if let Some(tool) = named {
        print!("{}", details::of(&tool, paint));
        let others: Vec<&str> =
            tools.iter().map(|tool| text(tool, "name")).filter(|name| *name != text(&tool, "name")).collect();
        if !others.is_empty() {
            println!("\n{}", paint.styled(DIM, &format!("These fit, too: {}", harmless(&others.join(", ")))));
        }
        return Ok(());
    }
    match (&query, tools.is_empty()) {
        (Some(query), true) => {
            return Err(CommandFailure::Failed(format!("no tool fits \"{query}\"; `tidings tools` lists all")));
        }
        (None, true) => eprintln!("There are no tools. `tidings servers` shows whether the servers are up."),
        _ => {}
    }
    for line in lines(&tools, query.is_some(), paint) {
        println!("{line}");
    }
    if left > 0 {
        eprintln!("… and {left} more");
    }
    Ok(())
}

/// The tool of exactly that name, if there is one, and what fits the query.
async fn look(backend: &Backend, query: Option<&str>) -> Result<(Option<Value>, Value), CommandFailure> {
    let found = backend.tools(query.map(str::to_owned)).await?;
    let Some(query) = query else { return Ok((None, found)) };
    let named =
        |tools: &Value| tools["tools"].as_array().into_iter().flatten().find(|tool| tool["name"] == query).cloned();
    match named(&found) {
        // The search is asked for the best few; the name may stand behind them.
        None if !query.contains(' ') => Ok((named(&backend.tools(None).await?), found)),
        tool => Ok((tool, found)),
    }
}

/// Every tool, as the API describes it.
pub(super) async fn all(backend: &Backend) -> Result<Vec<Value>, CommandFailure> {
    let mut found = backend.tools(None).await?;
    Ok(found["tools"].as_array_mut().map(std::mem::take).unwrap_or_default())
}

/// The names of the tools of one server.
pub(super) async fn tools_of(backend: &Backend, server: &str) -> Result<Vec<String>, CommandFailure> {
    let tools = all(backend).await?;
    Ok(tools.iter().filter(|tool| tool["server"] == server).map(|tool| text(tool, "name").to_owned()).collect())
}

fn lines(tools: &[Value], with_arguments: bool, paint: TerminalPaint) -> Vec<String> {
    let most = paint.width.map_or(WIDEST_NAME, |width| WIDEST_NAME.min(width / 2));
    let width = tools.iter().map(|tool| text(tool, "name").chars().count()).max().unwrap_or(0).min(most);
    let room = |name: &str| match paint.width {
        Some(columns) => columns.saturating_sub(name.chars().count().max(width) + 2).max(8),
        None => SHOWN,
    };
    let mut lines = Vec::new();
    for tool in tools {
        let name = harmless(text(tool, "name"));
        let about = cut(&harmless(text(tool, "description").trim().lines().next().unwrap_or_default()), room(&name));
        lines.push(format!("{}  {about}", paint.styled(BOLD, &format!("{name:width$}"))).trim_end().to_owned());
        if with_arguments {
            let how = cut(&harmless(&how_to_call(tool)), paint.width.map_or(usize::MAX, |_| room("")));
            lines.push(format!("{:width$}  {}", "", paint.styled(DIM, &how)));
        }
    }
    lines
}

fn text<'a>(tool: &'a Value, member: &str) -> &'a str {
    tool[member].as_str().unwrap_or_default()
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

    // edges F14
    #[test]
    fn a_tool_has_one_line_that_fits_the_terminal_and_one_long_name_pads_nobody() {
        let tools = [
            json!({"name": "short", "description": format!("{}\nmore", "wordy ".repeat(50))}),
            json!({"name": "n".repeat(70), "description": "d"}),
        ];
        let lines = lines(&tools, false, TerminalPaint { colours: false, width: Some(80) });
        assert_eq!(lines[0].chars().count(), 80, "{lines:#?}");
        assert!(
            lines[0].starts_with(&format!("short{}wordy", " ".repeat(33))) && lines[0].ends_with('…'),
            "{lines:#?}"
        );
    }

    #[test]
    fn required_arguments_come_first() {
        let schema = json!({"properties": {"a": {}, "b": {}, "c": {}}, "required": ["c"]});
        assert_eq!(how_to_call(&json!({"server": "s", "inputSchema": schema})), "of s, with c, a?, b?");
        assert_eq!(how_to_call(&json!({"server": "s", "inputSchema": {}})), "of s, without arguments");
    }
}
