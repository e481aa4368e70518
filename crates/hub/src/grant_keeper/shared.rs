//! A grant that several processes share: each has a machine for it, and all read one log in which what is saved stands.
//!
//! ```text
//!  Valid(n) ─ soon over, or 401 to n ─▶ Claiming ─granted─▶ Renewing ─▶ Saving ─▶ Valid(n+1)
//!                                        ▲    │ another has it
//!                              again, 1 s└─ Elsewhere ── what it wrote ─▶ Valid(n+1), NeedsLogin, Waiting
//! ```
//!
//! A claim is an entry of the log that comes after the grant that was looked at, so of two one holds. It keeps others from sending the refresh
//! token, which a provider that rotates takes for theft the second time. Until the log says something else, the token that is there stays in use.

use std::time::{Duration, Instant};

use super::{ClaimOutcome, GrantCommand, GrantKeeper, GrantPhase, LoginReason};

/// How often whoever waits for the renewal of another process looks whether that is still there.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// The pause while the log can not be reached. It does not grow: when it can be again, nothing else is in the way.
const REACH_AGAIN: Duration = Duration::from_secs(2);

impl GrantKeeper {
    /// The machine of a grant that others have machines for. `later`: by how much this one lets others go first when only the clock asks for
    /// a renewal; another for each process, so that not all of them claim at once.
    pub fn shared(later: Duration) -> Self {
        Self { shared: Some(later), ..Self::default() }
    }

    /// `is_fresh`: what there is was refused though it has just been given.
    pub(super) fn renew(&mut self, is_fresh: bool, commands: &mut Vec<GrantCommand>) {
        self.attempts += 1;
        if self.shared.is_some() {
            self.phase = GrantPhase::Claiming { attempt: self.attempts, is_fresh };
            commands.push(GrantCommand::Claim(self.attempts));
        } else {
            self.renew_now(is_fresh, commands);
        }
    }

    /// Nobody else may.
    fn renew_now(&mut self, is_fresh: bool, commands: &mut Vec<GrantCommand>) {
        if is_fresh {
            return self.needs_login_now(LoginReason::FreshRefused, commands);
        }
        self.phase = GrantPhase::Renewing { attempt: self.attempts };
        commands.push(GrantCommand::Renew(self.attempts));
    }

    /// Found out here: the others do not know it yet.
    pub(super) fn needs_login_now(&mut self, reason: LoginReason, commands: &mut Vec<GrantCommand>) {
        self.needs_login(reason, commands);
        if self.shared.is_some() {
            commands.push(GrantCommand::Tell(reason));
        }
    }

    pub(super) fn claim_ended(
        &mut self,
        claimed: u64,
        outcome: ClaimOutcome,
        now: Instant,
        commands: &mut Vec<GrantCommand>,
    ) {
        // What another process wrote meanwhile has overtaken every other.
        let GrantPhase::Claiming { attempt, is_fresh } = self.phase else { return };
        if attempt != claimed {
            return;
        }
        match outcome {
            ClaimOutcome::Granted => self.renew_now(is_fresh, commands),
            ClaimOutcome::Elsewhere => self.phase = GrantPhase::Elsewhere { until: now + LOOK_AGAIN, is_fresh },
            ClaimOutcome::Unreached => {
                self.phase = GrantPhase::Waiting { until: now + REACH_AGAIN, for_discovery: false };
            }
        }
    }

    /// Another process could not renew: it is asked again from here, after a pause.
    pub(super) fn released(&mut self, now: Instant) {
        if matches!(self.phase, GrantPhase::Elsewhere { .. }) {
            self.wait(None, false, now);
        }
    }

    pub(super) fn untold(&mut self, now: Instant) {
        self.tell_again = Some(now + REACH_AGAIN);
    }

    pub(super) fn tell_in_time(&mut self, now: Instant, commands: &mut Vec<GrantCommand>) {
        if self.tell_again.is_none_or(|at| now < at) {
            return;
        }
        self.tell_again = None;
        // Unless somebody has logged in meanwhile, here or elsewhere.
        if let GrantPhase::NeedsLogin(reason) = self.phase {
            commands.push(GrantCommand::Tell(reason));
        }
    }

    pub(super) fn forgotten(&mut self, commands: &mut Vec<GrantCommand>) {
        self.phase = GrantPhase::Open;
        self.life = None;
        self.save_again = None;
        if std::mem::take(&mut self.in_use) {
            commands.push(GrantCommand::Withdraw);
        }
    }
}
