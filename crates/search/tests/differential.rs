//! The index follows the catalogue by differences.

use proptest::prelude::*;
use tidings_search::{DocId, IndexChange, SearchIndex, ToolDocument};

fn document(name: &str, description: &str) -> ToolDocument {
    ToolDocument {
        id: DocId { name: name.to_owned(), server: "server".to_owned() },
        name: name.to_owned(),
        title: None,
        description: description.to_owned(),
        about: String::new(),
        keywords: Vec::new(),
        parameters: Vec::new(),
    }
}

fn put(name: &str, description: &str) -> IndexChange {
    IndexChange::Put(document(name, description))
}

fn names(index: &SearchIndex, query: &str) -> Vec<String> {
    index.search(query, 10).into_iter().map(|hit| hit.name).collect()
}

// S3.6
#[test]
fn removing_the_last_tool_empties_the_results() {
    let index = SearchIndex::new();
    index.apply(&[put("alpha", "weather today"), put("beta", "weather tomorrow")]);
    assert_eq!(names(&index, "weather").len(), 2);
    index.apply(&[IndexChange::Remove("alpha".to_owned())]);
    assert_eq!(names(&index, "weather"), ["beta"]);
    index.apply(&[IndexChange::Remove("beta".to_owned())]);
    assert!(names(&index, "weather").is_empty() && names(&index, "beta").is_empty() && index.is_empty());
}

// S3.6
#[test]
fn a_changed_description_is_found_under_the_new_words_only() {
    let index = SearchIndex::new();
    index.apply(&[put("alpha", "gardening"), put("beta", "cooking")]);
    index.apply(&[put("alpha", "astronomy")]);
    assert_eq!(names(&index, "astronomy"), ["alpha"]);
    assert!(names(&index, "gardening").is_empty());
    assert_eq!(names(&index, "cooking"), ["beta"]);
    assert_eq!(index.len(), 2);
}

// S3.6
#[test]
fn words_of_a_removed_tool_are_no_longer_suggested() {
    let index = SearchIndex::new();
    index.apply(&[put("alpha", "gardening"), put("beta", "cooking")]);
    assert_eq!(names(&index, "gardning"), ["alpha"]);
    index.apply(&[IndexChange::Remove("alpha".to_owned())]);
    assert!(names(&index, "gardning").is_empty() && names(&index, "garde").is_empty());
}

// S3.6
#[test]
fn later_changes_of_one_commit_win() {
    let index = SearchIndex::new();
    index.apply(&[put("alpha", "gardening"), IndexChange::Remove("alpha".to_owned()), put("alpha", "cooking")]);
    assert!(names(&index, "gardening").is_empty());
    assert_eq!(names(&index, "cooking"), ["alpha"]);
    index.apply(&[IndexChange::Remove("nobody".to_owned())]);
    assert_eq!(index.len(), 1);
}

#[test]
fn searches_see_a_commit_whole_or_not_at_all() {
    let index = SearchIndex::new();
    let both = |word: &str| [put("alpha", word), put("beta", word)];
    index.apply(&both("gardening"));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            (0..200).for_each(|round| index.apply(&both(if round % 2 == 0 { "cooking" } else { "gardening" })))
        });
        for _ in 0..200 {
            let found = names(&index, "gardening cooking");
            assert_eq!(found, ["alpha", "beta"]);
            let one = names(&index, "gardening").len();
            assert!(one == 0 || one == 2, "{one}");
        }
    });
}

fn change() -> impl Strategy<Value = IndexChange> {
    let name = prop::sample::select(vec!["read_file", "write_file", "list_issues", "sendMail", "get-time", "file"]);
    let words = prop::sample::select(vec!["file", "files", "mail", "issue", "clock", "disk", "server", "garden"]);
    let text = prop::collection::vec(words, 0..5).prop_map(|words| words.join(" "));
    prop_oneof![
        3 => (name.clone(), text).prop_map(|(name, text)| put(name, &text)),
        1 => name.prop_map(|name| IndexChange::Remove(name.to_owned())),
    ]
}

proptest! {
    // S3.6
    #[test]
    fn any_history_gives_the_same_answers_as_a_fresh_index(commits in prop::collection::vec(prop::collection::vec(change(), 0..4), 0..12)) {
        let index = SearchIndex::new();
        let mut truth = std::collections::BTreeMap::new();
        for commit in &commits {
            index.apply(commit);
            for change in commit {
                match change {
                    IndexChange::Put(document) => truth.insert(document.id.name.clone(), document.clone()),
                    IndexChange::Remove(name) => truth.remove(name),
                };
            }
        }
        let fresh = SearchIndex::new();
        fresh.apply(&truth.into_values().map(IndexChange::Put).collect::<Vec<_>>());
        prop_assert_eq!(index.len(), fresh.len());
        for query in ["read file", "fil", "mial", "gardn clock", "list_issues", "server", "send a mail from disk"] {
            prop_assert_eq!(index.search(query, 10), fresh.search(query, 10), "{}", query);
        }
    }
}
