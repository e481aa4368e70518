//! Data sources as live resources: a server in the process whose resources are files, query results, URLs and what is
//! posted to webhooks.
//!
//! A kind of source is one file behind [`WatchedSource`], and its row in `kinds.rs`. The observations know who follows what; a task watches one
//! source for as long as somebody needs it; the link speaks the protocol. Changes are not delayed here: quiet times
//! belong to the hub.
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test fails by panicking"))]

mod files;
mod http;
mod kinds;
mod link;
mod members;
mod mime;
mod note;
mod observations;
mod pause;
mod postgres;
#[cfg(test)]
mod probe;
mod seated;
mod source;
mod task;
mod webhook;

use std::sync::Arc;

use futures_util::future::join_all;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode, utf8_percent_encode};
use serde_json::json;
use tidings_config::WatchConfig;
use tidings_engine::{LocalServer, Patience, Surroundings};
use tidings_proto::Revision;
use tidings_sync::Lock;
use tidings_upstream::{ConnectedLink, MessageSink, ServerHello};
use tokio::sync::watch;

pub use kinds::{MadeSource, SourceFault, SourceInputs, WatchFinding, WatchVerdict, examine_watch, make_source};
use link::WatchLink;
pub use observations::{Hash, SourceSignals, hash};
use observations::{ObservationPlace, Observations, OwedUpdate};
pub use seated::SeatedWatches;
pub use source::{SourceContent, SourceEntry, UnreadableReason, WatchedSource};
use task::{RunningWatch, SourceTask};
pub use webhook::{
    BadSignature, DeliveryKeeper, DeliveryOutcome, DeliveryRefusal, LONGEST_HOOK, ReceivedDelivery, SharedHooks,
    WebhookSet, WebhookSource,
};

/// What every watch is told about its resource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AboutResource {
    /// The name it is configured by.
    pub id: String,
    /// Its URI, when not `watch://ID`.
    pub uri: Option<String>,
    /// The name to show, when not the id.
    pub name: Option<String>,
    /// What clients are told that the resource is; `None` where nothing was configured.
    pub description: Option<String>,
    /// The type of the content, when it is not to be guessed.
    pub mime_type: Option<String>,
}

/// Characters that stay as they are in a path.
const PATH: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~')
    .remove(b'!')
    .remove(b'$')
    .remove(b'&')
    .remove(b'\'')
    .remove(b'(')
    .remove(b')')
    .remove(b'*')
    .remove(b'+')
    .remove(b',')
    .remove(b';')
    .remove(b'=')
    .remove(b':')
    .remove(b'@')
    .remove(b'/');
/// What stays as it is in one segment of a path: what RFC 3986 calls unreserved.
const NAME: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

impl From<&WatchConfig> for AboutResource {
    fn from(watch: &WatchConfig) -> Self {
        Self {
            id: watch.id.clone(),
            uri: watch.uri.clone(),
            name: watch.name.clone(),
            description: watch.description.clone(),
            mime_type: watch.mime_type.clone(),
        }
    }
}

impl AboutResource {
    /// The URI of the resource, or what those of its resources begin with.
    pub fn uri(&self) -> String {
        match &self.uri {
            Some(uri) => uri.clone(),
            None => format!("watch://{}", utf8_percent_encode(&self.id, NAME)),
        }
    }

    fn name(&self) -> &str {
        self.name.as_deref().unwrap_or(&self.id)
    }

    /// The one resource, of which nothing more is known.
    fn entry(&self) -> SourceEntry {
        SourceEntry {
            uri: self.uri(),
            name: self.name().to_owned(),
            description: self.description.clone(),
            mime_type: self.mime_type.clone(),
            ..SourceEntry::default()
        }
    }
}

/// A path inside a URI.
fn encoded(path: &[u8]) -> String {
    percent_encode(path, PATH).to_string()
}

/// The server of all watched sources.
#[derive(Clone)]
pub struct WatchServer {
    shared: Arc<WatchShared>,
}

/// What is watched at a time, in configured order.
type Sources = Arc<Vec<(Arc<SourceTask>, Patience)>>;

