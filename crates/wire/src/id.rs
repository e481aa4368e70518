//! Request ids as raw text: `1` and `1.0` are different ids to some peers, so an id goes back as it came.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};

use crate::scan::validate;

/// A request id, or any other scalar that must come back exactly as it was sent: `1`, `"1"` and `1.0` all differ.
#[derive(Clone, PartialEq, Eq)]
pub struct RawId(IdText);

/// Ids of this length stand in the value itself. An id is copied several times for every call, and nearly all are short numbers.
// With tag and length that is 24 bytes, no more than the variant with the box takes.
const SHORT: usize = 22;

/// Which of the two is decided by the length alone, so equal ids are equal here.
#[derive(Clone, PartialEq, Eq)]
enum IdText {
    /// The bytes after the length are zero.
    Short {
        length: u8,
        bytes: [u8; SHORT],
    },
    Long(Box<str>),
}

impl RawId {
    /// From raw JSON text. `None` unless it is exactly one string or number: an id is copied into other messages.
    pub fn from_raw(raw: &[u8]) -> Option<Self> {
        match raw.first() {
            // What nearly every client sends.
            // Decided without the scanner, for every message.
            Some(b'1'..=b'9') if raw.iter().all(u8::is_ascii_digit) => {}
            Some(b'"' | b'-' | b'0'..=b'9') => {
                // Depth 0: anything with brackets is refused.
                let span = validate(raw, 0).ok()?;
                if span.end != raw.len() {
                    return None;
                }
                // The scanner reads bytes, and leaves this to whoever has checked the whole message.
                std::str::from_utf8(raw).ok()?;
            }
            _ => return None,
        }
        Self::of_text(raw)
    }

    fn of_text(text: &[u8]) -> Option<Self> {
        let mut bytes = [0; SHORT];
        Some(Self(match (bytes.get_mut(..text.len()), u8::try_from(text.len())) {
            (Some(place), Ok(length)) => {
                place.copy_from_slice(text);
                IdText::Short { length, bytes }
            }
            _ => IdText::Long(std::str::from_utf8(text).ok()?.into()),
        }))
    }

    /// The raw JSON text, quotes of a string included.
    pub fn as_bytes(&self) -> &[u8] {
        match &self.0 {
            IdText::Short { length, bytes } => bytes.get(..usize::from(*length)).unwrap_or_default(),
            IdText::Long(text) => text.as_bytes(),
        }
    }

    /// The same as text.
    pub fn as_str(&self) -> &str {
        match &self.0 {
            // It was text when it came.
            IdText::Short { .. } => std::str::from_utf8(self.as_bytes()).unwrap_or_default(),
            IdText::Long(text) => text,
        }
    }

    /// The number, when this is an unsigned integer.
    pub fn as_u64(&self) -> Option<u64> {
        // A string in quotes is no number, so it fails here as it should.
        self.as_str().parse().ok()
    }
}

impl From<u64> for RawId {
    fn from(number: u64) -> Self {
        // The longest has 20 digits, which is a short text.
        let text = number.to_string();
        Self::of_text(text.as_bytes()).unwrap_or_else(|| Self(IdText::Long(text.into())))
    }
}

impl Hash for RawId {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_bytes().hash(state);
    }
}

impl PartialOrd for RawId {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for RawId {
    fn cmp(&self, other: &Self) -> Ordering {
        self.as_bytes().cmp(other.as_bytes())
    }
}

impl fmt::Display for RawId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for RawId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
