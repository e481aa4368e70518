//! The `pre_tokenizer` of a tokenizer: where text is cut before tokens are looked for.

use serde_json::Value;

#[derive(Debug)]
pub(super) enum CutStep {
    /// At white space, which goes.
    Space,
    /// At white space and around each punctuation mark.
    Bert,
    /// Around runs of letters and runs of anything else.
    Words,
    /// Around each punctuation mark.
    Punctuation,
    /// Around digits.
    Digits { each: bool },
    /// Spaces become a letter, and each begins a piece.
    Metaspace { mark: char, prepend: Prepend, split: bool },
}

/// Whether a piece gets the mark though no space was before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Prepend {
    Always,
    First,
    Never,
}

/// The steps that a file asks for.
pub(super) fn steps(pre_tokenizer: &Value) -> Result<Vec<CutStep>, String> {
    let mut steps = Vec::new();
    collect(pre_tokenizer, &mut steps)?;
    Ok(steps)
}

fn collect(part: &Value, steps: &mut Vec<CutStep>) -> Result<(), String> {
    match part["type"].as_str() {
        None => {}
        Some("Sequence") => {
            for part in part["pretokenizers"].as_array().into_iter().flatten() {
                collect(part, steps)?;
            }
        }
        Some("WhitespaceSplit") => steps.push(CutStep::Space),
        Some("Whitespace") => steps.push(CutStep::Words),
        Some("BertPreTokenizer") => steps.push(CutStep::Bert),
        Some("Punctuation") => steps.push(CutStep::Punctuation),
        Some("Digits") => steps.push(CutStep::Digits { each: part["individual_digits"].as_bool().unwrap_or(false) }),
        Some("Metaspace") => {
            // Older files say `add_prefix_space` where newer ones say `prepend_scheme`.
            let prepend = match (part["prepend_scheme"].as_str(), part["add_prefix_space"].as_bool()) {
                (Some("never"), _) | (None, Some(false)) => Prepend::Never,
                (Some("first"), _) => Prepend::First,
                _ => Prepend::Always,
            };
            let mark = part["replacement"].as_str().and_then(|mark| mark.chars().next()).unwrap_or('▁');
            steps.push(CutStep::Metaspace { mark, prepend, split: part["split"].as_bool().unwrap_or(true) });
        }
        Some(other) => return Err(format!("its pre_tokenizer {other} is not known")),
    }
    Ok(())
}

impl CutStep {
    pub(super) fn apply(&self, piece: &str, first: bool, out: &mut Vec<String>) {
        match self {
            Self::Space => out.extend(piece.split_whitespace().map(str::to_owned)),
            Self::Bert => {
                for word in piece.split_whitespace() {
                    around(word, |a, b| is_punctuation(a) || is_punctuation(b), out);
                }
            }
            Self::Words => {
                let is_word = |letter: char| letter.is_alphanumeric() || letter == '_';
                for word in piece.split_whitespace() {
                    around(word, |a, b| is_word(a) != is_word(b), out);
                }
            }
            Self::Punctuation => around(piece, |a, b| is_punctuation(a) || is_punctuation(b), out),
            Self::Digits { each } => {
                let between = |a: char, b: char| a.is_numeric() != b.is_numeric() || (*each && a.is_numeric());
                around(piece, between, out);
            }
            Self::Metaspace { mark, prepend, split } => {
                let mut text: String = piece.chars().map(|letter| if letter == ' ' { *mark } else { letter }).collect();
                let wanted = *prepend == Prepend::Always || (*prepend == Prepend::First && first);
                if wanted && !text.starts_with(*mark) {
                    text.insert(0, *mark);
                }
                if *split { around(&text, |_, b| b == *mark, out) } else { out.push(text) }
            }
        }
    }
}

/// Cuts wherever `between` says so of two neighbours.
fn around(text: &str, between: impl Fn(char, char) -> bool, out: &mut Vec<String>) {
    let mut start = 0;
    let mut last = None;
    for (at, letter) in text.char_indices() {
        if last.is_some_and(|last| between(last, letter)) {
            out.push(text[start..at].to_owned());
            start = at;
        }
        last = Some(letter);
    }
    if start < text.len() {
        out.push(text[start..].to_owned());
    }
}

/// What BERT calls punctuation: all of ASCII that is no letter, and the usual marks of other scripts.
fn is_punctuation(letter: char) -> bool {
    letter.is_ascii_punctuation()
        || matches!(letter, '\u{a1}' | '\u{a7}' | '\u{ab}' | '\u{b6}' | '\u{b7}' | '\u{bb}' | '\u{bf}'
            | '\u{2010}'..='\u{2027}' | '\u{2030}'..='\u{2043}' | '\u{2045}'..='\u{2051}' | '\u{2053}'..='\u{205e}'
            | '\u{3001}'..='\u{3003}' | '\u{3008}'..='\u{3011}' | '\u{3014}'..='\u{301f}' | '\u{30fb}'
            | '\u{ff01}'..='\u{ff03}' | '\u{ff05}'..='\u{ff0a}' | '\u{ff0c}'..='\u{ff0f}' | '\u{ff1a}' | '\u{ff1b}'
            | '\u{ff1f}' | '\u{ff20}' | '\u{ff3b}'..='\u{ff3d}' | '\u{ff5f}'..='\u{ff65}')
}
