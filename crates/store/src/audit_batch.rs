//! Audit records that are written in one transaction.

use std::collections::HashMap;

/// Records to write, in order.
#[derive(Debug, Default)]
pub(crate) struct AuditBatch {
    /// What each says, one after the other.
    bytes: Vec<u8>,
    records: Vec<BatchEntry>,
    /// What calls are about, by their numbers: members that many records share, as they stand in JSON.
    subjects: Vec<Box<[u8]>>,
    numbers: HashMap<Box<[u8]>, u32>,
    subject_bytes: usize,
    /// Whether a checkpoint comes last.
    pub(crate) checkpoint: bool,
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
    pub(crate) fn push_text(&mut self, time: u64, members: &[u8]) {
        self.push(time, None, members);
    }

    /// Adds a record; `subject` is what [`Self::number`] gave.
    pub(crate) fn push(&mut self, time: u64, subject: Option<u32>, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        self.records.push(BatchEntry { end: self.bytes.len(), time, subject });
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
        self.subject_bytes += subject.len();
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

    /// How many bytes its records have.
    pub(crate) fn weight(&self) -> usize {
        self.bytes.len() + self.subject_bytes
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
        self.subject_bytes = 0;
        self.checkpoint = false;
    }
}
