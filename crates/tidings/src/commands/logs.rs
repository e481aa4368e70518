//! `tidings logs`: what the gateway of this data directory wrote to its log, also when it is no longer running.

use std::io::{Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::Duration;

use crate::cli::Cli;
use crate::data::DataDir;
use crate::failure::CommandFailure;
use crate::logging;

/// How often a followed log is looked at.
const LOOK: Duration = Duration::from_millis(200);

pub(super) async fn run(cli: &Cli, follow: bool, limit: usize) -> Result<(), CommandFailure> {
    let data = DataDir::find(cli.data.as_deref())?;
    let path = logging::file_of(data.path());
    let older = std::fs::read(logging::older(&path)).unwrap_or_default();
    let mut place = ReadPosition::default();
    let newer = place.read_on(&path).unwrap_or_default();
    if older.is_empty() && newer.is_empty() && !follow {
        return Err(CommandFailure::Failed(format!(
            "there is no log in {}; a gateway writes one there: tidings serve",
            data.path().display()
        )));
    }
    let text = String::from_utf8_lossy(&[older, newer].concat()).into_owned();
    print!("{}", last_lines(&text, limit));
    if !follow {
        return Ok(());
    }
    loop {
        tokio::time::sleep(LOOK).await;
        if let Some(more) = place.read_on(&path) {
            print!("{}", String::from_utf8_lossy(&more));
        }
    }
}

fn last_lines(text: &str, limit: usize) -> &str {
    let mut ends = text.trim_end_matches('\n').rmatch_indices('\n');
    match limit.checked_sub(1).map(|skipped| ends.nth(skipped)) {
        None => "",
        Some(Some((at, _))) => &text[at + 1..],
        Some(None) => text,
    }
}

/// How far a log was read, and which file that was: it is replaced when it is full.
#[derive(Default)]
struct ReadPosition {
    file: Option<u64>,
    offset: u64,
}

impl ReadPosition {
    /// What was written since; whole lines only.
    fn read_on(&mut self, path: &Path) -> Option<Vec<u8>> {
        let mut file = std::fs::File::open(path).ok()?;
        let about = file.metadata().ok()?;
        // Another inode, or a shorter file, is a new log: the full one was renamed away.
        if self.file != Some(about.ino()) || about.len() < self.offset {
            *self = Self { file: Some(about.ino()), offset: 0 };
        }
        file.seek(SeekFrom::Start(self.offset)).ok()?;
        let mut more = Vec::new();
        file.read_to_end(&mut more).ok()?;
        // A line that is being written is read with the next look.
        let whole = more.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        more.truncate(whole);
        self.offset += whole as u64;
        Some(more)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_lines_are_shown() {
        let text = "a\nb\nc\n";
        for (limit, shown) in [(0, ""), (1, "c\n"), (2, "b\nc\n"), (3, text), (9, text)] {
            assert_eq!(last_lines(text, limit), shown);
        }
        assert_eq!(last_lines("", 3), "");
    }
}
