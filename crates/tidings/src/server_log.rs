//! The last that was logged of one server, from the gateway's log file.

use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::PathBuf;

use tidings_admin::ServerLogs;

use crate::data::DataDir;
use crate::logging;

/// How much of the log is searched, and how many lines and bytes of it are given.
const SEARCHED: u64 = 1 << 20;
const LINES: usize = 200;
const BYTES: usize = 16 << 10;

/// The log of a data directory.
pub(crate) struct LogTail(PathBuf);

impl LogTail {
    pub(crate) fn of(data: &DataDir) -> Self {
        Self(logging::file_of(data.path()))
    }
}

impl ServerLogs for LogTail {
    fn tail(&self, server: &str) -> Vec<String> {
        let read = || {
            let mut file = std::fs::File::open(&self.0)?;
            let length = file.metadata()?.len();
            file.seek(SeekFrom::Start(length.saturating_sub(SEARCHED)))?;
            let mut text = Vec::new();
            file.take(SEARCHED).read_to_end(&mut text)?;
            Ok::<_, std::io::Error>(text)
        };
        // A gateway that can not write a log has none to show.
        let text = read().unwrap_or_default();
        about(&String::from_utf8_lossy(&text), server)
    }
}

fn about(text: &str, server: &str) -> Vec<String> {
    let plain = format!(" server={server}");
    let quoted = format!(" server={server:?}");
    let is_about = |line: &&str| {
        [&plain, &quoted].into_iter().any(|mark| {
            // `server=one` is no line of `one_more`.
            line.find(mark.as_str())
                .is_some_and(|at| matches!(line.as_bytes().get(at + mark.len()), None | Some(b' ' | b':')))
        })
    };
    let mut room = BYTES;
    let fits = |line: &&str| {
        let fits = line.len() <= room;
        room = room.saturating_sub(line.len());
        fits
    };
    let mut lines: Vec<String> =
        text.lines().rev().filter(is_about).take(LINES).take_while(fits).map(str::to_owned).collect();
    lines.reverse();
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_lines_of_the_server_are_given_the_last_of_them() {
        let text = "a server=one x\nb server=one_more\nc server=\"one\" y\nd server=one\n";
        assert_eq!(about(text, "one"), ["a server=one x", "c server=\"one\" y", "d server=one"]);
        let long: String = (0..1_000).map(|at| format!("{at} server=one {}\n", "x".repeat(100))).collect();
        let tail = about(&long, "one");
        assert!(tail.iter().map(String::len).sum::<usize>() <= BYTES);
        assert!(tail.last().is_some_and(|line| line.starts_with("999 ")));
    }
}
