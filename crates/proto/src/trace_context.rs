//! Which trace a request belongs to, in the words of W3C Trace Context: read from `_meta` or from HTTP headers, and written there.

use std::fmt::{self, Write as _};

/// Longer lists of vendors are not passed on: the standard asks for no more than this.
const LONGEST_STATE: usize = 512;

/// One span of a trace: a `traceparent`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TraceParent {
    /// The trace.
    pub trace: [u8; 16],
    /// The span in it.
    pub span: [u8; 8],
    /// Whether whoever began the trace records it.
    pub sampled: bool,
}

impl TraceParent {
    /// Reads a `traceparent`. What is not valid is as good as none.
    pub fn parse(text: &str) -> Option<Self> {
        // Later versions may have more behind these four, and begin with them.
        let (known, rest) = (text.get(..55)?, &text[55..]);
        let mut parts = known.split('-');
        let (version, trace, span, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        let [version] = hex(version)?;
        let is_whole = if version == 0 { rest.is_empty() } else { rest.is_empty() || rest.starts_with('-') };
        let (trace, span, [flags]) = (hex(trace)?, hex(span)?, hex(flags)?);
        let is_valid = parts.next().is_none() && version != 0xff && is_whole && trace != [0; 16] && span != [0; 8];
        // Of the flags version 00 knows this one; the others are written as zero, as the standard asks.
        is_valid.then_some(Self { trace, span, sampled: flags & 1 == 1 })
    }
}

impl fmt::Display for TraceParent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("00-")?;
        self.trace.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
        f.write_char('-')?;
        self.span.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
        write!(f, "-{:02x}", u8::from(self.sampled))
    }
}

/// Lower case only, as the standard has it.
fn hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let text = text.as_bytes();
    if text.len() != 2 * N {
        return None;
    }
    let digit = |c: u8| match c {
        b'0'..=b'9' => Some(c - b'0'),
        b'a'..=b'f' => Some(c - b'a' + 10),
        _ => None,
    };
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(text.chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(bytes)
}

/// A span, and what vendors keep of its trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceContext {
    /// Which span.
    pub parent: TraceParent,
    /// `tracestate`, as it came.
    pub state: Option<Box<str>>,
}

impl TraceContext {
    /// What the two members, or headers, say. A state without a valid parent belongs to nothing.
    pub fn read(parent: Option<&str>, state: Option<&str>) -> Option<Self> {
        let parent = TraceParent::parse(parent?)?;
        let is_usable = |state: &&str| {
            !state.is_empty() && state.len() <= LONGEST_STATE && state.bytes().all(|c| (0x20..0x7f).contains(&c))
        };
        Some(Self { parent, state: state.filter(is_usable).map(Into::into) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VALID: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    // reach 7
    #[test]
    fn what_is_written_is_what_was_read() {
        let parent = TraceParent::parse(VALID).expect("valid");
        assert!(parent.sampled);
        assert_eq!(parent.to_string(), VALID);
        assert_eq!((parent.trace[0], parent.span[7]), (0x4b, 0xb7));
    }

    // reach 7
    #[test]
    fn what_is_not_valid_is_none() {
        for text in [
            "",
            "00",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0",
            "00-4bf92f3577b34da6a3ce929d0e0e47360-0f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e473é-00f067aa0ba902b7-01",
        ] {
            assert_eq!(TraceParent::parse(text), None, "{text}");
        }
        // A version that is not known yet.
        let later = TraceParent::parse("01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-02-more");
        assert!(later.is_some_and(|later| !later.sampled));
    }

    // reach 7
    #[test]
    fn a_state_belongs_to_a_parent_and_is_bounded() {
        assert_eq!(TraceContext::read(None, Some("a=1")), None);
        assert_eq!(TraceContext::read(Some("x"), Some("a=1")), None);
        let state = |state: &str| TraceContext::read(Some(VALID), Some(state)).and_then(|context| context.state);
        assert_eq!(state("a=1,b=2").as_deref(), Some("a=1,b=2"));
        assert_eq!(state(&"x".repeat(513)), None);
        assert_eq!(state("a=\u{7}"), None);
    }
}
