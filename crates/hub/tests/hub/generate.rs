//! Offers for tests of the catalogue.

use std::sync::Arc;

use bytes::Bytes;
use proptest::prelude::*;
use serde_json::json;
use tidings_hub::ServerId;
use tidings_hub::catalogue::{OfferItem, ServerOffer};
use tidings_proto::{ListKind, UriMap};

/// Prefixes that run into each other with the names below, and a long one.
pub(crate) const PREFIXES: [&str; 4] = ["a", "a__b", "b", "a_rather_long_prefix_of_a_server_with_much_to_say"];

/// An item that says where it comes from.
pub(crate) fn item(kind: ListKind, server: &str, key: &str) -> OfferItem {
    let raw = json!({ kind.key(): key, "description": format!("{server}/{key}") });
    OfferItem::read(kind, Bytes::from(raw.to_string()), false).unwrap()
}

/// The offer of the `id`th server.
pub(crate) fn offer(id: u32, prefix: &str, bare: bool, tools: &[String]) -> Arc<ServerOffer> {
    let items = |kind| tools.iter().map(|key| item(kind, prefix, key)).collect();
    let offer = ServerOffer::new(ServerId(id), prefix)
        .offering(ListKind::Tools, items(ListKind::Tools))
        .offering(ListKind::Prompts, items(ListKind::Prompts));
    Arc::new(ServerOffer { bare, uris: UriMap::Prefix(prefix.into()), ..offer })
}

/// Names that collide across prefixes, are long, or are not ASCII.
fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => proptest::sample::select(vec!["c", "b__c", "a__c", "b__b__c", "a__b__c", "x", "y", "_", "mcp_a_x", "a:x"])
            .prop_map(str::to_owned),
        1 => (50..70usize).prop_map(|length| "n".repeat(length)),
        1 => (30..60usize).prop_map(|length| format!("{}ß", "n".repeat(length))),
        1 => "[a-c_]{1,4}",
    ]
}

/// One to four servers in the order of their configuration, all bare or all prefixed.
pub(crate) fn offers() -> impl Strategy<Value = Vec<Arc<ServerOffer>>> {
    let tools = proptest::collection::vec(name(), 0..8);
    (proptest::collection::vec(tools, 1..5), any::<bool>(), any::<proptest::sample::Index>()).prop_map(
        |(servers, bare, turn)| {
            let turn = turn.index(PREFIXES.len());
            (0u32..)
                .zip(&servers)
                .map(|(id, tools)| offer(id, PREFIXES[(turn + id as usize) % PREFIXES.len()], bare, tools))
                .collect()
        },
    )
}
