//! Finding out whose answer it was that can not be read.
//!
//! A message that breaks the grammar is refused as a whole. Whoever waits for it should hear so at once, so the one member that
//! tells who waits is looked for in the broken text, at its outermost level. What is found is good for that and nothing else.

use crate::id::RawId;

/// The id of the request that broken text seems to answer. `None` when there is none, when there are several that differ, and
/// when the text seems to be a request or notification.
pub fn unreadable_answer_id(text: &[u8]) -> Option<RawId> {
    let mut found: Option<RawId> = None;
    for (key, rest) in OutermostKeys::of(text) {
        match key {
            // A request or a notification: nobody waits for it here.
            b"method" => return None,
            b"id" => {
                // An id that is no id ends the search: a second one behind it could be somebody else's.
                let id = RawId::from_raw(scalar(rest))?;
                if found.as_ref().is_some_and(|other| *other != id) {
                    return None;
                }
                found = Some(id);
            }
            _ => {}
        }
    }
    found
}

/// The number or string that `text` begins with.
fn scalar(text: &[u8]) -> &[u8] {
    let text = text.trim_ascii_start();
    let end = match text.first() {
        Some(b'"') => string_end(text, 0),
        _ => text.iter().position(|byte| !matches!(byte, b'-' | b'+' | b'.' | b'e' | b'E' | b'0'..=b'9')),
    };
    &text[..end.unwrap_or(text.len())]
}

/// One past the closing quote of the string that begins at `start`; `None` when it is never closed.
fn string_end(text: &[u8], start: usize) -> Option<usize> {
    let mut at = start + 1;
    loop {
        at += memchr::memchr2(b'"', b'\\', text.get(at..)?)?;
        if text[at] == b'"' {
            return Some(at + 1);
        }
        at += 2;
    }
}

/// The keys of the outermost object, with what stands behind their colons. Only brackets and quotes are heeded.
struct OutermostKeys<'a> {
    text: &'a [u8],
    at: usize,
    depth: usize,
}

impl<'a> OutermostKeys<'a> {
    fn of(text: &'a [u8]) -> Self {
        Self { text, at: 0, depth: 0 }
    }
}

impl<'a> Iterator for OutermostKeys<'a> {
    type Item = (&'a [u8], &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match self.text.get(self.at)? {
                b'{' | b'[' => self.depth += 1,
                // The text is broken, so brackets need not match.
                b'}' | b']' => self.depth = self.depth.saturating_sub(1),
                b'"' => {
                    let (start, end) = (self.at, string_end(self.text, self.at)?);
                    self.at = end;
                    let rest = self.text[end..].trim_ascii_start();
                    // Deeper down an `id` belongs to something else.
                    if let (1, Some(value)) = (self.depth, rest.strip_prefix(b":")) {
                        return Some((&self.text[start + 1..end - 1], value));
                    }
                    continue;
                }
                _ => {}
            }
            self.at += 1;
        }
    }
}
