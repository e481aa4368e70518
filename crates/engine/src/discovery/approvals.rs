//! Deciding about definitions that are held, and showing what follows: each decision is a commit like any other. The hub's `approvals`
//! decides what is visible.

use std::sync::Arc;
use std::time::{Instant, SystemTime};

use tidings_hub::approvals::{
    ApprovalDecision, ApprovalVerdict, Approvals, DecidedMeanwhile, DefinitionFinding, HeldItem, examine,
};
use tidings_hub::catalogue::ServerOffer;
use tidings_hub::ledger::CommitOccasion;
use tidings_proto::{ListKind, LocalName};
use tidings_wire::{Digest, hex};

use crate::client::person_view::ViewOwner;
use crate::discovery::ListDiscovery;
use crate::discovery::agreed::AgreedServers;
use crate::discovery::look::touched;
use crate::observe::audit::AuditedDecision;
use crate::observe::journal::{self, JournalOccasion};
use crate::plan::approval::KeepOccasion;
use crate::plan::{Isolation, ServerPlan};
use crate::servers::offer_screen::{HeldSince, ScreenNews};
use crate::servers::server::Server;

/// A definition that waits for somebody to decide, or was rejected.
#[derive(Clone, Debug)]
pub struct PendingApproval {
    /// Names the item; the same for every definition of it.
    pub id: String,
    /// The server.
    pub server: String,
    /// Since when it is held.
    pub since: SystemTime,
    /// The item, and what was approved before.
    pub held: HeldItem,
    /// What is suspect about it.
    pub findings: Vec<DefinitionFinding>,
}

/// One thing to decide about: which item, and the definition that whoever decides has seen.
#[derive(Clone, Debug)]
pub struct ApprovalChoice {
    /// See [`PendingApproval::id`].
    pub id: String,
    /// The hash of the definition that is meant.
    pub digest: Digest,
}

/// Why nothing was decided.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecisionRefusal {
    /// Nothing is held under this id.
    #[error("nothing is held under the id \"{0}\"; it may have been decided, or the server offers it no longer")]
    Unknown(String),
    /// The server offers another definition by now.
    #[error("server \"{server}\" has changed \"{name}\" since you looked; look at it again: tidings approvals")]
    Changed {
        /// The server.
        server: String,
        /// The item.
        name: String,
    },
    /// Another replica decided about it since.
    #[error(
        "server \"{server}\": \"{name}\" was {} at another replica meanwhile; look at it again: tidings approvals",
        words(.decided)
    )]
    Meanwhile {
        /// The server.
        server: String,
        /// The item.
        name: String,
        /// What was decided.
        decided: DecidedMeanwhile,
    },
    /// The replicas can not agree at the moment.
    #[error(
        "{}nothing was decided, because the replicas can not agree at the moment: {reason}; try again, or at another replica",
        about(.server)
    )]
    Isolated {
        /// The server, where it was about to be decided.
        server: Option<String>,
        /// Why.
        reason: String,
    },
    /// It was written, and nobody knows whether it holds.
    #[error(
        "server \"{server}\": the bus of the cluster did not answer, so it is not known whether this was decided; `tidings approvals` shows it \
         once the replica is connected again"
    )]
    Unanswered {
        /// The server.
        server: String,
    },
    /// What was decided could not be written down, and so does not count.
    #[error("server \"{server}\": the decision could not be kept: {reason}")]
    NotKept {
        /// The server.
        server: String,
        /// Why.
        reason: String,
    },
}

fn words(decided: &DecidedMeanwhile) -> &'static str {
    match decided {
        DecidedMeanwhile::Approved => "approved",
        DecidedMeanwhile::Rejected => "rejected",
    }
}

fn about(server: &Option<String>) -> String {
    server.as_ref().map_or_else(String::new, |server| format!("server \"{server}\": "))
}

/// The id of an item of a server, for URLs.
fn approval_id(server: &str, held: &HeldItem) -> String {
    let mut text = serde_json::json!([server, held.kind.member(), held.item.key.as_str()]).to_string();
    text = hex(&Digest::of_bytes(text.as_bytes()).0);
    text.truncate(16);
    text
}

