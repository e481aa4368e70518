//! Lines on standard output that are no messages: chatter, or an answer that broke.
//!
//! Many servers print to standard output what belongs on standard error; that must disturb nobody. But when the line is an
//! answer, whoever waits for it must hear at once that it will not come.

use tidings_wire::{FrameFault, RawId, ScanError, unreadable_answer_id};

/// How much of a message that is spread over several lines is looked at.
const LONGEST: usize = 1 << 20;

/// What is to be done about a line.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum LineVerdict {
    /// The answer to this call can not be read.
    Answer(RawId),
    /// An answer that can not be read, and that does not say to which call.
    SomeAnswer,
    /// Part of a message of which everything has been said, or will be when more of it is there.
    Fragment,
    /// Text that is no part of a message: a log line on the wrong stream.
    Chatter,
}

/// The beginning of a message that was broken into several lines, as by a printer that makes it pretty.
#[derive(Default)]
pub(super) struct LineFragments {
    text: Vec<u8>,
    open: bool,
    /// Somebody has been told.
    judged: bool,
}

impl LineFragments {
    /// A message came whole: what was before it is all there is of that.
    pub(super) fn end(&mut self) {
        *self = Self::default();
    }

    /// A line that is no message, and why.
    pub(super) fn line(&mut self, line: &[u8], fault: &FrameFault) -> LineVerdict {
        if line.starts_with(b"{") {
            // Only a message begins there; one that was broken is indented from its second line on, or was cut off.
            self.end();
        }
        if !self.open {
            let verdict = judge(line);
            // Only a message that is cut off goes on in the next line; any other fault is final.
            let begins = line.starts_with(b"{") && matches!(fault, FrameFault::Json(ScanError::Truncated));
            if begins {
                self.open = true;
                self.text = line[..line.len().min(LONGEST)].to_vec();
                self.judged = matches!(verdict, LineVerdict::Answer(_));
            }
            return if begins && verdict == LineVerdict::Chatter { LineVerdict::Fragment } else { verdict };
        }
        self.text.push(b'\n');
        self.text.extend_from_slice(line);
        // A printer that indents puts the last brace in the first column.
        let closes = line.starts_with(b"}") || self.text.len() > LONGEST;
        let verdict = match judge(&self.text) {
            _ if self.judged => LineVerdict::Fragment,
            // Its id may stand in one of the next lines.
            LineVerdict::SomeAnswer if !closes => LineVerdict::Fragment,
            LineVerdict::Chatter if !closes => LineVerdict::Fragment,
            verdict => verdict,
        };
        self.judged |= matches!(verdict, LineVerdict::Answer(_));
        if closes {
            self.end();
        }
        verdict
    }
}

fn judge(text: &[u8]) -> LineVerdict {
    /// What a message says of itself, up to its first member.
    const BEGIN: &[u8] = b"{\"jsonrpc\"";
    let is_message =
        // A line of one or two characters may be the very beginning.
        memchr::memmem::find(text, b"\"jsonrpc\"").is_some() || (text.len() > 1 && BEGIN.starts_with(text));
    match unreadable_answer_id(text) {
        _ if !is_message || !text.trim_ascii_start().starts_with(b"{") => LineVerdict::Chatter,
        Some(id) => LineVerdict::Answer(id),
        None if memchr::memmem::find(text, b"\"method\"").is_some() => LineVerdict::Chatter,
        None => LineVerdict::SomeAnswer,
    }
}

#[cfg(test)]
mod tests {
    use tidings_wire::{Frame, FrameLimits};

    use super::*;

    fn verdicts(lines: &[&str]) -> Vec<LineVerdict> {
        let mut fragments = LineFragments::default();
        let judge = |line: &&str| match Frame::parse(line.to_string(), &FrameLimits::default()) {
            Ok(_) => {
                fragments.end();
                LineVerdict::Fragment
            }
            Err(error) => fragments.line(line.as_bytes(), &error.fault),
        };
        lines.iter().map(judge).collect()
    }

    fn answer(id: u64) -> LineVerdict {
        LineVerdict::Answer(RawId::from(id))
    }

    // edges G5
    #[test]
    fn an_answer_over_several_lines_is_known_by_the_line_with_its_id() {
        use LineVerdict::Fragment;
        let pretty =
            ["{", "  \"jsonrpc\": \"2.0\",", "  \"id\": 7,", "  \"result\": {", "  {", "    \"id\": 8", "  }", "}"];
        let said = verdicts(&pretty);
        assert_eq!(said[..3], [Fragment, Fragment, answer(7)]);
        assert!(said[3..].iter().all(|verdict| *verdict == Fragment), "{said:?}");
        // What comes after it is judged by itself.
        let lines: Vec<&str> =
            pretty.into_iter().chain(["hello", r#"{"jsonrpc":"2.0","id":9,"result":NaN}"#]).collect();
        assert_eq!(verdicts(&lines)[8..], [LineVerdict::Chatter, answer(9)]);
    }

    // edges G5
    #[test]
    fn a_line_that_was_cut_is_judged_at_once_and_swallows_no_message() {
        assert_eq!(verdicts(&[r#"{"jsonrpc":"2.0","id":7,"resu"#]), [answer(7)]);
        assert_eq!(verdicts(&[r#"{"jsonrpc":"2.0","resu"#]), [LineVerdict::SomeAnswer]);
        assert_eq!(verdicts(&[r#"{"json"#]), [LineVerdict::SomeAnswer]);
        let whole = r#"{"jsonrpc":"2.0","id":8,"result":{}}"#;
        let lines = [r#"{"jsonrpc":"2.0","id":7,"resu"#, whole, r#"{"jsonrpc":"2.0","id":9,"x":"#];
        assert_eq!(verdicts(&lines), [answer(7), LineVerdict::Fragment, answer(9)]);
        let lines = [r#"{"jsonrpc":"2.0","id":7,"resu"#, "{", "  \"jsonrpc\": \"2.0\",", "  \"id\": 8,"];
        assert_eq!(verdicts(&lines)[2..], [LineVerdict::Fragment, answer(8)]);
    }

    #[test]
    fn chatter_is_no_answer() {
        for line in [
            "<!DOCTYPE html>",
            "Server listening on 3000",
            r#"{"level":"info","id":7,"msg":"x"}"#,
            "[INFO] ready",
            "{ id: 7 }",
            r#"{"jsonrpc":"2.0","method":"notifications/message","params":NaN}"#,
        ] {
            assert_eq!(verdicts(&[line]), [LineVerdict::Chatter], "{line}");
        }
        // An object that was printed for a human, over several lines.
        let said = verdicts(&["{", "  port: 3000,", "}", "next"]);
        assert_eq!(said, [LineVerdict::Fragment, LineVerdict::Fragment, LineVerdict::Chatter, LineVerdict::Chatter]);
    }
}
