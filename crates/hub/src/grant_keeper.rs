//! One grant of one server: when its token is renewed, which token is in use, and when a person has to log in.
//!
//! Many calls share a token, and a provider that rotates refresh tokens takes a second use of one for theft and ends the grant. So
//! one machine owns the grant: whoever was refused tells it the number of the token it had sent, and is given a newer one. The
//! machine knows numbers and times; whoever drives it knows the tokens.
//!
//! ```text
//!  Open ─401─▶ Discovering ─found─▶ NeedsLogin ─login─▶ Saving ─saved─▶ Valid(n) ─ soon over, or 401 to n ─▶ Renewing ─▶ Saving ─▶ Valid(n+1)
//!                  │ nothing there        ▲                                                                 │
//!                  ▼                      └──── rejected, no refresh token, a fresh token refused ──────────┤
//!                Alien (asked again later)                                      not answered: Waiting ◀─────┘
//! ```
//!
//! Where several processes share the grant, each has a machine, and what is saved is a log that all of them read ([`GrantKeeper::shared`]).
//! Nobody renews without having claimed that there first ([`shared`]): of two who want to, one may, and the others take what it writes.
//!
//! What belongs here: the one renewal at a time, saving before use, pauses. What does not: tokens, messages, the network.

mod shared;

use std::time::{Duration, Instant};

use crate::RetryBackoff;

/// How long before its end a token is renewed; of a short one, half of its life.
const EARLY: Duration = Duration::from_secs(30);
/// The least time between a token and a renewal that only the clock asks for.
const SHORTEST: Duration = Duration::from_secs(1);
/// A token that is refused within this time was never good: the next one would not be either.
const FRESH: Duration = Duration::from_secs(10);
/// Pauses while the provider does not answer.
const RENEWALS: RetryBackoff = RetryBackoff { first: Duration::from_secs(1), longest: Duration::from_secs(300) };
/// Pauses while what was renewed can not be saved.
const SAVES: RetryBackoff = RetryBackoff { first: Duration::from_secs(1), longest: Duration::from_secs(60) };
/// For how long a server that has nothing to log in to is not asked about it again.
const ALIEN: Duration = Duration::from_secs(300);

/// How long a token lives, and what there is to renew it with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenLife {
    /// When it ends; `None` where the provider does not say.
    pub ends: Option<Instant>,
    /// Whether another can be had without a person: by a refresh token, or because a machine logs in.
    pub is_renewable: bool,
}

/// Why a person has to log in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoginReason {
    /// Nobody has yet, or somebody logged out.
    Never,
    /// The provider refuses to renew the token: it was revoked, or has not been used for too long.
    Rejected,
    /// The token has ended, and there was nothing to renew it with.
    Ended,
    /// The server refuses a token that it was just given.
    FreshRefused,
    /// What was saved of the login can not be read.
    Unreadable,
}

/// How a renewal failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RenewalFault {
    /// The provider says no: asking again does not help.
    Rejected,
    /// It did not answer, or has too much to do. With the pause that it asks for.
    Unavailable(Option<Duration>),
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GrantEvent {
    /// A grant of an earlier process was read, or one that another process has written.
    Restored(TokenLife),
    /// There is one, and it can not be read.
    Unreadable,
    /// Somebody logged in.
    LoggedIn(TokenLife),
    /// Somebody logged out.
    LoggedOut,
    /// The server refused a request. With the number of the token that it carried, if it carried one.
    Refused(Option<u64>),
    /// The server has a provider. `by_machine`: it lets the gateway in without a person.
    Discovered {
        /// Whether no person is needed.
        by_machine: bool,
    },
    /// The server has nothing to log in to.
    NothingThere,
    /// Whether it has could not be found out.
    DiscoveryFailed,
    /// The attempt of this number brought a token.
    Renewed(u64, TokenLife),
    /// The attempt of this number failed.
    RenewalFailed(u64, RenewalFault),
    /// What was to be saved is.
    Saved,
    /// It could not be.
    SaveFailed,
    /// The user asks for everything to be tried anew.
    Restart,
    /// It is the time that [`GrantKeeper::next_deadline`] named.
    Time,
    /// Of a shared grant: what came of the claim of this number.
    Claim(u64, ClaimOutcome),
    /// Of a shared grant: another process has claimed the renewal, and gives it back without a token.
    Released,
    /// Of a shared grant: another process says that a person has to log in.
    Needed(LoginReason),
    /// Of a shared grant: the others could not be told that a person has to log in.
    Untold,
    /// Of a shared grant: nothing is known of it any more.
    Forgotten,
}

