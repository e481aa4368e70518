//! Replacing spans of a message and leaving every other byte as it was.

use std::borrow::Cow;

use bytes::{Bytes, BytesMut};

use crate::scan::ByteSpan;
use crate::text::encode_string;
use crate::walk::{ObjectMember, is_object, members};

/// A set of replacements that do not overlap.
#[derive(Debug, Default)]
pub struct Patch {
    edits: Vec<(ByteSpan, Bytes)>,
}

impl Patch {
    /// A patch that changes nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.edits.is_empty()
    }

    /// Puts `with` in the place of `span`.
    pub fn replace(&mut self, span: ByteSpan, with: impl Into<Bytes>) {
        self.edits.push((span, with.into()));
    }

    /// Puts `text` before byte `at`.
    pub fn insert(&mut self, at: usize, text: impl Into<Bytes>) {
        self.replace(ByteSpan::new(at, at), text);
    }

    /// Takes `span` out.
    pub fn remove(&mut self, span: ByteSpan) {
        self.replace(span, Bytes::new());
    }

    /// The patched message; the original itself when there is nothing to do.
    pub fn apply(self, bytes: &Bytes) -> Bytes {
        self.apply_within(bytes, ByteSpan::new(0, bytes.len()))
    }

    /// The patched part of the message at `span`; edits outside it are ignored.
    pub fn apply_within(mut self, bytes: &Bytes, span: ByteSpan) -> Bytes {
        self.edits.retain(|(at, _)| at.start >= span.start && at.end <= span.end);
        if self.edits.is_empty() {
            return bytes.slice(span.range());
        }
        // Stable: insertions at one place keep the order in which they were asked for.
        self.edits.sort_by_key(|(at, _)| (at.start, at.end));
        let grown: usize = self.edits.iter().map(|(_, with)| with.len()).sum();
        let mut out = BytesMut::with_capacity(span.end - span.start + grown);
        let mut from = span.start;
        for (at, with) in &self.edits {
            // Two edits of one place are a fault of the program; a release build writes no byte of the original twice.
            debug_assert!(at.start >= from, "edits overlap");
            out.extend_from_slice(&bytes[from..at.start.max(from)]);
            out.extend_from_slice(with);
            from = at.end.max(from);
        }
        out.extend_from_slice(&bytes[from..span.end]);
        out.freeze()
    }
}

/// Changes to the members of one object, with the commas right afterwards.
pub struct ObjectEdit<'a> {
    bytes: &'a [u8],
    span: ByteSpan,
    members: Cow<'a, [ObjectMember]>,
    /// What becomes of members, by their place. Most members stay as they are.
    fates: Vec<(usize, MemberFate)>,
    added: Vec<(String, Bytes)>,
}

enum MemberFate {
    Replace(Bytes),
    Remove,
}

impl<'a> ObjectEdit<'a> {
    /// Edits the object at `span`. Where there is no object, the edit does nothing.
    pub fn new(bytes: &'a [u8], span: ByteSpan) -> Self {
        Self::with(bytes, span, members(bytes, span).collect())
    }

    /// As [`Self::new`], of an object whose members are known.
    pub(crate) fn with(bytes: &'a [u8], span: ByteSpan, members: Cow<'a, [ObjectMember]>) -> Self {
        Self { bytes, span, members, fates: Vec::new(), added: Vec::new() }
    }

    /// The value of a member, as it was.
    pub fn get(&self, name: &str) -> Option<ByteSpan> {
        // Of a repeated key the last one counts, as for most parsers.
        self.members.iter().rev().find(|m| m.key.is(self.bytes, name)).map(|m| m.value)
    }

    fn decide(&mut self, place: usize, fate: MemberFate) {
        match self.fates.iter_mut().find(|(at, _)| *at == place) {
            Some(decided) => decided.1 = fate,
            None => self.fates.push((place, fate)),
        }
    }

    fn fate(&self, place: usize) -> Option<&MemberFate> {
        self.fates.iter().find(|(at, _)| *at == place).map(|(_, fate)| fate)
    }

    /// Sets a member to raw JSON, in its place if it is there, else in front. The last setting of a name counts.
    pub fn set(&mut self, name: &str, value: impl Into<Bytes>) -> &mut Self {
        let value = value.into();
        let mut found = false;
        for place in 0..self.members.len() {
            if self.members[place].key.is(self.bytes, name) {
                // Of a repeated key one is left, so that two readers can not see two values.
                self.decide(place, if found { MemberFate::Remove } else { MemberFate::Replace(value.clone()) });
                found = true;
            }
        }
        if found {
            return self;
        }
        match self.added.iter_mut().find(|(added, _)| added == name) {
            Some(added) => added.1 = value,
            None => self.added.push((name.to_owned(), value)),
        }
        self
    }

    /// Takes a member out.
    pub fn remove(&mut self, name: &str) -> &mut Self {
        for place in 0..self.members.len() {
            if self.members[place].key.is(self.bytes, name) {
                self.decide(place, MemberFate::Remove);
            }
        }
        self.added.retain(|(added, _)| added != name);
        self
    }

    /// Takes out every member whose decoded key satisfies `doomed`, one that was just set included.
    pub fn remove_where(&mut self, doomed: impl Fn(&str) -> bool) -> &mut Self {
        for place in 0..self.members.len() {
            if self.members[place].key.text(self.bytes).is_some_and(|key| doomed(&key)) {
                self.decide(place, MemberFate::Remove);
            }
        }
        self.added.retain(|(name, _)| !doomed(name));
        self
    }

    /// Whether no member would be left.
    pub fn would_be_empty(&self) -> bool {
        self.added.is_empty()
            && (0..self.members.len()).all(|place| matches!(self.fate(place), Some(MemberFate::Remove)))
    }

    /// Writes the changes into a patch.
    pub fn finish(self, patch: &mut Patch) {
        if (self.fates.is_empty() && self.added.is_empty()) || !is_object(self.bytes, self.span) {
            return;
        }
        let mut kept_before = false;
        for (i, member) in self.members.iter().enumerate() {
            match self.fate(i) {
                None => kept_before = true,
                Some(MemberFate::Replace(value)) => {
                    kept_before = true;
                    patch.replace(member.value, value.clone());
                }
                // The comma that goes with it: the one before, or, while nothing is kept before it, the one after.
                Some(MemberFate::Remove) if kept_before => {
                    patch.remove(ByteSpan::new(self.members[i - 1].value.end, member.value.end));
                }
                Some(MemberFate::Remove) => {
                    let end = self.members.get(i + 1).map_or(member.value.end, |next| next.key.span.start);
                    patch.remove(ByteSpan::new(member.key.span.start, end));
                }
            }
        }
        let mut text = BytesMut::new();
        for (i, (name, value)) in self.added.iter().enumerate() {
            if i > 0 {
                text.extend_from_slice(b",");
            }
            text.extend_from_slice(encode_string(name).as_bytes());
            text.extend_from_slice(b":");
            text.extend_from_slice(value);
        }
        if !text.is_empty() {
            if kept_before {
                text.extend_from_slice(b",");
            }
            // In front: the place behind the last member may have been taken out.
            patch.insert(self.span.start + 1, text.freeze());
        }
    }
}
