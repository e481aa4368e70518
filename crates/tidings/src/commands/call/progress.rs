//! One line of the terminal that shows how far a call is.

use std::io::{IsTerminal as _, Write as _};

use serde_json::Value;
use tidings_proto::notifications;

use crate::commands::terminal::{cut, harmless};

/// Shown on standard error, and only on a terminal: whoever reads the output of a command gets the result alone.
pub(super) struct ProgressLine {
    width: Option<usize>,
    shown: bool,
}

impl ProgressLine {
    pub(super) fn new() -> Self {
        let terminal = std::io::stderr().is_terminal();
        let size = rustix::termios::tcgetwinsize(rustix::stdio::stderr()).ok().map(|size| usize::from(size.ws_col));
        let width = size.filter(|width| *width > 0).unwrap_or(80);
        Self { width: terminal.then_some(width), shown: false }
    }

    /// Shows a notification, if it tells of progress.
    pub(super) fn show(&mut self, message: &Value) {
        let Some(width) = self.width else { return };
        if message["method"] != notifications::PROGRESS {
            return;
        }
        self.shown = true;
        let mut out = std::io::stderr().lock();
        let _ = write!(out, "\r\x1b[K{}", cut(&line(&message["params"]), width.saturating_sub(1)));
        let _ = out.flush();
    }

    /// Wipes the line, so that the result stands alone.
    pub(super) fn clear(&self) {
        if self.shown {
            let _ = write!(std::io::stderr().lock(), "\r\x1b[K");
        }
    }
}

fn line(params: &Value) -> String {
    let done = params["progress"].as_f64().unwrap_or(0.0);
    let far = match params["total"].as_f64() {
        Some(total) if total > 0.0 => format!("{:.0} %", (100.0 * done / total).clamp(0.0, 100.0)),
        _ => done.to_string(),
    };
    match params["message"].as_str() {
        Some(message) => format!("{far}  {}", harmless(message)),
        None => far,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    // edges F17
    #[test]
    fn progress_is_a_share_where_the_whole_is_known() {
        assert_eq!(line(&json!({"progress": 1, "total": 4, "message": "half\u{1b}"})), "25 %  half\\u{1b}");
        assert_eq!(line(&json!({"progress": 7.5})), "7.5");
    }
}
