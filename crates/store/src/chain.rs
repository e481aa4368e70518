//! The chain over the records of a log, and who signs for it.
//!
//! A *link* of the chain is a record that carries the member `prev`, with the records after it that do not: `prev` is the hash of the
//! link before it, as text of 64 hexadecimal digits, and the hash of a link is BLAKE3 of its lines, with a newline between two of them.
//! Every change is a link of its own; audit records that were written together are one, because hashing many short texts one by one
//! takes several times as long. A link of calls in the [compact form](crate::compact_block) is hashed as it stands in its row. A *seal* says where the kept part of a log begins and ends. It is signed with the key of the data
//! directory and written in the same transaction as the records, so that a process that is killed leaves both or neither: a tail
//! that is missing, or a beginning that nobody compacted, is told from that.
//!
//! The seals of both logs are made with the key. From then on a log without its seal was tampered with, and so was one whose seal is
//! not what the key signed: of that nothing is believed, and the seal that takes its place says so for ever.

use std::io;

use redb::{Database, TableDefinition, TableError, WriteTransaction};
use ring::rand::{SecureRandom as _, SystemRandom};
use ring::signature::{ED25519, UnparsedPublicKey};
use serde::{Deserialize, Serialize};
use tidings_wire::hex;

use crate::chain_key::ChainKey;
use crate::compact_block::{CompactHead, is_compact};
use crate::hex_digits::unhex;

/// The last number that is believed of a record that no seal speaks for.
pub(crate) const LAST_NUMBER: u64 = 1 << 52;
/// By the name of the log: its seal, as JSON.
const SEALS: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("seals");

/// The hash of a link of the chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordHash(pub(crate) [u8; 32]);

impl RecordHash {
    /// Before the first record of all.
    pub(crate) const NONE: Self = Self([0; 32]);

    pub(crate) fn of(link: &[u8]) -> Self {
        Self(*blake3::hash(link).as_bytes())
    }

    /// One that no record has, and that nobody can know.
    fn of_none() -> Self {
        let mut random = [0; 32];
        if SystemRandom::new().fill(&mut random).is_err() {
            // Whoever could guess the moment still finds the mark in the seal.
            return Self::of(jiff::Timestamp::now().to_string().as_bytes());
        }
        Self(random)
    }

    pub(crate) fn to_text(self) -> String {
        hex(&self.0)
    }

    /// Appends what [`Self::to_text`] gives, without a string in between.
    pub(crate) fn write(self, out: &mut Vec<u8>) {
        out.extend_from_slice(blake3::Hash::from_bytes(self.0).to_hex().as_bytes());
    }
}

/// The end of a link: the number of its last record, and its hash.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChainPlace {
    /// The number of the record; 0 is before the first of all.
    pub seq: u64,
    /// The hash of its link, as hexadecimal digits.
    pub hash: String,
}

impl ChainPlace {
    pub(crate) fn new(seq: u64, hash: RecordHash) -> Self {
        Self { seq, hash: hash.to_text() }
    }

    /// Before the first record of all.
    pub(crate) fn start() -> Self {
        Self::new(0, RecordHash::NONE)
    }

    pub(crate) fn hash(&self) -> RecordHash {
        RecordHash(unhex(&self.hash).unwrap_or_default())
    }
}

/// Where the kept part of a log begins and ends.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Seal {
    /// Records up to this number were written before there was a chain, and carry no hash.
    pub(crate) began: u64,
    /// The record before the first that is kept: what a compacted range leaves.
    pub(crate) from: ChainPlace,
    /// The last record.
    pub(crate) to: ChainPlace,
    /// How many records are kept, and their bytes. Both decide what is compacted, so they are signed.
    pub(crate) count: u64,
    pub(crate) bytes: u64,
    /// After this record the log was found not to be what had been signed. Nothing ever takes this away.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) broken: Option<u64>,
    /// The public key, and the signature of all of this by it. Empty where there is no key.
    pub(crate) key: String,
    pub(crate) signature: String,
}

/// What the table of a log has. Only looked at to make a seal, since it reads every record.
#[derive(Default)]
pub(crate) struct LogContent {
    pub(crate) count: u64,
    pub(crate) bytes: u64,
    /// The number of the last record, and the hash of its link.
    last: Option<(u64, RecordHash)>,
    /// Whether one of them carries a hash.
    chained: bool,
}

impl LogContent {
    /// Counts a link in, with the bytes that it takes. They have to come in the order of their numbers.
    pub(crate) fn take(&mut self, link: &ChainLink<'_>, bytes: u64) {
        self.count += link.count;
        self.bytes += bytes;
        self.last = Some((link.last(), link.hash()));
        self.chained |= link.head().is_some_and(|head| head.prev.is_some());
    }
}

