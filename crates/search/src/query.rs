//! From a query to a ranking.
//!
//! Each word of the query becomes a concept: the terms of the index that express it, each with a weight. A document scores
//! once per concept, by its best term, so a tool that says "get, fetch or read" does not win by repeating itself.

use std::cmp::{Ordering, Reverse};
use std::collections::HashSet;

use crate::index::SearchHit;
use crate::postings::{IndexTerm, NameKey, Postings, Slot};
use crate::stem::stem;
use crate::typo::MistypedWord;
use crate::vectors::VectorTable;
use crate::{synonyms, words};

/// Longer queries are cut: a bound on the work a caller can ask for.
const MAX_LETTERS: usize = 1_000;
const MAX_WORDS: usize = 32;
const MAX_COMPLETIONS: usize = 16;
const MAX_CORRECTIONS: usize = 4;
const MIN_PREFIX: usize = 3;

const EXACT: f32 = 1.0;
const SYNONYM: f32 = 0.6;
const COMPLETION: f32 = 0.35;
const COMPLETION_OF_UNKNOWN: f32 = 0.7;
const CORRECTION: [f32; 3] = [1.0, 0.6, 0.4];
/// Two neighbouring words of the query as one: a compound, or the order of words in a name.
const PAIR: f32 = 0.4;
/// How much of the score depends on covering all the known words of the query.
const COVERAGE: f32 = 0.4;
/// Less than this near, a tool that shares no word with the question is not found.
const MIN_NEAR: f32 = 0.2;
/// How much a tool gains, as a share of the best score, that was always used after this very question.
const PREFERRED: f32 = 0.6;
/// Above any sum of word scores.
const FULL_NAME: f32 = 1_000.0;
const PUBLIC_NAME: f32 = 10_000.0;

struct QueryConcept<'a> {
    alternatives: Vec<(&'a IndexTerm, f32)>,
    /// How telling the concept is: rare ones more.
    rarity: f32,
    /// A pair repeats words that are counted already.
    is_pair: bool,
}

/// What a question means, and what the documents do.
pub(crate) struct QuestionMeaning<'a> {
    pub(crate) vector: Option<&'a [f32]>,
    pub(crate) vectors: &'a VectorTable,
    /// How much a tool gains that means exactly what is asked.
    pub(crate) weight: f32,
}

/// The best `limit` documents for a question. `boosts` are documents by name that were used after similar questions.
pub(crate) fn rank(
    postings: &Postings,
    meaning: &QuestionMeaning<'_>,
    query: &str,
    boosts: &[(String, f32)],
    limit: usize,
) -> Vec<SearchHit> {
    if limit == 0 || postings.len() == 0 {
        return Vec::new();
    }
    let end = query.char_indices().nth(MAX_LETTERS).map_or(query.len(), |(at, _)| at);
    let query = &query[..end];
    let mut words = words::split(query);
    words.truncate(MAX_WORDS);
    let mut scores = score(postings, &concepts(postings, &words));
    if let Some(vector) = meaning.vector {
        add_meaning(&meaning.vectors.similarities(vector, scores.len()), meaning.weight, &mut scores);
    }
    if !boosts.is_empty() {
        add_boosts(postings, boosts, &mut scores);
    }
    // Last, because the boosts before are a share of the best score, which a full name would raise far above all
    // others.
    add_full_names(postings, query, &words, &mut scores);

    let mut found: Vec<(Slot, f32)> = scores
        .into_iter()
        .enumerate()
        .filter(|(_, score)| *score > 0.0)
        .map(|(slot, score)| (slot as Slot, score))
        .collect();
    let better = |a: &(Slot, f32), b: &(Slot, f32)| compare(postings, a, b);
    if found.len() > limit {
        // Only what is returned is sorted; a common word may match thousands of tools.
        found.select_nth_unstable_by(limit - 1, better);
        found.truncate(limit);
    }
    found.sort_unstable_by(better);
    found.into_iter().filter_map(|(slot, score)| hit(postings, slot, score)).collect()
}

fn compare(postings: &Postings, a: &(Slot, f32), b: &(Slot, f32)) -> Ordering {
    let name = |slot| postings.entry(slot).map(|entry| &*entry.name);
    // The name decides between equal scores, because the order of slots depends on which tools came and went.
    b.1.total_cmp(&a.1).then_with(|| name(a.0).cmp(&name(b.0)))
}

fn hit(postings: &Postings, slot: Slot, score: f32) -> Option<SearchHit> {
    let entry = postings.entry(slot)?;
    Some(SearchHit { name: entry.name.as_ref().into(), server: entry.server.as_ref().into(), score })
}

