//! Audit records: many to a row, because every call is one of them.

use std::sync::Arc;

use bytes::Bytes;
use redb::backends::InMemoryBackend;
use redb::{Database, ReadableDatabase as _, ReadableTable as _, TableDefinition, TableError};

use super::changes;
use crate::audit::AuditLimits;
use crate::chain::{ChainKey, ChainPlace, RecordHash, RecordHead, Seal};
use crate::checkpoint::Checkpoint;
use crate::slot::DatabaseSlot;
use crate::store::Store;
use crate::tables::changes::{ChangeQuery, ChangeRow, ChangeRows, QueryStart};

/// The number of the first record of a block to the time of its last one in milliseconds, how many there are, and their lines.
pub(crate) const BLOCKS: TableDefinition<'_, u64, (u64, u64, &[u8])> = TableDefinition::new("audit");
/// How many records there are, and their bytes.
const FACTS: TableDefinition<'_, &str, u64> = TableDefinition::new("audit_facts");
const COUNT: &str = "count";
const BYTES: &str = "bytes";
/// What its seal is called.
pub(crate) const LOG: &str = "audit";
/// How long the lines of one row may be. A reader loads whole rows.
const BLOCK: usize = 32 << 10;
/// What a process that has no store keeps in memory.
const MEMORY_RECORDS: u64 = 10_000;

/// Where audit records are kept.
#[derive(Clone, Debug)]
pub(crate) struct AuditStorage {
    slot: Arc<DatabaseSlot>,
    key: Option<Arc<ChainKey>>,
    in_memory: bool,
}

/// Records to write, in order: the members of each after its number and hash, and its time in milliseconds.
#[derive(Debug, Default)]
pub(crate) struct AuditBatch {
    /// One after the other.
    pub(crate) members: Vec<u8>,
    /// The end of each in `members`, and its time.
    pub(crate) records: Vec<(usize, u64)>,
    /// Whether a checkpoint comes last.
    pub(crate) checkpoint: bool,
}

/// What was written: the lines, in order, and the number of the last.
pub(crate) struct WrittenLines {
    pub(crate) lines: Vec<u8>,
    pub(crate) last: u64,
}

impl AuditStorage {
    pub(crate) fn new(store: &Store) -> Result<Self, redb::Error> {
        match store.slot() {
            Some(slot) => Ok(Self { slot: Arc::clone(slot), key: store.key(), in_memory: false }),
            None => {
                let database =
                    redb::Builder::new().set_cache_size(1 << 20).create_with_backend(InMemoryBackend::new())?;
                let slot = Arc::new(DatabaseSlot::new(Default::default(), database));
                Ok(Self { slot, key: None, in_memory: true })
            }
        }
    }

    /// The last number ever given.
    pub(crate) fn last(&self) -> Result<u64, redb::Error> {
        self.slot.run(|database| Ok(Seal::read(&database.begin_read()?, LOG)?.map_or(0, |seal| seal.to.seq)))
    }

    /// Whether something was recorded after the newest checkpoint.
    pub(crate) fn has_news(&self) -> Result<bool, redb::Error> {
        self.slot.run(|database| {
            let read = database.begin_read()?;
            let head = |log| Ok::<_, redb::Error>(Seal::read(&read, log)?.map_or(0, |seal| seal.to.seq));
            let changes = head(changes::LOG)?;
            let Ok(blocks) = read.open_table(BLOCKS) else { return Ok(changes > 0) };
            let Some((_, block)) = blocks.last()? else { return Ok(changes > 0) };
            let lines = block.value().2;
            let place = Checkpoint::read(last_line(lines)).map(|checkpoint| checkpoint.changes.seq);
            Ok(place != Some(changes))
        })
    }

    /// Writes records and takes away what is too old or too much. All of it is on disk when this returns.
    pub(crate) fn append(
        &self,
        batch: &AuditBatch,
        limits: &AuditLimits,
        now: u64,
    ) -> Result<WrittenLines, redb::Error> {
        let max_records = if self.in_memory { MEMORY_RECORDS.min(limits.max_records) } else { limits.max_records };
        let limits = AuditLimits { max_records, ..limits.clone() };
        self.slot.run(|database| append(database, batch, &limits, now, self.key.as_deref()))
    }

