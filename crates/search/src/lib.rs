//! Ranked text search over tools: a small inverted index in memory, fed by differences of the catalogue.
//!
//! A tool is found by the words of its name, title, description, parameters and server. Word forms, spelling of compounds
//! (`snake_case`, `camelCase`, `kebab-case`), prefixes, small typos and everyday synonyms do not matter; see [`SearchIndex::search`].
//!
//! [`SearchIndex`] is the engine; [`ToolIndex`] keeps one in step with the catalogue; [`present`] shows what was found.
//!
//! Not here: what a client may see, calls. The crate does no I/O and is never on the path of a call.
//! Why it is not a search library: `docs/adr/0006-search-engine.md`.

mod document;
mod follow;
mod index;
mod postings;
mod present;
mod query;
mod stem;
mod synonyms;
mod typo;
mod words;

pub use document::{DocId, ToolDocument, ToolParameter};
pub use follow::{FoundTool, IndexUpdate, SearchView, ToolIndex};
pub use index::{IndexChange, SearchHit, SearchIndex};
pub use present::{present, present_all};
