//! A validating JSON scanner that builds nothing: it only moves over values and says where they are.

use std::ops::Range;

use crate::walk::{MemberIndex, MemberKey, ObjectMember};

/// A half-open byte range inside a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ByteSpan {
    /// The offset of its first byte.
    pub start: usize,
    /// One past the last byte.
    pub end: usize,
}

impl ByteSpan {
    /// The span from `start` up to, not including, `end`.
    pub const fn new(start: usize, end: usize) -> Self {
        Self { start, end }
    }

    /// The bytes this span covers.
    pub fn of(self, bytes: &[u8]) -> &[u8] {
        bytes.get(self.range()).unwrap_or_default()
    }

    /// As a standard range.
    pub const fn range(self) -> Range<usize> {
        self.start..self.end
    }
}

/// Why bytes are not acceptable JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScanError {
    /// A byte that can not stand here.
    #[error("invalid JSON at byte {at}")]
    Syntax {
        /// The offset of the byte that can not stand there.
        at: usize,
    },
    /// The text ended inside a value.
    #[error("the JSON text ends too early")]
    Truncated,
    /// Nested deeper than the limit.
    #[error("JSON nested deeper than {limit} levels")]
    TooDeep {
        /// The limit that was exceeded.
        limit: usize,
    },
}

/// Checks that `bytes` is exactly one JSON value (white space around it allowed).
pub fn validate(bytes: &[u8], max_depth: usize) -> Result<ByteSpan, ScanError> {
    let mut scanner = JsonScanner::new(bytes, max_depth);
    let span = scanner.value()?;
    scanner.finish()?;
    Ok(span)
}

pub(crate) struct JsonScanner<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) pos: usize,
    depth: usize,
    max_depth: usize,
}

impl<'a> JsonScanner<'a> {
    pub(crate) fn new(bytes: &'a [u8], max_depth: usize) -> Self {
        Self { bytes, pos: 0, depth: 0, max_depth }
    }

    pub(crate) fn peek(&self) -> Option<u8> {
        self.bytes.get(self.pos).copied()
    }

