//! What calls are about: who called which tool of which server, with which client. Most calls are about what another one was about a moment ago, so that is
//! written out once, and found again by what it is made of.

/// How many are remembered by each lane. Where there are more at a time, some are written out again.
const SLOTS: usize = 64;
/// What is longer than this, before or after it is written out, is not remembered: clients choose most of it.
const LONGEST_PARTS: usize = 512;
const LONGEST_TEXT: usize = 2 << 10;
/// How many parts there are.
pub const SUBJECT_PARTS: usize = 6;

/// What a subject is made of.
pub type SubjectParts<'a> = [&'a [u8]; SUBJECT_PARTS];

/// The subjects of one lane.
#[derive(Debug, Default)]
pub(crate) struct CallSubjects {
    slots: Vec<SubjectSlot>,
}

#[derive(Clone, Debug, Default)]
struct SubjectSlot {
    /// Its parts, one after the other, and where each ends.
    parts: Vec<u8>,
    ends: [usize; SUBJECT_PARTS],
    /// The members that it is in a record.
    text: Vec<u8>,
    /// The sheet that it was put into last, by its generation, and its number there.
    placed: Option<(u64, u32)>,
}

/// Where subjects are put: one after the other, with the end of each.
#[derive(Debug, Default)]
pub(crate) struct SubjectSheet {
    /// Another one for each sheet that a lane is given.
    pub(crate) generation: u64,
    pub(crate) text: Vec<u8>,
    pub(crate) ends: Vec<usize>,
}

impl SubjectSheet {
    pub(crate) fn get(&self, number: u32) -> &[u8] {
        let number = number as usize;
        let begin = number.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.text[begin..self.ends[number]]
    }

    fn put(&mut self, text: &[u8]) -> u32 {
        self.text.extend_from_slice(text);
        self.close()
    }

    fn close(&mut self) -> u32 {
        self.ends.push(self.text.len());
        // Sheets are bounded by the bytes that may wait.
        u32::try_from(self.ends.len() - 1).unwrap_or(u32::MAX)
    }

    /// Takes back the last one.
    fn take_back(&mut self) {
        self.ends.pop();
        self.text.truncate(self.ends.last().copied().unwrap_or_default());
    }

    pub(crate) fn clear(&mut self) {
        self.text.clear();
        self.ends.clear();
    }

    pub(crate) fn shrink_to(&mut self, kept: usize) {
        self.text.shrink_to(kept);
        self.ends.shrink_to(kept / size_of::<usize>());
    }
}

impl CallSubjects {
    /// The number of a subject in a sheet, and how many bytes it has there for this.
    pub(crate) fn place(
        &mut self,
        sheet: &mut SubjectSheet,
        parts: &SubjectParts<'_>,
        write: impl FnOnce(&mut Vec<u8>),
    ) -> (u32, usize) {
        let length: usize = parts.iter().map(|part| part.len()).sum();
        if length > LONGEST_PARTS {
            let begin = sheet.text.len();
            write(&mut sheet.text);
            return (sheet.close(), sheet.text.len() - begin);
        }
        if self.slots.is_empty() {
            self.slots.resize(SLOTS, SubjectSlot::default());
        }
        let slot = &mut self.slots[slot_of(parts)];
        if !slot.is_made_of(parts) {
            slot.make_of(parts, write);
        } else if let Some((generation, number)) = slot.placed
            && generation == sheet.generation
        {
            return (number, 0);
        }
        let number = sheet.put(&slot.text);
        let length = slot.text.len();
        slot.placed = Some((sheet.generation, number));
        if length > LONGEST_TEXT {
            *slot = SubjectSlot::default();
        }
        (number, length)
    }

    /// Takes back what was placed last, if it was placed for this.
    pub(crate) fn take_back(&mut self, sheet: &mut SubjectSheet, (number, length): (u32, usize)) {
        if length == 0 {
            return;
        }
        sheet.take_back();
        for slot in &mut self.slots {
            if slot.placed == Some((sheet.generation, number)) {
                slot.placed = None;
            }
        }
    }
}

impl SubjectSlot {
    fn is_made_of(&self, parts: &SubjectParts<'_>) -> bool {
        let mut begin = 0;
        !self.text.is_empty()
            && parts.iter().zip(self.ends).all(|(part, end)| {
                let is_same = are_same(&self.parts[begin..end], part);
                begin = end;
                is_same
            })
    }

    fn make_of(&mut self, parts: &SubjectParts<'_>, write: impl FnOnce(&mut Vec<u8>)) {
        self.parts.clear();
        for (part, end) in parts.iter().zip(&mut self.ends) {
            self.parts.extend_from_slice(part);
            *end = self.parts.len();
        }
        self.text.clear();
        write(&mut self.text);
    }
}

