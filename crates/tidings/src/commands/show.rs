//! Commands that use what is behind the gateway: `servers`, `call`, `read`.

use anstyle::{AnsiColor, Style};
use serde_json::{Value, json};
use tidings_proto::Method;

use super::status::ago;
use super::unreadable;
use crate::backend::Backend;
use crate::cli::Cli;
use crate::failure::Failure;

pub(super) const BOLD: Style = Style::new().bold();
pub(super) const DIM: Style = Style::new().dimmed();
pub(super) const GOOD: Style = AnsiColor::Green.on_default();
pub(super) const BAD: Style = AnsiColor::Red.on_default();

/// Text in a style, where the terminal has styles.
pub(super) fn styled(style: Style, text: &str) -> String {
    use std::io::IsTerminal as _;
    if std::io::stdout().is_terminal() { format!("{style}{text}{style:#}") } else { text.to_owned() }
}

pub(super) async fn servers(cli: &Cli, as_json: bool) -> Result<(), Failure> {
    let backend = Backend::open(cli)?;
    let found = backend.servers().await;
    backend.close().await;
    let found = found?;
    if as_json {
        println!("{found:#}");
        return Ok(());
    }
    let rows = found["servers"].as_array().map(Vec::as_slice).unwrap_or_default();
    let width = rows.iter().filter_map(|row| row["name"].as_str()).map(str::len).max().unwrap_or(0);
    for row in rows {
        let text = |key: &str| row[key].as_str().unwrap_or_default().to_owned();
        let state = text("state");
        let whole = row["failed_lists"].as_array().is_none_or(Vec::is_empty);
        let style = if state == "ready" && whole { GOOD } else { BAD };
        let counts = format!("{} tools, {} resources, {} prompts", row["tools"], row["resources"], row["prompts"]);
        println!(
            "{}  {}  {:10}  {counts}",
            styled(BOLD, &format!("{:width$}", text("name"))),
            styled(style, &format!("{state:10}")),
            text("revision")
        );
        println!("{:width$}  {}", "", styled(DIM, &provenance(row)));
        for said in [&row["error"], &row["warning"]].into_iter().filter_map(Value::as_str) {
            println!("{:width$}  {}", "", styled(DIM, said));
        }
        for failed in row["failed_lists"].as_array().into_iter().flatten() {
            println!("{:width$}  {}", "", styled(DIM, &failed_list(failed)));
        }
    }
    Ok(())
}

/// Where a server comes from, how it is reached, and for how long it has been as it is.
fn provenance(row: &Value) -> String {
    let text = |key: &str| row[key].as_str().unwrap_or_default();
    let from = match text("source") {
        "file" => "from the configuration",
        "runtime" => "added at run time",
        _ => "part of Tidings",
    };
    let mut facts = vec![from.to_owned()];
    if !matches!(text("transport"), "" | "built-in") {
        facts.push(text("transport").to_owned());
    }
    if !text("era").is_empty() {
        facts.push(text("era").to_owned());
    }
    if row["since"].is_u64() {
        facts.push(format!("{} for {}", text("state"), ago(&row["since"])));
    }
    facts.join(", ")
}

/// A list that a server fails to give, in one line.
fn failed_list(failed: &Value) -> String {
    let text = |key: &str| failed[key].as_str().unwrap_or_default();
    let (list, error) = (text("list"), text("error"));
    // Most errors name the list already.
    let what = if error.contains(list) { error.to_owned() } else { format!("{list}: {error}") };
    format!("{what} (retry in {} s)", failed["retry_in"])
}

pub(super) async fn call(cli: &Cli, tool: &str, arguments: Option<&str>, as_json: bool) -> Result<(), Failure> {
    let arguments: Value = match arguments.map(serde_json::from_str) {
        None => json!({}),
        Some(Ok(Value::Object(object))) => Value::Object(object),
        Some(Ok(_)) => {
            return Err(Failure::Usage("the arguments must be a JSON object, such as '{\"text\": \"hi\"}'".into()));
        }
        Some(Err(error)) => return Err(Failure::Usage(format!("the arguments are not JSON: {error}"))),
    };
    let backend = Backend::open(cli)?;
    let result = backend.request(Method::ToolsCall, json!({ "name": tool, "arguments": arguments })).await;
    backend.close().await;
    let result = result?;
    if as_json {
        println!("{result:#}");
    } else {
        for block in result["content"].as_array().into_iter().flatten() {
            match block["text"].as_str() {
                Some(text) => println!("{text}"),
                None => println!("{block}"),
            }
        }
    }
    if result["isError"] == true {
        return Err(Failure::Failed(format!("the tool {tool} reports an error")));
    }
    Ok(())
}

pub(super) async fn read(cli: &Cli, uri: &str, as_json: bool) -> Result<(), Failure> {
    let backend = Backend::open(cli)?;
    let result = match backend.request(Method::ResourcesRead, json!({ "uri": uri })).await {
        Err(failure) => Err(unreadable::explain(&backend, uri, failure).await),
        read => read,
    };
    backend.close().await;
    let result = result?;
    if as_json {
        println!("{result:#}");
        return Ok(());
    }
    for content in result["contents"].as_array().into_iter().flatten() {
        match content["text"].as_str() {
            Some(text) => print!("{text}"),
            None => println!("{content}"),
        }
    }
    Ok(())
}
