//! The difference between two texts, word by word.

use similar::DiffOp;

use crate::lines::operations;
use crate::visible::is_deceptive;

/// A piece of a difference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WordSpan {
    /// Stands in both texts.
    Same(String),
    /// Stands only in the text before.
    Gone(String),
    /// Stands only in the text of now.
    Come(String),
}

/// What leads from one text to the other: what stands in both and what is gone make up the text before, what stands in both and what
/// has come the text of now.
pub fn words(before: &str, after: &str) -> Vec<WordSpan> {
    let (old, new) = (tokens(before), tokens(after));
    let mut out = DifferenceText::default();
    let ops = operations(&old, &new);
    for (at, op) in ops.iter().enumerate() {
        let (old, new) = (old[op.old_range()].concat(), new[op.new_range()].concat());
        // At the ends a space is part of what stayed.
        let is_between = at > 0 && at + 1 < ops.len();
        match op {
            // A space between two changed words would cut one change into many that nobody can read.
            DiffOp::Equal { .. } if !(is_between && old.chars().all(|c| c == ' ')) => out.same(old),
            _ => out.replace(&old, &new),
        }
    }
    out.finish()
}

/// Words, runs of space, and every other character by itself.
fn tokens(text: &str) -> Vec<&str> {
    #[derive(Clone, Copy, PartialEq, Eq)]
    enum Class {
        Word,
        Space,
        Alone,
    }
    let class = |c: char| match c {
        // Nearly all characters of nearly all texts: the questions below take most of the time of a difference.
        'a'..='z' | 'A'..='Z' | '0'..='9' | '_' => Class::Word,
        ' ' => Class::Space,
        '\n' => Class::Alone,
        // By itself, so that a word it hides in is shown as the same word.
        c if is_deceptive(c) && c != '\t' => Class::Alone,
        c if c.is_whitespace() => Class::Space,
        c if c.is_alphanumeric() => Class::Word,
        _ => Class::Alone,
    };
    let mut out = Vec::new();
    let mut start = 0;
    let mut last = None;
    for (at, c) in text.char_indices() {
        let now = class(c);
        if last.is_some_and(|last| last != now || now == Class::Alone) {
            out.push(&text[start..at]);
            start = at;
        }
        last = Some(now);
    }
    if start < text.len() {
        out.push(&text[start..]);
    }
    out
}

/// Gathers what belongs together: between two pieces that are the same stands one gone and one come.
#[derive(Default)]
struct DifferenceText {
    spans: Vec<WordSpan>,
    gone: String,
    come: String,
}

impl DifferenceText {
    fn replace(&mut self, old: &str, new: &str) {
        self.gone.push_str(old);
        self.come.push_str(new);
    }

    fn same(&mut self, text: String) {
        self.flush();
        if !text.is_empty() {
            self.spans.push(WordSpan::Same(text));
        }
    }

    fn flush(&mut self) {
        let (gone, come) = (std::mem::take(&mut self.gone), std::mem::take(&mut self.come));
        self.spans.extend((!gone.is_empty()).then_some(WordSpan::Gone(gone)));
        self.spans.extend((!come.is_empty()).then_some(WordSpan::Come(come)));
    }

    fn finish(mut self) -> Vec<WordSpan> {
        self.flush();
        self.spans
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(before: &str, after: &str) -> String {
        let span = |span: &WordSpan| match span {
            WordSpan::Same(text) => text.clone(),
            WordSpan::Gone(text) => format!("[-{text}-]"),
            WordSpan::Come(text) => format!("[+{text}+]"),
        };
        words(before, after).iter().map(span).collect()
    }

    #[test]
    fn words_that_came_and_went_stand_where_they_are() {
        assert_eq!(told("Search the code.", "Search all the code."), "Search [+all +]the code.");
        assert_eq!(told("one two three", "one 2 3 three"), "one [-two-][+2 3+] three");
        assert_eq!(told("a long sentence", "another short text"), "[-a long sentence-][+another short text+]");
        assert_eq!(told("same", "same"), "same");
        assert_eq!(told("", "new"), "[+new+]");
    }

    #[test]
    fn a_character_that_hides_in_a_word_is_shown_alone() {
        assert_eq!(told("password", "pass\u{200b}word"), "[-password-][+pass\u{200b}word+]");
        assert_eq!(told("a pass word", "a pass\u{200b} word"), "a pass[+\u{200b}+] word");
    }
}