struct WatchShared {
    board: Arc<Observations>,
    /// Whoever listens hears when the set is another one.
    sources: watch::Sender<Sources>,
    /// One replacement at a time.
    replacing: Lock<()>,
    /// Whether it is asked by replicas: they are told what is wrong with its source, and what was seen.
    is_for_replicas: bool,
}

impl WatchServer {
    /// A server of these sources. Nothing is watched until somebody asks.
    pub fn new(sources: Vec<(Arc<dyn WatchedSource>, Patience)>) -> Self {
        Self::with(sources, false)
    }

    fn with(sources: Vec<(Arc<dyn WatchedSource>, Patience)>, is_for_replicas: bool) -> Self {
        let (board, sources_now) = (Arc::new(Observations::default()), watch::Sender::default());
        let shared = WatchShared { board, sources: sources_now, replacing: Lock::default(), is_for_replicas };
        let server = Self { shared: Arc::new(shared) };
        server.replace(sources);
        server
    }

    /// From now on there are these sources. One that was there before goes on as it is, with everybody who follows it; whoever
    /// follows a resource of one that went or came is told if it says something else now.
    pub fn replace(&self, sources: Vec<(Arc<dyn WatchedSource>, Patience)>) {
        let _replacing = self.shared.replacing.lock();
        let before = self.shared.sources();
        let same = |source: &Arc<dyn WatchedSource>| {
            let is_it = |watched: &&(Arc<SourceTask>, Patience)| {
                std::ptr::addr_eq(Arc::as_ptr(&watched.0.source), Arc::as_ptr(source))
            };
            before.iter().find(is_it).map(|(watched, _)| Arc::clone(watched))
        };
        let now = sources.into_iter().map(|(source, patience)| {
            let watched = same(&source);
            (watched.unwrap_or_else(|| Arc::new(SourceTask::new(source, &self.shared.board))), patience)
        });
        self.shared.sources.send_replace(Arc::new(now.collect()));
        // After the new set is there: whoever lists because of this sees it.
        self.shared.board.list_changed();
    }
}

impl LocalServer for WatchServer {
    fn connect(&self, sink: Arc<dyn MessageSink>, _surroundings: Surroundings) -> ConnectedLink {
        ConnectedLink {
            link: Arc::new(WatchLink::new(Arc::clone(&self.shared), sink)),
            hello: ServerHello {
                revision: Revision::MODERN,
                capabilities: json!({ "resources": { "subscribe": true, "listChanged": true } }),
                info: json!({ "name": "tidings-watch", "version": env!("CARGO_PKG_VERSION") }),
                instructions: None,
                gateways: Vec::new(),
            },
        }
    }

    fn patience(&self, uri: &str) -> Patience {
        let sources = self.shared.sources();
        let owner = sources.iter().find(|(watched, _)| watched.source.owns(uri));
        owner.map_or_else(Patience::default, |(_, patience)| *patience)
    }

    fn lists_details(&self) -> bool {
        true
    }

    fn warning(&self) -> Option<String> {
        let sources = self.shared.sources();
        let warnings: Vec<String> = sources.iter().filter_map(|(watched, _)| watched.source.warning()).collect();
        (!warnings.is_empty()).then(|| warnings.join("; "))
    }
}

/// The source of a URI; the first that is configured wins.
fn owner<'s>(sources: &'s Sources, uri: &str) -> Option<&'s Arc<SourceTask>> {
    sources.iter().map(|(watched, _)| watched).find(|watched| watched.source.owns(uri))
}

impl WatchShared {
    /// What is watched now.
    fn sources(&self) -> Sources {
        Arc::clone(&self.sources.borrow())
    }

    fn owns(&self, uri: &str) -> bool {
        owner(&self.sources(), uri).is_some()
    }

    async fn list(&self) -> Vec<SourceEntry> {
        let sources = self.sources();
        let lists = join_all(sources.iter().map(|(watched, _)| watched.list())).await;
        lists.into_iter().flatten().collect()
    }

    /// What is wrong with a source, for other replicas.
    fn trouble(&self) -> Option<String> {
        let sources = self.is_for_replicas.then(|| self.sources())?;
        sources.iter().find_map(|(watched, _)| watched.source.trouble())
    }