/// What came of the claim of a renewal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClaimOutcome {
    /// Nobody else renews.
    Granted,
    /// Another process does.
    Elsewhere,
    /// The others can not be asked at the moment.
    Unreached,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GrantCommand {
    /// Find out what there is to log in to.
    Discover,
    /// Of a shared grant: find out whether this process may renew it, and keep others from it.
    Claim(u64),
    /// Of a shared grant: tell all that a person has to log in.
    Tell(LoginReason),
    /// Get a new token. One attempt at a time, and its outcome names its number.
    Renew(u64),
    /// Save the grant as it is now.
    Save,
    /// Send the token of the grant from now on, under this number.
    Use(u64),
    /// Send no token any more.
    Withdraw,
}

/// What whoever was refused can go by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GrantState {
    /// Nothing is known to be needed.
    Open,
    /// Something is under way; wait for it.
    Busy,
    /// The token of this number is in use.
    Valid(u64),
    /// A person has to log in.
    NeedsLogin(LoginReason),
    /// The provider does not answer, and is asked again by itself.
    Unavailable,
    /// The server wants credentials, and names nobody to get them from.
    Alien,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum GrantPhase {
    Open,
    Discovering,
    NeedsLogin(LoginReason),
    Valid,
    /// `is_fresh`: what was refused has just been given, so it is not renewed if that is still the last that there is.
    Claiming {
        attempt: u64,
        is_fresh: bool,
    },
    /// Another process renews; looked at again then.
    Elsewhere {
        until: Instant,
        is_fresh: bool,
    },
    Renewing {
        attempt: u64,
    },
    Saving,
    /// The provider did not answer; asked again then. `for_discovery`: it was asked what there is.
    Waiting {
        until: Instant,
        for_discovery: bool,
    },
    Alien {
        until: Instant,
    },
}

/// The machine of one grant.
#[derive(Clone, Debug)]
pub struct GrantKeeper {
    phase: GrantPhase,
    /// The number of the token in use, or of the last one.
    generation: u64,
    /// Of the token that is in use or is being saved.
    life: Option<TokenLife>,
    obtained: Option<Instant>,
    /// Whether it had ended when another process had written it.
    came_ended: bool,
    /// Whether the token is in use: then it stays so while it is being renewed before its end.
    in_use: bool,
    attempts: u64,
    failures: u32,
    save_failures: u32,
    save_again: Option<Instant>,
    /// Of a shared grant: how much later than at the first possible moment this process renews by the clock.
    shared: Option<Duration>,
    /// When the others are told again that a person has to log in.
    tell_again: Option<Instant>,
}

impl Default for GrantKeeper {
    fn default() -> Self {
        Self {
            phase: GrantPhase::Open,
            generation: 0,
            life: None,
            obtained: None,
            came_ended: false,
            in_use: false,
            attempts: 0,
            failures: 0,
            save_failures: 0,
            save_again: None,
            shared: None,
            tell_again: None,
        }
    }
}

impl GrantKeeper {
    /// What whoever was refused can go by at this moment.
    pub fn state(&self) -> GrantState {
        match self.phase {
            GrantPhase::Open => GrantState::Open,
            GrantPhase::NeedsLogin(reason) => GrantState::NeedsLogin(reason),
            GrantPhase::Valid => GrantState::Valid(self.generation),
            GrantPhase::Waiting { .. } => GrantState::Unavailable,
            GrantPhase::Alien { .. } => GrantState::Alien,
            GrantPhase::Discovering
            | GrantPhase::Claiming { .. }
            | GrantPhase::Elsewhere { .. }
            | GrantPhase::Renewing { .. }
            | GrantPhase::Saving => GrantState::Busy,
        }
    }

    /// Whether there is a token newer than the one of this number.
    pub fn is_newer_than(&self, generation: Option<u64>) -> bool {
        self.in_use && self.generation > generation.unwrap_or(0)
    }

    /// Whether what comes of the renewal of this number is still wanted: no login and no logout has overtaken it.
    pub fn is_renewing(&self, attempt: u64) -> bool {
        self.phase == GrantPhase::Renewing { attempt }
    }

    /// Whether the claim of this number is still wanted: what another process wrote has not overtaken it.
    pub fn is_claiming(&self, attempt: u64) -> bool {
        matches!(self.phase, GrantPhase::Claiming { attempt: claiming, .. } if claiming == attempt)
    }

