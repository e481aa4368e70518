//! Walking over JSON that is known to be valid: no errors, no allocation, nothing beyond the level that is asked for.

use std::borrow::Cow;

use crate::scan::{Scanner, Span};
use crate::text::decode_string;

/// One member of an object.
#[derive(Clone, Copy, Debug)]
pub struct Member {
    /// The key, quotes included.
    pub key: Span,
    /// The value.
    pub value: Span,
}

impl Member {
    /// Whether the key, decoded, is `name`.
    pub fn is(&self, bytes: &[u8], name: &str) -> bool {
        let raw = self.key.of(bytes);
        let inner = raw.get(1..raw.len().saturating_sub(1)).unwrap_or_default();
        inner == name.as_bytes() || (inner.contains(&b'\\') && decode_string(raw).is_some_and(|key| key == name))
    }
}

/// The members of an object, in order.
pub struct Members<'a>(Walker<'a>);

/// The elements of an array, in order.
pub struct Elements<'a>(Walker<'a>);

struct Walker<'a> {
    scanner: Scanner<'a>,
    open: bool,
}

impl<'a> Walker<'a> {
    fn new(bytes: &'a [u8], span: Span, opening: u8, closing: u8) -> Self {
        let mut scanner = Scanner::new(&bytes[..span.end.min(bytes.len())], usize::MAX);
        scanner.pos = span.start;
        let mut open = scanner.expect(opening).is_ok();
        scanner.space();
        open &= scanner.peek() != Some(closing);
        Self { scanner, open }
    }
}

/// The members of the object at `span`; none when there is no object.
pub fn members(bytes: &[u8], span: Span) -> Members<'_> {
    Members(Walker::new(bytes, span, b'{', b'}'))
}

/// The elements of the array at `span`; none when there is no array.
pub fn elements(bytes: &[u8], span: Span) -> Elements<'_> {
    Elements(Walker::new(bytes, span, b'[', b']'))
}

impl Iterator for Members<'_> {
    type Item = Member;

    fn next(&mut self) -> Option<Member> {
        let Walker { scanner, open } = &mut self.0;
        if !*open {
            return None;
        }
        let key = scanner.key().ok()?;
        let value = scanner.value().ok()?;
        *open = scanner.more(b'}').unwrap_or(false);
        Some(Member { key, value })
    }
}

impl Iterator for Elements<'_> {
    type Item = Span;

    fn next(&mut self) -> Option<Span> {
        let Walker { scanner, open } = &mut self.0;
        if !*open {
            return None;
        }
        let value = scanner.value().ok()?;
        *open = scanner.more(b']').unwrap_or(false);
        Some(value)
    }
}

/// The value of member `name` of the object at `span`. The last one wins where a key stands twice, as most parsers do.
pub fn get(bytes: &[u8], span: Span, name: &str) -> Option<Span> {
    members(bytes, span).filter(|m| m.is(bytes, name)).last().map(|m| m.value)
}

/// [`get`], once per name.
pub fn get_path(bytes: &[u8], span: Span, path: &[&str]) -> Option<Span> {
    path.iter().try_fold(span, |at, name| get(bytes, at, name))
}

/// The decoded string at `span`, if it is one.
pub fn string_at(bytes: &[u8], span: Span) -> Option<Cow<'_, str>> {
    decode_string(span.of(bytes))
}

/// Whether the value at `span` is an object.
pub fn is_object(bytes: &[u8], span: Span) -> bool {
    bytes.get(span.start) == Some(&b'{')
}
