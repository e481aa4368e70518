//! The keeper of a grant as stories, and as properties of any order of events.

use std::time::{Duration, Instant};

use proptest::prelude::*;
use tidings_hub::grant_keeper::*;

/// The machine beside a provider that rotates refresh tokens, and what must hold after every event.
struct Bench {
    machine: GrantKeeper,
    now: Instant,
    /// The renewal that is under way.
    renewing: Option<u64>,
    saving: bool,
    used: Option<u64>,
    /// How many tokens were saved, and how many are known: one that was never given to the store is never used.
    unsaved: bool,
    renewals: u32,
    discoveries: u32,
}

impl Bench {
    fn new() -> Self {
        let machine = GrantKeeper::default();
        let now = Instant::now();
        Self { machine, now, renewing: None, saving: false, used: None, unsaved: false, renewals: 0, discoveries: 0 }
    }

    /// Logged in, with a token of an hour.
    fn logged_in() -> Self {
        let mut bench = Self::new();
        let life = bench.life(3_600);
        assert_eq!(bench.on(GrantEvent::LoggedIn(life)), [GrantCommand::Save]);
        assert_eq!(bench.on(GrantEvent::Saved), [GrantCommand::Use(1)]);
        bench
    }

    fn life(&self, seconds: u64) -> TokenLife {
        TokenLife { ends: Some(self.now + Duration::from_secs(seconds)), is_renewable: true }
    }

    fn wait(&mut self, seconds: u64) -> &mut Self {
        self.now += Duration::from_secs(seconds);
        self
    }

    fn on(&mut self, event: GrantEvent) -> Vec<GrantCommand> {
        match event {
            GrantEvent::Renewed(attempt, _) | GrantEvent::RenewalFailed(attempt, _)
                if self.renewing == Some(attempt) =>
            {
                self.renewing = None;
            }
            GrantEvent::Saved | GrantEvent::SaveFailed => self.saving = false,
            _ => {}
        }
        if matches!(event, GrantEvent::Saved | GrantEvent::SaveFailed) {
            self.unsaved = false;
        }
        let commands = self.machine.on(event, self.now);
        for command in &commands {
            match command {
                GrantCommand::Renew(attempt) => {
                    assert!(self.renewing.is_none_or(|other| other < *attempt), "numbers only grow");
                    self.renewing = Some(*attempt);
                    self.renewals += 1;
                }
                GrantCommand::Save => {
                    (self.saving, self.unsaved) = (true, true);
                }
                GrantCommand::Use(generation) => {
                    assert!(!self.unsaved, "saved before it is used");
                    assert!(self.used.is_none_or(|used| used < *generation), "numbers only grow");
                    self.used = Some(*generation);
                }
                GrantCommand::Withdraw => self.used = self.used.filter(|_| false),
                GrantCommand::Discover => self.discoveries += 1,
                GrantCommand::Claim(_) | GrantCommand::Tell(_) => panic!("{command:?}: there is nobody else"),
            }
        }
        if let GrantState::Valid(generation) = self.machine.state() {
            assert_eq!(self.used, Some(generation));
        }
        if matches!(self.machine.state(), GrantState::NeedsLogin(_)) {
            assert!(!self.machine.is_newer_than(None), "nothing is sent that is known to be refused");
        }
        commands
    }
}

// identity 8.5
#[test]
fn a_thousand_refusals_of_one_token_are_one_renewal() {
    let mut bench = Bench::logged_in();
    bench.wait(60);
    assert_eq!(bench.on(GrantEvent::Refused(Some(1))), [GrantCommand::Renew(1)]);
    for _ in 0..999 {
        assert_eq!(bench.on(GrantEvent::Refused(Some(1))), []);
        assert_eq!(bench.machine.state(), GrantState::Busy);
    }
    let life = bench.life(3_600);
    assert_eq!(bench.on(GrantEvent::Renewed(1, life)), [GrantCommand::Save]);
    assert_eq!(bench.on(GrantEvent::Saved), [GrantCommand::Use(2)]);
    for _ in 0..999 {
        assert_eq!(bench.on(GrantEvent::Refused(Some(1))), [], "of an older token");
        assert!(bench.machine.is_newer_than(Some(1)));
    }
    assert_eq!(bench.renewals, 1);
}

