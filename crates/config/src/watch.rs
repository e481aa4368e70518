//! `[watch.X]`: something of the user's that is offered as a resource.
//!
//! A kind of watch is one file below this one: what it is configured with, how its keys are read, and what the schema says of
//! them. It is named here twice, as a module and as a line of `watch_kinds!`; what the kinds share is in this file. The source that
//! is made of it is in the crate `watch`.

mod file;
mod http;
mod postgres;
mod webhook;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

use crate::decode::cluster::labels;
use crate::error::{ConfigFault, ConfigPlace};
use crate::read::TableSection;
use crate::read::forms::checked;
use crate::span::SpanSchema;

/// `[watch.X]`, whatever its kind.
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
    /// Labels that a replica of a cluster must have to look at it.
    pub placement: Vec<String>,
}

impl WatchConfig {
    /// The URI of its resource, or what those of its resources begin with.
    pub fn uri(&self) -> String {
        self.uri.clone().unwrap_or_else(|| format!("watch://{}", self.id))
    }

    /// Whether one replica of a cluster looks at it for all. What is posted to one is there at all of them.
    pub fn is_looked_at(&self) -> bool {
        !matches!(self.source, WatchSource::Webhook(_))
    }
}

/// The key that names labels of replicas, of those kinds that one replica looks at.
const PLACEMENT: &str = "placement";

/// The keys of a kind of watch.
struct WatchKind {
    /// The key that makes a watch one of this kind.
    key: &'static str,
    /// The other keys that a watch of this kind must have.
    required: &'static [&'static str],
    /// Those that it may have, and that not all kinds have.
    optional: &'static [&'static str],
    read: fn(&mut TableSection<'_, '_>) -> Option<WatchSource>,
    /// The schema of a table with the keys of this kind only.
    schema: fn(&mut SchemaGenerator) -> Schema,
}

impl WatchKind {
    /// The keys beside the one that names the kind.
    fn keys(&self) -> impl Iterator<Item = &'static str> {
        self.required.iter().chain(self.optional).copied()
    }
}

/// Makes the kinds known, in the order in which faults and the schema name them.
macro_rules! watch_kinds {
    ($($(#[doc = $doc:literal])+ $module:ident => $variant:ident($watch:ident),)+) => {
        $(pub use $module::$watch;)+

        /// What is watched. Secrets are left out of its `Debug` output.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub enum WatchSource {
            $($(#[doc = $doc])+ $variant($watch),)+
        }

        const KINDS: &[WatchKind] = &[$($module::KIND),+];

        /// The keys that make a watch one of a kind.
        const NAMES: &[&str] = &[$($module::KIND.key),+];
    };
}

watch_kinds! {
    /// A file, a folder or a glob; one resource per file.
    file => File(FileWatch),
    /// The rows of a query.
    postgres => Postgres(PostgresWatch),
    /// The body of a URL.
    http => Http(HttpWatch),
    /// What is posted to `/hooks/NAME`.
    webhook => Webhook(WebhookWatch),
}

/// All watches. Two webhooks of one name could not be told apart, nor two resources of one URI.
pub(crate) fn all(section: &TableSection<'_, '_>) -> Vec<WatchConfig> {
    let mut hooks: BTreeMap<String, ConfigPlace> = BTreeMap::new();
    let mut uris: BTreeMap<String, ConfigPlace> = BTreeMap::new();
    let mut watches = Vec::new();
    for (id, section) in section.named_sections() {
        let (reading, path, at) = (section.reading, section.path.clone(), section.at);
        let Some(watch) = one(section, id) else { continue };
        if let WatchSource::Webhook(WebhookWatch { name, .. }) = &watch.source {
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
    let kind = section.kind(NAMES).and_then(|key| KINDS.iter().find(|kind| kind.key == key));
    let source = kind.and_then(|kind| {
        let source = (kind.read)(&mut section);
        section.refuse(kind.key, &foreign_keys(kind));
        source
    });
    // Known whatever the kind, so that a missing kind is the only complaint.
    for key in KINDS.iter().flat_map(WatchKind::keys) {
        section.has(key);
    }
    let uri = checked(&mut section, "uri", is_uri, || ConfigFault::BadUri);
    let name = section.text("name");
    let description = section.text("description");
    let mime_type = checked(&mut section, "mime_type", is_mime_type, || ConfigFault::BadMimeType);
    let quiet = section.duration("quiet");
    let max_wait = section.duration("max_wait");
    section.not_below("max_wait", max_wait, "quiet", quiet);
    let placement = labels(&mut section, PLACEMENT);
    section.finish();
    Some(WatchConfig {
        id: id.to_owned(),
        source: source?,
        uri,
        name,
        description,
        mime_type,
        quiet,
        max_wait,
        placement,
    })
}

/// The keys of all other kinds: they do not go with this one.
fn foreign_keys(kind: &WatchKind) -> Vec<&'static str> {
    let mut keys = Vec::new();
    for key in KINDS.iter().flat_map(WatchKind::keys).filter(|key| kind.keys().all(|own| own != *key)) {
        // Several kinds may have it.
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    keys
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

/// The keys that a watch of any kind may have.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[allow(dead_code, reason = "only its shape is used")]
struct CommonKeys {
    /// The URI of the resource; by default watch://NAME.
    uri: Option<String>,
    /// The name of the resource.
    name: Option<String>,
    /// The description of the resource.
    description: Option<String>,
    /// The MIME type of the content.
    mime_type: Option<String>,
    /// How long it has to be quiet before an update is announced; by default as in [notifications].
    quiet: Option<SpanSchema>,
    /// How long an update may go unannounced while it is not quiet; by default as in [notifications].
    max_wait: Option<SpanSchema>,
}

/// The shape of `[watch.X]`: the keys of all kinds, of which exactly one must be there with what it requires.
pub(crate) struct WatchSchema;

impl JsonSchema for WatchSchema {
    fn schema_name() -> Cow<'static, str> {
        "Watch".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut properties = Map::new();
        let kinds = KINDS.iter().map(|kind| (kind.schema)(generator)).collect::<Vec<_>>();
        let mut schema = CommonKeys::json_schema(generator);
        // All in one table: `CommonKeys` allows no other keys, and would refuse those of the kinds.
        for part in kinds.iter().chain([&schema]) {
            properties.extend(part.get("properties").and_then(Value::as_object).cloned().unwrap_or_default());
        }
        schema.insert("properties".to_owned(), properties.into());
        let (last, others) = NAMES.split_last().unwrap_or((&"", &[]));
        let description = format!("A watched source: exactly one of {} and {last}.", others.join(", "));
        schema.insert("description".to_owned(), description.into());
        let required = |kind: &WatchKind| {
            let keys: Vec<&str> = [kind.key].into_iter().chain(kind.required.iter().copied()).collect();
            json!({ "required": keys })
        };
        schema.insert("oneOf".to_owned(), KINDS.iter().map(required).collect());
        schema
    }
}
