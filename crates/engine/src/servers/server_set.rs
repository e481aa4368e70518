//! The servers there are: an immutable set, replaced as a whole when one comes or goes.

use std::sync::Arc;

use tidings_hub::ServerId;

use crate::plan::Isolation;
use crate::servers::server::Server;

/// All servers, by their ids. A server keeps its id for the life of the process, also when it is replaced by one of the
/// same name, or removed and added again: whoever follows its resources goes on where it was.
#[derive(Default)]
pub(crate) struct ServerSet {
    list: Vec<Arc<Server>>,
    isolated: bool,
    personal: bool,
    external: usize,
}

impl ServerSet {
    pub(crate) fn new(mut list: Vec<Arc<Server>>) -> Self {
        list.sort_by_key(|server| server.id);
        // Counted once here, because every list and every call asks.
        // Of the gateway's own servers one is there for people only: without servers of theirs it has nothing to say.
        let outside = || list.iter().filter(|server| !server.plan.is_built_in());
        let isolated = outside().any(|server| !server.plan.isolation.is_shared());
        let personal = outside().any(|server| server.plan.isolation == Isolation::Principal);
        let external = outside().count();
        Self { list, isolated, personal, external }
    }

    pub(crate) fn get(&self, id: ServerId) -> Option<&Arc<Server>> {
        self.list.binary_search_by_key(&id, |server| server.id).ok().map(|place| &self.list[place])
    }

    pub(crate) fn iter(&self) -> std::slice::Iter<'_, Arc<Server>> {
        self.list.iter()
    }

    /// A server by its configured name. One that is part of the program may have the same name as another.
    pub(crate) fn named(&self, name: &str, built_in: bool) -> Option<&Arc<Server>> {
        self.list.iter().find(|server| server.plan.name == name && server.plan.is_built_in() == built_in)
    }

    /// How many are not part of the program.
    pub(crate) fn external(&self) -> usize {
        self.external
    }

    /// Whether some are connected once per session, or once per person.
    pub(crate) fn has_isolated(&self) -> bool {
        self.isolated
    }

    /// Whether some are connected once per person.
    pub(crate) fn has_personal(&self) -> bool {
        self.personal
    }

    /// The set with some servers put in, in the place of those with the same ids, and others left out.
    pub(crate) fn with(&self, put: &[Arc<Server>], without: &[ServerId]) -> Self {
        let replaced = |id: ServerId| put.iter().any(|server| server.id == id);
        let kept = self.list.iter().filter(|server| !replaced(server.id) && !without.contains(&server.id));
        Self::new(kept.chain(put).cloned().collect())
    }
}
