//! Whose resource a URI is, where no prefix tells.

use rpds::HashTrieMapSync;
use tidings_proto::{ListKind, LocalName};

use super::offer::ServerOffer;
use crate::ServerId;

/// The listed URIs of the servers whose URIs are shown as they are.
#[derive(Clone, Debug, Default)]
pub(super) struct UriOwners(HashTrieMapSync<LocalName, Vec<ServerId>>);

impl UriOwners {
    /// The first configured server that lists a URI, of those that are there.
    pub(super) fn of(&self, uri: &str, there: impl Fn(ServerId) -> bool) -> Option<ServerId> {
        self.0.get(uri)?.iter().copied().find(|server| there(*server))
    }

    /// One server's list changed.
    pub(super) fn update(&mut self, before: Option<&ServerOffer>, after: Option<&ServerOffer>) {
        // URIs with a prefix are left out: they are found by it.
        let shown = |offer: &&ServerOffer| offer.uris.is_transparent();
        let (before, after) = (before.filter(shown), after.filter(shown));
        if let Some(before) = before {
            for item in &before.list(ListKind::Resources).items {
                if after.is_none_or(|after| after.list(ListKind::Resources).get(&item.key).is_none()) {
                    // Those that are shown with the prefix were never put in, and removing them does nothing.
                    self.remove(&item.key, before.server);
                }
            }
        }
        if let Some(after) = after {
            for item in after.list(ListKind::Resources).items.iter().filter(|item| after.uris.leaves(item.key.as_str()))
            {
                self.add(&item.key, after.server);
            }
        }
    }

    fn add(&mut self, uri: &LocalName, server: ServerId) {
        let mut owners = self.0.get(uri).cloned().unwrap_or_default();
        // Sorted, so that `of` finds the first configured one; an item that stayed is there already.
        if let Err(place) = owners.binary_search(&server) {
            owners.insert(place, server);
            self.0.insert_mut(uri.clone(), owners);
        }
    }

    fn remove(&mut self, uri: &LocalName, server: ServerId) {
        let Some(owners) = self.0.get(uri) else { return };
        let left: Vec<ServerId> = owners.iter().copied().filter(|owner| *owner != server).collect();
        match left.is_empty() {
            true => self.0.remove_mut(uri),
            false => {
                self.0.insert_mut(uri.clone(), left);
                true
            }
        };
    }
}
