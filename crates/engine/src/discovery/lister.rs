//! Listing a server: all pages of all lists it declares.

use bytes::Bytes;
use serde_json::json;
use tidings_hub::catalogue::{Item, OfferList};
use tidings_proto::{Era, ListKind, Method, Revision, capabilities, meta};
use tidings_upstream::{Hello, LinkError, Outgoing, SharedLink};
use tidings_wire::{Frame, Kind, RawId, Span, elements, get, is_object, request, string_at};

/// A server that pages for ever is cut off here.
const MAX_PAGES: usize = 1_000;
/// How long one page may take.
const PAGE: std::time::Duration = std::time::Duration::from_secs(30);

/// What is needed to list.
pub(crate) struct Lister<'a> {
    pub(crate) server: &'a str,
    pub(crate) link: &'a SharedLink,
    pub(crate) hello: &'a Hello,
    pub(crate) permits: &'a (dyn Fn(&str) -> bool + Send + Sync),
    pub(crate) mint: &'a (dyn Fn() -> u64 + Send + Sync),
}

impl Lister<'_> {
    /// One list, whole. Empty when the server does not declare it.
    pub(crate) async fn list(&self, kind: ListKind) -> Result<OfferList, LinkError> {
        if !capabilities::declares(&self.hello.capabilities, kind.capability()) {
            return Ok(OfferList::default());
        }
        let mut items = Vec::new();
        let (mut ttl_ms, mut public) = (u64::MAX, true);
        let mut cursor: Option<String> = None;
        for _ in 0..MAX_PAGES {
            let frame = self.page(kind, cursor.as_deref()).await?;
            let Some(result) = frame.outcome().filter(|span| is_object(frame.bytes(), *span)) else {
                return Err(LinkError::Protocol(format!("{} gave no result object", kind.method())));
            };
            if frame.kind() == Kind::Error {
                return self.refused(kind, &frame, result);
            }
            self.collect(kind, &frame, result, &mut items);
            let text = |name| get(frame.bytes(), result, name).map(|at| at.of(frame.bytes()));
            ttl_ms = ttl_ms.min(text("ttlMs").and_then(|raw| std::str::from_utf8(raw).ok()?.parse().ok()).unwrap_or(0));
            public &= text("cacheScope") == Some(b"\"public\"");
            // An empty string is a cursor too; only its absence ends the list.
            let next = get(frame.bytes(), result, "nextCursor").and_then(|at| string_at(frame.bytes(), at));
            match next {
                None => return Ok(OfferList::new(items, ttl_ms, public)),
                Some(next) if cursor.as_deref() == Some(&*next) => {
                    return Err(LinkError::Protocol(format!("{} repeats its cursor", kind.method())));
                }
                Some(next) => cursor = Some(next.into_owned()),
            }
        }
        Err(LinkError::Protocol(format!("{} has more than {MAX_PAGES} pages", kind.method())))
    }

    async fn page(&self, kind: ListKind, cursor: Option<&str>) -> Result<Frame, LinkError> {
        let mut params = json!({});
        if let Some(cursor) = cursor {
            params["cursor"] = cursor.into();
        }
        if self.hello.revision.era() == Era::Modern {
            params["_meta"] = json!({
                meta::PROTOCOL_VERSION: Revision::MODERN.as_str(),
                meta::CLIENT_INFO: { "name": "tidings", "version": env!("CARGO_PKG_VERSION") },
                meta::CLIENT_CAPABILITIES: capabilities::towards_modern_server(),
            });
        }
        let id = (self.mint)();
        let bytes = request(&RawId::from(id), kind.method(), Some(params.to_string().as_bytes()));
        let outgoing = Outgoing { id, method: Method::List(kind), bytes, name: None, params: Vec::new() };
        match tokio::time::timeout(PAGE, self.link.call(outgoing).answer()).await {
            Ok(answer) => answer,
            Err(_) => {
                self.link.cancel(id, Some("timed out"));
                Err(LinkError::Protocol(format!("{} took more than {} s", kind.method(), PAGE.as_secs())))
            }
        }
    }

    /// Templates are often missing where resources are not.
    fn refused(&self, kind: ListKind, frame: &Frame, error: Span) -> Result<OfferList, LinkError> {
        let code = get(frame.bytes(), error, "code").map(|at| at.of(frame.bytes()).to_vec());
        if code.as_deref() == Some(b"-32601") {
            tracing::debug!(server = self.server, list = kind.method(), "declared but not offered");
            return Ok(OfferList::default());
        }
        let text = get(frame.bytes(), error, "message").and_then(|at| string_at(frame.bytes(), at)).unwrap_or_default();
        Err(LinkError::Protocol(format!("{} failed: {text}", kind.method())))
    }

    fn collect(&self, kind: ListKind, frame: &Frame, result: Span, items: &mut Vec<Item>) {
        let mirrored = self.hello.revision.era() == Era::Modern;
        for at in get(frame.bytes(), result, kind.member()).into_iter().flat_map(|l| elements(frame.bytes(), l)) {
            // A copy, so that one item does not keep the whole page in memory.
            match Item::read(kind, Bytes::copy_from_slice(at.of(frame.bytes())), mirrored) {
                Ok(item) if kind == ListKind::Tools && !(self.permits)(&item.key) => {}
                Ok(item) => items.push(item),
                Err(fault) => tracing::warn!(server = self.server, %fault, "left out of the list"),
            }
        }
    }
}
