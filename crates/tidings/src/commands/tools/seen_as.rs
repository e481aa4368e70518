//! `tidings tools --as CLIENT`: the tools as a client is shown them, and what was changed of each for it.

use serde_json::{Value, json};
use tidings_hub::client_profile::ClientProfiles;

use crate::backend::Backend;
use crate::cli::Cli;
use crate::client_profiles::{changes, own_name};
use crate::commands::terminal::{BOLD, DIM, TerminalPaint, harmless};
use crate::failure::CommandFailure;

pub(crate) async fn run_as(cli: &Cli, client: &str, limit: Option<usize>, as_json: bool) -> Result<(), CommandFailure> {
    let (name, version) = client.rsplit_once('@').filter(|(name, _)| !name.is_empty()).unwrap_or((client, ""));
    let name = own_name(name);
    let mut info = json!({ "name": name, "version": version });
    if version.is_empty() {
        // The newest there may be: what is known of older ones is said where a version is asked for.
        info["version"] = NEWEST.into();
    }
    let backend = Backend::open(cli)?;
    let tools = backend.tools_seen_by(&info).await;
    backend.close().await;
    let mut tools = tools?;
    let left = tools.len().saturating_sub(limit.unwrap_or(usize::MAX));
    tools.truncate(limit.unwrap_or(usize::MAX));
    if as_json {
        println!("{:#}", json!({ "client": name, "tools": tools }));
        return Ok(());
    }
    let changed = tools.iter().filter(|tool| !changes(tool).is_empty()).count();
    if changed == 0 && ClientProfiles::new(&[]).of(name, || None).is_none() {
        eprintln!("Nothing is known of \"{name}\" unless the configuration says it: it is shown what everybody is.");
    }
    let paint = TerminalPaint::for_stdout();
    for tool in &tools {
        print(tool, paint);
    }
    if left > 0 {
        eprintln!("… and {left} more");
    }
    eprintln!("{changed} of {} changed for {name}", tools.len());
    Ok(())
}

/// Above every version of a client.
const NEWEST: &str = "999999";

fn print(tool: &Value, paint: TerminalPaint) {
    let name = harmless(tool["name"].as_str().unwrap_or_default());
    println!("{}", paint.styled(BOLD, &name));
    for change in changes(tool) {
        println!("  {}", paint.styled(DIM, &harmless(&change)));
    }
}
