//! The compact form in which audit records of calls are kept: one row of many of them, which is one link of the chain.
//!
//! A row begins with a byte that no text does, the hash of the link before it, the number of its first record, how many there are, and the time
//! of the last. Each record has its time as the difference to the one before it, what it is about (a *subject*: members that calls of the same client to
//! the same tool share, written once in a row and named by a number after that) and [how it went](crate::call_course). Records that are no calls stand in
//! it as the text that they are. All of that is hashed, and whoever reads gets the JSON that every record is for readers, members in the same order.

use crate::audit_batch::{AuditBatch, BatchRecord};
use crate::audit_clock::TimeText;
use crate::call_course::{CallCourse, folded, read_bytes, read_number, unfolded, write_bytes, write_number};
use crate::chain::{RecordHash, RecordHead};

/// What a row in this form begins with. Text begins with a brace.
const FORM: u8 = 1;
/// The length of what stands before the records.
const HEAD: usize = 1 + 32 + 8 + 4 + 8;
/// What stands for the subject of a record that is a text, and of one whose subject comes with it; the first subject of a row has the number after.
const TEXT: u64 = 0;
const NEW_SUBJECT: u64 = 1;
const SUBJECTS: u64 = 2;
/// A subject that no record of this row was about yet.
const UNNAMED: u64 = 0;

/// What stands at the beginning of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CompactHead {
    pub(crate) prev: RecordHash,
    pub(crate) first: u64,
    pub(crate) count: u32,
    /// The time of the last record, in milliseconds since 1970.
    pub(crate) last_time: u64,
}

impl CompactHead {
    /// What a row says of itself; `None` if it is in no compact form.
    pub(crate) fn read(row: &[u8]) -> Option<Self> {
        let mut rest = row.strip_prefix(&[FORM])?;
        let prev = RecordHash(take(&mut rest)?);
        let first = u64::from_le_bytes(take(&mut rest)?);
        let count = u32::from_le_bytes(take(&mut rest)?);
        let last_time = u64::from_le_bytes(take(&mut rest)?);
        Some(Self { prev, first, count, last_time })
    }

    fn write(&self, row: &mut [u8]) {
        let members =
            [&self.prev.0[..], &self.first.to_le_bytes(), &self.count.to_le_bytes(), &self.last_time.to_le_bytes()];
        let mut rest = row;
        for member in [&[FORM][..]].into_iter().chain(members) {
            let Some((place, behind)) = rest.split_at_mut_checked(member.len()) else { return };
            place.copy_from_slice(member);
            rest = behind;
        }
    }
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (bytes, behind) = rest.split_first_chunk()?;
    *rest = behind;
    Some(*bytes)
}

/// Whether a row is in this form, or was before somebody altered it.
pub(crate) fn is_compact(row: &[u8]) -> bool {
    row.first() == Some(&FORM)
}

/// A row that is being written, at the end of what was written before it.
pub(crate) struct CompactBlock {
    start: usize,
    head: CompactHead,
    /// The newest of its times: clocks can be set back.
    newest: u64,
    /// By the number of a subject in the batch: what stands for it in this row.
    named: Vec<u64>,
    next_name: u64,
}

impl CompactBlock {
    pub(crate) fn begin(out: &mut Vec<u8>, prev: RecordHash, first: u64) -> Self {
        let start = out.len();
        out.resize(start + HEAD, 0);
        let head = CompactHead { prev, first, count: 0, last_time: 0 };
        Self { start, head, newest: 0, named: Vec::new(), next_name: SUBJECTS }
    }

    /// Adds a record.
    pub(crate) fn take(&mut self, out: &mut Vec<u8>, batch: &AuditBatch, record: &BatchRecord<'_>) {
        let passed = record.time.wrapping_sub(self.head.last_time).cast_signed();
        write_number(out, folded(passed));
        match record.subject {
            None => {
                write_number(out, TEXT);
                write_bytes(out, record.bytes);
            }
            Some(subject) => {
                if self.named.len() <= subject {
                    self.named.resize(subject + 1, UNNAMED);
                }
                let name = &mut self.named[subject];
                if *name == UNNAMED {
                    *name = self.next_name;
                    self.next_name += 1;
                    write_number(out, NEW_SUBJECT);
                    write_bytes(out, batch.subject(subject));
                } else {
                    write_number(out, *name);
                }
                out.extend_from_slice(record.bytes);
            }
        }
        self.head.count += 1;
        self.head.last_time = record.time;
        self.newest = self.newest.max(record.time);
    }

    pub(crate) fn count(&self) -> u32 {
        self.head.count
    }

    /// How long it is by now.
    pub(crate) fn length(&self, out: &[u8]) -> usize {
        out.len() - self.start
    }

    /// Completes it; gives the row, and the newest of its times.
    pub(crate) fn finish<'a>(&self, out: &'a mut [u8]) -> (&'a [u8], u64) {
        let row = &mut out[self.start..];
        self.head.write(row);
        (row, self.newest)
    }
}