    pub(crate) fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.pos += 1;
        }
    }

    pub(crate) fn fail<T>(&self) -> Result<T, ScanError> {
        // Told apart, because text that only ends too early may go on in the next line.
        if self.pos >= self.bytes.len() { Err(ScanError::Truncated) } else { Err(ScanError::Syntax { at: self.pos }) }
    }

    pub(crate) fn expect(&mut self, byte: u8) -> Result<(), ScanError> {
        if self.peek() == Some(byte) {
            self.pos += 1;
            Ok(())
        } else {
            self.fail()
        }
    }

    /// Only white space may be left.
    pub(crate) fn finish(&mut self) -> Result<(), ScanError> {
        self.space();
        if self.pos == self.bytes.len() { Ok(()) } else { self.fail() }
    }

    pub(crate) fn enter(&mut self) -> Result<(), ScanError> {
        self.depth += 1;
        if self.depth > self.max_depth { Err(ScanError::TooDeep { limit: self.max_depth }) } else { Ok(()) }
    }

    pub(crate) fn leave(&mut self) {
        self.depth -= 1;
    }

    /// Skips white space and one value; returns the value's span.
    pub(crate) fn value(&mut self) -> Result<ByteSpan, ScanError> {
        self.space();
        let start = self.pos;
        match self.peek() {
            Some(b'"') => {
                self.string()?;
            }
            Some(b'{') => self.object()?,
            Some(b'[') => self.array()?,
            Some(b't') => self.literal(b"true")?,
            Some(b'f') => self.literal(b"false")?,
            Some(b'n') => self.literal(b"null")?,
            Some(b'-' | b'0'..=b'9') => self.number()?,
            _ => return self.fail(),
        }
        Ok(ByteSpan::new(start, self.pos))
    }

    /// As [`Self::value`]; when it is an object, remembers its members, and those of the member called `inner`.
    pub(crate) fn indexed_value(
        &mut self,
        index: &mut MemberIndex,
        inner: Option<(&[u8], &mut MemberIndex)>,
    ) -> Result<ByteSpan, ScanError> {
        // A repeated `params` would leave the members of the first one.
        index.clear();
        self.space();
        if self.peek() != Some(b'{') {
            return self.value();
        }
        let start = self.pos;
        match inner {
            Some((name, inner)) => {
                inner.clear();
                self.members(
                    // Compared as it is spelled: an escaped `_meta` is only not remembered, and is found by a scan.
                    |scanner, key| match key.span.of(scanner.bytes) == name {
                        true => scanner.indexed_value(inner, None),
                        false => scanner.value(),
                    },
                    |member| index.push(member),
                )?;
            }
            None => self.members(|scanner, _| scanner.value(), |member| index.push(member))?,
        }
        let span = ByteSpan::new(start, self.pos);
        index.close(span);
        Ok(span)
    }

    fn object(&mut self) -> Result<(), ScanError> {
        self.members(|scanner, _| scanner.value(), |_| {})
    }

    fn members(
        &mut self,
        mut value: impl FnMut(&mut Self, MemberKey) -> Result<ByteSpan, ScanError>,
        mut each: impl FnMut(ObjectMember),
    ) -> Result<(), ScanError> {
        self.pos += 1;
        self.enter()?;
        self.space();
        if self.peek() == Some(b'}') {
            self.pos += 1;
            self.leave();
            return Ok(());
        }
        loop {
            // An error ends the whole scan, so the depth need not be counted back on the way out.
            let key = self.key()?;
            let value = value(self, key)?;
            each(ObjectMember { key, value });
            if !self.more(b'}')? {
                self.leave();
                return Ok(());
            }
        }
    }

    fn array(&mut self) -> Result<(), ScanError> {
        self.pos += 1;
        self.enter()?;
        self.space();
        if self.peek() == Some(b']') {
            self.pos += 1;
            self.leave();
            return Ok(());
        }
        loop {
            self.value()?;
            if !self.more(b']')? {
                self.leave();
                return Ok(());
            }
        }
    }

    /// After a member or element: a comma (true) or the closing byte (false).
    pub(crate) fn more(&mut self, close: u8) -> Result<bool, ScanError> {
        self.space();
        match self.peek() {
            Some(b',') => {
                self.pos += 1;
                Ok(true)
            }
            Some(byte) if byte == close => {
                self.pos += 1;
                Ok(false)
            }
            _ => self.fail(),
        }
    }

    /// A member's key and its colon.
    pub(crate) fn key(&mut self) -> Result<MemberKey, ScanError> {
        self.space();
        let (span, escaped) = self.text()?;
        self.space();
        self.expect(b':')?;
        Ok(MemberKey { span, escaped })
    }

    pub(crate) fn string(&mut self) -> Result<ByteSpan, ScanError> {
        Ok(self.text()?.0)
    }

    /// A string: its span, and whether it holds escapes.
    fn text(&mut self) -> Result<(ByteSpan, bool), ScanError> {
        let start = self.pos;
        self.expect(b'"')?;
        let mut escaped = false;
        loop {
            self.pos = self.plain_run();
            match self.peek() {
                Some(b'"') => {
                    self.pos += 1;
                    return Ok((ByteSpan::new(start, self.pos), escaped));
                }
                Some(b'\\') => {
                    self.pos += 1;
                    self.escape()?;
                    escaped = true;
                }
                _ => return self.fail(),
            }
        }
    }

    /// Where the bytes end that stand for themselves inside a string.
    fn plain_run(&self) -> usize {
        let rest = &self.bytes[self.pos..];
        let mut end = 0;
        // Most strings of a message are shorter than what it costs to set up a vectorised search.
        for word in rest.as_chunks::<8>().0.iter().take(SHORT) {
            let special = special_bytes(u64::from_le_bytes(*word));
            if special != 0 {
                return self.pos + end + special.trailing_zeros() as usize / 8;
            }
            end += 8;
        }
        let rest = &rest[end..];
        if rest.len() < 8 {
            return self.pos + end + rest.iter().position(|&byte| is_special(byte)).unwrap_or(rest.len());
        }
        let found = memchr::memchr2(b'"', b'\\', rest).unwrap_or(rest.len());
        self.pos + end + control_byte(&rest[..found]).unwrap_or(found)
    }

    fn escape(&mut self) -> Result<(), ScanError> {
        match self.peek() {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => {
                self.pos += 1;
                Ok(())
            }
            Some(b'u') => {
                self.pos += 1;
                for _ in 0..4 {
                    // Whether a pair of surrogates is whole is not the scanner's business: such a string passes as it
                    // is.
                    if !self.peek().is_some_and(|b| b.is_ascii_hexdigit()) {
                        return self.fail();
                    }
                    self.pos += 1;
                }
                Ok(())
            }
            _ => self.fail(),
        }
    }

    fn literal(&mut self, word: &[u8]) -> Result<(), ScanError> {
        for &byte in word {
            self.expect(byte)?;
        }
        Ok(())
    }

    fn number(&mut self) -> Result<(), ScanError> {
        if self.peek() == Some(b'-') {
            self.pos += 1;
        }
        match self.peek() {
            // JSON allows no digit after a leading zero.
            Some(b'0') => self.pos += 1,
            Some(b'1'..=b'9') => self.digits()?,
            _ => return self.fail(),
        }
        if self.peek() == Some(b'.') {
            self.pos += 1;
            self.digits()?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.pos += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.pos += 1;
            }
            self.digits()?;
        }
        Ok(())
    }

    fn digits(&mut self) -> Result<(), ScanError> {
        let start = self.pos;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.pos += 1;
        }
        if self.pos == start { self.fail() } else { Ok(()) }
    }
}

/// How many words of eight bytes of a string are looked at before the search is vectorised.
const SHORT: usize = 8;

/// Marks the bytes of a word that end a plain run: quotes, backslashes and control characters. The lowest mark is
/// right; those above it may be false, since the subtractions borrow.
const fn special_bytes(word: u64) -> u64 {
    const ONES: u64 = u64::from_le_bytes([1; 8]);
    const HIGH: u64 = ONES << 7;
    let quotes = word ^ (ONES * b'"' as u64);
    let backslashes = word ^ (ONES * b'\\' as u64);
    let zeros = (quotes.wrapping_sub(ONES) & !quotes) | (backslashes.wrapping_sub(ONES) & !backslashes);
    // A byte below 0x20 borrows and sets its high bit. Borrows can also set that of a byte above it, never of one
    // below: the lowest bit found is right.
    let controls = word.wrapping_sub(ONES * 0x20) & !word;
    (zeros | controls) & HIGH
}

const fn is_special(byte: u8) -> bool {
    byte == b'"' || byte == b'\\' || byte < 0x20
}

fn control_byte(run: &[u8]) -> Option<usize> {
    // The whole run is tested first: that loop vectorises, the search does not.
    if run.iter().any(|&b| b < 0x20) { run.iter().position(|&b| b < 0x20) } else { None }
}
