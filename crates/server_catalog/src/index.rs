//! Entries in memory, searchable; made anew whenever a source was read.

use std::collections::BTreeMap;
use std::sync::Arc;

use tidings_search::{DocId, IndexChange, SearchIndex, ToolDocument};

use crate::catalogue::{CatalogEntry, EntryHit, EntryQuery};

/// The entries of all sources.
#[derive(Debug, Default)]
pub(crate) struct EntryIndex {
    entries: BTreeMap<String, Arc<CatalogEntry>>,
    index: SearchIndex,
}

impl EntryIndex {
    /// Of two entries with one id, the later one counts.
    pub(crate) fn new(entries: impl IntoIterator<Item = Arc<CatalogEntry>>) -> Self {
        let entries: BTreeMap<String, Arc<CatalogEntry>> =
            entries.into_iter().map(|entry| (entry.id.clone(), entry)).collect();
        let index = SearchIndex::new();
        let documents: Vec<IndexChange> = entries.values().map(|entry| IndexChange::Put(document(entry))).collect();
        index.apply(&documents);
        Self { entries, index }
    }

    pub(crate) fn get(&self, id: &str) -> Option<Arc<CatalogEntry>> {
        self.entries.get(id).cloned()
    }

    pub(crate) fn of_source<'a>(&'a self, source: Option<&'a str>) -> impl Iterator<Item = &'a Arc<CatalogEntry>> {
        self.entries.values().filter(move |entry| source.is_none_or(|source| *entry.source == *source))
    }

    pub(crate) fn search(&self, query: &EntryQuery) -> Vec<EntryHit> {
        let weighed = |hit: tidings_search::SearchHit| {
            let entry = self.get(&hit.name)?;
            Some(EntryHit { score: hit.score * standing(&entry), entry })
        };
        // All of them, because the filters below may leave out any number.
        let hits = self.index.search(&query.text, self.entries.len());
        let mut hits: Vec<EntryHit> =
            hits.into_iter().filter_map(weighed).filter(|hit| fits(&hit.entry, query)).collect();
        hits.sort_by(|a, b| b.score.total_cmp(&a.score).then_with(|| a.entry.id.cmp(&b.entry.id)));
        hits.truncate(query.limit);
        hits
    }
}

/// Of two that fit about equally well, the one that is vouched for comes first.
fn standing(entry: &CatalogEntry) -> f32 {
    let vouched = [entry.official, entry.featured].into_iter().filter(|vouched| *vouched).count();
    // Little enough that a better match of words still comes first.
    [1.0, 1.15, 1.3][vouched]
}

/// What an entry is found by: as a tool by its name, title and description, and by its words.
fn document(entry: &CatalogEntry) -> ToolDocument {
    // The maker is searched as the server of a tool is: its name finds all that it has made.
    let (maker, own) = entry.id.rsplit_once('/').unwrap_or(("", &entry.id));
    ToolDocument {
        id: DocId { name: entry.id.clone(), server: maker.to_owned() },
        name: own.to_owned(),
        title: Some(entry.name.clone()),
        description: entry.description.clone(),
        about: String::new(),
        keywords: entry.categories.iter().chain(&entry.tags).cloned().collect(),
        parameters: Vec::new(),
    }
}

fn fits(entry: &CatalogEntry, query: &EntryQuery) -> bool {
    let one_of = |wanted: &[String], has: &[String]| {
        wanted.is_empty() || wanted.iter().any(|word| has.iter().any(|own| own.eq_ignore_ascii_case(word)))
    };
    one_of(&query.categories, &entry.categories)
        && one_of(&query.tags, &entry.tags)
        && one_of(&query.sources, &[entry.source.to_string()])
        && (entry.official || !query.official_only)
        && (entry.featured || !query.featured_only)
}
