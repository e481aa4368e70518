//! One server's part of the lists, rendered once for all clients of a revision; and what it looks like to those who see it otherwise: a part of
//! it ([`screen`]), in another form ([`shaped`]), without any other server ([`alone`]). Each is made of a rendered offer and kept with it.

pub(super) mod alone;
pub(super) mod screen;
pub(super) mod shaped;

use std::sync::{Arc, OnceLock};

use bytes::{BufMut, Bytes, BytesMut};
use tidings_proto::item::ItemView;
use tidings_proto::{FieldView, ListKind, PublicName, Revision};
use tidings_wire::{ByteSpan, Digest, digest};

use super::names::{RenamedItem, ShownNames};
use super::offer::{OfferItem, ServerOffer};
use alone::AloneOffer;
use screen::{PolicyScreens, ScreenSource};
use shaped::{OfferShape, OfferShapes};

use crate::ServerId;
use crate::client_profile::ShapedTool;

/// What follows the items in an answer to a list: the ends of the list, of the result and of the message. It stands behind the items in
/// the text that all clients share, so that a long answer is written to its connection at once, and not its last bytes alone.
pub const LIST_END: &[u8] = b"]}}";

/// A server's offer under its public names.
#[derive(Debug)]
pub(super) struct RenderedOffer {
    pub(super) offer: Arc<ServerOffer>,
    tools: ShownNames,
    prompts: ShownNames,
    segments: [[OnceLock<Arc<OfferSegment>>; Revision::COUNT]; 4],
    /// What others see of it.
    pub(super) screens: PolicyScreens,
    /// What this is the seen part of, if it is one.
    pub(super) source: Option<ScreenSource>,
    /// The same under its own names, from when somebody asks for this server alone.
    alone: OnceLock<AloneOffer>,
    /// What clients with profiles see of it.
    pub(super) shapes: OfferShapes,
    /// The shape that it has, if a profile gave it one.
    pub(super) shape: Option<OfferShape>,
}

/// The items of one list of one server.
#[derive(Debug)]
pub(super) struct OfferSegment {
    /// All items, joined by commas, and then [`LIST_END`].
    closed: Bytes,
    /// Where each item ends.
    pub(super) ends: Vec<usize>,
    /// Which items of the server's list these are, by their places among the sorted ones.
    pub(super) items: Vec<u32>,
    /// The hash of what each says, in the same order.
    pub(super) digests: Vec<Digest>,
    /// The hash of what it says and whose it is; nothing when it is empty.
    pub(super) mark: Option<Digest>,
}

impl RenderedOffer {
    pub(super) fn new(offer: Arc<ServerOffer>, tools: ShownNames, prompts: ShownNames) -> Self {
        let (segments, screens, alone, shapes) = Default::default();
        Self { offer, tools, prompts, segments, screens, source: None, alone, shapes, shape: None }
    }

    /// The offer as those see it who ask for its server alone.
    pub(super) fn alone(&self) -> &AloneOffer {
        self.alone.get_or_init(|| AloneOffer::new(&self.offer))
    }

    /// The seen part of a whole, from which its lists are cut.
    pub(super) fn cut_out_of(
        source: ScreenSource,
        offer: Arc<ServerOffer>,
        tools: ShownNames,
        prompts: ShownNames,
    ) -> Self {
        Self { source: Some(source), ..Self::new(offer, tools, prompts) }
    }

    /// The same offer as a client's profile makes it; `source`: what it is the seen part of.
    pub(super) fn in_shape_of(self, shape: OfferShape, source: Option<ScreenSource>) -> Self {
        Self { shape: Some(shape), source, ..self }
    }

    /// The same offer, some of whose items are called otherwise.
    pub(super) fn renamed(&self, tools: &[RenamedItem], prompts: &[RenamedItem]) -> Self {
        let names = |kind: ListKind, names: &ShownNames, renamed: &[RenamedItem]| {
            let mut names = names.to_vec();
            for (_, local, name) in renamed.iter().filter(|(server, ..)| *server == self.offer.server) {
                if let Some(place) = self.offer.list(kind).place(local) {
                    names[place].clone_from(name);
                }
            }
            names.into()
        };
        let (tools, prompts) =
            (names(ListKind::Tools, &self.tools, tools), names(ListKind::Prompts, &self.prompts, prompts));
        // Without its source: what is cut out of the whole would have the old names.
        Self { shape: self.shape.clone(), ..Self::new(Arc::clone(&self.offer), tools, prompts) }
    }

    /// Whether it shows the same offer under the same names.
    pub(super) fn shows(&self, offer: &Arc<ServerOffer>, tools: &ShownNames, prompts: &ShownNames) -> bool {
        // Offers are immutable, so the pointer tells that nothing was listed since.
        Arc::ptr_eq(&self.offer, offer) && self.tools == *tools && self.prompts == *prompts
    }

