//! The inverted index: which terms occur in which documents, and how much.
//!
//! A posting holds one number, the saturated sum over the fields (BM25F). Lengths are weighed against fixed typical lengths
//! rather than running averages, so a posting never has to be touched when another document changes.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Bound;
use std::sync::Arc;

use crate::document::ToolDocument;
use crate::typo;
use crate::words::{self, terms};

/// Position of a document in the index.
pub(crate) type Slot = u32;
/// Position of a term in the index.
pub(crate) type TermId = u32;

/// How soon repetition stops to count (BM25's k1).
const SATURATION: f32 = 1.2;

/// How much the occurrence of a word in a field means, and how long such a field usually is.
struct FieldWeight {
    weight: f32,
    typical_length: f32,
    /// How much a longer field dilutes its words (BM25's b).
    dilution: f32,
}

const NAME: FieldWeight = FieldWeight { weight: 3.0, typical_length: 3.0, dilution: 0.6 };
const NAME_PAIR: FieldWeight = FieldWeight { weight: 2.0, typical_length: 2.0, dilution: 0.5 };
const TITLE: FieldWeight = FieldWeight { weight: 2.0, typical_length: 3.0, dilution: 0.5 };
const DESCRIPTION: FieldWeight = FieldWeight { weight: 1.5, typical_length: 8.0, dilution: 0.5 };
const SERVER: FieldWeight = FieldWeight { weight: 1.5, typical_length: 1.0, dilution: 0.5 };
const KEYWORD: FieldWeight = FieldWeight { weight: 1.5, typical_length: 4.0, dilution: 0.3 };
const PARAMETER: FieldWeight = FieldWeight { weight: 0.4, typical_length: 6.0, dilution: 0.3 };
const PARAMETER_DESCRIPTION: FieldWeight = FieldWeight { weight: 0.3, typical_length: 6.0, dilution: 0.3 };

/// All tools of a server share it, so it tells servers apart rather than tools.
const ABOUT: FieldWeight = FieldWeight { weight: 0.3, typical_length: 20.0, dilution: 0.5 };

/// That a term occurs in a document, and how prominently.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Posting {
    pub(crate) slot: Slot,
    pub(crate) prominence: f32,
}

#[derive(Debug)]
pub(crate) struct IndexTerm {
    pub(crate) text: Arc<str>,
    pub(crate) letters: u32,
    /// Ordered by slot.
    pub(crate) postings: Vec<Posting>,
}

/// What is kept of a document: enough to answer and to take it out again.
#[derive(Debug)]
pub(crate) struct PostedDocument {
    pub(crate) name: Arc<str>,
    pub(crate) server: Box<str>,
    terms: Box<[TermId]>,
    full_names: Box<[NameKey]>,
}

/// The words of a full name, hashed: the form in which full names are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct NameKey(u64);

/// A document in terms, ready to be filed. Made outside of any lock; compact, because the first list has thousands.
#[derive(Debug)]
pub(crate) struct AnalyzedDocument {
    name: Arc<str>,
    server: Box<str>,
    /// The terms, one after the other.
    text: Box<str>,
    /// Where each term ends in the text, and its prominence.
    terms: Box<[(u32, f32)]>,
    full_names: Box<[NameKey]>,
}

/// Terms, documents and full names.
#[derive(Debug, Default)]
pub(crate) struct Postings {
    vocabulary: BTreeMap<Arc<str>, TermId>,
    terms: Vec<Option<IndexTerm>>,
    free_terms: Vec<TermId>,
    entries: Vec<Option<PostedDocument>>,
    free_slots: Vec<Slot>,
    slots: HashMap<Arc<str>, Slot>,
    full_names: BTreeSet<(NameKey, Slot)>,
}

