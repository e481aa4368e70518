//! `tidings connect`: point a client at the gateway, and take that back. The client's file is shown before it is written.

mod undo;

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use tidings_client_setup::{CLIENTS, FilePreview, GatewayReach, KnownClient, ReceiptFolder, TokenInFile, UserPlaces};

use super::client_files::{self, GatewayAddress};
use super::terminal::plural;
use crate::cli::{Cli, ConnectArgs};
use crate::failure::CommandFailure;
use crate::shell_word::shell_word;

/// When the file is looked at again: clients write these files, too.
const SETTLED: Duration = Duration::from_secs(1);
/// The variable that is named when nobody names one.
const TOKEN_VARIABLE: &str = "TIDINGS_TOKEN";

pub(super) async fn run(cli: &Cli, args: &ConnectArgs) -> Result<(), CommandFailure> {
    let (places, receipts) = (client_files::places()?, client_files::receipts(cli)?);
    let Some(id) = &args.client else { return list(&places, &receipts, args) };
    let client = client_files::client(id)?;
    let path = file_of(client, &places, args.project)?;
    if args.undo {
        return undo::run(client, &path, &places, &receipts, args);
    }
    let gateway = client_files::gateway(cli)?;
    let wish = WantedEntry::new(cli, args, client, &gateway)?;
    let wanted = [(args.name.clone(), Some(wish.entry.clone()))];
    let preview = FilePreview::new(client, &path, &wanted, wish.asks).map_err(CommandFailure::failed)?;
    let shown = places.shown(&path);
    if preview.is_done() {
        println!("{} is connected already: {shown} has this entry.", client.title);
        return Ok(());
    }
    refuse_foreign(&preview, &receipts, args, &shown)?;
    let what = if preview.makes_the_file() { " (a new file)" } else { " (everything else in it stays as it is)" };
    println!("{shown}{what}\n{}", preview.shown());
    if args.dry_run {
        println!("Nothing was written.");
        return Ok(());
    }
    if !args.yes {
        match client_files::agreed("Write it?", false)? {
            Some(true) => {}
            Some(false) => return Err(CommandFailure::Failed("nothing was written".to_owned())),
            None => {
                return Err(CommandFailure::Usage(format!(
                    "nothing was written, because nobody could be asked; to write it: tidings connect {id} --yes"
                )));
            }
        }
    }
    preview.write(&receipts).map_err(CommandFailure::failed)?;
    // A client that runs may write its own copy of the file over ours.
    tokio::time::sleep(SETTLED).await;
    preview.confirm().map_err(CommandFailure::failed)?;
    let undo = if args.project { " --project" } else { "" };
    println!("Connected {}. To take it back: tidings connect {id}{undo} --undo", client.title);
    for hint in wish.hints {
        println!("{hint}");
    }
    Ok(())
}

fn file_of(client: &KnownClient, places: &UserPlaces, project: bool) -> Result<PathBuf, CommandFailure> {
    if !project {
        return Ok(client.user_file(places));
    }
    client.project_file(places).ok_or_else(|| {
        CommandFailure::Usage(format!("{} has no file for a project; leave --project out", client.title))
    })
}

/// The entry, and what else its owner must do.
struct WantedEntry {
    entry: Value,
    asks: bool,
    hints: Vec<String>,
}

impl WantedEntry {
    fn new(
        cli: &Cli,
        args: &ConnectArgs,
        client: &KnownClient,
        gateway: &GatewayAddress,
    ) -> Result<Self, CommandFailure> {
        if args.stdio || !client.takes_urls() {
            if args.url.is_some() {
                return Err(CommandFailure::Usage(format!("{} can not be given a URL; leave --url out", client.title)));
            }
            return Self::stdio(cli, args, client, gateway);
        }
        let url = args.url.clone().or_else(|| gateway.url.clone()).ok_or_else(|| {
            CommandFailure::Usage(
                "the gateway takes a free port each time it starts; start it first, or name --url".to_owned(),
            )
        })?;
        // Whether a gateway at another URL wants tokens is not ours to know.
        let needs_token = args.url.is_none() && gateway.has_tokens;
        let variable = args.token_env.as_deref().or(needs_token.then_some(TOKEN_VARIABLE));
        let own = gateway.own_token.as_ref().filter(|_| args.url.is_none() && args.token_env.is_none());
        let value = variable.and_then(|variable| std::env::var(variable).ok());
        let value = value.or_else(|| own.map(|(token, _)| token.clone()));
        let token = variable.map(|variable| TokenInFile { variable, value: value.as_deref() });
        let entry = client.entry(&args.name, &GatewayReach::Url(&url), token).ok_or_else(|| {
            let variable = variable.unwrap_or(TOKEN_VARIABLE);
            CommandFailure::Usage(format!(
                "{} reads no variables, so the token itself must stand in its file: set {variable} to it and run this again",
                client.title
            ))
        })?;
        let mut hints = Vec::new();
        match variable {
            Some(_) if client.asks_for_tokens() => hints.push(format!("{} will ask for the token.", client.title)),
            Some(variable) if client.refers_to_tokens() => hints.push(match own {
                Some((_, file)) => format!(
                    "Set it where {} is started: export {variable}=\"$(cat {})\"",
                    client.title,
                    shell_word(&file.display().to_string())
                ),
                None => format!(
                    "Set {variable} to a token where {} is started; this makes one: tidings token NAME",
                    client.title
                ),
            }),
            Some(_) => hints.push("The token itself stands in that file: keep it private.".to_owned()),
            None => {}
        }
        if !gateway.runs && args.url.is_none() {
            hints.push("No gateway is running: tidings serve".to_owned());
        }
        Ok(Self { entry, asks: client.asks_for_tokens() && variable.is_some(), hints })
    }

