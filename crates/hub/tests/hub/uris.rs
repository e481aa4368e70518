//! Whose resource a URI is.

use std::collections::HashSet;
use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Value, json};
use tidings_hub::ServerId;
use tidings_hub::catalogue::{CatalogueSnapshot, OfferItem, OfferList, ServerOffer};
use tidings_proto::{FieldView, ListKind, Revision, UriMap};

use crate::generate::{item, offer};

fn server(id: u32, uris: UriMap, resources: &[&str], templates: &[&str]) -> Arc<ServerOffer> {
    let mut server = Arc::unwrap_or_clone(offer(id, "s", false, &[]));
    server.uris = uris;
    for (kind, keys) in [(ListKind::Resources, resources), (ListKind::Templates, templates)] {
        let items = keys.iter().map(|key| item(kind, "s", key)).collect();
        server.lists[kind as usize] = OfferList::new(items, 0, false);
    }
    Arc::new(server)
}

fn prefix(name: &str) -> UriMap {
    UriMap::Prefix(name.into())
}

fn owner(snapshot: &CatalogueSnapshot, uri: &str) -> Option<(u32, String)> {
    snapshot.resource(uri).or_else(|| snapshot.only_owner(uri)).map(|route| (route.server.0, route.local.to_string()))
}

#[test]
fn a_prefix_tells_the_server_and_is_taken_off() {
    let both = [server(0, prefix("a"), &["file:///x"], &[]), server(1, prefix("b"), &["file:///x"], &[])];
    let snapshot = CatalogueSnapshot::new(both.to_vec(), FieldView::Strict);
    assert_eq!(owner(&snapshot, "b+file:///x"), Some((1, "file:///x".into())));
    assert_eq!(owner(&snapshot, "A+file:///x"), Some((0, "file:///x".into())), "schemes have no case");
    assert_eq!(owner(&snapshot, "a+file:///not-listed"), Some((0, "file:///not-listed".into())));
    assert_eq!(owner(&snapshot, "file:///x"), None);
    assert_eq!(owner(&snapshot, "c+file:///x"), None);
}

#[test]
fn transparent_servers_are_found_by_their_lists_then_by_their_templates() {
    let all = [
        server(0, UriMap::Transparent, &["db://one"], &["db://{table}/rows"]),
        server(1, UriMap::Transparent, &["db://one", "db://two"], &["log://{day}"]),
        server(2, prefix("p"), &["db://three"], &["x://{y}"]),
    ];
    let snapshot = CatalogueSnapshot::new(all.to_vec(), FieldView::Strict);
    assert_eq!(owner(&snapshot, "db://one"), Some((0, "db://one".into())), "the first configured wins");
    assert_eq!(owner(&snapshot, "db://two"), Some((1, "db://two".into())));
    assert_eq!(owner(&snapshot, "db://orders/rows"), Some((0, "db://orders/rows".into())));
    assert_eq!(owner(&snapshot, "log://monday"), Some((1, "log://monday".into())));
    assert_eq!(owner(&snapshot, "x://1"), None, "a prefixed server owns nothing without its prefix");
    assert_eq!(owner(&snapshot, "p+x://1"), Some((2, "x://1".into())));
    assert_eq!(owner(&snapshot, "nobody://1"), None);
}

#[test]
fn a_server_alone_answers_for_everything() {
    let snapshot = CatalogueSnapshot::new(vec![server(0, UriMap::Transparent, &[], &[])], FieldView::Strict);
    assert_eq!(owner(&snapshot, "any://thing"), Some((0, "any://thing".into())));
}

// S1.1: the first server that lists while the gateway starts may be one of the program's own.
#[test]
fn what_nobody_lists_is_never_of_a_server_that_is_part_of_the_program() {
    let built_in =
        |id| Arc::new(ServerOffer { built_in: true, ..(*server(id, UriMap::Transparent, &[], &[])).clone() });
    let of = |offers: Vec<Arc<ServerOffer>>| owner(&CatalogueSnapshot::new(offers, FieldView::Strict), "any://thing");
    assert_eq!(of(vec![built_in(0)]), None);
    let external = |id| server(id, UriMap::Transparent, &[], &[]);
    assert_eq!(of(vec![external(0), built_in(1)]), Some((0, "any://thing".into())));
    assert_eq!(of(vec![external(0), external(1), built_in(2)]), None);
}

