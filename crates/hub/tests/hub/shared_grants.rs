//! One grant and several processes with a machine each, over a log that tells them late: whatever happens in whatever order, a refresh token is
//! sent once, and all end with what the log says.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use tidings_hub::grant_keeper::*;

const PROCESSES: usize = 3;
/// How long each token lives.
const LIFE: u64 = 120;

/// What stands in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Said {
    /// This token; whoever is about to renew it.
    Granted(u32, Option<usize>),
    Needed(LoginReason),
}

/// A process, with what it knows of the log.
struct Process {
    machine: GrantKeeper,
    /// How much of the log it was told.
    told: usize,
    token: Option<u32>,
    commands: Vec<GrantCommand>,
    /// Which token each word is about that a person has to log in.
    judged: Vec<Option<u32>>,
    /// What the provider gave, until it is written; and after which entry that has to come, `None`: after any.
    given: Option<(u32, Option<usize>)>,
    is_cut: bool,
}

struct World {
    log: Vec<Said>,
    processes: Vec<Process>,
    now: Instant,
    /// Tokens that the provider has renewed, and how many it has made.
    spent: BTreeSet<u32>,
    made: u32,
    /// How often one came back that was renewed before.
    thefts: u32,
    renewals: u32,
    /// How often a login was taken away by a word that was about an earlier one.
    taken_away: u32,
    /// How often a renewal was claimed by a process that did not want one any more.
    abandoned: u32,
    /// Whether a process looks again at what it wants once it has read all of the log.
    looks_again: bool,
}

impl World {
    fn new() -> Self {
        let process = |at: usize| Process {
            machine: GrantKeeper::shared(Duration::from_millis(700 * at as u64)),
            told: 0,
            token: None,
            commands: Vec::new(),
            judged: Vec::new(),
            given: None,
            is_cut: false,
        };
        let processes = (0..PROCESSES).map(process).collect();
        Self {
            log: Vec::new(),
            processes,
            now: Instant::now(),
            spent: BTreeSet::new(),
            made: 0,
            thefts: 0,
            renewals: 0,
            taken_away: 0,
            abandoned: 0,
            looks_again: true,
        }
    }

    fn life(&self) -> TokenLife {
        TokenLife { ends: Some(self.now + Duration::from_secs(LIFE)), is_renewable: true }
    }

    fn on(&mut self, at: usize, event: GrantEvent) {
        let process = &mut self.processes[at];
        let commands = process.machine.on(event, self.now);
        let words = commands.iter().filter(|command| matches!(command, GrantCommand::Tell(_)));
        process.judged.extend(words.map(|_| process.token));
        process.commands.extend(commands);
    }

    /// One more entry is read.
    fn tell(&mut self, at: usize) -> bool {
        let process = &mut self.processes[at];
        let Some(said) = self.log.get(process.told).copied().filter(|_| !process.is_cut) else { return false };
        process.told += 1;
        let n = process.told;
        process.given = process.given.filter(|(_, base)| base.is_none_or(|base| base == n));
        let event = match said {
            Said::Needed(reason) => {
                process.token = None;
                GrantEvent::Needed(reason)
            }
            Said::Granted(token, _) if process.token == Some(token) => return true,
            Said::Granted(token, _) => {
                process.token = Some(token);
                GrantEvent::Restored(self.life())
            }
        };
        self.on(at, event);
        true
    }

    fn read_all(&mut self, at: usize) -> bool {
        while self.tell(at) {}
        !self.processes[at].is_cut
    }

    fn write(&mut self, at: usize, base: Option<usize>, said: Said) -> bool {
        if self.processes[at].is_cut || base.is_some_and(|base| base != self.log.len()) {
            return false;
        }
        self.log.push(said);
        self.read_all(at)
    }