/// A record as it stands in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AuditRowRecord<'a> {
    pub(crate) seq: u64,
    pub(crate) time: u64,
    content: RecordContent<'a>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RecordContent<'a> {
    Text(&'a [u8]),
    Call { subject: &'a [u8], course: CallCourse<'a> },
}

/// The records of a row whose first has this number. What can not be read ends them: then somebody altered the row, and its hash tells.
pub(crate) fn records(first: u64, row: &[u8]) -> impl Iterator<Item = AuditRowRecord<'_>> {
    let mut rest = row.get(HEAD..).unwrap_or_default();
    let (mut seq, mut time, mut subjects) = (first, 0_u64, Vec::new());
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        time = time.wrapping_add_signed(unfolded(read_number(&mut rest)?));
        let content = match read_number(&mut rest)? {
            TEXT => RecordContent::Text(read_bytes(&mut rest)?),
            name => {
                if name == NEW_SUBJECT {
                    subjects.push(read_bytes(&mut rest)?);
                }
                let at =
                    if name == NEW_SUBJECT { subjects.len() - 1 } else { usize::try_from(name - SUBJECTS).ok()? };
                RecordContent::Call { subject: subjects.get(at)?, course: CallCourse::read(&mut rest)? }
            }
        };
        let record = AuditRowRecord { seq, time, content };
        seq = seq.checked_add(1)?;
        Some(record)
    })
}

impl AuditRowRecord<'_> {
    /// Appends it as JSON, without a newline. `prev` is for the first of its row.
    pub(crate) fn write_line(&self, prev: Option<RecordHash>, times: &mut TimeText, out: &mut Vec<u8>) {
        RecordHead::write(out, self.seq, prev);
        out.push(b',');
        write_members(self.time, self.content, times, out);
        out.push(b'}');
    }
}

/// Appends the members of a record of a batch, as JSON has them after number and hash.
pub(crate) fn write_batch_members(
    batch: &AuditBatch,
    record: &BatchRecord<'_>,
    times: &mut TimeText,
    out: &mut Vec<u8>,
) {
    let content = match record.subject {
        None => RecordContent::Text(record.bytes),
        Some(subject) => match CallCourse::read(&mut &*record.bytes) {
            Some(course) => RecordContent::Call { subject: batch.subject(subject), course },
            // It was written by the same program.
            None => RecordContent::Text(b"\"kind\":\"call\""),
        },
    };
    write_members(record.time, content, times, out);
}

fn write_members(time: u64, content: RecordContent<'_>, times: &mut TimeText, out: &mut Vec<u8>) {
    times.write(time, out);
    out.push(b',');
    match content {
        RecordContent::Text(members) => out.extend_from_slice(members),
        RecordContent::Call { subject, course } => {
            out.extend_from_slice(subject);
            course.write_members(out);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::call_course::CallEnding;

    /// Times, what each is about (none for a text), and a number that makes it different from the others.
    type Drawn = Vec<(u64, Option<u8>, u64)>;

    fn batch_of(drawn: &Drawn) -> AuditBatch {
        let mut batch = AuditBatch::default();
        for (time, subject, number) in drawn {
            let hash = [*number as u8; 32];
            let course = CallCourse {
                arguments: Some((&hash, *number)),
                more: b"",
                ending: CallEnding::Answered(*number),
                micros: *number,
            };
            let mut bytes = Vec::new();
            match subject {
                Some(subject) => {
                    course.write(&mut bytes);
                    let subject = batch.number(format!("\"kind\":\"call\",\"name\":\"{subject}\"").as_bytes());
                    batch.push(*time, Some(subject), &bytes);
                }
                None => batch.push_text(*time, format!("\"kind\":\"gap\",\"lost\":{number}").as_bytes()),
            }
        }
        batch
    }

    proptest! {
        #[test]
        fn what_is_read_of_a_row_is_what_its_lines_would_say(
            // Clocks go back, too.
            drawn in proptest::collection::vec((0..1_u64 << 42, proptest::option::of(0..5_u8), any::<u64>()), 1..60),
            before in any::<[u8; 32]>(),
            first in 1..1_u64 << 50,
        ) {
            let batch = batch_of(&drawn);
            // Behind another row, as all but the first are.
            let mut out = b"before".to_vec();
            let mut block = CompactBlock::begin(&mut out, RecordHash(before), first);
            batch.records().for_each(|record| block.take(&mut out, &batch, &record));
            let (row, newest) = block.finish(&mut out);
            prop_assert!(is_compact(row));
            prop_assert_eq!(Some(newest), drawn.iter().map(|(time, ..)| *time).max());
            let last_time = drawn.last().map_or(0, |(time, ..)| *time);
            let head = CompactHead { prev: RecordHash(before), first, count: drawn.len() as u32, last_time };
            prop_assert_eq!(CompactHead::read(row), Some(head));
            let mut times = TimeText::new();
            let mut said = Vec::new();
            records(first, row).for_each(|record| {
                let prev = (record.seq == first).then_some(head.prev);
                record.write_line(prev, &mut times, &mut said);
                said.push(b'\n');
            });
            let mut lines = Vec::new();
            for (seq, record) in (first..).zip(batch.records()) {
                RecordHead::write(&mut lines, seq, (seq == first).then_some(head.prev));
                lines.push(b',');
                write_batch_members(&batch, &record, &mut times, &mut lines);
                lines.extend_from_slice(b"}\n");
            }
            prop_assert_eq!(String::from_utf8_lossy(&said), String::from_utf8_lossy(&lines));
        }

        #[test]
        fn whatever_a_row_holds_reading_it_ends(mut row in proptest::collection::vec(any::<u8>(), 0..300), first in any::<u64>()) {
            if let Some(form) = row.first_mut() {
                *form = FORM;
            }
            let mut out = Vec::new();
            records(first, &row).for_each(|record| record.write_line(None, &mut TimeText::new(), &mut out));
        }
    }
}
