//! The view of each known client, written down: `TIDINGS_UPDATE=1` writes it anew.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Value, json};
use tidings_hub::ServerId;
use tidings_hub::catalogue::{CatalogueSnapshot, OfferItem, ServerOffer};
use tidings_hub::client_profile::ClientProfiles;
use tidings_hub::scope::AccessScope;
use tidings_proto::{FieldView, ListKind, Revision};

/// Tools with everything that some client can not bear.
fn tools() -> Vec<Value> {
    let place = json!({"type": "object", "properties": {"name": {"type": "string"}, "in": {"$ref": "#/$defs/Place"}}});
    vec![
        json!({"name": "plain", "description": "Nothing special.", "inputSchema": {"type": "object"}}),
        json!({"name": "n".repeat(120), "description": "A name of 120 bytes.", "inputSchema": {"type": "object"}}),
        json!({"name": "f".repeat(60), "description": "A name of 60 bytes.", "inputSchema": {"type": "object"}}),
        json!({"name": "either", "description": "Takes one or the other.", "inputSchema": {"type": "object",
            "properties": {"dry": {"type": "boolean"}}, "anyOf": [
                {"properties": {"id": {"type": "integer"}}, "required": ["id"]},
                {"properties": {"name": {"type": "string"}}, "required": ["name"]}]}}),
        json!({"name": "refers", "inputSchema": {"type": "object", "properties": {"at": {"$ref": "#/$defs/Place"}},
            "$defs": {"Place": place}}}),
        json!({"name": "lists", "inputSchema": {"type": "object"}, "outputSchema": {"type": "array"}}),
    ]
}

// reach 2, reach 8.2
#[test]
fn the_view_of_each_known_client_is_as_written_down() {
    let item = |tool: Value| OfferItem::read(ListKind::Tools, Bytes::from(tool.to_string()), false).unwrap();
    let items = tools().into_iter().map(item).collect();
    let offer = ServerOffer { bare: true, ..ServerOffer::new(ServerId(0), "one").offering(ListKind::Tools, items) };
    let whole = Arc::new(CatalogueSnapshot::new(vec![Arc::new(offer)], FieldView::Strict));
    let profiles = ClientProfiles::new(&[]);
    let mut views = serde_json::Map::new();
    for (range, profile) in profiles.all() {
        let name = format!("{} {range}", profile.client).trim().to_owned();
        // The modern revision shows every member, so that what a profile leaves out is its own doing.
        let seen = whole.seen_as(&AccessScope::everything(), profile.shape.as_ref());
        let items = seen.listing(ListKind::Tools, Revision::MODERN).page(None, usize::MAX).items;
        let tools: Vec<Value> = serde_json::from_slice(&[b"[", &items[..], b"]"].concat()).unwrap();
        let everybody = whole.listing(ListKind::Tools, Revision::MODERN).page(None, usize::MAX).items;
        let view = if items == everybody { json!("everybody's") } else { json!(tools) };
        let hears: Vec<&str> = profile.hears.words().collect();
        views.insert(name, json!({"pages": format!("{:?}", profile.pages), "hears": hears, "tools": view}));
    }
    let written = format!("{:#}\n", Value::Object(views));
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/views.json");
    if std::env::var_os("TIDINGS_UPDATE").is_some() {
        std::fs::write(&path, &written).unwrap();
    }
    let known = std::fs::read_to_string(&path).unwrap();
    assert_eq!(known, written, "TIDINGS_UPDATE=1 writes {} anew", path.display());
}
