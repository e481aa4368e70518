//! Data sources as live resources: a server in the process whose resources are files, query results, URLs and what is
//! posted to webhooks.
//!
//! A kind of source is one file behind [`Source`]. The observations knows who follows what; a task watches one
//! source for as long as somebody needs it; the link speaks the protocol. Changes are not delayed here: quiet times
//! belong to the hub.
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test fails by panicking"))]

mod files;
mod http;
mod link;
mod mime;
mod note;
mod observations;
mod pause;
mod postgres;
#[cfg(test)]
mod probe;
mod source;
mod task;
mod webhook;

use std::sync::Arc;

use futures_util::future::join_all;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode, utf8_percent_encode};
use serde_json::json;
use tidings_engine::{LocalServer, Patience, Surroundings};
use tidings_proto::Revision;
use tidings_upstream::{Connected, Hello, Sink};

pub use files::Files;
pub use http::{Http, HttpFault, HttpWatch};
use link::WatchLink;
use observations::{Following, Observations};
pub use observations::{Hash, Signals, hash};
pub use postgres::{
    AddressFault, ExaminedTable, NotExamined, Postgres, PostgresWatch, TriggerState, examine, trigger_sql,
};
pub use source::{Content, Entry, Source, Unreadable};
use task::{Task, Watched};
pub use webhook::{BadSignature, Delivered, HookWatch, Hooks, LONGEST_HOOK, Webhook};

/// What every watch is told about its resource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct About {
    /// The name it is configured by.
    pub id: String,
    /// Its URI, when not `watch://ID`.
    pub uri: Option<String>,
    /// The name to show, when not the id.
    pub name: Option<String>,
    /// The description.
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
/// And in a name.
const NAME: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

impl About {
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
    fn entry(&self) -> Entry {
        Entry {
            uri: self.uri(),
            name: self.name().to_owned(),
            description: self.description.clone(),
            mime_type: self.mime_type.clone(),
            ..Entry::default()
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
    shared: Arc<Shared>,
}

struct Shared {
    observations: Arc<Observations>,
    sources: Vec<(Watched, Patience)>,
}

impl WatchServer {
    /// A server of these sources. Nothing is watched until somebody asks.
    pub fn new(sources: Vec<(Arc<dyn Source>, Patience)>) -> Self {
        let observations = Arc::new(Observations::default());
        let sources =
            sources.into_iter().map(|(source, patience)| (Watched::new(source, &observations), patience)).collect();
        Self { shared: Arc::new(Shared { observations, sources }) }
    }
}

impl LocalServer for WatchServer {
    fn connect(&self, sink: Arc<dyn Sink>, _surroundings: Surroundings) -> Connected {
        Connected {
            link: Arc::new(WatchLink::new(Arc::clone(&self.shared), sink)),
            hello: Hello {
                revision: Revision::MODERN,
                capabilities: json!({ "resources": { "subscribe": true, "listChanged": true } }),
                info: json!({ "name": "tidings-watch", "version": env!("CARGO_PKG_VERSION") }),
                instructions: None,
                gateways: Vec::new(),
            },
        }
    }

    fn patience(&self, uri: &str) -> Patience {
        let owner = self.shared.sources.iter().find(|(watched, _)| watched.source.owns(uri));
        owner.map_or_else(Patience::default, |(_, patience)| *patience)
    }
}

impl Shared {
    fn watched(&self) -> impl Iterator<Item = &Watched> {
        self.sources.iter().map(|(watched, _)| watched)
    }

    /// The source of a URI; the first that is configured wins.
    fn owner(&self, uri: &str) -> Option<&Watched> {
        self.watched().find(|watched| watched.source.owns(uri))
    }

    async fn list(&self) -> Vec<Entry> {
        let lists = join_all(self.watched().map(|watched| watched.source.list())).await;
        lists.into_iter().flatten().collect()
    }

    async fn templates(&self) -> Vec<Entry> {
        let templates = join_all(self.watched().map(|watched| watched.source.template())).await;
        templates.into_iter().flatten().collect()
    }

    async fn read(&self, uri: &str) -> Result<Content, Unreadable> {
        let watched = self.owner(uri).ok_or(Unreadable::NotFound)?;
        let content = watched.source.read(uri).await;
        match &content {
            Ok(content) => self.observations.read(uri, Some(&content.bytes)),
            Err(why) if why.is_absence() => self.observations.read(uri, None),
            Err(_) => {}
        }
        content
    }

    /// Follows some URIs, and the list if wanted; returns when nothing can be missed any more.
    async fn follow(&self, uris: &[String], list: bool) -> (Following, Vec<Arc<Task>>) {
        let following = self.observations.follow(uris, list);
        let mut tasks = Vec::new();
        let mut looks = Vec::new();
        let alive = join_all(self.watched().map(|watched| async move { list && watched.source.list_is_alive().await }));
        for (watched, is_alive) in self.watched().zip(alive.await) {
            let own: Vec<String> = uris.iter().filter(|uri| watched.source.owns(uri)).cloned().collect();
            if own.is_empty() && !is_alive {
                continue;
            }
            let task = watched.need();
            tasks.push(Arc::clone(&task));
            looks.push(async move {
                task.ready().await;
                watched.source.look(&own, &task.signals).await;
            });
        }
        join_all(looks).await;
        (following, tasks)
    }
}
