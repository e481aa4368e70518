//! `tidings call`: one tool, with its progress while it runs; and what went wrong in words that name the next command.

mod arguments;
mod progress;

use std::path::Path;

use serde_json::{Value, json};
use tidings_proto::Method;

use super::content::ContentPrinter;
use super::tools;
use crate::backend::Backend;
use crate::cli::Cli;
use crate::failure::CommandFailure;
use arguments::TypedArgument;
use progress::ProgressLine;

/// How alike a name must be to be meant, from 0 to 1.
const ALIKE: f64 = 0.75;
/// How many tools are named when none is alike.
const SHOWN: usize = 5;
/// JSON-RPC's code for arguments that do not fit.
const INVALID_PARAMS: i64 = -32602;

/// What was typed after `tidings call`.
pub(super) struct CallArgs<'a> {
    pub(super) tool: &'a str,
    pub(super) arguments: &'a [String],
    pub(super) save: Option<&'a Path>,
    pub(super) json: bool,
}

pub(super) async fn run(cli: &Cli, wish: CallArgs<'_>) -> Result<(), CommandFailure> {
    // Read before a gateway is started: a mistake in the arguments costs no start.
    let typed = arguments::read(wish.arguments)?;
    let backend = Backend::open(cli)?;
    let result = called(&backend, wish.tool, typed).await;
    // Before the result is looked at, so that servers end in an orderly way even after a failure.
    backend.close().await;
    let result = result?;
    if wish.json {
        println!("{result:#}");
    } else {
        let mut printer = ContentPrinter::new(wish.save);
        for block in result["content"].as_array().into_iter().flatten() {
            let text = printer.block(block)?;
            crate::standard::write_content(&format!("{}\n", text.strip_suffix('\n').unwrap_or(&text)));
        }
    }
    if result["isError"] == true {
        return Err(CommandFailure::Failed(format!("the tool {} reports an error{}", wish.tool, exit_code(&result))));
    }
    Ok(())
}

/// The exit code of a script, where a result has one.
pub(super) fn exit_code(result: &Value) -> String {
    match result["_meta"]["exitCode"].as_i64() {
        Some(code) if code != 0 => format!(" (exit code {code})"),
        _ => String::new(),
    }
}

async fn called(backend: &Backend, tool: &str, typed: TypedArgument) -> Result<Value, CommandFailure> {
    let arguments = match typed {
        TypedArgument::Whole(object) => object,
        // What a value means depends on what the tool expects.
        TypedArgument::Pairs(pairs) => {
            let known = tools::all(backend).await?;
            let found = known.iter().find(|known| known["name"] == tool);
            arguments::from_pairs(&pairs, &found.map(|found| found["inputSchema"].clone()).unwrap_or_default())?
        }
    };
    let mut progress = ProgressLine::new();
    let params = json!({ "name": tool, "arguments": arguments });
    let answer = backend.request_heard(Method::ToolsCall, params, &mut |message| progress.show(message)).await;
    progress.clear();
    match answer {
        Err(failure @ CommandFailure::Refused { .. }) => Err(explain(backend, tool, failure).await),
        other => other,
    }
}

/// The failure in words that name the tool that was meant, or the command that shows its arguments.
async fn explain(backend: &Backend, tool: &str, failure: CommandFailure) -> CommandFailure {
    let Ok(known) = tools::all(backend).await else { return failure };
    let names: Vec<&str> = known.iter().filter_map(|tool| tool["name"].as_str()).collect();
    if names.contains(&tool) {
        return match &failure {
            CommandFailure::Refused { code: INVALID_PARAMS, .. } => {
                CommandFailure::Failed(format!("{}\nIts arguments: tidings tools {tool}", failure.words()))
            }
            _ => failure,
        };
    }
    let mut alike: Vec<(f64, &str)> = names.iter().map(|known| (likeness(tool, known), *known)).collect();
    alike.retain(|(alike, _)| *alike >= ALIKE);
    alike.sort_by(|a, b| b.0.total_cmp(&a.0));
    let mut text = format!("there is no tool \"{tool}\"");
    match (alike.first(), names.is_empty()) {
        (Some((_, known)), _) => {
            text.push_str(&format!("\nDid you mean {known}? Its arguments: tidings tools {known}"))
        }
        (None, true) => text.push_str(", and no other; `tidings servers` shows whether the servers are up"),
        (None, false) => {
            let shown: Vec<&str> = names.iter().take(SHOWN).copied().collect();
            let more = if names.len() > SHOWN { ", …" } else { "" };
            text.push_str(&format!("\nThere are {}{more}; tidings tools lists all of them", shown.join(", ")));
        }
    }
    CommandFailure::Failed(text)
}

/// A name without its server's prefix is as good as the whole.
fn likeness(typed: &str, known: &str) -> f64 {
    let bare = known.rsplit_once("__").map_or(known, |(_, bare)| bare);
    strsim::jaro_winkler(typed, known).max(strsim::jaro_winkler(typed, bare))
}
