//! The index as others see it: changes in, ranked names out.

use std::sync::{PoisonError, RwLock};

use crate::document::ToolDocument;
use crate::postings::{AnalyzedDocument, Postings};
use crate::query;

/// A difference of the catalogue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IndexChange {
    /// The tool is new, or replaces the one with the same public name.
    Put(ToolDocument),
    /// The tool with this public name is gone.
    Remove(String),
}

/// A tool that was found.
#[derive(Debug, Clone, PartialEq)]
pub struct SearchHit {
    /// The public name, as it is called.
    pub name: String,
    /// The server that offers it.
    pub server: String,
    /// How well it fits; comparable only among the hits of one search.
    pub score: f32,
}

/// A ranked index of tools in memory. Readers and the writer share it by reference.
#[derive(Debug, Default)]
pub struct SearchIndex {
    postings: RwLock<Postings>,
}

impl SearchIndex {
    /// An index of nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes all changes visible at once. The work is proportional to the changed tools, not to the catalogue.
    pub fn apply(&self, changes: &[IndexChange]) {
        enum Ready<'a> {
            Put(AnalyzedDocument),
            Remove(&'a str),
        }
        // Reading the texts is the larger part of the work; searches go on meanwhile.
        let ready: Vec<Ready<'_>> = changes
            .iter()
            .map(|change| match change {
                IndexChange::Put(document) => Ready::Put(AnalyzedDocument::new(document)),
                IndexChange::Remove(name) => Ready::Remove(name),
            })
            .collect();
        let mut postings = self.postings.write().unwrap_or_else(PoisonError::into_inner);
        for change in ready {
            match change {
                Ready::Put(document) => postings.put(document),
                Ready::Remove(name) => postings.remove(name),
            }
        }
    }

    /// The tools that fit a query, best first; equally good ones by name.
    ///
    /// A query is a name or a phrase. Words that occur nowhere are ignored, stop words too unless there is nothing else. A
    /// word also finds its other forms, words that begin with it, everyday synonyms and, if it is unknown, words that differ
    /// by a typo; each counts less than the word itself. A query that is a tool's full name gives that tool first.
    #[must_use]
    pub fn search(&self, query: &str, limit: usize) -> Vec<SearchHit> {
        let postings = self.postings.read().unwrap_or_else(PoisonError::into_inner);
        query::rank(&postings, query, limit)
    }

    /// How many tools there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.postings.read().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Whether there are no tools.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