    /// The next thing that a process wants done is.
    fn work(&mut self, at: usize) {
        if self.processes[at].commands.is_empty() {
            return;
        }
        match self.processes[at].commands.remove(0) {
            GrantCommand::Claim(attempt) => {
                let outcome = self.claim(at, attempt);
                self.on(at, GrantEvent::Claim(attempt, outcome));
            }
            GrantCommand::Renew(attempt) => self.renew(at, attempt),
            GrantCommand::Save => {
                let saved = match self.processes[at].given {
                    None => true,
                    Some(_) if self.processes[at].is_cut => false,
                    Some((token, base)) => {
                        self.write(at, base, Said::Granted(token, None));
                        self.read_all(at);
                        self.processes[at].given = None;
                        true
                    }
                };
                self.on(at, if saved { GrantEvent::Saved } else { GrantEvent::SaveFailed });
            }
            GrantCommand::Tell(reason) => {
                let judged = self.processes[at].judged.remove(0);
                self.tell_need(at, reason, judged);
            }
            GrantCommand::Discover => self.on(at, GrantEvent::Discovered { by_machine: false }),
            GrantCommand::Use(_) | GrantCommand::Withdraw => {}
        }
    }

    fn tell_need(&mut self, at: usize, reason: LoginReason, judged: Option<u32>) {
        let is_read = self.read_all(at);
        let by_another = matches!(self.log.last(), Some(Said::Granted(_, Some(by))) if *by != at);
        if is_read && self.looks_again && self.processes[at].machine.state() != GrantState::NeedsLogin(reason) {
            return;
        }
        if !is_read || by_another {
            return self.on(at, GrantEvent::Untold);
        }
        // One that was renewed since is no login any more: what came of it may not have been written yet.
        let is_good = |token: u32| Some(token) != judged && !self.spent.contains(&token);
        let is_about_another = matches!(self.log.last(), Some(Said::Granted(token, _)) if is_good(*token));
        self.taken_away += u32::from(is_about_another);
        self.write(at, Some(self.log.len()), Said::Needed(reason));
    }

    fn claim(&mut self, at: usize, attempt: u64) -> ClaimOutcome {
        if !self.read_all(at) {
            return ClaimOutcome::Unreached;
        }
        if self.looks_again && !self.processes[at].machine.is_claiming(attempt) {
            return ClaimOutcome::Elsewhere;
        }
        let (Some(token), told) = (self.processes[at].token, self.processes[at].told) else {
            return ClaimOutcome::Elsewhere;
        };
        match self.log.last() {
            Some(Said::Granted(_, Some(by))) if *by == at => return ClaimOutcome::Granted,
            Some(Said::Granted(_, Some(_))) => return ClaimOutcome::Elsewhere,
            _ => {}
        }
        match self.write(at, Some(told), Said::Granted(token, Some(at))) {
            true => {
                self.abandoned += u32::from(!self.processes[at].machine.is_claiming(attempt));
                ClaimOutcome::Granted
            }
            false => ClaimOutcome::Elsewhere,
        }
    }

    fn renew(&mut self, at: usize, attempt: u64) {
        let process = &self.processes[at];
        let Some(token) = process.token.filter(|_| process.machine.is_renewing(attempt)) else {
            return self.on(at, GrantEvent::RenewalFailed(attempt, RenewalFault::Rejected));
        };
        self.renewals += 1;
        if !self.spent.insert(token) {
            self.thefts += 1;
            return self.on(at, GrantEvent::RenewalFailed(attempt, RenewalFault::Rejected));
        }
        self.made += 1;
        let life = self.life();
        let process = &mut self.processes[at];
        process.token = Some(self.made);
        process.given = Some((self.made, Some(process.told)));
        self.on(at, GrantEvent::Renewed(attempt, life));
    }

    fn log_in(&mut self, at: usize) {
        if self.processes[at].is_cut {
            return;
        }
        self.made += 1;
        let life = self.life();
        self.processes[at].token = Some(self.made);
        self.processes[at].given = Some((self.made, None));
        self.on(at, GrantEvent::LoggedIn(life));
        // Its task does nothing else meanwhile.
        while !self.processes[at].commands.is_empty() {
            self.work(at);
        }
    }

