//! What every command that prints for people shares: colours, the width of the terminal, plurals, and text that can not
//! harm a terminal. What a command prints belongs to that command.

use std::io::IsTerminal as _;

use anstyle::{AnsiColor, Style};

use crate::plain_text;

pub(crate) const BOLD: Style = Style::new().bold();
pub(crate) const DIM: Style = Style::new().dimmed();
pub(crate) const KIND: Style = AnsiColor::Cyan.on_default();
pub(crate) const CAME: Style = AnsiColor::Green.on_default();
pub(crate) const WENT: Style = AnsiColor::Red.on_default();
pub(crate) const OTHER: Style = AnsiColor::Yellow.on_default();

/// Names longer than this do not push what stands beside them to the right.
pub(crate) const WIDEST_NAME: usize = 36;

/// How to write to one terminal, or to none.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TerminalPaint {
    /// Whether there are colours.
    pub(crate) colours: bool,
    /// Where lines end; without a terminal nowhere.
    pub(crate) width: Option<usize>,
}

impl TerminalPaint {
    pub(crate) fn for_stdout() -> Self {
        let terminal = std::io::stdout().is_terminal();
        let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let size = rustix::termios::tcgetwinsize(rustix::stdio::stdout()).ok().map(|size| usize::from(size.ws_col));
        Self {
            colours: terminal && !set("NO_COLOR") && !dumb,
            // Some terminals say 0.
            width: size.filter(|width| terminal && *width > 0),
        }
    }

    pub(crate) fn styled(self, style: Style, text: &str) -> String {
        if self.colours && !text.is_empty() { plain_text::style(style, text) } else { text.to_owned() }
    }
}

/// Text in a style, where standard output is a terminal that has styles and nobody set `NO_COLOR`.
pub(crate) fn styled(style: Style, text: &str) -> String {
    TerminalPaint::for_stdout().styled(style, text)
}

/// A number of things: `1 tool`, `2 tools`, `3 processes`.
pub(crate) fn plural(count: u64, word: &str) -> String {
    match count {
        1 => format!("1 {word}"),
        _ if word.ends_with('s') || word.ends_with("ch") => format!("{count} {word}es"),
        _ => format!("{count} {word}s"),
    }
}

/// The first line of a text, cut with "…" where it is longer than `width` characters.
pub(crate) fn cut(text: &str, width: usize) -> String {
    let line = text.trim().lines().next().unwrap_or_default().trim_end();
    if line.chars().count() <= width {
        return line.to_owned();
    }
    let shown: String = line.chars().take(width.saturating_sub(1)).collect();
    format!("{}…", shown.trim_end_matches([' ', ',', '.', ';', ':']))
}

/// The lines of a text that stands `beside` columns from the edge, broken between words where the terminal ends.
pub(crate) fn wrapped(text: &str, width: Option<usize>, beside: usize) -> Vec<String> {
    // Whoever reads a pipe gets whole lines; below 20 columns nothing would fit.
    let Some(room) = width.map(|width| width.saturating_sub(beside).max(20)) else {
        return text.lines().map(str::to_owned).collect();
    };
    let mut lines = Vec::new();
    for whole in text.lines() {
        let mut line = String::new();
        for word in whole.split(' ') {
            if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > room {
                lines.push(std::mem::take(&mut line));
            }
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
        lines.push(line);
    }
    lines
}

/// A server's text without anything that moves the cursor, changes colours or turns the direction of writing.
pub(crate) fn harmless(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\t' => out.push_str("    "),
            c if plain_text::is_deceptive(c) => out.extend(c.escape_unicode()),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    // edges F14
    #[test]
    fn one_thing_is_not_told_in_the_plural() {
        let told = [plural(0, "tool"), plural(1, "tool"), plural(2, "tool"), plural(2, "watch"), plural(3, "process")];
        assert_eq!(told, ["0 tools", "1 tool", "2 tools", "2 watches", "3 processes"]);
    }

    // edges F14
    #[test]
    fn what_is_too_wide_is_cut_with_an_ellipsis() {
        assert_eq!(cut("\n short \nmore", 20), "short");
        assert_eq!(cut("exactly ten", 11), "exactly ten");
        assert_eq!(cut("one, two and three", 6), "one…");
        assert_eq!(cut("żółć żółć", 6).chars().count(), 5);
        assert_eq!(cut("", 6), "");
    }

    // edges F14
    #[test]
    fn long_texts_are_broken_between_words() {
        let lines = wrapped("a sentence that is longer than the room there is\nand a second one", Some(34), 10);
        assert_eq!(lines, ["a sentence that is", "longer than the room", "there is", "and a second one"]);
        assert_eq!(wrapped("never cut without a terminal", None, 10), ["never cut without a terminal"]);
        assert_eq!(wrapped("", Some(80), 10), [""; 0]);
    }
}
