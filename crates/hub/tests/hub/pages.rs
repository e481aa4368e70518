//! Pages of a list: together they are the list, whatever happens between them.

use std::sync::Arc;

use proptest::prelude::*;
use serde_json::Value;
use tidings_hub::ServerId;
use tidings_hub::catalogue::{CatalogueSnapshot, LIST_END, ListPage, OfferItem, OfferList, PageKey, ServerOffer};
use tidings_proto::{FieldView, ListKind, Revision};

use crate::generate::offers;

/// Who the items of a page are, by the description that says where they come from.
fn read(page: &ListPage) -> Vec<String> {
    let text = [b"[", &page.items[..], b"]"].concat();
    let items: Vec<Value> = serde_json::from_slice(&text).unwrap();
    items.iter().map(|item| item["description"].as_str().unwrap().to_owned()).collect()
}

fn snapshot(offers: &[Arc<ServerOffer>]) -> CatalogueSnapshot {
    CatalogueSnapshot::new(offers.to_vec(), FieldView::Strict)
}

fn page(snapshot: &CatalogueSnapshot, after: Option<&PageKey>, size: usize) -> ListPage {
    let page = snapshot.listing(ListKind::Tools, Revision::LATEST_LEGACY).page(after, size);
    // What is written in one piece is the same as the pieces.
    let closed = (page.next.is_none() && !page.items.is_empty()).then(|| [&page.items[..], LIST_END].concat());
    assert_eq!(page.closed.as_deref(), closed.as_deref());
    page
}

fn expected(offers: &[Arc<ServerOffer>]) -> Vec<String> {
    let list = |offer: &Arc<ServerOffer>| -> Vec<String> {
        offer.list(ListKind::Tools).in_order().map(|(_, item)| format!("{}/{}", offer.name, item.key)).collect()
    };
    offers.iter().flat_map(list).collect()
}

proptest! {
    #[test]
    fn pages_of_any_size_are_the_list_once_and_in_order(offers in offers(), size in 0..12usize) {
        let snapshot = snapshot(&offers);
        let (mut seen, mut after, mut pages) = (Vec::new(), None, 0);
        loop {
            let page = page(&snapshot, after.as_ref(), size);
            let items = read(&page);
            prop_assert!(items.len() <= size.max(1));
            seen.extend(items);
            pages += 1;
            match page.next {
                Some(next) => after = Some(next),
                None => break,
            }
        }
        let all = expected(&offers);
        prop_assert_eq!(pages, all.len().div_ceil(size.max(1)).max(1));
        prop_assert_eq!(snapshot.listing(ListKind::Tools, Revision::LATEST_LEGACY).len(), all.len());
        prop_assert_eq!(seen, all);
    }

    // bridging 43
    #[test]
    fn a_server_that_vanishes_between_pages_costs_only_its_own_items(
        offers in offers(),
        size in 1..5usize,
        vanishing in any::<proptest::sample::Index>(),
        at in 0..6usize,
    ) {
        let gone = offers[vanishing.index(offers.len())].server;
        let rest: Vec<_> = offers.iter().filter(|offer| offer.server != gone).cloned().collect();
        let (before, later) = (snapshot(&offers), snapshot(&rest));
        let (mut seen, mut after, mut number) = (Vec::new(), None, 0);
        loop {
            let page = page(if number < at { &before } else { &later }, after.as_ref(), size);
            seen.extend(read(&page));
            number += 1;
            match page.next {
                Some(next) => after = Some(next),
                None => break,
            }
        }
        let gone_name = format!("{}/", offers.iter().find(|offer| offer.server == gone).unwrap().name);
        seen.retain(|item| !item.starts_with(&gone_name));
        prop_assert_eq!(seen, expected(&rest));
    }
}

#[test]
fn an_empty_catalogue_has_one_empty_page() {
    let none = snapshot(&[]);
    let page = page(&none, Some(&PageKey { server: 3, keys: vec!["x".into()], place: 1 }), 10);
    assert!(page.items.is_empty() && page.next.is_none());
    assert!(none.listing(ListKind::Tools, Revision::MODERN).is_empty());
    assert_eq!(none.offer(ServerId(0)).map(|offer| offer.server), None);
}

fn tool(key: &str) -> OfferItem {
    let raw = serde_json::json!({"name": key, "description": format!("one/{key}")}).to_string();
    OfferItem::read(ListKind::Tools, raw.into(), false).unwrap()
}

fn one(keys: &[&str]) -> ServerOffer {
    ServerOffer::new(ServerId(0), "one").offering(ListKind::Tools, keys.iter().map(|key| tool(key)).collect())
}

// edges C7
#[test]
fn a_list_has_the_order_of_its_server_and_pages_go_on_where_they_were_whatever_left() {
    let whole = ["d", "a", "c", "b", "f", "e"];
    let all = CatalogueSnapshot::new(vec![Arc::new(one(&whole))], FieldView::Strict);
    assert_eq!(read(&page(&all, None, 10)), ["one/d", "one/a", "one/c", "one/b", "one/f", "one/e"]);
    let first = page(&all, None, 3);
    assert_eq!(read(&first), ["one/d", "one/a", "one/c"]);
    // The last item of the page has gone, and one before it.
    let fewer = CatalogueSnapshot::new(vec![Arc::new(one(&["a", "b", "f", "e"]))], FieldView::Strict);
    assert_eq!(read(&page(&fewer, first.next.as_ref(), 10)), ["one/b", "one/f", "one/e"]);
    let other = CatalogueSnapshot::new(vec![Arc::new(one(&["x", "y", "z", "e"]))], FieldView::Strict);
    assert_eq!(read(&page(&other, first.next.as_ref(), 10)), ["one/e"], "by its place when nothing is left");
}

// edges C7
#[test]
fn another_order_alone_is_no_change_and_a_change_takes_the_order_that_came_with_it() {
    let before = one(&["b", "a", "c"]).list(ListKind::Tools).clone();
    let keys = |list: &OfferList| list.in_order().map(|(_, item)| item.key.to_string()).collect::<Vec<_>>();
    let reordered = one(&["c", "a", "b"]).list(ListKind::Tools).clone().following(&before);
    assert!(reordered.says_the_same(&before));
    assert_eq!(keys(&reordered), ["b", "a", "c"]);
    let grown = one(&["c", "d", "a", "b"]).list(ListKind::Tools).clone().following(&before);
    assert!(!grown.says_the_same(&before));
    assert_eq!(keys(&grown), ["c", "d", "a", "b"]);
}
