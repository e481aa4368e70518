//! A keeper whose grant the replicas of a cluster share: what the log says, and how one replica keeps the others from renewing at the same time.
//!
//! A claim is the grant as it is, written once more after the value that was looked at, by whoever is about to renew it. It counts for the process that
//! wrote it, until the next value; where that process has ended, or took longer than any renewal, another one may claim. What a killed process was given and did not write is lost
//! with it: the next one sends the refresh token that the log has, and where the provider has taken that back, a person has to log in.

use std::time::{Duration, Instant};

use tidings_hub::fleet::decision_commits::DecisionBase;
use tidings_hub::grant_keeper::{ClaimOutcome, GrantEvent, GrantState, LoginReason};

use super::{Keeper, KeeperState};
use crate::grant_record::{GrantRecord, unix_now};
use crate::shared_grants::{GrantWritten, SharedGrant, SharedGrantState, SharedGrants};

/// After this time a claim counts no more, whoever has it: a renewal and writing it take less.
const CLAIM_LASTS: Duration = Duration::from_secs(90);
/// A process that ended is known to have after less than this.
const GONE_AFTER: Duration = Duration::from_secs(4);
/// The refresh token is sent within this time of its claim, or claimed once more: a process that was stopped in between may have been taken for one that ended.
const SEND_WITHIN: Duration = Duration::from_secs(2);

/// What a keeper knows of the log.
#[derive(Default)]
pub(super) struct SharedPart {
    /// The number of the value that was told last; zero: there is none.
    n: u64,
    claim: Option<HeldClaim>,
    /// What this process was given and has not written yet.
    unsaved: Option<UnsavedGrant>,
    /// Whether somebody was refused with the token that is in use.
    is_refused: bool,
}

#[derive(Clone, Copy)]
struct HeldClaim {
    by: u64,
    /// When it was told here.
    since: Instant,
}

#[derive(Clone)]
struct UnsavedGrant {
    record: GrantRecord,
    base: DecisionBase,
}

fn is_same(one: &GrantRecord, other: &GrantRecord) -> bool {
    one.access == other.access && one.refresh == other.refresh
}

impl KeeperState {
    /// What the log says now, as an event.
    fn told(&mut self, n: u64, grant: Option<&SharedGrant>, now: Instant) -> Option<GrantEvent> {
        self.shared.n = n;
        self.shared.claim = None;
        let overtakes = |unsaved: &UnsavedGrant| matches!(unsaved.base, DecisionBase::Exactly(base) if base != n);
        if self.shared.unsaved.as_ref().is_some_and(overtakes) {
            self.shared.unsaved = None;
        }
        let wanted = self.settings.issuer.as_ref();
        match grant.map(|grant| (grant, &grant.state)) {
            Some((_, SharedGrantState::Needed { reason, fault })) => {
                self.record = None;
                self.fault.clone_from(fault);
                Some(GrantEvent::Needed((*reason).into()))
            }
            // A grant of another provider than the configured one is of no use.
            Some((grant, SharedGrantState::Granted { record, claimed, fault }))
                if wanted.is_none_or(|wanted| *wanted == record.provider.issuer) =>
            {
                self.shared.claim = claimed.then_some(HeldClaim { by: grant.by, since: now });
                if self.has(record) {
                    let is_released = !*claimed && fault.is_some();
                    return is_released.then(|| {
                        self.fault.clone_from(fault);
                        GrantEvent::Released
                    });
                }
                let life = record.life(now);
                self.record = Some((**record).clone());
                self.fault = None;
                self.more.clear();
                self.shared.is_refused = false;
                Some(GrantEvent::Restored(life))
            }
            _ => {
                self.record = None;
                self.fault = None;
                Some(GrantEvent::Forgotten)
            }
        }
    }

    /// The number of the value that was told last.
    pub(super) fn told_last(&self) -> u64 {
        self.shared.n
    }

    /// Whether these tokens are those that there are.
    pub(super) fn has(&self, record: &GrantRecord) -> bool {
        self.record.as_ref().is_some_and(|known| is_same(known, record))
    }

    pub(super) fn is_unwritten(&self) -> bool {
        self.shared.unsaved.is_some()
    }

    /// Somebody has logged in here: that counts, whatever the log has.
    pub(super) fn wants_login_written(&mut self, record: &GrantRecord) {
        self.shared.is_refused = false;
        self.shared.unsaved = Some(UnsavedGrant { record: record.clone(), base: DecisionBase::Any });
    }

    /// What was renewed takes the place of the claim, and of nothing else.
    pub(super) fn wants_renewal_written(&mut self) {
        let base = DecisionBase::Exactly(self.shared.n);
        self.shared.is_refused = false;
        self.shared.unsaved = self.record.clone().map(|record| UnsavedGrant { record, base });
    }

