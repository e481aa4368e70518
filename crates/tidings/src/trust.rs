//! Which files of folders may act: those whose exact content somebody said yes to, like `direnv`.
//!
//! A file of the current folder may come with a cloned repository. Until its content is trusted nothing in it counts:
//! nothing is expanded, connected, listened on or started. Belongs here: the record of what was agreed to, and the words in
//! which a file is shown before. Not here: which file is looked for, and reading it.

use std::io::{BufRead as _, IsTerminal as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde_json::{Value, json};

use crate::cli::Cli;
use crate::data::{self, DataDir};
use crate::failure::CommandFailure;
use crate::logging;
use crate::shell_word::shell_word;

/// How many contents of one file stay trusted: somebody who goes back and forth between two branches is asked once.
const REMEMBERED: usize = 16;

/// The records of one user, one file per path.
#[derive(Clone, Debug)]
pub(crate) struct TrustRecords {
    /// Without a data directory nothing was agreed to.
    folder: Option<PathBuf>,
}

impl TrustRecords {
    pub(crate) fn of(cli: &Cli) -> Self {
        Self { folder: DataDir::find(cli.data.as_deref()).ok().map(|data| data.path().join("trusted")) }
    }

    /// Where the record of a file is kept.
    pub(crate) fn record_of(&self, file: &Path) -> Option<PathBuf> {
        // A hash, because a path may be longer than the name of a file can be.
        let name = blake3::hash(tidings_config::place_of(file).as_os_str().as_encoded_bytes()).to_hex();
        Some(self.folder.as_ref()?.join(format!("{}.json", &name[..32])))
    }

    /// Whether somebody said yes to this content of this file.
    pub(crate) fn trusts(&self, file: &Path, content: &[u8]) -> bool {
        let hash = digest(content);
        let hashes = self.read(file).map(|record| record["hashes"].clone()).unwrap_or_default();
        hashes.as_array().into_iter().flatten().any(|known| known == &hash)
    }

    /// What the file said when somebody said yes to it last.
    fn last_outline(&self, file: &Path) -> Option<Vec<String>> {
        let record = self.read(file)?;
        Some(record["outline"].as_array()?.iter().filter_map(|line| line.as_str().map(str::to_owned)).collect())
    }

    fn read(&self, file: &Path) -> Option<Value> {
        let record: Value = serde_json::from_slice(&std::fs::read(self.record_of(file)?).ok()?).ok()?;
        // Two paths of one name would have to have one hash; the record says which is meant all the same.
        (record["file"] == tidings_config::place_of(file).to_string_lossy().as_ref()).then_some(record)
    }

    /// Keeps a yes to this content.
    pub(crate) fn keep(&self, file: &Path, content: &[u8]) -> Result<(), CommandFailure> {
        let place = self.record_of(file).ok_or_else(|| {
            CommandFailure::Usage(
                "there is no data directory to keep this in: set HOME or TIDINGS_DATA, or use --data DIR".into(),
            )
        })?;
        let outline = std::str::from_utf8(content).ok().and_then(|text| tidings_config::outline(text, file).ok());
        let mut hashes: Vec<Value> =
            self.read(file).and_then(|record| record["hashes"].as_array().cloned()).unwrap_or_default();
        let hash = Value::from(digest(content));
        // Moved to the end when it is agreed to again, so that the contents used last are the ones remembered.
        hashes.retain(|known| *known != hash);
        hashes.push(hash);
        // The oldest go: they stand at the beginning.
        let first = hashes.len().saturating_sub(REMEMBERED);
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let record = json!({
            "file": tidings_config::place_of(file).to_string_lossy(), "hashes": &hashes[first..], "time": since,
            "outline": outline.unwrap_or_default(),
        });
        let fault = |error: std::io::Error| CommandFailure::Failed(format!("{}: {error}", place.display()));
        data::write_private_whole(&place, record.to_string().as_bytes()).map_err(fault)
    }
}

fn digest(content: &[u8]) -> String {
    blake3::hash(content).to_hex().to_string()
}

/// A file of the current folder that nobody said yes to.
#[derive(Clone, Debug)]
pub(crate) struct Untrusted {
    pub(crate) file: PathBuf,
    pub(crate) content: Vec<u8>,
}

impl Untrusted {
    /// One sentence: what does not count, and what to do.
    pub(crate) fn words(&self) -> String {
        format!("{} is not trusted, so nothing in it counts; to see it and let it act: {}", self.shown(), self.remedy())
    }

    /// Its path on one line: the name of a folder may hold line breaks that would speak for us.
    fn shown(&self) -> String {
        crate::plain_text::line(&self.file.display().to_string())
    }

    /// The command that lets it act.
    pub(crate) fn remedy(&self) -> String {
        let folder = self.file.parent().unwrap_or(Path::new("."));
        format!("tidings trust {}", shell_word(&folder.display().to_string()))
    }

    /// What it says, with what differs from what was agreed to last, or why it can not be read.
    pub(crate) fn preview(&self, records: &TrustRecords) -> Result<String, CommandFailure> {
        let text = tidings_config::text_of(&self.file, Ok(self.content.clone())).map_err(CommandFailure::Config)?;
        let lines = tidings_config::outline(&text, &self.file).map_err(CommandFailure::Config)?;
        // What deceives a reader is spelled out: the file may come from anywhere, and this is what somebody judges it
        // by.
        let lines: Vec<String> = lines.iter().map(|line| crate::plain_text::line(line)).collect();
        let Some(before) = records.last_outline(&self.file) else {
            return Ok(lines.iter().map(|line| format!("  {line}\n")).collect());
        };
        let before: Vec<String> = before.iter().map(|line| crate::plain_text::line(line)).collect();
        let gone = before.iter().filter(|line| !lines.contains(line)).map(|line| format!("- {line}\n"));
        let now = lines.iter().map(|line| format!("{} {line}\n", if before.contains(line) { ' ' } else { '+' }));
        Ok(gone.chain(now).collect())
    }

    /// Shows it and asks; only on a terminal.
    pub(crate) fn ask(&self, records: &TrustRecords) -> Result<bool, CommandFailure> {
        let preview = self.preview(records)?;
        let changed =
            if records.last_outline(&self.file).is_some() { ", and has changed since you trusted it" } else { "" };
        eprintln!("{} lies in this folder{changed}. It says:\n{preview}", self.shown());
        eprintln!("It may start these commands, read these files and variables, and send them where it says.");
        eprint!("Trust exactly this? [y/N] ");
        logging::flush();
        let mut answer = String::new();
        // An answer that can not be read is a no.
        let _ = std::io::stdin().lock().read_line(&mut answer);
        let yes = matches!(answer.trim(), "y" | "Y" | "yes");
        if yes {
            records.keep(&self.file, &self.content)?;
        }
        Ok(yes)
    }
}

/// Whether there is somebody to ask.
pub(crate) fn can_ask() -> bool {
    std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}