impl ListDiscovery {
    /// A listing was screened and is committed: what is held is recorded, and what was trusted at first sight is kept.
    pub(crate) fn screened(self: &Arc<Self>, plan: &ServerPlan, news: ScreenNews) {
        if self.agreed.as_ref().is_none_or(AgreedServers::is_current) {
            self.tell_held(plan, &news.held);
        }
        let learnt = (!news.screened.learnt.is_empty()).then_some((news.screened.learnt, KeepOccasion::Learnt));
        let first = news.screened.first_sight.map(|all| (all, KeepOccasion::FirstSight));
        let Some(approval) = &plan.approval else { return };
        for (decisions, occasion) in first.into_iter().chain(learnt) {
            let (record, name) = (Arc::clone(&approval.record), plan.name.clone());
            self.runtime.spawn(async move {
                let kept = tokio::task::spawn_blocking(move || record.keeper.keep(&decisions, occasion)).await;
                if let Ok(Err(reason)) = kept {
                    tracing::warn!(server = %name, %reason, "what was seen of it could not be kept");
                }
            });
        }
    }

    /// Records what is held since now, and says so.
    pub(super) fn tell_held(&self, plan: &ServerPlan, held: &[HeldItem]) {
        if let Some(journal) = self.journal() {
            journal::tell_held(journal, &plan.in_journal(), held);
        }
        for held in held {
            let (list, name) = (held.kind.member(), &held.item.key);
            tracing::warn!(server = %plan.name, list, %name, "held until somebody approves it: tidings approvals");
        }
    }

    /// Everything that is held, by server, list and name.
    pub(crate) fn pending(&self) -> Vec<PendingApproval> {
        let servers = self.pool.servers();
        let screened = servers.iter().filter(|server| server.plan.approval.is_some());
        screened.flat_map(|server| server.screen.held().into_iter().map(|held| self.describe(server, held))).collect()
    }

    fn describe(&self, server: &Server, HeldSince { held, since }: HeldSince) -> PendingApproval {
        let snapshot = Arc::clone(&self.catalogue.current().snapshot);
        let other = |word: &str| {
            let by_local = LocalName::new(word);
            let others = || snapshot.offers().iter().filter(|offer| offer.server != server.id);
            let by_public = snapshot.tool(word).filter(|route| route.server != server.id);
            let by_public = by_public.and_then(|route| snapshot.offer(route.server));
            let owner =
                by_public.or_else(|| others().find(|offer| offer.list(ListKind::Tools).get(&by_local).is_some()));
            owner.map(|offer| offer.name.to_string())
        };
        let before = held.approved.as_ref().and_then(|approved| approved.definition.as_deref());
        let findings = examine(&held.item.raw, before, other);
        let id = approval_id(&server.plan.name, &held);
        PendingApproval { id, server: server.plan.name.clone(), since, held, findings }
    }

    /// Decides about definitions that are held: first it is kept, then everybody whose view it changes is told. What belongs to one server
    /// is one commit. Nothing is decided unless all of it is held as it was seen.
    pub(crate) async fn decide(
        self: &Arc<Self>,
        choices: &[ApprovalChoice],
        verdict: ApprovalVerdict,
    ) -> Result<Vec<PendingApproval>, DecisionRefusal> {
        // One at a time: what is checked is what is decided about.
        let _turn = self.deciding.lock().await;
        if let Some(agreed) = &self.agreed {
            // Of what is read after this everybody has read at least as much.
            agreed.confirm(None).await?;
        }
        let chosen = self.chosen(choices)?;
        let servers = self.pool.servers();
        for server in servers.iter().filter(|server| server.plan.approval.is_some()) {
            let of_it = chosen.iter().filter(|chosen| chosen.server == server.plan.name);
            let of_it: Vec<&PendingApproval> = of_it.collect();
            if of_it.is_empty() {
                continue;
            }
            let outcome = match &self.agreed {
                None => {
                    self.decide_for(server, of_it.iter().map(|chosen| chosen.held.decision(verdict)).collect()).await
                }
                Some(agreed) => self.decide_together(agreed, server, &of_it, verdict).await,
            };
            // What may hold is recorded as well: nobody else would ever say who decided it.
            let is_unanswered = matches!(outcome, Err(DecisionRefusal::Unanswered { .. }));
            if let Some(audit) = self.runtime.audit.as_ref().filter(|_| outcome.is_ok() || is_unanswered) {
                audit.decision(AuditedDecision::Approval {
                    approved: matches!(verdict, ApprovalVerdict::Approve),
                    is_unanswered,
                    server: server.plan.name.clone(),
                    names: of_it.iter().map(|chosen| chosen.held.item.key.to_string()).collect(),
                });
            }
            outcome?;
        }
        Ok(chosen)
    }