/// A log whose records are a chain.
pub(crate) struct ChainedLog {
    pub(crate) name: &'static str,
    /// Whether every record that was ever written carries a hash.
    pub(crate) is_chained_from_the_first: bool,
    /// Looks at its table.
    pub(crate) content: fn(&WriteTransaction) -> Result<LogContent, redb::Error>,
}

impl Seal {
    /// The seal to write on with. Before the table of the log is opened: this may have to read it.
    pub(crate) fn go_on(
        write: &WriteTransaction,
        log: &ChainedLog,
        key: Option<&ChainKey>,
    ) -> Result<Self, redb::Error> {
        match (Self::read_for_write(write, log.name)?, key) {
            (Some(seal), Some(key)) if seal.is_of(log.name, key) => Ok(seal),
            (Some(seal), None) if seal.key.is_empty() && seal.signature.is_empty() => Ok(seal),
            // Never without its signature from here on: that could not be told from somebody who has no key.
            (Some(_), None) => {
                Err(redb::Error::Corrupted("the log is signed, and there is no key to go on with".into()))
            }
            (None, None) => Ok(Self::first(log, &(log.content)(write)?)),
            // The seals are as old as the key.
            (_, Some(_)) => Ok(Self::broken(log.name, &(log.content)(write)?)),
        }
    }

    /// Sees to it that all logs have a seal of this key. `is_new` says that the key was made for it.
    pub(crate) fn establish(
        database: &Database,
        logs: &[&ChainedLog],
        key: &ChainKey,
        is_new: bool,
    ) -> Result<(), redb::Error> {
        let write = database.begin_write()?;
        let mut made = false;
        for log in logs {
            let found = Self::read_for_write(&write, log.name)?;
            if found.as_ref().is_some_and(|seal| seal.is_of(log.name, key)) {
                continue;
            }
            let content = (log.content)(&write)?;
            let mut seal = match found {
                None if is_new => Self::first(log, &content),
                // A key that was there before has sealed both logs: what is missing was taken away.
                _ => Self::broken(log.name, &content),
            };
            seal.sign(log.name, Some(key));
            seal.keep(&write, log.name)?;
            made = true;
        }
        if made {
            write.commit()?
        } else {
            // Nothing was changed, so no sync of the disk is waited for.
            write.abort()?
        }
        Ok(())
    }

    /// The first seal of a log. The chain begins after what an earlier version wrote, whose last record it goes on from.
    fn first(log: &ChainedLog, content: &LogContent) -> Self {
        // No record of a chain is older than its seal.
        if content.chained || (log.is_chained_from_the_first && content.count > 0) {
            return Self::broken(log.name, content);
        }
        let place = content.last.map_or_else(ChainPlace::start, |(seq, hash)| ChainPlace::new(seq, hash));
        Self { began: place.seq, from: place.clone(), ..Self::at(place, content) }
    }

    /// The seal in the place of one that is not there, or not what was signed. The next record carries a hash that no record has, and
    /// nothing of the other is believed, not even a number.
    fn broken(log: &str, content: &LogContent) -> Self {
        tracing::error!(log, "the seal of this log is not the one that was written; `tidings verify` says more");
        // The numbers of the rows are not signed either: there must be room for all that follow.
        let seq = content.last.map_or(0, |(seq, _)| seq).min(LAST_NUMBER);
        let to = ChainPlace::new(seq, RecordHash::of_none());
        Self { broken: Some(seq), ..Self::at(to, content) }
    }

    fn at(to: ChainPlace, content: &LogContent) -> Self {
        Self {
            began: 0,
            from: ChainPlace::start(),
            to,
            count: content.count,
            bytes: content.bytes,
            broken: None,
            key: String::new(),
            signature: String::new(),
        }
    }

    /// Records that are about to be compacted are not what was written.
    pub(crate) fn compacts_foreign(&mut self, log: &str) {
        if self.broken.is_none() {
            tracing::error!(log, "the oldest records are not the ones that were written; `tidings verify` says more");
            self.broken = Some(self.to.seq);
        }
    }

    /// Whether this is what the holder of the key wrote.
    fn is_of(&self, log: &str, key: &ChainKey) -> bool {
        self.key == key.public() && self.holds(log)
    }

    fn text(&self, log: &str) -> String {
        let Self { began, from, to, count, bytes, broken, .. } = self;
        let broken = broken.map(|seq| format!("broken {seq}\n")).unwrap_or_default();
        // With the name of the log, or the seal of one could stand for that of the other.
        format!(
            "tidings seal 2\n{log}\n{began}\n{} {}\n{} {}\n{count} {bytes}\n{broken}",
            from.seq, from.hash, to.seq, to.hash
        )
    }

