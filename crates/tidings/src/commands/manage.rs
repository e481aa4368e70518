//! Commands that change the set of servers: `add`, `remove`, `enable`, `disable`, `restart`.
//!
//! A running gateway does it, and keeps it; a server that stands in its configuration file is changed there. Without a
//! running gateway the configuration file is changed.

mod patience;
mod pulling;

pub(super) use patience::showing;

use std::path::{Path, PathBuf};

use http::{Method, StatusCode};
use serde_json::{Map, Value, json};
use tidings_config::{ConfigSurroundings, ServerEdit};

use super::terminal::plural;
use crate::backend::{ApiReply, api, ask};
use crate::cli::{AddServer, Cli};
use crate::data::{DataDir, RunningGateway};
use crate::failure::CommandFailure;
use crate::settings;
use crate::trust::TrustRecords;
use crate::url_text::encode;

pub(super) async fn add(cli: &Cli, wish: &AddServer) -> Result<(), CommandFailure> {
    let cwd = std::env::current_dir().map_err(CommandFailure::failed)?;
    refuse_loose(wish)?;
    let server = described(wish, &cwd)?;
    let name = &wish.name;
    let Some(running) = running(cli)? else {
        let file = change_file(cli, None, name, &ServerEdit::Add(&server))?;
        println!("Added {name} to {}. No gateway is running: tidings serve", file.display());
        return Ok(());
    };
    let known = api(&running, "servers").await?;
    // A PUT would replace the server of that name, which `add` must not.
    // Asked first and put then: of two who add one name at the same moment, the later one replaces the earlier.
    let taken = known["servers"].as_array().into_iter().flatten().any(|server| server["name"] == *name);
    if taken {
        return Err(CommandFailure::Failed(format!(
            "there is a server \"{name}\" already; remove it first: tidings remove {name}"
        )));
    }
    let put = path(name, "");
    let asked = Box::pin(ask(&running, Method::PUT, &put, Some(&server)));
    let said = match wish.container.is_some() {
        true => Box::pin(pulling::showing(&running, name, asked)).await,
        false => patience::showing(&starting(name), asked).await,
    };
    match said? {
        ApiReply::Done(server) => {
            match server["state"] == "needs login" {
                true => println!("Added {name}. It needs a login: tidings login {name}"),
                false => println!("Added {name}: {}.", counts(&server)),
            }
            Ok(())
        }
        ApiReply::Refused { detail, .. } => Err(CommandFailure::Failed(detail)),
    }
}

pub(super) async fn remove(cli: &Cli, name: &str) -> Result<(), CommandFailure> {
    let Some(running) = running(cli)? else {
        let file = change_file(cli, None, name, &ServerEdit::Remove)?;
        println!("Removed {name} from {}.", file.display());
        return Ok(());
    };
    let waits = format!("Waiting for a change of {name} that is under way. Ctrl-C gives up.");
    match patience::showing(&waits, Box::pin(ask(&running, Method::DELETE, &path(name, ""), None))).await? {
        ApiReply::Done(_) => println!("Removed {name}."),
        // It stands in the file, so that is where it goes from.
        ApiReply::Refused { status: StatusCode::CONFLICT, .. } => {
            let file = config_of(&running).await?;
            let file = change_file(cli, file, name, &ServerEdit::Remove)?;
            // The answer comes when the gateway has applied the file, so what is printed next is true.
            reload(&running).await?;
            println!("Removed {name} from {}.", file.display());
        }
        ApiReply::Refused { detail, .. } => return Err(CommandFailure::Failed(detail)),
    }
    Ok(())
}

pub(super) async fn set_enabled(cli: &Cli, name: &str, enabled: bool) -> Result<(), CommandFailure> {
    let (verb, done) = if enabled { ("enable", "on") } else { ("disable", "off") };
    let Some(running) = running(cli)? else {
        let file = change_file(cli, None, name, &ServerEdit::Enable(enabled))?;
        println!("{name} is {done} in {}.", file.display());
        return Ok(());
    };
    let path = path(name, verb);
    let asked = Box::pin(ask(&running, Method::POST, &path, None));
    match patience::showing(&starting(name), asked).await? {
        ApiReply::Done(_) => println!("{name} is {done}."),
        ApiReply::Refused { detail, .. } => return Err(CommandFailure::Failed(detail)),
    }
    Ok(())
}

