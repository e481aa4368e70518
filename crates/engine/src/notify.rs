//! Telling clients that lists changed: who is owed what, in which words, and when the transport takes it.
//!
//! Belongs here: the way from a commit of the catalogue to a notification. Not here: following single resources
//! (`subscriptions`), and learning of changes (`discovery`).

pub(crate) mod announce;
mod askers;
mod channel;
mod hearing;
pub(crate) mod listeners;
pub(crate) mod notices;
pub(crate) mod standing;
pub(crate) mod summary;

use std::sync::{Arc, MutexGuard};

use crate::client::bells::FollowerBells;
use crate::client::sessions::SessionTable;
use crate::observe::catalogue_store::CatalogueStore;
use crate::observe::meters::Meters;
use crate::runtime::EngineRuntime;
use crate::servers::server_pool::ServerPool;
use crate::subscriptions::ResourceSubscriptions;
use announce::Announcements;
use askers::ModernAskers;
use listeners::OpenListens;
use tidings_hub::departures::Departures;
use tidings_sync::Lock;

/// Who is owed which notice, and handing it over: of lists by its own ledger, of resources by the subscriptions.
pub(crate) struct ListNotifier {
    runtime: Arc<EngineRuntime>,
    catalogue: Arc<CatalogueStore>,
    sessions: Arc<SessionTable>,
    bells: Arc<FollowerBells>,
    pool: Arc<ServerPool>,
    meters: Arc<Meters>,
    subscriptions: Arc<ResourceSubscriptions>,
    announcements: Lock<Announcements>,
    listens: Arc<OpenListens>,
    /// Modern clients that ask for lists and do not listen. A leaf.
    askers: Lock<ModernAskers>,
    /// Names of tools that went. A leaf: nothing else is taken under it.
    departures: Lock<Departures>,
}

impl ListNotifier {
    pub(crate) fn new(
        runtime: Arc<EngineRuntime>,
        catalogue: Arc<CatalogueStore>,
        sessions: Arc<SessionTable>,
        bells: Arc<FollowerBells>,
        pool: Arc<ServerPool>,
        meters: Arc<Meters>,
        subscriptions: Arc<ResourceSubscriptions>,
    ) -> Self {
        let (announcements, listens, askers, departures) = Default::default();
        Self {
            runtime,
            catalogue,
            sessions,
            bells,
            pool,
            meters,
            subscriptions,
            announcements,
            listens,
            askers,
            departures,
        }
    }

    fn announcements(&self) -> MutexGuard<'_, Announcements> {
        self.announcements.lock()
    }
}