    pub(crate) fn sign(&mut self, log: &str, key: Option<&ChainKey>) {
        self.key = key.map(ChainKey::public).unwrap_or_default();
        self.signature = key.map(|key| key.sign(&self.text(log))).unwrap_or_default();
    }

    /// Whether it is as it was signed, by its own key.
    pub(crate) fn holds(&self, log: &str) -> bool {
        is_signed(&self.text(log), &self.key, &self.signature)
    }

    pub(crate) fn keep(&self, write: &WriteTransaction, log: &str) -> Result<(), redb::Error> {
        let json = serde_json::to_vec(self).map_err(io::Error::from)?;
        write.open_table(SEALS)?.insert(log, &json[..])?;
        Ok(())
    }

    pub(crate) fn read_for_write(write: &WriteTransaction, log: &str) -> Result<Option<Self>, redb::Error> {
        use redb::ReadableTable as _;
        let table = write.open_table(SEALS)?;
        let json = table.get(log)?.map(|json| json.value().to_vec());
        // One that can not be read counts as none, and so as tampered with where there is a key.
        Ok(json.and_then(|json| serde_json::from_slice(&json).ok()))
    }

    /// `Ok(None)` where there is none; a seal that can not be read counts as none.
    pub(crate) fn read(read: &redb::ReadTransaction, log: &str) -> Result<Option<Self>, redb::Error> {
        match read.open_table(SEALS) {
            Ok(table) => Ok(table.get(log)?.and_then(|json| serde_json::from_slice(json.value()).ok())),
            Err(TableError::TableDoesNotExist(_)) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

/// Whether a text was signed by a key.
pub(crate) fn is_signed(text: &str, key: &str, signature: &str) -> bool {
    let (Some(key), Some(signature)) = (unhex::<32>(key), unhex::<64>(signature)) else { return false };
    UnparsedPublicKey::new(&ED25519, key).verify(text.as_bytes(), &signature).is_ok()
}

/// Records whose hash is one.
#[derive(Clone, Copy)]
pub(crate) struct ChainLink<'a> {
    /// The number that the first of them is kept under.
    pub(crate) first: u64,
    pub(crate) count: u64,
    /// Their lines, without the newline at the end, or all of them in the compact form.
    pub(crate) text: &'a [u8],
}

impl<'a> ChainLink<'a> {
    /// A record that is a link by itself.
    pub(crate) fn single(seq: u64, line: &'a [u8]) -> Self {
        Self { first: seq, count: 1, text: line }
    }

    /// The links that stand in a row of the audit log, of whose records the first has this number.
    pub(crate) fn of_row(first: u64, row: &'a [u8]) -> impl Iterator<Item = Self> {
        let lines = if is_compact(row) { &[] } else { row };
        // As many as it says: whoever alters that alters its hash.
        let compact = CompactHead::read(row);
        let compact = compact.map(|head| Self { first, count: u64::from(head.count.max(1)), text: row });
        compact.into_iter().chain(Self::of_lines(first, lines))
    }

    /// The bytes that it takes in its row.
    pub(crate) fn size(&self) -> u64 {
        // A line has a newline.
        self.text.len() as u64 + u64::from(!is_compact(self.text))
    }

    /// The links that stand in a text of lines, of which the first has this number.
    fn of_lines(first: u64, text: &'a [u8]) -> impl Iterator<Item = Self> {
        let mut rest = Self { first, count: 0, text: text.strip_suffix(b"\n").unwrap_or(text) };
        std::iter::from_fn(move || {
            if rest.text.is_empty() {
                return None;
            }
            // Where its next line begins, and where it ends.
            let (mut count, mut line, mut end) = (0, 0, rest.text.len());
            for newline in memchr::memchr_iter(b'\n', rest.text).map(Some).chain([None]) {
                if count > 0 && RecordHead::begins_link(&rest.text[line..]) {
                    end = line - 1;
                    break;
                }
                count += 1;
                line = newline.map_or(end, |newline| newline + 1);
            }
            let link = Self { first: rest.first, count, text: &rest.text[..end] };
            rest.first = rest.first.saturating_add(count);
            rest.text = rest.text.get(end + 1..).unwrap_or_default();
            Some(link)
        })
    }

    /// The number of the last of them.
    pub(crate) fn last(&self) -> u64 {
        // A number that somebody made up may be any.
        self.first.saturating_add(self.count - 1)
    }

    pub(crate) fn hash(&self) -> RecordHash {
        RecordHash::of(self.text)
    }

    /// Each line with the number that it is kept under. In the compact form only the first record says its number.
    pub(crate) fn lines(&self) -> impl Iterator<Item = (u64, &'a [u8])> {
        let lines = (!is_compact(self.text)).then(|| self.text.split(|byte| *byte == b'\n'));
        (self.first..=u64::MAX).zip(lines.into_iter().flatten())
    }

    /// What its first record says.
    pub(crate) fn head(&self) -> Option<RecordHead> {
        let compact = CompactHead::read(self.text).map(|head| RecordHead { seq: head.first, prev: Some(head.prev) });
        compact.or_else(|| RecordHead::read(self.text))
    }
}

/// Where a record says its number and the hash before it: both stand at its beginning.
pub(crate) struct RecordHead {
    pub(crate) seq: u64,
    /// `None` for a record that begins no link, or is from before there was a chain.
    pub(crate) prev: Option<RecordHash>,
}

impl RecordHead {
    const PREV: &[u8] = b",\"prev\":\"";

    /// What a record begins with. One that begins no link says nothing of those before it.
    pub(crate) fn write(out: &mut Vec<u8>, seq: u64, prev: Option<RecordHash>) {
        out.extend_from_slice(b"{\"seq\":");
        out.extend_from_slice(seq.to_string().as_bytes());
        if let Some(prev) = prev {
            out.extend_from_slice(Self::PREV);
            prev.write(out);
            out.push(b'"');
        }
    }

    /// The digits of a record's number, and what comes after them.
    fn number(line: &[u8]) -> Option<(&[u8], &[u8])> {
        let rest = line.strip_prefix(b"{\"seq\":")?;
        Some(rest.split_at(rest.iter().take_while(|byte| byte.is_ascii_digit()).count()))
    }

    /// Whether a record says that it carries a hash.
    fn begins_link(line: &[u8]) -> bool {
        Self::number(line).is_some_and(|(_, rest)| rest.starts_with(Self::PREV))
    }

    pub(crate) fn read(line: &[u8]) -> Option<Self> {
        let (digits, rest) = Self::number(line)?;
        let seq = std::str::from_utf8(digits).ok()?.parse().ok()?;
        let prev = rest.strip_prefix(Self::PREV).and_then(|rest| {
            let text = std::str::from_utf8(rest.get(..64)?).ok()?;
            Some(RecordHash(unhex(text)?))
        });
        Some(Self { seq, prev })
    }
}

/// When a record was made, in milliseconds since 1970: its time stands after its hash.
pub(crate) fn time_of(line: &[u8]) -> Option<u64> {
    // The records of the change log can be long.
    let text = line.get(..256.min(line.len()))?;
    let name = b"\"time\":\"";
    let begin = text.windows(name.len()).position(|part| part == name)? + name.len();
    let end = begin + text[begin..].iter().position(|byte| *byte == b'"')?;
    let time: jiff::Timestamp = std::str::from_utf8(&text[begin..end]).ok()?.parse().ok()?;
    u64::try_from(time.as_millisecond()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(begins_link: &[bool]) -> String {
        let head = |at: usize| if begins_link[at] { format!(",\"prev\":\"{at:064x}\"") } else { String::new() };
        (0..begins_link.len()).map(|at| format!("{{\"seq\":{}{},\"kind\":\"call\"}}\n", at + 7, head(at))).collect()
    }

    #[test]
    fn a_link_ends_before_the_next_record_that_carries_a_hash() {
        for shape in [&[true][..], &[true, true, true], &[true, false, false], &[true, false, true, true, false]] {
            let text = lines(shape);
            let links: Vec<ChainLink<'_>> = ChainLink::of_lines(7, text.as_bytes()).collect();
            assert_eq!(links.len(), shape.iter().filter(|begins| **begins).count(), "{shape:?}");
            let joined: Vec<&[u8]> = links.iter().map(|link| link.text).collect();
            assert_eq!(joined.join(&b'\n'), text.trim_end().as_bytes());
            let mut next = 7;
            for link in &links {
                assert_eq!((link.first, link.lines().count() as u64), (next, link.count));
                assert!(link.lines().all(|(seq, line)| RecordHead::read(line).is_some_and(|head| head.seq == seq)));
                next = link.last() + 1;
            }
            assert_eq!(next, 7 + shape.len() as u64);
        }
    }

    #[test]
    fn records_of_versions_that_hashed_each_by_itself_keep_their_hashes() {
        let text = lines(&[true, true]);
        let hashes: Vec<RecordHash> = ChainLink::of_lines(7, text.as_bytes()).map(|link| link.hash()).collect();
        assert_eq!(hashes, text.lines().map(|line| RecordHash::of(line.as_bytes())).collect::<Vec<_>>());
    }
}
