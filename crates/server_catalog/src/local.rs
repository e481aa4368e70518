//! The catalogue of this machine: copies of registries, what is built in, and a file of the user's. Of entries with one id that of the
//! file wins, then what is built in: nobody takes the place of a known server by publishing its id.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, MutexGuard};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures_util::future::BoxFuture;
use serde_json::Value;
use tidings_config::{CatalogueEntry, ConfigErrors, RegistrySettings, parse_catalogue};
use tidings_store::RegistryTable;
use tidings_sync::Lock;
use tokio::sync::{OnceCell, Semaphore, watch};

use crate::catalogue::{
    CatalogEntry, CatalogueError, EntryCatalogue, EntryHit, EntryPage, EntryQuery, EntryRelease, RefreshReport,
    SourceStatus,
};
use crate::index::EntryIndex;
use crate::keys::{ExtraKeys, KeysError, server_keys};
use crate::releases::{InstalledRelease, PublishedRelease};
use crate::remote::{CopiedEntries, RegistryFetcher, RemoteRegistry};
use crate::starter;
use crate::stock::ReleaseStock;
use crate::sync::SyncFault;

/// The source that is part of the program.
const BUILT_IN: &str = "built-in";
/// The source that is a file.
const FILE: &str = "file";
/// What every source can be asked for by.
const ALL: &str = "all";
/// How many look something up at once; who comes later waits for a turn. A search reads every entry, and a thread of its own for each
/// caller would take the processors from the calls.
const LOOKUPS: usize = 2;
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

/// How registries are reached, and where what is had from them is kept.
pub struct RegistryAccess {
    /// Those of the configuration.
    pub registries: Vec<RegistrySettings>,
    /// Where copies of them are kept.
    pub table: RegistryTable,
    /// The network.
    pub fetcher: Arc<dyn RegistryFetcher>,
    /// The folder of bundles.
    pub bundles: PathBuf,
}

/// The starter set, perhaps a file, and copies of registries.
pub struct LocalCatalogue {
    state: Arc<Lock<CatalogState>>,
    /// Held by whoever changes a source: the index is made without the lock of the state, and must not be older than the sources.
    changing: tokio::sync::Mutex<()>,
    /// Turns at the index.
    lookups: Arc<Semaphore>,
    releases: Option<ReleaseStock>,
    /// Whether what is kept of the registries was read: when somebody first asks, since it may be many thousand entries.
    loaded: OnceCell<()>,
    /// Rises with every reading of a registry.
    refreshes: watch::Sender<u64>,
}

struct CatalogState {
    sources: Vec<EntrySource>,
    index: Arc<EntryIndex>,
}

#[derive(Clone)]
struct EntrySource {
    status: SourceStatus,
    entries: Arc<[Arc<CatalogEntry>]>,
    remote: Option<Arc<RemoteRegistry>>,
    /// What a registry has withdrawn.
    withdrawn: Arc<BTreeMap<String, Arc<EntryRelease>>>,
}

impl LocalCatalogue {
    /// Reads the file, if there is one. Registries are asked later.
    pub fn open(file: Option<&Path>, access: Option<RegistryAccess>) -> Result<Self, FileFault> {
        let mut sources = Vec::new();
        let releases = access.map(|RegistryAccess { registries, table, fetcher, bundles }| {
            for settings in registries {
                let remote = RemoteRegistry::new(settings, table.clone(), Arc::clone(&fetcher));
                sources.push(EntrySource::remote(Arc::new(remote)));
            }
            ReleaseStock::new(fetcher, bundles)
        });
        sources.push(EntrySource::new(BUILT_IN, None, starter::entries()));
        if let Some(path) = file {
            sources.push(EntrySource::new(FILE, Some(path.to_owned()), read(path)?));
        }
        let index = Arc::new(index(&sources));
        Ok(Self {
            state: Arc::new(Lock::new(CatalogState { sources, index })),
            changing: tokio::sync::Mutex::default(),
            lookups: Arc::new(Semaphore::new(LOOKUPS)),
            releases,
            loaded: OnceCell::new(),
            refreshes: watch::Sender::new(0),
        })
    }

    /// Rings when a registry was read, by whoever asked for it.
    pub fn refreshes(&self) -> watch::Receiver<u64> {
        self.refreshes.subscribe()
    }

    /// The registries, by name, with how long each counts as current and when it was last read.
    pub async fn registries(&self) -> Vec<(String, Duration, Option<SystemTime>)> {
        self.load().await;
        let state = self.state();
        let remote = |source: &EntrySource| {
            let settings = &source.remote.as_ref()?.settings;
            let refreshed = Some(source.status.refreshed).filter(|at| *at != UNIX_EPOCH);
            Some((settings.name.clone(), settings.refresh, refreshed))
        };
        state.sources.iter().filter_map(remote).collect()
    }

