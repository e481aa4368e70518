//! `tidings import`: the servers of a client, or of a file, become servers of the configuration.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tidings_client_setup::{
    ClientServer, FilePreview, FoundServers, ImportSource, KnownClient, UserPlaces, by_id, masked,
    read_docker_catalogue,
};
use tidings_config::{ConfigSurroundings, EditError, ServerEdit};

use super::terminal::plural;
use super::{client_files, init, manage};
use crate::cli::{Cli, ImportArgs};
use crate::data::DataDir;
use crate::failure::CommandFailure;
use crate::settings;
use crate::trust::TrustRecords;

/// The word for a Docker MCP catalogue, which is no client.
const DOCKER: &str = "docker";

pub(super) async fn run(cli: &Cli, args: &ImportArgs) -> Result<(), CommandFailure> {
    let places = client_files::places()?;
    let Some(from) = &args.from else { return list(cli, &places, args.json) };
    if from == DOCKER || args.file.is_some() {
        return docker(cli, args).await;
    }
    let client = by_id(from);
    let sources = match client {
        Some(client) => client_sources(client, &places, args.project),
        None => vec![file(from)?],
    };
    if args.take && client.is_none() {
        return Err(CommandFailure::Usage("--take is for the files of clients; name a client".to_owned()));
    }
    let found = client_files::read(cli, &sources);
    let taken = take_over(cli, args, &found).await?;
    if let Some(client) = client.filter(|_| args.take) {
        take_away(cli, args, client, &places, &taken)?;
    }
    Ok(())
}

/// `tidings import docker FILE`.
async fn docker(cli: &Cli, args: &ImportArgs) -> Result<(), CommandFailure> {
    let (Some(DOCKER), Some(file)) = (args.from.as_deref(), &args.file) else {
        let text = "write it as: tidings import docker FILE, where FILE is a Docker MCP catalogue";
        return Err(CommandFailure::Usage(text.to_owned()));
    };
    if args.take {
        return Err(CommandFailure::Usage("--take is for the files of clients; name a client".to_owned()));
    }
    let place = |error: &dyn std::fmt::Display| CommandFailure::Failed(format!("{}: {error}", file.display()));
    let text = std::fs::read_to_string(file).map_err(|error| place(&error))?;
    let found = read_docker_catalogue(file, &text).map_err(|error| place(&error))?;
    take_over(cli, args, &found).await.map(drop)
}

/// Writes what was found into the configuration, and says so.
async fn take_over<'a>(
    cli: &Cli,
    args: &ImportArgs,
    found: &'a FoundServers,
) -> Result<ImportOutcome<'a>, CommandFailure> {
    // With `--config` that file is meant, whatever a running gateway serves.
    let running = DataDir::find(cli.data.as_deref())?.running().filter(|_| cli.config.is_none());
    let of_gateway = match &running {
        Some(running) => manage::config_of(running).await?,
        None => None,
    };
    let has_file = of_gateway.is_some();
    let target = match of_gateway {
        Some(path) => path,
        None => settings::file_to_change(cli)?,
    };
    let taken = ImportOutcome::new(&target, found)?;
    let done = !args.dry_run && !taken.added.is_empty();
    if done {
        taken.write(cli, &target)?;
    }
    taken.say(&target, found, args)?;
    match &running {
        Some(running) if done && has_file => manage::reload(running).await?,
        Some(_) if done => {
            eprintln!("The running gateway serves without a configuration; start it again: tidings serve")
        }
        _ => {}
    }
    Ok(taken)
}

/// The files of a client. That of the folder may have been cloned, and what is imported is started: it has to be asked for.
fn client_sources(client: &KnownClient, places: &UserPlaces, project: bool) -> Vec<ImportSource> {
    let (of_project, mut sources): (Vec<_>, Vec<_>) =
        client.sources(places).into_iter().partition(|source| source.of_project);
    for source in of_project {
        if project {
            sources.push(source);
        } else if source.path.exists() {
            eprintln!("{} of this folder is left out; to take its servers as well: --project", source.from);
        }
    }
    sources
}

/// A file that is no client's by name.
fn file(from: &str) -> Result<ImportSource, CommandFailure> {
    let path = Path::new(from);
    if !path.exists() {
        let known: Vec<&str> = tidings_client_setup::CLIENTS.iter().map(|client| client.id).collect();
        return Err(CommandFailure::Usage(format!("{from} is neither a file nor one of: {}", known.join(", "))));
    }
    let place = |error: &dyn std::fmt::Display| CommandFailure::Failed(format!("{from}: {error}"));
    let text = std::fs::read_to_string(path).map_err(|error| place(&error))?;
    ImportSource::of_file(path, &text).map_err(|error| place(&error))
}

/// What becomes of the servers that were found.
struct ImportOutcome<'a> {
    before: String,
    text: String,
    is_new: bool,
    added: Vec<&'a ClientServer>,
    /// There is one of that name in the configuration.
    known: Vec<&'a ClientServer>,
    left_out: Vec<(&'a ClientServer, String)>,
}

impl<'a> ImportOutcome<'a> {
    fn new(target: &Path, found: &'a FoundServers) -> Result<Self, CommandFailure> {
        let (mut text, is_new) = match std::fs::read_to_string(target) {
            Ok(text) => (text, false),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => (String::new(), true),
            Err(error) => return Err(CommandFailure::Failed(format!("{}: {error}", target.display()))),
        };
        let before = text.clone();
        let (mut added, mut known, mut left_out) = (Vec::new(), Vec::new(), Vec::new());
        for offered in &found.servers {
            match with_server(&text, target, offered) {
                Ok(more) => {
                    // Each server is added to the text that the ones before it made; nothing is written before all are
                    // tried.
                    text = more;
                    added.push(offered);
                }
                Err(EditError::Taken(_)) => known.push(offered),
                Err(error) => left_out.push((offered, error.to_string())),
            }
        }
        Ok(Self { before, text, is_new, added, known, left_out })
    }

