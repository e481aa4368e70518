//! Keeps an index in step with the catalogue: of each new snapshot only what differs from the last one is read.

use std::sync::{Arc, MutexGuard};

use tidings_hub::ServerId;
use tidings_hub::catalogue::{CatalogueSnapshot, OfferItem, ServerOffer};
use tidings_proto::{ListKind, LocalName};
use tidings_sync::Lock;

use crate::document::ToolDocument;
use crate::index::{IndexChange, MeaningSource, SearchIndex, VectorCount};
use crate::question::Question;
use crate::remote::WantedText;

/// A tool that was found, by its server and that server's name for it.
#[derive(Debug, Clone, PartialEq)]
pub struct FoundTool {
    /// The server that offers it.
    pub server: ServerId,
    /// What that server calls it.
    pub local: LocalName,
    /// How well it fits; comparable only among the results of one search.
    pub score: f32,
}

/// How many tools a step of the catalogue added to the index, changed in it and took from it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct IndexUpdate {
    /// How many tools came since the index last followed.
    pub added: usize,
    /// Tools that say something else.
    pub changed: usize,
    /// How many tools went.
    pub removed: usize,
}

impl IndexUpdate {
    /// Whether there was nothing to do.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Whose catalogue a snapshot is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SearchView {
    /// The one that all clients share.
    Shared,
    /// That of one client with connections of its own.
    Own,
}

/// The searchable catalogue. A search brings it up to the snapshot it is asked about first, so what a client has been told
/// of is found, whoever else keeps the index current meanwhile.
#[derive(Debug, Default)]
pub struct ToolIndex {
    shared: Lock<FollowedIndex>,
    /// Clients with connections of their own see nearly the same as each other; going from one to the next is a small
    /// difference. Empty as long as there are none.
    own: Lock<FollowedIndex>,
    meaning: MeaningSource,
}

/// Whoever waits for texts without a vector learns that there will be none any more.
impl Drop for ToolIndex {
    fn drop(&mut self) {
        if let MeaningSource::Remote(remote) = &self.meaning {
            // Wakes the task that fetches vectors, which then sees that the index is gone and ends.
            remote.wanted();
        }
    }
}

impl ToolIndex {
    /// An index of nothing, by words alone.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// An index of nothing that compares meanings, too.
    #[must_use]
    pub fn with_meaning(meaning: MeaningSource) -> Self {
        let followed =
            || Lock::new(FollowedIndex { index: SearchIndex::with_meaning(meaning.clone()), offers: Vec::new() });
        Self { shared: followed(), own: followed(), meaning }
    }

    /// Where meanings come from.
    #[must_use]
    pub fn meaning(&self) -> &MeaningSource {
        &self.meaning
    }

    /// A question with its vector, where there is a model. One in this process is asked here; another one answers in its
    /// time or not at all.
    pub async fn question(&self, text: String) -> Question {
        let vector = match &self.meaning {
            MeaningSource::Words => None,
            MeaningSource::Model(model) => model.embed(&text),
            MeaningSource::Remote(remote) => remote.question(text.clone()).await,
        };
        Question { text, vector, preferred: Vec::new() }
    }

    /// Texts that wait for a vector from elsewhere.
    #[must_use]
    pub fn wanted_texts(&self, limit: usize) -> Vec<WantedText> {
        let mut texts = self.followed(SearchView::Shared).index.wanted_texts(limit);
        if texts.is_empty() {
            texts = self.followed(SearchView::Own).index.wanted_texts(limit);
        }
        texts
    }

    /// Gives the tools with this text their vector.
    pub fn place(&self, text: &WantedText, vector: &[f32]) {
        // The same tool may be in both views, with the same text.
        for view in [SearchView::Shared, SearchView::Own] {
            self.followed(view).index.place(text, vector);
        }
    }

    /// How many tools of the shared catalogue can be found by meaning.
    #[must_use]
    pub fn count(&self) -> VectorCount {
        self.followed(SearchView::Shared).index.count()
    }

    /// Brings the index up to the snapshot that `current` gives.
    pub fn follow(&self, current: impl FnOnce() -> Arc<CatalogueSnapshot>) -> IndexUpdate {
        let mut followed = self.followed(SearchView::Shared);
        // Asked for under the lock: a search may have seen a newer one than the caller knew.
        followed.step(&current())
    }

