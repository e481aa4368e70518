//! Audit records: many to a row, because every call is one of them.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use redb::backends::InMemoryBackend;
use redb::{Database, ReadableDatabase as _, ReadableTable as _, TableDefinition, TableError, WriteTransaction};

use super::changes;
use crate::chain::{ChainLink, ChainPlace, ChainedLog, LogContent, RecordHead, Seal, time_of};
use crate::chain_key::ChainKey;
use crate::checkpoint::Checkpoint;
use crate::slot::DatabaseSlot;
use crate::store::Store;
use crate::tables::changes::{ChangeQuery, ChangeRow, ChangeRows, QueryStart};

/// The number of the first record of a block to the time of its last one in milliseconds, how many there are, and their lines.
pub(crate) const BLOCKS: TableDefinition<'_, u64, (u64, u64, &[u8])> = TableDefinition::new("audit");
/// What its seal is called.
pub(crate) const LOG: &str = "audit";
/// The same as a chain.
pub(crate) const CHAIN: ChainedLog = ChainedLog { name: LOG, is_chained_from_the_first: true, content };
/// Above this the lines of one row are enough. A reader loads whole rows. The last line and the row's own head must fit below 32 KiB: the
/// database rounds the size of a long row up to a power of two.
const BLOCK: usize = 30 << 10;
/// What a process that has no store keeps in memory.
const MEMORY_RECORDS: u64 = 10_000;

/// How much is kept.
#[derive(Clone, Debug)]
pub struct AuditLimits {
    /// Records that are older than this are removed with the next write.
    pub max_age: Duration,
    /// Beyond this many records the oldest go.
    pub max_records: u64,
    /// Beyond this many bytes of records the oldest go.
    pub max_bytes: u64,
    /// How many bytes may wait to be written; an entry counts for more than it holds.
    pub max_waiting: usize,
}

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

impl AuditBatch {
    /// Empties it, and keeps its memory.
    pub(crate) fn clear(&mut self) {
        self.members.clear();
        self.records.clear();
        self.checkpoint = false;
    }
}

