//! Proves that no record was taken out, altered or moved.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use redb::{Database, ReadableDatabase as _, TableError};
use serde::{Deserialize, Serialize};

use crate::chain::{ChainLink, ChainPlace, RecordHash, RecordHead, Seal};
use crate::chain_key;
use crate::checkpoint::Checkpoint;
use crate::log::LogError;
use crate::store::Store;
use crate::tables::audit::{self, AuditStorage};
use crate::tables::changes;

/// How many faults are told of each log; one break often has many more.
const MOST_FAULTS: usize = 20;

/// What was found.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct VerifyReport {
    /// The change log.
    pub changes: LogReport,
    /// The audit log.
    pub audit: LogReport,
    /// How many checkpoints agree with the records: those in the audit log, and those that were given.
    pub checkpoints: u64,
    /// How many do not, because what they name was compacted, and no later one that is signed names what was left then.
    #[serde(default)]
    pub uncompared: u64,
    /// The public keys that signed. One that you do not know signed somebody else's records.
    pub keys: Vec<String>,
    /// What is wrong; nothing, if all is well.
    pub faults: Vec<String>,
}

/// What one log has.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct LogReport {
    /// Records that are there and follow one another.
    pub records: u64,
    /// Records that an earlier version wrote, before there was a chain.
    pub unchained: u64,
    /// The number of the last record that was compacted; its hash is in the first that is kept.
    pub compacted_to: u64,
    /// The number of the last record.
    pub last: u64,
}

impl VerifyReport {
    /// Of a directory that has no store: well, unless there was one.
    pub fn without_store(directory: &Path) -> Self {
        let mut report = Self::default();
        if directory.join(chain_key::FILE).exists() {
            let text = format!("{} is there, but there is no store: all records are missing", chain_key::FILE);
            report.faults.push(text);
        }
        report
    }

    /// Whether nothing is wrong.
    pub fn holds(&self) -> bool {
        self.faults.is_empty()
    }
}

/// Verifies a store that no gateway has open. Blocks. `given` are checkpoints that were kept elsewhere, `key` is the public key that
/// has to have signed, where it is not that of the data directory.
pub fn verify(store: &Store, given: &[Checkpoint], key: Option<&str>) -> Result<VerifyReport, LogError> {
    let Some(slot) = store.slot() else { return Ok(VerifyReport::default()) };
    // Whoever has no key can sign with one of their own.
    let own = store.key().map(|key| key.public());
    let known = key.or(own.as_deref());
    let report = slot.run(|database| verify_database(database, given, known));
    let mut report = report.map_err(|error| LogError::Unreadable(error.to_string()))?;
    if known.is_none() && (store.unsigned().is_some() || !report.keys.is_empty()) {
        let reason = store.unsigned().unwrap_or("it is not there");
        let text = format!("{} can not be read, so nobody knows who signed: {reason}", chain_key::FILE);
        report.faults.push(text);
    }
    Ok(report)
}

/// As [`verify`], of what a running gateway has.
pub(crate) fn verify_audited(
    storage: &AuditStorage,
    given: &[Checkpoint],
    key: Option<&str>,
) -> Result<VerifyReport, redb::Error> {
    let own = storage.public_key();
    let key = key.or(own.as_deref());
    storage.slot().run(|database| verify_database(database, given, key))
}

