//! Approvals in a cluster: one decision of the log about each server, the same at every replica.
//!
//! The last one counts (`hub/approvals/agreed.rs`). It is changed by whoever decides, at any replica, and by whoever runs a server or sees that nothing was
//! decided about it: what a listing brings (the beginning, definitions of which only the hash was known) is agreed on before the listing is in the log.
//! What was agreed on is heard in the order of the log, shown by an ordinary commit, and written into the file of this machine beside that.
//!
//! Not here: how decisions come into the log and from there (`fleet/decisions.rs`).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use tidings_hub::approvals::{AgreedApprovals, ApprovalVerdict};
use tidings_hub::catalogue::{OfferList, ServerOffer};
use tidings_hub::ledger::CommitOccasion;
use tidings_sync::Lock;
use tidings_upstream::ServerHello;
use tokio::sync::Notify;

use crate::discovery::ListDiscovery;
use crate::discovery::approvals::{ApprovalChoice, DecisionRefusal, PendingApproval};
use crate::discovery::look::touched;
use crate::fleet::{
    Decided, DecisionBase, DecisionFollower, DecisionKind, DecisionOutcome, FleetDecisions, FleetDesk,
    LONGEST_DECISION, approval_form,
};
use crate::plan::ServerPlan;
use crate::plan::approval::ApprovalPlan;
use crate::servers::server::Server;

/// How often it is decided anew because others decided something else meanwhile.
const ATTEMPTS: usize = 32;
/// When a listing that could not be agreed on is tried again.
const AGAIN: Duration = Duration::from_millis(250);

/// What the replicas agreed on, as far as this one has heard.
pub(crate) struct AgreedServers {
    decisions: FleetDecisions,
    known: Lock<KnownApprovals>,
    /// Servers of which the file of this machine may say something else.
    unwritten: Lock<BTreeSet<String>>,
    /// Rings when there is something to write.
    heard: Notify,
    /// Rings when a server has listed about which nothing was heard.
    unbegun: Notify,
    /// Whether the log was read to its end: what is held before that may have been decided long ago.
    is_current: AtomicBool,
}

/// What was heard, by server.
#[derive(Default)]
struct KnownApprovals {
    /// Also of servers that are not there. `None`: what was decided can not be read here, and nothing counts as approved.
    agreed: BTreeMap<String, Option<AgreedApprovals>>,
    /// What servers list about which nothing was heard yet, the last of each. Shown by what is approved before that is known, all of it would
    /// be reported as held.
    parked: BTreeMap<String, ParkedOffer>,
}

/// What a server lists, as it is published.
pub(crate) struct ParkedOffer {
    pub(crate) offer: ServerOffer,
    pub(crate) hello: Arc<ServerHello>,
    /// Which one: another of the same name may take its place, or be about to.
    pub(crate) server: Weak<Server>,
}

impl ParkedOffer {
    fn is_of(&self, server: &Server) -> bool {
        std::ptr::eq(self.server.as_ptr(), server)
    }
}

impl KnownApprovals {
    /// Takes what this very server lists, once it is there. What one lists that is about to come stays until then: it is shown by what is asked
    /// of that one, and after the commit with which it comes.
    fn parked_of(&mut self, server: &Server) -> Option<ParkedOffer> {
        self.parked.get(&server.plan.name).filter(|parked| parked.is_of(server) && server.presence.is_current())?;
        self.parked.remove(&server.plan.name)
    }
}

impl AgreedServers {
    pub(super) fn new(desk: Arc<FleetDesk>) -> Self {
        let (known, unwritten, heard, unbegun, is_current) = Default::default();
        Self { decisions: FleetDecisions::new(desk), known, unwritten, heard, unbegun, is_current }
    }

    /// Whether what is held by now waits for somebody.
    pub(super) fn is_current(&self) -> bool {
        self.is_current.load(Ordering::Relaxed)
    }

    fn of(&self, server: &str) -> Result<AgreedApprovals, String> {
        match self.known.lock().agreed.get(server) {
            None => Ok(AgreedApprovals::default()),
            Some(Some(agreed)) => Ok(agreed.clone()),
            Some(None) => Err("a newer version decided, which this one does not understand; upgrade it".to_owned()),
        }
    }

