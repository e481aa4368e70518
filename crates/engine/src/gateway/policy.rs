//! The rules that decide who may have which items: which hold, and others in their place. And how often limits were over.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use tidings_hub::ledger::{CommitOccasion, Topics};
use tidings_hub::policy::AccessPolicy;

use super::Gateway;
use crate::observe::audit::AuditedDecision;

impl Gateway {
    /// How often each limit was over, by name; nothing where there are none.
    pub fn over_limits(&self) -> BTreeMap<String, u64> {
        self.0.runtime.limits.as_ref().map(|limits| limits.refused()).unwrap_or_default()
    }

    /// The rules that hold, or are tried.
    pub fn policy(&self) -> Option<Arc<AccessPolicy>> {
        self.0.catalogue.current().snapshot.policy().cloned()
    }

    /// Other rules hold from now on, or none. When this returns, everybody whose view differs is owed a notice, and nobody else; nobody is
    /// told of a resource any more that they may not follow. Calls that run finish.
    pub fn set_policy(&self, policy: Option<Arc<AccessPolicy>>) {
        let before = self.policy();
        if before.as_ref().map(|policy| policy.rules()) == policy.as_ref().map(|policy| policy.rules()) {
            return;
        }
        let decided = AuditedDecision::Policy {
            rules: policy.as_ref().map(|policy| policy.rules().rules.len()),
            enforced: policy.as_ref().is_some_and(|policy| policy.is_enforced()),
        };
        // What servers have is the same as before; whose view of it is another one the ledger finds out.
        let occasion =
            CommitOccasion { at: Instant::now(), touched: Topics::default(), signalled: [None; 3], held_by: None };
        self.0.lifecycle.discovery.commit(&occasion, |catalogue| {
            catalogue.snapshot = Arc::new(catalogue.snapshot.under(policy));
        });
        self.0.subscriptions.rules_changed();
        self.record_decision(decided);
    }
}
