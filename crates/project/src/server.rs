//! A project as a server in the process.

mod link;
mod told;

use std::sync::{Arc, Mutex, PoisonError, Weak};

use tidings_engine::{LocalServer, Surroundings};
use tidings_proto::Revision;
use tidings_upstream::{Connected, Hello, Sink};

use crate::home::Home;
use crate::identity::{Identity, capabilities};
use crate::registry::Registry;
use link::ProjectLink;

/// The server. All of its links share one registry, which looks at the folder for as long as there is a link.
pub struct ProjectServer {
    home: Arc<Home>,
    registry: Mutex<Weak<Registry>>,
}

impl ProjectServer {
    /// A server of the project in this home. Nothing is read until somebody connects.
    pub fn new(home: Home) -> Self {
        Self { home: Arc::new(home), registry: Mutex::default() }
    }

    fn registry(&self) -> Arc<Registry> {
        let mut shared = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(registry) = shared.upgrade() {
            return registry;
        }
        let registry = Registry::start(Arc::clone(&self.home));
        *shared = Arc::downgrade(&registry);
        registry
    }
}

impl LocalServer for ProjectServer {
    /// Speaks the last legacy revision: scripts ask questions in the middle of a call.
    fn connect(&self, sink: Arc<dyn Sink>, _surroundings: Surroundings) -> Connected {
        let (identity, problems) = Identity::read(&self.home);
        for problem in problems {
            tracing::warn!(target: "tidings::project", "{problem}");
        }
        Connected {
            link: Arc::new(ProjectLink::new(self.registry(), sink)),
            hello: Hello {
                revision: Revision::LATEST_LEGACY,
                capabilities: capabilities(),
                info: identity.info,
                instructions: identity.instructions,
            },
        }
    }
}
