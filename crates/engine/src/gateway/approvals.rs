//! What people ask and decide about definitions that are held.

use std::collections::HashSet;
use std::sync::Arc;

use tidings_hub::ServerId;
use tidings_hub::approvals::{ApprovalVerdict, SCREENED};
use tidings_hub::catalogue::OfferList;
use tidings_proto::{ListKind, LocalName};
use tidings_wire::Digest;

use super::Gateway;
use crate::discovery::approvals::{ApprovalChoice, DecisionRefusal, PendingApproval};
use crate::observe::status::Origin;

/// What one server offers, as a lock file names it.
#[derive(Clone, Debug)]
pub struct OfferedServer {
    /// Its configured name.
    pub name: String,
    /// Where it is configured.
    pub origin: Origin,
    /// What it is, without secrets.
    pub identity: Option<String>,
    /// Why nothing is known of what it offers.
    pub error: Option<String>,
    /// Its tools and prompts, seen or held.
    pub items: Vec<OfferedItem>,
}

/// One item that a server offers.
#[derive(Clone, Debug)]
pub struct OfferedItem {
    /// The list that it stands in.
    pub kind: ListKind,
    /// What the server calls it.
    pub name: LocalName,
    /// The hash of what it says.
    pub digest: Digest,
    /// Whether clients do not see this definition.
    pub held: bool,
}

impl Gateway {
    /// Every definition that is held, by server, list and name.
    pub fn approvals(&self) -> Vec<PendingApproval> {
        self.0.lifecycle.discovery.pending()
    }

    /// How many definitions of a server wait for somebody to decide.
    pub fn waiting_approvals(&self, server: ServerId) -> usize {
        self.0.pool.server(server).map_or(0, |server| server.screen.count())
    }

    /// The same of all servers; what is strange about each is not looked at.
    pub fn all_waiting_approvals(&self) -> usize {
        let servers = self.0.pool.servers();
        servers.iter().filter(|server| server.plan.approval.is_some()).map(|server| server.screen.waiting()).sum()
    }

    /// Decides about definitions that are held. When this returns, it is kept and can be seen, and everybody whose view it changed is
    /// owed a notice.
    pub async fn decide(
        &self,
        choices: &[ApprovalChoice],
        verdict: ApprovalVerdict,
    ) -> Result<Vec<PendingApproval>, DecisionRefusal> {
        let (discovery, choices) = (Arc::clone(&self.0.lifecycle.discovery), choices.to_vec());
        // A task of its own: whoever asks may go away in the middle, and what was written by then has to be recorded.
        let deciding = self.0.runtime.tasks.spawn(async move { discovery.decide(&choices, verdict).await });
        deciding.await.unwrap_or_else(|ended| {
            Err(DecisionRefusal::Isolated { server: None, reason: format!("this was not carried out ({ended})") })
        })
    }

    /// Makes visible what was decided elsewhere, by another process or in the file.
    pub fn screen_again(&self) {
        self.0.lifecycle.discovery.screen_again();
    }

    /// What every server outside of the program offers now, seen or held.
    pub fn offered(&self) -> Vec<OfferedServer> {
        let catalogue = self.0.catalogue.current();
        let servers = self.0.pool.servers();
        let external = servers.iter().filter(|server| !server.plan.is_built_in());
        let of = |server: &Arc<_>| {
            let server: &crate::servers::server::Server = server;
            let offer = catalogue.snapshot.offer(server.id);
            let listed = server.screen.lists().or_else(|| offer.map(|offer| offer.lists.clone()));
            let held = server.screen.held();
            let held: HashSet<(ListKind, &LocalName, Digest)> =
                held.iter().map(|held| (held.held.kind, &held.held.item.key, held.held.item.digest)).collect();
            let list = |kind: ListKind, list: &OfferList| -> Vec<OfferedItem> {
                let item = |item: &tidings_hub::catalogue::OfferItem| OfferedItem {
                    kind,
                    name: item.key.clone(),
                    digest: item.digest,
                    held: held.contains(&(kind, &item.key, item.digest)),
                };
                list.items.iter().map(item).collect()
            };
            let status = catalogue.server(server.id);
            let failed = status.and_then(|status| status.failed_lists.first()).map(|list| list.error.clone());
            let down = status.filter(|_| offer.is_none_or(|offer| !offer.current));
            let down = down.map(|status| status.error.clone().unwrap_or_else(|| status.state.as_str().to_owned()));
            OfferedServer {
                name: server.plan.name.clone(),
                origin: server.plan.origin,
                identity: server.plan.identity.clone(),
                error: down.or(failed),
                items: SCREENED
                    .into_iter()
                    .flat_map(|kind| listed.as_ref().map(|lists| list(kind, &lists[kind as usize])).unwrap_or_default())
                    .collect(),
            }
        };
        external.map(of).collect()
    }
}
