//! What a kind of source must be able to do. A new kind is one file that implements [`WatchedSource`], and its row in `kinds.rs`.

use std::time::SystemTime;

use bytes::Bytes;
use futures_util::future::BoxFuture;

use super::observations::SourceSignals;

/// Something that is watched and offered as one resource, or as several.
pub trait WatchedSource: Send + Sync + 'static {
    /// Whether a URI is, or could become, one of its resources.
    fn owns(&self, uri: &str) -> bool;

    /// What there is now.
    fn list(&self) -> BoxFuture<'_, Vec<SourceEntry>>;

    /// The pattern of its URIs, where more than one is possible.
    fn template(&self) -> BoxFuture<'_, Option<SourceEntry>> {
        Box::pin(std::future::ready(None))
    }

    /// The content of a resource.
    fn read<'a>(&'a self, uri: &'a str) -> BoxFuture<'a, Result<SourceContent, UnreadableReason>>;

    /// Whether its list changes by itself, so that it has to be watched for the list's sake.
    fn list_is_alive(&self) -> BoxFuture<'_, bool> {
        Box::pin(std::future::ready(false))
    }

    /// What keeps it from being had at this time, where that is known.
    fn trouble(&self) -> Option<String> {
        None
    }

    /// What whoever runs the gateway should know of it beside its resources.
    fn warning(&self) -> Option<String> {
        None
    }

    /// Takes the first look at URIs that will be followed from now on, with [`SourceSignals::baseline`].
    fn look<'a>(&'a self, _uris: &'a [String], _signals: &'a SourceSignals) -> BoxFuture<'a, ()> {
        Box::pin(std::future::ready(()))
    }

    /// Watches and signals until it is dropped. It calls [`SourceSignals::ready`] as soon as no later change can be missed, or
    /// when there is nothing to do but try again.
    fn watch(&self, signals: SourceSignals) -> BoxFuture<'_, ()>;
}

/// One resource of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceEntry {
    /// Its URI, or the template of one.
    pub uri: String,
    /// The name that lists show for it.
    pub name: String,
    /// What it is, for people.
    pub description: Option<String>,
    /// The type of its content.
    pub mime_type: Option<String>,
    /// The size of its content in bytes, where it is known.
    pub size: Option<u64>,
    /// When its content changed last, where that is known.
    pub last_modified: Option<SystemTime>,
}

/// The content of one resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceContent {
    /// Its MIME type; `None` where neither the source nor the configuration says.
    pub mime_type: Option<String>,
    /// The whole content; binary content is encoded only when it is answered.
    pub bytes: Bytes,
}

/// Why a resource can not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnreadableReason {
    /// There is no such resource, or not at this time.
    #[error("resource not found")]
    NotFound,
    /// It lies outside of what was declared.
    #[error("resource not found: it leads outside of the folder that is declared")]
    Outside,
    /// The system does not let us.
    #[error("the resource can not be read: {0}")]
    Io(std::io::ErrorKind),
    /// It is longer than is served.
    #[error("the resource has {size} bytes, more than the {limit} that are served")]
    TooLong {
        /// Its length, as far as it was read.
        size: u64,
        /// The bytes that a resource may have.
        limit: u64,
    },
    /// Nothing has come in yet.
    #[error("nothing has been received yet")]
    NothingYet,
    /// The other side did not give it.
    #[error("{0}")]
    Upstream(String),
}

impl UnreadableReason {
    /// Whether there is nothing to read, and not only nobody to ask.
    pub(super) fn is_absence(&self) -> bool {
        // `Io` too: the watch counts a file that may not be read as absent, and a reader must not be told of a change by that difference.
        matches!(self, Self::NotFound | Self::Outside | Self::Io(_) | Self::NothingYet)
    }
}
