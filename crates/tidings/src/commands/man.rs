//! `tidings man`: the help as man pages.

use std::path::Path;

use crate::failure::CommandFailure;

pub(super) fn run(dir: Option<&Path>) -> Result<(), CommandFailure> {
    let pages = crate::cli::man_pages().map_err(CommandFailure::failed)?;
    let Some(dir) = dir else {
        let (_, first) = pages.first().ok_or_else(|| CommandFailure::Failed("there is no page".to_owned()))?;
        print!("{}", String::from_utf8_lossy(first));
        return Ok(());
    };
    let place = |error: std::io::Error| CommandFailure::Failed(format!("{}: {error}", dir.display()));
    std::fs::create_dir_all(dir).map_err(place)?;
    for (name, page) in &pages {
        std::fs::write(dir.join(format!("{name}.1")), page).map_err(place)?;
    }
    println!("Wrote {} pages into {}. To read one: man {}/tidings.1", pages.len(), dir.display(), dir.display());
    Ok(())
}
