//! Rules that are only tried: what they would have kept from somebody.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::{AccessPolicy, DEFAULT, Decider, ItemFacts, Rights};
use crate::scope::{AccessScope, ServerAudience};

/// A rule that would have kept something, or the default.
#[derive(Clone, Debug)]
pub struct TriedRule {
    policy: Arc<AccessPolicy>,
    place: usize,
}

impl TriedRule {
    pub(crate) fn of(
        policy: &Arc<AccessPolicy>,
        scope: &AccessScope,
        audience: ServerAudience,
        item: &ItemFacts<'_>,
        right: Rights,
    ) -> Option<Self> {
        let rules = &policy.rules().rules;
        let verdict = policy.explain(scope, audience, item, right);
        let place = match verdict.by {
            _ if verdict.allowed => return None,
            Decider::Rule(rule) | Decider::RuleOfSpelling(rule) | Decider::Scope(rule) => {
                // By address: the verdict borrows the rule out of this very list.
                rules.iter().position(|known| std::ptr::eq(known, rule)).unwrap_or(rules.len())
            }
            Decider::Default => rules.len(),
            // What the servers of a token keep is kept in any case.
            Decider::Servers | Decider::BuiltIn => return None,
        };
        Some(Self { policy: Arc::clone(policy), place })
    }

    /// Counts it.
    pub fn note(&self) {
        self.policy.kept[self.place].fetch_add(1, Ordering::Relaxed);
    }

    /// The name of the rule.
    pub fn name(&self) -> &str {
        self.policy.rules().rules.get(self.place).map_or(DEFAULT, |rule| &rule.name)
    }
}
