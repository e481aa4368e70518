//! `tidings status`: the running gateway as a whole.

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::Value;

use super::terminal::{BOLD, styled};
use crate::backend::api;
use crate::cli::Cli;
use crate::data::DataDir;
use crate::failure::CommandFailure;

pub(super) async fn run(cli: &Cli, as_json: bool) -> Result<(), CommandFailure> {
    let running = DataDir::find(cli.data.as_deref())?.running_now()?;
    let status = api(&running, "status").await?;
    if as_json {
        println!("{status:#}");
        return Ok(());
    }
    let text = |key: &str| status[key].as_str();
    let version = text("version").unwrap_or_default();
    println!("{}", styled(BOLD, &format!("Tidings {version} at {}/mcp", running.url)));
    println!("  running for    {} (process {})", ago(&status["started"]), status["pid"]);
    let servers = &status["servers"];
    let failing = servers["failing"].as_u64().unwrap_or(0);
    let logins = servers["needs_login"].as_u64().unwrap_or(0);
    let remedy = if failing + logins > 0 { ": tidings servers" } else { "" };
    let logins = if logins > 0 { format!(", {logins} without a login") } else { String::new() };
    println!("  servers        {} ready, {failing} failing{logins}{remedy}", servers["ready"]);
    let count = |state: &str| status["clients"][state].as_u64().unwrap_or_default();
    let (deaf, unreached) = (count("deaf"), count("unreached"));
    let trouble: Vec<String> = [(deaf, "deaf"), (unreached, "unreached")]
        .into_iter()
        .filter(|(n, _)| *n > 0)
        .map(|(n, w)| format!(", {n} {w}"))
        .collect();
    let remedy = if trouble.is_empty() { "" } else { ": tidings clients" };
    println!("  connected      {}{}{remedy}", status["sessions"], trouble.concat());
    println!("  in flight      {}", status["requests_in_flight"]);
    if let Some(problem) = status["search"]["endpoint"]["problem"].as_str() {
        println!("  search         the embeddings endpoint is down, so words decide: {problem}");
    }
    match status["audit"]["dropped"].as_u64() {
        Some(0) => {}
        Some(dropped) => {
            println!("  audit          {dropped} records are missing: calls came faster than they could be written")
        }
        None => println!("  audit          off"),
    }
    for quota in status["quotas"].as_array().into_iter().flatten() {
        let number = |key: &str| quota[key].as_u64().unwrap_or_default();
        let is_near = number("used") * 10 >= number("limit") * 9;
        if is_near || number("refused") > 0 {
            let word = |key: &str| crate::plain_text::line(quota[key].as_str().unwrap_or_default());
            let (used, limit, refused) = (number("used"), number("limit"), number("refused"));
            println!(
                "  quota          {}: {used} of {limit} {}, refused {refused} times",
                word("principal"),
                word("quota")
            );
        }
    }
    print_telemetry(&status["telemetry"]);
    status["notify"].as_array().into_iter().flatten().for_each(print_notify);
    print_cluster(&status["cluster"]);
    println!("  configuration  {}", text("config").unwrap_or("none"));
    if let Some(error) = text("config_error") {
        println!("\nThe configuration file has errors, so the one before is in use:\n{error}");
    }
    Ok(())
}

/// Where traces and measures are sent, if they are.
fn print_telemetry(telemetry: &Value) {
    let line = |key: &str| crate::plain_text::line(telemetry[key].as_str().unwrap_or_default());
    let dropped = match telemetry["dropped"].as_u64() {
        Some(0) | None => String::new(),
        Some(dropped) => format!(", {dropped} dropped"),
    };
    match telemetry["state"].as_str() {
        None => {}
        Some("fine") => {
            println!("  telemetry      {}: {} spans sent{dropped}", line("endpoint"), telemetry["exported"])
        }
        Some(_) => println!("  telemetry      {} takes nothing{dropped}: {}", line("endpoint"), line("error")),
    }
}

/// The replicas, where there may be several.
fn print_cluster(cluster: &Value) {
    let Some(replicas) = cluster["replicas"].as_array() else { return };
    let line = |value: &Value| crate::plain_text::line(value.as_str().unwrap_or_default());
    println!("  cluster        {}: {} replicas, {} entries", line(&cluster["name"]), replicas.len(), cluster["head"]);
    for replica in replicas {
        let this = if replica["is_this"] == true { " (this one)" } else { "" };
        let config = if replica["has_config"] == false { ", another configuration than most" } else { "" };
        let servers: Vec<String> = replica["servers"].as_array().into_iter().flatten().map(line).collect();
        let servers = if servers.is_empty() { "none".to_owned() } else { servers.join(", ") };
        println!(
            "    {}{this}: {}, applied {} of {}{config}; runs {servers}",
            line(&replica["name"]),
            line(&replica["state"]),
            replica["applied"],
            cluster["head"],
        );
    }
    if let Some(trouble) = cluster["trouble"].as_str() {
        println!("    trouble: {}", crate::plain_text::line(trouble));
    }
}

/// A URL that is told of changes.
fn print_notify(hook: &Value) {
    let line = |key: &str| crate::plain_text::line(hook[key].as_str().unwrap_or_default());
    let (name, pending) = (line("name"), &hook["pending"]);
    match hook["state"].as_str() {
        Some("disabled") => {
            println!(
                "  notify         {name}: answered 410, so it is told nothing more; change its [[notify]] to try again"
            )
        }
        Some("retrying") => println!("  notify         {name}: {pending} waiting, {}", line("error")),
        _ => println!("  notify         {name}: {} delivered", hook["delivered"]),
    }
}

/// How long ago a time in seconds since 1970 was, in the unit that fits.
pub(super) fn ago(since: &Value) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs());
    let seconds = now.saturating_sub(since.as_u64().unwrap_or(now));
    match seconds {
        0..=119 => format!("{seconds} s"),
        120..=7_199 => format!("{} min", seconds / 60),
        7_200..=172_799 => format!("{} h", seconds / 3_600),
        _ => format!("{} days", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_of_time_are_told_in_the_unit_that_fits() {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs();
        let told = |before: u64| ago(&Value::from(now - before));
        assert_eq!(told(600), "10 min");
        assert_eq!(told(7_300), "2 h");
        assert_eq!(told(400_000), "4 days");
        assert!(told(5).ends_with(" s"));
    }
}