#[test]
fn a_template_covers_what_it_can_expand_to() {
    for (template, uri, covered) in [
        ("file:///{path}", "file:///a", true),
        ("file:///{+path}", "file:///a/b/c", true),
        ("file:///{path}", "file://", false),
        ("db://{table}/rows", "db://orders/rows", true),
        ("db://{table}/rows", "db://orders/columns", false),
        ("db://{table}/rows", "db://orders/rows/1", false),
        ("db://{table}/rows/{id}", "db://orders/rows/1", true),
        ("db://{table}/rows/{id}.json", "db://orders/rows/1.json", true),
        ("db://{table}/rows/{id}.json", "db://orders/rows/1.xml", false),
        ("a://{x}b", "a://bcb", true),
        ("a://{x}b{y}b", "a://b", false),
        ("a://fixed", "a://fixed", true),
        ("a://fixed", "a://fixed/more", false),
        ("{anything}", "z://q", true),
        ("search://{?q,limit}", "search://?q=1", true),
    ] {
        let decoy = server(1, prefix("p"), &[], &[]);
        let snapshot =
            CatalogueSnapshot::new(vec![server(0, UriMap::Transparent, &[], &[template]), decoy], FieldView::Strict);
        assert_eq!(owner(&snapshot, uri).is_some(), covered, "{template} and {uri}");
    }
}

/// Paths of pages that look like those of other servers, and any others.
fn page() -> impl Strategy<Value = String> {
    let path = prop_oneof![
        3 => proptest::sample::select(vec!["x", "", "a", "a/", "a/x", "b/x", "a.b/x", "a/a/x", "app/page?q=1#top", "ui://x"])
            .prop_map(str::to_owned),
        1 => any::<String>(),
    ];
    (proptest::sample::select(vec!["ui://", "UI://"]), path).prop_map(|(scheme, path)| format!("{scheme}{path}"))
}

/// A server whose tools name these pages in one spelling or the other, and that lists every second of them.
fn with_pages(id: u32, name: &str, pages: &[String]) -> Arc<ServerOffer> {
    let tool = |(place, page): (usize, &String)| {
        let meta = if place % 2 == 0 { json!({"ui": {"resourceUri": page}}) } else { json!({"ui/resourceUri": page}) };
        let raw = json!({"name": format!("t{place}"), "_meta": meta, "description": page}).to_string();
        OfferItem::read(ListKind::Tools, raw.into(), false).unwrap()
    };
    let listed: HashSet<&String> = pages.iter().step_by(2).collect();
    let offer = ServerOffer::new(ServerId(id), name)
        .offering(ListKind::Tools, pages.iter().enumerate().map(tool).collect())
        .offering(ListKind::Resources, listed.into_iter().map(|page| item(ListKind::Resources, name, page)).collect());
    Arc::new(ServerOffer { uris: prefix(name), ..offer })
}

fn shown(snapshot: &CatalogueSnapshot, kind: ListKind, revision: Revision) -> Vec<Value> {
    let page = snapshot.listing(kind, revision).page(None, usize::MAX);
    serde_json::from_slice(&[b"[", &page.items[..], b"]"].concat()).unwrap()
}

proptest! {
    // reach 4: whatever pages servers have, each that a client is shown is of scheme `ui://` and leads back to the server that
    // means it, listed or not.
    #[test]
    fn ui_round_trip(servers in proptest::collection::vec(proptest::collection::vec(page(), 0..5), 1..4)) {
        let names = ["a", "a.b", "b"];
        let offers: Vec<_> = (0..).zip(&servers).zip(names).map(|((id, pages), name)| with_pages(id, name, pages)).collect();
        let snapshot = CatalogueSnapshot::new(offers, FieldView::Strict);
        for revision in [Revision::V2025_06_18, Revision::V2025_11_25, Revision::MODERN] {
            for tool in shown(&snapshot, ListKind::Tools, revision) {
                let server = names.iter().position(|name| tool["name"].as_str().unwrap().starts_with(&format!("{name}__"))).unwrap();
                let (new, old) = (&tool["_meta"]["ui"]["resourceUri"], &tool["_meta"]["ui/resourceUri"]);
                let uri = new.as_str().or(old.as_str()).unwrap();
                prop_assert!(uri.get(..5).is_some_and(|scheme| scheme.eq_ignore_ascii_case("ui://")), "{}", uri);
                let meant = tool["description"].as_str().unwrap().to_owned();
                prop_assert_eq!(owner(&snapshot, uri), Some((server as u32, meant)));
            }
            let mut listed = HashSet::new();
            for resource in shown(&snapshot, ListKind::Resources, revision) {
                let uri = resource["uri"].as_str().unwrap().to_owned();
                let (id, local) = owner(&snapshot, &uri).unwrap();
                prop_assert_eq!(&resource["description"], &json!(format!("{}/{local}", names[id as usize])));
                prop_assert!(listed.insert(uri), "no two servers show one page");
            }
        }
    }
}