    /// The tools of a snapshot that fit a question, best first; see [`SearchIndex::search`]. Equally good ones are in the order of
    /// their servers and names. `wanted` can leave out tools, by server and the server's own name.
    pub fn search(
        &self,
        snapshot: &CatalogueSnapshot,
        view: SearchView,
        question: &Question,
        limit: usize,
        wanted: impl Fn(&FoundTool) -> bool,
    ) -> Vec<FoundTool> {
        // The lock is held to the end: another search could move the index on to its own snapshot.
        let mut followed = self.followed(view);
        followed.step(snapshot);
        let server = |name: &str| snapshot.offers().iter().find(|offer| &*offer.name == name).map(|offer| offer.server);
        let preferred = question.preferred.iter();
        // A preferred tool of a server that is not in this snapshot gets no boost.
        let boosts: Vec<(String, f32)> =
            preferred.filter_map(|known| Some((key(server(&known.server)?, &known.tool), known.strength))).collect();
        // A few more than asked for, because `wanted` leaves out some; where that is not enough, the loop asks for
        // more.
        let mut ask = limit.saturating_add(8);
        loop {
            let hits = followed.index.answer_boosted(question, &boosts, ask);
            let exhausted = hits.len() < ask;
            let mut found: Vec<FoundTool> =
                hits.into_iter().filter_map(|hit| read_key(&hit.name, hit.score)).filter(&wanted).collect();
            if found.len() >= limit || exhausted {
                found.truncate(limit);
                return found;
            }
            ask = ask.saturating_mul(4);
        }
    }

    fn followed(&self, view: SearchView) -> MutexGuard<'_, FollowedIndex> {
        let followed = match view {
            SearchView::Shared => &self.shared,
            SearchView::Own => &self.own,
        };
        followed.lock()
    }
}

/// An index and the offers it was made of, in the order of their servers.
#[derive(Debug, Default)]
struct FollowedIndex {
    index: SearchIndex,
    offers: Vec<Arc<ServerOffer>>,
}

impl FollowedIndex {
    fn step(&mut self, snapshot: &CatalogueSnapshot) -> IndexUpdate {
        let mut step = IndexStep::default();
        for before in &self.offers {
            match snapshot.offer(before.server) {
                // A server that did not change is the same allocation in both snapshots.
                Some(after) if Arc::ptr_eq(before, after) => {}
                // What the server says of itself is part of every tool's text.
                Some(after) if before.about != after.about => step.put_all(after, tools(before), tools(after)),
                Some(after) => step.compare(after, tools(before), tools(after)),
                None => step.compare(before, tools(before), &[]),
            }
        }
        for after in snapshot.offers() {
            if self.offers.binary_search_by_key(&after.server, |before| before.server).is_err() {
                step.compare(after, &[], tools(after));
            }
        }
        let same = |(a, b): (&Arc<ServerOffer>, &Arc<ServerOffer>)| Arc::ptr_eq(a, b);
        if self.offers.len() != snapshot.offers().len() || !self.offers.iter().zip(snapshot.offers()).all(same) {
            self.offers = snapshot.offers().to_vec();
        }
        if !step.changes.is_empty() {
            self.index.apply(&step.changes);
            let IndexUpdate { added, changed, removed } = step.update;
            tracing::debug!(added, changed, removed, "tool index updated");
        }
        step.update
    }
}

fn tools(offer: &ServerOffer) -> &[OfferItem] {
    &offer.list(ListKind::Tools).items
}

/// What is to be done to the index.
#[derive(Default)]
struct IndexStep {
    changes: Vec<IndexChange>,
    update: IndexUpdate,
}

impl IndexStep {
    /// Compares two lists of one server. Both are sorted by key, so one walk over them is enough.
    fn compare(&mut self, server: &ServerOffer, before: &[OfferItem], after: &[OfferItem]) {
        let (mut old, mut new) = (before.iter().peekable(), after.iter().peekable());
        loop {
            match (old.peek(), new.peek()) {
                (None, None) => return,
                (Some(gone), Some(come)) if gone.key == come.key => {
                    if gone.digest != come.digest {
                        self.update.changed += 1;
                        self.put(server, come);
                    }
                    old.next();
                    new.next();
                }
                (Some(gone), come) if come.is_none_or(|come| gone.key < come.key) => {
                    self.update.removed += 1;
                    self.changes.push(IndexChange::Remove(key(server.server, gone.key.as_str())));
                    old.next();
                }
                (_, Some(come)) => {
                    self.update.added += 1;
                    self.put(server, come);
                    new.next();
                }
                // Covered by the guard above: without a newcomer the old one goes.
                (Some(_), None) => return,
            }
        }
    }

    /// Every tool anew, because something changed that all of them share.
    fn put_all(&mut self, server: &ServerOffer, before: &[OfferItem], after: &[OfferItem]) {
        // The two comparisons remove every tool, and then add every tool with its new text.
        self.compare(server, before, &[]);
        self.compare(server, &[], after);
    }

    fn put(&mut self, server: &ServerOffer, item: &OfferItem) {
        let key = key(server.server, item.key.as_str());
        let document = ToolDocument::from_tool(&server.name, &key, &item.raw);
        self.changes.push(IndexChange::Put(document.about(&server.about)));
    }
}

/// What the index calls a tool. Public names may change when another server's tools do; this does not.
fn key(server: ServerId, local: &str) -> String {
    // Of one width, so that the order of keys is the order of servers.
    format!("{:010}\0{local}", server.0)
}

fn read_key(key: &str, score: f32) -> Option<FoundTool> {
    let (server, local) = key.split_once('\0')?;
    Some(FoundTool { server: ServerId(server.parse().ok()?), local: LocalName::new(local), score })
}
