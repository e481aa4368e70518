//! Text of others as a person may see it: what moves a cursor, changes colours, hides itself or turns the direction of
//! writing is spelled out. The forms are those of JSON (`\u202e`), so that JSON stays JSON with the same meaning.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::sync::OnceLock;

use anstyle::Style;

pub(crate) use tidings_diff::is_deceptive;

/// The text with every such character spelled out, but for the ends of lines and tabs.
pub(crate) fn lines(text: &str) -> Cow<'_, str> {
    spelled(text, |c| matches!(c, '\n' | '\t'))
}

/// The same for a text that has to stay on its line.
pub(crate) fn line(text: &str) -> String {
    spelled(text, |_| false).into_owned()
}

/// Whether a character of a log line hides or turns something; the log itself sees to the others.
pub(crate) fn is_unseen(c: char) -> bool {
    is_deceptive(c) && !matches!(c, '\n' | '\t' | '\u{1b}')
}

/// A log line with those spelled out.
pub(crate) fn unseen_spelled(line: &str) -> Cow<'_, str> {
    spelled(line, |c| !is_unseen(c))
}

/// A style of ours in a text that goes to standard output. Only the layer that writes knows the mark, so that no text of
/// others can have one.
pub(crate) fn style(style: Style, text: &str) -> String {
    let mark = mark();
    // What a style writes is an escape sequence, whose beginning the layer puts back.
    let (begin, end) = (format!("{style}"), format!("{style:#}"));
    format!("{}{text}{}", begin.replace('\u{1b}', mark), end.replace('\u{1b}', mark))
}

/// The text with what deceives spelled out, and with its styles.
pub(crate) fn with_styles(text: &str) -> Cow<'_, str> {
    let mark = mark();
    if !text.contains(mark) {
        return lines(text);
    }
    let parts: Vec<Cow<'_, str>> = text.split(mark).map(lines).collect();
    Cow::Owned(parts.join("\u{1b}"))
}

/// A mark that nobody can know: it is another one in each process.
fn mark() -> &'static str {
    static MARK: OnceLock<String> = OnceLock::new();
    MARK.get_or_init(|| {
        let mut random = [0; 16];
        // Without random numbers the time has to do.
        if getrandom::fill(&mut random).is_err() {
            let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
            random = now.as_nanos().to_le_bytes();
        }
        // Unicode keeps these two for use inside programs; text from elsewhere should not have them.
        format!("\u{fdd0}{}\u{fdd1}", tidings_wire::hex(&random))
    })
}

fn spelled(text: &str, is_kept: impl Fn(char) -> bool) -> Cow<'_, str> {
    let is_shown = |c: char| is_kept(c) || !is_deceptive(c);
    if text.chars().all(is_shown) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_shown(c) {
            out.push(c);
        } else {
            let mut units = [0; 2];
            for unit in c.encode_utf16(&mut units) {
                // Writing to a string can not fail.
                let _ = write!(out, "\\u{unit:04x}");
            }
        }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    // trust T9
    #[test]
    fn what_deceives_is_spelled_out_and_everything_else_stays() {
        for harmless in ["", "plain", "żółć 日本語 🦀 e\u{301}", "two\nlines\tand a tab"] {
            assert!(matches!(lines(harmless), Cow::Borrowed(same) if same == harmless), "{harmless:?}");
        }
        assert_eq!(
            lines("\u{1b}[31mred\r\u{202e}txet\u{200b}\u{9b}K"),
            "\\u001b[31mred\\u000d\\u202etxet\\u200b\\u009bK"
        );
        assert_eq!(line("a\nb"), "a\\u000ab");
        assert_eq!(lines("\u{e0041}"), "\\udb40\\udc41", "a tag");
        let own = style(Style::new().bold(), "\u{1b}[2J");
        assert_eq!(with_styles(&own), "\u{1b}[1m\\u001b[2J\u{1b}[0m", "styles are ours, and nobody else's");
        let json = serde_json::json!({ "name": "x\u{202e}y\u{7f}" }).to_string();
        assert_eq!(
            serde_json::from_str::<serde_json::Value>(&lines(&json)).expect("JSON"),
            serde_json::json!({ "name": "x\u{202e}y\u{7f}" })
        );
    }
}
