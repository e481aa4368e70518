//! A hash of what JSON says, whatever it looks like: white space, the order of keys and the spelling of strings do not
//! count; the text of numbers does, since two numbers that a parser takes for equal may not be.

use blake3::Hasher;

use crate::scan::ByteSpan;
use crate::text::decode_string;
use crate::walk::{elements, members};

/// The hash of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digest(pub [u8; 32]);

/// Bytes as hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    let mut digits = Vec::with_capacity(2 * bytes.len());
    append_hex(bytes, &mut digits);
    String::from_utf8(digits).unwrap_or_default()
}

/// Appends what [`hex`] gives.
pub fn append_hex(bytes: &[u8], out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    // With room made once: every record of a call has two hashes.
    out.extend(bytes.iter().flat_map(|byte| [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]));
}

impl Digest {
    /// The digest of nothing.
    pub const NONE: Self = Self([0; 32]);

    /// The hash of bytes as they are.
    pub fn of_bytes(bytes: &[u8]) -> Self {
        Self(*blake3::hash(bytes).as_bytes())
    }

    /// The digest of a set with one member put in, or taken out if it was there. The order does not count.
    #[must_use]
    pub fn toggled(self, member: Self) -> Self {
        // Putting in and taking out are the same operation, and cost nothing that grows with the set.
        Self(std::array::from_fn(|i| self.0[i] ^ member.0[i]))
    }

    /// The hash of several, in order.
    pub fn of_all<'a>(parts: impl IntoIterator<Item = &'a Self>) -> Self {
        let mut hasher = Hasher::new();
        for part in parts {
            hasher.update(&part.0);
        }
        Self(*hasher.finalize().as_bytes())
    }
}

/// The hash of the valid JSON value at `span`.
pub fn digest(bytes: &[u8], span: ByteSpan) -> Digest {
    let mut hasher = Hasher::new();
    feed(&mut hasher, bytes, span);
    Digest(*hasher.finalize().as_bytes())
}

fn feed(hasher: &mut Hasher, bytes: &[u8], span: ByteSpan) {
    let raw = span.of(bytes);
    match raw.first() {
        Some(b'{') => {
            let mut all: Vec<_> =
                // A key with half a surrogate pair has no text: all such keys count as one, which is empty. No
                // serialiser writes them.
                members(bytes, span).map(|m| (m.key.text(bytes).unwrap_or_default(), m.value)).collect();
            // Stable, so that of a repeated key the last one is the last here too, and wins.
            all.sort_by(|a, b| a.0.cmp(&b.0));
            hasher.update(b"{");
            for (i, (key, value)) in all.iter().enumerate() {
                if all.get(i + 1).is_none_or(|(next, _)| next != key) {
                    feed_text(hasher, b'k', key.as_bytes());
                    feed(hasher, bytes, *value);
                }
            }
            hasher.update(b"}");
        }
        Some(b'[') => {
            hasher.update(b"[");
            for element in elements(bytes, span) {
                feed(hasher, bytes, element);
            }
            hasher.update(b"]");
        }
        Some(b'"') => match decode_string(raw) {
            Some(text) => feed_text(hasher, b's', text.as_bytes()),
            // A lone surrogate has no text; its spelling is all there is.
            None => feed_text(hasher, b'x', raw),
        },
        // `1.0` and `1` may differ to a peer, so the text counts.
        _ => feed_text(hasher, b'n', raw),
    }
}

fn feed_text(hasher: &mut Hasher, tag: u8, text: &[u8]) {
    hasher.update(&[tag]);
    // The length in front: else ["a","b"] and ["ab"] would be fed the same bytes.
    hasher.update(&(text.len() as u64).to_le_bytes());
    hasher.update(text);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(text: &str) -> Digest {
        digest(text.as_bytes(), ByteSpan::new(0, text.len()))
    }

    #[test]
    fn looks_do_not_count() {
        assert_eq!(hash(r#"{"a":1,"b":["x"]}"#), hash("{ \"b\" : [ \"\\u0078\" ], \"a\" : 1 }"));
    }

    #[test]
    fn what_is_said_counts() {
        for (a, b) in [
            ("9007199254740993", "9007199254740992"),
            ("1", "1.0"),
            ("1", "\"1\""),
            ("[1,2]", "[2,1]"),
            (r#"{"a":{}}"#, r#"{"a":[]}"#),
            (r#"{"a":null}"#, "{}"),
            (r#"["ab","c"]"#, r#"["a","bc"]"#),
        ] {
            assert_ne!(hash(a), hash(b), "{a} {b}");
        }
    }

    #[test]
    fn of_a_repeated_key_the_last_counts() {
        assert_eq!(hash(r#"{"a":1,"a":2}"#), hash(r#"{"a":2}"#));
    }
}