pub(super) async fn restart(cli: &Cli, name: &str) -> Result<(), CommandFailure> {
    let running = DataDir::find(cli.data.as_deref())?.running_now()?;
    let waits = format!("Waiting for {name} to start.");
    match patience::showing(&waits, Box::pin(ask(&running, Method::POST, &path(name, "restart"), None))).await? {
        ApiReply::Done(server) => {
            println!("{name} runs again: {}.", plural(server["tools"].as_u64().unwrap_or(0), "tool"))
        }
        ApiReply::Refused { detail, .. } => return Err(CommandFailure::Failed(detail)),
    }
    Ok(())
}

/// What is waited for when a server is to come.
fn starting(name: &str) -> String {
    format!("Waiting for {name} to start and to list what it has. Ctrl-C leaves everything as it was.")
}

/// What a server offers: `1 tool, 0 resources, 2 prompts`.
fn counts(server: &Value) -> String {
    let count = |key: &str, word: &str| plural(server[key].as_u64().unwrap_or(0), word);
    [count("tools", "tool"), count("resources", "resource"), count("prompts", "prompt")].join(", ")
}

/// A command or a URL that was typed without the word before it: the line that was meant.
fn refuse_loose(wish: &AddServer) -> Result<(), CommandFailure> {
    let Some(first) = wish.loose.first() else { return Ok(()) };
    let name = &wish.name;
    if first.starts_with('-') {
        return Err(CommandFailure::Usage(format!(
            "there is no option {first}; `tidings add --help` lists those that there are"
        )));
    }
    let (what, line) = if first.contains("://") {
        ("a URL needs --url before it", format!("tidings add {name} --url {}", wish.loose.join(" ")))
    } else {
        ("a command needs -- before it", format!("tidings add {name} -- {}", wish.loose.join(" ")))
    };
    Err(CommandFailure::Usage(format!("{what}, so that its own options are not taken for ours:\n  {line}")))
}

/// `--config` always means that file.
fn running(cli: &Cli) -> Result<Option<RunningGateway>, CommandFailure> {
    if cli.config.is_some() {
        return Ok(None);
    }
    Ok(DataDir::find(cli.data.as_deref())?.running())
}

fn path(name: &str, verb: &str) -> String {
    let name = encode(name);
    if verb.is_empty() { format!("servers/{name}") } else { format!("servers/{name}/{verb}") }
}

/// The configuration file of a running gateway.
pub(super) async fn config_of(running: &RunningGateway) -> Result<Option<PathBuf>, CommandFailure> {
    Ok(api(running, "status").await?["config"].as_str().map(PathBuf::from))
}

/// The gateway sees a changed file by itself; this waits until it has.
pub(super) async fn reload(running: &RunningGateway) -> Result<(), CommandFailure> {
    match ask(running, Method::POST, "reload", None).await? {
        ApiReply::Done(_) => Ok(()),
        ApiReply::Refused { detail, .. } => Err(CommandFailure::Failed(detail)),
    }
}

/// The keys of `[servers.X]`. What is relative on the command line is relative to where it was typed.
fn described(wish: &AddServer, cwd: &Path) -> Result<Value, CommandFailure> {
    let mut keys = Map::new();
    let pairs = |pairs: &[(String, String)]| -> Map<String, Value> {
        pairs.iter().map(|(key, value)| (key.clone(), value.as_str().into())).collect()
    };
    if let Some((command, args)) = wish.command.split_first() {
        let has_path = command.contains('/');
        let place = if has_path { cwd.join(command).display().to_string() } else { command.clone() };
        keys.insert("command".into(), place.into());
        if !args.is_empty() {
            keys.insert("args".into(), args.into());
        }
        // A path among the arguments means the same wherever the gateway runs.
        if args.iter().any(|arg| is_relative_path(arg, cwd)) {
            keys.insert("cwd".into(), cwd.display().to_string().into());
        }
    }
    if let Some(url) = &wish.url {
        keys.insert("url".into(), url.as_str().into());
    }
    if wish.private {
        keys.insert("private".into(), true.into());
    }
    if let Some(image) = &wish.container {
        keys.insert("container".into(), image.as_str().into());
    }
    if let Some(dir) = &wish.project {
        keys.insert("project".into(), cwd.join(dir).display().to_string().into());
    }
    if !wish.env.is_empty() {
        keys.insert("env".into(), pairs(&wish.env).into());
    }
    if !wish.header.is_empty() {
        keys.insert("headers".into(), pairs(&wish.header).into());
    }
    let server = json!(keys);
    let env = |name: &str| std::env::var(name).ok();
    // References are resolved where the server runs; here they may have no value.
    let surroundings =
        ConfigSurroundings { env: &|name| env(name).or(Some(String::new())), read: &|_| Ok(String::new()) };
    tidings_config::server_from_json(&wish.name, &server, cwd, &surroundings).map_err(CommandFailure::Config)?;
    Ok(server)
}

