//! `tidings resources` and `tidings prompts`.

use serde_json::Value;
use tidings_proto::ListKind;

use super::terminal::{BOLD, DIM, TerminalPaint, cut, harmless};
use crate::backend::Backend;
use crate::cli::Cli;
use crate::failure::CommandFailure;

pub(super) async fn run(cli: &Cli, kind: ListKind, limit: Option<usize>, as_json: bool) -> Result<(), CommandFailure> {
    let backend = Backend::open(cli)?;
    let found = backend.offers(kind).await;
    backend.close().await;
    let mut found = found?;
    let mut left = 0;
    for list in found.as_object_mut().into_iter().flat_map(|lists| lists.values_mut()).filter_map(Value::as_array_mut) {
        // Each list is cut by itself: resources and templates are two.
        left += list.len().saturating_sub(limit.unwrap_or(usize::MAX));
        list.truncate(limit.unwrap_or(usize::MAX));
    }
    if as_json {
        println!("{found:#}");
        return Ok(());
    }
    let rows = |kind: ListKind| found[kind.member()].as_array().cloned().unwrap_or_default();
    let (items, templates) = (rows(kind), if kind.by_uri() { rows(ListKind::Templates) } else { Vec::new() });
    if items.is_empty() && templates.is_empty() {
        eprintln!("There are no {}. `tidings servers` shows whether the servers are up.", kind.member());
    }
    let paint = TerminalPaint::for_stdout();
    for item in &items {
        println!("{}", line(item, kind.key(), paint));
    }
    for template in &templates {
        println!("{}", line(template, ListKind::Templates.key(), paint));
    }
    if left > 0 {
        eprintln!("… and {left} more");
    }
    Ok(())
}

/// One item on one line; on a terminal what does not fit is cut off its description.
fn line(item: &Value, key: &str, paint: TerminalPaint) -> String {
    let text = |member: &str| item[member].as_str().unwrap_or_default();
    let about = [text("description"), text("title"), text("name")];
    let about = about.into_iter().find(|about| !about.is_empty()).unwrap_or_default();
    let mut arguments: Vec<String> = Vec::new();
    for argument in item["arguments"].as_array().into_iter().flatten() {
        let name = argument["name"].as_str().unwrap_or_default();
        arguments.push(if argument["required"] == true { name.to_owned() } else { format!("{name}?") });
    }
    let arguments = if arguments.is_empty() { String::new() } else { format!(" ({})", arguments.join(", ")) };
    let name = harmless(text(key));
    let room = paint
        .width
        .map_or(usize::MAX, |width| width.saturating_sub(name.chars().count() + arguments.chars().count() + 2).max(8));
    let about = cut(&harmless(about.trim().lines().next().unwrap_or_default()), room);
    format!("{}{arguments}  {}", paint.styled(BOLD, &name), paint.styled(DIM, &about)).trim_end().to_owned()
}
