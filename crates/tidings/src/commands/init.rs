//! `tidings init`: a first configuration from what the MCP clients of this machine already use. Nothing that is there is
//! overwritten, and no client's file is changed.

use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use tidings_client_setup::ClientServer;
use tidings_config::EditError;

use super::terminal::plural;
use super::{client_files, import};
use crate::cli::Cli;
use crate::failure::CommandFailure;

pub(super) fn run(cli: &Cli, output: &Path, yes: bool) -> Result<(), CommandFailure> {
    let shown = output.display();
    // A link that leads nowhere counts, too: writing through it would make a file in another place.
    if output.symlink_metadata().is_ok() {
        return Err(CommandFailure::Usage(format!(
            "{shown} is there already and stays as it is. Add servers to it: tidings import CLIENT --config {shown}; or \
             write another file: tidings init --output FILE"
        )));
    }
    let found = client_files::read(cli, &client_files::all_sources(&client_files::places()?));
    for notice in &found.notices {
        eprintln!("{notice}");
    }
    let mut text = tidings_config::starter().to_owned();
    let mut taken: Vec<&ClientServer> = Vec::new();
    for offered in &found.servers {
        let question = format!("Take over {} from {}? It is {}.", offered.name, offered.from, offered.what());
        // Without a terminal nobody answers, and everything is taken over.
        if !yes && client_files::agreed(&question, true)? == Some(false) {
            continue;
        }
        match import::with_server(&text, output, offered) {
            Ok(more) => {
                text = more;
                taken.push(offered);
            }
            Err(EditError::Taken(name)) => {
                eprintln!("{name} of {} is left out: there is one of that name", offered.from)
            }
            Err(error) => eprintln!("{} of {} is left out: {error}", offered.name, offered.from),
        }
    }
    write_new(output, &text)?;
    println!("Wrote {shown} with {}.", plural(taken.len() as u64, "server"));
    for offered in &taken {
        println!("  {} (from {})", offered.name, offered.from);
    }
    println!("\nNext:");
    if taken.is_empty() {
        println!("  tidings add NAME --config {shown} -- COMMAND    add a server to it");
    }
    println!("  tidings check --config {shown}    see whether it is right");
    println!("  tidings serve --config {shown}    serve it");
    println!("  tidings connect    point your clients at it");
    Ok(())
}

/// Only its owner may read it: clients' files hold keys.
pub(super) fn write_new(output: &Path, text: &str) -> Result<(), CommandFailure> {
    let place = |error: std::io::Error| match error.kind() {
        ErrorKind::AlreadyExists => {
            CommandFailure::Usage(format!("{} is there already and stays as it is", output.display()))
        }
        _ => CommandFailure::Failed(format!("{}: {error}", output.display())),
    };
    if let Some(folder) = output.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        std::fs::create_dir_all(folder).map_err(place)?;
    }
    let mut options = std::fs::OpenOptions::new();
    // The check above is for a good message; this is what keeps a file that came since from being overwritten.
    let mut file = options.write(true).create_new(true).mode(0o600).open(output).map_err(place)?;
    file.write_all(text.as_bytes()).map_err(place)
}