    fn log_out(&mut self, at: usize) {
        if self.read_all(at) && self.processes[at].token.is_some() {
            self.write(at, None, Said::Needed(LoginReason::Never));
        }
    }

    /// Everybody is there, and nothing happens any more but that time goes by.
    fn settle(&mut self) {
        for round in 0..200 {
            for at in 0..PROCESSES {
                self.processes[at].is_cut = false;
                self.read_all(at);
                while !self.processes[at].commands.is_empty() {
                    self.work(at);
                }
                self.read_all(at);
            }
            let end = self.log.len();
            let is_busy = |process: &Process| {
                matches!(process.machine.state(), GrantState::Busy | GrantState::Unavailable)
                    || process.machine.is_unsaved()
                    || process.told < end
            };
            if round > 3 && !self.processes.iter().any(is_busy) {
                return;
            }
            self.now += Duration::from_secs(1);
            (0..PROCESSES).for_each(|at| self.on(at, GrantEvent::Time));
        }
    }
}

// cluster: grants
#[test]
fn of_three_that_are_refused_with_one_token_one_renews_and_all_use_what_it_is_given() {
    let mut world = World::new();
    world.log_in(0);
    world.settle();
    world.now += Duration::from_secs(30);
    for at in 0..PROCESSES {
        let GrantState::Valid(used) = world.processes[at].machine.state() else { panic!("{at} is not logged in") };
        world.on(at, GrantEvent::Refused(Some(used)));
    }
    world.settle();
    assert_eq!((world.renewals, world.thefts), (1, 0));
    assert!(world.processes.iter().all(|process| process.token == Some(2)));
}

// cluster: grants
#[test]
fn one_that_is_cut_off_renews_nothing_and_keeps_what_it_has() {
    let mut world = World::new();
    world.log_in(0);
    world.settle();
    world.processes[1].is_cut = true;
    world.now += Duration::from_secs(LIFE - 20);
    world.on(1, GrantEvent::Time);
    world.work(1);
    assert_eq!(world.processes[1].machine.state(), GrantState::Unavailable);
    assert!(world.processes[1].machine.is_newer_than(None), "its token is good for a while");
    world.on(0, GrantEvent::Time);
    world.settle();
    assert_eq!((world.renewals, world.thefts), (1, 0));
    assert!(world.processes.iter().all(|process| process.token == Some(2)));
}

// cluster: grants
#[test]
fn a_logout_is_one_everywhere_and_what_is_renewed_meanwhile_is_of_no_use() {
    let mut world = World::new();
    world.log_in(0);
    world.settle();
    world.now += Duration::from_secs(30);
    world.on(0, GrantEvent::Refused(Some(1)));
    world.work(0);
    // Claimed, and the provider is being asked.
    world.log_out(2);
    world.work(0);
    world.settle();
    for process in &world.processes {
        assert_eq!(process.machine.state(), GrantState::NeedsLogin(LoginReason::Never));
    }
}

// cluster: grants
#[test]
fn of_tokens_that_end_at_once_each_is_used_for_a_second_at_least_wherever_it_is_read() {
    let mut machine = GrantKeeper::shared(Duration::from_secs(3));
    let now = Instant::now();
    let ended = TokenLife { ends: Some(now), is_renewable: true };
    // After a start nothing is known of it, and nothing is sent with it.
    assert_eq!(machine.on(GrantEvent::Restored(ended), now), [GrantCommand::Claim(1)]);
    for generation in 1..4 {
        assert_eq!(machine.on(GrantEvent::LoggedIn(ended), now), [GrantCommand::Save]);
        assert_eq!(machine.on(GrantEvent::Saved, now), [GrantCommand::Use(2 * generation - 1)]);
        assert_eq!(machine.on(GrantEvent::Restored(ended), now), [GrantCommand::Use(2 * generation)]);
        assert_eq!(machine.next_deadline(), Some(now + Duration::from_secs(1)));
    }
    // One that is refused has ended: that it has just come says nothing about the next one.
    assert_eq!(machine.on(GrantEvent::Refused(Some(6)), now), [GrantCommand::Claim(2)]);
    assert_eq!(machine.on(GrantEvent::Claim(2, ClaimOutcome::Granted), now), [GrantCommand::Renew(2)]);
}

