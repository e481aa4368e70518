//! Whether the link to a server can be trusted, when it has to end, and when the next one is made.
//!
//! One policy for calls, streams and listens: a failure of one of them is a reason to *check* (a small request of our own), and
//! only a check that fails too ends the link. What belongs here: suspicion, verdicts, the pauses between attempts, the state
//! that `tidings servers` shows. What does not: sending anything, reading the clock, and what a failed call is answered.
//!
//! ```text
//!  Connecting ──connected──▶ Up(trusted) ──call failed──▶ Up(checking) ──answered──▶ Up(trusted)
//!      ▲  │                                                 │      ▲
//!      │  └─connect failed─▶ Waiting ◀──ended── Ended ◀─────┤      └─time── Up(doubted) ◀─ not reached
//!      └───────time, wanted─────┘                      refused for good, or not reached for the third time
//! ```

use std::time::{Duration, Instant};

use crate::RetryBackoff;

/// How often in a row a check may get no answer before the link ends. A definite refusal ends it at once.
const FAILED_CHECKS: u32 = 3;
/// The pause before a check that got no answer is made again, and twice that before the next.
const CHECK_AGAIN: Duration = Duration::from_millis(100);
/// A link that held this long starts again with the first pause, though nothing was asked over it.
const STABLE: Duration = Duration::from_secs(10);
/// How often at most failures are a reason to list everything.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// How soon a lost server is tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReconnectPace {
    /// The first pause; twice as long each time.
    pub first: Duration,
    /// The pause between two attempts never grows beyond this.
    pub longest: Duration,
    /// Whether a call that finds no link may shorten the pause. Not where each attempt starts a process.
    pub on_demand: bool,
}

impl ReconnectPace {
    /// For servers at a URL: an attempt is one request, and a server that returned has to be found within seconds.
    pub const REMOTE: Self =
        Self { first: Duration::from_millis(200), longest: Duration::from_secs(2), on_demand: true };
    /// For servers that an attempt starts.
    pub const PROCESS: Self =
        Self { first: Duration::from_millis(200), longest: Duration::from_secs(30), on_demand: false };

    /// The pause after this many failures in a row.
    fn pause(&self, failures: u32) -> Duration {
        RetryBackoff { first: self.first, longest: self.longest }.after(failures)
    }
}

/// How a request failed before anything of its answer came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestTrouble {
    /// No connection: nothing of it was sent.
    Unsent,
    /// The connection broke, or nobody answered, after it may have been read.
    Broken,
    /// Something on the way answered in the server's place, or it is out of order: an HTTP status that is no answer.
    NoAnswer,
    /// A session that was good is refused.
    SessionRefused,
    /// The answer is one that only servers of the other era give.
    WrongEra,
}

impl RequestTrouble {
    /// Whether the server itself says that this link is of no use. Otherwise trying again may help.
    const fn is_definite(self) -> bool {
        matches!(self, Self::SessionRefused | Self::WrongEra)
    }
}

/// What happened to a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkEvent {
    /// A connection is being made.
    Connecting,
    /// It was made, and the server is introduced.
    Connected,
    /// It could not be made.
    ConnectFailed,
    /// It can not be made before a person has logged in: nothing is tried until somebody asks for it.
    LoginNeeded,
    /// A request got an answer.
    Exchanged,
    /// A call, a stream or a listen failed.
    Failed(RequestTrouble),
    /// The stream on which the server speaks by itself is open.
    StreamOpened,
    /// It ended. Proxies end streams all the time: only failing to open it again is a failure.
    StreamClosed,
    /// A check got an answer.
    CheckAnswered,
    /// A check got none.
    CheckFailed(RequestTrouble),
    /// The link is over, by our decision or by its own.
    Ended,
    /// Somebody needs the server while there is no link.
    Wanted,
    /// The user asks for a new link.
    RestartAsked,
    /// It is the time that [`LinkHealth::next_deadline`] named.
    Time,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkCommand {
    /// Make one request of our own; its outcome is the next [`LinkEvent::CheckAnswered`] or [`LinkEvent::CheckFailed`].
    Check,
    /// End the link. Given once per link.
    End(EndReason),
    /// Make a new link now.
    Connect,
    /// What is known of the server's era no longer counts.
    ForgetEra,
    /// List everything: the server may have been replaced without a word.
    Look,
    /// Show this state, where it is not shown yet.
    Show(LinkState),
}

