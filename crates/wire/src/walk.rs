//! Walking over JSON that is known to be valid: no errors, no allocation, nothing beyond the level that is asked for.

use std::borrow::Cow;

use crate::scan::{ByteSpan, JsonScanner};
use crate::text::decode_string;

/// The key of a member, as a place in the text.
#[derive(Clone, Copy, Debug)]
pub struct MemberKey {
    /// Where it is, quotes included.
    pub span: ByteSpan,
    /// Whether it is written with escapes, so that its bytes are not its text.
    pub escaped: bool,
}

impl MemberKey {
    /// Whether the key, decoded, is `name`.
    #[inline]
    pub fn is(self, bytes: &[u8], name: &str) -> bool {
        match self.escaped {
            false => self.inner(bytes) == name.as_bytes(),
            true => decode_string(self.span.of(bytes)).is_some_and(|key| key == name),
        }
    }

    /// The key with its escapes resolved; `None` where it holds half a surrogate pair.
    pub fn text(self, bytes: &[u8]) -> Option<Cow<'_, str>> {
        match self.escaped {
            false => std::str::from_utf8(self.inner(bytes)).ok().map(Cow::Borrowed),
            true => decode_string(self.span.of(bytes)),
        }
    }

    /// Whether both, decoded, are the same.
    pub(crate) fn same(self, other: Self, bytes: &[u8]) -> bool {
        match self.escaped || other.escaped {
            // The lengths first: they tell nearly all names apart, and need no look at the bytes.
            false => self.length() == other.length() && self.inner(bytes) == other.inner(bytes),
            true => match (self.text(bytes), other.text(bytes)) {
                (Some(one), Some(two)) => one == two,
                // What is no text (half a surrogate pair) is compared as it is spelled.
                _ => self.inner(bytes) == other.inner(bytes),
            },
        }
    }

    fn length(self) -> usize {
        self.span.end - self.span.start
    }

    fn inner(self, bytes: &[u8]) -> &[u8] {
        ByteSpan::new(self.span.start + 1, self.span.end - 1).of(bytes)
    }
}

/// One member of an object, as two places in the text: nothing is copied.
#[derive(Clone, Copy, Debug)]
pub struct ObjectMember {
    /// Where its key stands, and whether it is written with escapes.
    pub key: MemberKey,
    /// Where its value stands, without white space around it.
    pub value: ByteSpan,
}

/// The members of one object, remembered from when it was checked: asking for several does not scan it several times.
#[derive(Clone, Debug)]
pub(crate) struct MemberIndex {
    members: Vec<ObjectMember>,
    /// The object, once all of its members are here.
    of: ByteSpan,
}

/// Where there is no object.
const NOWHERE: ByteSpan = ByteSpan::new(0, 0);

impl Default for MemberIndex {
    fn default() -> Self {
        Self { members: Vec::new(), of: NOWHERE }
    }
}

/// How many members are worth remembering.
const REMEMBERED: usize = 16;

impl MemberIndex {
    pub(crate) fn clear(&mut self) {
        self.members.clear();
        self.of = NOWHERE;
    }

    pub(crate) fn push(&mut self, member: ObjectMember) {
        // One more than is worth it shows that there are too many.
        if self.members.len() <= REMEMBERED {
            self.members.push(member);
        }
    }

    pub(crate) fn close(&mut self, of: ByteSpan) {
        if self.members.len() <= REMEMBERED {
            self.of = of;
        }
    }

    /// The members of the object at `span`, if it is the one that is remembered.
    pub(crate) fn of(&self, span: ByteSpan) -> Option<&[ObjectMember]> {
        // An index that was never filled must not answer for an empty span at 0.
        (self.of == span && span != NOWHERE).then_some(self.members.as_slice())
    }
}

/// The members of an object, in order.
pub struct ObjectMembers<'a>(JsonWalker<'a>);

/// The elements of an array, in order.
pub struct ArrayElements<'a>(JsonWalker<'a>);

struct JsonWalker<'a> {
    scanner: JsonScanner<'a>,
    open: bool,
}

impl<'a> JsonWalker<'a> {
    fn new(bytes: &'a [u8], span: ByteSpan, opening: u8, closing: u8) -> Self {
        // The depth was checked when the message was parsed.
        let mut scanner = JsonScanner::new(&bytes[..span.end.min(bytes.len())], usize::MAX);
        scanner.pos = span.start;
        let mut open = scanner.expect(opening).is_ok();
        scanner.space();
        open &= scanner.peek() != Some(closing);
        Self { scanner, open }
    }
}

/// The members of the object at `span`; none when there is no object.
pub fn members(bytes: &[u8], span: ByteSpan) -> ObjectMembers<'_> {
    ObjectMembers(JsonWalker::new(bytes, span, b'{', b'}'))
}

/// The elements of the array at `span`; none when there is no array.
pub fn elements(bytes: &[u8], span: ByteSpan) -> ArrayElements<'_> {
    ArrayElements(JsonWalker::new(bytes, span, b'[', b']'))
}

impl Iterator for ObjectMembers<'_> {
    type Item = ObjectMember;

    fn next(&mut self) -> Option<ObjectMember> {
        let JsonWalker { scanner, open } = &mut self.0;
        if !*open {
            return None;
        }
        let key = scanner.key().ok()?;
        let value = scanner.value().ok()?;
        *open = scanner.more(b'}').unwrap_or(false);
        Some(ObjectMember { key, value })
    }
}

impl Iterator for ArrayElements<'_> {
    type Item = ByteSpan;

    fn next(&mut self) -> Option<ByteSpan> {
        let JsonWalker { scanner, open } = &mut self.0;
        if !*open {
            return None;
        }
        let value = scanner.value().ok()?;
        *open = scanner.more(b']').unwrap_or(false);
        Some(value)
    }
}

/// The value of member `name` of the object at `span`. The last one wins where a key stands twice, as most parsers do.
pub fn get(bytes: &[u8], span: ByteSpan, name: &str) -> Option<ByteSpan> {
    members(bytes, span).filter(|m| m.key.is(bytes, name)).last().map(|m| m.value)
}

/// [`get`], once per name.
pub fn get_path(bytes: &[u8], span: ByteSpan, path: &[&str]) -> Option<ByteSpan> {
    path.iter().try_fold(span, |at, name| get(bytes, at, name))
}

/// The decoded string at `span`, if it is one.
pub fn string_at(bytes: &[u8], span: ByteSpan) -> Option<Cow<'_, str>> {
    decode_string(span.of(bytes))
}

/// Whether the value at `span` is an object.
pub fn is_object(bytes: &[u8], span: ByteSpan) -> bool {
    bytes.get(span.start) == Some(&b'{')
}
