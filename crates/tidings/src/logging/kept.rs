//! The log of a gateway in its data directory: the newest lines in one file, older ones in a second, none for ever.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// When a file is full. There are two.
const FULL: u64 = 4 << 20;

/// Where the log of a data directory is.
pub(crate) fn file_of(directory: &Path) -> PathBuf {
    directory.join("gateway.log")
}

/// Where its older lines are.
pub(crate) fn older(file: &Path) -> PathBuf {
    file.with_extension("log.1")
}

/// The log that is written.
pub(super) struct KeptLog {
    path: PathBuf,
    file: File,
    length: u64,
}

impl KeptLog {
    pub(super) fn open(path: PathBuf) -> io::Result<Self> {
        // Lines may quote what servers say: only the owner may read them.
        let file = OpenOptions::new().create(true).append(true).mode(0o600).open(&path)?;
        let length = file.metadata()?.len();
        Ok(Self { path, file, length })
    }

    /// Writes a line. One that can not be written is lost: the disk may be full.
    pub(super) fn write(&mut self, line: &[u8]) {
        if self.length >= FULL {
            let moved = std::fs::rename(&self.path, older(&self.path));
            // It may be away since the last line, when there was no descriptor for a fresh one. Where it can not be moved, it grows on: new lines
            // are worth more than the bound.
            if moved.is_ok() || !self.path.exists() {
                match Self::open(self.path.clone()) {
                    Ok(fresh) => *self = fresh,
                    Err(_) => return,
                }
            }
        }
        let plain = without_colours(line);
        if self.file.write_all(&plain).is_ok() {
            self.length += plain.len() as u64;
        }
    }
}

/// A line for a file: a terminal's colours are no part of it.
fn without_colours(line: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(line.len());
    let mut rest = line;
    while let Some((first, after)) = rest.split_first() {
        rest = match after.strip_prefix(b"[").filter(|_| *first == 0x1b) {
            Some(code) => {
                let end = code.iter().position(u8::is_ascii_alphabetic).map_or(code.len(), |at| at + 1);
                &code[end..]
            }
            None => {
                out.push(*first);
                after
            }
        };
    }
    out
}

#[cfg(test)]
mod tests {
    use tidings_testkit::TempDir;

    use super::*;

    // reach 1
    #[test]
    fn a_log_is_plain_text_and_does_not_grow_for_ever() {
        let folder = TempDir::new();
        let path = file_of(folder.path());
        let mut log = KeptLog::open(path.clone()).expect("a file");
        log.write(b"\x1b[2mnow\x1b[0m \x1b[32m INFO\x1b[0m ready\n");
        assert_eq!(std::fs::read(&path).expect("text"), b"now  INFO ready\n");
        let line = vec![b'x'; 1 << 20];
        for _ in 0..20 {
            log.write(&line);
        }
        let size = |path: &Path| std::fs::metadata(path).map_or(0, |about| about.len());
        assert!(size(&older(&path)) >= FULL && size(&path) + size(&older(&path)) < 4 * FULL);
    }
}