/// Why a link is ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndReason {
    /// The server refused the call, and a check after it: neither was run.
    Refused,
    /// It can not be reached.
    Unreachable,
}

/// The state of a link as `tidings servers` and the API show it: fewer states than the machine has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkState {
    /// A link is on its way.
    Connecting,
    /// There is a link that answers, as far as is known.
    Ready,
    /// No link could be made, or the one there is does not answer.
    Failing,
}

/// What whoever met a failure can go by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureVerdict {
    /// Nothing speaks against the link.
    Trusted,
    /// A check is under way that has not failed yet.
    Checking,
    /// Checks of the link fail.
    Doubted,
    /// There is no link, or it is ending. With the reason where it was our decision.
    Over(Option<EndReason>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HealthPhase {
    /// No link, and nobody said when to make one.
    Idle,
    Connecting,
    Up(LinkTrust),
    /// Told to end, and not over yet.
    Ending(EndReason),
    Waiting {
        until: Instant,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LinkTrust {
    Trusted,
    Checking { because: RequestTrouble, failed: u32 },
    Doubted { because: RequestTrouble, failed: u32, until: Instant },
}

/// The machine of one link and its successors.
#[derive(Clone, Debug)]
pub struct LinkHealth {
    pace: ReconnectPace,
    phase: HealthPhase,
    /// Attempts and short-lived links in a row.
    failures: u32,
    /// Whether anything was answered over this link since its introduction.
    exchanged: bool,
    connected_at: Option<Instant>,
    attempted_at: Option<Instant>,
    looked_at: Option<Instant>,
    ended_because: Option<EndReason>,
    shown: LinkState,
}

impl LinkHealth {
    /// The health of a server that was never connected.
    pub fn new(pace: ReconnectPace) -> Self {
        Self {
            pace,
            phase: HealthPhase::Idle,
            failures: 0,
            exchanged: false,
            connected_at: None,
            attempted_at: None,
            looked_at: None,
            ended_because: None,
            shown: LinkState::Connecting,
        }
    }

    /// When [`LinkEvent::Time`] is due.
    pub fn next_deadline(&self) -> Option<Instant> {
        match self.phase {
            HealthPhase::Up(LinkTrust::Doubted { until, .. }) | HealthPhase::Waiting { until } => Some(until),
            _ => None,
        }
    }

    /// What whoever met a failed call, stream or listen can go by at this moment.
    pub fn verdict(&self) -> FailureVerdict {
        match self.phase {
            HealthPhase::Up(LinkTrust::Trusted) => FailureVerdict::Trusted,
            HealthPhase::Up(LinkTrust::Checking { failed: 0, .. }) => FailureVerdict::Checking,
            HealthPhase::Up(_) => FailureVerdict::Doubted,
            HealthPhase::Ending(reason) => FailureVerdict::Over(Some(reason)),
            HealthPhase::Idle | HealthPhase::Connecting | HealthPhase::Waiting { .. } => {
                FailureVerdict::Over(self.ended_because)
            }
        }
    }

    /// Whether a link is being made now.
    pub fn is_connecting(&self) -> bool {
        self.phase == HealthPhase::Connecting
    }

    /// Whether whoever wants the link may wait: an attempt is under way, is about to begin for the first time, or is not put
    /// off by more than the first pause.
    pub fn is_worth_waiting(&self, now: Instant) -> bool {
        match self.phase {
            // No longer than the first pause: a caller is better off with an error at once than with one after half a
            // minute.
            HealthPhase::Waiting { until } => until <= now + self.pace.first,
            // Between the commit that shows a server and the first attempt; in a cluster that is when somebody runs it. One that
            // waits for a login was tried.
            HealthPhase::Idle => self.attempted_at.is_none(),
            phase => phase == HealthPhase::Connecting,
        }
    }

    /// What follows from an event.
    pub fn on(&mut self, event: LinkEvent, now: Instant) -> Vec<LinkCommand> {
        let mut commands = Vec::new();
        match event {
            LinkEvent::Connecting => self.connecting(now, &mut commands),
            LinkEvent::Connected => {
                self.phase = HealthPhase::Up(LinkTrust::Trusted);
                // The introduction alone proves little: servers that crash on their first request pass it.
                self.exchanged = false;
                self.connected_at = Some(now);
                self.ended_because = None;
            }
            LinkEvent::ConnectFailed => {
                self.failures = self.failures.saturating_add(1);
                self.wait(now + self.pace.pause(self.failures), &mut commands);
            }
            // Not `Waiting`: the clock and calls would bring attempts that are refused again.
            LinkEvent::LoginNeeded => self.phase = HealthPhase::Idle,
            LinkEvent::Exchanged => self.exchanged = true,
            LinkEvent::Failed(trouble) => self.failed(trouble, &mut commands),
            // Whoever hears the stream open lists everything by that alone.
            LinkEvent::StreamOpened | LinkEvent::StreamClosed => {}
            LinkEvent::CheckAnswered => self.check_answered(now, &mut commands),
            LinkEvent::CheckFailed(trouble) => self.check_failed(trouble, now, &mut commands),
            LinkEvent::Ended => self.ended(now, &mut commands),
            LinkEvent::Wanted => self.wanted(now, &mut commands),
            // The user may have replaced the server by one of the other era: everything learned is dropped.
            LinkEvent::RestartAsked => {
                self.failures = 0;
                commands.push(LinkCommand::ForgetEra);
                // Not `Connecting` yet: whoever drives the machine reports that when the attempt begins.
                self.phase = HealthPhase::Waiting { until: now };
                commands.push(LinkCommand::Connect);
            }
            LinkEvent::Time => self.time(now, &mut commands),
        }
        commands
    }

    fn connecting(&mut self, now: Instant, commands: &mut Vec<LinkCommand>) {
        self.phase = HealthPhase::Connecting;
        self.attempted_at = Some(now);
        // A server that was never reached is on its way; one that was lost stays failing until it is back.
        if self.shown != LinkState::Failing {
            self.show(LinkState::Connecting, commands);
        }
    }

    fn failed(&mut self, because: RequestTrouble, commands: &mut Vec<LinkCommand>) {
        // A check that is under way, or is about to be made, is for this one too.
        // Only from trust: a failure while a check is open must not start a second one.
        if let HealthPhase::Up(trust @ LinkTrust::Trusted) = &mut self.phase {
            *trust = LinkTrust::Checking { because, failed: 0 };
            commands.push(LinkCommand::Check);
        }
    }

    fn check_answered(&mut self, now: Instant, commands: &mut Vec<LinkCommand>) {
        let HealthPhase::Up(LinkTrust::Checking { because, .. } | LinkTrust::Doubted { because, .. }) = self.phase
        else {
            return;
        };
        self.phase = HealthPhase::Up(LinkTrust::Trusted);
        self.exchanged = true;
        self.show(LinkState::Ready, commands);
        // A server without sessions that was replaced looks just like one connection that broke.
        let rested = self.looked_at.is_none_or(|at| now.saturating_duration_since(at) >= LOOK_AGAIN);
        if rested && matches!(because, RequestTrouble::Broken | RequestTrouble::Unsent) {
            self.looked_at = Some(now);
            commands.push(LinkCommand::Look);
        }
    }

    fn check_failed(&mut self, trouble: RequestTrouble, now: Instant, commands: &mut Vec<LinkCommand>) {
        let HealthPhase::Up(LinkTrust::Checking { because, failed } | LinkTrust::Doubted { because, failed, .. }) =
            self.phase
        else {
            return;
        };
        self.show(LinkState::Failing, commands);
        let failed = failed.saturating_add(1);
        if trouble.is_definite() || failed >= FAILED_CHECKS {
            let reason = if trouble.is_definite() { EndReason::Refused } else { EndReason::Unreachable };
            self.phase = HealthPhase::Ending(reason);
            // Else the next handshake would begin with the era that was just refused.
            if trouble == RequestTrouble::WrongEra {
                commands.push(LinkCommand::ForgetEra);
            }
            commands.push(LinkCommand::End(reason));
            return;
        }
        // Calls still go out: one lost check may be the network's fault, and a link of a child process can not be
        // made again without killing it.
        self.phase = HealthPhase::Up(LinkTrust::Doubted { because, failed, until: now + CHECK_AGAIN * failed });
    }

    fn ended(&mut self, now: Instant, commands: &mut Vec<LinkCommand>) {
        self.ended_because = match self.phase {
            HealthPhase::Ending(reason) => Some(reason),
            HealthPhase::Up(_) => None,
            // The end of this link was handled already, or there was none.
            HealthPhase::Idle | HealthPhase::Connecting | HealthPhase::Waiting { .. } => return,
        };
        let held = self.connected_at.is_some_and(|at| now.saturating_duration_since(at) >= STABLE);
        // It was of use, so its end is no sign that the next one fails: the count begins anew.
        if self.exchanged || held {
            self.failures = 0;
            // At once, but a server that dies of every call is not started as fast as the machine can.
            let soonest = self.attempted_at.map_or(now, |at| at + self.pace.first);
            self.wait(now.max(soonest), commands);
        } else {
            self.failures = self.failures.saturating_add(1);
            // It ended before it was of any use, as a server does that crashes at its start.
            self.wait(now + self.pace.pause(self.failures), commands);
        }
    }

    fn wait(&mut self, until: Instant, commands: &mut Vec<LinkCommand>) {
        self.phase = HealthPhase::Waiting { until };
        self.show(LinkState::Failing, commands);
    }

    fn wanted(&mut self, now: Instant, commands: &mut Vec<LinkCommand>) {
        let HealthPhase::Waiting { until } = &mut self.phase else { return };
        if self.pace.on_demand {
            // However many calls come, attempts are never closer than the first pause.
            *until = self.attempted_at.map_or(now, |at| at + self.pace.first).min(*until);
        }
        // Otherwise the deadline, which may be nearer now, brings the attempt.
        if now >= *until {
            commands.push(LinkCommand::Connect);
        }
    }

    fn time(&mut self, now: Instant, commands: &mut Vec<LinkCommand>) {
        match self.phase {
            HealthPhase::Up(LinkTrust::Doubted { because, failed, until }) if now >= until => {
                self.phase = HealthPhase::Up(LinkTrust::Checking { because, failed });
                commands.push(LinkCommand::Check);
            }
            HealthPhase::Waiting { until } if now >= until => commands.push(LinkCommand::Connect),
            _ => {}
        }
    }

    /// The server has listed: it is ready, unless checks say otherwise.
    pub fn listed(&mut self) -> bool {
        // A list that came just before the checks began to fail must not turn a failing server green.
        let ready = matches!(self.phase, HealthPhase::Up(LinkTrust::Trusted | LinkTrust::Checking { failed: 0, .. }));
        if ready {
            self.shown = LinkState::Ready;
        }
        ready
    }

    fn show(&mut self, state: LinkState, commands: &mut Vec<LinkCommand>) {
        if std::mem::replace(&mut self.shown, state) != state {
            commands.push(LinkCommand::Show(state));
        }
    }
}
