//! Byte-pair encoding: letters are joined, the pair that was learnt first before others.

use std::collections::HashMap;

use super::file::{ModelPart, Vocabulary};

/// Spaces as SentencePiece writes them.
const MARK: char = '▁';

#[derive(Debug)]
pub(super) struct Bpe {
    tokens: HashMap<Box<str>, u32>,
    /// Which token two become, and how early that was learnt.
    merges: HashMap<(u32, u32), (u32, u32)>,
    bytes: Option<Vec<u32>>,
    /// Whether no token goes on after a mark of a space, so that words can be looked at one by one.
    words_apart: bool,
    memory: usize,
}

impl Bpe {
    pub(super) fn new(part: ModelPart) -> Result<Self, String> {
        if part.ignore_merges || part.dropout.is_some_and(|share| share > 0.0) {
            return Err("its BPE has options that are not known (ignore_merges, dropout)".into());
        }
        let affixes = [&part.continuing_subword_prefix, &part.end_of_word_suffix];
        if affixes.into_iter().flatten().any(|affix| !affix.is_empty()) {
            return Err("its BPE marks parts of words, which is not known".into());
        }
        let Vocabulary { tokens, .. } = &part.vocab;
        let mut merges = HashMap::new();
        for (rank, pair) in part.merges.unwrap_or_default().into_iter().enumerate() {
            let joined = format!("{}{}", pair.0, pair.1);
            let id = |token: &str| tokens.get(token).copied();
            let (Some(left), Some(right), Some(both)) = (id(&pair.0), id(&pair.1), id(&joined)) else {
                return Err(format!("its merge {joined:?} is not in the vocabulary"));
            };
            // A pair that is listed twice keeps its first rank: that is when it was learnt.
            merges.entry((left, right)).or_insert((rank as u32, both));
        }
        merges.shrink_to_fit();
        let inside = |token: &str| token.trim_start_matches(MARK).contains(MARK);
        let words_apart = !tokens.keys().any(|token| inside(token));
        let bytes = if part.byte_fallback { part.vocab.byte_tokens() } else { None };
        // 16 bytes of key and value, and one control byte of the hash table.
        let memory = part.vocab.bytes() + merges.capacity() * 17;
        Ok(Self { tokens: part.vocab.tokens, merges, bytes, words_apart, memory })
    }

    pub(super) fn bytes(&self) -> usize {
        self.memory
    }

    pub(super) fn encode(&self, text: &str, out: &mut Vec<u32>) {
        if !self.words_apart {
            return self.encode_whole(text, out);
        }
        let mut start = 0;
        let mut last = MARK;
        for (at, letter) in text.char_indices() {
            // Several marks in a row belong to the word after them.
            if letter == MARK && last != MARK {
                self.encode_whole(&text[start..at], out);
                start = at;
            }
            last = letter;
        }
        self.encode_whole(&text[start..], out);
    }

    fn encode_whole(&self, text: &str, out: &mut Vec<u32>) {
        let mut symbols: Vec<u32> = Vec::with_capacity(text.len());
        let mut buffer = [0; 4];
        for letter in text.chars() {
            let letter: &str = letter.encode_utf8(&mut buffer);
            match (self.tokens.get(letter), &self.bytes) {
                (Some(token), _) => symbols.push(*token),
                (None, Some(bytes)) => symbols.extend(letter.bytes().map(|byte| bytes[usize::from(byte)])),
                (None, None) => {}
            }
        }
        // Words are short: looking at all pairs again after each merge is faster than keeping a queue.
        loop {
            let pairs = symbols.windows(2).enumerate();
            let learnt = pairs.filter_map(|(at, pair)| Some((*self.merges.get(&(pair[0], pair[1]))?, at)));
            let Some(((_, both), at)) = learnt.min_by_key(|((rank, _), at)| (*rank, *at)) else { break };
            symbols[at] = both;
            symbols.remove(at + 1);
        }
        out.append(&mut symbols);
    }
}
