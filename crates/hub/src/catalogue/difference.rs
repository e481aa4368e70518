//! What a commit changed: which items came, went, or say something else, and in which fields.

use tidings_proto::{ListKind, LocalName};
use tidings_wire::{ByteSpan, digest, members};

use super::offer::{OfferItem, OfferList};

/// One item that is there before and after, and not the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ItemDifference {
    /// What the server calls it.
    pub key: LocalName,
    /// The members that differ, sorted.
    pub fields: Vec<String>,
}

/// The difference between two states of one list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListDifference {
    /// Names or URIs that are there now and were not before.
    pub added: Vec<LocalName>,
    /// Names or URIs that were there before and are not now.
    pub removed: Vec<LocalName>,
    /// Items that were there before, with another definition.
    pub changed: Vec<ItemDifference>,
}

impl ListDifference {
    /// Compares two states of one list. The order in which the server lists its items is no difference.
    pub fn between(before: &OfferList, after: &OfferList) -> Self {
        let mut out = Self::default();
        let (mut old, mut new) = (before.items.iter().peekable(), after.items.iter().peekable());
        loop {
            match (old.peek(), new.peek()) {
                (None, None) => return out,
                (Some(gone), Some(come)) if gone.key == come.key => {
                    if gone.digest != come.digest {
                        out.changed.push(ItemDifference { key: come.key.clone(), fields: fields(gone, come) });
                    }
                    old.next();
                    new.next();
                }
                (Some(gone), come) if come.is_none_or(|come| gone.key < come.key) => {
                    out.removed.push(gone.key.clone());
                    old.next();
                }
                (_, Some(come)) => {
                    out.added.push(come.key.clone());
                    new.next();
                }
                // Not reachable, because the guard above takes it; the compiler can not see that.
                (Some(_), None) => {
                    old.next();
                }
            }
        }
    }

    /// Whether nothing changed.
    pub fn is_empty(&self) -> bool {
        self.added.is_empty() && self.removed.is_empty() && self.changed.is_empty()
    }
}

fn fields(before: &OfferItem, after: &OfferItem) -> Vec<String> {
    let digests = |item: &OfferItem| -> std::collections::BTreeMap<String, tidings_wire::Digest> {
        // Member by member: two texts that differ only in white space or escapes are equal.
        members(&item.raw, ByteSpan::new(0, item.raw.len()))
            .filter_map(|m| Some((m.key.text(&item.raw)?.into_owned(), digest(&item.raw, m.value))))
            .collect()
    };
    let (old, new) = (digests(before), digests(after));
    let mut names: Vec<String> =
        old.keys().chain(new.keys()).filter(|name| old.get(*name) != new.get(*name)).cloned().collect();
    names.sort();
    // A member that both have and that differs comes twice.
    names.dedup();
    names
}

/// A list that changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListChange {
    /// The list that differs.
    pub kind: ListKind,
    /// What came, went and changed in it.
    pub difference: ListDifference,
}