impl AnalyzedDocument {
    pub(crate) fn new(document: &ToolDocument) -> Self {
        let own_name = terms(&document.name, true);
        let public_name = terms(&document.id.name, true);
        let server = terms(&document.id.server, true);
        // A tool counts as named in full by its own name, by its public name, and by its server's name and its own.
        let with_server: Vec<String> = server.iter().chain(&own_name).cloned().collect();
        let full_names: BTreeSet<NameKey> =
            [&own_name, &public_name, &with_server].map(|name| NameKey::new(name)).into();

        let mut weighed = BTreeMap::new();
        weigh(&mut weighed, &NAME, own_name);
        weigh(&mut weighed, &NAME_PAIR, joined(&document.name));
        weigh(&mut weighed, &TITLE, terms(document.title.as_deref().unwrap_or_default(), false));
        weigh(&mut weighed, &DESCRIPTION, terms(&document.description, false));
        weigh(&mut weighed, &SERVER, server);
        weigh(&mut weighed, &KEYWORD, document.keywords.iter().flat_map(|word| terms(word, false)).collect());
        let parameters = document.parameters.iter();
        weigh(&mut weighed, &PARAMETER, parameters.clone().flat_map(|p| terms(&p.name, false)).collect());
        weigh(&mut weighed, &PARAMETER_DESCRIPTION, parameters.flat_map(|p| terms(&p.description, false)).collect());

        weigh(&mut weighed, &ABOUT, terms(&document.about, false));

        let mut text = String::new();
        let terms = weighed.into_iter().map(|(term, sum)| {
            text.push_str(&term);
            // BM25F: the sum over all fields is saturated once, so that a word does not count anew in every field.
            (text.len() as u32, sum * (SATURATION + 1.0) / (sum + SATURATION))
        });
        let terms = terms.collect();
        Self {
            name: document.id.name.as_str().into(),
            server: document.id.server.as_str().into(),
            text: text.into(),
            terms,
            full_names: full_names.into_iter().collect(),
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    fn terms(&self) -> impl Iterator<Item = (&str, f32)> {
        let mut start = 0;
        self.terms.iter().map(move |&(end, prominence)| {
            let term = &self.text[start..end as usize];
            start = end as usize;
            (term, prominence)
        })
    }
}

impl NameKey {
    pub(crate) fn new(terms: &[String]) -> Self {
        // Two names with the same hash would only move a wrong tool up; nothing is decided by it.
        let mut hasher = DefaultHasher::new();
        terms.hash(&mut hasher);
        Self(hasher.finish())
    }
}

/// Neighbours in a name as one word, so that `file_system` is found by "filesystem".
fn joined(name: &str) -> Vec<String> {
    words::split(name).windows(2).map(|pair| crate::stem::stem(&pair.concat())).collect()
}

fn weigh(weighed: &mut BTreeMap<String, f32>, field: &FieldWeight, terms: Vec<String>) {
    let length = terms.len() as f32 / field.typical_length;
    // A field far shorter than usual gains no more than one of three tenths of the usual length.
    let weight = field.weight / (1.0 - field.dilution + field.dilution * length.max(0.3));
    for term in terms {
        *weighed.entry(term).or_default() += weight;
    }
}

impl Postings {
    /// Files a document under a slot. One with the same name is to be removed first.
    pub(crate) fn put(&mut self, document: AnalyzedDocument) -> Slot {
        let slot = self.free_slots.pop().unwrap_or_else(|| {
            self.entries.push(None);
            (self.entries.len() - 1) as Slot
        });
        let terms =
            document.terms().map(|(text, prominence)| self.add_posting(text, Posting { slot, prominence })).collect();
        self.full_names.extend(document.full_names.iter().map(|&key| (key, slot)));
        self.slots.insert(Arc::clone(&document.name), slot);
        let AnalyzedDocument { name, server, full_names, .. } = document;
        self.entries[slot as usize] = Some(PostedDocument { name, server, terms, full_names });
        slot
    }

    /// Takes a document out. Gives the slot that it had.
    pub(crate) fn remove(&mut self, public_name: &str) -> Option<Slot> {
        let slot = self.slots.remove(public_name)?;
        let entry = self.entries[slot as usize].take()?;
        for &id in &entry.terms {
            self.remove_posting(id, slot);
        }
        for &key in &entry.full_names {
            self.full_names.remove(&(key, slot));
        }
        self.free_slots.push(slot);
        Some(slot)
    }

    fn add_posting(&mut self, text: &str, posting: Posting) -> TermId {
        let id = self.term_id(text);
        if let Some(term) = &mut self.terms[id as usize] {
            // Slots are reused, so a new document does not always belong at the end.
            let at = term.postings.partition_point(|p| p.slot < posting.slot);
            term.postings.insert(at, posting);
        }
        id
    }

    fn remove_posting(&mut self, id: TermId, slot: Slot) {
        let Some(term) = &mut self.terms[id as usize] else { return };
        if let Ok(at) = term.postings.binary_search_by_key(&slot, |p| p.slot) {
            term.postings.remove(at);
        }
        // A word nobody uses any more must not be offered as a completion or correction.
        if term.postings.is_empty() {
            self.vocabulary.remove(&term.text);
            self.terms[id as usize] = None;
            self.free_terms.push(id);
        }
    }

    fn term_id(&mut self, text: &str) -> TermId {
        if let Some(&id) = self.vocabulary.get(text) {
            return id;
        }
        let id = self.free_terms.pop().unwrap_or_else(|| {
            self.terms.push(None);
            (self.terms.len() - 1) as TermId
        });
        let text: Arc<str> = text.into();
        self.terms[id as usize] =
            Some(IndexTerm { letters: typo::letters(&text), text: Arc::clone(&text), postings: Vec::new() });
        self.vocabulary.insert(text, id);
        id
    }

    /// How many documents there are.
    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    /// One more than the highest slot in use.
    pub(crate) fn slot_count(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn entry(&self, slot: Slot) -> Option<&PostedDocument> {
        self.entries.get(slot as usize)?.as_ref()
    }

    pub(crate) fn term(&self, text: &str) -> Option<&IndexTerm> {
        self.terms[*self.vocabulary.get(text)? as usize].as_ref()
    }

    /// All terms, in no order that may be relied on.
    pub(crate) fn all_terms(&self) -> impl Iterator<Item = &IndexTerm> {
        self.terms.iter().flatten()
    }

    /// The first terms that begin so and are longer, in alphabetical order.
    pub(crate) fn terms_with_prefix(&self, prefix: &str, limit: usize) -> Vec<&IndexTerm> {
        self.vocabulary
            // The word itself is excluded: it is found as an exact match, with a higher weight.
            .range::<str, _>((Bound::Excluded(prefix), Bound::Unbounded))
            .take_while(|(text, _)| text.starts_with(prefix))
            .filter_map(|(_, &id)| self.terms[id as usize].as_ref())
            .take(limit)
            .collect()
    }

    /// The documents with this full name.
    pub(crate) fn slots_named(&self, key: NameKey) -> impl Iterator<Item = Slot> {
        self.full_names.range((key, Slot::MIN)..=(key, Slot::MAX)).map(|&(_, slot)| slot)
    }

    /// The document with exactly this public name.
    pub(crate) fn slot_of(&self, public_name: &str) -> Option<Slot> {
        self.slots.get(public_name).copied()
    }
}
