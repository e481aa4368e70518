//! `tidings connect CLIENT --undo`.

use std::path::Path;

use tidings_client_setup::{KnownClient, ReceiptFolder, UndoPlan, UserPlaces};

use crate::cli::ConnectArgs;
use crate::commands::client_files;
use crate::failure::CommandFailure;

pub(super) fn run(
    client: &KnownClient,
    path: &Path,
    places: &UserPlaces,
    receipts: &ReceiptFolder,
    args: &ConnectArgs,
) -> Result<(), CommandFailure> {
    let shown = places.shown(path);
    let receipt = receipts.newest(path).ok_or_else(|| {
        CommandFailure::Failed(format!("nothing is to be taken back: {shown} was not written by `tidings connect`"))
    })?;
    let plan = receipts.plan(&receipt).map_err(CommandFailure::failed)?;
    let names: Vec<&str> = receipt.changes.iter().map(|change| change.name.as_str()).collect();
    let names = names.join(", ");
    let what = match &plan {
        UndoPlan::Whole { bytes: Some(_) } => format!("{shown} becomes what it was, byte for byte."),
        UndoPlan::Whole { bytes: None } => format!("{shown} goes: it was made by `tidings connect`."),
        UndoPlan::Entries { stay, .. } if !stay.is_empty() => {
            return Err(CommandFailure::Failed(format!(
                "{} in {shown} was changed by somebody else since; nothing was written. Change it by hand",
                stay.join(", ")
            )));
        }
        UndoPlan::Entries { .. } => {
            format!("{shown} was written by another program since: only {names} becomes what it was, the rest stays.")
        }
        UndoPlan::Gone => format!("{shown} is gone; there is nothing to take back."),
    };
    println!("{what}");
    if args.dry_run {
        println!("Nothing was written.");
        return Ok(());
    }
    // Without a terminal the command itself is the answer: it restores, it does not add.
    if !args.yes && client_files::agreed("Write it?", true)? == Some(false) {
        return Err(CommandFailure::Failed("nothing was written".to_owned()));
    }
    receipts.undo(&receipt, &plan).map_err(CommandFailure::failed)?;
    println!("{} is as it was before.", client.title);
    Ok(())
}
