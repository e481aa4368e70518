//! How two states of a definition differ, and how much that matters: one truth for the page and the terminal.
//!
//! Pure: values in, parts out. Nothing here knows of logs, colours or HTML.

mod lines;
mod paths;
mod schema;
mod severity;
mod signs;
mod visible;
mod words;

pub use lines::{DiffLine, lines, shortened};
pub use paths::{PathChange, paths};
pub use severity::{FieldPair, Finding, Severity, added, changed, loudest, removed, unknown};
pub use signs::INSTRUCTIONS;
pub use visible::{VisibleSpan, is_deceptive, visible};
pub use words::{WordSpan, words};
