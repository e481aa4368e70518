//! From what the engine sees change to what the log keeps.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use serde_json::value::RawValue;
use tidings_engine::{Change, ChangedDefinition, ChangedField, FirstListing, ItemDigest, Journal, JournalServer};
use tidings_proto::{ListKind, LocalName};
use tidings_store::{
    ChangeLog, ChangeRecord, ChangedItem, FieldChange, ListDelta, ListOwner, ListedItem, Listing, LogLimits,
    MOST_NAMES, RecordDraft, Store,
};
use tidings_wire::one_line;

use crate::data::DataDir;
use crate::weight::{self, ToolNames};

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
            // A gateway that can not write its state still serves.
            return Store::in_memory();
        }
        Store::open(data.path(), patience)
    };
    tokio::task::spawn_blocking(open).await.unwrap_or_else(|_| Store::in_memory())
}

/// Starts the change log of a store, which writes on a thread of its own.
pub(crate) fn log(store: Store) -> ChangeLog {
    ChangeLog::start(move || store, LogLimits::default())
}

/// The engine's way to the log. `names` are those of the tools that there are.
pub(crate) fn journal(log: &ChangeLog, names: ToolNames) -> Arc<dyn Journal> {
    Arc::new(FeedRecorder(log.clone(), names))
}

struct FeedRecorder(ChangeLog, ToolNames);

impl Journal for FeedRecorder {
    fn began(&self, servers: Vec<JournalServer>) {
        self.0.began(servers.iter().map(owner).collect());
    }

    fn listed(&self, listing: FirstListing) {
        self.0.listed(Listing {
            time: timestamp(listing.time),
            commit: listing.commit,
            owner: owner(&listing.server),
            at_start: listing.at_start,
            lists: listing.lists.into_iter().map(|(of, list)| (kind(of).to_owned(), hashes(list))).collect(),
        });
    }

    fn record(&self, change: Change) {
        // What is held is not in the lists that clients see, and so not in what is known of them.
        let owner = (!change.held).then(|| owner(&change.server));
        let (bytes, names) = (weight_of(&change), self.1.clone());
        let (of, complete) = (owner.clone(), move || complete(change, owner, &names));
        // The notices of this change wait for us: what it says and how much it matters is found out on the log's thread.
        self.0.append_draft(RecordDraft { owner: of, bytes, complete: Box::new(complete) });
    }

    fn gone(&self, server: JournalServer) {
        self.0.gone(timestamp(SystemTime::now()), owner(&server));
    }
}

/// The record of a change, and what it makes of the lists of its owner.
fn complete(change: Change, owner: Option<ListOwner>, names: &ToolNames) -> (ChangeRecord, Option<ListDelta>) {
    let mut record = record(&change);
    weight::weigh(&change, names, &mut record);
    let delta = owner.map(|owner| {
        let removed = change.removed.iter().map(|name| name.as_str().into()).collect();
        ListDelta { owner, put: hashes(change.digests), removed }
    });
    (record, delta)
}

/// About how much memory a change takes while it waits. Its values count as a whole, though most share the list that they are from:
/// a waiting change keeps all of it.
fn weight_of(change: &Change) -> usize {
    let names = change.added.iter().chain(&change.removed).map(|name| name.as_str().len() + 24).sum::<usize>();
    let digests = change.digests.iter().map(|(name, _, raw)| name.as_str().len() + 88 + raw.len()).sum::<usize>();
    let definitions = change.definitions.iter().map(|raw| raw.len() + 32).sum::<usize>();
    let value = |value: &Option<bytes::Bytes>| value.as_ref().map_or(0, bytes::Bytes::len);
    let field = |field: &ChangedField| field.name.len() + 88 + value(&field.before) + value(&field.after);
    let changed =
        change.changed.iter().map(|item| item.key.as_str().len() + item.fields.iter().map(field).sum::<usize>());
    names + digests + definitions + changed.sum::<usize>()
}

fn owner(server: &JournalServer) -> ListOwner {
    ListOwner { server: server.name.to_string(), built_in: server.built_in }
}

fn hashes(items: Vec<ItemDigest>) -> Vec<ListedItem> {
    items.into_iter().map(|(name, digest, raw)| (name.as_str().into(), digest.0, raw)).collect()
}

/// Milliseconds are finer than anybody reads.
fn timestamp(time: SystemTime) -> Timestamp {
    // A time that the log can not write is nobody's: the record counts from now.
    let time = Timestamp::try_from(time).unwrap_or_else(|_| Timestamp::now());
    Timestamp::from_millisecond(time.as_millisecond()).unwrap_or(time)
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
    let names = |all: &[LocalName]| all.iter().take(MOST_NAMES).map(ToString::to_string).collect();
    let lengths = [change.added.len(), change.removed.len(), change.changed.len()];
    let mut room = VALUES;
    ChangeRecord {
        // The log numbers its records itself, and it alone knows of changes while the gateway was down.
        seq: 0,
        time: timestamp(change.time),
        commit: change.commit,
        server: change.server.name.to_string(),
        kind: kind(change.kind).to_owned(),
        added: names(&change.added),
        removed: names(&change.removed),
        changed: change.changed.iter().take(MOST_NAMES).map(|item| changed(item, &mut room)).collect(),
        while_down: false,
        held: change.held,
        severity: None,
        remarks: Vec::new(),
        omitted: lengths.into_iter().map(|length| length.saturating_sub(MOST_NAMES) as u64).sum(),
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
    // Both or none: half of a difference reads as something that came or went.
    let truncated = sizes.iter().any(|size| *size > VALUE) || size > *room;
    // The fields that changed are named all the same; only their values are left out.
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
