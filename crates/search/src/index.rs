//! The index as others see it: changes in, ranked names out.

use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::document::ToolDocument;
use crate::model::StaticModel;
use crate::postings::{AnalyzedDocument, Postings};
use crate::query::{self, QuestionMeaning};
use crate::question::Question;
use crate::remote::{self, RemoteVectors, WaitingTexts, WantedText};
use crate::vectors::VectorTable;

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

/// Where the meaning of texts comes from.
#[derive(Debug, Clone, Default)]
pub enum MeaningSource {
    /// Nowhere: words alone are compared.
    #[default]
    Words,
    /// A model in this process.
    Model(Arc<StaticModel>),
    /// Something that gives vectors later.
    Remote(Arc<dyn RemoteVectors>),
}

/// What the index holds of all tools, behind one lock: words, vectors, and texts that wait for theirs.
#[derive(Debug, Default)]
struct Filed {
    postings: Postings,
    vectors: VectorTable,
    /// Only where vectors come from elsewhere.
    waiting: WaitingTexts,
}

/// How many tools can be found by meaning.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct VectorCount {
    /// How many tools there are in all.
    pub tools: usize,
    /// Tools with a vector.
    pub vectors: usize,
    /// Texts that wait for theirs.
    pub waiting: usize,
    /// How much memory the vectors take.
    pub bytes: usize,
}

/// A ranked index of tools in memory. Readers and the writer share it by reference.
#[derive(Debug, Default)]
pub struct SearchIndex {
    filed: RwLock<Filed>,
    meaning: MeaningSource,
}

impl SearchIndex {
    /// An index of nothing, by words alone.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// An index of nothing that compares meanings, too.
    #[must_use]
    pub fn with_meaning(meaning: MeaningSource) -> Self {
        Self { filed: RwLock::default(), meaning }
    }

    fn read(&self) -> RwLockReadGuard<'_, Filed> {
        self.filed.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Filed> {
        self.filed.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes all changes visible at once. The work is proportional to the changed tools, not to the catalogue.
    pub fn apply(&self, changes: &[IndexChange]) {
        enum Ready<'a> {
            Put(AnalyzedDocument, Option<Meaning>),
            Remove(&'a str),
        }
        enum Meaning {
            Vector(Vec<f32>),
            Text(String),
        }
        let meaning = |document: &ToolDocument| match &self.meaning {
            MeaningSource::Words => None,
            MeaningSource::Model(model) => document.embed(model).map(Meaning::Vector),
            MeaningSource::Remote(remote) => Some(Meaning::Text(document.meaning_text(remote.reads()))),
        };
        // Reading the texts is the larger part of the work; searches go on meanwhile.
        let ready: Vec<Ready<'_>> = changes
            .iter()
            .map(|change| match change {
                IndexChange::Put(document) => Ready::Put(AnalyzedDocument::new(document), meaning(document)),
                IndexChange::Remove(name) => Ready::Remove(name),
            })
            .collect();
        let mut filed = self.write();
        let Filed { postings, vectors, waiting } = &mut *filed;
        for change in ready {
            // `put` expects that no document has the name.
            let freed = match &change {
                Ready::Put(document, _) => postings.remove(document.name()),
                Ready::Remove(name) => postings.remove(name),
            };
            if let Some(slot) = freed {
                // The slot will be given to another tool, which must not inherit the vector of this one.
                vectors.remove(slot);
                waiting.remove(slot);
            }
            let Ready::Put(document, meaning) = change else { continue };
            let slot = postings.put(document);
            match meaning {
                Some(Meaning::Vector(vector)) => vectors.put(slot, &vector),
                Some(Meaning::Text(text)) => waiting.put(slot, text),
                None => {}
            }
        }
        let wanted = waiting.len() > 0;
        // Not under the lock: whoever is woken asks for the texts at once.
        drop(filed);
        if let (true, MeaningSource::Remote(remote)) = (wanted, &self.meaning) {
            remote.wanted();
        }
    }

    /// The tools that fit a query, best first; equally good ones by name.
    ///
    /// A query is a name or a phrase. Words that occur nowhere are ignored, stop words too unless there is nothing else. A
    /// word also finds its other forms, words that begin with it, everyday synonyms and, if it is unknown, words that differ
    /// by a typo; each counts less than the word itself. A query that is a tool's full name gives that tool first.
    #[must_use]
    pub fn search(&self, query: &str, limit: usize) -> Vec<SearchHit> {
        self.answer(&self.question(query), limit)
    }

    /// The same for a question with all that is known of it.
    #[must_use]
    pub fn answer(&self, question: &Question, limit: usize) -> Vec<SearchHit> {
        self.answer_boosted(question, &[], limit)
    }

    /// The same; `boosts` are tools by public name that were used after similar questions.
    pub(crate) fn answer_boosted(&self, question: &Question, boosts: &[(String, f32)], limit: usize) -> Vec<SearchHit> {
        let filed = self.read();
        let weight = match &self.meaning {
            MeaningSource::Remote(remote) => remote.weight(),
            MeaningSource::Words | MeaningSource::Model(_) => remote::MEANING,
        };
        // While many tools wait for their vectors, those that have one would push the others down; words are fair to all.
        let waiting = filed.waiting.len();
        let fair = waiting == 0 || waiting * 3 <= filed.vectors.len();
        let vector = question.vector.as_deref().filter(|_| fair);
        let meaning = QuestionMeaning { vector, vectors: &filed.vectors, weight };
        query::rank(&filed.postings, &meaning, &question.text, boosts, limit)
    }

    /// A question with its vector, where a model of this process gives it.
    #[must_use]
    pub fn question(&self, text: &str) -> Question {
        let vector = match &self.meaning {
            MeaningSource::Model(model) => model.embed(text),
            MeaningSource::Words | MeaningSource::Remote(_) => None,
        };
        Question { vector, ..Question::of_words(text) }
    }

    /// Texts that wait for a vector from elsewhere.
    #[must_use]
    pub fn wanted_texts(&self, limit: usize) -> Vec<WantedText> {
        self.read().waiting.texts(limit)
    }

    /// Gives the tools with this text their vector, of length one. Those that went meanwhile are not missed. An empty one says
    /// that there is none: the text is not wanted any more.
    pub fn place(&self, text: &WantedText, vector: &[f32]) {
        let mut filed = self.write();
        for slot in filed.waiting.take(&text.0) {
            // The table would take a vector of another length for one of another model, and begin anew.
            if !vector.is_empty() {
                filed.vectors.put(slot, vector);
            }
        }
    }

    /// How many tools can be found by meaning.
    #[must_use]
    pub fn count(&self) -> VectorCount {
        let filed = self.read();
        VectorCount {
            tools: filed.postings.len(),
            vectors: filed.vectors.len(),
            waiting: filed.waiting.len(),
            bytes: filed.vectors.bytes(),
        }
    }

    /// How many tools there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.read().postings.len()
    }

    /// Whether there are no tools.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
