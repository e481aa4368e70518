//! A request of a client, from its arrival to its answer: where it goes, what rides with it, who is asked in the middle of it.
//!
//! Belongs here: everything whose life is one call. Not here: links and their making (`servers`), what is told without having
//! been asked for (`notify`, `subscriptions`).

pub(crate) mod answers;
mod drive;
pub(crate) mod exchange;
pub(crate) mod ghosts;
mod held_outcome;
pub(crate) mod paging;
pub(crate) mod park;
pub(crate) mod relay;
pub(crate) mod routing;
pub(crate) mod seal;
pub(crate) mod server_requests;
mod skills;
mod surroundings;
mod task_ids;
pub(crate) mod tasks;
pub(crate) mod unsolicited;
mod watched_tasks;

use std::sync::Arc;
use std::time::Duration;

use crate::client::sessions::SessionTable;
use crate::discovery::ListDiscovery;
use crate::links::open_links::OpenLinks;
use crate::notify::ListNotifier;
use crate::observe::catalogue_store::CatalogueStore;
use crate::runtime::EngineRuntime;
use crate::servers::server_pool::ServerPool;
use crate::subscriptions::ResourceSubscriptions;
pub(crate) use drive::DriveDesk;
use ghosts::AbandonedStreams;
use park::ParkRoom;
use seal::Sealer;
use tasks::TaskRoom;

/// How long questions of a server are gathered before its client gets them, because it may ask several at once.
const QUESTIONS_GATHERED: Duration = Duration::from_millis(50);

/// Takes requests of clients to servers, or answers them; and takes what servers say about them back.
pub(crate) struct RequestRouter {
    pub(crate) runtime: Arc<EngineRuntime>,
    pub(crate) catalogue: Arc<CatalogueStore>,
    pub(crate) sessions: Arc<SessionTable>,
    pub(crate) links: Arc<OpenLinks>,
    pub(crate) pool: Arc<ServerPool>,
    pub(crate) subscriptions: Arc<ResourceSubscriptions>,
    pub(crate) notifier: Arc<ListNotifier>,
    pub(crate) discovery: Arc<ListDiscovery>,
    pub(crate) sealer: Sealer,
    /// Calls that wait for their clients.
    pub(crate) parks: ParkRoom,
    /// The gateway's `serverInfo` as modern results carry it, where no server is alone: made once, not for each answer.
    pub(crate) identity: Vec<u8>,
    pub(crate) abandoned: Arc<AbandonedStreams>,
    pub(crate) drives: Arc<DriveDesk>,
    /// What is known of tasks that servers work on.
    pub(crate) tasks: TaskRoom,
}
