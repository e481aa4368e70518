//! Audit records: many to a row, because every call is one of them.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use redb::backends::InMemoryBackend;
use redb::{Database, ReadableDatabase as _, ReadableTable as _, TableDefinition, TableError, WriteTransaction};

use super::changes;
use crate::audit_batch::AuditBatch;
use crate::audit_clock::TimeText;
use crate::chain::{ChainLink, ChainPlace, ChainedLog, LogContent, RecordHash, RecordHead, Seal, time_of};
use crate::chain_key::ChainKey;
use crate::checkpoint::Checkpoint;
use crate::compact_block::{self, CompactBlock, CompactHead, is_compact, write_batch_members};
use crate::slot::DatabaseSlot;
use crate::store::Store;
use crate::tables::changes::{ChangeQuery, ChangeRow, ChangeRows, QueryStart};

/// The number of the first record of a block to the newest time in it in milliseconds, how many there are, and they: lines, or the compact form.
pub(crate) const BLOCKS: TableDefinition<'_, u64, (u64, u64, &[u8])> = TableDefinition::new("audit");
/// What its seal is called.
pub(crate) const LOG: &str = "audit";
/// The same as a chain.
pub(crate) const CHAIN: ChainedLog = ChainedLog { name: LOG, is_chained_from_the_first: true, content };
/// Above this the records of one row are enough. A reader loads whole rows. The last record and the row's own head must fit below 32 KiB: the
/// database rounds the size of a long row up to a power of two.
pub(crate) const BLOCK: usize = 30 << 10;
/// So many are enough, too, however short they are: `verify` can say of altered records only which row they stand in. And no row is more than this
/// part of what is kept, since whole rows are removed.
pub(crate) const BLOCK_RECORDS: u64 = 1_000;
const BLOCK_PART: u64 = 8;
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

/// What a write left.
#[derive(Debug)]
pub(crate) struct Appended {
    /// The number of the last record.
    pub(crate) last: u64,
    /// The checkpoint that was asked for.
    pub(crate) checkpoint: Option<Checkpoint>,
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
            let block = block.value().2;
            // A checkpoint is never in the compact form.
            let checkpoint = (!is_compact(block)).then(|| Checkpoint::read(last_line(block))).flatten();
            Ok(checkpoint.map(|checkpoint| checkpoint.changes.seq) != Some(changes))
        })
    }

    /// Writes records and takes away what is too old or too much. All of it is on disk when this returns. `written` has what was written, one after
    /// the other: lines, if those are wanted.
    pub(crate) fn append(
        &self,
        batch: &AuditBatch,
        written: &mut Vec<u8>,
        as_lines: bool,
        limits: &AuditLimits,
        now: u64,
    ) -> Result<Appended, redb::Error> {
        let max_records = if self.in_memory { MEMORY_RECORDS.min(limits.max_records) } else { limits.max_records };
        let limits = AuditLimits { max_records, ..limits.clone() };
        // Where nothing can be shared, nothing is won.
        let as_lines = as_lines || !batch.has_calls();
        self.slot.run(|database| append(database, batch, (written, as_lines), &limits, now, self.key.as_deref()))
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
    (written, as_lines): (&mut Vec<u8>, bool),
    limits: &AuditLimits,
    now: u64,
    key: Option<&ChainKey>,
) -> Result<Appended, redb::Error> {
    let write = database.begin_write()?;
    // Also where this is the second attempt, after the database was opened again.
    written.clear();
    let appended = {
        let mut seal = Seal::go_on(&write, &CHAIN, key)?;
        let mut blocks = write.open_table(BLOCKS)?;
        // In the same transaction: a checkpoint names no change that is not on disk.
        let changes = Seal::read_for_write(&write, changes::LOG)?.map_or_else(ChainPlace::start, |seal| seal.to);
        let most = (limits.max_records / BLOCK_PART).clamp(1, BLOCK_RECORDS);
        seal.to = match as_lines {
            true => append_lines(batch, written, seal.to, most, &mut blocks)?,
            false => append_compact(batch, written, seal.to, most, &mut blocks)?,
        };
        let checkpoint = match batch.checkpoint {
            true => {
                // A link of its own: a checkpoint names the end of the one before it.
                let checkpoint = Checkpoint::new(seal.to.clone(), changes, now, key);
                let mut block = LineBlock::begin(written, seal.to);
                block.line(written, now, |line| checkpoint.write(line));
                seal.to = block.keep(&mut blocks, written)?;
                Some(checkpoint)
            }
            false => None,
        };
        seal.count += batch.len() as u64 + u64::from(batch.checkpoint);
        seal.bytes += written.len() as u64;
        let expired = now.saturating_sub(u64::try_from(limits.max_age.as_millis()).unwrap_or(u64::MAX));
        let mut compacted = None;
        for block in blocks.range(0..)? {
            let (first, block) = block?;
            let block = block.value().2;
            // From the oldest on, until all three bounds hold. The time is the record's own: what stands beside it is not signed.
            let expires = last_time(block).is_some_and(|time| time < expired);
            if !expires && seal.count <= limits.max_records && seal.bytes <= limits.max_bytes {
                break;
            }
            compact(&mut seal, first.value(), block);
            compacted = Some(first.value());
        }
        if let Some(last) = compacted {
            // All at once: taken out one by one, each would have the database write its neighbour anew.
            blocks.retain_in(..=last, |_, _| false)?;
        }
        seal.sign(LOG, key);
        seal.keep(&write, LOG)?;
        Appended { last: seal.to.seq, checkpoint }
    };
    write.commit()?;
    Ok(appended)
}