/// Two processes are logged in, and the first one wants something while the second one writes another login.
fn overtaken(looks_again: bool, is_fresh: bool) -> World {
    let mut world = World { looks_again, ..World::new() };
    for _ in 0..2 {
        world.log_in(0);
        world.settle();
    }
    world.now += Duration::from_secs(if is_fresh { 0 } else { 30 });
    let GrantState::Valid(used) = world.processes[0].machine.state() else { panic!("it is logged in") };
    world.on(0, GrantEvent::Refused(Some(used)));
    if is_fresh {
        // The claim: what was just given is refused, so a person has to log in. That is to be told yet.
        world.work(0);
        assert_eq!(world.processes[0].machine.state(), GrantState::NeedsLogin(LoginReason::FreshRefused));
    }
    world.log_in(1);
    while !world.processes[0].commands.is_empty() {
        world.work(0);
    }
    world
}

// cluster: grants
#[test]
fn what_was_wanted_before_a_login_elsewhere_was_read_neither_takes_it_away_nor_claims_it() {
    for is_fresh in [true, false] {
        let mut world = overtaken(true, is_fresh);
        world.settle();
        assert_eq!((world.taken_away, world.abandoned), (0, 0));
        assert_eq!(world.log.last(), Some(&Said::Granted(3, None)));
        assert!(world.processes.iter().all(|process| process.token == Some(3)));
    }
    // And this would be seen here if it were so.
    let blind = [overtaken(false, true), overtaken(false, false)];
    assert_eq!(blind.map(|world| (world.taken_away, world.abandoned)), [(1, 0), (0, 1)]);
}

proptest! {
    // Nobody dies here: so no token is ever sent twice.
    #[test]
    fn no_order_of_events_sends_a_token_twice(script in prop::collection::vec((0..PROCESSES, 0..14_u8, 0..40_u64), 1..250)) {
        let mut world = World::new();
        world.log_in(0);
        for (at, what, pause) in script {
            match what {
                0 => world.log_in(at),
                1 => world.log_out(at),
                2 => world.processes[at].is_cut = true,
                3 => world.processes[at].is_cut = false,
                4 | 5 => {
                    if let GrantState::Valid(used) = world.processes[at].machine.state() {
                        world.on(at, GrantEvent::Refused(Some(used)));
                    }
                }
                6 => {
                    world.now += Duration::from_secs(pause);
                    (0..PROCESSES).for_each(|at| world.on(at, GrantEvent::Time));
                }
                7 => { world.tell(at); }
                8 => {
                    world.on(at, GrantEvent::Restart);
                    let process = &world.processes[at];
                    if process.machine.state() == GrantState::Open && process.token.is_some() {
                        let life = world.life();
                        world.on(at, GrantEvent::Restored(life));
                    }
                }
                _ => world.work(at),
            }
            prop_assert_eq!((world.thefts, world.taken_away, world.abandoned), (0, 0, 0));
        }
        world.settle();
        prop_assert_eq!((world.thefts, world.taken_away, world.abandoned), (0, 0, 0));
        let last = match world.log.last() { Some(Said::Granted(token, _)) => Some(*token), _ => None };
        for process in &world.processes {
            prop_assert_eq!(process.token, last, "{:?}: {:?}", process.machine, world.log);
            prop_assert_eq!(matches!(process.machine.state(), GrantState::Valid(_)), last.is_some());
        }
    }
}
