//! What those see who may not use every server: parts of the catalogue, and who is owed an announcement then.

use std::sync::Arc;
use std::time::Instant;

use proptest::prelude::*;
use tidings_hub::ServerId;
use tidings_hub::catalogue::{CatalogueSnapshot, ServerOffer};
use tidings_hub::ledger::{CommitOccasion, FollowerBaseline, FollowerId, Ledger, Topics};
use tidings_hub::scope::{AccessScope, ServerAudience};
use tidings_proto::{FieldView, ListKind, LocalName, PublicName, Revision, UriMap};

use crate::generate::{item, offer, offers};

type Sight = (Revision, AccessScope);

fn matches(pattern: &str, name: &str) -> bool {
    pattern == "*" || pattern == name
}

fn scope(servers: &[&str], admin: bool) -> AccessScope {
    AccessScope::new(servers.iter().map(|name| (*name).to_owned()).collect(), admin, matches)
}

fn whole(offers: &[Arc<ServerOffer>]) -> Arc<CatalogueSnapshot> {
    Arc::new(CatalogueSnapshot::new(offers.to_vec(), FieldView::Strict))
}

fn names(list: &[&str]) -> Vec<String> {
    list.iter().map(|name| (*name).to_owned()).collect()
}

fn listed(snapshot: &CatalogueSnapshot, kind: ListKind) -> String {
    String::from_utf8(snapshot.listing(kind, Revision::MODERN).page(None, 10_000).items.to_vec()).unwrap()
}

fn occasion() -> CommitOccasion {
    CommitOccasion { at: Instant::now(), touched: Topics::ALL, signalled: [None; 3], held_by: None }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    // S4.1; bridging 0.3
    #[test]
    fn a_part_holds_what_its_servers_have_under_the_names_of_the_whole(
        offers in offers(), chosen in any::<[bool; 4]>(),
    ) {
        let whole = whole(&offers);
        let mine: Vec<&Arc<ServerOffer>> = offers.iter().filter(|o| chosen[o.server.0 as usize]).collect();
        let scope = scope(&mine.iter().map(|offer| &*offer.name).collect::<Vec<_>>(), false);
        let part = whole.seen_by(&scope);
        for kind in [ListKind::Tools, ListKind::Prompts] {
            let mut expected = Vec::new();
            for offer in &offers {
                for (_, item) in offer.list(kind).in_order() {
                    let public = whole.public_name(kind, offer.server, &item.key);
                    let seen = chosen[offer.server.0 as usize];
                    prop_assert_eq!(part.public_name(kind, offer.server, &item.key), public.filter(|_| seen));
                    expected.extend(public.filter(|_| seen).map(ToString::to_string));
                }
            }
            let listed: serde_json::Value = serde_json::from_str(&format!("[{}]", listed(&part, kind))).unwrap();
            let listed: Vec<&str> = listed.as_array().unwrap().iter().map(|i| i["name"].as_str().unwrap()).collect();
            prop_assert_eq!(listed, expected);
        }
        // Whatever is said, it leads to a server of the part; what is listed leads where it does for everybody.
        for offer in &offers {
            for item in &offer.list(ListKind::Tools).items {
                let public = whole.public_name(ListKind::Tools, offer.server, &item.key).unwrap().as_str();
                let spelled = format!("{}:{}", offer.name, item.key);
                for spelling in [public, item.key.as_str(), spelled.as_str()] {
                    let route = part.tool(spelling);
                    prop_assert!(route.is_none_or(|route| chosen[route.server.0 as usize]), "{}", spelling);
                }
                if chosen[offer.server.0 as usize] {
                    prop_assert_eq!(part.tool(public), whole.tool(public));
                }
            }
        }
    }

    // S4.1; bridging 0.3: the hash of what that client would see decides
    #[test]
    fn a_commit_owes_only_those_who_see_the_server(
        offers in offers(), chosen in any::<[bool; 4]>(), changed in any::<proptest::sample::Index>(), gone in any::<bool>(),
    ) {
        let before = whole(&offers);
        let mine: Vec<&str> = offers.iter().filter(|o| chosen[o.server.0 as usize]).map(|o| &*o.name).collect();
        let sights: [Sight; 3] = [
            (Revision::MODERN, AccessScope::everything()),
            (Revision::MODERN, scope(&mine, false)),
            (Revision::LATEST_LEGACY, scope(&mine, false)),
        ];
        let digests = |of: &Arc<CatalogueSnapshot>, (revision, scope): &Sight| of.seen_by(scope).digests(*revision);
        let mut ledger: Ledger<Sight> = Ledger::default();
        for (id, sight) in (0..).zip(&sights) {
            ledger.follow(FollowerId(id), sight.clone(), Topics::ALL, FollowerBaseline::Current, digests(&before, sight));
        }
        let target = &offers[changed.index(offers.len())];
        let new = item(ListKind::Tools, "new", "a tool that nobody had");
        let after = Arc::new(match gone {
            true => before.without(target.server),
            false => {
                let mut items = target.list(ListKind::Tools).items.clone();
                items.push(new);
                before.with((**target).clone().offering(ListKind::Tools, items))
            }
        });
        let mut owed = ledger.commit(&occasion(), |sight| digests(&after, sight)).owed;
        owed.sort();
        let expected: Vec<FollowerId> = (0..).zip(&sights).filter(|(_, (revision, scope))| {
            let list = |of: &Arc<CatalogueSnapshot>, kind| {
                of.seen_by(scope).listing(kind, *revision).page(None, 10_000).items
            };
            [ListKind::Tools, ListKind::Prompts].into_iter().any(|kind| list(&before, kind) != list(&after, kind))
        }).map(|(id, _)| FollowerId(id)).collect();
        prop_assert_eq!(&owed, &expected);
        if !chosen[target.server.0 as usize] && offers.iter().all(|offer| !offer.bare) && !gone {
            prop_assert!(owed.iter().all(|id| *id == FollowerId(0)), "they can not see it");
        }
    }
}