impl AuditStorage {
    pub(crate) fn new(store: &Store) -> Result<Self, redb::Error> {
        match store.log_slot() {
            Some(slot) => Ok(Self { slot: Arc::clone(slot), key: store.key(), in_memory: false }),
            None => {
                let database =
                    redb::Builder::new().set_cache_size(1 << 20).create_with_backend(InMemoryBackend::new())?;
                // The path is never used: a database in memory is not opened again.
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

    /// Writes records and takes away what is too old or too much. All of it is on disk when this returns; `lines` has what was written, in order.
    /// Gives the number of the last.
    pub(crate) fn append(
        &self,
        batch: &AuditBatch,
        lines: &mut Vec<u8>,
        limits: &AuditLimits,
        now: u64,
    ) -> Result<u64, redb::Error> {
        let max_records = if self.in_memory { MEMORY_RECORDS.min(limits.max_records) } else { limits.max_records };
        let limits = AuditLimits { max_records, ..limits.clone() };
        self.slot.run(|database| append(database, batch, lines, &limits, now, self.key.as_deref()))
    }

    pub(crate) fn read(&self, query: ChangeQuery) -> Result<ChangeRows, redb::Error> {
        self.slot.run(|database| read(database, query))
    }

    /// Whether checkpoints can be signed.
    pub(crate) fn is_signed(&self) -> bool {
        self.key.is_some()
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
    written: &mut Vec<u8>,
    limits: &AuditLimits,
    now: u64,
    key: Option<&ChainKey>,
) -> Result<u64, redb::Error> {
    let write = database.begin_write()?;
    // Also where this is the second attempt, after the database was opened again.
    written.clear();
    written.reserve(batch.members.len() + batch.records.len() * 32);
    let last = {
        let mut seal = Seal::go_on(&write, &CHAIN, key)?;
        let mut blocks = write.open_table(BLOCKS)?;
        // In the same transaction: a checkpoint names no change that is not on disk.
        let changes = Seal::read_for_write(&write, changes::LOG)?.map_or_else(ChainPlace::start, |seal| seal.to);
        let mut block = OpenBlock { start: 0, count: 0, time: 0, before: seal.to.clone() };
        let mut begin = 0;
        for (end, time) in &batch.records {
            let members = &batch.members[begin..*end];
            begin = *end;
            block.line(written, *time, |line| line.extend_from_slice(members));
            if written.len() - block.start >= BLOCK {
                block = block.keep(&mut blocks, written)?;
            }
        }
        if batch.checkpoint {
            // A link of its own: a checkpoint names the end of the one before it.
            block = block.keep(&mut blocks, written)?;
            let checkpoint = Checkpoint::new(block.before.clone(), changes, now, key);
            block.line(written, now, |line| checkpoint.write(line));
        }
        seal.to = block.keep(&mut blocks, written)?.before;
        seal.count += batch.records.len() as u64 + u64::from(batch.checkpoint);
        seal.bytes += written.len() as u64;
        let expired = now.saturating_sub(u64::try_from(limits.max_age.as_millis()).unwrap_or(u64::MAX));
        let mut compacted = None;
        for block in blocks.range(0..)? {
            let (first, block) = block?;
            let lines = block.value().2;
            // From the oldest on, until all three bounds hold. The time is the record's own: what stands beside it is not signed.
            let expires = time_of(last_line(lines)).is_some_and(|time| time < expired);
            if !expires && seal.count <= limits.max_records && seal.bytes <= limits.max_bytes {
                break;
            }
            compact(&mut seal, first.value(), lines);
            compacted = Some(first.value());
        }
        if let Some(last) = compacted {
            // All at once: taken out one by one, each would have the database write its neighbour anew.
            blocks.retain_in(..=last, |_, _| false)?;
        }
        seal.sign(LOG, key);
        seal.keep(&write, LOG)?;
        seal.to.seq
    };
    write.commit()?;
    Ok(last)
}

/// Takes a block out of what is sealed. It leaves its last hash, which the first record that stays carries.
fn compact(seal: &mut Seal, first: u64, block: &[u8]) {
    let mut is_ours = true;
    for link in ChainLink::of_lines(first, block) {
        let before = (seal.from.seq + 1, Some(seal.from.hash()));
        is_ours &= link.head().is_some_and(|head| (head.seq, head.prev) == before) && link.first == before.0;
        // What stands beyond the end was put there by somebody else, and must not become the beginning.
        if link.last() <= seal.to.seq {
            seal.from = ChainPlace::new(link.last(), link.hash());
        }
        // Rows that somebody put in were never counted.
        seal.count = seal.count.saturating_sub(link.count);
    }
    seal.bytes = seal.bytes.saturating_sub(block.len() as u64);
    if !is_ours {
        seal.compacts_foreign(LOG);
    }
}

/// What there is, to be sealed.
pub(crate) fn content(write: &WriteTransaction) -> Result<LogContent, redb::Error> {
    let mut content = LogContent::default();
    for block in write.open_table(BLOCKS)?.range(0..)? {
        let (first, block) = block?;
        for link in ChainLink::of_lines(first.value(), block.value().2) {
            content.take(&link, link.text.len() as u64 + 1);
        }
    }
    Ok(content)
}

/// The lines of a block.
fn lines_of(block: &[u8]) -> impl Iterator<Item = &[u8]> {
    block.split(|byte| *byte == b'\n').filter(|line| !line.is_empty())
}

/// A row that is being filled, and a link of the chain: the end of what was written so far.
struct OpenBlock {
    start: usize,
    count: u64,
    time: u64,
    /// The end of the link before it.
    before: ChainPlace,
}

impl OpenBlock {
    fn line(&mut self, written: &mut Vec<u8>, time: u64, members: impl FnOnce(&mut Vec<u8>)) {
        let prev = (self.count == 0).then(|| self.before.hash());
        self.count += 1;
        RecordHead::write(written, self.before.seq + self.count, prev);
        written.push(b',');
        members(written);
        written.extend_from_slice(b"}\n");
        // Clocks can be set back, and a reader passes over a row by the newest time in it.
        self.time = self.time.max(time);
    }

    /// Puts it into its row, and begins the next.
    fn keep(
        self,
        blocks: &mut redb::Table<'_, u64, (u64, u64, &'static [u8])>,
        written: &[u8],
    ) -> Result<Self, redb::Error> {
        let lines = &written[self.start..];
        // Nothing was put into it since the last row, as before a checkpoint that comes alone.
        let Some(text) = lines.strip_suffix(b"\n") else { return Ok(self) };
        let link = ChainLink { first: self.before.seq + 1, count: self.count, text };
        blocks.insert(link.first, (self.time, self.count, lines))?;
        Ok(Self { start: written.len(), count: 0, time: 0, before: ChainPlace::new(link.last(), link.hash()) })
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
    let lines = |block: &[u8]| -> Vec<Vec<u8>> { lines_of(block).map(<[u8]>::to_vec).collect() };
    match query.from {
        QueryStart::Newest | QueryStart::Before(_) => {
            let end = if let QueryStart::Before(before) = query.from { before } else { u64::MAX };
            'blocks: for block in blocks.range(..end)?.rev() {
                let (first, block) = block?;
                for (at, line) in lines(block.value().2).iter().enumerate().rev() {
                    // The block that the number stands in began before it.
                    if first.value() + at as u64 >= end {
                        continue;
                    }
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
                        QueryStart::Newest | QueryStart::Before(_) => true,
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
