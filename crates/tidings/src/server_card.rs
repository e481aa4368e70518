//! The card of the gateway (SEP-2127, a draft): what somebody can know before they connect, and the catalogue that leads to it.
//!
//! Only of the gateway itself, and without lists: which servers and tools there are depends on who asks.

use axum::Router;
use axum::http::header;
use axum::response::IntoResponse as _;
use axum::routing::get;
use serde_json::{Value, json};
use tidings_proto::Revision;

/// Where the card is: beside the endpoint, as the draft has it.
const CARD: &str = "/mcp/server-card";
/// Where the catalogue is.
const CATALOGUE: &str = "/.well-known/ai-catalog.json";
/// What a card is.
const CARD_TYPE: &str = "application/mcp-server-card+json";
const SCHEMA: &str = "https://static.modelcontextprotocol.io/schemas/v2/server-card.schema.json";

/// The two documents, for a gateway that clients know by this address.
pub(crate) fn routes(base: &str) -> Router {
    let (card, catalogue) = (card(base).to_string(), catalogue(base).to_string());
    let show = |kind: &'static str, document: String| {
        // Open to every page, as the draft has it: nothing in it is a secret.
        let headers = [
            (header::CONTENT_TYPE, kind),
            (header::ACCESS_CONTROL_ALLOW_ORIGIN, "*"),
            (header::CACHE_CONTROL, "public, max-age=3600"),
        ];
        get(async move || (headers, document).into_response())
    };
    Router::new().route(CARD, show(CARD_TYPE, card)).route(CATALOGUE, show("application/json", catalogue))
}

fn card(base: &str) -> Value {
    json!({
        "$schema": SCHEMA,
        "name": "dev.tidings/gateway",
        "version": env!("CARGO_PKG_VERSION"),
        "title": "Tidings",
        "description": "MCP servers behind one endpoint, which tells what changed",
        "remotes": [{
            "type": "streamable-http",
            "url": format!("{base}/mcp"),
            "supportedProtocolVersions": Revision::ALL.map(Revision::as_str),
        }],
    })
}

fn catalogue(base: &str) -> Value {
    json!({
        "specVersion": "draft",
        "entries": [{
            "identifier": "urn:air:tidings.dev:gateway",
            "displayName": "Tidings",
            "type": CARD_TYPE,
            "url": format!("{base}{CARD}"),
        }],
    })
}
