//! The index follows the catalogue: by differences, and always to the snapshot that is asked about.

use std::sync::Arc;

use bytes::Bytes;
use proptest::prelude::*;
use tidings_hub::ServerId;
use tidings_hub::catalogue::{CatalogueSnapshot, OfferItem, ServerOffer};
use tidings_proto::{FieldView as ItemView, ListKind};
use tidings_search::{FoundTool, IndexUpdate, Question, SearchView, ToolIndex};

fn offer(id: u32, name: &str, tools: &[(&str, &str)]) -> Arc<ServerOffer> {
    let item = |(name, description): &(&str, &str)| {
        let raw = format!(r#"{{"name":"{name}","description":"{description}","inputSchema":{{"type":"object"}}}}"#);
        OfferItem::read(ListKind::Tools, Bytes::from(raw), false).expect("a tool")
    };
    Arc::new(ServerOffer::new(ServerId(id), name).offering(ListKind::Tools, tools.iter().map(item).collect()))
}

fn snapshot(offers: &[Arc<ServerOffer>]) -> Arc<CatalogueSnapshot> {
    Arc::new(CatalogueSnapshot::new(offers.to_vec(), ItemView::Strict))
}

fn names(found: &[FoundTool]) -> Vec<&str> {
    found.iter().map(|found| found.local.as_str()).collect()
}

fn all(_: &FoundTool) -> bool {
    true
}

// S3.6
#[test]
fn only_what_changed_is_read_again() {
    let index = ToolIndex::new();
    let mail = offer(0, "mail", &[("send", "Send a letter"), ("list", "List letters"), ("drop", "Drop a letter")]);
    let files = offer(1, "files", &[("read", "Read a file")]);
    let first = snapshot(&[Arc::clone(&mail), Arc::clone(&files)]);
    assert_eq!(index.follow(|| Arc::clone(&first)), IndexUpdate { added: 4, ..IndexUpdate::default() });
    assert!(index.follow(|| Arc::clone(&first)).is_empty());
    // The same offer in other words: down, and up again.
    let stale = Arc::new(ServerOffer { current: false, ..(*mail).clone() });
    assert!(index.follow(|| snapshot(&[stale, Arc::clone(&files)])).is_empty());
    let mail = offer(0, "mail", &[("send", "Send a parcel"), ("list", "List letters"), ("sort", "Sort letters")]);
    let update = index.follow(|| snapshot(&[Arc::clone(&mail), Arc::clone(&files)]));
    assert_eq!(update, IndexUpdate { added: 1, changed: 1, removed: 1 });
    let gone = index.follow(|| snapshot(&[mail]));
    assert_eq!(gone, IndexUpdate { removed: 1, ..IndexUpdate::default() });
}

// S3.1
#[test]
fn a_search_sees_the_snapshot_it_is_asked_about() {
    let index = ToolIndex::new();
    let before = snapshot(&[offer(0, "mail", &[("send", "Send a letter")])]);
    let after = snapshot(&[offer(0, "mail", &[("send", "Send a letter"), ("frank", "Stamp a letter")])]);
    let empty = snapshot(&[offer(0, "mail", &[])]);
    let search = |at: &CatalogueSnapshot| index.search(at, SearchView::Shared, &Question::of_words("stamp"), 5, all);
    assert!(search(&before).is_empty());
    assert_eq!(names(&search(&after)), ["frank"]);
    assert!(search(&before).is_empty(), "an older one too");
    assert!(search(&empty).is_empty(), "also when the last tool goes");
}

// S3.8
#[test]
fn tools_that_are_not_wanted_do_not_take_the_places_of_others() {
    let index = ToolIndex::new();
    let many: Vec<String> = (0..60).map(|at| format!("letter_{at:02}")).collect();
    let tools: Vec<(&str, &str)> = many.iter().map(|name| (name.as_str(), "A letter")).collect();
    let both = snapshot(&[offer(0, "a", &tools), offer(1, "b", &[("letterbox", "Holds any letter you like to keep")])]);
    let found =
        index.search(&both, SearchView::Shared, &Question::of_words("letter"), 3, |found| found.server == ServerId(1));
    assert_eq!(names(&found), ["letterbox"]);
    let first = index.search(&both, SearchView::Shared, &Question::of_words("letter"), 3, all);
    assert_eq!(names(&first), ["letter_00", "letter_01", "letter_02"], "equally good ones by name");
}

#[test]
fn what_one_client_sees_does_not_show_to_others() {
    let index = ToolIndex::new();
    let shared = snapshot(&[offer(0, "a", &[("public", "Anything")])]);
    let own = snapshot(&[offer(0, "a", &[("secret", "Anything")])]);
    let search = |at: &CatalogueSnapshot, view| index.search(at, view, &Question::of_words("anything"), 5, all);
    assert_eq!(names(&search(&own, SearchView::Own)), ["secret"]);
    assert_eq!(names(&search(&shared, SearchView::Shared)), ["public"]);
    assert_eq!(names(&search(&shared, SearchView::Own)), ["public"]);
}

const WORDS: [&str; 6] = ["letter", "parcel", "stamp", "send", "sort", "list"];

proptest! {
    // S3.6
    #[test]
    fn following_step_by_step_ends_where_a_fresh_index_begins(
        steps in prop::collection::vec(
            prop::collection::vec(prop::collection::btree_map(0..6usize, 0..6usize, 0..5), 0..4), 1..6)
    ) {
        let followed = ToolIndex::new();
        for step in &steps {
            let offers: Vec<_> = step.iter().enumerate().map(|(id, tools)| {
                let tools: Vec<_> = tools.iter().map(|(name, text)| (WORDS[*name], WORDS[*text])).collect();
                offer(id as u32, "s", &tools)
            }).collect();
            let now = snapshot(&offers);
            followed.follow(|| Arc::clone(&now));
            for word in WORDS {
                let fresh = ToolIndex::new().search(&now, SearchView::Shared, &Question::of_words(word), 50, all);
                prop_assert_eq!(followed.search(&now, SearchView::Shared, &Question::of_words(word), 50, all), fresh);
            }
        }
    }
}
