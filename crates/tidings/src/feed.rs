//! From what the engine sees change to what the log keeps.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::value::RawValue;
use tidings_engine::{Change, ChangedDefinition, ChangedField, Journal};
use tidings_proto::ListKind;
use tidings_store::{ChangeLog, ChangeRecord, ChangedItem, FieldChange, LogLimits, Store};
use tidings_wire::one_line;

use crate::data::DataDir;

/// How many names each list of a record may hold.
const NAMES: usize = 10_000;
/// How large a value may be, before or after, to be kept for the diff.
const VALUE: usize = 16 << 10;
/// How large the values of one record may be together.
const VALUES: usize = 256 << 10;

/// The store of a data directory, or of none. `patience` is for a process that is about to leave.
pub(crate) async fn open(data: Option<DataDir>, patience: Duration) -> Store {
    let open = move || {
        let Some(data) = data else { return Store::in_memory() };
        if let Err(error) = data.create() {
            tracing::error!(%error, "no data directory; changes are kept in memory");
            return Store::in_memory();
        }
        Store::open(data.path(), patience)
    };
    tokio::task::spawn_blocking(open).await.unwrap_or_else(|_| Store::in_memory())
}

/// The change log in a store.
pub(crate) fn log(store: Store) -> ChangeLog {
    ChangeLog::start(move || store, LogLimits::default())
}

/// The engine's way to the log.
pub(crate) fn journal(log: &ChangeLog) -> Arc<dyn Journal> {
    Arc::new(FeedRecorder(log.clone()))
}

struct FeedRecorder(ChangeLog);

impl Journal for FeedRecorder {
    fn record(&self, change: Change) {
        self.0.append(record(&change));
    }
}

/// The name of a list in the feed.
fn kind(kind: ListKind) -> &'static str {
    match kind {
        ListKind::Tools => "tools",
        ListKind::Prompts => "prompts",
        ListKind::Resources => "resources",
        ListKind::Templates => "resource_templates",
    }
}

fn record(change: &Change) -> ChangeRecord {
    let names = |all: &[Box<str>]| all.iter().take(NAMES).map(ToString::to_string).collect();
    let lengths = [change.added.len(), change.removed.len(), change.changed.len()];
    let mut room = VALUES;
    let time = Timestamp::try_from(change.time).unwrap_or_else(|_| Timestamp::now());
    ChangeRecord {
        seq: 0,
        // Finer than anybody reads.
        time: Timestamp::from_millisecond(time.as_millisecond()).unwrap_or(time),
        server: change.server.to_string(),
        kind: kind(change.kind).to_owned(),
        added: names(&change.added),
        removed: names(&change.removed),
        changed: change.changed.iter().take(NAMES).map(|item| changed(item, &mut room)).collect(),
        omitted: lengths.into_iter().map(|length| length.saturating_sub(NAMES) as u64).sum(),
        lost: 0,
    }
}

fn changed(item: &ChangedDefinition, room: &mut usize) -> ChangedItem {
    ChangedItem {
        name: item.key.to_string(),
        fields: item.fields.iter().map(|field| field.name.clone()).collect(),
        diff: item.fields.iter().map(|field| field_change(field, room)).collect(),
    }
}

fn field_change(field: &ChangedField, room: &mut usize) -> FieldChange {
    let sizes = [&field.before, &field.after].map(|value| value.as_ref().map_or(0, bytes::Bytes::len));
    let size = sizes.iter().sum::<usize>();
    let truncated = sizes.iter().any(|size| *size > VALUE) || size > *room;
    if truncated {
        return FieldChange { field: field.name.clone(), before: None, after: None, truncated };
    }
    *room -= size;
    // The log is one line per change.
    let raw = |value: &Option<bytes::Bytes>| -> Option<Box<RawValue>> {
        let text = String::from_utf8(one_line(value.as_ref()?).to_vec()).ok()?;
        RawValue::from_string(text).ok()
    };
    FieldChange { field: field.name.clone(), before: raw(&field.before), after: raw(&field.after), truncated }
}
