//! `tidings init`: a first configuration from what the MCP clients of this machine already use. Nothing that is there is
//! overwritten, and no client's file is changed.

mod clients;

use std::io::{BufRead as _, ErrorKind, IsTerminal as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use tidings_config::{ConfigSurroundings, EditError, ServerEdit};

use super::terminal::plural;
use crate::failure::CommandFailure;
use clients::ClientServer;

pub(super) fn run(output: &Path, yes: bool) -> Result<(), CommandFailure> {
    let shown = output.display();
    if output.symlink_metadata().is_ok() {
        return Err(CommandFailure::Usage(format!(
            "{shown} is there already and stays as it is. Add servers to it: tidings add NAME --config {shown} -- COMMAND; or \
             write another file: tidings init --output FILE"
        )));
    }
    let cwd = std::env::current_dir().map_err(CommandFailure::failed)?;
    let home = std::env::var_os("HOME").filter(|home| !home.is_empty()).map(std::path::PathBuf::from);
    let found = clients::look(&cwd, home.as_deref());
    for problem in &found.problems {
        eprintln!("{problem}");
    }
    let asks = !yes && std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
    let mut text = tidings_config::starter().to_owned();
    let mut taken: Vec<&ClientServer> = Vec::new();
    for offered in &found.servers {
        if asks && !agreed(offered)? {
            continue;
        }
        match added(&text, output, offered) {
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
    Ok(())
}

fn added(text: &str, output: &Path, offered: &ClientServer) -> Result<String, EditError> {
    // A variable that is not set now may be set where the gateway runs.
    let env = |name: &str| std::env::var(name).ok().or(Some(String::new()));
    let surroundings = ConfigSurroundings { env: &env, read: &|_| Ok(String::new()) };
    tidings_config::edit(text, output, &offered.name, &ServerEdit::Add(&offered.keys), &surroundings)
}

fn agreed(offered: &ClientServer) -> Result<bool, CommandFailure> {
    eprint!("Take over {} from {}? It is {}. [Y/n] ", offered.name, offered.from, offered.what());
    let _ = std::io::stderr().flush();
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer).map_err(CommandFailure::failed)?;
    Ok(!matches!(answer.trim(), "n" | "N" | "no"))
}

/// Only its owner may read it: clients' files hold keys.
fn write_new(output: &Path, text: &str) -> Result<(), CommandFailure> {
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
    let mut file = options.write(true).create_new(true).mode(0o600).open(output).map_err(place)?;
    file.write_all(text.as_bytes()).map_err(place)
}
