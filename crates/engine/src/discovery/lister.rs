//! Listing a server: all pages of all lists it declares.

use bytes::Bytes;
use serde_json::{Value, json};
use tidings_hub::catalogue::{OfferItem, OfferList};
use tidings_proto::gateway_path::{self, GatewayPath};
use tidings_proto::{Era, ListKind, LocalName, Method, capabilities, meta};
use tidings_upstream::{LinkError, OutgoingRequest, ServerHello, SharedLink};
use tidings_wire::{ByteSpan, Frame, FrameKind, RawId, elements, get, is_object, request, string_at};

use crate::observe::request_span::{ListRequestSpan, ListTrace};

/// A server that pages for ever is cut off here.
const MAX_PAGES: usize = 1_000;
/// How many bytes all pages of one list may have. A hundred thousand ordinary tools fit.
pub(crate) const LIST_BUDGET: usize = 64 << 20;
/// How long one page may take.
const PAGE: std::time::Duration = std::time::Duration::from_secs(30);

/// What is needed to list.
pub(crate) struct Lister<'a> {
    pub(crate) server: &'a str,
    pub(crate) link: &'a SharedLink,
    pub(crate) hello: &'a ServerHello,
    pub(crate) permits: &'a (dyn Fn(&LocalName) -> bool + Send + Sync),
    pub(crate) mint: &'a (dyn Fn() -> u64 + Send + Sync),
    /// How many bytes one list may have.
    pub(crate) budget: usize,
    /// Which gateways ask: servers that are gateways themselves are told, so that a loop is noticed.
    pub(crate) path: &'a GatewayPath,
    /// Told which gateways a list comes through, where the server is one; a loop ends the listing.
    pub(crate) heard_gateways: &'a (dyn Fn(Vec<String>) -> Result<(), LinkError> + Send + Sync),
    /// Where its requests belong, where somebody exports traces.
    pub(crate) trace: Option<ListTrace<'a>>,
}