#[test]
fn a_token_is_renewed_before_its_end_and_stays_in_use_until_then() {
    let mut bench = Bench::logged_in();
    assert_eq!(bench.machine.next_deadline(), Some(bench.now + Duration::from_secs(3_570)));
    assert_eq!(bench.wait(3_570).on(GrantEvent::Time), [GrantCommand::Renew(1)]);
    assert_eq!(bench.used, Some(1), "the old one is good for another half minute");
    let life = bench.life(10);
    bench.on(GrantEvent::Renewed(1, life));
    bench.on(GrantEvent::Saved);
    assert_eq!(bench.machine.next_deadline(), Some(bench.now + Duration::from_secs(5)), "half of a short life");
}

// identity 8.6
#[test]
fn a_rejected_renewal_is_one_request_and_then_a_login() {
    let mut bench = Bench::logged_in();
    bench.wait(60).on(GrantEvent::Refused(Some(1)));
    let said = bench.on(GrantEvent::RenewalFailed(1, RenewalFault::Rejected));
    assert_eq!(said, [GrantCommand::Withdraw]);
    assert_eq!(bench.machine.state(), GrantState::NeedsLogin(LoginReason::Rejected));
    for _ in 0..100 {
        assert_eq!(bench.wait(60).on(GrantEvent::Refused(None)), []);
        assert_eq!(bench.on(GrantEvent::Time), []);
    }
    assert_eq!((bench.renewals, bench.machine.next_deadline()), (1, None), "a state, and not a loop");
}

// identity 8.6
#[test]
fn a_provider_that_is_away_for_ten_minutes_is_asked_at_most_ten_times() {
    let mut bench = Bench::logged_in();
    bench.wait(60).on(GrantEvent::Refused(Some(1)));
    let end = bench.now + Duration::from_secs(600);
    while let Some(attempt) = bench.renewing {
        bench.on(GrantEvent::RenewalFailed(attempt, RenewalFault::Unavailable(None)));
        assert_eq!(bench.machine.state(), GrantState::Unavailable);
        let Some(due) = bench.machine.next_deadline() else { panic!("it is asked again") };
        if due > end {
            break;
        }
        bench.now = due;
        bench.on(GrantEvent::Time);
    }
    assert!(bench.renewals <= 10, "{}", bench.renewals);
}

#[test]
fn retry_after_is_heeded_within_reason() {
    let mut bench = Bench::logged_in();
    bench.wait(60).on(GrantEvent::Refused(Some(1)));
    let asked = RenewalFault::Unavailable(Some(Duration::from_secs(90)));
    bench.on(GrantEvent::RenewalFailed(1, asked));
    assert_eq!(bench.machine.next_deadline(), Some(bench.now + Duration::from_secs(90)));
    bench.wait(90).on(GrantEvent::Time);
    let days = RenewalFault::Unavailable(Some(Duration::from_secs(1_000_000)));
    bench.on(GrantEvent::RenewalFailed(2, days));
    assert_eq!(bench.machine.next_deadline(), Some(bench.now + Duration::from_secs(300)));
}

#[test]
fn a_fresh_token_that_is_refused_asks_for_a_login_and_not_for_another_token() {
    let mut bench = Bench::logged_in();
    bench.wait(60).on(GrantEvent::Refused(Some(1)));
    let life = bench.life(3_600);
    bench.on(GrantEvent::Renewed(1, life));
    bench.on(GrantEvent::Saved);
    assert_eq!(bench.wait(1).on(GrantEvent::Refused(Some(2))), [GrantCommand::Withdraw]);
    assert_eq!(bench.machine.state(), GrantState::NeedsLogin(LoginReason::FreshRefused));
}

#[test]
fn a_restored_token_that_has_ended_is_renewed_before_anything_is_sent() {
    let mut bench = Bench::new();
    let life = TokenLife { ends: Some(bench.now), is_renewable: true };
    assert_eq!(bench.on(GrantEvent::Restored(life)), [GrantCommand::Renew(1)]);
    let mut bench = Bench::new();
    let life = TokenLife { ends: Some(bench.now), is_renewable: false };
    assert_eq!(bench.on(GrantEvent::Restored(life)), []);
    assert_eq!(bench.machine.state(), GrantState::NeedsLogin(LoginReason::Ended));
}

