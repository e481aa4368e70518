//! `[watch.X]`.

use std::collections::BTreeMap;
use std::time::Duration;

use super::server::{header_objection, http_url};
use crate::error::{ConfigFault, ConfigPlace};
use crate::plan::watch::{WatchConfig, WatchSource};
use crate::read::TableSection;

const KINDS: &[&str] = &["file", "postgres", "http", "webhook"];
const KIND_KEYS: [&str; 7] = ["query", "channel", "every", "headers", "private", "secret", "pointer"];
const DEFAULT_EVERY: Duration = Duration::from_secs(30);

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
    let kind = section.kind(KINDS);
    let source = kind.and_then(|kind| source(&mut section, kind));
    for key in KIND_KEYS {
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

fn source(section: &mut TableSection<'_, '_>, kind: &'static str) -> Option<WatchSource> {
    match kind {
        "file" => {
            let path = section.text("file").map(|path| section.reading.expander.path(&path));
            section.refuse(kind, &KIND_KEYS);
            Some(WatchSource::File { path: path? })
        }
        "postgres" => {
            section.remember("postgres");
            let url = postgres_url(section);
            let query = section.required_text("query");
            let channel = section.required_text("channel");
            section.refuse(kind, &["every", "headers", "private", "secret", "pointer"]);
            Some(WatchSource::Postgres { url: url?, query: query?, channel: channel? })
        }
        "http" => {
            section.remember("http");
            let url = http_url(section, "http");
            let every = section.positive_duration("every").unwrap_or(DEFAULT_EVERY);
            let headers = section.pairs("headers", header_objection);
            let private = section.boolean("private").unwrap_or(false);
            section.refuse(kind, &["query", "channel", "secret", "pointer"]);
            Some(WatchSource::Http { url: url?, every, headers, private })
        }
        _ => {
            section.remember("webhook");
            let name = hook_name(section);
            let secret = section.required_text("secret");
            let pointer = checked(section, "pointer", |text| text.starts_with('/'), || ConfigFault::BadPointer);
            section.refuse(kind, &["query", "channel", "every", "headers", "private"]);
            Some(WatchSource::Webhook { name: name?, secret: secret?, pointer })
        }
    }
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

/// A socket needs no host.
fn postgres_url(section: &mut TableSection<'_, '_>) -> Option<String> {
    const SCHEMES: &[&str] = &["postgresql://", "postgres://"];
    let url = section.text("postgres")?;
    let is_clean = !url.contains(|c: char| c.is_whitespace() || c.is_control());
    if is_clean && SCHEMES.iter().any(|scheme| url.strip_prefix(scheme).is_some_and(|rest| !rest.is_empty())) {
        return Some(url);
    }
    section.fault("postgres", ConfigFault::BadUrl { schemes: SCHEMES });
    None
}

fn hook_name(section: &mut TableSection<'_, '_>) -> Option<String> {
    let name = section.text("webhook")?;
    if name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte)) {
        return Some(name);
    }
    section.fault("webhook", ConfigFault::BadHookName);
    None
}
