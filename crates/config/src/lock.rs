//! `tidings.lock`: which definitions of which server are approved or rejected. One line per item, sorted, so that a changed tool is one
//! changed line in a review. Text in, text out; the file is read and written elsewhere.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use toml::{Table, Value};

/// The version of the format.
const VERSION: i64 = 1;
const HEADING: &str = "\
# Which tools and prompts clients of Tidings may see, by the hash of their definitions. Keep it in version control.
# Written by `tidings lock`, `tidings approve` and `tidings reject`; `tidings check --locked` compares it with the servers.
";

/// One item of a server: its list (`tools` or `prompts`), and what the server calls it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LockedItem {
    /// Its list.
    pub kind: String,
    /// Its name.
    pub name: String,
}

/// What is known of one server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LockedServer {
    /// What it was when it was locked: how it is reached.
    pub identity: Option<String>,
    /// The hash of each approved definition.
    pub approved: BTreeMap<LockedItem, String>,
    /// The hash of the last rejected definition of each item.
    pub rejected: BTreeMap<LockedItem, String>,
}

/// A whole lock file: servers by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LockFile {
    /// By name.
    pub servers: BTreeMap<String, LockedServer>,
}

/// Why a lock file can not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LockFileFault {
    /// It is no TOML.
    #[error("{0}")]
    Syntax(toml::de::Error),
    /// A newer program wrote it.
    #[error("it is of version {0}, and this program reads version {VERSION}")]
    OtherVersion(i64),
    /// It does not say which version it is of.
    #[error("it has no `version`")]
    NoVersion,
    /// Something else stands where a list must.
    #[error("`{0}` must be a list")]
    NoList(String),
    /// A line of a list has not the texts that it must have, or more.
    #[error("{list}[{place}] must be a table with the texts {}", .keys.join(", "))]
    BadLine {
        /// The list.
        list: String,
        /// Which line of it, from 0.
        place: usize,
        /// The keys that each line has.
        keys: Vec<&'static str>,
    },
    /// A key that it can not have.
    #[error("`{0}` is no key of it")]
    UnknownKey(String),
}

impl LockFile {
    /// Reads a lock file. Anything that is not understood is an error: an approval must not be guessed.
    pub fn parse(text: &str) -> Result<Self, LockFileFault> {
        let table: Table = text.parse().map_err(LockFileFault::Syntax)?;
        match table.get("version").and_then(Value::as_integer) {
            Some(VERSION) => {}
            Some(other) => return Err(LockFileFault::OtherVersion(other)),
            None => return Err(LockFileFault::NoVersion),
        }
        let mut lock = Self::default();
        for (key, value) in &table {
            let lines = || value.as_array().ok_or_else(|| LockFileFault::NoList(key.clone()));
            match key.as_str() {
                "version" => {}
                "servers" => {
                    for (place, line) in lines()?.iter().enumerate() {
                        let [server, identity] = texts(line, ["server", "identity"], key, place)?;
                        lock.servers.entry(server).or_default().identity = Some(identity);
                    }
                }
                "approved" | "rejected" => {
                    for (place, line) in lines()?.iter().enumerate() {
                        let [server, kind, name, hash] = texts(line, ["server", "kind", "name", "hash"], key, place)?;
                        let server = lock.servers.entry(server).or_default();
                        let items = if key == "approved" { &mut server.approved } else { &mut server.rejected };
                        items.insert(LockedItem { kind, name }, hash);
                    }
                }
                other => return Err(LockFileFault::UnknownKey(other.to_owned())),
            }
        }
        Ok(lock)
    }

    /// The file as it is written.
    pub fn to_text(&self) -> String {
        let mut text = format!("{HEADING}version = {VERSION}\n\nservers = [\n");
        for (name, server) in &self.servers {
            // A file that was edited by hand may name items of a server that its `servers` leaves out.
            let identity = server.identity.as_deref().unwrap_or("unknown");
            let _ = writeln!(text, "  {{ server = {}, identity = {} }},", quoted(name), quoted(identity));
        }
        text.push_str("]\n");
        for key in ["approved", "rejected"] {
            let _ = write!(text, "\n{key} = [\n");
            for (server, locked) in &self.servers {
                let items = if key == "approved" { &locked.approved } else { &locked.rejected };
                for (LockedItem { kind, name }, hash) in items {
                    let (server, kind) = (quoted(server), quoted(kind));
                    let (name, hash) = (quoted(name), quoted(hash));
                    let _ = writeln!(text, "  {{ server = {server}, kind = {kind}, name = {name}, hash = {hash} }},");
                }
            }
            text.push_str("]\n");
        }
        text
    }
}

/// The texts of one line, all of them and no others.
fn texts<const N: usize>(
    line: &Value,
    keys: [&'static str; N],
    list: &str,
    place: usize,
) -> Result<[String; N], LockFileFault> {
    let fault = || LockFileFault::BadLine { list: list.to_owned(), place, keys: keys.to_vec() };
    let line = line.as_table().filter(|line| line.len() == N).ok_or_else(fault)?;
    let mut out = [const { String::new() }; N];
    for (key, out) in keys.iter().zip(&mut out) {
        *out = line.get(*key).and_then(Value::as_str).ok_or_else(fault)?.to_owned();
    }
    Ok(out)
}

/// A basic string on one line. Everything beyond ASCII is spelled out: what hides itself or turns the line would deceive whoever reviews it.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            ' '..='~' => out.push(c),
            c if u32::from(c) <= 0xffff => {
                let _ = write!(out, "\\u{:04X}", u32::from(c));
            }
            c => {
                let _ = write!(out, "\\U{:08X}", u32::from(c));
            }
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(name: &str) -> LockedItem {
        LockedItem { kind: "tools".into(), name: name.into() }
    }

    #[test]
    fn what_is_written_reads_the_same_one_sorted_line_per_item() {
        let odd = "b \"quoted\" \\ \u{202e}turned\n\u{1f600}";
        let approved = BTreeMap::from([(item(odd), "blake3:1".into()), (item("a"), "blake3:2".into())]);
        let rejected = BTreeMap::from([(item("c"), "blake3:3".into())]);
        let one = LockedServer { identity: Some("url https://example.com/mcp".into()), approved, rejected };
        let none = LockedServer { identity: Some("image x".into()), ..LockedServer::default() };
        let lock = LockFile { servers: BTreeMap::from([("zoo".into(), one), ("none".into(), none)]) };
        let text = lock.to_text();
        assert_eq!(LockFile::parse(&text).unwrap(), lock, "{text}");
        assert!(text.is_ascii(), "nothing hides in a review: {text}");
        let lines: Vec<&str> = text.lines().filter(|line| line.contains("hash = ")).collect();
        assert_eq!(lines.len(), 3);
        assert_eq!(lines[0], r#"  { server = "zoo", kind = "tools", name = "a", hash = "blake3:2" },"#);
        assert_eq!(LockFile::parse(&LockFile::default().to_text()).unwrap(), LockFile::default());
    }

    #[test]
    fn what_is_not_understood_approves_nothing() {
        for wrong in [
            "",
            "version = 2",
            "version = 1\napproved = 3",
            "version = 1\napproved = [{ server = \"a\" }]",
            "version = 1\nallowed = []",
            "version = 1\n[[",
        ] {
            assert!(LockFile::parse(wrong).is_err(), "{wrong}");
        }
    }
}
