//! `tidings trust`: lets the configuration of a folder act, after showing what it says.

use std::path::{Path, PathBuf};

use crate::cli::Cli;
use crate::failure::CommandFailure;
use crate::trust::{self, TrustRecords, Untrusted};

/// The files of a folder that a gateway would read.
const FILES: [&str; 2] = ["tidings.toml", ".mcp.json"];

pub(super) fn run(cli: &Cli, place: Option<&Path>, yes: bool) -> Result<(), CommandFailure> {
    let place = std::path::absolute(place.unwrap_or(Path::new("."))).map_err(CommandFailure::failed)?;
    let files: Vec<PathBuf> = match place.is_file() {
        true => vec![place.clone()],
        false => FILES.map(|name| place.join(name)).into_iter().filter(|file| file.is_file()).collect(),
    };
    if files.is_empty() {
        return Err(CommandFailure::Failed(format!("{} has no tidings.toml and no .mcp.json", place.display())));
    }
    let records = TrustRecords::of(cli);
    for file in files {
        let content =
            std::fs::read(&file).map_err(|error| CommandFailure::Failed(format!("{}: {error}", file.display())))?;
        if records.trusts(&file, &content) {
            println!("{} is trusted already.", file.display());
            continue;
        }
        // The bytes that are shown are the bytes that are trusted: the file is not read a second time.
        let asked = Untrusted { file, content };
        trust_one(&records, &asked, yes)?;
    }
    Ok(())
}

fn trust_one(records: &TrustRecords, asked: &Untrusted, yes: bool) -> Result<(), CommandFailure> {
    let file = asked.file.display();
    if yes {
        print!("{file}:\n{}", asked.preview(records)?);
        records.keep(&asked.file, &asked.content)?;
    } else if !trust::can_ask() {
        print!("{file}:\n{}", asked.preview(records)?);
        return Err(CommandFailure::Usage(format!(
            "there is no terminal to ask on; if you know that it is right: {} --yes",
            asked.remedy()
        )));
    } else if !asked.ask(records)? {
        return Err(CommandFailure::Failed(format!("{file} is not trusted")));
    }
    println!("Trusted {file} as it is now. When it changes, this has to be said again.");
    Ok(())
}