fn verify_database(database: &Database, given: &[Checkpoint], key: Option<&str>) -> Result<VerifyReport, redb::Error> {
    // One moment of both logs: a gateway may go on writing.
    let read = database.begin_read()?;
    let mut report = VerifyReport::default();
    // All hashes are remembered: checkpoints that name changes stand in the audit log, which is read afterwards.
    let mut changes = ChainWalk::new(changes::LOG, Seal::read(&read, changes::LOG)?, Box::new(|_| true));
    match read.open_table(changes::ROWS) {
        Ok(rows) => {
            for row in rows.range(0..)? {
                let (seq, row) = row?;
                changes.take(&ChainLink::single(seq.value(), row.value().1));
            }
        }
        Err(TableError::TableDoesNotExist(_)) => {}
        Err(error) => return Err(error.into()),
    }
    // Checkpoints inside the audit log are compared as they are passed; only those from elsewhere name records by number.
    let named: HashSet<u64> = given.iter().map(|checkpoint| checkpoint.audit.seq).collect();
    let mut audit =
        ChainWalk::new(audit::LOG, Seal::read(&read, audit::LOG)?, Box::new(move |seq| named.contains(&seq)));
    let mut kept = Vec::new();
    match read.open_table(audit::BLOCKS) {
        Ok(blocks) => {
            for block in blocks.range(0..)? {
                let (first, block) = block?;
                let (newest, count, row) = block.value();
                let links: Vec<ChainLink<'_>> = ChainLink::of_row(first.value(), row).collect();
                if let Some(fault) = audit::row_fault(newest, count, row, &links) {
                    audit.fault(format!("the row of record {} {fault}", first.value()));
                }
                for link in links {
                    // Before the checkpoint itself is taken: it names the end of the link before it.
                    let before = audit.at;
                    audit.take(&link);
                    // A checkpoint is a link by itself.
                    if is_checkpoint(link.text)
                        && let Some(checkpoint) = Checkpoint::read(link.text)
                    {
                        if checkpoint.audit != ChainPlace::new(before.last, before.hash) {
                            let seq = link.first;
                            audit.fault(format!("the checkpoint of record {seq} names another record before it"));
                        }
                        kept.push(checkpoint);
                    }
                }
            }
        }
        Err(TableError::TableDoesNotExist(_)) => {}
        Err(error) => return Err(error.into()),
    }
    for walk in [&mut changes, &mut audit] {
        walk.finish(key);
        report.faults.append(&mut walk.faults);
        report.keys.extend(walk.seal.iter().map(|seal| seal.key.clone()).filter(|key| !key.is_empty()));
    }
    // The newest first: they speak for the place up to which was compacted, and so for those that name what was before it.
    for checkpoint in kept.iter().rev() {
        audit.covered |= report.is_signed(checkpoint, "of", key);
        report.compare(checkpoint, "of", &mut [&mut changes]);
    }
    let mut given: Vec<&Checkpoint> = given.iter().collect();
    given.sort_by_key(|checkpoint| std::cmp::Reverse((checkpoint.audit.seq, checkpoint.changes.seq)));
    // Those of the log itself are counted by now. Whoever brought some wants to know of theirs.
    let before = report.checkpoints;
    for checkpoint in &given {
        report.is_signed(checkpoint, "that was given, of", key);
        report.compare(checkpoint, "that was given, of", &mut [&mut changes, &mut audit]);
    }
    if !given.is_empty() && report.checkpoints == before {
        report
            .faults
            .push("no checkpoint that was given can be compared: what they name is said to be compacted".into());
    }
    (report.changes, report.audit) = (changes.report, audit.report);
    report.keys.sort();
    report.keys.dedup();
    Ok(report)
}

impl VerifyReport {
    /// Whether a checkpoint is signed, and by the key that is known.
    fn is_signed(&mut self, checkpoint: &Checkpoint, which: &str, key: Option<&str>) -> bool {
        let time = checkpoint.time;
        self.keys.extend((!checkpoint.key.is_empty()).then(|| checkpoint.key.clone()));
        let fault = if checkpoint.signature.is_empty() {
            "is not signed".to_owned()
        } else if !checkpoint.holds() {
            "was altered: its signature is not right".to_owned()
        } else if key.is_some_and(|key| key != checkpoint.key) {
            format!("was signed by another key, {}", checkpoint.key)
        } else {
            return true;
        };
        self.faults.push(format!("the checkpoint {which} {time} {fault}"));
        false
    }

    /// Whether the records that a checkpoint names are still the same.
    fn compare(&mut self, checkpoint: &Checkpoint, which: &str, logs: &mut [&mut ChainWalk]) {
        let time = checkpoint.time;
        let mut compared = true;
        for log in logs {
            let named = if log.log == audit::LOG { &checkpoint.audit } else { &checkpoint.changes };
            let fault = match log.compare(named) {
                Comparison::Nothing => continue,
                Comparison::Same => {
                    // The place up to which was compacted is before this record, whose hash includes it.
                    log.covered = true;
                    continue;
                }
                Comparison::Compacted => {
                    compared &= log.covered;
                    continue;
                }
                Comparison::Altered => format!("record {} was altered", named.seq),
                Comparison::Missing => format!("record {} is missing", named.seq),
            };
            self.faults.push(format!("{}: {fault}, says the checkpoint {which} {time}", log.log));
        }
        if compared { self.checkpoints += 1 } else { self.uncompared += 1 }
    }
}

/// What came of looking for the record that a checkpoint names.
enum Comparison {
    /// It names none: there was none yet.
    Nothing,
    Same,
    /// Of what was compacted only the last hash is left.
    Compacted,
    Altered,
    Missing,
}

/// Most records are calls, and parsing each would take most of the time.
fn is_checkpoint(line: &[u8]) -> bool {
    const KIND: &[u8] = b",\"kind\":\"checkpoint\",";
    // The time and the kind are the first members after number and hash.
    line.get(..200.min(line.len())).is_some_and(|head| head.windows(KIND.len()).any(|part| part == KIND))
}

/// A link that was passed: its first and last record, and its hash.
#[derive(Clone, Copy)]
struct SeenLink {
    first: u64,
    last: u64,
    hash: RecordHash,
}

impl std::fmt::Display for SeenLink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { first, last, .. } = self;
        // Which of them was touched is not known: they have one hash.
        if first == last { write!(f, "record {last}") } else { write!(f, "one of the records {first} to {last}") }
    }
}

/// Goes along one log.
struct ChainWalk {
    log: &'static str,
    seal: Option<Seal>,
    report: LogReport,
    faults: Vec<String>,
    /// The last link that was seen, or the end of the one before the first.
    at: SeenLink,
    /// The hashes of the links whose ends a checkpoint may name.
    hashes: HashMap<u64, RecordHash>,
    remembers: Box<dyn Fn(u64) -> bool>,
    /// Whether a signed checkpoint names one of the records that are kept, or the last that was compacted.
    covered: bool,
    /// Whether a record was seen that must have a seal.
    needs_seal: bool,
}