#[test]
fn what_can_not_be_saved_is_used_and_saved_later() {
    let mut bench = Bench::new();
    let life = bench.life(3_600);
    bench.on(GrantEvent::LoggedIn(life));
    assert_eq!(bench.on(GrantEvent::SaveFailed), [GrantCommand::Use(1)]);
    assert!(bench.machine.is_unsaved());
    assert_eq!(bench.wait(1).on(GrantEvent::Time), [GrantCommand::Save]);
    assert_eq!(bench.on(GrantEvent::Saved), []);
    assert!(!bench.machine.is_unsaved());
}

#[test]
fn a_server_without_a_provider_is_not_asked_for_one_all_the_time() {
    let mut bench = Bench::new();
    assert_eq!(bench.on(GrantEvent::Refused(None)), [GrantCommand::Discover]);
    bench.on(GrantEvent::NothingThere);
    for _ in 0..100 {
        assert_eq!(bench.wait(2).on(GrantEvent::Refused(None)), []);
    }
    assert_eq!(bench.wait(300).on(GrantEvent::Refused(None)), [GrantCommand::Discover]);
}

#[test]
fn a_machine_gets_its_token_without_a_person() {
    let mut bench = Bench::new();
    bench.on(GrantEvent::Refused(None));
    assert_eq!(bench.on(GrantEvent::Discovered { by_machine: true }), [GrantCommand::Renew(1)]);
}

#[test]
fn a_login_overtakes_a_renewal() {
    let mut bench = Bench::logged_in();
    bench.wait(60).on(GrantEvent::Refused(Some(1)));
    let life = bench.life(3_600);
    assert_eq!(bench.on(GrantEvent::LoggedIn(life)), [GrantCommand::Save]);
    assert_eq!(bench.on(GrantEvent::Renewed(1, life)), [], "the token of a grant that is no longer the one");
    assert_eq!(bench.on(GrantEvent::Saved), [GrantCommand::Use(2)]);
}

fn events() -> impl Strategy<Value = Vec<(u64, u8)>> {
    prop::collection::vec((0..120_u64, 0..14_u8), 1..200)
}

proptest! {
    // Whatever happens in whatever order: one renewal at a time, nothing is used before it was given to the store, numbers of tokens
    // only grow, and nothing is sent while a login is missing. `Bench::on` asserts all of it.
    #[test]
    fn any_order_of_events_keeps_one_owner(script in events()) {
        let mut bench = Bench::new();
        for (pause, what) in script {
            bench.wait(pause);
            let life = bench.life(40 * (u64::from(what) + 1));
            let generation = bench.used;
            let event = match what {
                0 => GrantEvent::LoggedIn(life),
                1 => GrantEvent::LoggedOut,
                2 | 3 => GrantEvent::Refused(generation),
                4 => GrantEvent::Refused(None),
                5 => GrantEvent::Discovered { by_machine: pause % 2 == 0 },
                6 => GrantEvent::NothingThere,
                7 => GrantEvent::DiscoveryFailed,
                8 | 9 => match bench.renewing { Some(attempt) => GrantEvent::Renewed(attempt, life), None => GrantEvent::Time },
                10 => match bench.renewing {
                    Some(attempt) => GrantEvent::RenewalFailed(attempt, RenewalFault::Unavailable(None)),
                    None => GrantEvent::Time,
                },
                11 if bench.saving => GrantEvent::Saved,
                12 if bench.saving => GrantEvent::SaveFailed,
                13 => GrantEvent::Restart,
                _ => GrantEvent::Time,
            };
            bench.on(event);
            if bench.machine.next_deadline().is_some_and(|due| due < bench.now) {
                // Told late, it must not hang: what is due is done, or another time is named.
                bench.on(GrantEvent::Time);
            }
            let is_late = bench.machine.next_deadline().is_some_and(|due| due < bench.now);
            prop_assert!(!is_late);
        }
    }
}
