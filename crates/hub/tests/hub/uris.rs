//! Whose resource a URI is.

use std::sync::Arc;

use tidings_hub::catalogue::{CatalogueSnapshot, OfferList, ServerOffer};
use tidings_proto::{FieldView, ListKind, UriMap};

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
    snapshot.resource(uri).map(|route| (route.server.0, route.local.to_string()))
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
