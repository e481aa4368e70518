//! Which resources a source has, as whoever looked last saw it: the watch, or a client that listed.
//!
//! A list is read from the source itself, so a client can see a state that is gone again before the watch looks. If the
//! watch compared only its own looks, that client would keep a list that nobody corrects.

use std::sync::MutexGuard;

use tidings_sync::Lock;

use super::observations::Hash;

/// The members that were seen last; unknown while nothing watches the source.
#[derive(Default)]
pub(super) struct SeenMembers(Lock<Option<Hash>>);

impl SeenMembers {
    /// A look of the watch. Says whether it differs from what was seen last, so that everybody has to be told.
    pub(super) fn looked(&self, seen: Hash) -> bool {
        self.last().replace(seen) != Some(seen)
    }

    /// A list that a client was given. Without a watch there is nobody to be told.
    pub(super) fn listed(&self, seen: Hash) -> bool {
        let mut last = self.last();
        last.is_some() && last.replace(seen) != Some(seen)
    }

    fn last(&self) -> MutexGuard<'_, Option<Hash>> {
        self.0.lock()
    }
}

/// A digest of URIs in the order of the list.
pub(super) fn digest<'u>(uris: impl Iterator<Item = &'u str>) -> Hash {
    let mut hasher = blake3::Hasher::new();
    for uri in uris {
        hasher.update(uri.as_bytes());
        // No URI contains this byte, so that two lists never run together.
        hasher.update(&[0]);
    }
    *hasher.finalize().as_bytes()
}
