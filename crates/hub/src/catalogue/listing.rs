//! One list, rendered once for all clients of a revision, and cut into pages without copying.

use bytes::{BufMut, Bytes, BytesMut};
use tidings_proto::item::ItemView;
use tidings_proto::{Era, ListKind, Revision, View};

use tidings_wire::{Digest, Span, digest};

use super::Snapshot;

/// The last item of a page: the position of its server, and its key. Survives the removal of either.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PageKey {
    /// The server's place in the configuration.
    pub server: u32,
    /// The item's key on the server's side.
    pub key: String,
}

/// A rendered list.
#[derive(Debug)]
pub struct Listing {
    /// All items, joined by commas.
    text: Bytes,
    entries: Vec<(PageKey, std::ops::Range<usize>)>,
    /// The hash of what it says.
    pub digest: Digest,
    /// How long it is fresh: the least any server says, and nothing when one is legacy or down.
    pub ttl_ms: u64,
    /// Whether every server calls it public.
    pub public: bool,
}

/// Part of a list.
#[derive(Clone, Debug)]
pub struct Page {
    /// The items, joined by commas.
    pub items: Bytes,
    /// Where the next page begins, if there is one.
    pub next: Option<PageKey>,
}

impl Listing {
    pub(super) fn render(snapshot: &Snapshot, kind: ListKind, revision: Revision, view: View) -> Self {
        let mut text = BytesMut::new();
        let mut entries = Vec::new();
        let mut digests = Vec::new();
        let (mut ttl_ms, mut public) = (u64::MAX, true);
        for offer in snapshot.offers() {
            let list = offer.list(kind);
            let says = offer.era == Era::Modern;
            ttl_ms = ttl_ms.min(if says && offer.current { list.ttl_ms } else { 0 });
            // Also when it is down: all pages of a list have one scope.
            public &= says && list.public;
            let item_view = ItemView { kind, revision, view, uris: &offer.uris };
            for item in &list.items {
                if !entries.is_empty() {
                    text.put_u8(b',');
                }
                let start = text.len();
                let rendered = item_view.render(&item.raw, &snapshot.public_key(offer, kind, item));
                text.put_slice(&rendered);
                digests.push(digest(&rendered, Span::new(0, rendered.len())));
                let key = PageKey { server: offer.server.0, key: item.key.to_string() };
                entries.push((key, start..text.len()));
            }
        }
        if snapshot.offers().is_empty() {
            (ttl_ms, public) = (0, false);
        }
        Self { text: text.freeze(), entries, digest: Digest::of_all(&digests), ttl_ms, public }
    }

    /// The items after a key.
    pub fn page(&self, after: Option<&PageKey>, size: usize) -> Page {
        let start = after.map_or(0, |after| self.entries.partition_point(|(key, _)| key <= after));
        let end = (start + size.max(1)).min(self.entries.len());
        if start >= end {
            return Page { items: Bytes::new(), next: None };
        }
        let items = self.text.slice(self.entries[start].1.start..self.entries[end - 1].1.end);
        let next = (end < self.entries.len()).then(|| self.entries[end - 1].0.clone());
        Page { items, next }
    }

    /// How many items there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}