impl ChainWalk {
    fn new(log: &'static str, seal: Option<Seal>, remembers: Box<dyn Fn(u64) -> bool>) -> Self {
        let from = seal.as_ref().map_or_else(ChainPlace::start, |seal| seal.from.clone());
        let began = seal.as_ref().map_or(0, |seal| seal.began);
        let report = LogReport { compacted_to: if from.seq > began { from.seq } else { 0 }, ..LogReport::default() };
        let at = SeenLink { first: from.seq, last: from.seq, hash: from.hash() };
        Self {
            log,
            seal,
            report,
            faults: Vec::new(),
            at,
            // The last record that was compacted can be named too, and the seal has its hash.
            hashes: HashMap::from([(at.last, at.hash)]),
            remembers,
            covered: false,
            needs_seal: false,
        }
    }

    fn fault(&mut self, text: impl std::fmt::Display) {
        if self.faults.len() < MOST_FAULTS {
            self.faults.push(format!("{}: {text}", self.log));
        }
    }

    /// The next records.
    fn take(&mut self, link: &ChainLink<'_>) {
        let seq = link.first;
        let seen = SeenLink { first: seq, last: link.last(), hash: link.hash() };
        let head = link.head().filter(|head| head.seq == seq);
        let prev = head.as_ref().and_then(|head| head.prev);
        let Some((from, began)) = self.seal.as_ref().map(|seal| (seal.from.clone(), seal.began)) else {
            // Only the change log is older than the chain.
            if prev.is_some() || self.log == audit::LOG {
                self.needs_seal = true;
                self.at = seen;
            } else {
                self.report.unchained += 1;
            }
            return;
        };
        if seq <= from.seq {
            match prev {
                None if seq <= began && self.log != audit::LOG => {
                    self.report.unchained += 1;
                    // The chain goes on from the last of them.
                    if seq == from.seq && seen.hash != from.hash() {
                        self.fault(format!("record {seq} was altered"));
                    }
                }
                _ => self.fault(format!("record {seq} is there though it was compacted")),
            }
            return;
        }
        let before = self.at;
        let is_next = before.last.checked_add(1) == Some(seq);
        match head {
            None => self.fault(format!("record {seq} was altered or moved")),
            Some(_) if prev == Some(before.hash) => {}
            Some(_) if is_next && before.last == from.seq => self.fault(format!("record {seq} was altered")),
            Some(_) if is_next && before.first == before.last => {
                self.fault(format!("record {} or {seq} was altered", before.last))
            }
            Some(_) if is_next => self.fault(format!("{before}, or {seq}, was altered")),
            Some(_) => {
                self.fault(format!("records {} to {} are missing, or {before} was altered", before.last + 1, seq - 1))
            }
        }
        // The hash would tell that something is wrong, and these numbers tell where.
        let is_in_place = |(seq, line): (u64, &[u8])| RecordHead::read(line).is_some_and(|head| head.seq == seq);
        if let Some((seq, _)) = link.lines().skip(1).find(|line| !is_in_place(*line)) {
            self.fault(format!("record {seq} was altered or moved"));
        }
        self.report.records += link.count;
        self.at = seen;
        // Only the last of a link: a checkpoint can name no record in the middle of one.
        if (self.remembers)(seen.last) {
            self.hashes.insert(seen.last, seen.hash);
        }
    }

    fn finish(&mut self, key: Option<&str>) {
        let at = self.at;
        let last = at.last;
        self.report.last = last;
        let Some(seal) = self.seal.clone() else {
            // The seals are as old as the key.
            if key.is_some() || self.needs_seal {
                self.fault("the seal is missing");
            }
            return;
        };
        if let Some(seq) = seal.broken {
            self.fault(format!(
                "after record {seq} the log was found not to be what was signed; nothing up to there is proved"
            ));
        }
        if seal.signature.is_empty() {
            self.fault("not signed");
        } else if !seal.holds(self.log) {
            self.fault("the seal was altered: its signature is not right");
        } else if key.is_some_and(|key| key != seal.key) {
            self.fault(format!("signed by another key, {}", seal.key));
        }
        let to = seal.to.seq;
        if last < to {
            self.fault(format!("records {} to {to} are missing at the end", last + 1));
        } else if last > to {
            self.fault(format!("records {} to {last} were added after the seal", to + 1));
        } else if at.hash != seal.to.hash() {
            self.fault(format!("{at} was altered"));
        }
    }

    /// Looks for the record that a checkpoint names.
    fn compare(&self, named: &ChainPlace) -> Comparison {
        let from = self.seal.as_ref().map_or(0, |seal| seal.from.seq);
        match self.hashes.get(&named.seq) {
            _ if named.seq == 0 => Comparison::Nothing,
            _ if named.seq < from => Comparison::Compacted,
            Some(hash) if *hash == named.hash() => Comparison::Same,
            Some(_) => Comparison::Altered,
            None => Comparison::Missing,
        }
    }
}
