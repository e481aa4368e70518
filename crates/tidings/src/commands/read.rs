//! `tidings read`: the content of a resource.

use std::io::Write as _;
use std::path::Path;

use serde_json::json;
use tidings_proto::Method;

use super::content::{self, ContentPrinter};
use super::unreadable;
use crate::backend::Backend;
use crate::cli::Cli;
use crate::failure::CommandFailure;

pub(super) async fn run(cli: &Cli, uri: &str, save: Option<&Path>, as_json: bool) -> Result<(), CommandFailure> {
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
    let contents = result["contents"].as_array().map(Vec::as_slice).unwrap_or_default();
    // A pipe or a file gets the bytes themselves; words about them would spoil it.
    if let Some(bytes) = content::raw(contents).filter(|_| save.is_none()) {
        return std::io::stdout().lock().write_all(&bytes).map_err(CommandFailure::failed);
    }
    let mut printer = ContentPrinter::new(save);
    for content in contents {
        let text = printer.resource(content)?;
        // Text is the resource's own, to the last byte; a word of ours about it is a line.
        if content["text"].is_string() { crate::standard::write_content(&text) } else { println!("{text}") }
    }
    Ok(())
}
