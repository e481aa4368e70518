//! The change log: rows by number, bounded by age, count and size.

use std::cmp::Ordering;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use redb::{Database, ReadableDatabase as _, ReadableTable as _, TableDefinition, TableError, WriteTransaction};
use tidings_sync::Lock;

use super::definitions::{self, DefinedItem, DefinitionState, ItemPlace};
use super::lists;
use crate::chain::{ChainLink, ChainPlace, ChainedLog, LAST_NUMBER, LogContent, RecordHash, RecordHead, Seal, time_of};
use crate::chain_key::ChainKey;
use crate::lists::{ItemHash, KnownList, KnownLists, ListOwner, ListStep};
use crate::slot::DatabaseSlot;
use crate::store::Store;

/// Number to time in milliseconds and record.
pub(crate) const ROWS: TableDefinition<'_, u64, (u64, &[u8])> = TableDefinition::new("changes");
/// What its seal is called.
pub(crate) const LOG: &str = "changes";
/// The same as a chain. Older than the chain: what earlier versions wrote carries no hash.
pub(crate) const CHAIN: ChainedLog = ChainedLog { name: LOG, is_chained_from_the_first: false, content };
/// The last number ever given, and the sum of the rows' sizes.
const FACTS: TableDefinition<'_, &str, u64> = TableDefinition::new("changes_facts");
const LAST: &str = "last";
const BYTES: &str = "bytes";

/// How much is kept.
#[derive(Clone, Debug)]
pub struct LogLimits {
    /// Changes that are older than this are removed with the next write.
    pub max_age: Duration,
    /// Beyond this many changes the oldest go.
    pub max_rows: u64,
    /// Beyond this many bytes of changes the oldest go.
    pub max_bytes: u64,
    /// How many changes may wait to be written.
    pub max_waiting: usize,
    /// How many bytes of them.
    pub max_waiting_bytes: usize,
}

impl Default for LogLimits {
    fn default() -> Self {
        Self {
            max_age: Duration::from_secs(30 * 24 * 60 * 60),
            max_rows: 100_000,
            max_bytes: 64 << 20,
            max_waiting: 4_096,
            max_waiting_bytes: 16 << 20,
        }
    }
}

/// One change in its kept form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeRow {
    /// Its number in the log. Numbers rise and are never used again.
    pub seq: u64,
    /// Its time, in milliseconds since 1970.
    pub time: u64,
    /// The record, as JSON on one line.
    pub json: Bytes,
}

/// Which changes are wanted.
#[derive(Clone, Copy, Debug)]
pub struct ChangeQuery {
    /// The first row that is wanted.
    pub from: QueryStart,
    /// How many at most.
    pub limit: usize,
    /// How many bytes at most; one row is given even if it is larger.
    pub max_bytes: usize,
}

/// The row that a query begins with.
#[derive(Clone, Copy, Debug)]
pub enum QueryStart {
    /// After this number, oldest first.
    After(u64),
    /// At this time or later (milliseconds since 1970), oldest first.
    Time(u64),
    /// As many of the newest as there may be.
    Newest,
    /// As many of the newest as there may be among those before this number.
    Before(u64),
}

impl QueryStart {
    /// Whether rows are taken from the end.
    fn is_backward(self) -> bool {
        matches!(self, Self::Newest | Self::Before(_))
    }
}

/// What was found, oldest first.
#[derive(Clone, Debug, Default)]
pub struct ChangeRows {
    /// The rows that fit the query, oldest first, as far as the limit lets them in.
    pub rows: Vec<ChangeRow>,
    /// The newest number there is; when it is not that of the last row, there may be more.
    pub last: u64,
}

/// Where rows are kept.
#[derive(Debug)]
pub(crate) enum ChangeRowStorage {
    File(Arc<DatabaseSlot>, u64, Option<Arc<ChainKey>>),
    Memory(Lock<MemoryRows>),
}

