//! What is written down of a commit: which items of one server came, went or changed, and how.

use std::time::SystemTime;

use bytes::Bytes;
use tidings_hub::catalogue::{ListDifference, OfferItem, ServerOffer};
use tidings_proto::ListKind;
use tidings_wire::{ByteSpan, members};

/// Keeps changes. It is told after the new state can be read and everybody who follows was called; it must not block.
pub trait Journal: Send + Sync + 'static {
    /// Takes one change.
    fn record(&self, change: Change);
}

/// What one commit changed in one list of one server. Names are the server's own.
#[derive(Clone, Debug)]
pub struct Change {
    /// When the new state could be read.
    pub time: SystemTime,
    /// The server's configured name.
    pub server: Box<str>,
    /// Which list.
    pub kind: ListKind,
    /// What came.
    pub added: Vec<Box<str>>,
    /// What went.
    pub removed: Vec<Box<str>>,
    /// What says something else now.
    pub changed: Vec<ChangedDefinition>,
}

/// One item that is there before and after.
#[derive(Clone, Debug)]
pub struct ChangedDefinition {
    /// What the server calls it.
    pub key: Box<str>,
    /// The members that differ, sorted.
    pub fields: Vec<ChangedField>,
}

/// One member of a definition, as raw JSON; `None` where it is absent.
#[derive(Clone, Debug)]
pub struct ChangedField {
    /// Its name.
    pub name: String,
    /// Before.
    pub before: Option<Bytes>,
    /// Now.
    pub after: Option<Bytes>,
}

/// The changes between two states of one server. One that was not there before has added everything, one that is gone has
/// removed everything.
pub(crate) fn changes(before: Option<&ServerOffer>, after: Option<&ServerOffer>) -> Vec<Change> {
    let Some(name) = after.or(before).map(|offer| &offer.name) else { return Vec::new() };
    let time = SystemTime::now();
    let empty = Default::default();
    let of = |kind| {
        let [old, new] = [before, after].map(|offer| offer.map_or(&empty, |offer| offer.list(kind)));
        let difference = ListDifference::between(old, new);
        let definition = |key: &str, fields: &[String]| {
            let (old, new) = (old.get(key), new.get(key));
            let field = |name: &String| ChangedField {
                name: name.clone(),
                before: old.and_then(|item| member(item, name)),
                after: new.and_then(|item| member(item, name)),
            };
            ChangedDefinition { key: key.into(), fields: fields.iter().map(field).collect() }
        };
        (!difference.is_empty()).then(|| Change {
            time,
            server: name.clone(),
            kind,
            changed: difference.changed.iter().map(|item| definition(&item.key, &item.fields)).collect(),
            added: difference.added,
            removed: difference.removed,
        })
    };
    ListKind::ALL.into_iter().filter_map(of).collect()
}

/// A member's value. Of a repeated key the last one counts, as everywhere.
fn member(item: &OfferItem, name: &str) -> Option<Bytes> {
    let raw = &item.raw;
    let found = members(raw, ByteSpan::new(0, raw.len())).filter(|member| member.key.is(raw, name)).last()?;
    Some(Bytes::copy_from_slice(found.value.of(raw)))
}