    /// Somebody was refused with the token that there is.
    pub(super) fn is_of_no_use(&mut self) {
        self.shared.is_refused = true;
    }
}

impl Keeper {
    /// The log says this now. Whether somebody who had to log in has, or who had logged in has to again.
    pub(crate) fn told(&self, n: u64, grant: Option<&SharedGrant>) -> bool {
        let has_moved = {
            let mut state = self.0.state.lock();
            let now = Instant::now();
            let (was_in, was_out) = (self.0.held.borrow().is_some(), needs_login(&state));
            let Some(event) = state.told(n, grant, now) else { return false };
            let commands = state.machine.on(event, now);
            state.commands.extend(commands);
            // Before anybody is told that the log was read: a link that asks from here on has this token.
            self.do_at_once(&mut state);
            self.say(&state);
            let (is_in, is_out) = (self.0.held.borrow().is_some(), needs_login(&state));
            (was_out && is_in) || (was_in && is_out)
        };
        self.ensure_runs();
        self.0.bell.notify_one();
        has_moved
    }

    fn shared_grant(&self, shared: &SharedGrants, state: SharedGrantState) -> SharedGrant {
        SharedGrant {
            server: self.0.name.clone(),
            address: self.0.address.canonical(),
            person: self.0.person.clone(),
            by: shared.process().unwrap_or_default(),
            state,
        }
    }

    async fn write(&self, shared: &SharedGrants, base: DecisionBase, state: SharedGrantState) -> GrantWritten {
        let grant = self.shared_grant(shared, state);
        shared.write(self.subject(), base, Some(&grant)).await
    }

    /// May this process renew?
    pub(super) async fn claim(&self, shared: &SharedGrants, attempt: u64) -> ClaimOutcome {
        if !shared.confirm().await {
            return self.unreached("this replica is cut off from the others, and logins are renewed together");
        }
        let (n, record, claim) = {
            let state = self.0.state.lock();
            // What has just been read is newer than what was to be renewed: nobody would renew what is claimed now.
            if !state.machine.is_claiming(attempt) {
                return ClaimOutcome::Elsewhere;
            }
            (state.shared.n, state.record.clone(), state.shared.claim)
        };
        // Somebody has logged out: the machine knows.
        let Some(record) = record else { return ClaimOutcome::Elsewhere };
        let is_own = claim.is_some_and(|claim| Some(claim.by) == shared.process());
        match claim {
            // Of an attempt whose answer was lost.
            Some(claim) if is_own && claim.since.elapsed() < SEND_WITHIN => return ClaimOutcome::Granted,
            Some(claim) if !is_own && !self.may_take_over(shared, &claim, &record) => return ClaimOutcome::Elsewhere,
            _ => {}
        }
        let state = SharedGrantState::Granted { record: Box::new(record), claimed: true, fault: None };
        match self.write(shared, DecisionBase::Exactly(n), state).await {
            GrantWritten::Applied => ClaimOutcome::Granted,
            GrantWritten::Overtaken => {
                shared.confirm().await;
                ClaimOutcome::Elsewhere
            }
            GrantWritten::Refused(why) => self.unreached(&why),
            GrantWritten::Unknown => self.unreached("the replicas do not agree at the moment"),
        }
    }

    fn unreached(&self, why: &str) -> ClaimOutcome {
        self.0.state.lock().fault = Some(why.to_owned());
        ClaimOutcome::Unreached
    }

    /// Whether a claim of another process counts no more.
    fn may_take_over(&self, shared: &SharedGrants, claim: &HeldClaim, record: &GrantRecord) -> bool {
        let age = claim.since.elapsed();
        if age >= CLAIM_LASTS {
            return true;
        }
        // One that is only cut off may come back with what it was given. So nothing is done before the token that is there is of no use.
        let is_useless =
            record.expires.is_some_and(|expires| expires <= unix_now()) || self.0.state.lock().shared.is_refused;
        is_useless && age >= GONE_AFTER && shared.is_gone(claim.by)
    }

    /// Whether the value of this number is the claim of this process, and so new that no other can have taken it over.
    pub(super) fn has_claim(&self, shared: &SharedGrants, claimed: u64) -> bool {
        let (n, claim) = {
            let state = self.0.state.lock();
            (state.shared.n, state.shared.claim)
        };
        let is_own = |claim: HeldClaim| Some(claim.by) == shared.process() && claim.since.elapsed() < SEND_WITHIN;
        n == claimed && claim.is_some_and(is_own)
    }

    /// The provider did not answer: others may ask it. `claimed`: the number of the claim, which nothing else may have overtaken meanwhile.
    pub(super) async fn release(
        &self,
        shared: &SharedGrants,
        attempt: u64,
        claimed: u64,
        record: GrantRecord,
        fault: String,
    ) {
        if !self.0.state.lock().machine.is_renewing(attempt) {
            return;
        }
        let state = SharedGrantState::Granted { record: Box::new(record), claimed: false, fault: Some(fault) };
        // Where it is not written, the claim counts no more after a while.
        self.write(shared, DecisionBase::Exactly(claimed), state).await;
    }

