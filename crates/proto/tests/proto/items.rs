//! Items of the lists in the eyes of every revision.

use bytes::Bytes;
use serde_json::{Value, json as value};
use tidings_proto::item::ItemView;
use tidings_proto::{FieldView, ListKind, Revision, UriMap};

use crate::json;

fn tool() -> Value {
    value!({
        "name": "t", "title": "T", "icons": [], "execution": {}, "inputSchema": {"type": "object"},
        "outputSchema": {"type": "object"}, "annotations": {"readOnlyHint": true}, "v/x": 1,
        "_meta": {"ui": {"resourceUri": "ui://x"}},
    })
}

fn view(revision: Revision, view: FieldView, kind: ListKind, item: &Value) -> Value {
    let uris = UriMap::Prefix("up".into());
    let rendered = ItemView { kind, revision, view, uris: &uris, makes_tasks: false }
        .render(&Bytes::from(item.to_string()), "up__t");
    json(rendered)
}

// bridging B7, client of 2025-11-25 and extension
#[test]
fn tools_of_a_server_that_makes_tasks_say_so_in_the_one_revision_that_asks() {
    use Revision::*;
    let uris = UriMap::Transparent;
    for revision in [V2024_11_05, V2025_03_26, V2025_06_18, V2025_11_25, V2026_07_28] {
        let seen = |kind: ListKind, item: Value| {
            let view = ItemView { kind, revision, view: FieldView::Strict, uris: &uris, makes_tasks: true };
            json(view.render(&Bytes::from(item.to_string()), "t"))["execution"].clone()
        };
        let says = if revision == V2025_11_25 { value!({"taskSupport": "optional"}) } else { Value::Null };
        assert_eq!(seen(ListKind::Tools, value!({"name": "t"})), says, "{revision}");
        assert_eq!(seen(ListKind::Prompts, value!({"name": "t"})), Value::Null);
        let own = seen(ListKind::Tools, value!({"name": "t", "execution": {"taskSupport": "forbidden"}}));
        assert!(own.is_null() || own["taskSupport"] == "forbidden", "what a tool says itself stays: {own}");
    }
}

// bridging A3, "Views for old clients"
#[test]
fn tools_show_only_what_a_revision_knows() {
    use Revision::*;
    for (revision, hidden) in [
        (V2024_11_05, &["title", "icons", "execution", "outputSchema", "annotations"][..]),
        (V2025_03_26, &["title", "icons", "execution", "outputSchema"]),
        (V2025_06_18, &["icons", "execution"]),
        (V2025_11_25, &[]),
        (V2026_07_28, &["execution"]),
    ] {
        let mut expected = tool();
        expected["name"] = "up__t".into();
        expected["_meta"]["ui"]["resourceUri"] = "ui://up/x".into();
        for name in hidden {
            expected.as_object_mut().unwrap().remove(*name);
        }
        if revision == V2025_03_26 {
            expected["annotations"]["title"] = "T".into();
        }
        assert_eq!(view(revision, FieldView::Strict, ListKind::Tools, &tool()), expected, "{revision}");
        let passed = view(revision, FieldView::Pass, ListKind::Tools, &tool());
        assert!(tool().as_object().unwrap().keys().all(|key| passed.get(key).is_some()), "{revision}");
    }
}

#[test]
fn an_output_that_is_no_object_is_for_modern_clients_only() {
    let tool = value!({"name": "t", "outputSchema": {"type": "array"}});
    for revision in Revision::ALL {
        let shown = view(revision, FieldView::Strict, ListKind::Tools, &tool);
        assert_eq!(shown.get("outputSchema").is_some(), revision == Revision::MODERN, "{revision}");
    }
}

#[test]
fn resources_lose_what_early_clients_do_not_know() {
    let resource = value!({"uri": "f://x", "name": "n", "title": "N",
        "annotations": {"audience": ["user"], "lastModified": "2025-01-01"}});
    let early = view(Revision::V2025_03_26, FieldView::Strict, ListKind::Resources, &resource);
    assert_eq!(early, value!({"uri": "up__t", "name": "n", "annotations": {"audience": ["user"]}}));
    let later = view(Revision::V2025_06_18, FieldView::Strict, ListKind::Resources, &resource);
    assert_eq!((&later["title"], &later["annotations"]), (&resource["title"], &resource["annotations"]));
}
