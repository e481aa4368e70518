//! Records that are completed on the log's own thread.
//!
//! Whoever commits a change hands over what it knows and goes on, since the notices wait for it. What takes longer (reading definitions,
//! judging them) is done here, in the order in which the changes came.

use std::fmt::{self, Debug, Formatter};

use crate::lists::{ListDelta, ListOwner, LogEntry};
use crate::record::ChangeRecord;

/// A record that the log's thread completes.
pub struct RecordDraft {
    /// Whose list the next process compares with; nobody's if the change makes nothing of the lists.
    pub owner: Option<ListOwner>,
    /// About how much memory it takes while it waits.
    pub bytes: usize,
    /// Gives the record, and what it makes of the lists that the next process compares with.
    pub complete: Box<dyn FnOnce() -> (ChangeRecord, Option<ListDelta>) + Send>,
}

impl Debug for RecordDraft {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecordDraft").field("owner", &self.owner).field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

/// What waits to be written.
#[derive(Debug)]
pub(crate) enum WaitingEntry {
    Complete(LogEntry),
    Draft(RecordDraft),
}

impl WaitingEntry {
    /// About how much memory it takes while it waits.
    pub(crate) fn weight(&self) -> usize {
        match self {
            Self::Complete(entry) => entry.weight(),
            Self::Draft(draft) => 128 + draft.bytes,
        }
    }

    /// Whose lists it is about, if it is about one server's.
    pub(crate) fn owner(&self) -> Option<&ListOwner> {
        match self {
            Self::Complete(entry) => entry.owner(),
            Self::Draft(draft) => draft.owner.as_ref(),
        }
    }

    /// What is to be written.
    pub(crate) fn complete(self) -> LogEntry {
        match self {
            Self::Complete(entry) => entry,
            Self::Draft(draft) => {
                let (record, delta) = (draft.complete)();
                LogEntry::Changed(Box::new(record), delta)
            }
        }
    }
}
