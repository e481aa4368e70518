//! What can be wrong with a configuration, and the one place that puts it into words.
//!
//! Values of the file are never repeated in a message unless they are words from a fixed choice or spans of time: anything
//! else may be a secret.

mod fault;

pub(crate) use fault::closest;
pub use fault::{ConfigFault, PrefixKind};

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// A line and a column, both counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct TextPosition {
    /// The line, counted from 1.
    pub line: usize,
    /// The column, in characters.
    pub column: usize,
}

impl fmt::Display for TextPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// Where something is written. A server that came over the HTTP API has neither file nor position.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ConfigPlace {
    /// The file, as it was named.
    pub file: Option<PathBuf>,
    /// Line and column in the file; `None` where the file as a whole is meant.
    pub position: Option<TextPosition>,
}

impl fmt::Display for ConfigPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.file, self.position) {
            (Some(file), Some(position)) => write!(f, "{}:{position}", file.display()),
            (Some(file), None) => write!(f, "{}", file.display()),
            (None, Some(position)) => write!(f, "line {position}"),
            (None, None) => Ok(()),
        }
    }
}

/// Writes `place: key: ` with what there is of both.
fn heading(f: &mut fmt::Formatter<'_>, place: &ConfigPlace, key: &str) -> fmt::Result {
    if *place != ConfigPlace::default() {
        write!(f, "{place}: ")?;
    }
    if !key.is_empty() {
        write!(f, "{key}: ")?;
    }
    Ok(())
}

/// A fault that keeps the configuration from being used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError {
    /// The file and position that the message points to.
    pub place: ConfigPlace,
    /// The path of the key, as in `servers.memory.command`; empty when the file as a whole is meant.
    pub key: String,
    /// The fault itself; its words name the remedy.
    pub fault: ConfigFault,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        heading(f, &self.place, &self.key)?;
        self.fault.fmt(f)
    }
}

impl std::error::Error for ConfigError {}

/// Every fault that was found, in the order of the file; never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigErrors(Vec<ConfigError>);

impl ConfigErrors {
    /// The faults, sorted by where they are; `None` when there are none.
    pub(crate) fn from_found(mut found: Vec<ConfigError>) -> Option<Self> {
        // Checks between servers come after those of each, so faults are not found in the order of the file.
        found.sort_by(|a, b| a.place.cmp(&b.place));
        (!found.is_empty()).then_some(Self(found))
    }

    pub(crate) fn unreadable(file: &Path, kind: io::ErrorKind) -> Self {
        let place = ConfigPlace { file: Some(file.to_owned()), position: None };
        Self(vec![ConfigError { place, key: String::new(), fault: ConfigFault::Unreadable { kind } }])
    }

    /// Nothing usable at `key`, when nothing more precise was found.
    pub(crate) fn unusable(key: String) -> Self {
        Self(vec![ConfigError { place: ConfigPlace::default(), key, fault: ConfigFault::Empty }])
    }

    /// The faults in the order of the file.
    pub fn iter(&self) -> std::slice::Iter<'_, ConfigError> {
        self.0.iter()
    }
}

impl<'a> IntoIterator for &'a ConfigErrors {
    type Item = &'a ConfigError;
    type IntoIter = std::slice::Iter<'a, ConfigError>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl fmt::Display for ConfigErrors {
    /// One fault per line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.0.iter().enumerate() {
            if index > 0 {
                writeln!(f)?;
            }
            error.fmt(f)?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigErrors {}

/// Something odd that does not keep the configuration from being used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigWarning {
    /// The file and position that the message points to.
    pub place: ConfigPlace,
    /// The path of the key.
    pub key: String,
    /// What is odd, in words that name the remedy.
    pub caution: WarningKind,
}

impl fmt::Display for ConfigWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        heading(f, &self.place, &self.key)?;
        self.caution.fmt(f)
    }
}

/// What a [`ConfigWarning`] is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WarningKind {
    /// A key of another program's convention that has no meaning here.
    #[error("this key is not used and was ignored")]
    IgnoredKey,
    /// The entry would start Tidings inside itself.
    #[error("this entry starts Tidings itself and was skipped")]
    StartsTidings,
    /// Programs disagree on the unit of a plain number.
    #[error("a plain number is ambiguous here and was ignored; write a duration such as \"30s\"")]
    UnitlessTimeout,
    /// URIs with this prefix are not valid, because a scheme begins with a letter.
    #[error("resource URIs get a scheme that does not begin with a letter, which many clients refuse; set `prefix`")]
    SchemeWithoutLetter,
}

/// A part of a valid configuration that can not be run: not by this build yet, or not in this way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigNotice {
    /// The file and position that the message points to.
    pub place: ConfigPlace,
    /// The path of the key.
    pub key: String,
    /// The part that is left out of what runs.
    pub part: UnrunnablePart,
}

impl fmt::Display for ConfigNotice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        heading(f, &self.place, &self.key)?;
        self.part.fmt(f)
    }
}

/// What can not be run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UnrunnablePart {
    /// A webhook where nobody can post.
    #[error("nobody can post to a webhook over stdio; use `tidings serve`, or remove the section")]
    WebhookOnStdio,
    /// One client has one process.
    #[error("one client on stdio needs no cluster; use `tidings serve`, or remove the section")]
    ClusterOnStdio,
}
