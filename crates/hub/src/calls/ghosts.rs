//! Abandoned calls of one link whose server may still be at work.
//!
//! Only identities are kept, and only so many. When there are more, it is not known any more which of them were answered,
//! so from then on the link has no certain owner until it ends.

use std::collections::BTreeMap;

use super::CallId;
use crate::{ClientKey, IdMap};

#[derive(Debug, Default)]
pub(super) struct GhostCalls {
    clients: BTreeMap<CallId, ClientKey>,
    /// How many there are of each client, so that a message needs no walk over all of them.
    per_client: IdMap<ClientKey, usize>,
    /// More were left than can be remembered.
    overflowed: bool,
}

impl GhostCalls {
    /// Tells how many there are now, or `None` when there is no room for this one.
    pub(super) fn add(&mut self, id: CallId, client: ClientKey, most: usize) -> Option<usize> {
        // Never taken back: from here on an answered ghost can not be told from one that was not remembered.
        if self.clients.len() >= most {
            self.overflowed = true;
            return None;
        }
        if self.clients.insert(id, client).is_none() {
            *self.per_client.entry(client).or_default() += 1;
        }
        Some(self.clients.len())
    }

    pub(super) fn remove(&mut self, id: CallId) -> bool {
        let Some(client) = self.clients.remove(&id) else { return false };
        if let Some(count) = self.per_client.get_mut(&client) {
            *count -= 1;
            // An entry at zero would count as another client in `are_all_of`.
            if *count == 0 {
                self.per_client.remove(&client);
            }
        }
        true
    }

    pub(super) fn contains(&self, id: CallId) -> bool {
        self.clients.contains_key(&id)
    }

    pub(super) fn len(&self) -> usize {
        self.clients.len()
    }

    /// Whether no abandoned call of anybody else can be behind a message. What a client itself has abandoned does not
    /// make it a stranger.
    pub(super) fn are_all_of(&self, client: ClientKey) -> bool {
        let others = self.per_client.len() - usize::from(self.per_client.contains_key(&client));
        !self.overflowed && others == 0
    }
}
