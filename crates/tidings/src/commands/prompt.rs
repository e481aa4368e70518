//! `tidings prompt NAME [name=value …]`: a prompt as a client would get it.

use serde_json::{Map, Value, json};
use tidings_proto::{ListKind, Method};

use super::content::ContentPrinter;
use super::terminal::{BOLD, DIM, styled};
use crate::backend::Backend;
use crate::cli::Cli;
use crate::failure::CommandFailure;

/// How alike a name must be to be meant, from 0 to 1.
const ALIKE: f64 = 0.75;

pub(super) async fn run(
    cli: &Cli,
    name: &str,
    pairs: &[(String, String)],
    as_json: bool,
) -> Result<(), CommandFailure> {
    // Arguments of prompts are always text.
    let arguments: Map<String, Value> = pairs.iter().map(|(key, value)| (key.clone(), value.as_str().into())).collect();
    let backend = Backend::open(cli)?;
    let result = match backend.request(Method::PromptsGet, json!({ "name": name, "arguments": arguments })).await {
        Err(failure @ CommandFailure::Refused { .. }) => Err(explain(&backend, name, failure).await),
        got => got,
    };
    backend.close().await;
    let result = result?;
    if as_json {
        println!("{result:#}");
        return Ok(());
    }
    if let Some(about) = result["description"].as_str().filter(|about| !about.is_empty()) {
        println!("{}\n", styled(DIM, about));
    }
    let mut printer = ContentPrinter::new(None);
    for message in result["messages"].as_array().into_iter().flatten() {
        println!("{}", styled(BOLD, &format!("{}:", message["role"].as_str().unwrap_or_default())));
        crate::standard::write_content(&format!("{}\n", printer.block(&message["content"])?));
    }
    Ok(())
}

/// The failure in words that name the prompt that was meant, or what it wants.
async fn explain(backend: &Backend, name: &str, failure: CommandFailure) -> CommandFailure {
    let Ok(found) = backend.offers(ListKind::Prompts).await else { return failure };
    let prompts = found["prompts"].as_array().cloned().unwrap_or_default();
    let known = |prompt: &Value| prompt["name"].as_str().unwrap_or_default().to_owned();
    if let Some(prompt) = prompts.iter().find(|prompt| prompt["name"] == name) {
        let wants: Vec<String> = prompt["arguments"].as_array().into_iter().flatten().map(argument).collect();
        let wants = if wants.is_empty() { "it takes no arguments".to_owned() } else { wants.join(" ") };
        return CommandFailure::Failed(format!("{}\nUsage: tidings prompt {name} {wants}", failure.words()));
    }
    let near = prompts.iter().map(|prompt| (strsim::jaro_winkler(name, &known(prompt)), known(prompt)));
    let near = near.filter(|(alike, _)| *alike >= ALIKE).max_by(|a, b| a.0.total_cmp(&b.0));
    CommandFailure::Failed(match near {
        Some((_, known)) => format!("there is no prompt \"{name}\". Did you mean {known}?"),
        None => format!("there is no prompt \"{name}\". `tidings prompts` lists those that there are"),
    })
}

fn argument(argument: &Value) -> String {
    let name = argument["name"].as_str().unwrap_or_default();
    if argument["required"] == true { format!("{name}=TEXT") } else { format!("[{name}=TEXT]") }
}