    /// Writes what this process was given. Whether nothing is left to be written.
    pub(super) async fn save_shared(&self, shared: &SharedGrants) -> bool {
        let (looked_at, unsaved) = {
            let state = self.0.state.lock();
            (state.shared.n, state.shared.unsaved.clone())
        };
        let Some(unsaved) = unsaved else { return true };
        let record = Box::new(unsaved.record.clone());
        let state = SharedGrantState::Granted { record, claimed: false, fault: None };
        let written = self.write(shared, unsaved.base, state).await;
        if written == GrantWritten::Overtaken {
            // What overtook it is in use from here on.
            shared.confirm().await;
        }
        let mut state = self.0.state.lock();
        let is_it = |now: &UnsavedGrant| is_same(&now.record, &unsaved.record);
        match written {
            GrantWritten::Applied | GrantWritten::Overtaken => {
                if state.shared.unsaved.as_ref().is_some_and(is_it) {
                    state.shared.unsaved = None;
                }
                true
            }
            GrantWritten::Refused(_) | GrantWritten::Unknown => {
                let why = if let GrantWritten::Refused(why) = written { why } else { "no answer".to_owned() };
                tracing::error!(server = %self.0.name, why, "the login could not be given to the other replicas; tried again");
                if state.shared.unsaved.as_ref().is_some_and(is_it) {
                    if state.shared.n != looked_at {
                        // Another login or a logout, told meanwhile: it is the newer one. Or this one, which is there after all.
                        state.shared.unsaved = None;
                        return true;
                    }
                    // The same holds for whatever comes before the next attempt.
                    let base = DecisionBase::Exactly(looked_at);
                    state.shared.unsaved = Some(UnsavedGrant { base, ..unsaved });
                }
                false
            }
        }
    }

    /// Tells all replicas that a person has to log in. Whether that is done, or something newer stands there.
    pub(super) async fn tell_need(&self, shared: &SharedGrants, reason: LoginReason) -> bool {
        if !shared.confirm().await {
            return false;
        }
        let (n, fault, claim) = {
            let state = self.0.state.lock();
            // Somebody has logged in, as has just been read: what was found out is about an earlier login.
            if state.machine.state() != GrantState::NeedsLogin(reason) {
                return true;
            }
            (state.shared.n, state.fault.clone(), state.shared.claim)
        };
        // Another one is about to find out by itself.
        if claim.is_some_and(|claim| Some(claim.by) != shared.process()) {
            return false;
        }
        let state = SharedGrantState::Needed { reason: reason.into(), fault };
        let written = self.write(shared, DecisionBase::Exactly(n), state).await;
        matches!(written, GrantWritten::Applied | GrantWritten::Overtaken)
    }

    /// Somebody logs out, of all replicas. Gives what is to be revoked.
    pub(super) async fn log_out_shared(&self, shared: &SharedGrants) -> Result<Option<GrantRecord>, String> {
        if !shared.confirm().await {
            return Err("this replica is cut off from the others; nothing was changed".to_owned());
        }
        let Some(record) = self.0.state.lock().record.clone() else { return Ok(None) };
        let state = SharedGrantState::Needed { reason: LoginReason::Never.into(), fault: None };
        match self.write(shared, DecisionBase::Any, state).await {
            GrantWritten::Applied | GrantWritten::Overtaken => Ok(Some(record)),
            GrantWritten::Refused(why) => Err(why),
            GrantWritten::Unknown => Err("nobody knows whether it was logged out; look at it again".to_owned()),
        }
    }

    /// What the log has is tried once more, if it was given up here alone.
    pub(super) fn try_what_is_shared(&self) {
        let is_open = self.0.state.lock().machine.state() == GrantState::Open;
        let life = self.0.state.lock().record.as_ref().map(|record| record.life(Instant::now()));
        if let Some(life) = life.filter(|_| is_open && self.is_shared()) {
            self.tell_with(GrantEvent::Restored(life), |_| {});
        }
    }

    /// Nothing is known of the grant any more, at any replica. `only_need`: only if a person has to log in.
    pub(crate) async fn forget_shared(&self, only_need: bool) -> Option<GrantRecord> {
        let shared = self.0.shared.as_ref()?;
        shared.confirm().await;
        let (n, record) = {
            let state = self.0.state.lock();
            (state.shared.n, state.record.clone())
        };
        if n == 0 || (only_need && record.is_some()) {
            return None;
        }
        match shared.write(self.subject(), DecisionBase::Exactly(n), None).await {
            GrantWritten::Applied => record,
            _ => None,
        }
    }
}

fn needs_login(state: &KeeperState) -> bool {
    matches!(state.machine.state(), GrantState::NeedsLogin(_))
}
