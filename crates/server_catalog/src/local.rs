//! The catalogue of this machine: what is built in, and a file of the user's, whose entries win.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, MutexGuard};
use std::time::SystemTime;

use futures_util::future::BoxFuture;
use tidings_config::{CatalogueEntry, ConfigErrors, parse_catalogue};
use tidings_sync::Lock;

use crate::catalogue::{
    CatalogEntry, CatalogueError, EntryCatalogue, EntryHit, EntryPage, EntryQuery, RefreshReport, SourceStatus,
};
use crate::index::EntryIndex;
use crate::starter;

/// The source that is part of the program.
const BUILT_IN: &str = "built-in";
/// The source that is a file.
const FILE: &str = "file";
/// What every source can be asked for by.
const ALL: &str = "all";
/// A larger file is not a catalogue that somebody wrote.
const MAX_BYTES: u64 = 16 * 1024 * 1024;

/// Why a file is not a catalogue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileFault {
    /// It can not be read.
    Unreadable {
        /// The catalogue file of the user.
        path: PathBuf,
        /// Why the system refused to read it.
        kind: io::ErrorKind,
    },
    /// The file is larger than any catalogue that somebody wrote; it is not read.
    TooLarge {
        /// The catalogue file of the user.
        path: PathBuf,
    },
    /// It says something wrong, here and here.
    Invalid(ConfigErrors),
}

impl fmt::Display for FileFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable { path, kind: io::ErrorKind::NotFound } => {
                write!(f, "there is no file {}; make it, or remove `catalogue`", path.display())
            }
            Self::Unreadable { path, kind } => write!(f, "{} can not be read: {kind}", path.display()),
            Self::TooLarge { path } => write!(f, "{} is larger than {MAX_BYTES} bytes; split it", path.display()),
            Self::Invalid(errors) => errors.fmt(f),
        }
    }
}

impl std::error::Error for FileFault {}

/// The starter set and perhaps a file.
#[derive(Debug)]
pub struct LocalCatalogue {
    state: Lock<CatalogState>,
}

#[derive(Debug)]
struct CatalogState {
    sources: Vec<EntrySource>,
    index: Arc<EntryIndex>,
}

#[derive(Debug, Clone)]
struct EntrySource {
    status: SourceStatus,
    entries: Vec<Arc<CatalogEntry>>,
}

impl LocalCatalogue {
    /// Reads the file, if there is one.
    pub fn open(file: Option<&Path>) -> Result<Self, FileFault> {
        let mut sources = vec![EntrySource::new(BUILT_IN, None, starter::entries())];
        if let Some(path) = file {
            sources.push(EntrySource::new(FILE, Some(path.to_owned()), read(path)?));
        }
        let index = Arc::new(index(&sources));
        Ok(Self { state: Lock::new(CatalogState { sources, index }) })
    }

    fn state(&self) -> MutexGuard<'_, CatalogState> {
        self.state.lock()
    }

    fn index(&self) -> Arc<EntryIndex> {
        Arc::clone(&self.state().index)
    }

    /// `None` for all sources.
    fn named(&self, source: Option<String>) -> Result<Option<String>, CatalogueError> {
        let Some(name) = source.filter(|name| !name.eq_ignore_ascii_case(ALL)) else { return Ok(None) };
        let known: Vec<String> = self.state().sources.iter().map(|source| source.status.name.to_string()).collect();
        match known.iter().find(|known| known.eq_ignore_ascii_case(&name)) {
            Some(known) => Ok(Some(known.clone())),
            None => Err(CatalogueError::UnknownSource { name, known: [known, vec![ALL.to_owned()]].concat() }),
        }
    }

    /// Takes in what was read of a file.
    fn take_in(&self, path: &Path, outcome: Result<Vec<CatalogueEntry>, FileFault>) -> Option<RefreshReport> {
        let mut state = self.state();
        let source = state.sources.iter_mut().find(|source| source.status.file.as_deref() == Some(path))?;
        let before = source.clone();
        match outcome {
            Ok(entries) => *source = EntrySource::new(FILE, Some(path.to_owned()), entries),
            // What was read before stays in use; the status says why it is old.
            Err(fault) => source.status.error = Some(fault.to_string()),
        }
        let refreshed = difference(&before, source);
        state.index = Arc::new(index(&state.sources));
        Some(refreshed)
    }

    async fn refresh_now(&self, source: Option<String>) -> Result<Vec<RefreshReport>, CatalogueError> {
        let named = self.named(source)?;
        // A copy, because files are read without the lock.
        let wanted = self.state().sources.clone();
        let wanted = wanted.into_iter().filter(|source| named.as_ref().is_none_or(|n| **n == *source.status.name));
        let mut done = Vec::new();
        for source in wanted {
            let Some(path) = source.status.file.clone() else {
                // What is built in can not change, and is reported as unchanged.
                done.push(difference(&source, &source));
                continue;
            };
            let file = path.clone();
            let outcome = tokio::task::spawn_blocking(move || read(&file)).await;
            let outcome = outcome
                .unwrap_or_else(|_| Err(FileFault::Unreadable { path: path.clone(), kind: io::ErrorKind::Other }));
            done.extend(self.take_in(&path, outcome));
        }
        Ok(done)
    }
}

