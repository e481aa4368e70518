//! Tools that are not listed, and tools of the program itself that give way to those of servers.

use std::sync::Arc;

use proptest::prelude::*;
use serde_json::Value;
use tidings_hub::ServerId;
use tidings_hub::catalogue::{CatalogueSnapshot, ServerOffer};
use tidings_proto::{FieldView, ListKind, LocalName, Revision};

use crate::generate::{offer, offers};

fn names(tools: &[&str]) -> Vec<String> {
    tools.iter().map(|name| (*name).to_owned()).collect()
}

fn built_in(id: u32, tools: &[&str]) -> Arc<ServerOffer> {
    Arc::new(ServerOffer { yields: true, ..(*offer(id, "own", true, &names(tools))).clone() })
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

#[test]
fn a_server_wins_the_name_of_a_built_in_wherever_it_stands() {
    let server = |id| offer(id, "a", true, &names(&["call", "other"]));
    for offers in [[built_in(0, &["call", "find"]), server(1)], [server(0), built_in(1, &["call", "find"])]] {
        let snapshot = snapshot(&offers);
        let is_built_in = |id: ServerId| snapshot.offer(id).unwrap().yields;
        assert!(!is_built_in(snapshot.tool("call").unwrap().server));
        assert!(is_built_in(snapshot.tool("find").unwrap().server));
        for alias in ["own__call", "own:call", "mcp_own_call"] {
            assert_eq!(snapshot.tool(alias), None, "{alias} is hidden too");
        }
        let mut all = listed(&snapshot, ListKind::Tools);
        all.sort();
        assert_eq!(all, ["call", "find", "other"]);
        let hidden = |offer: &ServerOffer| -> Vec<String> {
            snapshot.hidden_tools(offer).map(|item| item.key.to_string()).collect()
        };
        for offer in &offers {
            assert_eq!(hidden(offer), if offer.yields { names(&["call"]) } else { Vec::new() });
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
    fn a_built_in_changes_no_name_of_any_server(offers in offers()) {
        let before = snapshot(&offers);
        // With a tool of the same name as each of the first server's, and one of its own.
        let taken: Vec<&str> = offers.first().into_iter().flat_map(|o| &o.list(ListKind::Tools).items).map(|i| i.key.as_str()).collect();
        let mut with = offers.clone();
        let tools: Vec<&str> = taken.into_iter().chain(["only_mine"]).collect();
        with.push(built_in(1_000, &tools));
        let after = snapshot(&with);
        for offer in &offers {
            for item in &offer.list(ListKind::Tools).items {
                let name = |snapshot: &CatalogueSnapshot| snapshot.public_name(ListKind::Tools, offer.server, &item.key).cloned();
                prop_assert_eq!(name(&before), name(&after));
            }
        }
        prop_assert!(after.public_name(ListKind::Tools, ServerId(1_000), &LocalName::new("only_mine")).is_some());
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
