//! Unigram: of all ways to cut a piece into tokens the one that is most likely.

use std::collections::HashMap;

use super::file::ModelPart;

/// How much less likely than the least likely token an unknown letter is, as SentencePiece has it.
const UNKNOWN: f32 = 10.0;

#[derive(Debug)]
pub(super) struct Unigram {
    tokens: HashMap<Box<str>, u32>,
    scores: Vec<f32>,
    bytes: Option<Vec<u32>>,
    unknown: Option<u32>,
    least: f32,
    /// Letters of the longest token.
    longest: usize,
    memory: usize,
}

impl Unigram {
    pub(super) fn new(part: ModelPart) -> Result<Self, String> {
        if part.vocab.scores.is_empty() {
            return Err("its Unigram has no scores".into());
        }
        let bytes = if part.byte_fallback { part.vocab.byte_tokens() } else { None };
        Ok(Self {
            memory: part.vocab.bytes(),
            least: part.vocab.scores.iter().copied().fold(f32::INFINITY, f32::min),
            longest: part.vocab.tokens.keys().map(|token| token.chars().count()).max().unwrap_or(1),
            tokens: part.vocab.tokens,
            scores: part.vocab.scores,
            unknown: part.unk_id,
            bytes,
        })
    }

    pub(super) fn bytes(&self) -> usize {
        self.memory
    }

    pub(super) fn encode(&self, piece: &str, out: &mut Vec<u32>) {
        let mut ends: Vec<usize> = piece.char_indices().map(|(at, _)| at).collect();
        ends.push(piece.len());
        let letters = ends.len() - 1;
        // For each place the best score of what is before it, and the token that ends there with where it begins.
        let mut best: Vec<(f32, usize, Option<u32>)> = vec![(f32::NEG_INFINITY, 0, None); letters + 1];
        best[0].0 = 0.0;
        for start in 0..letters {
            let before = best[start].0;
            let mut single = false;
            for end in start + 1..=letters.min(start + self.longest) {
                let Some(token) = self.tokens.get(&piece[ends[start]..ends[end]]) else { continue };
                single |= end == start + 1;
                let score = before + self.scores[*token as usize];
                if score > best[end].0 {
                    best[end] = (score, start, Some(*token));
                }
            }
            // As in SentencePiece, a letter with a token of its own is never unknown.
            let score = before + self.least - UNKNOWN;
            if !single && score > best[start + 1].0 {
                best[start + 1] = (score, start, None);
            }
        }
        let mut found = Vec::new();
        let mut at = letters;
        while at > 0 {
            let (_, start, token) = best[at];
            match (token.filter(|token| Some(*token) != self.unknown), &self.bytes) {
                (Some(token), _) => found.push(token),
                (None, Some(bytes)) => {
                    // Backwards, because the tokens are collected from the end of the piece.
                    found.extend(piece[ends[start]..ends[at]].bytes().rev().map(|byte| bytes[usize::from(byte)]));
                }
                (None, None) => {}
            }
            at = start;
        }
        out.extend(found.into_iter().rev());
    }
}
