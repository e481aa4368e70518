//! `tidings upgrade`: the next release of a server, started beside the one that runs; its lists are compared, and somebody decides.

use http::Method;
use serde_json::{Value, json};

use super::terminal::harmless;
use super::{client_files, manage};
use crate::backend::{ApiReply, ask};
use crate::cli::Cli;
use crate::data::DataDir;
use crate::failure::CommandFailure;
use crate::url_text::encode;

/// How long a value may be that is shown.
const VALUE: usize = 160;

pub(super) async fn run(cli: &Cli, name: &str, yes: bool, as_json: bool) -> Result<(), CommandFailure> {
    let running = DataDir::find(cli.data.as_deref())?.running_now()?;
    let path = format!("servers/{}/upgrade", encode(name));
    let waits = format!("Starting the next release of {name} beside the one that runs.");
    let asked = Box::pin(ask(&running, Method::POST, &path, None));
    let begun = match manage::showing(&waits, asked).await? {
        ApiReply::Done(begun) => begun,
        ApiReply::Refused { detail, .. } => return Err(CommandFailure::Failed(detail)),
    };
    let upgrade = &begun["upgrade"];
    if upgrade.is_null() {
        match as_json {
            true => println!("{begun:#}"),
            false => println!("{name} is the newest release that its registry has."),
        }
        return Ok(());
    }
    if !as_json {
        show(name, upgrade);
    }
    let approve = yes || client_files::agreed("Swap them?", false)?.unwrap_or(false);
    let body = json!({ "decision": if approve { "approve" } else { "reject" } });
    let path = format!("{path}/{}", upgrade["id"].as_str().unwrap_or_default());
    match ask(&running, Method::POST, &path, Some(&body)).await? {
        ApiReply::Done(_) if as_json => {
            println!("{:#}", json!({ "server": name, "upgrade": upgrade, "swapped": approve }))
        }
        ApiReply::Done(_) if approve => println!("{name} runs {}.", text(&upgrade["to"])),
        ApiReply::Done(_) => println!("{name} still runs {}; nothing was changed.", text(&upgrade["from"])),
        ApiReply::Refused { detail, .. } => return Err(CommandFailure::Failed(detail)),
    }
    if !approve && !yes && as_json {
        return Err(CommandFailure::Usage("nothing was changed, because nobody said yes; say --yes".to_owned()));
    }
    Ok(())
}

fn text(value: &Value) -> String {
    harmless(value.as_str().unwrap_or_default())
}

fn show(name: &str, upgrade: &Value) {
    println!("{name} ({}): {} -> {}", text(&upgrade["entry"]), text(&upgrade["from"]), text(&upgrade["to"]));
    if upgrade["status"] != "active" {
        println!("  {}: {}", text(&upgrade["status"]), text(&upgrade["status_message"]));
    }
    let lists = upgrade["difference"]["lists"].as_array().map(Vec::as_slice).unwrap_or_default();
    if lists.is_empty() {
        println!("  It lists the same.");
    }
    for list in lists {
        println!("  {} ({})", text(&list["kind"]).replace('_', " "), text(&upgrade["difference"]["severity"]));
        for (key, sign) in [("added", '+'), ("removed", '-'), ("changed", '~')] {
            for item in list[key].as_array().into_iter().flatten() {
                let reasons = item["reasons"].as_array().into_iter().flatten().map(text).collect::<Vec<_>>().join("; ");
                println!("    {sign} {}: {reasons}", text(&item["name"]));
                item["fields"].as_array().into_iter().flatten().for_each(show_field);
            }
        }
        if list["omitted"].as_u64().is_some_and(|omitted| omitted > 0) {
            println!("    and {} more", list["omitted"]);
        }
    }
}

fn show_field(field: &Value) {
    let value = |value: &Value| match value {
        Value::Null => "(none)".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let (before, after) = tidings_diff::shortened(&value(&field["before"]), &value(&field["after"]), VALUE);
    println!("        {}: {} -> {}", text(&field["field"]), harmless(&before), harmless(&after));
}