    /// Waits until everything that was decided anywhere is known here.
    pub(super) async fn confirm(&self, server: Option<&str>) -> Result<(), DecisionRefusal> {
        match self.decisions.confirm().await {
            true => Ok(()),
            false => {
                let reason = "this replica is cut off from the others".to_owned();
                Err(DecisionRefusal::Isolated { server: server.map(str::to_owned), reason })
            }
        }
    }

    async fn write(&self, server: &str, agreed: &AgreedApprovals, value: bytes::Bytes) -> DecisionOutcome {
        let base = DecisionBase::Exactly(agreed.number());
        self.decisions.write(DecisionKind::Approve, server, base, Some(value)).await
    }

    fn mark_unwritten(&self, server: &str) {
        self.unwritten.lock().insert(server.to_owned());
        self.heard.notify_one();
    }
}

/// Shows what was decided. Weak: the driver ends when the gateway leaves, and must not keep it from being dropped.
struct ApprovalFollower(Weak<ListDiscovery>);

impl DecisionFollower for ApprovalFollower {
    fn decided(&self, subject: &str, decided: Option<&Decided>) {
        if let Some(discovery) = self.0.upgrade() {
            discovery.agreed_on(subject, decided);
        }
    }
}

impl ListDiscovery {
    /// Begins to hear what is decided; to be awaited before the log is read.
    pub(crate) async fn follow_agreed(self: &Arc<Self>) {
        if let Some(agreed) = &self.agreed {
            let follower = Arc::new(ApprovalFollower(Arc::downgrade(self)));
            agreed.decisions.follow(DecisionKind::Approve, follower).await;
        }
    }

    /// Something was agreed on: what clients may see follows.
    fn agreed_on(self: &Arc<Self>, subject: &str, decided: Option<&Decided>) {
        let Some(agreed) = &self.agreed else { return };
        let now = match decided {
            None => Some(AgreedApprovals::default()),
            Some(decided) => approval_form::read(&decided.value).map(|all| AgreedApprovals::new(decided.n, all)),
        };
        if now.is_none() {
            tracing::error!(
                server = subject,
                "what was decided about it can not be read; nothing of it is approved here"
            );
        }
        agreed.known.lock().agreed.insert(subject.to_owned(), now);
        let servers = self.pool.servers();
        let Some(server) = servers.named(subject, false) else { return };
        let parked = agreed.known.lock().parked_of(server);
        self.bring_agreed(&server.plan);
        match (parked, &server.plan.approval) {
            (Some(parked), _) => self.publish_parked(server, parked),
            (None, Some(plan)) => self.show_screened(server, &mut plan.record.lock()),
            (None, None) => {}
        }
    }

    /// What was agreed on about a server counts for it from here on.
    pub(crate) fn bring_agreed(&self, plan: &ServerPlan) {
        let (Some(agreed), Some(approval)) = (&self.agreed, &plan.approval) else { return };
        // Held until it is passed on, or something older could be passed on last. Taken before the record, as everywhere.
        let known = agreed.known.lock();
        let Some(now) = known.agreed.get(&plan.name) else { return };
        *approval.record.lock() = now.as_ref().map(|agreed| agreed.approvals().clone()).unwrap_or_default();
        if now.is_some() {
            agreed.mark_unwritten(&plan.name);
        }
    }

    /// Keeps what a server lists until it is known what is approved of it. Gives it back where that is known, or there is nothing to know.
    pub(crate) fn park(&self, plan: &ServerPlan, parked: ParkedOffer) -> Option<ParkedOffer> {
        let Some(agreed) = self.agreed.as_ref().filter(|_| plan.approval.is_some()) else { return Some(parked) };
        let mut known = agreed.known.lock();
        if known.agreed.contains_key(&plan.name) {
            return Some(parked);
        }
        known.parked.insert(plan.name.clone(), parked);
        // Whoever began may have been cut off, or did not know yet that approval is asked for.
        agreed.unbegun.notify_one();
        None
    }

    /// A server is there. What it lists is shown, if it was heard meanwhile what is approved of that.
    pub(crate) fn unpark(self: &Arc<Self>, server: &Arc<Server>) {
        let Some(agreed) = &self.agreed else { return };
        let parked = {
            let mut known = agreed.known.lock();
            if !known.agreed.contains_key(&server.plan.name) {
                return;
            }
            known.parked_of(server)
        };
        if let Some(parked) = parked {
            self.publish_parked(server, parked);
        }
    }

