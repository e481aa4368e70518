//! A resource that can not be read: which one, and what to do.

use serde_json::{Value, json};
use tidings_proto::{ListKind, Method};

use crate::backend::Backend;
use crate::failure::CommandFailure;

/// How alike a URI must be to be meant, from 0 to 1.
const ALIKE: f64 = 0.85;
/// How many are shown.
const SHOWN: usize = 5;
/// How many pages of the list are looked at.
const PAGES: usize = 10;

/// The failure in words that name the URI and a remedy.
pub(super) async fn explain(backend: &Backend, uri: &str, failure: CommandFailure) -> CommandFailure {
    let CommandFailure::Refused { message, code, .. } = failure else { return failure };
    let mut text = format!("{uri}: {message} ({code})");
    // Servers have several codes for it, and one word.
    if !message.to_lowercase().contains("not found") {
        return CommandFailure::Failed(text);
    }
    let known = uris(backend).await;
    let mut alike: Vec<(f64, &String)> = known.iter().map(|known| (strsim::jaro_winkler(uri, known), known)).collect();
    alike.retain(|(alike, _)| *alike >= ALIKE);
    alike.sort_by(|a, b| b.0.total_cmp(&a.0));
    match alike.first() {
        Some((_, known)) => text.push_str(&format!("\nDid you mean {known}?")),
        None if known.is_empty() => {
            text.push_str("\nNo resource is offered at this time; `tidings servers` shows what is behind the gateway.");
        }
        None => {
            let shown: Vec<String> = known.iter().take(SHOWN).map(|known| format!("  {known}")).collect();
            let rest = if known.len() > SHOWN {
                format!("\n  … {} in all: `tidings resources`", known.len())
            } else {
                String::new()
            };
            text.push_str(&format!("\nThere are:\n{}{rest}", shown.join("\n")));
        }
    }
    if uri.starts_with("watch:") {
        text.push_str("\n`tidings doctor` looks at each [watch.NAME] and says what is wrong with it.");
    }
    CommandFailure::Failed(text)
}

/// What is offered, as far as it can be had.
async fn uris(backend: &Backend) -> Vec<String> {
    let mut uris = Vec::new();
    for (method, list, key) in [
        (Method::List(ListKind::Resources), "resources", "uri"),
        (Method::List(ListKind::Templates), "resourceTemplates", "uriTemplate"),
    ] {
        let mut params = json!({});
        for _ in 0..PAGES {
            // This only adds to a message, so a list that fails shortens it and no more.
            let Ok(page) = backend.request(method, params).await else { break };
            let items = page[list].as_array().cloned().unwrap_or_default();
            uris.extend(items.iter().filter_map(|item| item[key].as_str().map(str::to_owned)));
            match &page["nextCursor"] {
                Value::String(cursor) => params = json!({ "cursor": cursor }),
                _ => break,
            }
        }
    }
    uris
}
