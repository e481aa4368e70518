//! Ranked text search over tools: a small inverted index in memory, fed by differences of the catalogue.
//!
//! A tool is found by the words of its name, title, description, parameters and server. Word forms, spelling of compounds
//! (`snake_case`, `camelCase`, `kebab-case`), prefixes, small typos and everyday synonyms do not matter; see [`SearchIndex::search`].
//!
//! [`SearchIndex`] is the engine; [`ToolIndex`] keeps one in step with the catalogue; [`present`] shows what was found.
//!
//! With a [`MeaningSource`] similarity of meaning counts beside the words; [`UseMemory`] learns from use.
//!
//! Not here: what a client may see, calls. The crate does no I/O but reading the files of a model, and is never on the path of a call.
//! Why it is not a search library: `docs/adr/0006-search-engine.md`.

mod control;
mod document;
mod follow;
mod index;
mod model;
mod postings;
mod present;
mod query;
mod question;
mod remote;
mod stem;
mod synonyms;
mod typo;
mod uses;
mod vectors;
mod words;

pub use control::{ForgetFault, SearchControl};
pub use document::{DocId, MeaningText, ToolDocument, ToolParameter};
pub use follow::{FoundTool, IndexUpdate, SearchView, ToolIndex};
pub use index::{IndexChange, MeaningSource, SearchHit, SearchIndex, VectorCount};
pub use model::normalise as unit_vector;
pub use model::{ModelError, ModelFacts, SearchModel, StaticModel, TextEncoder};
pub use present::{present, present_all};
pub use question::{PreferredTool, Question};
pub use remote::{RemoteVectors, WantedText};
pub use uses::{ToolUse, UseChange, UseMemory};
