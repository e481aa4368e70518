//! JSON strings in and out, and messages on one line.

use std::borrow::Cow;

use bytes::Bytes;

/// Decodes a raw JSON string (quotes included). `None` when it is not a string, or holds a lone surrogate.
pub fn decode_string(raw: &[u8]) -> Option<Cow<'_, str>> {
    let inner = raw.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
    // Nearly every string that is decoded is short and plain: told in one pass without branches.
    let is_plain = inner.iter().fold(true, |plain, b| plain & (*b >= 0x20) & (*b != b'"') & (*b != b'\\'));
    let inner = std::str::from_utf8(inner).ok()?;
    if is_plain {
        return Some(Cow::Borrowed(inner));
    }
    if inner.bytes().any(|b| b < 0x20) {
        return None;
    }
    let mut out = String::with_capacity(inner.len());
    let mut chars = inner.chars();
    while let Some(c) = chars.next() {
        // A quote inside means that this was no single string.
        if c == '"' {
            return None;
        }
        if c != '\\' {
            out.push(c);
            continue;
        }
        match chars.next()? {
            'b' => out.push('\u{8}'),
            'f' => out.push('\u{c}'),
            'n' => out.push('\n'),
            'r' => out.push('\r'),
            't' => out.push('\t'),
            'u' => out.push(unicode_escape(&mut chars)?),
            plain @ ('"' | '\\' | '/') => out.push(plain),
            _ => return None,
        }
    }
    Some(Cow::Owned(out))
}

fn unicode_escape(chars: &mut std::str::Chars<'_>) -> Option<char> {
    let high = hex4(chars)?;
    // Below or above the surrogates a code stands for itself; a low surrogate first is refused by `from_u32`.
    if !(0xD800..0xDC00).contains(&high) {
        return char::from_u32(high);
    }
    if chars.next()? != '\\' || chars.next()? != 'u' {
        return None;
    }
    let low = hex4(chars)?;
    if !(0xDC00..0xE000).contains(&low) {
        return None;
    }
    char::from_u32(0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00))
}

fn hex4(chars: &mut std::str::Chars<'_>) -> Option<u32> {
    let mut value = 0;
    for _ in 0..4 {
        value = value * 16 + chars.next()?.to_digit(16)?;
    }
    Some(value)
}

/// Encodes text as a JSON string, quotes included.
pub fn encode_string(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for piece in json_pieces(text) {
        out.push_str(piece);
    }
    out.push('"');
    out
}

/// Appends what [`encode_string`] gives, without a string in between.
pub fn append_string(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    for piece in json_pieces(text) {
        out.extend_from_slice(piece.as_bytes());
    }
    out.push(b'"');
}

/// How the characters below the blank are written in JSON.
const CONTROLS: [&str; 0x20] = [
    "\\u0000", "\\u0001", "\\u0002", "\\u0003", "\\u0004", "\\u0005", "\\u0006", "\\u0007", "\\u0008", "\\t", "\\n",
    "\\u000b", "\\u000c", "\\r", "\\u000e", "\\u000f", "\\u0010", "\\u0011", "\\u0012", "\\u0013", "\\u0014",
    "\\u0015", "\\u0016", "\\u0017", "\\u0018", "\\u0019", "\\u001a", "\\u001b", "\\u001c", "\\u001d", "\\u001e",
    "\\u001f",
];

/// The inside of a JSON string in pieces: runs that stand as they are, and escapes between them.
fn json_pieces(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        // JSON asks for no more: DEL, U+2028 and every other character may stand as it is.
        let plain = rest.bytes().position(|byte| byte < 0x20 || byte == b'"' || byte == b'\\').unwrap_or(rest.len());
        let piece = match rest.as_bytes().get(plain) {
            _ if plain > 0 => &rest[..plain],
            None => return None,
            Some(b'"') => "\\\"",
            Some(b'\\') => "\\\\",
            Some(control) => CONTROLS[usize::from(*control)],
        };
        rest = &rest[plain.max(1)..];
        Some(piece)
    })
}

/// The message on one line. In valid JSON a raw line break can only be white space between tokens, so turning it into
/// a space changes no value. Costs nothing when there is none.
pub fn one_line(bytes: &Bytes) -> Bytes {
    if memchr::memchr2(b'\n', b'\r', bytes).is_none() {
        return bytes.clone();
    }
    bytes.iter().map(|&b| if b == b'\n' || b == b'\r' { b' ' } else { b }).collect::<Vec<_>>().into()
}