    /// What the registries have now for a server that is installed; `None` when none of them knows its entry.
    pub async fn published(&self, installed: &InstalledRelease, kind: &str) -> Option<PublishedRelease> {
        self.load().await;
        let release = {
            let state = self.state();
            let offered = state.index.get(&installed.entry).and_then(|entry| entry.release.clone());
            let mut withdrawn = state.sources.iter().filter_map(|source| source.withdrawn.get(&installed.entry));
            offered.or_else(|| withdrawn.next().cloned())?
        };
        let digest = match &self.releases {
            Some(stock) => stock.digest_now(&release, installed, kind).await,
            None => None,
        };
        Some(PublishedRelease {
            version: release.version.clone(),
            status: release.status.word().to_owned(),
            message: release.message.clone(),
            digest,
        })
    }

    /// Reads what is kept of the registries, once.
    async fn load(&self) {
        self.loaded
            .get_or_init(|| async {
                let remotes: Vec<Arc<RemoteRegistry>> =
                    self.state().sources.iter().filter_map(|source| source.remote.clone()).collect();
                for remote in remotes {
                    let from = Arc::clone(&remote);
                    // Waits for the disk, and reads a text per entry.
                    let kept = tokio::task::spawn_blocking(move || from.kept()).await;
                    self.take_copy(&remote, Ok(kept.unwrap_or_default())).await;
                }
            })
            .await;
    }

    /// Changes one source, and says what became of it. The index of many thousand entries takes its time, so it is made where that holds
    /// up nobody; until then what was known before is found.
    async fn change_source(
        &self,
        is_this: impl Fn(&EntrySource) -> bool + Send + 'static,
        change: impl FnOnce(&mut EntrySource) + Send + 'static,
    ) -> Option<RefreshReport> {
        let _alone = self.changing.lock().await;
        let state = Arc::clone(&self.state);
        let changed = tokio::task::spawn_blocking(move || {
            let mut sources = state.lock().sources.clone();
            let source = sources.iter_mut().find(|source| is_this(source))?;
            let before = source.clone();
            change(source);
            let report = difference(&before, source);
            // A status alone changes nothing that is searched, and the index is the costly part.
            let is_other = report.added + report.changed + report.removed > 0;
            let index = is_other.then(|| Arc::new(index(&sources)));
            let old = {
                let mut state = state.lock();
                let index = index.unwrap_or_else(|| Arc::clone(&state.index));
                std::mem::replace(&mut *state, CatalogState { sources, index })
            };
            // Here, and not under the lock or with whoever asked.
            drop((old, before));
            Some(report)
        });
        changed.await.ok().flatten()
    }

    /// Takes in the copy of a registry, or why there is no newer one.
    async fn take_copy(
        &self,
        remote: &Arc<RemoteRegistry>,
        outcome: Result<CopiedEntries, SyncFault>,
    ) -> Option<RefreshReport> {
        let (own, remote) = (Arc::clone(remote), Arc::clone(remote));
        let is_this = move |source: &EntrySource| source.remote.as_ref().is_some_and(|of| Arc::ptr_eq(of, &own));
        let change = move |source: &mut EntrySource| match outcome {
            Ok(copied) => {
                source.status.entries = copied.entries.len();
                source.status.refreshed = copied.refreshed.unwrap_or(UNIX_EPOCH);
                source.status.error = None;
                source.entries = copied.entries.into();
                source.withdrawn = Arc::new(copied.withdrawn);
            }
            // What was read before stays in use, with its age.
            Err(fault) => {
                let RegistrySettings { name, url, .. } = &remote.settings;
                source.status.error = Some(format!("the registry \"{name}\" at {url} was not read: {fault}"));
            }
        };
        self.change_source(is_this, change).await
    }

    /// Asks a registry what is new.
    async fn read_remote(&self, remote: &Arc<RemoteRegistry>) -> Option<RefreshReport> {
        let outcome = remote.read().await.map(|(copied, skipped)| {
            if skipped > 0 {
                let registry = &remote.settings.name;
                tracing::warn!(%registry, skipped, "entries of a registry that can not be understood are left out");
            }
            copied
        });
        let report = self.take_copy(remote, outcome).await;
        // After the copy is in use: whoever hears it reads what is new.
        self.refreshes.send_modify(|count| *count += 1);
        report
    }