    /// Whether what was renewed could not be saved: a restart would lose it.
    pub fn is_unsaved(&self) -> bool {
        self.save_again.is_some()
    }

    /// When [`GrantEvent::Time`] is due.
    pub fn next_deadline(&self) -> Option<Instant> {
        let phase = match self.phase {
            GrantPhase::Valid => self.renewal_due(),
            GrantPhase::Waiting { until, .. } | GrantPhase::Elsewhere { until, .. } => Some(until),
            _ => None,
        };
        [phase, self.save_again, self.tell_again].into_iter().flatten().min()
    }

    /// When the token in use is to be renewed, or ends without.
    fn renewal_due(&self) -> Option<Instant> {
        let (life, obtained) = (self.life?, self.obtained?);
        let ends = life.ends?;
        if !life.is_renewable {
            return Some(ends);
        }
        let whole = ends.saturating_duration_since(obtained);
        let later = self.shared.map_or(Duration::ZERO, |later| later.min(whole / 8));
        // The last bound is for tokens that end as soon as they are given: they would be renewed without a pause.
        Some(obtained + (whole / 2).max(whole.saturating_sub(EARLY)).max(SHORTEST) + later)
    }

    /// What follows from an event.
    pub fn on(&mut self, event: GrantEvent, now: Instant) -> Vec<GrantCommand> {
        let mut commands = Vec::new();
        match event {
            GrantEvent::Restored(life) => self.restored(life, now, &mut commands),
            GrantEvent::Unreadable => self.needs_login(LoginReason::Unreadable, &mut commands),
            GrantEvent::LoggedIn(life) => {
                self.failures = 0;
                self.obtained_now(life, now, &mut commands);
            }
            GrantEvent::LoggedOut => self.needs_login(LoginReason::Never, &mut commands),
            GrantEvent::Refused(generation) => self.refused(generation, now, &mut commands),
            GrantEvent::Discovered { by_machine } if self.phase == GrantPhase::Discovering => {
                self.failures = 0;
                match by_machine {
                    true => self.renew(false, &mut commands),
                    false => self.needs_login_now(LoginReason::Never, &mut commands),
                }
            }
            GrantEvent::NothingThere if self.phase == GrantPhase::Discovering => {
                self.phase = GrantPhase::Alien { until: now + ALIEN };
            }
            GrantEvent::DiscoveryFailed if self.phase == GrantPhase::Discovering => self.wait(None, true, now),
            GrantEvent::Renewed(attempt, life) if self.phase == (GrantPhase::Renewing { attempt }) => {
                self.failures = 0;
                self.obtained_now(life, now, &mut commands);
            }
            GrantEvent::RenewalFailed(attempt, fault) if self.phase == (GrantPhase::Renewing { attempt }) => {
                match fault {
                    RenewalFault::Rejected => self.needs_login_now(LoginReason::Rejected, &mut commands),
                    RenewalFault::Unavailable(asked) => self.wait(asked, false, now),
                }
            }
            GrantEvent::Saved => self.saved(true, now, &mut commands),
            GrantEvent::SaveFailed => self.saved(false, now, &mut commands),
            GrantEvent::Restart => self.restart(),
            GrantEvent::Time => self.time(now, &mut commands),
            GrantEvent::Claim(attempt, outcome) => self.claim_ended(attempt, outcome, now, &mut commands),
            GrantEvent::Released => self.released(now),
            GrantEvent::Needed(reason) => self.needs_login(reason, &mut commands),
            GrantEvent::Untold => self.untold(now),
            GrantEvent::Forgotten => self.forgotten(&mut commands),
            // Of an attempt that a login or a logout has overtaken.
            _ => {}
        }
        commands
    }

    fn restored(&mut self, life: TokenLife, now: Instant, commands: &mut Vec<GrantCommand>) {
        self.life = Some(life);
        // When it was really obtained is not kept, so its life counts from here.
        self.obtained = Some(now);
        // What another process has written took the place of what was to be saved here.
        self.save_again = None;
        self.save_failures = 0;
        self.came_ended = life.ends.is_some_and(|ends| ends <= now);
        match life.ends {
            // Another process has just been given it. Of tokens that end as soon as they are given, each would be renewed by the next process
            // without a pause: the server says whether it is good.
            Some(ends) if ends <= now && life.is_renewable && self.shared.is_some() && self.generation > 0 => {
                self.take_into_use(commands);
            }
            Some(ends) if ends <= now && life.is_renewable => self.renew(false, commands),
            Some(ends) if ends <= now => self.needs_login_now(LoginReason::Ended, commands),
            _ => self.take_into_use(commands),
        }
    }

