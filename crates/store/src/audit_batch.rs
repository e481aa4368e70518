//! Audit records that are written in one transaction.

use std::collections::HashMap;

use crate::tables::audit::{BLOCK, BLOCK_RECORDS};

/// What a record takes in its row besides what it says: its number or name, its time, its length.
const ENTRY: usize = 16;
/// The same for a line, and for the line of a call, which is longer than its kept form: names of members, and a hash in digits.
const LINE: usize = 64;
const CALL_LINE: usize = 256;

/// Records to write, in order.
#[derive(Debug, Default)]
pub(crate) struct AuditBatch {
    /// Whether lines are written of them, as sinks want it.
    as_lines: bool,
    /// About as many bytes as are written of them.
    weight: usize,
    row: RowWeight,
    /// What each says, one after the other.
    bytes: Vec<u8>,
    records: Vec<BatchEntry>,
    /// What calls are about, by their numbers: members that many records share, as they stand in JSON.
    subjects: Vec<Box<[u8]>>,
    numbers: HashMap<Box<[u8]>, u32>,
    /// The row in which each was weighed last: it is written once in each that has a record about it.
    weighed_in: Vec<Option<usize>>,
    /// Whether a checkpoint comes last.
    pub(crate) checkpoint: bool,
}

/// The row that the next record comes into, as far as that can be told before it is written.
#[derive(Debug, Default)]
struct RowWeight {
    number: usize,
    bytes: usize,
    records: u64,
}

#[derive(Clone, Copy, Debug)]
struct BatchEntry {
    /// Where it ends in `bytes`.
    end: usize,
    time: u64,
    subject: Option<u32>,
}

/// One of them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BatchRecord<'a> {
    /// In milliseconds since 1970.
    pub(crate) time: u64,
    /// What a call is about; `None` for a record that is a text.
    pub(crate) subject: Option<usize>,
    /// How a call went in its kept form, or the members of the text.
    pub(crate) bytes: &'a [u8],
}

impl AuditBatch {
    pub(crate) fn new(as_lines: bool) -> Self {
        Self { as_lines, ..Self::default() }
    }

    pub(crate) fn push_text(&mut self, time: u64, members: &[u8]) {
        self.push(time, None, members);
    }

    /// Adds a record; `subject` is what [`Self::number`] gave.
    pub(crate) fn push(&mut self, time: u64, subject: Option<u32>, bytes: &[u8]) {
        self.weigh(subject.map(|subject| subject as usize), bytes.len());
        self.bytes.extend_from_slice(bytes);
        self.records.push(BatchEntry { end: self.bytes.len(), time, subject });
    }

    fn weigh(&mut self, subject: Option<usize>, length: usize) {
        let more = match subject {
            None if self.as_lines => LINE,
            None => ENTRY,
            Some(subject) if self.as_lines => CALL_LINE + self.subject(subject).len(),
            Some(subject) => {
                let before = self.weighed_in.get_mut(subject).and_then(|row| row.replace(self.row.number));
                if before == Some(self.row.number) { ENTRY } else { ENTRY + self.subject(subject).len() }
            }
        };
        self.weight += length + more;
        self.row.bytes += length + more;
        self.row.records += 1;
        if self.row.bytes >= BLOCK || self.row.records >= BLOCK_RECORDS {
            self.row = RowWeight { number: self.row.number + 1, ..RowWeight::default() };
        }
    }

    /// The number of a subject in this batch.
    pub(crate) fn number(&mut self, subject: &[u8]) -> u32 {
        if let Some(number) = self.numbers.get(subject) {
            return *number;
        }
        // A batch is bounded by its bytes, and so by less than 2^32 subjects.
        let number = u32::try_from(self.subjects.len()).unwrap_or(u32::MAX);
        self.subjects.push(subject.into());
        self.numbers.insert(subject.into(), number);
        self.weighed_in.push(None);
        number
    }

    pub(crate) fn subject(&self, number: usize) -> &[u8] {
        self.subjects.get(number).map(AsRef::as_ref).unwrap_or_default()
    }

    /// Whether one of them is a call in the compact form.
    pub(crate) fn has_calls(&self) -> bool {
        !self.subjects.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.records.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// About how many bytes are written of its records.
    pub(crate) fn weight(&self) -> usize {
        self.weight
    }

    pub(crate) fn records(&self) -> impl Iterator<Item = BatchRecord<'_>> {
        let mut begin = 0;
        self.records.iter().map(move |entry| {
            let bytes = &self.bytes[begin..entry.end];
            begin = entry.end;
            BatchRecord { time: entry.time, subject: entry.subject.map(|subject| subject as usize), bytes }
        })
    }

    /// Empties it, and keeps its memory.
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.records.clear();
        self.subjects.clear();
        self.numbers.clear();
        self.weighed_in.clear();
        (self.weight, self.row) = (0, RowWeight::default());
        self.checkpoint = false;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::call_course::{CallCourse, CallEnding};
    use crate::store::Store;
    use crate::tables::audit::{AuditLimits, AuditStorage};

    /// A batch of so many bytes, whose calls are about these subjects in turn, and the bytes that are written of it.
    fn weighed_and_written(subjects: &[Vec<u8>], as_lines: bool) -> (usize, usize) {
        let mut batch = AuditBatch::new(as_lines);
        let mut bytes = Vec::new();
        let course =
            CallCourse { arguments: Some((&[7; 32], 100)), more: b"", ending: CallEnding::Answered(900), micros: 80 };
        course.write(&mut bytes);
        for subject in subjects.iter().cycle() {
            let number = batch.number(subject);
            batch.push(1_700_000_000_000, Some(number), &bytes);
            if batch.weight() >= 1 << 20 {
                break;
            }
        }
        let limits =
            AuditLimits { max_age: Duration::MAX, max_records: u64::MAX, max_bytes: u64::MAX, max_waiting: usize::MAX };
        let mut written = Vec::new();
        let storage = AuditStorage::new(&Store::in_memory()).expect("a storage");
        storage.append(&batch, &mut written, as_lines, &limits, 1_700_000_000_000).expect("a write");
        (batch.weight(), written.len())
    }

    // trust (records): neither memory nor a transaction grows with what callers choose
    #[test]
    fn a_batch_weighs_what_is_written_of_it_however_long_and_many_its_subjects_are() {
        for (count, length) in [(1, 150), (3, 150), (40, 2_000), (500, 120), (5_000, 30)] {
            let subjects: Vec<Vec<u8>> =
                (0..count).map(|n| format!("\"n\":\"{n}{}\"", "x".repeat(length)).into_bytes()).collect();
            for as_lines in [false, true] {
                let (weighed, written) = weighed_and_written(&subjects, as_lines);
                assert!(written <= weighed, "{count} of {length}, lines {as_lines}: {written} of {weighed}");
                assert!(written * 2 >= weighed, "{count} of {length}, lines {as_lines}: {written} of {weighed}");
            }
        }
    }
}