    pub(super) fn names(&self, kind: ListKind) -> Option<&ShownNames> {
        match kind {
            ListKind::Tools => Some(&self.tools),
            ListKind::Prompts => Some(&self.prompts),
            ListKind::Resources | ListKind::Templates => None,
        }
    }

    pub(super) fn segment(&self, kind: ListKind, revision: Revision, view: FieldView) -> &Arc<OfferSegment> {
        let (uris, makes_tasks) = (&self.offer.uris, self.offer.makes_tasks);
        self.segments[kind as usize][revision as usize].get_or_init(|| {
            // Nobody need hold the whole any more: then the same is rendered from the own lists.
            let cut = self.source.as_ref().and_then(|source| source.cut(kind, revision, view));
            Arc::new(cut.unwrap_or_else(|| self.render(ItemView { kind, revision, view, uris, makes_tasks })))
        })
    }

    fn render(&self, view: ItemView<'_>) -> OfferSegment {
        let list = self.offer.list(view.kind);
        // A list that the server does not declare is not shown, though something of it may be known.
        let most = if self.offer.shows(view.kind) { list.items.len() } else { 0 };
        let items = list.in_order().take(most).zip(list.places()).filter_map(|((place, item), number)| {
            let public_key = self.public_key(view.kind, place, item)?;
            let rendered = self.in_shape(&view, place, view.render(&item.raw, &public_key));
            let digest = match item.has_details {
                // Its size or time is shown, but is no change of the list: the item is hashed without it.
                true => Digest::of_all([&item.digest, &Digest::of_bytes(public_key.as_bytes())]),
                false => digest(&rendered, ByteSpan::new(0, rendered.len())),
            };
            Some((number, digest, rendered))
        });
        OfferSegment::joined(self.offer.server, items)
    }

    /// A rendered item as a client's profile makes it.
    fn in_shape(&self, view: &ItemView<'_>, place: usize, rendered: Bytes) -> Bytes {
        let Some(OfferShape { shape, full_names }) = self.shape.as_ref().filter(|_| view.kind == ListKind::Tools)
        else {
            return rendered;
        };
        // Only where the name was cut: else the note in `_meta` would repeat it.
        let full_name = full_names.get(place).filter(|full| self.tools.get(place) != Some(full));
        let has_meta = view.view == FieldView::Pass || view.revision.has_item_meta();
        ShapedTool { rendered, full_name: full_name.map(PublicName::as_str), rules: shape.schema, has_meta }.shaped()
    }

    /// What clients call an item.
    fn public_key(&self, kind: ListKind, place: usize, item: &OfferItem) -> Option<String> {
        match self.names(kind) {
            Some(names) => names.get(place).map(|name| name.as_str().to_owned()),
            None => Some(self.offer.uris.outward(item.key.as_str())),
        }
    }
}

impl OfferSegment {
    /// Puts items together, each with its place among the sorted ones and the hash of what it says.
    pub(super) fn joined<T: AsRef<[u8]>>(server: ServerId, parts: impl Iterator<Item = (u32, Digest, T)>) -> Self {
        let most = parts.size_hint().1.unwrap_or_default();
        let (mut text, mut items) = (BytesMut::new(), Vec::with_capacity(most));
        let (mut ends, mut digests) = (Vec::with_capacity(most), Vec::with_capacity(most));
        for (place, digest, part) in parts {
            if !ends.is_empty() {
                text.put_u8(b',');
            }
            text.put_slice(part.as_ref());
            items.push(place);
            digests.push(digest);
            ends.push(text.len());
        }
        // Another order says the same, so the hash is over the items by key.
        let mut by_key: Vec<usize> = (0..items.len()).collect();
        by_key.sort_unstable_by_key(|at| items[*at]);
        // Equal items of two servers are different items: a call goes elsewhere.
        let owner = Digest::of_bytes(&server.0.to_le_bytes());
        let all = std::iter::once(&owner).chain(by_key.iter().map(|at| &digests[*at]));
        let mark = (!ends.is_empty()).then(|| Digest::of_all(all));
        text.put_slice(LIST_END);
        Self { closed: text.freeze(), ends, items, digests, mark }
    }

    /// All items, joined by commas.
    pub(super) fn text(&self) -> &[u8] {
        &self.closed[..self.ends.last().copied().unwrap_or_default()]
    }

    /// All items, joined by commas, and then [`LIST_END`].
    pub(super) fn closed(&self) -> &Bytes {
        &self.closed
    }

    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// The place here of an item of the server's list.
    pub(super) fn place(&self, item: usize) -> Option<usize> {
        self.items.iter().position(|known| *known as usize == item)
    }

    /// An item of the server's list.
    pub(super) fn item(&self, item: usize) -> Option<Bytes> {
        let place = self.place(item)?;
        Some(self.closed.slice(self.start(place)..self.ends[place]))
    }

    /// Where an item begins.
    pub(super) fn start(&self, place: usize) -> usize {
        match place {
            0 => 0,
            _ => self.ends[place - 1] + 1,
        }
    }
}
