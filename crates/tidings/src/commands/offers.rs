//! `tidings resources` and `tidings prompts`.

use serde_json::Value;
use tidings_proto::ListKind;

use super::show::{BOLD, DIM, styled};
use crate::backend::Backend;
use crate::cli::Cli;
use crate::failure::Failure;

pub(super) async fn run(cli: &Cli, kind: ListKind, as_json: bool) -> Result<(), Failure> {
    let backend = Backend::open(cli)?;
    let found = backend.offers(kind).await;
    backend.close().await;
    let found = found?;
    if as_json {
        println!("{found:#}");
        return Ok(());
    }
    let rows = |kind: ListKind| found[kind.member()].as_array().cloned().unwrap_or_default();
    let (items, templates) = (rows(kind), if kind.by_uri() { rows(ListKind::Templates) } else { Vec::new() });
    if items.is_empty() && templates.is_empty() {
        eprintln!("There are no {}. `tidings servers` shows whether the servers are up.", kind.member());
    }
    for item in &items {
        println!("{}", line(item, kind.key()));
    }
    for template in &templates {
        println!("{}", line(template, ListKind::Templates.key()));
    }
    Ok(())
}

fn line(item: &Value, key: &str) -> String {
    let text = |member: &str| item[member].as_str().unwrap_or_default();
    let about = [text("description"), text("title"), text("name")];
    let about = about.into_iter().find(|about| !about.is_empty()).unwrap_or_default();
    let about = about.lines().next().unwrap_or_default();
    let mut arguments: Vec<String> = Vec::new();
    for argument in item["arguments"].as_array().into_iter().flatten() {
        let name = argument["name"].as_str().unwrap_or_default();
        arguments.push(if argument["required"] == true { name.to_owned() } else { format!("{name}?") });
    }
    let arguments = if arguments.is_empty() { String::new() } else { format!(" ({})", arguments.join(", ")) };
    format!("{}{arguments}  {}", styled(BOLD, text(key)), styled(DIM, about)).trim_end().to_owned()
}
