//! What both file formats become: values that know where they were written, in the order they were written.

pub(crate) mod json;
pub(crate) mod toml;

use crate::error::TextPosition;

/// A value and where it begins.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ConfigNode {
    pub(crate) at: Option<TextPosition>,
    pub(crate) value: ConfigValue,
}

/// A key of a table with its value; `at` is where the key begins.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TableEntry {
    pub(crate) key: String,
    pub(crate) at: Option<TextPosition>,
    pub(crate) node: ConfigNode,
}

/// The values a configuration can hold. Numbers that are not whole have no use in it and keep only their kind.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ConfigValue {
    Null,
    Boolean(bool),
    Integer(i64),
    Text(String),
    List(Vec<ConfigNode>),
    Table(Vec<TableEntry>),
    Other(&'static str),
}

impl ConfigValue {
    /// The kind of value, with its article.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Boolean(_) => "a boolean",
            Self::Integer(_) => "an integer",
            Self::Text(_) => "a string",
            Self::List(_) => "a list",
            Self::Table(_) => "a table",
            Self::Other(kind) => kind,
        }
    }
}

/// A text that is not of its format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SyntaxError {
    pub(crate) at: Option<TextPosition>,
    pub(crate) message: String,
}

/// Turns byte offsets of a text into lines and columns.
pub(crate) struct LineStarts<'t> {
    text: &'t str,
    starts: Vec<usize>,
}

impl<'t> LineStarts<'t> {
    pub(crate) fn of(text: &'t str) -> Self {
        let after_breaks = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at + 1);
        Self { text, starts: std::iter::once(0).chain(after_breaks).collect() }
    }

    pub(crate) fn position(&self, offset: usize) -> TextPosition {
        let line = self.starts.partition_point(|start| *start <= offset).max(1);
        let start = self.starts[line - 1];
        let before = self.text.get(start..offset).map_or(0, |before| before.chars().count());
        TextPosition { line, column: before + 1 }
    }
}

/// `parent.key`, with the key in quotes when TOML would need them.
pub(crate) fn key_path(parent: &str, key: &str) -> String {
    let is_bare =
        !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-');
    let shown = if is_bare { key.to_owned() } else { format!("{key:?}") };
    if parent.is_empty() { shown } else { format!("{parent}.{shown}") }
}
