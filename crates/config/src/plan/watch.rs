//! Sources that are watched and offered as resources.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use super::server::without_secrets;

/// `[watch.X]`: something of the user's that is offered as a resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatchConfig {
    /// The name it is configured by.
    pub id: String,
    /// What is watched, by the kind that the file names.
    pub source: WatchSource,
    /// The URI of the resource, when not `watch://ID`.
    pub uri: Option<String>,
    /// The name of the resource, when not the id.
    pub name: Option<String>,
    /// The description of the resource.
    pub description: Option<String>,
    /// The MIME type of the content, when it is not to be guessed.
    pub mime_type: Option<String>,
    /// How long it has to be quiet, when not as in `[notifications]`.
    pub quiet: Option<Duration>,
    /// How long an announcement may be put off, when not as in `[notifications]`.
    pub max_wait: Option<Duration>,
}

/// What is watched. Secrets are left out of its `Debug` output.
#[derive(Clone, PartialEq, Eq)]
pub enum WatchSource {
    /// A file, a folder or a glob; one resource per file.
    File {
        /// A file, a folder, or a pattern with `*`.
        path: PathBuf,
    },
    /// The rows of a query.
    Postgres {
        /// The URL of the database. It may hold a password, so it is never shown.
        url: String,
        /// The query whose rows are the content.
        query: String,
        /// The channel to LISTEN on.
        channel: String,
    },
    /// The body of a URL.
    Http {
        /// The URL that is asked from time to time.
        url: String,
        /// How often to ask.
        every: Duration,
        /// Headers to send with each request.
        headers: Vec<(String, String)>,
        /// Whether its name may lead into a private network.
        private: bool,
    },
    /// What is posted to `/hooks/NAME`.
    Webhook {
        /// The NAME of `/hooks/NAME`, where deliveries are posted.
        name: String,
        /// What the poster signs with.
        secret: String,
        /// Where in a JSON body the name of the part stands that it concerns.
        pointer: Option<String>,
    },
}

impl WatchConfig {
    /// The URI of its resource, or what those of its resources begin with.
    pub fn uri(&self) -> String {
        self.uri.clone().unwrap_or_else(|| format!("watch://{}", self.id))
    }
}

impl fmt::Debug for WatchSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { path } => f.debug_struct("File").field("path", path).finish(),
            Self::Postgres { url, query, channel } => f
                .debug_struct("Postgres")
                .field("url", &without_secrets(url))
                .field("query", query)
                .field("channel", channel)
                .finish(),
            Self::Http { url, every, headers, private } => {
                let names: Vec<_> = headers.iter().map(|(name, _)| name).collect();
                f.debug_struct("Http")
                    .field("url", &without_secrets(url))
                    .field("every", every)
                    .field("headers", &names)
                    .field("private", private)
                    .finish()
            }
            Self::Webhook { name, .. } => f.debug_struct("Webhook").field("name", name).finish_non_exhaustive(),
        }
    }
}
