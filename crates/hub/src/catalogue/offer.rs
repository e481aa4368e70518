//! One server's lists as the server gave them, with hashes that tell whether a later listing says the same.
//!
//! Public names do not belong here (`names`), nor the text that clients get (`rendered`).

use std::sync::Arc;

use bytes::Bytes;
use tidings_proto::headers::{AnnotationFault, ParamHeader, annotated};
use tidings_proto::{Era, ListKind, LocalName, UriMap};
use tidings_wire::{ByteSpan, Digest, digest, get, is_object, string_at};

use crate::ServerId;
use crate::scope::ServerAudience;

/// One item of a list, as the server gave it.
#[derive(Clone, Debug)]
pub struct OfferItem {
    /// What the server calls it.
    pub key: LocalName,
    /// Its definition, byte by byte as the server sent it.
    pub raw: Bytes,
    /// The hash of what it says.
    pub digest: Digest,
    /// It tells of its content, and that is left out of the hash: content that changes is no change of the list.
    pub has_details: bool,
    /// Parameters that are mirrored into headers (tools only).
    pub headers: Vec<ParamHeader>,
}

/// Why an item can not be listed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ItemFault {
    /// It is not an object with its key.
    #[error("an item has no \"{0}\"")]
    NoKey(&'static str),
    /// Its header annotations are invalid, so a modern HTTP client must not use it.
    #[error("tool \"{tool}\": {fault}")]
    Annotation {
        /// The tool whose annotation is wrong.
        tool: LocalName,
        /// What is wrong with the annotation.
        fault: AnnotationFault,
    },
}

impl OfferItem {
    /// Reads the key of a definition. `mirrored`: the link sends headers, so its annotations must be right.
    pub fn read(kind: ListKind, raw: Bytes, mirrored: bool) -> Result<Self, ItemFault> {
        let whole = ByteSpan::new(0, raw.len());
        let no_key = ItemFault::NoKey(kind.key());
        if !is_object(&raw, whole) {
            return Err(no_key);
        }
        let key = get(&raw, whole, kind.key()).and_then(|at| string_at(&raw, at)).ok_or(no_key)?;
        let key = LocalName::new(key);
        let mut headers = Vec::new();
        if kind == ListKind::Tools
            && let Some(schema) = get(&raw, whole, "inputSchema")
        {
            // Legacy links send no headers, so a wrong annotation does no harm there; a modern HTTP client must not use
            // such a tool at all.
            headers = match annotated(schema.of(&raw)) {
                Ok(headers) => headers,
                Err(fault) if mirrored => return Err(ItemFault::Annotation { tool: key, fault }),
                Err(_) => Vec::new(),
            };
        }
        Ok(Self { key, digest: digest(&raw, whole), has_details: false, raw, headers })
    }

    /// The item with what it tells of its content (`size`, and when it changed) left out of its hash.
    pub fn with_details(self) -> Self {
        // What does not parse keeps the hash over its bytes, so it can at worst be announced too often.
        let Ok(mut said) = serde_json::from_slice::<serde_json::Value>(&self.raw) else { return self };
        if let Some(members) = said.as_object_mut() {
            members.remove("size");
            members
                .get_mut("annotations")
                .and_then(|notes| notes.as_object_mut())
                .map(|notes| notes.remove("lastModified"));
        }
        let said = said.to_string();
        let digest = digest(said.as_bytes(), ByteSpan::new(0, said.len()));
        Self { digest, has_details: true, ..self }
    }
}

/// What becomes of an item of a list; see [`OfferList::screened`].
#[derive(Debug)]
pub enum ScreenedItem {
    /// It is there.
    Keep,
    /// It is not there.
    Leave,
    /// Another item of the same key is there in its place.
    Replace(OfferItem),
}

/// One list, with what the server said about caching it.
#[derive(Clone, Debug, Default)]
pub struct OfferList {
    /// The items, sorted by key: so two states are compared in one walk.
    pub items: Vec<OfferItem>,
    /// Which of them comes first, second and so on where the server lists them. Clients see this order.
    order: Arc<[u32]>,
    /// How long the server calls it fresh (modern servers).
    pub ttl_ms: u64,
    /// Whether it may be shared between callers (modern servers).
    pub public: bool,
}