/// The stand-in for the file.
#[derive(Debug, Default)]
pub(crate) struct MemoryRows {
    rows: VecDeque<ChangeRow>,
    bytes: u64,
    last: u64,
}

impl ChangeRowStorage {
    pub(crate) fn new(store: &Store) -> Self {
        match store.log_slot() {
            Some(slot) => Self::File(Arc::clone(slot), store.floor(), store.key()),
            None => Self::Memory(Lock::default()),
        }
    }

    /// The last number ever given.
    pub(crate) fn last(&self) -> Result<u64, redb::Error> {
        match self {
            Self::Memory(memory) => Ok(lock(memory).last),
            Self::File(slot, floor, _) => slot.run(|database| {
                let read = database.begin_read()?;
                // No number of the seal is given again, either: what comes after it would count as written.
                let sealed = Seal::read(&read, LOG)?.map_or(0, |seal| seal.to.seq);
                match read.open_table(FACTS) {
                    Ok(facts) => {
                        let last = facts.get(LAST)?.map_or(0, |last| last.value()).min(LAST_NUMBER);
                        Ok(last.max(*floor).max(sealed))
                    }
                    Err(TableError::TableDoesNotExist(_)) => Ok(sealed.max(*floor)),
                    Err(error) => Err(error.into()),
                }
            }),
        }
    }

    /// Adds rows and what they make of the known lists, and takes away what is too old or too much. All of it is on disk when this
    /// returns.
    pub(crate) fn append(
        &self,
        new: Vec<ChangeRow>,
        steps: &[ListStep],
        limits: &LogLimits,
        now: u64,
    ) -> Result<(), redb::Error> {
        let expired = now.saturating_sub(u64::try_from(limits.max_age.as_millis()).unwrap_or(u64::MAX));
        match self {
            Self::Memory(memory) => {
                // Without the steps: what is known of lists is for the next process, which sees nothing of this memory.
                lock(memory).append(new, limits, expired);
                Ok(())
            }
            Self::File(slot, _, key) => {
                slot.run(|database| append(database, &new, steps, limits, (now, expired), key.as_deref()))
            }
        }
    }

    pub(crate) fn read(&self, query: ChangeQuery) -> Result<ChangeRows, redb::Error> {
        // Before the rows: a row that comes in between is given, and `finish` raises the number.
        let last = self.last()?;
        match self {
            Self::Memory(memory) => {
                let memory = lock(memory);
                let mut gathered = GatheredRows::new(query);
                match query.from {
                    QueryStart::After(_) | QueryStart::Time(_) => {
                        let _ = memory.rows.iter().try_for_each(|row| gathered.take(row.seq, row.time, &row.json));
                    }
                    QueryStart::Newest | QueryStart::Before(_) => {
                        let _ =
                            memory.rows.iter().rev().try_for_each(|row| gathered.take(row.seq, row.time, &row.json));
                    }
                }
                Ok(gathered.finish(last))
            }
            Self::File(slot, ..) => slot.run(|database| read(database, query, last)),
        }
    }
}

/// What items said. Only a file keeps it.
impl ChangeRowStorage {
    pub(crate) fn definition(&self, digest: &ItemHash) -> Result<Option<Vec<u8>>, redb::Error> {
        match self {
            Self::Memory(_) => Ok(None),
            Self::File(slot, ..) => slot.run(|database| definitions::definition(database, digest)),
        }
    }

    pub(crate) fn history(&self, place: ItemPlace<'_>) -> Result<Vec<DefinitionState>, redb::Error> {
        match self {
            Self::Memory(_) => Ok(Vec::new()),
            Self::File(slot, ..) => slot.run(|database| definitions::history(database, place)),
        }
    }

    pub(crate) fn items_at(&self, kind: &str, at: u64) -> Result<Vec<DefinedItem>, redb::Error> {
        match self {
            Self::Memory(_) => Ok(Vec::new()),
            Self::File(slot, ..) => slot.run(|database| definitions::items_at(database, kind, at)),
        }
    }
}

