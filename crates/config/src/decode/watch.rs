//! `[watch.X]`.

mod file;
mod http;
mod postgres;
mod webhook;

use std::collections::BTreeMap;

use crate::error::{ConfigFault, ConfigPlace};
use crate::plan::watch::{WatchConfig, WatchSource};
use crate::read::TableSection;

/// A kind of watch: how its keys are read. A new kind is a file below this one and its row in [`KINDS`].
struct WatchKind {
    /// The key that makes a watch one of this kind.
    key: &'static str,
    /// The other keys that this kind has and not all have.
    keys: &'static [&'static str],
    read: fn(&mut TableSection<'_, '_>) -> Option<WatchSource>,
}

const KINDS: [WatchKind; 4] = [file::KIND, postgres::KIND, http::KIND, webhook::KIND];

/// The keys that make a watch one of a kind.
const NAMES: [&str; KINDS.len()] = {
    let mut names = [""; KINDS.len()];
    let mut at = 0;
    while at < KINDS.len() {
        names[at] = KINDS[at].key;
        at += 1;
    }
    names
};

/// All watches. Two webhooks of one name could not be told apart, nor two resources of one URI.
pub(super) fn all(section: &TableSection<'_, '_>) -> Vec<WatchConfig> {
    let mut hooks: BTreeMap<String, ConfigPlace> = BTreeMap::new();
    let mut uris: BTreeMap<String, ConfigPlace> = BTreeMap::new();
    let mut watches = Vec::new();
    for (id, section) in section.named_sections() {
        let (reading, path, at) = (section.reading, section.path.clone(), section.at);
        let Some(watch) = one(section, id) else { continue };
        if let WatchSource::Webhook { name, .. } = &watch.source {
            match hooks.get(name) {
                Some(first) => {
                    reading.fault(&format!("{path}.webhook"), at, ConfigFault::Repeated { first: first.clone() })
                }
                None => drop(hooks.insert(name.clone(), reading.place(at))),
            }
        }
        match uris.get(&watch.uri()) {
            Some(first) => reading.fault(&format!("{path}.uri"), at, ConfigFault::Repeated { first: first.clone() }),
            None => drop(uris.insert(watch.uri(), reading.place(at))),
        }
        watches.push(watch);
    }
    watches
}

fn one(mut section: TableSection<'_, '_>, id: &str) -> Option<WatchConfig> {
    let kind = section.kind(&NAMES).and_then(|key| KINDS.iter().find(|kind| kind.key == key));
    let source = kind.and_then(|kind| {
        let source = (kind.read)(&mut section);
        section.refuse(kind.key, &foreign_keys(kind));
        source
    });
    // Known whatever the kind, so that a missing kind is the only complaint.
    for key in KINDS.iter().flat_map(|kind| kind.keys) {
        section.has(key);
    }
    let uri = checked(&mut section, "uri", is_uri, || ConfigFault::BadUri);
    let name = section.text("name");
    let description = section.text("description");
    let mime_type = checked(&mut section, "mime_type", is_mime_type, || ConfigFault::BadMimeType);
    let quiet = section.duration("quiet");
    let max_wait = section.duration("max_wait");
    section.not_below("max_wait", max_wait, "quiet", quiet);
    section.finish();
    Some(WatchConfig { id: id.to_owned(), source: source?, uri, name, description, mime_type, quiet, max_wait })
}

/// The keys of all other kinds: they do not go with this one.
fn foreign_keys(kind: &WatchKind) -> Vec<&'static str> {
    KINDS.iter().flat_map(|other| other.keys).copied().filter(|key| !kind.keys.contains(key)).collect()
}

/// A string that has to look like something.
fn checked(
    section: &mut TableSection<'_, '_>,
    key: &'static str,
    looks: fn(&str) -> bool,
    fault: fn() -> ConfigFault,
) -> Option<String> {
    let text = section.text(key)?;
    if looks(&text) {
        return Some(text);
    }
    section.fault(key, fault());
    None
}

/// Absolute, as RFC 3986 has it.
fn is_uri(text: &str) -> bool {
    let is_scheme = |scheme: &str| {
        scheme.starts_with(|c: char| c.is_ascii_alphabetic())
            && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
    };
    let is_clean = text.bytes().all(|byte| byte.is_ascii_graphic() && !b"\"<>\\^`{|}".contains(&byte));
    is_clean && text.split_once(':').is_some_and(|(scheme, rest)| is_scheme(scheme) && !rest.is_empty())
}

fn is_mime_type(text: &str) -> bool {
    let is_clean = text.chars().all(|c| c.is_ascii_graphic() || c == ' ');
    is_clean && text.split_once('/').is_some_and(|(kind, rest)| !kind.is_empty() && !rest.is_empty())
}
