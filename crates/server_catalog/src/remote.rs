//! A registry of servers behind the official API, and the copy that is kept of it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures_util::future::BoxFuture;
use tidings_config::RegistrySettings;
use tidings_store::{CopyStep, RegistryCopy, RegistryTable};

use crate::catalogue::{CatalogEntry, EntryRelease};
use crate::published::{RegistryItem, ReleaseStatus, entry};
use crate::sync::{PAGE_BYTES, RegistrySync, SyncFault};

/// How long one page may take.
const PAGE_WITHIN: Duration = Duration::from_secs(30);
/// How long a whole reading may take.
const READING_WITHIN: Duration = Duration::from_secs(15 * 60);

/// What is asked of the network.
#[derive(Clone, Debug)]
pub struct FetchRequest {
    /// The address.
    pub url: String,
    /// Headers to send, only to this origin.
    pub headers: Vec<(String, String)>,
    /// How long it may take.
    pub within: Duration,
    /// How long the answer may be.
    pub limit: usize,
    /// Whether it may lead elsewhere: only for what is checked by its hash afterwards.
    pub follows: bool,
}

/// The network, as far as registries need it.
pub trait RegistryFetcher: Send + Sync + 'static {
    /// The whole body of a successful answer.
    fn get(&self, request: FetchRequest) -> BoxFuture<'_, Result<Vec<u8>, SyncFault>>;

    /// The digest that an image has now, as `sha256:…`.
    fn image_digest(&self, image: String) -> BoxFuture<'_, Result<String, SyncFault>>;
}

/// A registry and where its copy is.
pub(crate) struct RemoteRegistry {
    pub(crate) settings: RegistrySettings,
    table: RegistryTable,
    fetcher: Arc<dyn RegistryFetcher>,
    /// One reading at a time: a second one would ask for the same.
    reading: tokio::sync::Mutex<()>,
}

/// The entries of a copy, and what is known of those that are offered no longer.
#[derive(Clone, Debug, Default)]
pub(crate) struct CopiedEntries {
    pub(crate) entries: Vec<Arc<CatalogEntry>>,
    /// Withdrawn ones, which an installed server may be.
    pub(crate) withdrawn: BTreeMap<String, Arc<EntryRelease>>,
    /// When the registry was last read.
    pub(crate) refreshed: Option<SystemTime>,
}

impl RemoteRegistry {
    pub(crate) fn new(settings: RegistrySettings, table: RegistryTable, fetcher: Arc<dyn RegistryFetcher>) -> Self {
        Self { settings, table, fetcher, reading: tokio::sync::Mutex::default() }
    }

    /// What is kept, without asking anybody. Blocks while it reads the store.
    pub(crate) fn kept(&self) -> CopiedEntries {
        let copy = self.table.read(&self.settings.name).unwrap_or_else(|error| {
            tracing::error!(registry = %self.settings.name, %error, "the copy of a registry can not be read");
            RegistryCopy::default()
        });
        self.entries(&copy)
    }

    /// Asks the registry what is new, and keeps it. Also how many items could not be read.
    pub(crate) async fn read(self: &Arc<Self>) -> Result<(CopiedEntries, usize), SyncFault> {
        // Over the whole reading: the second one begins where the first has ended.
        let _reading = self.reading.lock().await;
        let known = self.blocking(|registry| registry.table.read(&registry.settings.name)).await?;
        let all = self.pages(&known);
        let late = || SyncFault::Unreachable(format!("it was not read within {} min", READING_WITHIN.as_secs() / 60));
        let (step, skipped) = tokio::time::timeout(READING_WITHIN, all).await.unwrap_or_else(|_| Err(late()))?;
        let registry = Arc::clone(self);
        let read = move || {
            registry
                .table
                .keep(&registry.settings.name, &step)
                .map_err(|error| SyncFault::NotKept(error.to_string()))?;
            // Read back, and not put together: what is served is what the next process will find.
            Ok((registry.kept(), skipped))
        };
        tokio::task::spawn_blocking(read).await.unwrap_or_else(|error| Err(SyncFault::NotKept(error.to_string())))
    }

    async fn pages(&self, known: &RegistryCopy) -> Result<(CopyStep, usize), SyncFault> {
        let mut sync = RegistrySync::new(&self.settings.url, known);
        loop {
            let request = FetchRequest {
                url: sync.address(),
                headers: self.settings.headers.clone(),
                within: PAGE_WITHIN,
                limit: PAGE_BYTES,
                // The answer is not checked by any hash, and the headers of the request are a key of this registry.
                follows: false,
            };
            let page = self.fetcher.get(request).await?;
            if sync.take(&page, known)? {
                break;
            }
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Ok(sync.finish(now.as_secs()))
    }

    async fn blocking<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Self) -> Result<T, tidings_store::KeepError> + Send + 'static,
    ) -> Result<T, SyncFault> {
        let registry = Arc::clone(self);
        let done = tokio::task::spawn_blocking(move || work(&registry)).await;
        let done = done.map_err(|error| SyncFault::NotKept(error.to_string()))?;
        done.map_err(|error| SyncFault::NotKept(error.to_string()))
    }

    fn entries(&self, copy: &RegistryCopy) -> CopiedEntries {
        // What was copied from elsewhere is not this registry's.
        let Some(state) = copy.state.as_ref().filter(|state| state.url == self.settings.url) else {
            return CopiedEntries::default();
        };
        let source: Arc<str> = self.settings.name.as_str().into();
        let refreshed = Some(UNIX_EPOCH + Duration::from_secs(state.refreshed));
        let mut copied = CopiedEntries { refreshed, ..CopiedEntries::default() };
        for text in copy.items.values() {
            let Some(RegistryItem { server, state }) = RegistryItem::read(text) else { continue };
            let release = Arc::new(EntryRelease {
                version: server.version.clone(),
                status: state.status,
                message: state.message.clone(),
                item: text.as_str().into(),
            });
            if state.status == ReleaseStatus::Deleted {
                // Kept though it is not offered: an installed server has to be told.
                copied.withdrawn.insert(server.name, release);
            } else if let Some(about) = entry(&server, &state) {
                let entry = CatalogEntry { source: Arc::clone(&source), about, release: Some(release) };
                copied.entries.push(Arc::new(entry));
            }
        }
        copied
    }
}
