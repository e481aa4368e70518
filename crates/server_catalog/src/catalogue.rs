//! What a catalogue of entries can be asked.

use std::ops::Deref;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use futures_util::future::BoxFuture;
use serde_json::Value;
use tidings_config::CatalogueEntry;

use crate::keys::{ExtraKeys, KeysError};
use crate::published::ReleaseStatus;

/// A server that could be added, and who says so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CatalogEntry {
    /// The source that it comes from.
    pub source: Arc<str>,
    /// What is known of it.
    pub about: CatalogueEntry,
    /// Its release, where the source is a registry.
    pub release: Option<Arc<EntryRelease>>,
}

/// What a registry publishes under an entry's id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntryRelease {
    /// The version of the release.
    pub version: String,
    /// Whether it should be used.
    pub status: ReleaseStatus,
    /// What its publisher says about that.
    pub message: Option<String>,
    /// The item of the registry, as it was sent. Kept as text: few of many thousand are ever read further.
    pub(crate) item: Box<str>,
}

impl Deref for CatalogEntry {
    type Target = CatalogueEntry;

    fn deref(&self) -> &CatalogueEntry {
        &self.about
    }
}

/// What is looked for. Empty lists do not restrict; of a list that is not empty, one word has to fit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EntryQuery {
    /// What the server should do, or its name.
    pub text: String,
    /// Categories of which the entry must have one.
    pub categories: Vec<String>,
    /// Tags of which the entry must have one.
    pub tags: Vec<String>,
    /// Where it comes from.
    pub sources: Vec<String>,
    /// Only those made by the owners of what they give access to.
    pub official_only: bool,
    /// Whether only entries that are marked as recommended are wanted.
    pub featured_only: bool,
    /// How many at most.
    pub limit: usize,
}

/// An entry that fits.
#[derive(Debug, Clone, PartialEq)]
pub struct EntryHit {
    /// The entry that matched.
    pub entry: Arc<CatalogEntry>,
    /// How well it fits; comparable only within one result.
    pub score: f32,
}

/// Some entries of many.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntryPage {
    /// Those that were asked for, in the order of their ids.
    pub entries: Vec<Arc<CatalogEntry>>,
    /// How many there are.
    pub total: usize,
}

/// One source of entries at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceStatus {
    /// The name by which the source can be chosen.
    pub name: Arc<str>,
    /// The file, if it is one.
    pub file: Option<PathBuf>,
    /// Where the registry is, if it is one.
    pub url: Option<String>,
    /// How many entries it has.
    pub entries: usize,
    /// When they were last read; the beginning of time for a registry that was never read.
    pub refreshed: SystemTime,
    /// Why they could not be read since; those from before are still there.
    pub error: Option<String>,
}

/// What a refresh of one source changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefreshReport {
    /// How the source is now.
    pub source: SourceStatus,
    /// How many entries are new.
    pub added: usize,
    /// How many say something else.
    pub changed: usize,
    /// How many are gone.
    pub removed: usize,
}

/// Why a catalogue could not be asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CatalogueError {
    /// There is no source of this name.
    #[error("there is no source \"{name}\"; there is {}", .known.join(", "))]
    UnknownSource {
        /// The name of the source that was asked for.
        name: String,
        /// The names that there are.
        known: Vec<String>,
    },
    /// A source somewhere else does not answer.
    #[error("the source \"{source_name}\" can not be reached: {reason}")]
    Unreachable {
        /// The source that could not be read.
        source_name: String,
        /// What it or the network says.
        reason: String,
    },
    /// The process ends, or the search broke.
    #[error("the catalogue was not searched: the gateway is stopping; ask again when it runs")]
    Stopped,
}

/// A catalogue of entries, wherever it is kept.
pub trait EntryCatalogue: Send + Sync + 'static {
    /// Where entries come from, and whether each could be read.
    fn sources(&self) -> Vec<SourceStatus>;

    /// The entries that fit, best first.
    fn search(&self, query: EntryQuery) -> BoxFuture<'_, Result<Vec<EntryHit>, CatalogueError>>;

    /// The first entries of one source, or of all.
    fn list(&self, source: Option<String>, limit: usize) -> BoxFuture<'_, Result<EntryPage, CatalogueError>>;

    /// The entry of this id; `None` when no source has it.
    fn get(&self, id: String) -> BoxFuture<'_, Result<Option<Arc<CatalogEntry>>, CatalogueError>>;

    /// The keys of a server that runs this entry. For an entry of a registry this may have to fetch what it runs.
    fn keys(&self, entry: Arc<CatalogEntry>, wishes: ExtraKeys) -> BoxFuture<'_, Result<Value, KeysError>>;

    /// Reads one source again, or all. A source that can not be read says so in its status and keeps what it had.
    fn refresh(&self, source: Option<String>) -> BoxFuture<'_, Result<Vec<RefreshReport>, CatalogueError>>;
}