    fn publish_parked(self: &Arc<Self>, server: &Arc<Server>, ParkedOffer { offer, hello, .. }: ParkedOffer) {
        let before = self.catalogue.current().snapshot.offer(server.id).cloned();
        let touched = touched(before.as_deref(), Some(&offer));
        let occasion = CommitOccasion { at: Instant::now(), touched, signalled: Default::default(), held_by: None };
        self.publish(server, offer, hello, &occasion, None);
    }

    // ---- what a listing brings

    /// Agrees on what a listing brings, for as long as it takes. `false`: this replica does not run the server any more.
    pub(crate) async fn agree_before(&self, server: &Server, lists: &[OfferList; 4], stays: impl Fn() -> bool) -> bool {
        let mut is_said = false;
        while let Err(why) = self.agree_on_listing(&server.plan, lists).await {
            if !std::mem::replace(&mut is_said, true) {
                tracing::warn!(server = %server.plan.name, why, "what it lists waits until the replicas can agree");
            }
            tokio::time::sleep(AGAIN).await;
            if !stays() {
                return false;
            }
        }
        true
    }

    /// Agrees on what a listing brings to what is approved, if it brings anything. The error says why the replicas can not agree at the moment.
    pub(crate) async fn agree_on_listing(&self, plan: &ServerPlan, lists: &[OfferList; 4]) -> Result<(), String> {
        let (Some(agreed), Some(approval)) = (&self.agreed, &plan.approval) else { return Ok(()) };
        let ApprovalPlan { policy, record } = approval;
        let Some(kept) = record.kept() else { return Ok(()) };
        for _ in 0..ATTEMPTS {
            let now = agreed.of(&plan.name)?;
            let Some(next) = now.wanted(*policy, kept, lists) else { return Ok(()) };
            let value = approval_form::write(&next, LONGEST_DECISION);
            // Its definitions are too large to be written, and that is known already.
            if now.number() > 0 && value == approval_form::write(now.approvals(), LONGEST_DECISION) {
                return Ok(());
            }
            match agreed.write(&plan.name, &now, value).await {
                DecisionOutcome::Applied(_) => return Ok(()),
                DecisionOutcome::Overtaken(_) => {
                    agreed.confirm(None).await.map_err(|refusal| refusal.to_string())?;
                }
                DecisionOutcome::Refused(why) => return Err(why),
                DecisionOutcome::Unknown => return Err("the bus of the cluster did not answer".to_owned()),
                DecisionOutcome::TooLarge(why) => {
                    // What was not approved stays held, at every replica.
                    tracing::warn!(server = %plan.name, why, "what of it is approved can not be written");
                    return Ok(());
                }
            }
        }
        Err("other replicas decide all the time".to_owned())
    }

    /// Begins with what is in the log and nobody has decided about: such servers were listed before approval was asked for. Of several
    /// replicas that do so one is first.
    pub(crate) async fn begin_agreed(self: Arc<Self>) {
        let Some(agreed) = &self.agreed else { return };
        // The end of the log is waited for in any case.
        agreed.unbegun.notify_one();
        while self.runtime.stop.run_until_cancelled(agreed.unbegun.notified()).await.is_some() {
            let begun = async {
                while !self.begin_all(agreed).await {
                    tokio::time::sleep(AGAIN).await;
                }
            };
            if self.runtime.stop.run_until_cancelled(begun).await.is_none() {
                return;
            }
        }
    }

    /// Whether it could be done.
    async fn begin_all(&self, agreed: &AgreedServers) -> bool {
        // What is not heard yet may have begun long ago.
        if agreed.confirm(None).await.is_err() {
            return false;
        }
        if !agreed.is_current.swap(true, Ordering::Relaxed) {
            self.tell_waiting();
        }
        let servers = self.pool.servers();
        let parked: Vec<(&Arc<Server>, [OfferList; 4])> = {
            let known = agreed.known.lock();
            let of = |server: &Server| known.parked.get(&server.plan.name).filter(|parked| parked.is_of(server));
            servers.iter().filter_map(|server| Some((server, of(server)?.offer.lists.clone()))).collect()
        };
        let mut is_done = true;
        for (server, lists) in parked {
            is_done &= self.agree_on_listing(&server.plan, &lists).await.is_ok();
        }
        is_done
    }