impl OfferList {
    /// Takes items in the order of the server; of two with one key the first stays.
    pub fn new(items: Vec<OfferItem>, ttl_ms: u64, public: bool) -> Self {
        let mut placed: Vec<(u32, OfferItem)> = (0..).zip(items).collect();
        // The sort is stable: of two with one key the earlier comes first.
        placed.sort_by(|(_, a), (_, b)| a.key.cmp(&b.key));
        placed.dedup_by(|(_, later), (_, earlier)| later.key == earlier.key);
        let mut order: Vec<u32> = (0..).take(placed.len()).collect();
        order.sort_by_key(|place| placed[*place as usize].0);
        let items = placed.into_iter().map(|(_, item)| item).collect();
        Self { items, order: order.into(), ttl_ms, public }
    }

    /// The items in the order of the server, each with its place among the sorted ones.
    pub fn in_order(&self) -> impl Iterator<Item = (usize, &OfferItem)> {
        self.order.iter().map(|place| (*place as usize, &self.items[*place as usize]))
    }

    /// The places of [`Self::in_order`] alone.
    pub(super) fn places(&self) -> impl Iterator<Item = u32> {
        self.order.iter().copied()
    }

    /// The list with what its items tell of their content left out of their hashes; see [`OfferItem::with_details`].
    #[must_use]
    pub fn with_details(self) -> Self {
        Self { items: self.items.into_iter().map(OfferItem::with_details).collect(), ..self }
    }

    /// This list in the place of an older one. Where it holds the same, the old order stays: a server that lists in another order
    /// each time has changed nothing.
    #[must_use]
    pub fn following(mut self, before: &Self) -> Self {
        if self.holds_the_same(before) {
            self.order = Arc::clone(&before.order);
        }
        self
    }

    fn holds_the_same(&self, other: &Self) -> bool {
        self.items.len() == other.items.len()
            && self.items.iter().zip(&other.items).all(|(a, b)| a.raw == b.raw || a.digest == b.digest)
    }

    /// Whether it says the same as another, in whatever words.
    pub fn says_the_same(&self, other: &Self) -> bool {
        self.ttl_ms == other.ttl_ms && self.public == other.public && self.holds_the_same(other)
    }

    /// Whether it reads the same as another that says the same: no detail of an item is another one.
    pub fn has_same_details(&self, other: &Self) -> bool {
        self.items.iter().zip(&other.items).all(|(a, b)| !b.has_details || a.raw == b.raw)
    }

    /// The list as it is left when each item is kept, left out or replaced. The order stays.
    #[must_use]
    pub fn screened(&self, mut judge: impl FnMut(&OfferItem) -> ScreenedItem) -> Self {
        let mut items = Vec::with_capacity(self.items.len());
        let mut places = Vec::with_capacity(self.items.len());
        for item in &self.items {
            let kept = match judge(item) {
                ScreenedItem::Keep => Some(item.clone()),
                ScreenedItem::Leave => None,
                ScreenedItem::Replace(other) => Some(other),
            };
            // Before the item goes in: its place is the number of those kept so far.
            places.push(kept.is_some().then_some(items.len() as u32));
            items.extend(kept);
        }
        let order = self.order.iter().filter_map(|place| places[*place as usize]).collect();
        Self { items, order, ttl_ms: self.ttl_ms, public: self.public }
    }

    /// The item with this key, by binary search; `None` when the list has no such item.
    pub fn get(&self, key: &LocalName) -> Option<&OfferItem> {
        self.place(key).map(|place| &self.items[place])
    }

    /// Where the item with this key stands.
    pub fn place(&self, key: &LocalName) -> Option<usize> {
        self.items.binary_search_by(|item| item.key.cmp(key)).ok()
    }

    /// Whether a resource is listed, by the server's own URI of it.
    pub fn has_uri(&self, uri: &str) -> bool {
        // Text and not a name: it was translated for this question only, and is not kept.
        self.place_of_text(uri).is_some()
    }

    /// As [`Self::place`], for a key out of a cursor or a URI.
    pub(super) fn place_of_text(&self, key: &str) -> Option<usize> {
        self.items.binary_search_by(|item| item.key.as_str().cmp(key)).ok()
    }
}