    /// What is held of what was chosen: all of it, exactly as it was seen.
    pub(super) fn chosen(&self, choices: &[ApprovalChoice]) -> Result<Vec<PendingApproval>, DecisionRefusal> {
        let pending = self.pending();
        let choose = |choice: &ApprovalChoice| {
            let held = pending.iter().find(|pending| pending.id == choice.id);
            let held = held.ok_or_else(|| DecisionRefusal::Unknown(choice.id.clone()))?;
            if held.held.item.digest != choice.digest {
                let (server, name) = (held.server.clone(), held.held.item.key.to_string());
                return Err(DecisionRefusal::Changed { server, name });
            }
            Ok(held.clone())
        };
        choices.iter().map(choose).collect()
    }

    async fn decide_for(
        self: &Arc<Self>,
        server: &Arc<Server>,
        decisions: Vec<ApprovalDecision>,
    ) -> Result<(), DecisionRefusal> {
        let Some(plan) = &server.plan.approval else { return Ok(()) };
        let (record, kept) = (Arc::clone(&plan.record), decisions.clone());
        let kept = tokio::task::spawn_blocking(move || record.keeper.keep(&kept, KeepOccasion::Decided)).await;
        let not_kept = |reason| DecisionRefusal::NotKept { server: server.plan.name.clone(), reason };
        kept.map_err(|error| not_kept(error.to_string()))?.map_err(|fault| not_kept(fault.to_string()))?;
        let mut approvals = plan.record.lock();
        decisions.into_iter().for_each(|decision| approvals.decide(decision));
        self.show_screened(server, &mut approvals);
        Ok(())
    }

    /// What was decided elsewhere is made visible.
    pub(crate) fn screen_again(self: &Arc<Self>) {
        for server in self.pool.servers().iter() {
            if let Some(plan) = &server.plan.approval {
                self.show_screened(server, &mut plan.record.lock());
            }
        }
    }

    /// Commits what clients may see by now of what a server has listed, if that differs.
    pub(super) fn show_screened(self: &Arc<Self>, server: &Arc<Server>, approvals: &mut Approvals) {
        let Some(plan) = &server.plan.approval else { return };
        let Some(visible) = server.screen.again(plan, approvals) else { return };
        // What they see was screened when it was listed.
        match server.plan.isolation {
            Isolation::Auto => {}
            Isolation::Session => self
                .sessions
                .all()
                .into_iter()
                .for_each(|session| self.own_view_is_old(&ViewOwner::Session(session), server.id)),
            Isolation::Principal => self.people_view_is_old(server.id),
        }
        let Some(before) = self.catalogue.current().snapshot.offer(server.id).cloned() else { return };
        let after = ServerOffer { lists: visible, ..(*before).clone() };
        let touched = touched(Some(&before), Some(&after));
        if touched.is_empty() {
            return;
        }
        let occasion = CommitOccasion { at: Instant::now(), touched, signalled: Default::default(), held_by: None };
        let mut is_shown = false;
        let commit = self.commit(&occasion, |catalogue| {
            let Some(now) = catalogue.snapshot.offer(server.id).filter(|_| server.presence.is_current()) else {
                return;
            };
            is_shown = true;
            // Whether it is up may be another than a moment ago; its lists are not: they are listed and decided about one at a time.
            let offer = ServerOffer { lists: after.lists.clone(), ..(**now).clone() };
            catalogue.snapshot = Arc::new(catalogue.snapshot.with(offer));
        });
        if let Some(journal) = self.journal().filter(|_| is_shown) {
            let occasion = JournalOccasion { commit, at_start: false };
            journal::tell(journal, Some(&before), Some(&after), &[], occasion);
        }
    }
}
