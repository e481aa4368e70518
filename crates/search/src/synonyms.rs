//! Everyday words for the same thing, applied to the query only.
//!
//! The tables know the vocabulary of tools in general, not that of any server.

use std::collections::HashMap;
use std::sync::LazyLock;

use crate::stem::stem;

mod tables;

static SYNONYMS: LazyLock<HashMap<String, Vec<String>>> = LazyLock::new(|| {
    let mut synonyms: HashMap<String, Vec<String>> = HashMap::new();
    let mut add = |from: &str, to: &str| {
        let (from, to) = (stem(from), stem(to));
        let known = synonyms.entry(from.clone()).or_default();
        if from != to && !known.contains(&to) {
            known.push(to);
        }
    };
    for group in tables::SAME {
        for from in group.split(' ') {
            group.split(' ').for_each(|to| add(from, to));
        }
    }
    for (from, to) in tables::MEANS {
        for from in from.split(' ') {
            to.split(' ').for_each(|to| add(from, to));
        }
    }
    synonyms
});

/// The stems that may stand for a stem.
pub(crate) fn of(stem: &str) -> &'static [String] {
    SYNONYMS.get(stem).map_or(&[], Vec::as_slice)
}

/// Replaces phrases whose words mean something else together, and abbreviations of several words.
pub(crate) fn rewrite(words: &[String]) -> Vec<String> {
    let mut rewritten = Vec::with_capacity(words.len());
    let mut rest = words;
    while let Some((first, after)) = rest.split_first() {
        let phrase = tables::PHRASES.iter().find(|(phrase, _)| starts_with(rest, phrase));
        if let Some((phrase, meaning)) = phrase {
            rewritten.extend(meaning.split(' ').map(str::to_owned));
            rest = &rest[phrase.split(' ').count()..];
        } else {
            rewritten.push(first.clone());
            rest = after;
        }
    }
    rewritten
}

fn starts_with(words: &[String], phrase: &str) -> bool {
    let mut words = words.iter();
    phrase.split(' ').all(|expected| words.next().is_some_and(|word| word == expected))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_work_in_both_directions_and_meanings_in_one() {
        assert!(of(&stem("delete")).contains(&stem("remove")));
        assert!(of(&stem("remove")).contains(&stem("delete")));
        assert!(of(&stem("bug")).contains(&stem("issue")));
        assert!(!of(&stem("create")).contains(&stem("open")));
    }

    #[test]
    fn phrases_become_the_usual_word() {
        assert_eq!(rewrite(&crate::words::split("look up the PR")), ["search", "the", "pull", "request"]);
    }
}
