//! WordPiece: of each word the longest beginning that is a token, then the longest of the rest.

use std::collections::HashMap;

use super::file::ModelPart;

#[derive(Debug)]
pub(super) struct WordPiece {
    tokens: HashMap<Box<str>, u32>,
    /// What stands before a token that does not begin its word.
    prefix: String,
    unknown: Option<u32>,
    max_letters: usize,
    memory: usize,
}

impl WordPiece {
    pub(super) fn new(part: ModelPart) -> Result<Self, String> {
        let unknown = part.unk_token.as_deref().and_then(|token| part.vocab.tokens.get(token).copied());
        Ok(Self {
            memory: part.vocab.bytes(),
            tokens: part.vocab.tokens,
            prefix: part.continuing_subword_prefix.unwrap_or_else(|| "##".to_owned()),
            unknown,
            max_letters: part.max_input_chars_per_word.unwrap_or(100),
        })
    }

    pub(super) fn token(&self, text: &str) -> Option<u32> {
        self.tokens.get(text).copied()
    }

    pub(super) fn bytes(&self) -> usize {
        self.memory
    }

    pub(super) fn encode(&self, word: &str, out: &mut Vec<u32>) {
        let before = out.len();
        let mut rest = word;
        // The model's own tokenizer takes such a word for unknown, and what is unknown has no meaning.
        if word.chars().count() > self.max_letters {
            return;
        }
        let mut candidate = String::new();
        while !rest.is_empty() {
            let ends = rest.char_indices().map(|(at, letter)| at + letter.len_utf8());
            let found = ends.collect::<Vec<_>>().into_iter().rev().find_map(|end| {
                candidate.clear();
                if out.len() > before {
                    candidate.push_str(&self.prefix);
                }
                candidate.push_str(&rest[..end]);
                Some((*self.tokens.get(candidate.as_str())?, end))
            });
            match found {
                Some((token, end)) => {
                    out.push(token);
                    rest = &rest[end..];
                }
                // A word that is not known to its end is not known at all.
                None => return out.truncate(before),
            }
        }
        if out.get(before) == self.unknown.as_ref() {
            out.truncate(before);
        }
    }
}