    /// The client starts the program. It joins the gateway that is running; where there is none but a configuration, it
    /// serves that.
    fn stdio(
        cli: &Cli,
        args: &ConnectArgs,
        client: &KnownClient,
        gateway: &GatewayAddress,
    ) -> Result<Self, CommandFailure> {
        let program = std::env::current_exe().map_err(CommandFailure::failed)?.display().to_string();
        let absolute = |path: &Path| std::path::absolute(path).map(|path| path.display().to_string());
        let mut words = vec!["stdio".to_owned()];
        // A named configuration is served as named; else a running gateway is joined.
        let config = gateway.config.as_deref().filter(|_| cli.config.is_some() || !gateway.runs);
        match config {
            Some(config) => words.extend(["--config".to_owned(), absolute(config).map_err(CommandFailure::failed)?]),
            None => words.push("--attach".to_owned()),
        }
        if let Some(data) = &cli.data {
            words.extend(["--data".to_owned(), absolute(data).map_err(CommandFailure::failed)?]);
        }
        let reach = GatewayReach::Command { program: &program, args: &words };
        let entry = client.entry(&args.name, &reach, None);
        let entry = entry.ok_or_else(|| CommandFailure::Failed(format!("{} can not start programs", client.title)))?;
        let mut hints = Vec::new();
        if config.is_none() && !gateway.runs {
            hints.push("No gateway is running, and this entry joins one: tidings serve".to_owned());
        }
        Ok(Self { entry, asks: false, hints })
    }
}

/// An entry that was not written by `connect` is somebody's work.
fn refuse_foreign(
    preview: &FilePreview,
    receipts: &ReceiptFolder,
    args: &ConnectArgs,
    shown: &str,
) -> Result<(), CommandFailure> {
    let ours = receipts.newest(&preview.path).map(|receipt| receipt.changes).unwrap_or_default();
    for change in preview.changes.iter().filter(|change| change.before.is_some()) {
        // Ours only if it is exactly as `connect` wrote it; what somebody changed since is theirs.
        let is_ours = ours.iter().any(|known| known.name == change.name && known.after == change.before);
        if !is_ours && !args.replace {
            return Err(CommandFailure::Failed(format!(
                "{shown} has a server \"{}\" that is not ours; write over it with --replace, or choose another name with --as NAME",
                change.name
            )));
        }
    }
    Ok(())
}

/// What is known, and what of it is here.
fn list(places: &UserPlaces, receipts: &ReceiptFolder, args: &ConnectArgs) -> Result<(), CommandFailure> {
    let rows: Vec<Value> = CLIENTS.iter().map(|client| row(client, places, receipts, args)).collect();
    if args.json {
        println!("{:#}", json!({ "clients": rows }));
        return Ok(());
    }
    let is = |row: &Value, key: &str| row[key] == true;
    for row in rows.iter().filter(|row| is(row, "found")) {
        let servers = match row["error"].as_str() {
            Some(error) => error.to_owned(),
            None => plural(row["servers"].as_array().map_or(0, Vec::len) as u64, "server"),
        };
        let connected = if is(row, "connected") { ", connected" } else { "" };
        let text = |key: &str| row[key].as_str().unwrap_or_default();
        println!("{:16}{:52}{servers}{connected}", text("id"), text("file"));
    }
    let absent: Vec<&str> = rows.iter().filter(|row| !is(row, "found")).filter_map(|row| row["id"].as_str()).collect();
    if !absent.is_empty() {
        println!("Not found here: {}", absent.join(", "));
    }
    println!("\nTo connect one, after a look at what will be written: tidings connect CLIENT");
    Ok(())
}

fn row(client: &'static KnownClient, places: &UserPlaces, receipts: &ReceiptFolder, args: &ConnectArgs) -> Value {
    let path = client.user_file(places);
    let text = match std::fs::read_to_string(&path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(String::new()),
        text => text.map_err(|error| error.to_string()),
    };
    let entries = text.and_then(|text| {
        tidings_client_setup::entries(client.format, &text, client.key).map_err(|error| error.to_string())
    });
    let (servers, error) = match entries {
        Ok(entries) => (entries, None),
        Err(error) => (serde_json::Map::new(), Some(error)),
    };
    json!({
        "id": client.id,
        "title": client.title,
        "file": places.shown(&path),
        "found": client.is_found(places),
        "servers": servers.keys().collect::<Vec<_>>(),
        "connected": servers.contains_key(&args.name),
        "undo": receipts.newest(&path).is_some(),
        "error": error,
    })
}
