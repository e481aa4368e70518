//! Which definitions of a server somebody has to approve, and where it is kept what was decided.

use std::sync::{Arc, MutexGuard};

use tidings_hub::approvals::{ApprovalDecision, ApprovalPolicy, Approvals, Screened};
use tidings_hub::catalogue::OfferList;
use tidings_sync::Lock;

/// How a server is screened.
#[derive(Clone)]
pub struct ApprovalPlan {
    /// What is held, and what is seen of it.
    pub policy: ApprovalPolicy,
    /// What was decided. A server that takes the place of another of its name has the same record.
    pub record: Arc<ApprovalRecord>,
}

impl ApprovalPlan {
    /// What clients may see of a listing. In a cluster a listing changes nothing of what was agreed on.
    pub(crate) fn screen(&self, approvals: &mut Approvals, lists: &[OfferList; 4]) -> Screened {
        match self.record.kept {
            Some(_) => approvals.judge(self.policy, lists),
            None => approvals.screen(self.policy, lists),
        }
    }
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

    /// Writes down what the replicas of a cluster agreed on, in the place of all that was written of the server. It may block.
    fn keep_agreed(&self, agreed: &Approvals) -> Result<(), KeepFault>;
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
    /// What was kept of the server on this machine, where replicas agree on what counts: their beginning, if nobody was faster.
    kept: Option<Approvals>,
    pub(crate) keeper: Arc<dyn ApprovalKeeper>,
}

impl ApprovalRecord {
    /// What is known at the start, and who keeps what comes.
    pub fn new(approvals: Approvals, keeper: Arc<dyn ApprovalKeeper>) -> Self {
        Self { approvals: Lock::new(approvals), kept: None, keeper }
    }

    /// That of a replica: until it hears what was agreed on, nothing is approved. `kept`: what this machine has of it.
    pub fn shared(kept: Approvals, keeper: Arc<dyn ApprovalKeeper>) -> Self {
        Self { approvals: Lock::default(), kept: Some(kept), keeper }
    }

    /// What was decided elsewhere, in the place of what is known here. [`crate::Gateway::screen_again`] makes it visible.
    pub fn follow(&self, decided: Approvals) {
        self.lock().follow(decided);
    }

    /// What was kept on this machine, where replicas agree on what counts.
    pub(crate) fn kept(&self) -> Option<&Approvals> {
        self.kept.as_ref()
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Approvals> {
        self.approvals.lock()
    }
}
