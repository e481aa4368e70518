//! `tidings subscriptions`: who follows what, upstream and down.

use serde_json::Value;

use super::terminal::{BOLD, DIM, styled};
use crate::backend::api;
use crate::cli::Cli;
use crate::data::DataDir;
use crate::failure::CommandFailure;

pub(super) async fn run(cli: &Cli, as_json: bool) -> Result<(), CommandFailure> {
    let Some(running) = DataDir::find(cli.data.as_deref())?.running() else {
        return Err(CommandFailure::Failed("no gateway is running, so nothing is followed: tidings serve".into()));
    };
    let found = api(&running, "subscriptions").await?;
    if as_json {
        println!("{found:#}");
        return Ok(());
    }
    let rows = |name: &str| found[name].as_array().cloned().unwrap_or_default();
    if rows("subscriptions").is_empty() {
        eprintln!("Nothing is followed.");
    }
    for resource in rows("subscriptions") {
        println!("{}", resource_line(&resource));
        for client in rows("clients") {
            // Not by URI: a client may spell it in another way.
            let is_it = |of: &Value| ["server", "server_uri"].iter().all(|key| of[*key] == resource[*key]);
            let follows = client["resources"].as_array().is_some_and(|all| all.iter().any(is_it));
            // Who has a connection of its own is alone there; which one it is, is not known here.
            if follows && resource["own_connection"] == false {
                println!("    {}", client_line(&client));
            }
        }
    }
    Ok(())
}

fn text<'v>(row: &'v Value, key: &str) -> &'v str {
    row[key].as_str().unwrap_or_default()
}

fn resource_line(resource: &Value) -> String {
    let own = if resource["own_connection"] == true { ", on a connection of its own" } else { "" };
    let count = resource["followers"].as_u64().unwrap_or_default();
    let who = if count == 1 { "1 follower".to_owned() } else { format!("{count} followers") };
    let state = text(resource, "state");
    let unheard = match resource["unheard_seconds"].as_u64() {
        Some(seconds) => format!(", unheard for {seconds} s"),
        None => String::new(),
    };
    format!(
        "{}  {}",
        styled(BOLD, text(resource, "uri")),
        styled(DIM, &format!("{state} on {}{own}, {who}{unheard}", text(resource, "server")))
    )
}

fn client_line(client: &Value) -> String {
    let name = client["name"].as_str().unwrap_or("a client without a name");
    let how = if client["era"] == "modern" { "subscriptions/listen" } else { "session" };
    format!("{name} {}", styled(DIM, &format!("({how} {})", client["id"])))
}
