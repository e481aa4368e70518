//! One list as all clients of a revision see it, cut into pages without copying.

use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use tidings_proto::{Era, ListKind, Revision};

use super::CatalogueSnapshot;
use super::rendered::{LIST_END, OfferSegment, RenderedOffer};

/// How many items a cursor names. As long as one of them is there, it is exact.
const NAMED: usize = 8;

/// Where a page ended: the position of the server, and the last items, of which any may have gone since.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageKey {
    /// The server's place in the configuration.
    pub server: u32,
    /// The keys of the last items on the server's side, the very last first.
    pub keys: Vec<String>,
    /// How many items of this server came before the next page.
    pub place: usize,
}

/// A list as one view sees it, ready to be cut into pages.
#[derive(Debug)]
pub struct RenderedList {
    kind: ListKind,
    /// All items, joined by commas, and then [`LIST_END`].
    text: Bytes,
    /// The servers that have items here, in order.
    parts: Vec<ServerItems>,
    len: usize,
    /// How long it is fresh: the least any server says, and nothing when one is legacy or down.
    pub ttl_ms: u64,
    /// Whether every server calls it public, and everything is in it.
    pub public: bool,
}

/// One server's items in a list.
#[derive(Debug)]
struct ServerItems {
    of: Arc<RenderedOffer>,
    segment: Arc<OfferSegment>,
    /// Which item of the list its first one is.
    first: usize,
    /// Where its text begins.
    at: usize,
}

/// Part of a list.
#[derive(Clone, Debug)]
pub struct ListPage {
    /// The items, joined by commas.
    pub items: Bytes,
    /// The items and [`LIST_END`] in one piece, where the text of the list has them so: at its end.
    pub closed: Option<Bytes>,
    /// Where the next page begins, if there is one.
    pub next: Option<PageKey>,
}

impl RenderedList {
    pub(super) fn assemble(snapshot: &CatalogueSnapshot, kind: ListKind, revision: Revision) -> Self {
        let (mut parts, mut len, mut bytes) = (Vec::new(), 0, 0);
        // What only some may see, or is in a form for some clients, is shared with nobody.
        let is_everybodys = !snapshot.limited && snapshot.short_names.is_none();
        // Nobody is told this beginning: where no server has a part in the list, both are set below.
        let (mut ttl_ms, mut public) = (u64::MAX, is_everybodys);
        for of in snapshot.rendered.iter().filter(|of| of.offer.shows(kind)) {
            let (offer, list) = (&of.offer, of.offer.list(kind));
            // Servers of the old era say nothing about how long a list is fresh, or for whom.
            let says = offer.era == Era::Modern;
            ttl_ms = ttl_ms.min(if says && offer.current { list.ttl_ms } else { 0 });
            // Also when it is down: all pages of a list have one scope.
            public &= says && list.public;
            let segment = of.segment(kind, revision, snapshot.view);
            if segment.len() > 0 {
                // One byte for the comma between two servers.
                let at = if parts.is_empty() { 0 } else { bytes + 1 };
                bytes = at + segment.text().len();
                parts.push(ServerItems { of: Arc::clone(of), segment: Arc::clone(segment), first: len, at });
                len += segment.len();
            }
        }
        // Nobody has vouched for an empty list.
        if !snapshot.offers.iter().any(|offer| offer.shows(kind)) {
            (ttl_ms, public) = (0, false);
        }
        Self { kind, text: join(&parts, bytes), parts, len, ttl_ms, public }
    }

    /// The items after a key.
    pub fn page(&self, after: Option<&PageKey>, size: usize) -> ListPage {
        let start = after.map_or(0, |after| self.place_after(after));
        // A page of nothing would have itself as its successor.
        let end = start.saturating_add(size.max(1)).min(self.len);
        if start >= end {
            return ListPage { items: Bytes::new(), closed: None, next: None };
        }
        let (first, last) = (self.part_of(start), self.part_of(end - 1));
        let from = first.at + first.segment.start(start - first.first);
        let to = last.at + last.segment.ends[end - 1 - last.first];
        let next = (end < self.len).then(|| self.key(last, end - 1 - last.first));
        // A slice of `Bytes` shares the text: a page costs no copy, however many clients are at it.
        let closed = next.is_none().then(|| self.text.slice(from..));
        ListPage { items: self.text.slice(from..to), closed, next }
    }

    /// The first item that comes after a key, whether or not that is still there.
    fn place_after(&self, after: &PageKey) -> usize {
        // The server of the cursor may have left since: then the page goes on with the next server that is there.
        let part = self.parts.partition_point(|part| part.of.offer.server.0 < after.server);
        match self.parts.get(part) {
            None => self.len,
            Some(part) if part.of.offer.server.0 > after.server => part.first,
            Some(part) => {
                let list = part.of.offer.list(self.kind);
                let place = |key: &String| part.segment.place(list.place_of_text(key)?);
                // The last of the named items that is still there; when all are gone, the count is the best guess
                // there is.
                let known = after.keys.iter().find_map(place).map(|place| place + 1);
                part.first + known.unwrap_or_else(|| after.place.min(part.segment.len()))
            }
        }
    }

    fn part_of(&self, place: usize) -> &ServerItems {
        // Never below zero: the first part begins at 0, and places are asked for only where there are items.
        &self.parts[self.parts.partition_point(|part| part.first <= place) - 1]
    }

    fn key(&self, part: &ServerItems, place: usize) -> PageKey {
        let (offer, items) = (&part.of.offer, &part.of.offer.list(self.kind).items);
        let last = part.segment.items[..=place].iter().rev().take(NAMED);
        // Local keys and not public names: a rename between two pages must not lose the place.
        let keys = last.map(|item| items[*item as usize].key.to_string()).collect();
        PageKey { server: offer.server.0, keys, place: place + 1 }
    }

    /// How many items there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

/// The text of all parts. That of a single one is shared.
fn join(parts: &[ServerItems], bytes: usize) -> Bytes {
    match parts {
        // Without `LIST_END`, and never sliced: a page of an empty list has no items, and returns before it looks here.
        [] => Bytes::new(),
        [alone] => alone.segment.closed().clone(),
        [first, rest @ ..] => {
            let mut text = BytesMut::with_capacity(bytes + LIST_END.len());
            text.put_slice(first.segment.text());
            for part in rest {
                text.put_u8(b',');
                text.put_slice(part.segment.text());
            }
            text.put_slice(LIST_END);
            text.freeze()
        }
    }
}
