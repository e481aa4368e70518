//! `tidings sessions`: who is connected.

use serde_json::Value;

use super::status::ago;
use super::terminal::{BOLD, DIM, styled};
use crate::backend::api;
use crate::cli::Cli;
use crate::data::DataDir;
use crate::failure::CommandFailure;

pub(super) async fn run(cli: &Cli, as_json: bool) -> Result<(), CommandFailure> {
    let running = DataDir::find(cli.data.as_deref())?.running_now()?;
    let found = api(&running, "sessions").await?;
    if as_json {
        println!("{found:#}");
        return Ok(());
    }
    let rows = found["sessions"].as_array().map(Vec::as_slice).unwrap_or_default();
    if rows.is_empty() {
        eprintln!("Nobody is connected. Modern clients are shown while they listen for changes.");
    }
    for row in rows {
        println!("{}", line(row));
    }
    Ok(())
}

fn line(row: &Value) -> String {
    let text = |key: &str| row[key].as_str().unwrap_or_default();
    let name = row["name"].as_str().unwrap_or("a client without a name");
    let mut facts = vec![format!("{} {}", text("kind"), row["id"]), text("revision").to_owned()];
    if text("principal") != "local" {
        facts.push(text("principal").to_owned());
    }
    facts.push(format!("connected for {}", ago(&row["since"])));
    // The others need nobody's attention.
    if matches!(text("state"), "deaf" | "unreached") {
        facts.push(text("state").to_owned());
    }
    for (key, word) in [("requests_in_flight", "request"), ("subscriptions", "subscription")] {
        match row[key].as_u64() {
            None | Some(0) => {}
            Some(1) => facts.push(format!("1 {word}")),
            Some(count) => facts.push(format!("{count} {word}s")),
        }
    }
    format!("{}  {}", styled(BOLD, name), styled(DIM, &facts.join(", ")))
}
