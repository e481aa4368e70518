//! What has one owner in the fleet, by name.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// What a name begins with, as it is written, that is not the name of a server as it stands in the configuration.
const MARK: char = '\u{1}';
/// What comes after the mark, by what the name is of.
const OF_WATCH: &str = "watch.";
const OF_SERVER: &str = "server.";

/// The name of what one replica runs for all, which is its identity across processes: a `ServerId` counts within one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(from = "WrittenName", into = "WrittenName")]
pub enum FleetServerName {
    /// A server, of the files or added.
    Server(Arc<str>),
    /// What `[watch.X]` names. A server may be called the same.
    Watch(Arc<str>),
}

/// A name as entries, beats, frames and kept states have it: text, as it is a key there. Servers are written as they are called, so what was written
/// before there were watches reads the same, and replicas that know none take a watch for a server that is in nobody's file.
#[derive(Serialize, Deserialize)]
struct WrittenName(String);

impl FleetServerName {
    /// The name of a watch.
    pub fn watch(id: &str) -> Self {
        Self::Watch(id.into())
    }

    /// The server that it names, if it is one.
    pub fn server(&self) -> Option<&str> {
        match self {
            Self::Server(name) => Some(name),
            Self::Watch(_) => None,
        }
    }

    /// As it is written: different for any two names.
    pub fn written(&self) -> Cow<'_, str> {
        match self {
            // A server may be called anything, also this.
            Self::Server(name) if name.starts_with(MARK) => format!("{MARK}{OF_SERVER}{name}").into(),
            Self::Server(name) => (&**name).into(),
            Self::Watch(id) => format!("{MARK}{OF_WATCH}{id}").into(),
        }
    }
}

impl From<WrittenName> for FleetServerName {
    fn from(WrittenName(written): WrittenName) -> Self {
        let marked = written.strip_prefix(MARK);
        if let Some(id) = marked.and_then(|marked| marked.strip_prefix(OF_WATCH)) {
            return Self::watch(id);
        }
        // What a newer version marks otherwise stays a name of its own.
        marked.and_then(|marked| marked.strip_prefix(OF_SERVER)).unwrap_or(&written).into()
    }
}

impl From<FleetServerName> for WrittenName {
    fn from(name: FleetServerName) -> Self {
        Self(name.written().into_owned())
    }
}

impl From<&str> for FleetServerName {
    /// The name of a server.
    fn from(name: &str) -> Self {
        Self::Server(name.into())
    }
}

impl fmt::Display for FleetServerName {
    /// As people are shown it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Server(name) => f.write_str(name),
            Self::Watch(id) => write!(f, "watch.{id}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use proptest::prelude::*;

    use super::*;

    fn name() -> impl Strategy<Value = FleetServerName> {
        // Also names that are made to be taken for others.
        let text = prop_oneof!["[a-z.]{1,3}", "\u{1}{0,2}(watch\\.|server\\.){0,2}[a-z]{0,2}", any::<String>()];
        (text, any::<bool>()).prop_map(|(text, is_watch)| match is_watch {
            true => FleetServerName::watch(&text),
            false => text.as_str().into(),
        })
    }

    proptest! {
        // cluster: watches
        #[test]
        fn names_are_read_as_they_were_written_also_as_keys(names in prop::collection::btree_set(name(), 0..8)) {
            let keyed: BTreeMap<&FleetServerName, u8> = names.iter().map(|name| (name, 1)).collect();
            let written = serde_json::to_string(&keyed)?;
            let read: BTreeMap<FleetServerName, u8> = serde_json::from_str(&written)?;
            prop_assert_eq!(read.into_keys().collect::<BTreeSet<_>>(), names);
        }
    }

    // cluster: watches
    #[test]
    fn a_server_is_written_as_before_there_were_watches() {
        let written = serde_json::to_string(&FleetServerName::from("watch.orders")).ok();
        assert_eq!(written.as_deref(), Some("\"watch.orders\""));
        assert_ne!(FleetServerName::watch("orders"), FleetServerName::from("watch.orders"));
    }
}