type BlockTable<'a> = redb::Table<'a, u64, (u64, u64, &'static [u8])>;

/// Writes records as the lines that readers see. Gives the end of the last link.
fn append_lines(
    batch: &AuditBatch,
    written: &mut Vec<u8>,
    mut to: ChainPlace,
    most: u64,
    blocks: &mut BlockTable<'_>,
) -> Result<ChainPlace, redb::Error> {
    let mut times = TimeText::new();
    let mut records = batch.records().peekable();
    while records.peek().is_some() {
        let mut block = LineBlock::begin(written, to);
        for record in records.by_ref() {
            block.line(written, record.time, |line| write_batch_members(batch, &record, &mut times, line));
            if written.len() - block.start >= BLOCK || block.count >= most {
                break;
            }
        }
        to = block.keep(blocks, written)?;
    }
    Ok(to)
}

/// Writes records in the compact form. Gives the end of the last link.
fn append_compact(
    batch: &AuditBatch,
    written: &mut Vec<u8>,
    mut to: ChainPlace,
    most: u64,
    blocks: &mut BlockTable<'_>,
) -> Result<ChainPlace, redb::Error> {
    let mut records = batch.records().peekable();
    while records.peek().is_some() {
        let first = to.seq + 1;
        let mut block = CompactBlock::begin(written, to.hash(), first);
        for record in records.by_ref() {
            block.take(written, batch, &record);
            if block.length(written) >= BLOCK || u64::from(block.count()) >= most {
                break;
            }
        }
        let count = u64::from(block.count());
        let (row, newest) = block.finish(written);
        blocks.insert(first, (newest, count, row))?;
        to = ChainPlace::new(to.seq + count, RecordHash::of(row));
    }
    Ok(to)
}

/// Takes a block out of what is sealed. It leaves its last hash, which the first record that stays carries.
fn compact(seal: &mut Seal, first: u64, block: &[u8]) {
    let mut is_ours = true;
    for link in ChainLink::of_row(first, block) {
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
        for link in ChainLink::of_row(first.value(), block.value().2) {
            content.take(&link, link.size());
        }
    }
    Ok(content)
}

/// A row of lines that is being filled, and a link of the chain: the end of what was written so far.
struct LineBlock {
    start: usize,
    count: u64,
    /// The newest of its times: clocks can be set back, and a reader passes over a row by that.
    time: u64,
    /// The end of the link before it.
    before: ChainPlace,
}

impl LineBlock {
    fn begin(written: &[u8], before: ChainPlace) -> Self {
        Self { start: written.len(), count: 0, time: 0, before }
    }

    fn line(&mut self, written: &mut Vec<u8>, time: u64, members: impl FnOnce(&mut Vec<u8>)) {
        let prev = (self.count == 0).then(|| self.before.hash());
        self.count += 1;
        RecordHead::write(written, self.before.seq + self.count, prev);
        written.push(b',');
        members(written);
        written.extend_from_slice(b"}\n");
        self.time = self.time.max(time);
    }

    /// Puts it into its row, and gives its end.
    fn keep(self, blocks: &mut BlockTable<'_>, written: &[u8]) -> Result<ChainPlace, redb::Error> {
        let lines = &written[self.start..];
        let text = lines.strip_suffix(b"\n").unwrap_or(lines);
        let link = ChainLink { first: self.before.seq + 1, count: self.count, text };
        blocks.insert(link.first, (self.time, self.count, lines))?;
        Ok(ChainPlace::new(link.last(), link.hash()))
    }
}

/// The last line of a block, without its end.
fn last_line(lines: &[u8]) -> &[u8] {
    lines.strip_suffix(b"\n").unwrap_or(lines).rsplit(|byte| *byte == b'\n').next().unwrap_or_default()
}

/// When the last record of a block was made, as the record itself says it.
fn last_time(block: &[u8]) -> Option<u64> {
    match CompactHead::read(block) {
        Some(head) => Some(head.last_time),
        None => time_of(last_line(block)),
    }
}

/// What is wrong with a row, whatever its hash says: readers find their way by what stands beside the records.
pub(crate) fn row_fault(newest: u64, count: u64, block: &[u8], links: &[ChainLink<'_>]) -> Option<&'static str> {
    if links.is_empty() {
        return Some("has nothing that can be read");
    }
    let is_count = links.iter().map(|link| link.count).fold(0, u64::saturating_add) == count;
    let is_time = last_time(block).is_none_or(|last| newest >= last);
    (!is_count || !is_time).then_some("is not described as it is: its number of records, or its time, was altered")
}

/// A record of a block, which is turned into a line once it is wanted.
enum BlockRecord<'a> {
    Line(u64, &'a [u8]),
    /// With the hash before it, if it is the first.
    Compact(compact_block::AuditRowRecord<'a>, Option<RecordHash>),
}

/// The records of a block, in order.
fn records_of(first: u64, block: &[u8]) -> impl Iterator<Item = BlockRecord<'_>> {
    let lines = if is_compact(block) { &[] } else { block };
    let lines = lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    // Numbers that somebody made up may be any.
    let lines = (first..=u64::MAX).zip(lines).map(|(seq, line)| BlockRecord::Line(seq, line));
    let mut prev = CompactHead::read(block).map(|head| head.prev);
    let compact = if is_compact(block) { block } else { &[] };
    let compact = compact_block::records(first, compact).map(move |record| BlockRecord::Compact(record, prev.take()));
    lines.chain(compact)
}

impl BlockRecord<'_> {
    fn seq(&self) -> u64 {
        match self {
            Self::Line(seq, _) => *seq,
            Self::Compact(record, _) => record.seq,
        }
    }

    fn time(&self) -> Option<u64> {
        match self {
            Self::Line(_, line) => time_of(line),
            Self::Compact(record, _) => Some(record.time),
        }
    }

    fn json(&self, times: &mut TimeText) -> Bytes {
        match self {
            Self::Line(_, line) => Bytes::copy_from_slice(line),
            Self::Compact(record, prev) => {
                let mut line = Vec::new();
                record.write_line(*prev, times, &mut line);
                line.into()
            }
        }
    }
}

fn read(database: &Database, query: ChangeQuery) -> Result<ChangeRows, redb::Error> {
    let read = database.begin_read()?;
    let mut found = ChangeRows { rows: Vec::new(), last: Seal::read(&read, LOG)?.map_or(0, |seal| seal.to.seq) };
    let blocks = match read.open_table(BLOCKS) {
        Ok(blocks) => blocks,
        Err(TableError::TableDoesNotExist(_)) => return Ok(found),
        Err(error) => return Err(error.into()),
    };
    let (mut bytes, mut times) = (0, TimeText::new());
    // `None` when there is no room for more.
    let mut take = |record: &BlockRecord<'_>, rows: &mut Vec<ChangeRow>| {
        if rows.len() >= query.limit {
            return None;
        }
        let json = record.json(&mut times);
        bytes += json.len();
        if bytes > query.max_bytes && !rows.is_empty() {
            return None;
        }
        rows.push(ChangeRow { seq: record.seq(), time: 0, json });
        Some(())
    };
    match query.from {
        QueryStart::Newest | QueryStart::Before(_) => {
            let end = if let QueryStart::Before(before) = query.from { before } else { u64::MAX };
            'blocks: for block in blocks.range(..end)?.rev() {
                let (first, block) = block?;
                // The block that the number stands in began before it.
                let records = records_of(first.value(), block.value().2).take_while(|record| record.seq() < end);
                for record in records.collect::<Vec<_>>().iter().rev() {
                    if take(record, &mut found.rows).is_none() {
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
                let (newest, _, block) = block.value();
                if matches!(query.from, QueryStart::Time(since) if newest < since) {
                    continue;
                }
                for record in records_of(first.value(), block) {
                    let wanted = match query.from {
                        QueryStart::After(after) => record.seq() > after,
                        QueryStart::Time(since) => record.time().is_none_or(|time| time >= since),
                        QueryStart::Newest | QueryStart::Before(_) => true,
                    };
                    if wanted && take(&record, &mut found.rows).is_none() {
                        break 'forward;
                    }
                }
            }
        }
    }
    found.last = found.last.max(found.rows.last().map_or(0, |row| row.seq));
    Ok(found)
}
