//! Request ids as raw text: `1` and `1.0` are different ids to some peers, so an id goes back as it came.

use std::fmt;

use crate::scan::validate;

/// A request id, or any other scalar that must come back exactly as it was sent: `1`, `"1"` and `1.0` all differ.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RawId(Box<str>);

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
            }
            _ => return None,
        }
        std::str::from_utf8(raw).ok().map(|text| Self(text.into()))
    }

    /// The raw JSON text, quotes of a string included.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The number, when this is an unsigned integer.
    pub fn as_u64(&self) -> Option<u64> {
        // A string in quotes is no number, so it fails here as it should.
        self.0.parse().ok()
    }
}

impl From<u64> for RawId {
    fn from(number: u64) -> Self {
        Self(number.to_string().into())
    }
}

impl fmt::Display for RawId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for RawId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