/// The score of every slot.
fn score(postings: &Postings, concepts: &[QueryConcept<'_>]) -> Vec<f32> {
    // Pairs are left out here and below: their words are counted by themselves.
    let known: f32 = concepts.iter().filter(|c| !c.is_pair).map(|c| c.rarity).sum();
    let mut total = vec![0.0_f32; postings.slot_count()];
    let mut covered = vec![0.0_f32; postings.slot_count()];
    let mut best = vec![0.0_f32; postings.slot_count()];
    // Remembers which slots to reset, so that a rare word does not cost a pass over all tools.
    let mut touched: Vec<Slot> = Vec::new();
    for concept in concepts {
        for (term, weight) in &concept.alternatives {
            for posting in &term.postings {
                let best = &mut best[posting.slot as usize];
                if *best == 0.0 {
                    touched.push(posting.slot);
                }
                *best = best.max(weight * posting.prominence);
            }
        }
        for slot in touched.drain(..) {
            let slot = slot as usize;
            // The best term of a concept counts, and the sum is over concepts.
            total[slot] += std::mem::take(&mut best[slot]) * concept.rarity;
            if !concept.is_pair {
                covered[slot] += concept.rarity;
            }
        }
    }
    for (total, covered) in total.iter_mut().zip(covered) {
        *total *= 1.0 - COVERAGE + COVERAGE * covered / known.max(f32::MIN_POSITIVE);
    }
    total
}

/// Words and meaning add up: each finds what the other misses, and what both find comes first.
fn add_meaning(near: &[f32], weight: f32, scores: &mut [f32]) {
    for (score, near) in scores.iter_mut().zip(near) {
        if *score > 0.0 || *near >= MIN_NEAR {
            *score = (*score + weight * near).max(0.0);
        }
    }
}

fn add_boosts(postings: &Postings, boosts: &[(String, f32)], scores: &mut [f32]) {
    let best = scores.iter().copied().fold(0.0, f32::max);
    for (name, strength) in boosts {
        if let Some(slot) = postings.slot_of(name) {
            scores[slot as usize] += PREFERRED * strength * best;
        }
    }
}

/// A query that is the name of a tool means that tool.
fn add_full_names(postings: &Postings, query: &str, words: &[String], scores: &mut [f32]) {
    let stems: Vec<String> = words.iter().map(|word| stem(word)).collect();
    for slot in postings.slots_named(NameKey::new(&stems)) {
        scores[slot as usize] += FULL_NAME;
    }
    if let Some(slot) = postings.slot_of(query.trim()) {
        scores[slot as usize] += PUBLIC_NAME;
    }
}

fn concepts<'a>(postings: &'a Postings, words: &[String]) -> Vec<QueryConcept<'a>> {
    let mut seen = HashSet::new();
    let rewritten = synonyms::rewrite(words);
    let meaningful: Vec<&String> = rewritten.iter().filter(|word| !words::is_stop_word(word)).collect();
    // A question of stop words alone ("who is this") is searched by them rather than by nothing.
    let meaningful = if meaningful.is_empty() { rewritten.iter().collect() } else { meaningful };
    let mut concepts: Vec<QueryConcept<'a>> = meaningful
        .iter()
        .map(|word| (*word, stem(word)))
        .filter(|(_, stem)| seen.insert(stem.clone()))
        .map(|(word, stem)| QueryConcept::new(postings, expressions(postings, word, &stem), false))
        .collect();
    for pair in words.windows(2) {
        let stem = stem(&pair.concat());
        if seen.insert(stem.clone()) {
            let term = postings.term(&stem).map(|term| (term, PAIR));
            concepts.push(QueryConcept::new(postings, term.into_iter().collect(), true));
        }
    }
    concepts.retain(|concept| !concept.alternatives.is_empty());
    concepts
}

impl<'a> QueryConcept<'a> {
    fn new(postings: &Postings, alternatives: Vec<(&'a IndexTerm, f32)>, is_pair: bool) -> Self {
        let all = postings.len() as f32;
        let documents: f32 = alternatives.iter().map(|(term, weight)| term.postings.len() as f32 * weight).sum();
        let documents = documents.min(all);
        // The inverse document frequency of BM25; the 1 keeps words that are in more than half of all tools above zero.
        let rarity = (1.0 + (all - documents + 0.5) / (documents + 0.5)).ln();
        Self { alternatives, rarity, is_pair }
    }
}

/// The terms of the index that express a word.
fn expressions<'a>(postings: &'a Postings, word: &str, stem: &str) -> Vec<(&'a IndexTerm, f32)> {
    let exact = postings.term(stem).map(|term| (term, EXACT));
    let is_known = exact.is_some();
    let mut found: Vec<(&IndexTerm, f32)> = exact.into_iter().collect();
    for synonym in synonyms::of(stem) {
        found.extend(postings.term(synonym).map(|term| (term, SYNONYM)));
    }
    if stem.chars().count() >= MIN_PREFIX {
        let weight = if is_known { COMPLETION } else { COMPLETION_OF_UNKNOWN };
        let completions = postings.terms_with_prefix(stem, MAX_COMPLETIONS);
        found.extend(completions.into_iter().map(|term| (term, weight)));
    }
    // A word that the index knows in any form is taken as spelt right.
    if found.is_empty() {
        found = corrections(postings, word, stem);
    }
    found
}

fn corrections<'a>(postings: &'a Postings, word: &str, stem: &str) -> Vec<(&'a IndexTerm, f32)> {
    let Some(mistyped) = MistypedWord::new(word, stem) else { return Vec::new() };
    let mut near: Vec<(usize, &IndexTerm)> =
        postings.all_terms().filter_map(|term| Some((mistyped.distance_to(&term.text, term.letters)?, term))).collect();
    // Nearest first, then the more common word; the text makes the order independent of history.
    near.sort_unstable_by_key(|(edits, term)| (*edits, Reverse(term.postings.len()), &term.text));
    near.truncate(MAX_CORRECTIONS);
    near.into_iter().map(|(edits, term)| (term, CORRECTION[edits])).collect()
}
