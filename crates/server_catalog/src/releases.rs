//! What became of the releases that installed servers run: said once, when it is new.
//!
//! Without I/O: what is installed, what the registries have and what was said before goes in; what is to be said comes out.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A server that was made of an entry of a registry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstalledRelease {
    /// The name of the server.
    pub server: String,
    /// The entry.
    pub entry: String,
    /// The version that runs.
    pub version: String,
    /// The digest of what runs, where one is known.
    pub digest: Option<String>,
}

/// What a registry has under an entry's id.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PublishedRelease {
    /// Its newest version.
    pub version: String,
    /// Whether that should be used: `active`, `deprecated` or `deleted`.
    pub status: String,
    /// What its publisher says about that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The digest of what it runs, where one is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
}

/// Something new about the release of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReleaseNews {
    /// The name of the server.
    pub server: String,
    /// The entry that it was made of.
    pub entry: String,
    /// What was known before.
    pub before: PublishedRelease,
    /// What the registry has now.
    pub now: PublishedRelease,
}

/// What is to be said, and what will have been said then, by server; `None` forgets one. `published` is asked by the name of a server.
pub fn release_news(
    installed: &[InstalledRelease],
    published: &dyn Fn(&str) -> Option<PublishedRelease>,
    said: &BTreeMap<String, String>,
) -> (Vec<ReleaseNews>, BTreeMap<String, Option<String>>) {
    let (mut news, mut keep) = (Vec::new(), BTreeMap::new());
    for server in said.keys().filter(|server| !installed.iter().any(|known| known.server == **server)) {
        keep.insert(server.clone(), None);
    }
    for known in installed {
        // Nothing is said of what no registry has: it may just not have been read yet.
        let Some(now) = published(&known.server) else { continue };
        let said = said.get(&known.server).and_then(|text| serde_json::from_str::<SaidRelease>(text).ok());
        // What was said of another entry, or before an upgrade, is not about what runs now.
        let said = said.filter(|said| said.entry == known.entry && said.installed == known.version);
        let before = said.map_or_else(|| known.as_published(&now), |said| said.last);
        if before == now {
            continue;
        }
        let last = SaidRelease { entry: known.entry.clone(), installed: known.version.clone(), last: now.clone() };
        keep.insert(known.server.clone(), serde_json::to_string(&last).ok());
        let (server, entry) = (known.server.clone(), known.entry.clone());
        news.push(ReleaseNews { server, entry, before, now });
    }
    (news, keep)
}

/// What was said last of a server.
#[derive(Serialize, Deserialize)]
struct SaidRelease {
    entry: String,
    /// The version that ran.
    installed: String,
    last: PublishedRelease,
}

impl InstalledRelease {
    /// What its registry said when it was added, as far as that is known.
    fn as_published(&self, now: &PublishedRelease) -> PublishedRelease {
        let is_same = self.version == now.version;
        PublishedRelease {
            version: self.version.clone(),
            status: "active".to_owned(),
            // An active release's message is no news: only what its status says is.
            message: now.message.clone().filter(|_| now.status == "active"),
            // A digest can be compared only with one of the same version, and only where both are known.
            digest: match (&self.digest, is_same) {
                (Some(digest), true) if now.digest.is_some() => Some(digest.clone()),
                _ => now.digest.clone(),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn published(version: &str, status: &str, digest: Option<&str>) -> PublishedRelease {
        let (version, status, digest) = (version.to_owned(), status.to_owned(), digest.map(str::to_owned));
        PublishedRelease { version, status, message: None, digest }
    }

    /// Asks as often as there are answers; what was said stays said.
    fn told(answers: &[Option<PublishedRelease>], versions: &[&str]) -> Vec<usize> {
        let mut said = BTreeMap::new();
        let tell = |(now, version): (&Option<PublishedRelease>, &&str)| {
            let installed = InstalledRelease {
                server: "s".into(),
                entry: "a/b".into(),
                version: (*version).to_owned(),
                digest: Some("sha256:1".into()),
            };
            let (news, keep) = release_news(&[installed], &|_| now.clone(), &said);
            for (server, text) in keep {
                match text {
                    Some(text) => drop(said.insert(server, text)),
                    None => drop(said.remove(&server)),
                }
            }
            news.len()
        };
        answers.iter().zip(versions).map(tell).collect()
    }

    // reach 5
    #[test]
    fn a_release_is_said_once() {
        let [old, new] = [published("1.0.0", "active", None), published("1.1.0", "active", None)];
        let answers = [None, Some(old), Some(new.clone()), Some(new.clone()), None, Some(new.clone())];
        assert_eq!(told(&answers, &["1.0.0"; 6]), [0, 0, 1, 0, 0, 0]);
        // After the upgrade nothing is new, and the next release is.
        let next = published("1.2.0", "active", None);
        let answers = [Some(new.clone()), Some(new.clone()), Some(new), Some(next.clone()), Some(next)];
        assert_eq!(told(&answers, &["1.0.0", "1.1.0", "1.1.0", "1.1.0", "1.1.0"]), [1, 0, 0, 1, 0]);
    }

    // reach 5
    #[test]
    fn a_status_and_another_digest_are_news_too() {
        let answers = [
            Some(published("1.0.0", "active", Some("sha256:1"))),
            Some(published("1.0.0", "deprecated", Some("sha256:1"))),
            Some(published("1.0.0", "deleted", Some("sha256:1"))),
            Some(published("1.0.0", "active", Some("sha256:1"))),
            Some(published("1.0.0", "active", Some("sha256:2"))),
            Some(published("1.0.0", "active", Some("sha256:2"))),
        ];
        assert_eq!(told(&answers, &["1.0.0"; 6]), [0, 1, 1, 1, 1, 0]);
    }

    #[test]
    fn a_server_that_is_gone_is_forgotten() {
        let said = BTreeMap::from([("gone".to_owned(), "{}".to_owned())]);
        let (news, keep) = release_news(&[], &|_| None, &said);
        assert_eq!((news.len(), keep), (0, BTreeMap::from([("gone".to_owned(), None)])));
    }
}