// S4.1
#[test]
fn a_spelling_has_to_be_unique_only_among_what_is_there() {
    let whole = whole(&[offer(0, "a", false, &names(&["x", "y"])), offer(1, "b", false, &names(&["x"]))]);
    let part = whole.seen_by(&scope(&["b"], false));
    assert!(whole.tool("x").is_none(), "two have it");
    assert_eq!(part.tool("x").map(|route| route.server), Some(ServerId(1)));
    for hidden in ["y", "a__y", "a:y", "mcp_a_y", "a__x"] {
        assert!(part.tool(hidden).is_none() && part.prompt(hidden).is_none(), "{hidden}");
        assert!(whole.tool(hidden).is_some(), "{hidden}");
    }
    assert!(part.offer(ServerId(0)).is_none());
}

// S4.1
#[test]
fn a_listed_name_means_the_same_for_everybody_also_where_it_was_taken() {
    let whole = whole(&[offer(0, "a", true, &names(&["x"])), offer(1, "b", true, &names(&["x"]))]);
    let part = whole.seen_by(&scope(&["b"], false));
    assert_eq!(part.public_name(ListKind::Tools, ServerId(1), &LocalName::new("x")), Some(&PublicName::new("b__x")));
    assert_eq!(part.tool("b__x"), whole.tool("b__x"));
    assert_eq!(part.tool("x").map(|route| route.server), Some(ServerId(1)), "nobody else is there");
    assert_eq!(whole.tool("x").map(|route| route.server), Some(ServerId(0)));
}

// S4.1
#[test]
fn a_uri_of_another_server_leads_nowhere() {
    let with = |id: u32, name: &str, uris: UriMap| {
        let items = ["file:///both", &format!("file:///{name}")].map(|uri| item(ListKind::Resources, name, uri));
        let template = item(ListKind::Templates, name, &format!("{name}://{{x}}"));
        let offer = ServerOffer::new(ServerId(id), name)
            .offering(ListKind::Resources, items.to_vec())
            .offering(ListKind::Templates, vec![template]);
        Arc::new(ServerOffer { uris, ..offer })
    };
    let offers = [
        with(0, "a", UriMap::Transparent),
        with(1, "b", UriMap::Transparent),
        with(2, "c", UriMap::Prefix("c".into())),
    ];
    let whole = whole(&offers);
    let owner =
        |of: &CatalogueSnapshot, uri: &str| of.resource(uri).or_else(|| of.only_owner(uri)).map(|route| route.server.0);
    for (uri, everybody, limited) in [
        ("file:///both", Some(0), Some(1)),
        ("file:///a", Some(0), None),
        ("file:///b", Some(1), Some(1)),
        ("a://1", Some(0), None),
        ("b://1", Some(1), Some(1)),
        ("c+file:///c", Some(2), None),
        ("nobody://x", None, None),
    ] {
        assert_eq!(owner(&whole, uri), everybody, "{uri}");
        assert_eq!(owner(&whole.seen_by(&scope(&["b"], true)), uri), limited, "{uri}");
    }
}

