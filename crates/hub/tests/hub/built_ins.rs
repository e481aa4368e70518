//! Tools that are not listed, and tools of the program itself, whose names are their own.

use std::sync::Arc;

use proptest::prelude::*;
use serde_json::Value;
use tidings_hub::ServerId;
use tidings_hub::catalogue::{CatalogueSnapshot, ServerOffer};
use tidings_proto::{FieldView, ListKind, Revision};

use crate::generate::{offer, offers};

fn names(tools: &[&str]) -> Vec<String> {
    tools.iter().map(|name| (*name).to_owned()).collect()
}

fn built_in(id: u32, tools: &[&str]) -> Arc<ServerOffer> {
    Arc::new(ServerOffer { built_in: true, ..(*offer(id, "own", true, &names(tools))).clone() })
}

fn unlisted(offer: &Arc<ServerOffer>) -> Arc<ServerOffer> {
    Arc::new(ServerOffer { listed: false, ..(**offer).clone() })
}

fn snapshot(offers: &[Arc<ServerOffer>]) -> CatalogueSnapshot {
    CatalogueSnapshot::new(offers.to_vec(), FieldView::Strict)
}

fn listed(snapshot: &CatalogueSnapshot, kind: ListKind) -> Vec<String> {
    let page = snapshot.listing(kind, Revision::MODERN).page(None, usize::MAX - 1);
    let text = [b"[", &page.items[..], b"]"].concat();
    let items: Vec<Value> = serde_json::from_slice(&text).unwrap();
    items.iter().map(|item| item["name"].as_str().unwrap().to_owned()).collect()
}

// trust T7
#[test]
fn a_built_in_keeps_its_name_wherever_it_stands_and_whoever_imitates_it_has_a_prefix() {
    let imitations = ["call", "Call", "c-a.ll", "c\u{200b}all", "\u{441}all"];
    let server = |id| offer(id, "a", true, &names(&[imitations.as_slice(), &["other", "ca_ll"]].concat()));
    for offers in
        [[built_in(0, &["call", "c_a_ll", "find"]), server(1)], [server(0), built_in(1, &["call", "c_a_ll", "find"])]]
    {
        let snapshot = snapshot(&offers);
        let is_built_in = |name: &str| snapshot.tool(name).map(|route| snapshot.offer(route.server).unwrap().built_in);
        for name in ["call", "find", "own__call", "own:call", "mcp_own_call"] {
            assert_eq!(is_built_in(name), Some(true), "{name}");
        }
        for name in &imitations[1..] {
            assert_eq!(is_built_in(name), None, "{name:?} leads nowhere");
        }
        assert_eq!([is_built_in("a__call"), is_built_in("other"), is_built_in("ca_ll")], [Some(false); 3]);
        let own: Vec<String> =
            listed(&snapshot, ListKind::Tools).into_iter().filter(|name| !name.starts_with("a_")).collect();
        let mut own: Vec<&str> = own.iter().map(String::as_str).collect();
        own.sort_unstable();
        assert_eq!(own, ["c_a_ll", "ca_ll", "call", "find", "other"]);
        for offer in &offers {
            let displaced = snapshot.displaced_tools(offer);
            let mut displaced: Vec<&str> = displaced.map(|displaced| displaced.item.key.as_str()).collect();
            displaced.sort_unstable();
            let mut expected = if offer.built_in { Vec::new() } else { imitations.to_vec() };
            expected.sort_unstable();
            assert_eq!(displaced, expected);
        }
    }
}

#[test]
fn a_prefix_keeps_both() {
    let offers = [offer(0, "a", false, &names(&["call"])), built_in(1, &["call"])];
    let snapshot = snapshot(&offers);
    assert_eq!(listed(&snapshot, ListKind::Tools), ["a__call", "call"]);
    assert_eq!(snapshot.tool("call").map(|route| route.server), Some(ServerId(1)));
}

proptest! {
    #[test]
    fn a_built_in_keeps_every_name_and_everything_else_is_still_there(offers in offers()) {
        // With a tool of the same name as each of the first server's, and one of its own.
        let taken: Vec<&str> = offers.first().into_iter().flat_map(|o| &o.list(ListKind::Tools).items).map(|i| i.key.as_str()).collect();
        let mut with = offers.clone();
        let tools: Vec<&str> = taken.into_iter().chain(["only_mine"]).collect();
        with.push(built_in(1_000, &tools));
        let after = snapshot(&with);
        for tool in &tools {
            prop_assert_eq!(after.tool(tool).map(|route| route.server), Some(ServerId(1_000)), "{}", tool);
        }
        for offer in &with {
            for item in &offer.list(ListKind::Tools).items {
                let name = after.public_name(ListKind::Tools, offer.server, &item.key).unwrap();
                prop_assert_eq!(after.tool(name.as_str()).map(|route| (route.server, &route.local)), Some((offer.server, &item.key)));
            }
        }
    }

    // S0.2
    #[test]
    fn what_is_not_listed_is_no_part_of_what_clients_see_and_still_found(offers in offers(), other in offers()) {
        let hide = |offers: &[Arc<ServerOffer>]| {
            let mut hidden: Vec<_> = offers.iter().map(unlisted).collect();
            hidden.push(built_in(1_000, &["find only"]));
            snapshot(&hidden)
        };
        let (one, two) = (hide(&offers), hide(&other));
        prop_assert_eq!(listed(&one, ListKind::Tools), ["find only"]);
        prop_assert_eq!(one.digests(Revision::MODERN)[0], two.digests(Revision::MODERN)[0], "a change is no change");
        prop_assert_eq!(listed(&one, ListKind::Prompts), listed(&snapshot(&offers), ListKind::Prompts)
            .into_iter().chain(["find only".to_owned()]).collect::<Vec<_>>());
        for offer in &offers {
            for item in &offer.list(ListKind::Tools).items {
                let name = one.public_name(ListKind::Tools, offer.server, &item.key).unwrap();
                prop_assert_eq!(one.tool(name.as_str()).map(|route| route.server), Some(offer.server));
            }
        }
    }
}
