//! The records of the clients that follow, by number. A map would keep a place as large as a record for every client that could come;
//! here what is kept for those that could come is an index of 5 bytes, and records lie in chunks without gaps.

use std::hash::{BuildHasher, RandomState};

use hashbrown::HashTable;

use super::CompactRecord;
use crate::ledger::FollowerId;

/// How many records a chunk has: at most so many places are empty.
const CHUNK: usize = 256;

/// Numbers and records apart: side by side they would be padded.
#[derive(Debug)]
struct RecordChunk {
    ids: Vec<FollowerId>,
    records: Vec<CompactRecord>,
}

/// The records.
#[derive(Debug, Default)]
pub(super) struct RecordTable {
    /// The places of records.
    index: HashTable<u32>,
    /// All but the last are full.
    chunks: Vec<RecordChunk>,
    hasher: RandomState,
}

impl RecordTable {
    pub(super) fn len(&self) -> usize {
        self.index.len()
    }

    pub(super) fn get(&self, id: FollowerId) -> Option<&CompactRecord> {
        let place = self.place(id)?;
        Some(&self.chunks[place / CHUNK].records[place % CHUNK])
    }

    pub(super) fn get_mut(&mut self, id: FollowerId) -> Option<&mut CompactRecord> {
        let place = self.place(id)?;
        Some(&mut self.chunks[place / CHUNK].records[place % CHUNK])
    }

    /// Puts a record into the place of the one that was there, or at the end.
    pub(super) fn insert(&mut self, id: FollowerId, record: CompactRecord) {
        if let Some(known) = self.get_mut(id) {
            *known = record;
            return;
        }
        // So many clients do not fit into any memory.
        let Ok(place) = u32::try_from(self.len()) else { return };
        if self.chunks.last().is_none_or(|chunk| chunk.ids.len() == CHUNK) {
            self.chunks.push(RecordChunk { ids: Vec::with_capacity(CHUNK), records: Vec::with_capacity(CHUNK) });
        }
        if let Some(last) = self.chunks.last_mut() {
            last.ids.push(id);
            last.records.push(record);
        }
        let (chunks, hasher) = (&self.chunks, &self.hasher);
        self.index.insert_unique(hasher.hash_one(id), place, |place| hasher.hash_one(id_at(chunks, *place)));
    }

    /// Takes a record out; the last one comes into its place.
    pub(super) fn remove(&mut self, id: FollowerId) -> Option<CompactRecord> {
        let (chunks, hasher) = (&self.chunks, &self.hasher);
        let found = self.index.find_entry(hasher.hash_one(id), |place| id_at(chunks, *place) == id).ok()?;
        let (place, _) = found.remove();
        let last = self.chunks.last_mut()?;
        let (last_id, last_record) = (last.ids.pop()?, last.records.pop()?);
        if last.ids.is_empty() {
            self.chunks.pop();
        }
        if last_id == id {
            return Some(last_record);
        }
        // After its removal as many are left as the place of the last one says.
        let was = u32::try_from(self.index.len()).unwrap_or(u32::MAX);
        if let Some(moved) = self.index.find_mut(self.hasher.hash_one(last_id), |known| *known == was) {
            *moved = place;
        }
        let chunk = &mut self.chunks[place as usize / CHUNK];
        chunk.ids[place as usize % CHUNK] = last_id;
        Some(std::mem::replace(&mut chunk.records[place as usize % CHUNK], last_record))
    }

    fn place(&self, id: FollowerId) -> Option<usize> {
        let found = self.index.find(self.hasher.hash_one(id), |place| id_at(&self.chunks, *place) == id);
        found.map(|place| *place as usize)
    }
}

fn id_at(chunks: &[RecordChunk], place: u32) -> FollowerId {
    chunks[place as usize / CHUNK].ids[place as usize % CHUNK]
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    fn record(notices: u32) -> CompactRecord {
        CompactRecord { notices, ..CompactRecord::default() }
    }

    proptest! {
        #[test]
        fn it_holds_what_a_map_holds(steps in prop::collection::vec((0_u8..3, 0_u64..400, any::<u32>()), 0..1_000)) {
            let (mut table, mut map) = (RecordTable::default(), HashMap::new());
            for (what, id, notices) in steps {
                match what {
                    0 => {
                        let removed = table.remove(FollowerId(id)).map(|record| record.notices);
                        prop_assert_eq!(removed, map.remove(&id));
                    }
                    _ => {
                        table.insert(FollowerId(id), record(notices));
                        map.insert(id, notices);
                    }
                }
                prop_assert_eq!(table.len(), map.len());
            }
            for id in 0..400 {
                prop_assert_eq!(table.get(FollowerId(id)).map(|record| record.notices), map.get(&id).copied());
            }
            prop_assert!(table.chunks.len() * CHUNK < map.len() + CHUNK);
        }
    }
}
