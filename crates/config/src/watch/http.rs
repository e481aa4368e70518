//! `http`: the body of a URL.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use schemars::JsonSchema;

use super::{PLACEMENT, WatchKind, WatchSource};
use crate::read::TableSection;
use crate::read::forms::{header_objection, http_url};
use crate::redact::without_secrets;
use crate::span::SpanSchema;

pub(super) const KIND: WatchKind = WatchKind {
    key: "http",
    required: &[],
    optional: &["every", "headers", "private", PLACEMENT],
    read,
    schema: HttpKeys::json_schema,
};

const DEFAULT_EVERY: Duration = Duration::from_secs(30);

/// The body of a URL.
#[derive(Clone, PartialEq, Eq)]
pub struct HttpWatch {
    /// The URL that is asked from time to time; redirects are not followed.
    pub url: String,
    /// The time between two requests while somebody follows.
    pub every: Duration,
    /// Headers to send with each request, such as a key.
    pub headers: Vec<(String, String)>,
    /// Whether its name may lead into a private network.
    pub private: bool,
}

#[derive(JsonSchema)]
#[allow(dead_code, reason = "only its shape is used")]
struct HttpKeys {
    /// A URL that is asked again and again; only a changed body counts.
    http: Option<String>,
    /// How often the URL is asked.
    #[schemars(extend("default" = "30s"))]
    every: Option<SpanSchema>,
    /// Headers to send with each request.
    headers: Option<BTreeMap<String, String>>,
    /// Whether the host's name may lead into a private network. An address, or localhost, may stand in the URL as it is.
    #[schemars(extend("default" = false))]
    private: Option<bool>,
    /// In a cluster: labels of which a replica must have all to look at it for all of them.
    #[schemars(extend("default" = []))]
    placement: Option<Vec<String>>,
}

fn read(section: &mut TableSection<'_, '_>) -> Option<WatchSource> {
    section.remember("http");
    let url = http_url(section, "http");
    let every = section.positive_duration("every").unwrap_or(DEFAULT_EVERY);
    let headers = section.pairs("headers", header_objection);
    let private = section.boolean("private").unwrap_or(false);
    Some(WatchSource::Http(HttpWatch { url: url?, every, headers, private }))
}

impl fmt::Debug for HttpWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The values of headers may be keys.
        let names: Vec<_> = self.headers.iter().map(|(name, _)| name).collect();
        f.debug_struct("HttpWatch")
            .field("url", &without_secrets(&self.url))
            .field("every", &self.every)
            .field("headers", &names)
            .field("private", &self.private)
            .finish()
    }
}
