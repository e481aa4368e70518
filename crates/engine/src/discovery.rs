//! Learning what a server offers: what makes its lists be looked at again, and the looking itself. When to look is decided by
//! the hub's `refresh`.
//!
//! Belongs here: the way from a signal of a server to a new offer. Not here: who is told of it (`notify`).

pub(crate) mod agreed;
pub(crate) mod approvals;
pub(crate) mod lister;
pub(crate) mod look;
mod person_view;
pub(crate) mod refresh;
pub(crate) mod session_view;
pub(crate) mod signals;

use std::sync::Arc;

use tidings_hub::catalogue::ServerOffer;
use tidings_hub::ledger::CommitOccasion;
use tidings_proto::TraceContext;
use tidings_upstream::ServerHello;

use crate::client::person_view::PeopleViews;
use crate::client::sessions::SessionTable;
use crate::discovery::agreed::{AgreedServers, ParkedOffer};
use crate::links::open_links::OpenLinks;
use crate::notify::ListNotifier;
use crate::observe::catalogue_store::CatalogueStore;
use crate::observe::journal::{self, Journal, JournalOccasion};
use crate::observe::status::{Catalogue, ServerStatus};
use crate::runtime::EngineRuntime;
use crate::servers::offer_screen::ListedFor;
use crate::servers::server::Server;
use crate::servers::server_pool::ServerPool;

/// Looks at what servers offer, for all and for single sessions, and commits what it finds.
pub(crate) struct ListDiscovery {
    runtime: Arc<EngineRuntime>,
    catalogue: Arc<CatalogueStore>,
    links: Arc<OpenLinks>,
    pool: Arc<ServerPool>,
    notifier: Arc<ListNotifier>,
    sessions: Arc<SessionTable>,
    journal: Option<Arc<dyn Journal>>,
    /// What people see over links of their own.
    pub(crate) people: PeopleViews,
    /// Held from the check of a decision until it is committed.
    deciding: tokio::sync::Mutex<()>,
    /// What the replicas of a cluster agreed on, where there may be several.
    agreed: Option<AgreedServers>,
}

impl ListDiscovery {
    pub(crate) fn new(
        runtime: Arc<EngineRuntime>,
        catalogue: Arc<CatalogueStore>,
        sessions: Arc<SessionTable>,
        links: Arc<OpenLinks>,
        pool: Arc<ServerPool>,
        notifier: Arc<ListNotifier>,
        journal: Option<Arc<dyn Journal>>,
    ) -> Self {
        let (deciding, people) = Default::default();
        let agreed = runtime.fleet.clone().map(AgreedServers::new);
        Self { runtime, catalogue, links, pool, notifier, sessions, journal, people, deciding, agreed }
    }

    /// Commits a change of the catalogue, and looks again for the sessions that see a part of it beside lists of their own.
    /// Gives the number of the commit, if it changed what somebody may see.
    pub(crate) fn commit(
        self: &Arc<Self>,
        occasion: &CommitOccasion,
        change: impl FnOnce(&mut Catalogue),
    ) -> Option<u64> {
        self.commit_of(None, occasion, change)
    }

    /// The same, within a span.
    fn commit_of(
        self: &Arc<Self>,
        span: Option<&TraceContext>,
        occasion: &CommitOccasion,
        change: impl FnOnce(&mut Catalogue),
    ) -> Option<u64> {
        let committed = self.notifier.commit(span, occasion, change);
        for session in committed.own {
            self.look_again_for(&session);
        }
        if committed.has_own_listens {
            self.people.all().iter().for_each(|person| self.look_again_for_person(person));
        }
        committed.number
    }

    /// Who keeps the record of changes.
    pub(crate) fn journal(&self) -> Option<&dyn Journal> {
        self.journal.as_deref()
    }

    /// A server has listed: first the new state can be read, then it counts as ready.
    pub(crate) fn publish(
        self: &Arc<Self>,
        server: &Arc<Server>,
        offer: ServerOffer,
        hello: Arc<ServerHello>,
        occasion: &CommitOccasion,
        span: Option<&TraceContext>,
    ) {
        let parked = ParkedOffer { offer, hello, server: Arc::downgrade(server) };
        let Some(ParkedOffer { mut offer, hello, .. }) = self.park(&server.plan, parked) else { return };
        let id = offer.server;
        // Until the commit: no decision comes between what is screened and what is shown.
        let mut deciding = server.plan.approval.as_ref().map(|plan| (plan, plan.record.lock()));
        let before = self.catalogue.current().snapshot.offer(id).cloned();
        // Before the commit, with which the start may be over.
        let at_start = self.catalogue.starting();
        let mut is_shown = false;
        let news = deciding
            .as_mut()
            .map(|(plan, approvals)| server.screen.take(plan, approvals, &mut offer, ListedFor::Everybody));
        let commit = self.commit_of(span, occasion, |catalogue| {
            // Behind the lock of the catalogue: another may have taken its place.
            is_shown = server.presence.is_current();
            if !is_shown {
                return;
            }
            catalogue.snapshot = Arc::new(catalogue.snapshot.with(offer));
            if let Some(status) = catalogue.servers.iter_mut().find(|status| status.id == id) {
                status.transport = server.transport();
                status.connected(hello, server.health().listed());
            }
        });
        drop(deciding);
        server.direct.offered.notify_one();
        if let Some(journal) = self.journal().filter(|_| is_shown) {
            let now = self.catalogue.current();
            let failed = now.server(id).map(ServerStatus::failed_kinds).unwrap_or_default();
            let after = now.snapshot.offer(id);
            // After the commit: whoever reads the feed and then lists sees at least that.
            let occasion = JournalOccasion { commit, at_start };
            journal::tell(journal, before.as_deref(), after.map(|offer| &**offer), &failed, occasion);
        }
        if let Some(news) = news {
            self.screened(&server.plan, news);
        }
    }
}