fn is_relative_path(arg: &str, cwd: &Path) -> bool {
    let looks_like_one = arg == "." || arg == ".." || arg.starts_with("./") || arg.starts_with("../");
    // A word with a slash may also be the name of a package; it counts as a path only where there is such a file.
    looks_like_one || (!arg.starts_with(['-', '/', '@']) && arg.contains('/') && cwd.join(arg).exists())
}

/// Changes one server in a configuration file: the named one, else the one that a gateway would read, else a new one of
/// the user's. Tells which it was.
fn change_file(cli: &Cli, file: Option<PathBuf>, name: &str, edit: &ServerEdit<'_>) -> Result<PathBuf, CommandFailure> {
    let file = match file {
        Some(file) => file,
        None => settings::file_to_change(cli)?,
    };
    let place = |error: &dyn std::fmt::Display| CommandFailure::Failed(format!("{}: {error}", file.display()));
    let text = match std::fs::read_to_string(&file) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(place(&error)),
    };
    let env = |name: &str| std::env::var(name).ok();
    let surroundings = ConfigSurroundings { env: &env, read: &tidings_config::read_referred };
    let edited = tidings_config::edit(&text, &file, name, edit, &surroundings).map_err(|error| place(&error))?;
    let records = TrustRecords::of(cli);
    // Whoever trusted what stood there changes it now by hand: kept first, so that a running gateway never sees it untrusted.
    if records.trusts(&file, text.as_bytes()) {
        records.keep(&file, edited.as_bytes())?;
    }
    write_whole(&file, &edited).map_err(|error| place(&error))?;
    Ok(file)
}

/// Renamed into place, so that nobody reads half of it; a link is followed, not replaced.
pub(super) fn write_whole(file: &Path, text: &str) -> std::io::Result<()> {
    let file = file.canonicalize().unwrap_or_else(|_| file.to_owned());
    if let Some(folder) = file.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let mut partial = file.clone().into_os_string();
    partial.push(format!(".{}", std::process::id()));
    let partial = PathBuf::from(partial);
    // A new one is for its owner only: headers and variables may be keys.
    crate::data::write_private(&partial, text.as_bytes())?;
    // A file that was there keeps the rights that its owner gave it.
    if let Ok(known) = std::fs::metadata(&file) {
        std::fs::set_permissions(&partial, known.permissions())?;
    }
    std::fs::rename(&partial, &file)
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    fn keys(words: &[&str]) -> Value {
        let cli = Cli::try_parse_from([&["tidings", "add"], words].concat()).expect("understood");
        let Some(crate::cli::CliCommand::Add(wish)) = &cli.command else { panic!("another command") };
        described(wish, Path::new("/here")).expect("a server")
    }

    // S4.3
    #[test]
    fn what_is_typed_becomes_the_keys_of_a_server() {
        let cases: [(&[&str], Value); 6] = [
            (&["m", "--url", "http://x/mcp", "--private"], json!({"url": "http://x/mcp", "private": true})),
            (&["m", "--", "npx", "-y", "@scope/pkg"], json!({"command": "npx", "args": ["-y", "@scope/pkg"]})),
            (&["m", "--", "./run.sh"], json!({"command": "/here/./run.sh"})),
            (
                &["m", "--env", "A=b=c", "--", "files", "."],
                json!({"command": "files", "args": ["."], "cwd": "/here", "env": {"A": "b=c"}}),
            ),
            (
                &["m", "--url", "https://x.example/mcp", "--header", "Authorization=Bearer ${env:T}"],
                json!({"url": "https://x.example/mcp", "headers": {"Authorization": "Bearer ${env:T}"}}),
            ),
            (&["m", "--project", "p"], json!({"project": "/here/p"})),
        ];
        for (words, expected) in cases {
            assert_eq!(keys(words), expected);
        }
    }

    #[test]
    fn one_kind_of_server_has_to_be_named_and_only_one() {
        for words in [&["m"][..], &["m", "--url", "https://x.example", "--container", "y"], &["--url", "https://x"]] {
            assert!(Cli::try_parse_from([&["tidings", "add"], words].concat()).is_err(), "{words:?}");
        }
    }
}