/// Spreads subjects over slots. Whoever chooses names so that theirs meet has them written out each time, as all were without this.
fn slot_of(parts: &SubjectParts<'_>) -> usize {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let mix = |mixed: u64, word: u64| (mixed.rotate_left(5) ^ word).wrapping_mul(FACTOR);
    let mixed = parts.iter().fold(0, |mixed, part| {
        let mixed = part.as_chunks::<8>().0.iter().fold(mixed, |mixed, word| mix(mixed, u64::from_le_bytes(*word)));
        mix(mixed, last_word(part))
    });
    // The highest bits depend on all the others.
    (mixed >> 32) as usize % SLOTS
}

/// Whether two parts are the same. Word by word: parts are short, and calling the library's comparison for each took half of the time of a record.
fn are_same(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len()
        && one.as_chunks::<8>().0.iter().zip(other.as_chunks::<8>().0).all(|(one, other)| one == other)
        && last_word(one) == last_word(other)
}

/// The end of a part in one word: eight bytes, some of which may have been seen, or all of a short one and its length.
fn last_word(part: &[u8]) -> u64 {
    let half = |half: &[u8; 4]| u64::from(u32::from_le_bytes(*half));
    match (part.last_chunk::<8>(), part.first_chunk::<4>(), part.last_chunk::<4>()) {
        (Some(word), ..) => u64::from_le_bytes(*word),
        (None, Some(first), Some(last)) => half(first) | half(last) << 32,
        _ => part.iter().fold(part.len() as u64, |word, byte| word << 8 | u64::from(*byte)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(subjects: &mut CallSubjects, sheet: &mut SubjectSheet, name: &str) -> (u32, bool) {
        let mut is_written = false;
        let parts = [name.as_bytes(), b"", b"", b"", b"", b""];
        let (number, _) = subjects.place(sheet, &parts, |out| {
            is_written = true;
            out.extend_from_slice(format!("\"name\":\"{name}\"").as_bytes());
        });
        (number, is_written)
    }

    #[test]
    fn a_subject_is_written_once_for_each_sheet_and_made_once_for_all() {
        let (mut subjects, mut sheet) = (CallSubjects::default(), SubjectSheet { generation: 1, ..Default::default() });
        assert_eq!(place(&mut subjects, &mut sheet, "one"), (0, true));
        assert_eq!(place(&mut subjects, &mut sheet, "two"), (1, true));
        assert_eq!(place(&mut subjects, &mut sheet, "one"), (0, false));
        let mut next = SubjectSheet { generation: 2, ..Default::default() };
        assert_eq!(place(&mut subjects, &mut next, "two"), (0, false));
        assert_eq!((next.get(0), sheet.get(0)), (&b"\"name\":\"two\""[..], &b"\"name\":\"one\""[..]));
    }

    #[test]
    fn many_or_long_subjects_are_never_taken_for_each_other() {
        let (mut subjects, mut sheet) = (CallSubjects::default(), SubjectSheet { generation: 1, ..Default::default() });
        let names: Vec<String> = (0..500).map(|n| "x".repeat(n * 3) + &n.to_string()).collect();
        for name in names.iter().chain(&names) {
            let (number, _) = place(&mut subjects, &mut sheet, name);
            assert_eq!(sheet.get(number), format!("\"name\":\"{name}\"").as_bytes());
        }
        // The border between two parts counts.
        let (one, _) = subjects.place(&mut sheet, &[b"a", b"b", b"", b"", b"", b""], |out| out.push(b'1'));
        let (two, _) = subjects.place(&mut sheet, &[b"ab", b"", b"", b"", b"", b""], |out| out.push(b'2'));
        assert_eq!((sheet.get(one), sheet.get(two)), (&b"1"[..], &b"2"[..]));
    }

    #[test]
    fn what_was_taken_back_is_put_there_again() {
        let (mut subjects, mut sheet) = (CallSubjects::default(), SubjectSheet { generation: 1, ..Default::default() });
        place(&mut subjects, &mut sheet, "kept");
        let parts = [&b"lost"[..], b"", b"", b"", b"", b""];
        let placed = subjects.place(&mut sheet, &parts, |out| out.extend_from_slice(b"lost"));
        subjects.take_back(&mut sheet, placed);
        assert_eq!(sheet.ends.len(), 1);
        let placed = subjects.place(&mut sheet, &parts, |_| ());
        assert_eq!((placed, sheet.get(placed.0)), ((1, 4), &b"lost"[..]));
        subjects.take_back(&mut sheet, (0, 0));
        assert_eq!(sheet.ends.len(), 2, "what others placed stays");
    }
}
