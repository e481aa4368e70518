//! Which definitions of a server somebody has to approve, and where it is kept what was decided.

use std::sync::{Arc, MutexGuard};

use tidings_hub::approvals::{ApprovalDecision, ApprovalPolicy, Approvals};
use tidings_sync::Lock;

/// How a server is screened.
#[derive(Clone)]
pub struct ApprovalPlan {
    /// What is held, and what is seen of it.
    pub policy: ApprovalPolicy,
    /// What was decided. A server that takes the place of another of its name has the same record.
    pub record: Arc<ApprovalRecord>,
}

/// Why something is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeepOccasion {
    /// The first sight of a server is trusted. Where somebody else has decided about that server by now, that counts.
    FirstSight,
    /// Somebody decided.
    Decided,
    /// Nothing was decided; a definition is known of which only the hash was.
    Learnt,
}

/// Keeps decisions for the next process, and for others that read the same file.
pub trait ApprovalKeeper: Send + Sync + 'static {
    /// Writes decisions down. It may block.
    fn keep(&self, decisions: &[ApprovalDecision], occasion: KeepOccasion) -> Result<(), KeepFault>;
}

/// A decision could not be written down; says where and why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct KeepFault(pub String);

/// What was decided about the definitions of one server.
pub struct ApprovalRecord {
    /// Locked from the screening of a listing until that is committed, so that a decision is never undone by an older listing. Taken before
    /// the locks of a commit, and never on the path of a call.
    approvals: Lock<Approvals>,
    pub(crate) keeper: Arc<dyn ApprovalKeeper>,
}

impl ApprovalRecord {
    /// What is known at the start, and who keeps what comes.
    pub fn new(approvals: Approvals, keeper: Arc<dyn ApprovalKeeper>) -> Self {
        Self { approvals: Lock::new(approvals), keeper }
    }

    /// What was decided elsewhere, in the place of what is known here. [`crate::Gateway::screen_again`] makes it visible.
    pub fn follow(&self, decided: Approvals) {
        self.lock().follow(decided);
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Approvals> {
        self.approvals.lock()
    }
}