/// What the tools of a server are to a client that chooses whether to see all tools or to search for them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OfferExposure {
    /// Tools like any others.
    #[default]
    Ordinary,
    /// They find and call others.
    FindsTools,
    /// They are listed when there is a reason, whatever is chosen.
    OfItself,
}

/// What one server offers at one moment.
#[derive(Clone, Debug)]
pub struct ServerOffer {
    /// The server whose offer this is.
    pub server: ServerId,
    /// Its configured name.
    pub name: Box<str>,
    /// What it says of itself: title and instructions. Searched, never shown.
    pub about: Box<str>,
    /// What stands before its tool and prompt names.
    pub prefix: Box<str>,
    /// Whether its names are shown without the prefix.
    pub bare: bool,
    /// How its URIs appear.
    pub uris: UriMap,
    /// The era of the link that listed it.
    pub era: Era,
    /// Whether it may make a task of any call, in the words of the modern extension.
    pub makes_tasks: bool,
    /// Whether everything here is current; `false` while it is down and its last lists are served.
    pub current: bool,
    /// Whether its tools are in the lists that clients see. They can be called either way.
    pub listed: bool,
    /// What becomes of that where a client's profile chooses which tools are listed.
    pub exposure: OfferExposure,
    /// Whether it is part of the program: its names are its own, and those of others that read like them get a prefix.
    pub built_in: bool,
    /// Who may use it.
    pub audience: ServerAudience,
    /// Whether rules believe what its tools say they do.
    pub trusts_annotations: bool,
    /// Its lists, by kind.
    pub lists: [OfferList; 4],
}

impl ServerOffer {
    /// Whether the two say the same, byte for byte: then one can stand for both.
    pub fn equals(&self, other: &Self) -> bool {
        let same_list = |(a, b): (&OfferList, &OfferList)| {
            // The key, the hash and the headers follow from these two.
            let same_item = |(a, b): (&OfferItem, &OfferItem)| a.raw == b.raw && a.has_details == b.has_details;
            (a.ttl_ms, a.public, a.items.len()) == (b.ttl_ms, b.public, b.items.len())
                && a.order == b.order
                && a.items.iter().zip(&b.items).all(same_item)
        };
        let said = |offer: &Self| (offer.server, offer.bare, offer.era, offer.makes_tasks, offer.current, offer.listed);
        let ruled = |offer: &Self| (offer.built_in, offer.exposure, offer.audience, offer.trusts_annotations);
        said(self) == said(other)
            && ruled(self) == ruled(other)
            && (&self.name, &self.about, &self.prefix, &self.uris)
                == (&other.name, &other.about, &other.prefix, &other.uris)
            && self.lists.iter().zip(&other.lists).all(same_list)
    }

    /// A server that offers nothing yet: prefixed by its name, its URIs as they are, legacy, current.
    pub fn new(server: ServerId, name: &str) -> Self {
        Self {
            server,
            name: name.into(),
            about: Box::default(),
            prefix: name.into(),
            bare: false,
            uris: UriMap::Transparent,
            era: Era::Legacy,
            makes_tasks: false,
            current: true,
            listed: true,
            exposure: OfferExposure::Ordinary,
            built_in: false,
            audience: ServerAudience::ByName,
            trusts_annotations: false,
            lists: Default::default(),
        }
    }

    /// The same with other items in one of its lists.
    #[must_use]
    pub fn offering(mut self, kind: ListKind, items: Vec<OfferItem>) -> Self {
        self.lists[kind as usize] = OfferList::new(items, 0, false);
        self
    }

    /// The list of this kind; empty where the server has none.
    pub fn list(&self, kind: ListKind) -> &OfferList {
        &self.lists[kind as usize]
    }

    /// Whether a list of it is part of what clients see.
    pub fn shows(&self, kind: ListKind) -> bool {
        let withheld = kind == ListKind::Tools && !self.listed;
        // A built-in server without items would otherwise say something about `ttlMs` and scope of everybody's list.
        let irrelevant = self.built_in && self.list(kind).items.is_empty();
        !withheld && !irrelevant
    }
}