    /// There is a new token: it is saved before it is used, because a provider that rotates takes the old one back.
    fn obtained_now(&mut self, life: TokenLife, now: Instant, commands: &mut Vec<GrantCommand>) {
        self.life = Some(life);
        self.obtained = Some(now);
        self.came_ended = false;
        self.save_again = None;
        self.save_failures = 0;
        self.phase = GrantPhase::Saving;
        commands.push(GrantCommand::Save);
    }

    fn take_into_use(&mut self, commands: &mut Vec<GrantCommand>) {
        self.generation += 1;
        self.in_use = true;
        self.phase = GrantPhase::Valid;
        commands.push(GrantCommand::Use(self.generation));
    }

    fn saved(&mut self, is_saved: bool, now: Instant, commands: &mut Vec<GrantCommand>) {
        self.save_again = None;
        if !is_saved {
            self.save_failures = self.save_failures.saturating_add(1);
            self.save_again = Some(now + SAVES.after(self.save_failures));
        }
        // Used also when it can not be saved: the old one is gone in any case.
        if self.phase == GrantPhase::Saving {
            self.take_into_use(commands);
        }
    }

    fn refused(&mut self, generation: Option<u64>, now: Instant, commands: &mut Vec<GrantCommand>) {
        match self.phase {
            GrantPhase::Open => self.discover(commands),
            GrantPhase::Alien { until } if now >= until => self.discover(commands),
            // Of an older token, or of none: whoever was refused takes the one that there is.
            GrantPhase::Valid if generation != Some(self.generation) => {}
            GrantPhase::Valid => {
                // One that was restored says nothing about the next, nor does one that came when it had ended; one that the provider has
                // just given does.
                let is_recent = self.obtained.is_some_and(|at| now.saturating_duration_since(at) < FRESH);
                let is_fresh = self.generation > 1 && !self.came_ended && is_recent;
                match self.life {
                    Some(life) if life.is_renewable => self.renew(is_fresh, commands),
                    _ => self.needs_login_now(LoginReason::Ended, commands),
                }
            }
            // Something is under way, or only a person can help: whoever was refused goes by the state.
            _ => {}
        }
    }

    fn discover(&mut self, commands: &mut Vec<GrantCommand>) {
        self.phase = GrantPhase::Discovering;
        commands.push(GrantCommand::Discover);
    }

    fn needs_login(&mut self, reason: LoginReason, commands: &mut Vec<GrantCommand>) {
        self.phase = GrantPhase::NeedsLogin(reason);
        self.save_again = None;
        if std::mem::take(&mut self.in_use) {
            commands.push(GrantCommand::Withdraw);
        }
    }

    fn wait(&mut self, asked: Option<Duration>, for_discovery: bool, now: Instant) {
        self.failures = self.failures.saturating_add(1);
        // A provider may ask for more patience than our own, but not for days.
        let pause = RENEWALS.after(self.failures).max(asked.unwrap_or_default().min(RENEWALS.longest));
        self.phase = GrantPhase::Waiting { until: now + pause, for_discovery };
    }

    /// Only what stands still by itself: a renewal that is under way goes on, and a person who has to log in still has to.
    fn restart(&mut self) {
        match self.phase {
            GrantPhase::Alien { .. } => self.phase = GrantPhase::Open,
            // A server that does not want a login any more is found out by asking it; a machine may have another key by now.
            GrantPhase::NeedsLogin(_) => self.phase = GrantPhase::Open,
            _ => {}
        }
    }

    fn time(&mut self, now: Instant, commands: &mut Vec<GrantCommand>) {
        if self.save_again.is_some_and(|at| now >= at) {
            // Asked for once; its outcome says whether it is asked for again.
            self.save_again = None;
            commands.push(GrantCommand::Save);
        }
        self.tell_in_time(now, commands);
        match self.phase {
            GrantPhase::Valid if self.renewal_due().is_some_and(|at| now >= at) => match self.life {
                Some(life) if life.is_renewable => self.renew(false, commands),
                _ => self.needs_login_now(LoginReason::Ended, commands),
            },
            GrantPhase::Elsewhere { until, is_fresh } if now >= until => self.renew(is_fresh, commands),
            GrantPhase::Waiting { until, for_discovery } if now >= until => match for_discovery {
                true => self.discover(commands),
                false => self.renew(false, commands),
            },
            _ => {}
        }
    }
}