    /// The log was read to its end, and this is what waits then.
    fn tell_waiting(&self) {
        for server in self.pool.servers().iter().filter(|server| server.plan.approval.is_some()) {
            let held = server.screen.held().into_iter().map(|held| held.held).filter(|held| !held.rejected);
            self.tell_held(&server.plan, &held.collect::<Vec<_>>());
        }
    }

    // ---- what somebody decides

    /// Decides about definitions of one server for all replicas. When it returns, it can be seen here, and elsewhere by whoever reads after it.
    pub(super) async fn decide_together(
        &self,
        agreed: &AgreedServers,
        server: &Server,
        chosen: &[&PendingApproval],
        verdict: ApprovalVerdict,
    ) -> Result<(), DecisionRefusal> {
        let name = &server.plan.name;
        let isolated = |reason| DecisionRefusal::Isolated { server: Some(name.clone()), reason };
        let choice = |held: &&PendingApproval| ApprovalChoice { id: held.id.clone(), digest: held.held.item.digest };
        let choices: Vec<ApprovalChoice> = chosen.iter().map(choice).collect();
        for _ in 0..ATTEMPTS {
            let now = agreed.of(name).map_err(isolated)?;
            // In this order, and each time: what was chosen may have been decided, and changed, while others were written. What is found to
            // be held is decided after exactly the state that was read before.
            still_open(&now, chosen)?;
            self.chosen(&choices)?;
            // What its file approves was in force until now, and nobody means to take it back by deciding first.
            let kept = server.plan.approval.as_ref().and_then(|plan| plan.record.kept());
            let base = match kept.filter(|_| now.number() == 0) {
                Some(kept) => AgreedApprovals::new(0, kept.clone()),
                None => now.clone(),
            };
            let next = base.decided(chosen.iter().map(|chosen| chosen.held.decision(verdict)));
            match agreed.write(name, &now, approval_form::write(&next, LONGEST_DECISION)).await {
                DecisionOutcome::Applied(_) => return Ok(()),
                DecisionOutcome::Overtaken(_) => agreed.confirm(Some(name)).await?,
                DecisionOutcome::Refused(why) => return Err(isolated(why)),
                DecisionOutcome::Unknown => return Err(DecisionRefusal::Unanswered { server: name.clone() }),
                DecisionOutcome::TooLarge(reason) => {
                    return Err(DecisionRefusal::NotKept { server: name.clone(), reason });
                }
            }
        }
        Err(isolated("other replicas decide all the time".to_owned()))
    }

    // ---- the files of this machine

    /// Writes what was agreed on into the files of this machine: one after the other, since each is a whole state. What a gateway that ends
    /// leaves unwritten it hears again when it starts.
    pub(crate) async fn write_agreed(self: Arc<Self>) {
        let Some(agreed) = &self.agreed else { return };
        while self.runtime.stop.run_until_cancelled(agreed.heard.notified()).await.is_some() {
            loop {
                let Some(name) = agreed.unwritten.lock().pop_first() else { break };
                let servers = self.pool.servers();
                let plan = servers.named(&name, false).and_then(|server| server.plan.approval.as_ref());
                let Some(record) = plan.map(|plan| Arc::clone(&plan.record)) else { continue };
                let approvals = record.lock().clone();
                let kept = tokio::task::spawn_blocking(move || record.keeper.keep_agreed(&approvals)).await;
                if let Ok(Err(reason)) = kept {
                    tracing::warn!(server = %name, %reason, "what the replicas agreed on is not in the lock file of this machine");
                }
            }
        }
    }
}

/// Nobody else has decided about it since it was chosen.
fn still_open(now: &AgreedApprovals, chosen: &[&PendingApproval]) -> Result<(), DecisionRefusal> {
    for chosen in chosen {
        if let Some(decided) = now.meanwhile(&chosen.held) {
            let (server, name) = (chosen.server.clone(), chosen.held.item.key.to_string());
            return Err(DecisionRefusal::Meanwhile { server, name, decided });
        }
    }
    Ok(())
}