impl EntryCatalogue for LocalCatalogue {
    fn sources(&self) -> Vec<SourceStatus> {
        self.state().sources.iter().map(|source| source.status.clone()).collect()
    }

    fn search(&self, query: EntryQuery) -> BoxFuture<'_, Result<Vec<EntryHit>, CatalogueError>> {
        Box::pin(async move {
            for source in &query.sources {
                // A source that does not exist is an error: an empty answer would read as "nothing fits".
                self.named(Some(source.clone()))?;
            }
            let any = query.sources.iter().any(|source| source.eq_ignore_ascii_case(ALL));
            let query = if any { EntryQuery { sources: Vec::new(), ..query } } else { query };
            Ok(self.index().search(&query))
        })
    }

    fn list(&self, source: Option<String>, limit: usize) -> BoxFuture<'_, Result<EntryPage, CatalogueError>> {
        Box::pin(async move {
            let source = self.named(source)?;
            let index = self.index();
            let entries = || index.of_source(source.as_deref());
            Ok(EntryPage { entries: entries().take(limit).cloned().collect(), total: entries().count() })
        })
    }

    fn get(&self, id: String) -> BoxFuture<'_, Result<Option<Arc<CatalogEntry>>, CatalogueError>> {
        Box::pin(async move { Ok(self.index().get(&id)) })
    }

    fn refresh(&self, source: Option<String>) -> BoxFuture<'_, Result<Vec<RefreshReport>, CatalogueError>> {
        Box::pin(self.refresh_now(source))
    }
}

impl EntrySource {
    fn new(name: &str, file: Option<PathBuf>, entries: Vec<CatalogueEntry>) -> Self {
        let name: Arc<str> = name.into();
        let status = SourceStatus {
            name: Arc::clone(&name),
            file,
            entries: entries.len(),
            refreshed: SystemTime::now(),
            error: None,
        };
        let entry = |about| Arc::new(CatalogEntry { source: Arc::clone(&name), about });
        Self { status, entries: entries.into_iter().map(entry).collect() }
    }
}

fn index(sources: &[EntrySource]) -> EntryIndex {
    // The file comes after what is built in, so its entries win.
    EntryIndex::new(sources.iter().flat_map(|source| source.entries.iter().cloned()))
}

fn difference(before: &EntrySource, after: &EntrySource) -> RefreshReport {
    let known: HashMap<&str, &Arc<CatalogEntry>> =
        before.entries.iter().map(|entry| (entry.id.as_str(), entry)).collect();
    let kept: Vec<bool> =
        after.entries.iter().filter_map(|entry| Some(known.get(entry.id.as_str())? == &entry)).collect();
    RefreshReport {
        source: after.status.clone(),
        added: after.entries.len() - kept.len(),
        changed: kept.iter().filter(|same| !**same).count(),
        removed: before.entries.len() - kept.len(),
    }
}

fn read(path: &Path) -> Result<Vec<CatalogueEntry>, FileFault> {
    let unreadable = |error: io::Error| FileFault::Unreadable { path: path.to_owned(), kind: error.kind() };
    if std::fs::metadata(path).map_err(unreadable)?.len() > MAX_BYTES {
        return Err(FileFault::TooLarge { path: path.to_owned() });
    }
    let text = std::fs::read_to_string(path).map_err(unreadable)?;
    parse_catalogue(&text, path).map_err(FileFault::Invalid)
}

#[cfg(test)]
mod tests;