/// No other process saw what is only in memory, so nothing is to be compared with it.
impl KnownLists for ChangeRowStorage {
    type Error = redb::Error;

    fn owners(&self) -> Result<Vec<ListOwner>, redb::Error> {
        match self {
            Self::Memory(_) => Ok(Vec::new()),
            Self::File(slot, ..) => slot.run(lists::owners),
        }
    }

    fn list(&self, owner: &ListOwner, kind: &str) -> Result<KnownList, redb::Error> {
        match self {
            Self::Memory(_) => Ok(KnownList::new()),
            Self::File(slot, ..) => slot.run(|database| lists::list(database, owner, kind)),
        }
    }
}

fn append(
    database: &Database,
    new: &[ChangeRow],
    steps: &[ListStep],
    limits: &LogLimits,
    (now, expired): (u64, u64),
    key: Option<&ChainKey>,
) -> Result<(), redb::Error> {
    let write = database.begin_write()?;
    // In the same transaction as the records: after a crash both are there or neither is.
    lists::keep(&write, steps)?;
    definitions::keep(&write, steps, now)?;
    {
        let mut seal = Seal::go_on(&write, &CHAIN, key)?;
        let mut rows = write.open_table(ROWS)?;
        let mut facts = write.open_table(FACTS)?;
        // What failed may be on disk after all: the seal was written with it.
        let written = seal.to.seq;
        let new = new.iter().filter(|row| row.seq > written);
        for row in new {
            // From the seal and not from the last row: that may have been altered since.
            let (json, hash) = chained(row, seal.to.hash());
            seal.to = ChainPlace::new(row.seq, hash);
            rows.insert(row.seq, (row.time, &json[..]))?;
            // Kept apart from the rows, because numbers are never used again, also when all rows have expired.
            facts.insert(LAST, row.seq)?;
            seal.count += 1;
            seal.bytes += json.len() as u64;
        }
        loop {
            let first = rows.first()?.map(|(seq, row)| {
                let json = row.value().1;
                let prev = RecordHead::read(json).filter(|head| head.seq == seq.value()).and_then(|head| head.prev);
                (seq.value(), time_of(json), json.len() as u64, prev, RecordHash::of(json))
            });
            let Some((seq, time, size, prev, hash)) = first else { break };
            // From the oldest on, until all three bounds hold. The time is the record's own: what stands beside it is not signed.
            let expires = time.is_some_and(|time| time < expired);
            if !expires && seal.count <= limits.max_rows && seal.bytes <= limits.max_bytes {
                break;
            }
            rows.remove(seq)?;
            // Rows that somebody put in were never counted.
            seal.count = seal.count.saturating_sub(1);
            seal.bytes = seal.bytes.saturating_sub(size);
            let is_ours = match seq.cmp(&seal.from.seq) {
                // From before there was a chain, and the last of these, which it goes on from.
                Ordering::Less => seq <= seal.began,
                Ordering::Equal => seq <= seal.began && hash == seal.from.hash(),
                Ordering::Greater => seq <= seal.to.seq && prev == Some(seal.from.hash()),
            };
            if !is_ours {
                seal.compacts_foreign(LOG);
            }
            // What is taken away leaves its hash, which the first record that stays carries.
            if seq > seal.from.seq && seq <= seal.to.seq {
                seal.from = ChainPlace::new(seq, hash);
            }
        }
        // For earlier versions.
        facts.insert(BYTES, seal.bytes)?;
        seal.sign(LOG, key);
        seal.keep(&write, LOG)?;
    }
    write.commit()?;
    Ok(())
}

