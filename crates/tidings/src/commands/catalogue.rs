//! `tidings catalogue`: servers that could be added, and the registries they come from. Asks the running gateway.

use http::Method;
use serde_json::{Map, Value, json};

use super::terminal::{harmless, plural};
use crate::backend::{ApiReply, api, ask};
use crate::cli::{CatalogueCommand, Cli};
use crate::data::DataDir;
use crate::failure::CommandFailure;
use crate::url_text::encode;

pub(super) async fn run(cli: &Cli, command: &CatalogueCommand) -> Result<(), CommandFailure> {
    let running = DataDir::find(cli.data.as_deref())?.running_now()?;
    match command {
        CatalogueCommand::Find { words, json } => {
            let found = api(&running, &format!("entries?q={}", encode(&words.join(" ")))).await?;
            if *json {
                println!("{found:#}");
                return Ok(());
            }
            let entries = found["entries"].as_array().map(Vec::as_slice).unwrap_or_default();
            entries.iter().for_each(|entry| println!("{}", line(entry)));
            println!("{}. To see one: tidings catalogue show ID", plural(entries.len() as u64, "server"));
        }
        CatalogueCommand::Show { id, json } => {
            let entry = api(&running, &format!("entries/{}", encode(id))).await?;
            if *json {
                println!("{entry:#}");
            } else {
                println!("{}", harmless_lines(entry["documentation"].as_str().unwrap_or_default()));
            }
        }
        CatalogueCommand::Sources { json } => shown_sources(&api(&running, "sources").await?, *json),
        CatalogueCommand::Refresh { source, json } => {
            let body = json!({ "source": source.as_deref().unwrap_or("all") });
            let done = done(ask(&running, Method::POST, "entries/refresh", Some(&body)).await?)?;
            shown_sources(&done, *json);
            let failed = done["sources"].as_array().into_iter().flatten().any(|source| source["error"].is_string());
            if failed {
                return Err(CommandFailure::Failed("What was read before is still used.".to_owned()));
            }
        }
        CatalogueCommand::Add(wish) => {
            let inputs: Map<String, Value> =
                wish.set.iter().map(|(name, value)| (name.clone(), value.as_str().into())).collect();
            let mut body = json!({ "inputs": inputs, "args": wish.args });
            if let Some(name) = &wish.name {
                body["name"] = name.as_str().into();
            }
            if let Some(kind) = &wish.kind {
                body["kind"] = kind.as_str().into();
            }
            let path = format!("entries/{}/add", encode(&wish.id));
            let server = done(Box::pin(ask(&running, Method::POST, &path, Some(&body))).await?)?;
            let name = server["name"].as_str().unwrap_or_default();
            println!("Added {name}: {}.", plural(server["tools"].as_u64().unwrap_or(0), "tool"));
        }
    }
    Ok(())
}

fn done(reply: ApiReply) -> Result<Value, CommandFailure> {
    match reply {
        ApiReply::Done(value) => Ok(value),
        ApiReply::Refused { detail, .. } => Err(CommandFailure::Failed(detail)),
    }
}

fn line(entry: &Value) -> String {
    let text = |key: &str| harmless(entry[key].as_str().unwrap_or_default());
    let warning = if entry["status"] == "deprecated" { " [deprecated]" } else { "" };
    format!("{:48}{:12}{:16}{}{warning}", text("id"), text("version"), text("kind"), text("description"))
}

fn shown_sources(sources: &Value, as_json: bool) {
    if as_json {
        println!("{sources:#}");
        return;
    }
    for source in sources["sources"].as_array().into_iter().flatten() {
        let text = |key: &str| harmless(source[key].as_str().unwrap_or_default());
        let when =
            if source["refreshed"].is_string() { format!("read {}", text("refreshed")) } else { "not read yet".into() };
        println!("{:16}{:14}{when}", text("name"), entries(source));
        if source["error"].is_string() {
            eprintln!("  {}", text("error"));
        }
    }
}

fn entries(source: &Value) -> String {
    match source["entries"].as_u64().unwrap_or(0) {
        1 => "1 entry".to_owned(),
        count => format!("{count} entries"),
    }
}

/// Text of others, line by line.
fn harmless_lines(text: &str) -> String {
    text.lines().map(harmless).collect::<Vec<_>>().join("\n")
}
