//! A catalogue that grew by single changes says the same as one that was made at once.

use std::sync::Arc;

use proptest::prelude::*;
use tidings_hub::ServerId;
use tidings_hub::catalogue::{CatalogueSnapshot, OfferList, ServerOffer};
use tidings_proto::{FieldView, ListKind, Revision, UriMap};

use crate::generate::{PREFIXES, item, offer};

/// What happens to one server.
#[derive(Clone, Debug)]
enum Step {
    Lists { server: u32, tools: Vec<String>, resources: Vec<String> },
    Leaves { server: u32 },
}

fn names() -> impl Strategy<Value = Vec<String>> {
    let name = proptest::sample::select(vec!["c", "b__c", "x", "y", "z", "mcp_a_x", "a:x", "a__x"]);
    proptest::collection::vec(name.prop_map(str::to_owned), 0..5)
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..4u32, names(), names()).prop_map(|(server, tools, resources)| Step::Lists { server, tools, resources }),
        1 => (0..4u32).prop_map(|server| Step::Leaves { server }),
    ]
}

fn made(server: u32, bare: bool, tools: &[String], resources: &[String]) -> ServerOffer {
    let prefix = PREFIXES[server as usize];
    let mut offer = Arc::unwrap_or_clone(offer(server, prefix, bare, tools));
    // The last one is part of the program, and its names are its own.
    offer.built_in = server == 3;
    offer.bare |= offer.built_in;
    // Every other server shows its URIs as they are.
    if server.is_multiple_of(2) {
        offer.uris = UriMap::Transparent;
    }
    let uris = resources.iter().map(|name| item(ListKind::Resources, prefix, &format!("db://{name}"))).collect();
    offer.lists[ListKind::Resources as usize] = OfferList::new(uris, 0, false);
    offer
}

fn assert_same(grown: &CatalogueSnapshot, fresh: &CatalogueSnapshot) {
    for kind in ListKind::ALL {
        for revision in [Revision::V2024_11_05, Revision::MODERN] {
            let (a, b) = (grown.listing(kind, revision), fresh.listing(kind, revision));
            assert_eq!(a.page(None, 1_000).items, b.page(None, 1_000).items);
            assert_eq!((a.len(), a.ttl_ms, a.public), (b.len(), b.ttl_ms, b.public));
        }
    }
    for revision in Revision::ALL {
        assert_eq!(grown.digests(revision), fresh.digests(revision));
    }
    for offer in fresh.offers() {
        for tool in &offer.list(ListKind::Tools).items {
            let public = fresh.public_name(ListKind::Tools, offer.server, &tool.key);
            assert_eq!(grown.public_name(ListKind::Tools, offer.server, &tool.key), public);
        }
    }
    for name in ["c", "b__c", "x", "y", "z", "mcp_a_x", "a:x", "a__x", "a__b__c", "b__x", "a__b:y", "mcp_b_z"] {
        assert_eq!(grown.tool(name), fresh.tool(name), "tool {name}");
        assert_eq!(grown.prompt(name), fresh.prompt(name), "prompt {name}");
        let uri = format!("db://{name}");
        assert_eq!(grown.resource(&uri), fresh.resource(&uri), "{uri}");
        assert_eq!(grown.only_owner(&uri), fresh.only_owner(&uri), "{uri}");
    }
}

proptest! {
    // S3.6
    #[test]
    fn a_grown_catalogue_equals_a_fresh_one(steps in proptest::collection::vec(step(), 1..12), bare in any::<bool>()) {
        let mut grown = CatalogueSnapshot::new(Vec::new(), FieldView::Strict);
        // Somebody follows from the start, so that the digests are kept along the way.
        grown.digests(Revision::MODERN);
        for step in steps {
            grown = match step {
                Step::Lists { server, tools, resources } => grown.with(made(server, bare, &tools, &resources)),
                Step::Leaves { server } => grown.without(ServerId(server)),
            };
            assert_same(&grown, &CatalogueSnapshot::new(grown.offers().to_vec(), FieldView::Strict));
        }
    }

    #[test]
    fn a_digest_changes_if_and_only_if_what_is_seen_does(steps in proptest::collection::vec(step(), 1..8)) {
        let mut seen: Vec<(Vec<String>, tidings_wire::Digest)> = Vec::new();
        let mut grown = CatalogueSnapshot::new(Vec::new(), FieldView::Strict);
        for step in steps {
            grown = match step {
                Step::Lists { server, tools, resources } => grown.with(made(server, false, &tools, &resources)),
                Step::Leaves { server } => grown.without(ServerId(server)),
            };
            let items = grown.listing(ListKind::Tools, Revision::MODERN).page(None, 1_000).items;
            let items: Vec<serde_json::Value> = serde_json::from_slice(&[b"[", &items[..], b"]"].concat()).unwrap();
            // Another order is no change.
            let mut text: Vec<String> = items.iter().map(ToString::to_string).collect();
            text.sort();
            let digest = grown.digests(Revision::MODERN)[0];
            for (other, known) in &seen {
                prop_assert_eq!(text == *other, digest == *known);
            }
            seen.push((text, digest));
        }
    }
}

#[test]
fn a_commit_shares_what_other_servers_show() {
    let names = |n: usize| -> Vec<String> { (0..n).map(|i| format!("tool{i}")).collect() };
    let before = CatalogueSnapshot::new(
        vec![offer(0, "a", false, &names(3)), offer(1, "b", false, &names(3))],
        FieldView::Strict,
    );
    let after = before.with(Arc::unwrap_or_clone(offer(1, "b", false, &names(2))));
    assert!(Arc::ptr_eq(&before.offers()[0], &after.offers()[0]));
    assert_eq!(before.listing(ListKind::Tools, Revision::MODERN).len(), 6);
    assert_eq!(after.listing(ListKind::Tools, Revision::MODERN).len(), 5);
    assert_eq!(before.tool("b__tool2").map(|route| route.server), Some(ServerId(1)), "the old one is as it was");
    assert_eq!(after.tool("b__tool2"), None);
}