// issue 6.8
#[test]
fn an_audience_is_by_name_everybody_or_admins() {
    let of = |id: u32, audience| {
        Arc::new(ServerOffer {
            audience,
            ..(*offer(id, "abc"[id as usize..].split_at(1).0, false, &names(&["x"]))).clone()
        })
    };
    let offers = [of(0, ServerAudience::ByName), of(1, ServerAudience::Everybody), of(2, ServerAudience::Admins)];
    let whole = whole(&offers);
    let seen = |servers: &[&str], admin| -> Vec<u32> {
        whole.seen_by(&scope(servers, admin)).offers().iter().map(|offer| offer.server.0).collect()
    };
    assert_eq!(seen(&["*"], true), [0, 1, 2]);
    assert_eq!(seen(&["*"], false), [0, 1]);
    assert_eq!(seen(&["a", "c"], false), [0, 1], "no name opens what is for admins");
    assert_eq!(seen(&["b"], true), [1, 2]);
    assert_eq!(seen(&[], false), [1]);
}

// bridging 81
#[test]
fn a_part_is_made_once_and_is_private() {
    let public = |id: u32, name: &str| {
        let mut offer =
            ServerOffer { era: tidings_proto::Era::Modern, ..(*offer(id, name, false, &names(&["x"]))).clone() };
        offer.lists[ListKind::Tools as usize].public = true;
        Arc::new(offer)
    };
    let whole = whole(&[public(0, "a"), public(1, "b")]);
    let part = whole.seen_by(&scope(&["a"], false));
    assert!(Arc::ptr_eq(&part, &whole.seen_by(&scope(&["a", "a"], false))), "equal rights, one view");
    assert!(Arc::ptr_eq(&whole, &whole.seen_by(&scope(&["*"], false))), "nothing is left out");
    assert!(whole.listing(ListKind::Tools, Revision::MODERN).public);
    assert!(!part.listing(ListKind::Tools, Revision::MODERN).public);
    for number in 0..300 {
        let many = whole.seen_by(&scope(&["b", &number.to_string()], false));
        assert_eq!(many.offers().len(), 1, "also when there are too many to keep");
    }
}

// S0.5
#[test]
fn views_are_shared_while_somebody_has_them() {
    let whole = whole(&[offer(0, "a", false, &names(&["x"]))]);
    let mut ledger: Ledger<Sight> = Ledger::default();
    let limited = |name: &str| (Revision::MODERN, scope(&[name], false));
    let asked = |ledger: &mut Ledger<Sight>| {
        let asked = std::cell::Cell::new(0);
        ledger.commit(&occasion(), |(revision, scope)| {
            asked.set(asked.get() + 1);
            whole.seen_by(scope).digests(*revision)
        });
        asked.get()
    };
    for (id, name) in [(1, "a"), (2, "b"), (3, "a")] {
        let sight = limited(name);
        let now = whole.seen_by(&sight.1).digests(sight.0);
        ledger.follow(FollowerId(id), sight, Topics::ALL, FollowerBaseline::Current, now);
    }
    assert_eq!(asked(&mut ledger), 2);
    ledger.unfollow(FollowerId(1));
    assert_eq!(asked(&mut ledger), 2, "somebody else has it");
    ledger.unfollow(FollowerId(3));
    ledger.unfollow(FollowerId(3));
    assert_eq!(asked(&mut ledger), 1);
    let now = whole.digests(Revision::MODERN);
    ledger.follow(
        FollowerId(4),
        (Revision::MODERN, AccessScope::everything()),
        Topics::ALL,
        FollowerBaseline::Nothing,
        now,
    );
    assert_eq!(asked(&mut ledger), 2);
    assert_eq!(ledger.owed(FollowerId(4)), Topics::ALL);
    assert!(ledger.owed(FollowerId(2)).is_empty());
}
