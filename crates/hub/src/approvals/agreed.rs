//! What several replicas agreed on about one server: each decision is a whole state that comes after the one of a number, and of two that come
//! after the same one the first in their log counts. Nothing else changes it, so replicas that read the same log hold the same.
//!
//! Not here: the log itself (`fleet`), and the file in which each replica keeps what was agreed on.

use super::{ApprovalDecision, ApprovalMode, ApprovalPolicy, Approvals, HeldItem};
use crate::catalogue::OfferList;

/// What was agreed on about the definitions of one server. Before the first decision nothing is approved.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AgreedApprovals {
    number: u64,
    approvals: Approvals,
}

/// What others decided about a definition since somebody looked at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecidedMeanwhile {
    /// It was approved.
    Approved,
    /// It was rejected.
    Rejected,
}

impl AgreedApprovals {
    /// The decision of this number, with all that was decided before.
    pub fn new(number: u64, approvals: Approvals) -> Self {
        Self { number, approvals }
    }

    /// The number of the last decision, after which the next one is written; zero before the first.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// What was decided.
    pub fn approvals(&self) -> &Approvals {
        &self.approvals
    }

    /// What has to be agreed on before a listing can be shown as it is meant: the beginning, which is what somebody kept of the server or else
    /// its first sight, and later definitions of which only the hash was known. `None`: nothing.
    ///
    /// Whoever writes it says it for all, so that replicas which kept something else hold the same.
    pub fn wanted(&self, policy: ApprovalPolicy, kept: &Approvals, lists: &[OfferList; 4]) -> Option<Approvals> {
        if policy.mode == ApprovalMode::Auto {
            return None;
        }
        let mut next = if self.number == 0 { kept.clone() } else { self.approvals.clone() };
        let found = next.screen(policy, lists);
        // Decided, also where nothing is approved: what another replica kept does not count any more.
        next.seen = true;
        (self.number == 0 || !found.learnt.is_empty()).then_some(next)
    }

    /// What is to be agreed on next, where somebody decides.
    pub fn decided(&self, decisions: impl IntoIterator<Item = ApprovalDecision>) -> Approvals {
        let mut next = self.approvals.clone();
        next.seen = true;
        decisions.into_iter().for_each(|decision| next.decide(decision));
        next
    }

    /// Whether others decided about a definition since it was looked at. One that was rejected at that time may be approved still.
    pub fn meanwhile(&self, seen: &HeldItem) -> Option<DecidedMeanwhile> {
        if self.approvals.approves(seen) {
            return Some(DecidedMeanwhile::Approved);
        }
        let is_rejected = self.approvals.rejects(seen.kind, &seen.item.key, seen.item.digest);
        (is_rejected && !seen.rejected).then_some(DecidedMeanwhile::Rejected)
    }
}
