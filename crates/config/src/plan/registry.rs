//! `[[registry]]`, and the release of a server that came from one.

use std::fmt;
use std::time::Duration;

/// `[[registry]]`: a server of the official registry API whose entries can be added.
#[derive(Clone, PartialEq, Eq)]
pub struct RegistrySettings {
    /// The name of the source; unique, and none of those that are built in.
    pub name: String,
    /// Where the API is, without `/v0.1` and without a slash at the end.
    pub url: String,
    /// Headers of every request.
    pub headers: Vec<(String, String)>,
    /// How long the copy counts as current.
    pub refresh: Duration,
}

/// `release` of `[servers.X]`: what is needed to make the keys of a newer release.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReleasePin {
    /// The version of the entry.
    pub version: String,
    /// Which of its packages, such as `npm`, or `remote`.
    pub kind: String,
    /// The digest of what runs, where the entry or its registry of images names one.
    pub digest: Option<String>,
}

impl fmt::Debug for RegistrySettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Values of headers are keys, as a rule.
        let headers: Vec<&str> = self.headers.iter().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("RegistrySettings")
            .field("name", &self.name)
            .field("url", &self.url)
            .field("headers", &headers)
            .field("refresh", &self.refresh)
            .finish()
    }
}