    pub(crate) fn read(&self, query: ChangeQuery) -> Result<ChangeRows, redb::Error> {
        self.slot.run(|database| read(database, query))
    }

    /// The public key of the data directory.
    pub(crate) fn public_key(&self) -> Option<String> {
        self.key.as_ref().map(|key| key.public())
    }

    /// The records of a moment, to be verified.
    pub(crate) fn slot(&self) -> &Arc<DatabaseSlot> {
        &self.slot
    }
}

fn append(
    database: &Database,
    batch: &AuditBatch,
    limits: &AuditLimits,
    now: u64,
    key: Option<&ChainKey>,
) -> Result<WrittenLines, redb::Error> {
    let write = database.begin_write()?;
    let mut written = Vec::with_capacity(batch.members.len() + batch.records.len() * 96);
    let last = {
        let mut blocks = write.open_table(BLOCKS)?;
        let mut facts = write.open_table(FACTS)?;
        let mut count = facts.get(COUNT)?.map_or(0, |count| count.value());
        let mut bytes = facts.get(BYTES)?.map_or(0, |bytes| bytes.value());
        let last = blocks.last()?.map(|(first, block)| {
            let (_, records, lines) = block.value();
            (first.value() + records - 1, last_line(lines).to_vec())
        });
        let mut seal = Seal::go_on(&write, LOG, key, last.as_ref().map(|(seq, line)| (*seq, &line[..])))?;
        let changes = Seal::read_for_write(&write, changes::LOG)?.map_or_else(ChainPlace::start, |seal| seal.to);
        let mut head = (seal.to.seq, seal.to.hash());
        let mut block = OpenBlock { start: 0, first: head.0 + 1, count: 0, time: 0 };
        let mut begin = 0;
        for (end, time) in &batch.records {
            let members = &batch.members[begin..*end];
            begin = *end;
            block.line(&mut written, &mut head, *time, |line| line.extend_from_slice(members));
            if written.len() - block.start >= BLOCK {
                block.keep(&mut blocks, &written)?;
                block = OpenBlock { start: written.len(), first: head.0 + 1, count: 0, time: 0 };
            }
        }
        if batch.checkpoint {
            let checkpoint = Checkpoint::new(ChainPlace::new(head.0, head.1), changes, now, key);
            block.line(&mut written, &mut head, now, |line| checkpoint.write(line));
        }
        seal.to = ChainPlace::new(head.0, head.1);
        if block.count > 0 {
            block.keep(&mut blocks, &written)?;
        }
        count += batch.records.len() as u64 + u64::from(batch.checkpoint);
        bytes += written.len() as u64;
        let expired = now.saturating_sub(u64::try_from(limits.max_age.as_millis()).unwrap_or(u64::MAX));
        loop {
            let oldest = blocks.first()?.map(|(first, block)| {
                let (time, records, lines) = block.value();
                let hash = RecordHash::of(last_line(lines));
                (first.value(), time, records, lines.len() as u64, hash)
            });
            let Some((first, time, records, size, hash)) = oldest else { break };
            // From the oldest on, until all three bounds hold.
            if time >= expired && count <= limits.max_records && bytes <= limits.max_bytes {
                break;
            }
            blocks.remove(first)?;
            count = count.saturating_sub(records);
            bytes = bytes.saturating_sub(size);
            // What is taken away leaves its hash, which the first record that stays carries.
            seal.from = ChainPlace::new(first + records - 1, hash);
        }
        facts.insert(COUNT, count)?;
        facts.insert(BYTES, bytes)?;
        seal.sign(LOG, key);
        seal.keep(&write, LOG)?;
        seal.to.seq
    };
    write.commit()?;
    Ok(WrittenLines { lines: written, last })
}

/// A row that is being filled: the end of what was written so far.
struct OpenBlock {
    start: usize,
    first: u64,
    count: u64,
    time: u64,
}

