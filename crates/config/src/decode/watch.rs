//! `[watch.X]`.

use std::collections::BTreeMap;
use std::time::Duration;

use super::server::{http_url, url};
use crate::error::{Fault, Place};
use crate::plan::watch::{WatchConfig, WatchSource};
use crate::read::Section;

const KINDS: &[&str] = &["file", "postgres", "http", "webhook"];
const KIND_KEYS: [&str; 4] = ["query", "channel", "every", "secret"];
const DEFAULT_EVERY: Duration = Duration::from_secs(30);

/// All watches. Two webhooks of one name could not be told apart.
pub(super) fn all(section: &Section<'_, '_>) -> Vec<WatchConfig> {
    let mut hooks: BTreeMap<String, Place> = BTreeMap::new();
    let mut watches = Vec::new();
    for (id, section) in section.named_sections() {
        let (reading, path, at) = (section.reading, section.path.clone(), section.at);
        let Some(watch) = one(section, id) else { continue };
        if let WatchSource::Webhook { name, .. } = &watch.source {
            match hooks.get(name) {
                Some(first) => reading.fault(&format!("{path}.webhook"), at, Fault::Repeated { first: first.clone() }),
                None => drop(hooks.insert(name.clone(), reading.place(at))),
            }
        }
        watches.push(watch);
    }
    watches
}

fn one(mut section: Section<'_, '_>, id: &str) -> Option<WatchConfig> {
    let kind = section.kind(KINDS);
    let source = kind.and_then(|kind| source(&mut section, kind));
    for key in KIND_KEYS {
        section.has(key);
    }
    let uri = section.text("uri");
    let name = section.text("name");
    let description = section.text("description");
    let mime_type = section.text("mime_type");
    let quiet = section.duration("quiet");
    let max_wait = section.duration("max_wait");
    section.not_below("max_wait", max_wait, "quiet", quiet);
    section.finish();
    Some(WatchConfig { id: id.to_owned(), source: source?, uri, name, description, mime_type, quiet, max_wait })
}

fn source(section: &mut Section<'_, '_>, kind: &'static str) -> Option<WatchSource> {
    match kind {
        "file" => {
            let path = section.text("file").map(|path| section.reading.expander.path(&path));
            section.refuse(kind, &KIND_KEYS);
            Some(WatchSource::File { path: path? })
        }
        "postgres" => {
            let url = url(section, "postgres", &["postgresql://", "postgres://"]);
            let query = section.required_text("query");
            let channel = section.required_text("channel");
            section.refuse(kind, &["every", "secret"]);
            Some(WatchSource::Postgres { url: url?, query: query?, channel: channel? })
        }
        "http" => {
            let url = http_url(section, "http");
            let every = section.positive_duration("every").unwrap_or(DEFAULT_EVERY);
            section.refuse(kind, &["query", "channel", "secret"]);
            Some(WatchSource::Http { url: url?, every })
        }
        _ => {
            let name = hook_name(section);
            let secret = section.required_text("secret");
            section.refuse(kind, &["query", "channel", "every"]);
            Some(WatchSource::Webhook { name: name?, secret: secret? })
        }
    }
}

fn hook_name(section: &mut Section<'_, '_>) -> Option<String> {
    let name = section.text("webhook")?;
    if name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte)) {
        return Some(name);
    }
    section.fault("webhook", Fault::BadHookName);
    None
}