/// What there is, to be sealed.
pub(crate) fn content(write: &WriteTransaction) -> Result<LogContent, redb::Error> {
    let mut content = LogContent::default();
    for row in write.open_table(ROWS)?.range(0..)? {
        let (seq, row) = row?;
        let json = row.value().1;
        content.take(&ChainLink::single(seq.value(), json), json.len() as u64);
    }
    Ok(content)
}

/// The record with the hash of the one before it, which stands after its number.
fn chained(row: &ChangeRow, prev: RecordHash) -> (Vec<u8>, RecordHash) {
    let mut json = Vec::with_capacity(row.json.len() + 80);
    RecordHead::write(&mut json, row.seq, Some(prev));
    // The number is the first member of every record, and never the only one.
    let rest = row.json.iter().position(|byte| *byte == b',').unwrap_or(row.json.len() - 1);
    json.extend_from_slice(&row.json[rest..]);
    let hash = RecordHash::of(&json);
    (json, hash)
}

fn read(database: &Database, query: ChangeQuery, last: u64) -> Result<ChangeRows, redb::Error> {
    let read = database.begin_read()?;
    let rows = match read.open_table(ROWS) {
        Ok(rows) => rows,
        Err(TableError::TableDoesNotExist(_)) => return Ok(ChangeRows { rows: Vec::new(), last }),
        Err(error) => return Err(error.into()),
    };
    let mut gathered = GatheredRows::new(query);
    let mut range = match query.from {
        QueryStart::After(seq) => rows.range(seq.saturating_add(1)..)?,
        QueryStart::Before(seq) => rows.range(..seq)?,
        QueryStart::Time(_) | QueryStart::Newest => rows.range(0..)?,
    };
    loop {
        let next = if query.from.is_backward() { range.next_back() } else { range.next() };
        let Some((seq, row)) = next.transpose()? else { break };
        let (time, json) = row.value();
        if gathered.take(seq.value(), time, json).is_none() {
            break;
        }
    }
    Ok(gathered.finish(last))
}

impl MemoryRows {
    fn append(&mut self, new: Vec<ChangeRow>, limits: &LogLimits, expired: u64) {
        for row in new {
            self.last = row.seq;
            self.bytes += row.json.len() as u64;
            self.rows.push_back(row);
        }
        while let Some(first) = self.rows.front() {
            let fits = self.rows.len() as u64 <= limits.max_rows && self.bytes <= limits.max_bytes;
            if first.time >= expired && fits {
                break;
            }
            self.bytes -= first.json.len() as u64;
            self.rows.pop_front();
        }
    }
}

/// Rows on their way to the answer.
struct GatheredRows {
    query: ChangeQuery,
    rows: Vec<ChangeRow>,
    bytes: usize,
}

impl GatheredRows {
    fn new(query: ChangeQuery) -> Self {
        Self { query, rows: Vec::new(), bytes: 0 }
    }

    /// `None` when there is no room for more.
    fn take(&mut self, seq: u64, time: u64, json: &[u8]) -> Option<()> {
        let wanted = match self.query.from {
            QueryStart::After(after) => seq > after,
            // Clocks can be set back, so every row is looked at.
            QueryStart::Time(since) => time >= since,
            QueryStart::Before(before) => seq < before,
            QueryStart::Newest => true,
        };
        if !wanted {
            return Some(());
        }
        self.bytes += json.len();
        // One row at least, however long: a reader that never gets past it would ask for ever.
        if self.rows.len() >= self.query.limit || (self.bytes > self.query.max_bytes && !self.rows.is_empty()) {
            return None;
        }
        self.rows.push(ChangeRow { seq, time, json: Bytes::copy_from_slice(json) });
        Some(())
    }

    fn finish(mut self, last: u64) -> ChangeRows {
        if self.query.from.is_backward() {
            self.rows.reverse();
        }
        // A row may have come after the last number was read.
        let last = last.max(self.rows.last().map_or(0, |row| row.seq));
        ChangeRows { rows: self.rows, last }
    }
}

fn lock<T>(mutex: &Lock<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock()
}
