//! A whole catalogue as clients with profiles see it: names, hashes, what is listed.

use std::collections::BTreeSet;
use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Value, json};
use tidings_hub::catalogue::{CatalogueSnapshot, OfferExposure, ServerOffer};
use tidings_hub::client_profile::{SchemaRules, ToolExposure, VIEW_META, ViewShape};
use tidings_hub::scope::AccessScope;
use tidings_proto::{Era, FieldView, ListKind, Revision};

use crate::generate::{offer, offers};

fn shape(name_budget: usize) -> Arc<ViewShape> {
    Arc::new(ViewShape { name_budget: Some(name_budget), ..ViewShape::default() })
}

fn whole(offers: Vec<Arc<ServerOffer>>) -> Arc<CatalogueSnapshot> {
    Arc::new(CatalogueSnapshot::new(offers, FieldView::Strict))
}

/// The tools as a client reads them.
fn listed(seen: &CatalogueSnapshot) -> Vec<Value> {
    let items = seen.listing(ListKind::Tools, Revision::MODERN).page(None, usize::MAX).items;
    serde_json::from_slice(&[b"[", &items[..], b"]"].concat()).unwrap()
}

fn names(seen: &CatalogueSnapshot) -> Vec<String> {
    listed(seen).iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

fn digest(seen: &CatalogueSnapshot) -> tidings_wire::Digest {
    seen.digests(Revision::MODERN)[0]
}

proptest! {
    // reach 2, reach 8.2
    #[test]
    fn short_names_fit_are_unique_and_lead_where_the_whole_ones_do(offers in offers(), budget in 16..40usize) {
        let whole = whole(offers);
        let seen = whole.shaped(&shape(budget));
        let (full, short) = (listed(&whole), listed(&seen));
        prop_assert_eq!(full.len(), short.len(), "no tool is dropped");
        let unique: BTreeSet<&str> = short.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
        prop_assert_eq!(unique.len(), short.len());
        for (full, short) in full.iter().zip(&short) {
            let (full, name) = (full["name"].as_str().unwrap(), short["name"].as_str().unwrap());
            prop_assert!(name.len() <= budget, "{}", name);
            prop_assert_eq!(seen.tool(name), whole.tool(full));
            prop_assert_eq!(seen.tool(full), whole.tool(full), "the whole name still works");
            let said = &short["_meta"][VIEW_META]["fullName"];
            prop_assert_eq!(said.as_str(), (full != name).then_some(full));
        }
    }

    // reach 2; invariant 2
    #[test]
    fn after_any_change_of_one_server_a_shape_is_as_if_it_were_made_anew(
        before in offers(), after in offers(), budget in 16..40usize,
    ) {
        let shape = shape(budget);
        let mut changing = whole(before);
        digest(&changing.shaped(&shape));
        for offer in &after {
            changing = Arc::new(changing.with_kept(offer));
            let anew = whole(changing.offers().to_vec());
            let (changed, anew) = (changing.shaped(&shape), anew.shaped(&shape));
            prop_assert_eq!(listed(&changed), listed(&anew));
            prop_assert_eq!(digest(&changed), digest(&anew));
        }
    }

    // reach 2; invariant 2: two states that read alike have one hash, and two that do not have two.
    #[test]
    fn the_hash_of_a_shaped_view_moves_exactly_with_what_is_shown(
        before in offers(), after in offers(), budget in 16..40usize,
    ) {
        let shape = shape(budget);
        let (before, after) = (whole(before).shaped(&shape), whole(after).shaped(&shape));
        let owners = |seen: &CatalogueSnapshot| {
            let mut all: Vec<String> = seen.offers().iter().flat_map(|offer| {
                let items = &offer.list(ListKind::Tools).items;
                let name = |item: &tidings_hub::catalogue::OfferItem| seen.public_name(ListKind::Tools, offer.server, &item.key).cloned();
                items.iter().map(move |item| format!("{:?} {:?} {:?}", offer.server, name(item), item.raw)).collect::<Vec<_>>()
            }).collect();
            all.sort();
            all
        };
        prop_assert_eq!(owners(&before) == owners(&after), digest(&before) == digest(&after));
    }
}

// reach 2, reach 8.2
#[test]
fn another_profile_moves_the_hash_and_one_that_changes_nothing_does_not() {
    let whole = whole(vec![offer(0, "files", false, &["a_name_that_is_rather_long".to_owned()])]);
    let everybody = digest(&whole);
    assert_eq!(digest(&whole.shaped(&shape(64))), everybody);
    let (some, others) = (digest(&whole.shaped(&shape(30))), digest(&whole.shaped(&shape(20))));
    assert_ne!(some, everybody);
    assert_ne!(some, others);
    // Other lists are everybody's.
    let seen = whole.shaped(&shape(20));
    assert_eq!(seen.digests(Revision::MODERN)[1..], whole.digests(Revision::MODERN)[1..]);
}

// reach 2
#[test]
fn equal_shapes_share_one_view_and_what_is_left_as_it_is_shares_everybodys() {
    let whole = whole(vec![offer(0, "a", false, &["x".to_owned()]), offer(1, "b", false, &["n".repeat(40)])]);
    let (one, other) = (whole.shaped(&shape(20)), whole.shaped(&shape(20)));
    assert!(Arc::ptr_eq(&one, &other));
    // The first server is rendered once for both.
    let (all, short) = (names(&whole), names(&one));
    assert_eq!(all[0], short[0]);
    assert_ne!(all[1], short[1]);
}

// reach 2
#[test]
fn a_name_that_everybody_is_shown_is_never_the_short_name_of_something_else() {
    let long = "n".repeat(60);
    let alone = whole(vec![offer(0, "a", true, std::slice::from_ref(&long))]);
    let guessed = names(&alone.shaped(&shape(20))).remove(0);
    // Another server knows what the short name will be, and takes it.
    let both = whole(vec![offer(0, "a", true, &[long]), offer(1, "evil", true, std::slice::from_ref(&guessed))]);
    let seen = both.shaped(&shape(20));
    let shown = names(&seen);
    assert_eq!(shown[1], guessed);
    assert_ne!(shown[0], guessed);
    assert!(shown[0].len() <= 20);
    assert_eq!(seen.tool(&shown[0]).unwrap().server.0, 0);
    assert_eq!(seen.tool(&guessed).unwrap().server.0, 1);
}

// reach 2
#[test]
fn what_somebody_may_not_see_has_no_short_name() {
    let tools = ["n".repeat(40)];
    let whole = whole(vec![offer(0, "a", false, &tools), offer(1, "b", false, &tools)]);
    let scope = AccessScope::new(vec!["b".to_owned()], false, |pattern, name| pattern == name);
    let (all, some) = (names(&whole.shaped(&shape(20))), whole.seen_as(&scope, Some(&shape(20))));
    assert_eq!(names(&some), all[1..], "one name for everybody");
    assert_eq!(some.tool(&all[0]), None);
    assert!(some.tool(&all[1]).is_some());
}

// reach 2
#[test]
fn expose_chooses_what_is_listed_and_never_what_can_be_called() {
    let ordinary = offer(0, "a", false, &["x".to_owned()]);
    let search = ServerOffer {
        exposure: OfferExposure::FindsTools,
        built_in: true,
        listed: false,
        ..(*offer(1, "tidings", true, &["retrieve_tools".to_owned()])).clone()
    };
    let of_itself = ServerOffer {
        exposure: OfferExposure::OfItself,
        built_in: true,
        ..(*offer(2, "log_in", true, &["log_in".to_owned()])).clone()
    };
    let whole = whole(vec![ordinary, Arc::new(search), Arc::new(of_itself)]);
    for (expose, listed) in [
        (None, vec!["a__x", "log_in"]),
        (Some(ToolExposure::All), vec!["a__x", "log_in"]),
        (Some(ToolExposure::Search), vec!["retrieve_tools", "log_in"]),
        (Some(ToolExposure::Both), vec!["a__x", "retrieve_tools", "log_in"]),
    ] {
        let seen = whole.shaped(&Arc::new(ViewShape { expose, ..ViewShape::default() }));
        assert_eq!(names(&seen), listed, "{expose:?}");
        assert!(seen.tool("a__x").is_some() && seen.tool("retrieve_tools").is_some());
    }
}

// reach 2
#[test]
fn clients_of_revisions_without_meta_are_shown_none() {
    let whole = whole(vec![offer(0, "a", false, &["n".repeat(40)])]);
    let seen = whole.shaped(&shape(20));
    let read = |revision| -> Value {
        serde_json::from_slice(&seen.listing(ListKind::Tools, revision).page(None, 9).items).unwrap()
    };
    assert_eq!(read(Revision::V2025_03_26).get("_meta"), None);
    assert_eq!(
        read(Revision::V2025_06_18)["_meta"],
        json!({VIEW_META: {"fullName": format!("a__{}", "n".repeat(40))}})
    );
}

// reach 2
#[test]
fn a_tool_that_rules_mention_and_do_not_change_shares_everybodys_hash() {
    let whole = whole(vec![offer(0, "a", false, &["x".to_owned()])]);
    let schema = SchemaRules { inline_refs: true, no_top_combinators: true, object_output: true };
    let seen = whole.shaped(&Arc::new(ViewShape { schema, ..ViewShape::default() }));
    assert_eq!(digest(&seen), digest(&whole));
}

// reach 2
#[test]
fn a_page_of_everything_after_a_cursor_ends_with_the_list() {
    let whole = whole(vec![offer(0, "a", true, &["one", "two", "three"].map(str::to_owned))]);
    let list = whole.listing(ListKind::Tools, Revision::MODERN);
    let next = list.page(None, 1).next.unwrap();
    // Whoever reads one page gets everything on it, also with the cursor of somebody who does not.
    let rest = list.page(Some(&next), usize::MAX);
    assert_eq!(serde_json::from_slice::<Vec<Value>>(&[b"[", &rest.items[..], b"]"].concat()).unwrap().len(), 2);
}

// reach 2
#[test]
fn what_is_in_a_form_for_some_clients_is_not_public() {
    let mut modern = ServerOffer::clone(&offer(0, "a", true, &["one".to_owned()]));
    (modern.era, modern.current) = (Era::Modern, true);
    modern.lists[ListKind::Tools as usize].public = true;
    let whole = whole(vec![Arc::new(modern)]);
    assert!(whole.listing(ListKind::Tools, Revision::MODERN).public);
    assert!(!whole.shaped(&shape(20)).listing(ListKind::Tools, Revision::MODERN).public);
}
