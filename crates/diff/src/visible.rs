//! Which characters do something else than to be seen, and a text with these told apart.

/// A piece of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VisibleSpan<'a> {
    /// Can be shown as it is; has ends of lines and tabs.
    Plain(&'a str),
    /// Has to be spelled out: it moves, hides or turns something.
    Marked(char),
}

/// Whether a character does something else than to be seen.
pub fn is_deceptive(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{feff}'
            | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{fdd0}'..='\u{fdef}'
            // Tags spell whole sentences that nobody sees.
            | '\u{e0000}'..='\u{e0fff}')
}

/// The text, with every such character told apart, but for the ends of lines and tabs.
pub fn visible(text: &str) -> Vec<VisibleSpan<'_>> {
    // Nearly every text is plain: one look at its bytes, and no list of places.
    if text.bytes().all(|byte| matches!(byte, b' '..=b'~' | b'\n' | b'\t')) {
        return Vec::from_iter((!text.is_empty()).then_some(VisibleSpan::Plain(text)));
    }
    let mut out = Vec::new();
    let mut start = 0;
    for (at, c) in text.char_indices().filter(|(_, c)| is_deceptive(*c) && !matches!(c, '\n' | '\t')) {
        if start < at {
            out.push(VisibleSpan::Plain(&text[start..at]));
        }
        out.push(VisibleSpan::Marked(c));
        start = at + c.len_utf8();
    }
    if start < text.len() {
        out.push(VisibleSpan::Plain(&text[start..]));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_not_be_seen_is_told_apart() {
        assert_eq!(visible("plain\ntext"), [VisibleSpan::Plain("plain\ntext")]);
        assert_eq!(
            visible("a\u{200b}\u{1b}b"),
            [
                VisibleSpan::Plain("a"),
                VisibleSpan::Marked('\u{200b}'),
                VisibleSpan::Marked('\u{1b}'),
                VisibleSpan::Plain("b")
            ]
        );
        assert_eq!(visible("ä\u{7f}"), [VisibleSpan::Plain("ä"), VisibleSpan::Marked('\u{7f}')]);
        assert_eq!(visible(""), []);
    }
}
