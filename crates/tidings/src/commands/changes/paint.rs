//! Colours and width of the terminal, and text that can not harm it.

use std::io::IsTerminal as _;

use anstyle::{AnsiColor, Style};

pub(in crate::commands) const BOLD: Style = Style::new().bold();
pub(in crate::commands) const DIM: Style = Style::new().dimmed();
pub(in crate::commands) const KIND: Style = AnsiColor::Cyan.on_default();
pub(in crate::commands) const CAME: Style = AnsiColor::Green.on_default();
pub(in crate::commands) const WENT: Style = AnsiColor::Red.on_default();
pub(in crate::commands) const OTHER: Style = AnsiColor::Yellow.on_default();

/// How to write to one terminal, or to none.
#[derive(Clone, Copy, Debug)]
pub(in crate::commands) struct Paint {
    /// Whether there are colours.
    pub(in crate::commands) colours: bool,
    /// Where lines end; without a terminal nowhere.
    pub(in crate::commands) width: Option<usize>,
}

impl Paint {
    pub(in crate::commands) fn for_stdout() -> Self {
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

    pub(in crate::commands) fn styled(self, style: Style, text: &str) -> String {
        if self.colours && !text.is_empty() { format!("{style}{text}{style:#}") } else { text.to_owned() }
    }
}

/// A server's text without anything that moves the cursor, changes colours or turns the direction of writing.
pub(in crate::commands) fn harmless(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\t' => out.push_str("    "),
            c if c.is_control() || is_turning(c) => out.extend(c.escape_unicode()),
            c => out.push(c),
        }
    }
    out
}

fn is_turning(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}
