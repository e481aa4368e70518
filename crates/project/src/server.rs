//! A project as a server in the process.

mod calls;
mod following;
mod link;
mod told;

use std::sync::{Arc, Weak};

use tidings_engine::{LocalServer, Surroundings};
use tidings_proto::Revision;
use tidings_sync::Lock;
use tidings_upstream::{ConnectedLink, MessageSink, ProcessLauncher, ServerHello};

use crate::home::ProjectHome;
use crate::identity::{ProjectIdentity, capabilities};
use crate::registry::ProjectRegistry;
use crate::run::{ScriptKit, ScriptRunner};
use link::ProjectLink;

/// The server. All of its links share one registry, which looks at the folder for as long as there is a link.
pub struct ProjectServer {
    home: Arc<ProjectHome>,
    /// Each link has its own, with the workers of this one.
    runner: Arc<ScriptRunner>,
    launcher: Arc<ProcessLauncher>,
    registry: Lock<Weak<ProjectRegistry>>,
}

impl ProjectServer {
    /// A server of the project in this home. Nothing is read until somebody connects; scripts are started by `launcher` and
    /// find the `kit`.
    pub fn new(home: ProjectHome, launcher: Arc<ProcessLauncher>, kit: &ScriptKit) -> Self {
        let home = Arc::new(home);
        let runner = ScriptRunner::new(Arc::clone(&home), Arc::clone(&launcher), kit);
        Self { home, runner, launcher, registry: Lock::default() }
    }

    fn registry(&self) -> Arc<ProjectRegistry> {
        let mut shared = self.registry.lock();
        // Weak: with the last link nobody watches the folder any more.
        if let Some(registry) = shared.upgrade() {
            return registry;
        }
        let registry = ProjectRegistry::start(Arc::clone(&self.home), Some(Arc::clone(&self.launcher)));
        *shared = Arc::downgrade(&registry);
        registry
    }
}

impl LocalServer for ProjectServer {
    fn kind(&self) -> &'static str {
        "project"
    }

    /// Speaks the last legacy revision: scripts ask questions in the middle of a call.
    fn connect(&self, sink: Arc<dyn MessageSink>, surroundings: Surroundings) -> ConnectedLink {
        let (identity, problems) = ProjectIdentity::read(&self.home);
        for problem in problems {
            tracing::warn!(target: "tidings::project", "{problem}");
        }
        ConnectedLink {
            link: Arc::new(ProjectLink::new(self.registry(), self.runner.another(), sink, surroundings)),
            hello: ServerHello {
                revision: Revision::LATEST_LEGACY,
                capabilities: capabilities(),
                info: identity.info,
                instructions: identity.instructions,
                gateways: Vec::new(),
            },
        }
    }
}