    fn write(&self, cli: &Cli, target: &Path) -> Result<(), CommandFailure> {
        if self.is_new {
            return init::write_new(target, &self.text);
        }
        let records = TrustRecords::of(cli);
        // Whoever trusted what stood there changes it now by hand, and trusts what will stand there.
        // Kept before the file is written: a running gateway may read it the moment it changes.
        if records.trusts(target, self.before.as_bytes()) {
            records.keep(target, self.text.as_bytes())?;
        }
        let place = |error: std::io::Error| CommandFailure::Failed(format!("{}: {error}", target.display()));
        manage::write_whole(target, &self.text).map_err(place)
    }

    fn say(&self, target: &Path, found: &FoundServers, args: &ImportArgs) -> Result<(), CommandFailure> {
        let shown = target.display();
        if args.json {
            let names =
                |servers: &[&ClientServer]| servers.iter().map(|server| server.name.clone()).collect::<Vec<_>>();
            let left_out = |(server, why): &(&ClientServer, String)| json!({"name": server.name, "reason": why});
            let left_out: Vec<Value> = self.left_out.iter().map(left_out).collect();
            println!(
                "{:#}",
                json!({
                    "file": shown.to_string(), "written": !args.dry_run && !self.added.is_empty(),
                    "added": names(&self.added), "known": names(&self.known), "left_out": left_out, "notices": found.notices,
                })
            );
            return Ok(());
        }
        found.notices.iter().for_each(|notice| eprintln!("{notice}"));
        for (server, why) in &self.left_out {
            eprintln!("{} of {} is left out: {why}", server.name, server.from);
        }
        for server in &self.known {
            println!("  {}: there is one of that name in {shown} already", server.name);
        }
        for server in &self.added {
            println!("  + {} (from {}): {}", server.name, server.from, server.what());
        }
        let count = plural(self.added.len() as u64, "server");
        if args.dry_run {
            println!("{count} would come into {shown}. Nothing was written.");
        } else {
            println!("{count} came into {shown}.");
        }
        Ok(())
    }
}

pub(super) fn with_server(text: &str, target: &Path, offered: &ClientServer) -> Result<String, EditError> {
    // A variable that is not set now may be set where the gateway runs.
    let env = |name: &str| std::env::var(name).ok().or(Some(String::new()));
    let surroundings = ConfigSurroundings { env: &env, read: &|_| Ok(String::new()) };
    tidings_config::edit(text, target, &offered.name, &ServerEdit::Add(&offered.keys), &surroundings)
}

/// Removes from the client's files what the configuration has now.
fn take_away(
    cli: &Cli,
    args: &ImportArgs,
    client: &'static KnownClient,
    places: &UserPlaces,
    taken: &ImportOutcome<'_>,
) -> Result<(), CommandFailure> {
    let mut files: Vec<PathBuf> = vec![client.user_file(places)];
    files.extend(client.project_file(places));
    for path in files {
        let shown = places.shown(&path);
        // Servers of one folder stand under another member of the user's file, which `FilePreview` does not change.
        let here = taken.added.iter().filter(|server| server.path == path && !server.from.ends_with("(this folder)"));
        let wanted: Vec<(String, Option<Value>)> = here.map(|server| (server.name.clone(), None)).collect();
        let preview = FilePreview::new(client, &path, &wanted, false).map_err(CommandFailure::failed)?;
        if preview.is_done() {
            continue;
        }
        eprintln!("\n{shown}\n{}", preview.shown());
        if args.dry_run {
            continue;
        }
        if !args.yes {
            match client_files::agreed("Remove them there?", false)? {
                Some(true) => {}
                Some(false) => continue,
                None => {
                    return Err(CommandFailure::Usage(format!(
                        "{shown} was not written, because nobody could be asked; say --yes"
                    )));
                }
            }
        }
        preview.write(&client_files::receipts(cli)?).map_err(CommandFailure::failed)?;
        let project = if Some(&path) == client.project_file(places).as_ref() { " --project" } else { "" };
        eprintln!("Removed from {shown}. To take that back: tidings connect {}{project} --undo", client.id);
    }
    Ok(())
}

/// Everything that could be taken over.
fn list(cli: &Cli, places: &UserPlaces, as_json: bool) -> Result<(), CommandFailure> {
    let found = client_files::read(cli, &client_files::all_sources(places));
    if as_json {
        let row = |server: &ClientServer| {
            json!({
                "name": server.name, "from": server.from, "file": places.shown(&server.path), "server": masked(&server.keys),
            })
        };
        let servers: Vec<Value> = found.servers.iter().map(row).collect();
        println!("{:#}", json!({ "servers": servers, "notices": found.notices }));
        return Ok(());
    }
    found.notices.iter().for_each(|notice| eprintln!("{notice}"));
    for server in &found.servers {
        println!("{:20}{:24}{}", server.name, server.from, server.what());
    }
    println!(
        "{} in the files of clients. To take those of one over: tidings import CLIENT",
        plural(found.servers.len() as u64, "server")
    );
    Ok(())
}