    /// The hash of what was seen of a resource, for other replicas.
    fn seen_for_replicas(&self, uri: &str) -> Option<Hash> {
        self.is_for_replicas.then(|| self.board.seen(uri)).flatten()
    }

    async fn templates(&self) -> Vec<SourceEntry> {
        let sources = self.sources();
        let templates = join_all(sources.iter().map(|(watched, _)| watched.source.template())).await;
        templates.into_iter().flatten().collect()
    }

    async fn read(&self, uri: &str) -> Result<SourceContent, UnreadableReason> {
        let sources = self.sources();
        let watched = owner(&sources, uri).ok_or(UnreadableReason::NotFound)?;
        let content = watched.source.read(uri).await;
        match &content {
            Ok(content) => self.board.read(uri, Some(&content.bytes)),
            Err(why) if why.is_absence() => self.board.read(uri, None),
            Err(_) => {}
        }
        content
    }

    /// Follows some URIs, and the list if wanted; returns when nothing can be missed any more.
    async fn follow(self: &Arc<Self>, uris: Vec<String>, list: bool) -> ListenAttention {
        let changes = self.sources.subscribe();
        let following = self.board.follow(&uris, list);
        let sources = Sources::default();
        let mut attention =
            ListenAttention { shared: Arc::clone(self), uris, list, following, sources, changes, tasks: Vec::new() };
        attention.attend().await;
        attention
    }
}

/// What one listen follows, and the watches that run for its sake. Dropping it ends those that run for nobody else.
struct ListenAttention {
    shared: Arc<WatchShared>,
    uris: Vec<String>,
    list: bool,
    following: ObservationPlace,
    /// The sources that are attended to.
    sources: Sources,
    changes: watch::Receiver<Sources>,
    tasks: Vec<Arc<RunningWatch>>,
}

impl ListenAttention {
    /// Watches what is needed of the sources there are now, and looks at those that are new. The others go on.
    async fn attend(&mut self) {
        // Marked as seen before it is attended to: a set that comes meanwhile rings again.
        let now = Arc::clone(&self.changes.borrow_and_update());
        let before = std::mem::replace(&mut self.sources, Arc::clone(&now));
        let list = self.list;
        let alive =
            join_all(now.iter().map(|(watched, _)| async move { list && watched.source.list_is_alive().await }));
        let alive = alive.await;
        let mut tasks = Vec::new();
        let mut looks = Vec::new();
        for ((watched, _), is_alive) in now.iter().zip(alive) {
            let is_own = |uri: &&String| owner(&now, uri).is_some_and(|owner| Arc::ptr_eq(owner, watched));
            let own: Vec<String> = self.uris.iter().filter(is_own).cloned().collect();
            if own.is_empty() && !is_alive {
                continue;
            }
            let task = watched.need();
            tasks.push(Arc::clone(&task));
            // Of a source that was there before, only what another one had is new.
            let had = |uri: &String| owner(&before, uri).is_some_and(|owner| Arc::ptr_eq(owner, watched));
            let new: Vec<String> = own.into_iter().filter(|uri| !had(uri)).collect();
            let is_new = !before.iter().any(|(known, _)| Arc::ptr_eq(known, watched));
            if is_new || !new.is_empty() {
                looks.push(async move {
                    // Only when the watch misses nothing any more: a change between an earlier look and its start would go unseen.
                    task.ready().await;
                    watched.source.look(&new, &task.signals).await;
                });
            }
        }
        join_all(looks).await;
        for uri in self.uris.iter().filter(|uri| owner(&before, uri).is_some() && owner(&now, uri).is_none()) {
            self.shared.board.gone(uri);
        }
        // Only now may those end that are not needed any more.
        self.tasks = tasks;
    }

    /// Waits for the next thing to tell, whatever becomes of the sources meanwhile.
    async fn next(&mut self) -> OwedUpdate {
        loop {
            tokio::select! {
                dirty = self.following.next() => return dirty,
                // The sender lives as long as what is shared.
                _ = self.changes.changed() => {}
            }
            self.attend().await;
        }
    }
}
