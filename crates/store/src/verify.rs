//! Proves that no record was taken out, altered or moved.

use std::collections::HashMap;

use redb::{Database, ReadableDatabase as _, TableError};
use serde::{Deserialize, Serialize};

use crate::chain::{ChainPlace, RecordHash, RecordHead, Seal};
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
    let key = key.or(own.as_deref());
    slot.run(|database| verify_database(database, given, key)).map_err(|error| LogError::Unreadable(error.to_string()))
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
    let mut changes = ChainWalk::new(changes::LOG, Seal::read(&read, changes::LOG)?, Box::new(|_| true));
    match read.open_table(changes::ROWS) {
        Ok(rows) => {
            for row in rows.range(0..)? {
                let (seq, row) = row?;
                changes.take(seq.value(), row.value().1);
            }
        }
        Err(TableError::TableDoesNotExist(_)) => {}
        Err(error) => return Err(error.into()),
    }
    let named: Vec<u64> = given.iter().map(|checkpoint| checkpoint.audit.seq).collect();
    let mut audit =
        ChainWalk::new(audit::LOG, Seal::read(&read, audit::LOG)?, Box::new(move |seq| named.contains(&seq)));
    let mut kept = Vec::new();
    match read.open_table(audit::BLOCKS) {
        Ok(blocks) => {
            for block in blocks.range(0..)? {
                let (first, block) = block?;
                let lines = block.value().2.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
                for (seq, line) in (first.value()..).zip(lines) {
                    let before = audit.at;
                    audit.take(seq, line);
                    if is_checkpoint(line)
                        && let Some(checkpoint) = Checkpoint::read(line)
                    {
                        let (seq, hash) = before;
                        if checkpoint.audit != ChainPlace::new(seq, hash) {
                            audit.fault(format!("the checkpoint of record {} names another record before it", seq + 1));
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
    for checkpoint in &kept {
        report.compare(checkpoint, "of", key, &[&changes]);
    }
    for checkpoint in given {
        report.compare(checkpoint, "that was given, of", key, &[&changes, &audit]);
    }
    (report.changes, report.audit) = (changes.report, audit.report);
    report.keys.sort();
    report.keys.dedup();
    Ok(report)
}

impl VerifyReport {
    /// Whether a checkpoint is signed, and the records that it names are still the same.
    fn compare(&mut self, checkpoint: &Checkpoint, which: &str, key: Option<&str>, logs: &[&ChainWalk]) {
        let time = checkpoint.time;
        if checkpoint.signature.is_empty() {
            self.faults.push(format!("the checkpoint {which} {time} is not signed"));
        } else if !checkpoint.holds() {
            self.faults.push(format!("the checkpoint {which} {time} was altered: its signature is not right"));
        } else if key.is_some_and(|key| key != checkpoint.key) {
            self.faults.push(format!("the checkpoint {which} {time} was signed by another key, {}", checkpoint.key));
        }
        self.keys.extend((!checkpoint.key.is_empty()).then(|| checkpoint.key.clone()));
        for log in logs {
            let named = if log.log == audit::LOG { &checkpoint.audit } else { &checkpoint.changes };
            if let Some(fault) = log.contradicts(named) {
                self.faults.push(format!("{}: {fault}, says the checkpoint {which} {time}", log.log));
            }
        }
        self.checkpoints += 1;
    }
}

/// Most records are calls, and parsing each would take most of the time.
fn is_checkpoint(line: &[u8]) -> bool {
    const KIND: &[u8] = b",\"kind\":\"checkpoint\",";
    // The time and the kind are the first members after number and hash.
    line.get(..200.min(line.len())).is_some_and(|head| head.windows(KIND.len()).any(|part| part == KIND))
}

/// Goes along one log.
struct ChainWalk {
    log: &'static str,
    seal: Option<Seal>,
    report: LogReport,
    faults: Vec<String>,
    /// The last record that was seen, or the one before the first.
    at: (u64, RecordHash),
    /// The hashes of the records that a checkpoint may name.
    hashes: HashMap<u64, RecordHash>,
    remembers: Box<dyn Fn(u64) -> bool>,
}

impl ChainWalk {
    fn new(log: &'static str, seal: Option<Seal>, remembers: Box<dyn Fn(u64) -> bool>) -> Self {
        let from = seal.as_ref().map_or_else(ChainPlace::start, |seal| seal.from.clone());
        let began = seal.as_ref().map_or(0, |seal| seal.began);
        let report = LogReport { compacted_to: if from.seq > began { from.seq } else { 0 }, ..LogReport::default() };
        let at = (from.seq, from.hash());
        Self { log, seal, report, faults: Vec::new(), at, hashes: HashMap::from([at]), remembers }
    }

    fn fault(&mut self, text: impl std::fmt::Display) {
        if self.faults.len() < MOST_FAULTS {
            self.faults.push(format!("{}: {text}", self.log));
        }
    }

    /// The next record: the number that it is kept under, and its line.
    fn take(&mut self, seq: u64, line: &[u8]) {
        let hash = RecordHash::of(line);
        let head = RecordHead::read(line).filter(|head| head.seq == seq);
        let prev = head.as_ref().and_then(|head| head.prev);
        let Some((from, began)) = self.seal.as_ref().map(|seal| (seal.from.clone(), seal.began)) else {
            match prev {
                Some(_) => self.at = (seq, hash),
                None => self.report.unchained += 1,
            }
            return;
        };
        if seq <= from.seq {
            match prev {
                None if seq <= began => {
                    self.report.unchained += 1;
                    // The chain goes on from the last of them.
                    if seq == from.seq && hash != from.hash() {
                        self.fault(format!("record {seq} was altered"));
                    }
                }
                _ => self.fault(format!("record {seq} is there though it was compacted")),
            }
            return;
        }
        let (before, expected) = self.at;
        match head {
            None => self.fault(format!("record {seq} was altered or moved")),
            Some(_) if prev == Some(expected) => {}
            Some(_) if seq == before + 1 && before == from.seq => self.fault(format!("record {seq} was altered")),
            Some(_) if seq == before + 1 => self.fault(format!("record {before} or {seq} was altered")),
            Some(_) => {
                self.fault(format!("records {} to {} are missing, or {before} was altered", before + 1, seq - 1))
            }
        }
        self.report.records += 1;
        self.at = (seq, hash);
        if (self.remembers)(seq) {
            self.hashes.insert(seq, hash);
        }
    }

    fn finish(&mut self, key: Option<&str>) {
        let (last, hash) = self.at;
        self.report.last = last;
        let Some(seal) = self.seal.clone() else {
            if last > 0 {
                self.fault("the seal is missing");
            }
            return;
        };
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
        } else if hash != seal.to.hash() {
            self.fault(format!("record {last} was altered"));
        }
    }

    /// What is wrong if a record was as a checkpoint says.
    fn contradicts(&self, named: &ChainPlace) -> Option<String> {
        let from = self.seal.as_ref().map_or(0, |seal| seal.from.seq);
        // Of what was compacted only the last hash is left.
        if named.seq < from || named.seq == 0 {
            return None;
        }
        match self.hashes.get(&named.seq) {
            Some(hash) if *hash == named.hash() => None,
            Some(_) => Some(format!("record {} was altered", named.seq)),
            None => Some(format!("record {} is missing", named.seq)),
        }
    }
}
