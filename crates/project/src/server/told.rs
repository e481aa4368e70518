//! What a link has answered of each list, so that it announces exactly what differs from it.

use std::sync::Arc;

use tidings_proto::ListKind;
use tidings_sync::Lock;

use crate::registry::{ProjectRegistry, ProjectState};

/// Stands for a list that could not be given.
const REFUSED: [u8; 32] = [0; 32];

/// One digest per list, of the state it was last answered from.
#[derive(Default)]
pub(super) struct ToldDigests(Lock<[Option<[u8; 32]>; 4]>);

impl ToldDigests {
    /// The state to answer a list from. What comes later will be found to differ.
    pub(super) fn answering(&self, kind: ListKind, registry: &ProjectRegistry) -> Option<Arc<ProjectState>> {
        // Held while the state is read: a change is either in the answer or announced after it.
        let mut told = self.0.lock();
        let state = registry.now()?;
        told[slot(kind)] = Some(digest(&state, kind));
        Some(state)
    }

    /// The lists that differ from what was answered. What nobody asked for needs no announcement.
    pub(super) fn outdated(&self, state: &ProjectState) -> Vec<ListKind> {
        let told = self.0.lock();
        let differs = |kind: &ListKind| told[slot(*kind)].is_some_and(|old| old != digest(state, *kind));
        ListKind::ALL.into_iter().filter(differs).collect()
    }
}

fn slot(kind: ListKind) -> usize {
    match kind {
        ListKind::Tools => 0,
        ListKind::Prompts => 1,
        ListKind::Resources => 2,
        ListKind::Templates => 3,
    }
}

fn digest(state: &ProjectState, kind: ListKind) -> [u8; 32] {
    // Its own digest, so that followers are told when the project breaks, and again when it is mended.
    if state.broken.is_some() {
        return REFUSED;
    }
    match kind {
        ListKind::Tools => state.digests.tools,
        ListKind::Prompts => state.digests.prompts,
        ListKind::Resources | ListKind::Templates => state.digests.resources,
    }
}