    fn state(&self) -> MutexGuard<'_, CatalogState> {
        self.state.lock()
    }

    fn index(&self) -> Arc<EntryIndex> {
        Arc::clone(&self.state().index)
    }

    /// Reads the index where many thousand entries hold up nobody.
    async fn look_up<T: Send + 'static>(
        &self,
        read: impl FnOnce(&EntryIndex) -> T + Send + 'static,
    ) -> Result<T, CatalogueError> {
        // Held by the work itself: who stops waiting does not stop it.
        let turn = Arc::clone(&self.lookups).acquire_owned().await.map_err(|_| CatalogueError::Stopped)?;
        let index = self.index();
        let work = move || {
            let _turn = turn;
            read(&index)
        };
        tokio::task::spawn_blocking(work).await.map_err(|_| CatalogueError::Stopped)
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
    async fn take_in(&self, path: &Path, outcome: Result<Vec<CatalogueEntry>, FileFault>) -> Option<RefreshReport> {
        let (own, path) = (path.to_owned(), path.to_owned());
        let is_this = move |source: &EntrySource| source.status.file.as_deref() == Some(&*own);
        let change = move |source: &mut EntrySource| match outcome {
            Ok(entries) => *source = EntrySource::new(FILE, Some(path), entries),
            // What was read before stays in use; the status says why it is old.
            Err(fault) => source.status.error = Some(fault.to_string()),
        };
        self.change_source(is_this, change).await
    }

    async fn refresh_now(&self, source: Option<String>) -> Result<Vec<RefreshReport>, CatalogueError> {
        let named = self.named(source)?;
        self.load().await;
        // A copy, because files are read without the lock.
        let wanted = self.state().sources.clone();
        let wanted = wanted.into_iter().filter(|source| named.as_ref().is_none_or(|n| **n == *source.status.name));
        let mut done = Vec::new();
        for source in wanted {
            if let Some(remote) = &source.remote {
                done.extend(self.read_remote(remote).await);
                continue;
            }
            let Some(path) = source.status.file.clone() else {
                // What is built in can not change, and is reported as unchanged.
                done.push(difference(&source, &source));
                continue;
            };
            let file = path.clone();
            let outcome = tokio::task::spawn_blocking(move || read(&file)).await;
            let outcome = outcome
                .unwrap_or_else(|_| Err(FileFault::Unreadable { path: path.clone(), kind: io::ErrorKind::Other }));
            done.extend(self.take_in(&path, outcome).await);
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
            self.load().await;
            let any = query.sources.iter().any(|source| source.eq_ignore_ascii_case(ALL));
            let query = if any { EntryQuery { sources: Vec::new(), ..query } } else { query };
            self.look_up(move |index| index.search(&query)).await
        })
    }

    fn list(&self, source: Option<String>, limit: usize) -> BoxFuture<'_, Result<EntryPage, CatalogueError>> {
        Box::pin(async move {
            let source = self.named(source)?;
            self.load().await;
            self.look_up(move |index| {
                let entries = || index.of_source(source.as_deref());
                EntryPage { entries: entries().take(limit).cloned().collect(), total: entries().count() }
            })
            .await
        })
    }

    fn get(&self, id: String) -> BoxFuture<'_, Result<Option<Arc<CatalogEntry>>, CatalogueError>> {
        Box::pin(async move {
            self.load().await;
            Ok(self.index().get(&id))
        })
    }

    fn keys(&self, entry: Arc<CatalogEntry>, wishes: ExtraKeys) -> BoxFuture<'_, Result<Value, KeysError>> {
        let is_set = |name: &str| std::env::var_os(name).is_some();
        Box::pin(async move {
            match (&self.releases, &entry.release) {
                (Some(stock), Some(release)) => stock.keys(&entry.id, release, &wishes).await,
                _ => server_keys(&entry, &wishes, &is_set),
            }
        })
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
            url: None,
            entries: entries.len(),
            refreshed: SystemTime::now(),
            error: None,
        };
        let entry = |about| Arc::new(CatalogEntry { source: Arc::clone(&name), about, release: None });
        Self { status, entries: entries.into_iter().map(entry).collect(), remote: None, withdrawn: Arc::default() }
    }

    /// A registry of which nothing is read yet.
    fn remote(remote: Arc<RemoteRegistry>) -> Self {
        let status = SourceStatus {
            name: remote.settings.name.as_str().into(),
            file: None,
            url: Some(remote.settings.url.clone()),
            entries: 0,
            refreshed: UNIX_EPOCH,
            error: None,
        };
        Self { status, entries: Arc::default(), remote: Some(remote), withdrawn: Arc::default() }
    }
}

fn index(sources: &[EntrySource]) -> EntryIndex {
    // In the order of the sources: registries, what is built in, the file. The last one wins.
    EntryIndex::new(sources.iter().flat_map(|source| source.entries.iter().cloned()))
}

fn difference(before: &EntrySource, after: &EntrySource) -> RefreshReport {
    let known: HashMap<&str, &Arc<CatalogEntry>> =
        before.entries.iter().map(|entry| (entry.id.as_str(), entry)).collect();
    let kept: Vec<bool> =
        after.entries.iter().filter_map(|entry| Some(known.get(entry.id.as_str())? == &entry)).collect();
    RefreshReport {
        source: after.status.clone(),
        // Neither is below zero: within one source every id is there once.
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
