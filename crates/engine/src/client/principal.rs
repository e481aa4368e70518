//! Who is asking, and what they may use.

use std::sync::Arc;

use tidings_hub::catalogue::CatalogueSnapshot;
use tidings_hub::ledger::ViewDigests;
use tidings_hub::scope::AccessScope;
use tidings_proto::Revision;

use crate::plan::ServerPlan;

/// Somebody who was let in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Principal {
    /// What they are called in logs and lists.
    pub name: Arc<str>,
    /// What they may use.
    pub scope: AccessScope,
    /// Whether nobody is asked who they are, so that all see the same.
    anybody: bool,
}

/// What tells apart what two clients see of the shared catalogue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ViewKey {
    pub(crate) revision: Revision,
    pub(crate) scope: AccessScope,
}

impl Principal {
    /// Somebody who was told apart from others, by a token or by the system: what they see is not shared with others.
    pub fn new(name: &str, scope: AccessScope) -> Self {
        Self { name: name.into(), scope, anybody: false }
    }

    /// The person at this machine, when nobody is asked who they are: may do everything.
    pub fn local() -> Self {
        Self { name: "local".into(), scope: AccessScope::everything(), anybody: true }
    }

    /// Whether what they are given may be kept for others: nobody is told apart.
    pub(crate) fn is_anybody(&self) -> bool {
        self.anybody
    }

    /// Whether they may change the gateway.
    pub fn is_admin(&self) -> bool {
        self.scope.is_admin()
    }

    /// Whether they may use a server.
    pub(crate) fn may_use(&self, server: &ServerPlan) -> bool {
        // By audience and name, so that a rule holds for servers that are added later, too.
        self.scope.permits(server.audience(), &server.name)
    }
}

impl ViewKey {
    /// The hash of what is seen of a catalogue, by topic.
    pub(crate) fn digests(&self, whole: &Arc<CatalogueSnapshot>) -> ViewDigests {
        whole.seen_by(&self.scope).digests(self.revision)
    }
}
