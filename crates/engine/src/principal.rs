//! Who is asking, and what they may use.

use std::sync::Arc;

use tidings_hub::scope::{Audience, Scope};

use crate::plan::Source;
use crate::server::Server;

/// Somebody who was let in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Principal {
    /// What they are called in logs and lists.
    pub name: Arc<str>,
    /// What they may use.
    pub scope: Scope,
}

impl Principal {
    /// The person at this machine, when nobody is asked who they are: may do everything.
    pub fn local() -> Self {
        Self { name: "local".into(), scope: Scope::everything() }
    }

    /// Whether they may change the gateway.
    pub fn is_admin(&self) -> bool {
        self.scope.is_admin()
    }

    /// Whether they may use a server.
    pub(crate) fn may_use(&self, server: &Server) -> bool {
        self.scope.permits(server.audience(), &server.plan.name)
    }
}

impl Server {
    /// Who may use it.
    pub(crate) fn audience(&self) -> Audience {
        match &self.plan.source {
            Source::Local(local) => local.audience(),
            Source::Remote(_) => Audience::ByName,
        }
    }
}