impl OpenBlock {
    fn line(
        &mut self,
        written: &mut Vec<u8>,
        head: &mut (u64, RecordHash),
        time: u64,
        members: impl FnOnce(&mut Vec<u8>),
    ) {
        let (begin, seq) = (written.len(), head.0 + 1);
        RecordHead::write(written, seq, head.1);
        written.push(b',');
        members(written);
        written.push(b'}');
        *head = (seq, RecordHash::of(&written[begin..]));
        written.push(b'\n');
        self.count += 1;
        self.time = self.time.max(time);
    }

    fn keep(
        &self,
        blocks: &mut redb::Table<'_, u64, (u64, u64, &'static [u8])>,
        written: &[u8],
    ) -> Result<(), redb::Error> {
        blocks.insert(self.first, (self.time, self.count, &written[self.start..]))?;
        Ok(())
    }
}

/// The last line of a block, without its end.
fn last_line(lines: &[u8]) -> &[u8] {
    lines.strip_suffix(b"\n").unwrap_or(lines).rsplit(|byte| *byte == b'\n').next().unwrap_or_default()
}

fn read(database: &Database, query: ChangeQuery) -> Result<ChangeRows, redb::Error> {
    let read = database.begin_read()?;
    let mut found = ChangeRows { rows: Vec::new(), last: Seal::read(&read, LOG)?.map_or(0, |seal| seal.to.seq) };
    let blocks = match read.open_table(BLOCKS) {
        Ok(blocks) => blocks,
        Err(TableError::TableDoesNotExist(_)) => return Ok(found),
        Err(error) => return Err(error.into()),
    };
    let mut bytes = 0;
    // `None` when there is no room for more.
    let mut take = |seq: u64, line: &[u8], rows: &mut Vec<ChangeRow>| {
        bytes += line.len();
        if rows.len() >= query.limit || (bytes > query.max_bytes && !rows.is_empty()) {
            return None;
        }
        rows.push(ChangeRow { seq, time: 0, json: Bytes::copy_from_slice(line) });
        Some(())
    };
    let lines = |block: &[u8]| -> Vec<Vec<u8>> {
        block.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).map(<[u8]>::to_vec).collect()
    };
    match query.from {
        QueryStart::Newest => {
            'blocks: for block in blocks.range(0..)?.rev() {
                let (first, block) = block?;
                for (at, line) in lines(block.value().2).iter().enumerate().rev() {
                    if take(first.value() + at as u64, line, &mut found.rows).is_none() {
                        break 'blocks;
                    }
                }
            }
            found.rows.reverse();
        }
        QueryStart::After(_) | QueryStart::Time(_) => {
            // The block that the number stands in began before it.
            let start = match query.from {
                QueryStart::After(after) => blocks
                    .range(..=after.saturating_add(1))?
                    .next_back()
                    .transpose()?
                    .map_or(0, |(first, _)| first.value()),
                _ => 0,
            };
            'forward: for block in blocks.range(start..)? {
                let (first, block) = block?;
                let (newest, _, text) = block.value();
                if matches!(query.from, QueryStart::Time(since) if newest < since) {
                    continue;
                }
                for (at, line) in lines(text).iter().enumerate() {
                    let seq = first.value() + at as u64;
                    let wanted = match query.from {
                        QueryStart::After(after) => seq > after,
                        QueryStart::Time(since) => time_of(line).is_none_or(|time| time >= since),
                        QueryStart::Newest => true,
                    };
                    if wanted && take(seq, line, &mut found.rows).is_none() {
                        break 'forward;
                    }
                }
            }
        }
    }
    found.last = found.last.max(found.rows.last().map_or(0, |row| row.seq));
    Ok(found)
}

/// When a record was made, in milliseconds since 1970: its time stands after its hash.
fn time_of(line: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(line).ok()?;
    let (_, rest) = text.split_once("\"time\":\"")?;
    let time: jiff::Timestamp = rest.split('"').next()?.parse().ok()?;
    u64::try_from(time.as_millisecond()).ok()
}