impl Lister<'_> {
    /// One list, whole. Empty when the server does not declare it.
    pub(crate) async fn list(&self, kind: ListKind) -> Result<OfferList, LinkError> {
        if !capabilities::declares(&self.hello.capabilities, kind.capability()) {
            // It is not asked for what it does not declare: that is an empty list, and no failure.
            return Ok(OfferList::default());
        }
        let mut items = Vec::new();
        // The least of all pages: a list is as fresh, and as public, as its least fresh page.
        let (mut ttl_ms, mut public) = (u64::MAX, true);
        let mut cursor: Option<String> = None;
        let mut bytes = 0;
        for _ in 0..MAX_PAGES {
            let frame = self.page(kind, cursor.as_deref()).await?;
            // Counted over all pages, so that a server can not fill memory with many small ones.
            bytes += frame.bytes().len();
            if bytes > self.budget {
                let budget = self.budget;
                let text = format!("{} exceeds the budget of {budget} bytes for one list", kind.method());
                return Err(LinkError::Protocol(text));
            }
            let Some(result) = frame.outcome().filter(|span| is_object(frame.bytes(), *span)) else {
                return Err(LinkError::Protocol(format!("{} gave no result object", kind.method())));
            };
            if frame.kind() == FrameKind::Error {
                return self.refused(kind, &frame, result);
            }
            if self.is_gateway() {
                let meta = get(frame.bytes(), result, "_meta").map(|at| at.of(frame.bytes()));
                let meta = meta.and_then(|raw| serde_json::from_slice::<Value>(raw).ok()).unwrap_or_default();
                // With every page and not only at the handshake: what is behind that gateway may have been added since.
                (self.heard_gateways)(gateway_path::answering(&json!({ "_meta": meta })))?;
            }
            self.collect(kind, &frame, result, &mut items)?;
            let text = |name| get(frame.bytes(), result, name).map(|at| at.of(frame.bytes()));
            // A list without `ttlMs` is not called fresh by anybody.
            ttl_ms = ttl_ms.min(text("ttlMs").and_then(|raw| std::str::from_utf8(raw).ok()?.parse().ok()).unwrap_or(0));
            public &= text("cacheScope") == Some(b"\"public\"");
            // An empty string is a cursor too; only its absence ends the list.
            let next = get(frame.bytes(), result, "nextCursor").and_then(|at| string_at(frame.bytes(), at));
            match next {
                None => return Ok(OfferList::new(items, ttl_ms, public)),
                // Else a server that ignores cursors would be listed a thousand times before it is cut off.
                Some(next) if cursor.as_deref() == Some(&*next) => {
                    return Err(LinkError::Protocol(format!("{} repeats its cursor", kind.method())));
                }
                Some(next) => cursor = Some(next.into_owned()),
            }
        }
        Err(LinkError::Protocol(format!("{} has more than {MAX_PAGES} pages", kind.method())))
    }

    fn is_gateway(&self) -> bool {
        !self.hello.gateways.is_empty()
    }

    async fn page(&self, kind: ListKind, cursor: Option<&str>) -> Result<Frame, LinkError> {
        let mut params = json!({});
        if let Some(cursor) = cursor {
            params["cursor"] = cursor.into();
        }
        if self.hello.revision.era() == Era::Modern {
            let info = json!({ "name": "tidings", "version": env!("CARGO_PKG_VERSION") });
            params["_meta"] = meta::own(self.hello.revision, &info, &capabilities::towards_modern_server());
        }
        // Only gateways understand it, and a strict server may refuse what it does not know.
        if self.is_gateway() {
            params["_meta"][meta::GATEWAYS] = json!(self.path.ahead_of_server());
        }
        let id = (self.mint)();
        let bytes = request(&RawId::from(id), kind.method(), Some(params.to_string().as_bytes()));
        let method = Method::List(kind);
        let span = self.trace.as_ref().map(|trace| trace.begin(self.server, self.hello.revision, method, id));
        let trace = span.as_ref().and_then(ListRequestSpan::context);
        let outgoing = OutgoingRequest { id, method, bytes, name: None, params: Vec::new(), trace };
        let answer = tokio::time::timeout(PAGE, self.link.call(outgoing).answer()).await;
        if let Some(span) = span {
            span.end(answer.as_ref().ok());
        }
        match answer {
            Ok(answer) => answer,
            Err(_) => {
                // The server is told, or it would work on an answer that nobody reads.
                self.link.cancel(id, Some("timed out"));
                // Worded as a fault of this list alone: whoever lists goes on with the others (`Server::list`).
                Err(LinkError::Protocol(format!("{} took more than {} s", kind.method(), PAGE.as_secs())))
            }
        }
    }

    /// Templates are often missing where resources are not.
    fn refused(&self, kind: ListKind, frame: &Frame, error: ByteSpan) -> Result<OfferList, LinkError> {
        let code = get(frame.bytes(), error, "code").map(|at| at.of(frame.bytes()).to_vec());
        // The only code that says "I do not have this list"; anything else may be over in a moment.
        if code.as_deref() == Some(b"-32601") {
            tracing::debug!(server = self.server, list = kind.method(), "declared but not offered");
            return Ok(OfferList::default());
        }
        let text = get(frame.bytes(), error, "message").and_then(|at| string_at(frame.bytes(), at)).unwrap_or_default();
        Err(LinkError::Protocol(format!("{} failed: {text}", kind.method())))
    }

    /// What is not a list is no empty list: the one that was known before stays.
    fn collect(
        &self,
        kind: ListKind,
        frame: &Frame,
        result: ByteSpan,
        items: &mut Vec<OfferItem>,
    ) -> Result<(), LinkError> {
        // Legacy links mirror no parameters into headers.
        let mirrored = self.hello.revision.era() == Era::Modern;
        let list = get(frame.bytes(), result, kind.member()).filter(|at| at.of(frame.bytes()).starts_with(b"["));
        let Some(list) = list else {
            let text = format!("{} gave no array \"{}\"", kind.method(), kind.member());
            return Err(LinkError::Protocol(text));
        };
        for at in elements(frame.bytes(), list) {
            // A copy, so that one item does not keep the whole page in memory.
            match OfferItem::read(kind, Bytes::copy_from_slice(at.of(frame.bytes())), mirrored) {
                Ok(item) if kind == ListKind::Tools && !(self.permits)(&item.key) => {}
                Ok(item) => items.push(item),
                // One item that can not be read costs only itself.
                Err(fault) => tracing::warn!(server = self.server, %fault, "left out of the list"),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};
    use tidings_sync::Lock;

    use tidings_proto::Revision;
    use tidings_upstream::{CallStream, Link, call_channel};

    use super::*;

    /// Answers each page with the next of these results.
    struct Pages(Lock<Vec<String>>);

    impl Link for Pages {
        fn call(&self, request: OutgoingRequest) -> CallStream {
            let (queue, stream) = call_channel();
            let result = self.0.lock().remove(0);
            let bytes = tidings_wire::response(&RawId::from(request.id), result.as_bytes());
            queue.answer(Frame::parse(bytes, &tidings_wire::FrameLimits::default()).unwrap());
            stream
        }
        fn cancel(&self, _: u64, _: Option<&str>) {}
        fn send(&self, _: Bytes) {}
        fn close(&self) -> futures_util::future::BoxFuture<'static, ()> {
            Box::pin(std::future::ready(()))
        }
    }

    async fn list(pages: &[&str], budget: usize) -> Result<usize, String> {
        let link: SharedLink = Arc::new(Pages(Lock::new(pages.iter().map(|page| (*page).to_owned()).collect())));
        let hello = ServerHello {
            revision: Revision::LATEST_LEGACY,
            capabilities: json!({ "tools": {} }),
            info: json!({}),
            instructions: None,
            gateways: Vec::new(),
        };
        let next = AtomicU64::new(16);
        let lister = Lister {
            server: "s",
            link: &link,
            hello: &hello,
            permits: &|_| true,
            mint: &|| next.fetch_add(1, Ordering::Relaxed),
            budget,
            path: &GatewayPath::default(),
            heard_gateways: &|_| Ok(()),
            trace: None,
        };
        lister.list(ListKind::Tools).await.map(|list| list.items.len()).map_err(|error| error.to_string())
    }

    // edges G6
    #[tokio::test]
    async fn what_is_no_list_is_a_failure_and_no_empty_list() {
        for page in ["{}", r#"{"tools":"x"}"#, r#"{"tools":null}"#, r#"{"tools":{}}"#, "null", "[]"] {
            let failed = list(&[page], LIST_BUDGET).await.unwrap_err();
            assert!(failed.contains("tools/list"), "{page}: {failed}");
        }
        assert_eq!(list(&[r#"{"tools":[]}"#], LIST_BUDGET).await, Ok(0));
        let first = r#"{"tools":[{"name":"a","inputSchema":{}}],"nextCursor":"1"}"#;
        assert!(list(&[first, "{}"], LIST_BUDGET).await.is_err(), "a later page counts as the first");
    }

    // edges D3
    #[tokio::test]
    async fn a_list_that_exceeds_its_budget_over_many_pages_is_a_failure_that_names_it() {
        let page =
            |next: usize| format!(r#"{{"tools":[{{"name":"t{next}","inputSchema":{{}}}}],"nextCursor":"{next}"}}"#);
        let mut pages: Vec<String> = (0..20).map(page).collect();
        pages.push(r#"{"tools":[]}"#.into());
        let pages: Vec<&str> = pages.iter().map(String::as_str).collect();
        assert_eq!(list(&pages, 1 << 20).await, Ok(20));
        let failed = list(&pages, 1_000).await.unwrap_err();
        assert!(failed.contains("budget of 1000 bytes"), "{failed}");
    }
}
