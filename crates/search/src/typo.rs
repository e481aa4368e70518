//! Small typos: which known words are near an unknown one.
//!
//! Each term carries a 32-bit set of its letters. Sets that differ in more letters than the edits could explain are skipped,
//! which leaves a handful of candidates per word for the real distance; no further structure has to be kept up to date.

/// The letters of a word as a bit set.
pub(crate) fn letters(word: &str) -> u32 {
    word.chars().fold(0, |set, letter| {
        let bit = match letter {
            'a'..='z' => letter as u32 - 'a' as u32,
            '0'..='9' => 26,
            // All other letters share the last five bits: a collision costs a comparison and misses nothing.
            other => 27 + other as u32 % 5,
        };
        set | 1 << bit
    })
}

/// A word of a query that is not in the index, to be compared with the terms that are.
///
/// Terms are stems, and a typo in an ending hides it from the stemmer. So three spellings are tried: the stem ("serach"), the
/// word itself ("calander", whose "er" is no ending), and the word cut to the length of the term ("recipeints" and "recipi").
pub(crate) struct MistypedWord<'a> {
    word: &'a str,
    stem: &'a str,
    word_letters: u32,
    stem_letters: u32,
    /// For each length, where the word is to be cut and the letters before.
    cuts: Vec<(usize, u32)>,
    edits: usize,
}

/// Shorter stems begin too many words for a word to be cut to them.
const MIN_CUT: usize = 5;

impl<'a> MistypedWord<'a> {
    /// Nothing for words that are too short to be corrected.
    pub(crate) fn new(word: &'a str, stem: &'a str) -> Option<Self> {
        let edits = allowed(word);
        let cuts = word.char_indices().map(|(at, _)| (at, letters(&word[..at]))).collect();
        let (word_letters, stem_letters) = (letters(word), letters(stem));
        (edits > 0).then_some(Self { word, stem, word_letters, stem_letters, cuts, edits })
    }

    /// How many edits away a term is, if it is near enough.
    pub(crate) fn distance_to(&self, term: &str, term_letters: u32) -> Option<usize> {
        // A short word has near words by the dozen; those with another beginning are left out.
        if self.edits == 1 && !same_start(self.word, term) {
            return None;
        }
        let near = |text: &str, letters: u32, edits: usize| {
            if may_be_near(letters, term_letters, edits) { distance(text, term, edits) } else { None }
        };
        let whole = near(self.stem, self.stem_letters, self.edits).into_iter().chain(near(
            self.word,
            self.word_letters,
            self.edits,
        ));
        whole.min().or_else(|| {
            let length = term.chars().count();
            let &(at, letters) = self.cuts.get(length).filter(|_| length >= MIN_CUT)?;
            // What is cut off counts as an edit; a stem of the shortest length has to fit exactly.
            near(&self.word[..at], letters, usize::from(length > MIN_CUT)).map(|edits| edits.max(1))
        })
    }
}

/// How many edits a word of this length may be away.
fn allowed(word: &str) -> usize {
    match word.chars().count() {
        0..4 => 0,
        4..8 => 1,
        _ => 2,
    }
}

/// Whether two letter sets can belong to words that are at most `edits` apart: an edit changes at most two members.
fn may_be_near(a: u32, b: u32, edits: usize) -> bool {
    (a ^ b).count_ones() as usize <= 2 * edits
}

/// Whether two words begin alike, swapped letters allowed. A short word with another beginning is rather another word.
fn same_start(a: &str, b: &str) -> bool {
    let (mut a, mut b) = (a.chars(), b.chars());
    let (a, b) = ([a.next(), a.next()], [b.next(), b.next()]);
    a[0] == b[0] || (a[0] == b[1] && a[1] == b[0])
}

/// The distance (insertion, deletion, substitution, swapped neighbours), if it is at most `limit`.
fn distance(a: &str, b: &str, limit: usize) -> Option<usize> {
    let a: Vec<char> = a.chars().collect();
    let b: Vec<char> = b.chars().collect();
    if a.len().abs_diff(b.len()) > limit {
        return None;
    }
    let mut before: Vec<usize> = vec![0; b.len() + 1];
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let substituted = last[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            row[j] = substituted.min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                row[j] = row[j].min(before[j - 2] + 1);
            }
        }
        // No later row can get below the limit again, not even by a swap, which adds one to the row before the last.
        if row.iter().all(|&d| d > limit) {
            return None;
        }
        before = std::mem::replace(&mut last, row);
    }
    last.last().copied().filter(|&d| d <= limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edits_are_counted() {
        for (a, b, expected) in [
            ("search", "search", Some(0)),
            ("serach", "search", Some(1)),
            ("serch", "search", Some(1)),
            ("searrch", "search", Some(1)),
            ("calander", "calendar", Some(2)),
            ("calander", "columns", None),
        ] {
            assert_eq!(distance(a, b, 2), expected, "{a} {b}");
        }
    }

    #[test]
    fn typos_in_endings_are_seen_through() {
        for (word, term) in [
            ("recipeints", "recipi"),
            ("calander", "calendar"),
            ("notificatoin", "notif"),
            ("permisions", "permiss"),
            ("serach", "search"),
        ] {
            let stem = crate::stem::stem(word);
            let mistyped = MistypedWord::new(word, &stem).expect("long enough");
            assert!(mistyped.distance_to(term, letters(term)).is_some(), "{word}");
        }
    }

    proptest::proptest! {
        #[test]
        fn the_letter_sets_never_hide_a_near_word(a in "[a-f]{1,8}", b in "[a-f]{1,8}") {
            if let Some(edits) = distance(&a, &b, 2) {
                proptest::prop_assert!(may_be_near(letters(&a), letters(&b), edits));
            }
        }
    }
}
