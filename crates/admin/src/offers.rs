//! `GET /resources` and `GET /prompts`: what the servers offer, as clients know it.

use std::sync::Arc;

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use tidings_engine::Gateway;
use tidings_hub::catalogue::{CatalogueSnapshot, ServerOffer};
use tidings_proto::{ListKind, LocalName};
use tidings_wire::{ByteSpan, encode_string, get, string_at};

use crate::AdminShared;

pub(crate) async fn resources(State(admin): State<AdminShared>) -> Response {
    admin.gateway.settled().await;
    answer(offers(&admin.gateway, ListKind::Resources))
}

pub(crate) async fn prompts(State(admin): State<AdminShared>) -> Response {
    admin.gateway.settled().await;
    answer(offers(&admin.gateway, ListKind::Prompts))
}

fn answer(body: String) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], body).into_response()
}

/// `{"resources": […], "resourceTemplates": […]}` or `{"prompts": […]}`, as the API and the command line show them.
pub fn offers(gateway: &Gateway, kind: ListKind) -> String {
    let snapshot = Arc::clone(&gateway.catalogue().borrow().snapshot);
    let kinds: &[ListKind] =
        if kind == ListKind::Resources { &[ListKind::Resources, ListKind::Templates] } else { &[kind] };
    let lists: Vec<String> = kinds.iter().map(|kind| list(&snapshot, *kind)).collect();
    format!("{{{}}}", lists.join(","))
}

fn list(snapshot: &CatalogueSnapshot, kind: ListKind) -> String {
    let items: Vec<String> = snapshot
        .offers()
        .iter()
        .flat_map(|offer| offer.list(kind).items.iter().filter_map(|item| present(snapshot, offer, kind, &item.key)))
        .collect();
    format!(r#""{}":[{}]"#, kind.member(), items.join(","))
}

/// One item: the name or URI that clients use, whose it is, and what it says of itself.
fn present(snapshot: &CatalogueSnapshot, offer: &ServerOffer, kind: ListKind, key: &LocalName) -> Option<String> {
    let raw = &offer.list(kind).get(key)?.raw;
    let public = match kind.by_uri() {
        // A URI is rewritten by rule and needs no lookup; a name may be hidden by another server's.
        true => offer.uris.outward(key.as_str()),
        false => snapshot.public_name(kind, offer.server, key)?.to_string(),
    };
    let member = |name: &str| get(raw, ByteSpan::new(0, raw.len()), name);
    let text = |name: &str| member(name).and_then(|at| string_at(raw, at));
    let mut out = format!(r#"{{"{}":{}"#, kind.key(), encode_string(&public));
    out.push_str(&format!(r#","server":{}"#, encode_string(&offer.name)));
    let texts: &[&str] = if kind == ListKind::Prompts {
        &["title", "description"]
    } else {
        &["name", "title", "description", "mimeType"]
    };
    for name in texts {
        if let Some(value) = text(name) {
            out.push_str(&format!(r#","{name}":{}"#, encode_string(&value)));
        }
    }
    for name in ["arguments", "size", "annotations"] {
        if let Some(value) = member(name).and_then(|at| std::str::from_utf8(at.of(raw)).ok()) {
            out.push_str(&format!(r#","{name}":{value}"#));
        }
    }
    out.push('}');
    Some(out)
}
