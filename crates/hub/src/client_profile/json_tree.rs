//! JSON that is changed in places: members keep their order, and what is not changed keeps its spelling.

use tidings_wire::{ByteSpan, append_string, decode_string, elements, is_object, members};

/// A JSON value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum JsonTree {
    Object(Vec<(String, JsonTree)>),
    List(Vec<JsonTree>),
    /// Everything else, as it was written.
    Plain(Box<[u8]>),
}

impl JsonTree {
    /// Reads a value that is known to be JSON. `None` where an object has a name twice: two readers may take it for two things.
    pub(super) fn read(bytes: &[u8], span: ByteSpan) -> Option<Self> {
        if is_object(bytes, span) {
            let mut read: Vec<(String, Self)> = Vec::new();
            for member in members(bytes, span) {
                read.push((member.key.text(bytes)?.into_owned(), Self::read(bytes, member.value)?));
            }
            let mut names: Vec<&str> = read.iter().map(|(key, _)| key.as_str()).collect();
            names.sort_unstable();
            let is_twice = names.windows(2).any(|pair| pair[0] == pair[1]);
            return (!is_twice).then_some(Self::Object(read));
        }
        if span.of(bytes).first() == Some(&b'[') {
            return elements(bytes, span).map(|at| Self::read(bytes, at)).collect::<Option<_>>().map(Self::List);
        }
        Some(Self::Plain(span.of(bytes).into()))
    }

    pub(super) fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Plain(text) => out.extend_from_slice(text),
            Self::List(items) => {
                out.push(b'[');
                for (place, item) in items.iter().enumerate() {
                    if place > 0 {
                        out.push(b',');
                    }
                    item.write(out);
                }
                out.push(b']');
            }
            Self::Object(members) => {
                out.push(b'{');
                for (place, (key, value)) in members.iter().enumerate() {
                    if place > 0 {
                        out.push(b',');
                    }
                    append_string(key, out);
                    out.push(b':');
                    value.write(out);
                }
                out.push(b'}');
            }
        }
    }

    pub(super) fn string(text: &str) -> Self {
        let mut out = Vec::with_capacity(text.len() + 2);
        append_string(text, &mut out);
        Self::Plain(out.into())
    }

    pub(super) fn empty() -> Self {
        Self::Object(Vec::new())
    }

    pub(super) fn members(&self) -> &[(String, Self)] {
        match self {
            Self::Object(members) => members,
            Self::List(_) | Self::Plain(_) => &[],
        }
    }

    pub(super) fn items(&self) -> &[Self] {
        match self {
            Self::List(items) => items,
            Self::Object(_) | Self::Plain(_) => &[],
        }
    }

    pub(super) fn get(&self, key: &str) -> Option<&Self> {
        self.members().iter().find(|(known, _)| known == key).map(|(_, value)| value)
    }

    pub(super) fn as_text(&self) -> Option<String> {
        match self {
            Self::Plain(text) => decode_string(text).map(|text| text.into_owned()),
            Self::Object(_) | Self::List(_) => None,
        }
    }

    /// About how much memory it takes.
    pub(super) fn weight(&self) -> usize {
        const EACH: usize = 32;
        EACH + match self {
            Self::Plain(text) => text.len(),
            Self::List(items) => items.iter().map(Self::weight).sum(),
            Self::Object(members) => members.iter().map(|(key, value)| key.len() + value.weight()).sum(),
        }
    }

    pub(super) fn is_plain(&self, text: &str) -> bool {
        matches!(self, Self::Plain(known) if **known == *text.as_bytes())
    }

    /// What a JSON pointer leads to; `None` where it leads nowhere.
    pub(super) fn at_pointer(&self, pointer: &str) -> Option<&Self> {
        let mut at = self;
        if pointer.is_empty() {
            return Some(at);
        }
        for part in pointer.strip_prefix('/')?.split('/') {
            // In this order: `~01` stands for `~1` and not for a slash.
            let part = part.replace("~1", "/").replace("~0", "~");
            at = match at {
                Self::Object(_) => at.get(&part)?,
                Self::List(items) => items.get(part.parse::<usize>().ok()?)?,
                Self::Plain(_) => return None,
            };
        }
        Some(at)
    }
}
